"""calibrant audit."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli.certify import EXIT
from calibrant.cli.input import (
    add_cluster_argument,
    add_data_arguments,
    add_group_argument,
    predictions,
)
from calibrant.cli.junit import add_junit_argument, reported
from calibrant.cli.logs import add_log_argument
from calibrant.cli.output import emit, say
from calibrant.cli.parser import NORMS, add_command, fraction

EXAMPLES = """
calibrant audit preds.parquet --y-true label --y-prob score --by sex site --max-error 0.05
calibrant audit preds.csv --y-true label --y-prob score --by age=0,40,65,120 --max-error 0.05
calibrant audit week.json --max-error 0.05
"""
NOTES = """
Exit codes: 0 all groups certified, 1 some refuted, 2 undecided (too few rows, or continuous
outputs, which can be refuted and never certified).

With the confidence that is asked for, none of the verdicts is wrong, however many groups there
are: each has an equal share of the error probability. p-values are against perfect calibration,
adjusted by Holm's method. Groups that could not be certified even if they were calibrated
are called too small, with the rows that they need.

Tables of groups that `measure --by --table` or `merge` saved stand in place of rows.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "audit",
        run,
        "certify or refute every group of rows, all at once",
        EXAMPLES,
        NOTES,
    )
    add_data_arguments(command, bins_help="bins instead of every distinct output")
    add_log_argument(command)
    add_group_argument(command)
    add_cluster_argument(command)
    command.add_argument(
        "--max-error",
        metavar="ERROR",
        type=fraction,
        required=True,
        help="the largest error that passes, such as 0.05",
    )
    command.add_argument(
        "--norm", choices=NORMS, default="l2", help="l1 (ECE), l2 or max (MCE) (default l2)"
    )
    command.add_argument(
        "--target",
        choices=("population", "sample"),
        default="population",
        help="the error in the population (the default), or on inputs like these rows",
    )
    command.add_argument("-o", "--output", metavar="FILE", help="save what is printed as JSON")
    add_junit_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Audit, print and return the verdict as exit code."""
    return reported(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> tuple[int, str | None, str]:
    from calibrant._writing import write_whole
    from calibrant.verify import audit

    options = {
        "max_error": args.max_error,
        "norm": args.norm,
        "confidence_level": args.confidence_level,
        "target": args.target,
    }
    with predictions(args) as given:
        result = audit(**given, **options)
    if args.output:
        write_whole(args.output, result.to_json())
    text = str(result)
    if args.json:
        emit(result.to_json())
    else:
        say(text)
    return EXIT[result.verdict or "undecided"], result.verdict, text
