"""calibrant validate."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK
from calibrant.cli.input import add_log_argument, predictions
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import (
    add_cluster_argument,
    add_command,
    add_data_arguments,
    add_group_argument,
)

EXAMPLES = """
calibrant validate preds.csv --y-true died --y-prob risk
calibrant validate preds.parquet --y-true died --y-prob risk --by hospital --json
calibrant validate preds.parquet --y-true died --y-prob risk --cluster patient
calibrant validate preds.csv --y-true died --y-prob risk --latex > table.tex
"""
NOTES = """
One table of what reports of risk models ask for, each line with its interval: observed over
expected events, calibration in the large, intercept and slope, ICI, E50, E90 and Emax, the
C statistic, Brier and scaled Brier score, log loss, smooth ECE and the debiased l2 error. Few
events, or events that a threshold separates, have Firth's correction; a note says so.

All rows are held in memory. --bins are those of the l2 error.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "validate",
        run,
        "validate predicted risks: calibration, discrimination and scores, with intervals",
        EXAMPLES,
        NOTES,
    )
    add_data_arguments(command)
    add_log_argument(command)
    add_group_argument(command)
    add_cluster_argument(command)
    command.add_argument("--sample-weight", metavar="COLUMN", help="the column of row weights")
    form = command.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--latex", action="store_true", help="print a LaTeX table")


def run(args: argparse.Namespace) -> int:
    """Validate and print."""
    from calibrant.validation import validate

    with predictions(args) as given:
        result: Any = validate(**given, confidence_level=args.confidence_level)
    if args.json:
        say_json(result.to_dict())
    else:
        say(result.to_latex() if args.latex else str(result))
    return OK
