"""calibrant merge."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import add_command, add_option

EXAMPLES = """
calibrant merge day1.json day2.json -o week.json
calibrant merge 'day*.json' -o week.json
"""
NOTES = """
Tables come from `calibrant measure --table`. They must have the same bins: --bins width:N, or
the bins of one table. The sum is the table of all rows; its error is printed. A file that is
named twice counts once. Tables of groups (`measure --by`) are added group by group. `measure`,
`certify` and `report` take tables in place of rows too.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "merge", run, "add saved tables", EXAMPLES, NOTES)
    command.add_argument("files", nargs="+", metavar="FILE", help="tables, or patterns in quotes")
    add_option(command, "--output", required=True, help="the sum")
    add_option(command, "--json", help="print its error as JSON")


def run(args: argparse.Namespace) -> int:
    """Add the tables and save the sum."""
    from calibrant import stats
    from calibrant._writing import write_whole
    from calibrant.cli.input import check_reads_no_output, sum_of
    from calibrant.sources.files.streams import expand
    from calibrant.tables import Tables

    paths = expand(args.files)
    check_reads_no_output(args.files, paths, args.output)
    merged = sum_of(paths)
    write_whole(args.output, merged.to_json())
    result: stats.CalibrationErrorResult | stats.GroupErrors
    if isinstance(merged, Tables):
        result = stats.group_errors(merged)
    else:
        result = stats.calibration_error(merged)
    if args.json:
        say_json(result.to_dict() | {"tables": len(paths)})
        return OK
    say(str(result))
    tables = "1 table" if len(paths) == 1 else f"{len(paths):,} tables"
    say(f"{tables}, {merged.n:,} rows written to {args.output}")
    return OK
