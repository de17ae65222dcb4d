"""calibrant merge."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.parser import add_command
from calibrant.cli.terminal import say

if TYPE_CHECKING:
    from calibrant.table import BinTable

EXAMPLES = """
calibrant merge day1.json day2.json -o week.json
calibrant merge 'day*.json' -o week.json
"""
NOTES = """
Tables come from `calibrant measure --table`. They must have the same bins: --bins width:N, or
the bins of one table. The sum is the table of all rows; its error is printed. A file that is
named twice counts once.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(commands, "merge", run, "add tables of sums", EXAMPLES, NOTES)
    command.add_argument("files", nargs="+", metavar="FILE", help="tables, or patterns in quotes")
    command.add_argument("-o", "--output", metavar="FILE", required=True, help="the sum")


def run(args: argparse.Namespace) -> int:
    """Add the tables and save the sum."""
    from calibrant import stats
    from calibrant.cli.messages import about
    from calibrant.files import expand, write_whole

    paths = expand(args.files)
    with about(paths[0]):
        merged = _read(paths[0])
    for path in paths[1:]:
        with about(path):
            merged += _read(path)
    write_whole(args.output, merged.to_json())
    say(str(stats.calibration_error(merged)))
    tables = "1 table" if len(paths) == 1 else f"{len(paths):,} tables"
    say(f"{tables}, {merged.n:,} rows written to {args.output}")
    return OK


def _read(path: str) -> BinTable:
    from calibrant.table import BinTable

    return BinTable.from_json(Path(path).read_bytes())
