"""calibrant audit."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli.input import add_log_argument, predictions
from calibrant.cli.output import ProgressLine
from calibrant.cli.parser import (
    add_cluster_argument,
    add_command,
    add_data_arguments,
    add_group_argument,
)
from calibrant.cli.verdicts import (
    Outcome,
    add_answer_arguments,
    add_question_arguments,
    answer,
    question,
    reported,
)

EXAMPLES = """
calibrant audit preds.parquet --y-true label --y-prob score --by sex site --max-error 0.05
calibrant audit preds.csv --y-true label --y-prob score --by age=0,40,65,120 --max-error 0.05
calibrant audit week.json --max-error 0.05
"""
NOTES = """
Exit codes: 0 all groups certified, 1 some refuted, 2 undecided (too few rows, or continuous
outputs, which can be refuted and never certified).

With the requested confidence, all verdicts are right together, however many groups there are: each
gets an equal share of the error probability. p-values are against perfect calibration,
adjusted by Holm's method. Groups that could not be certified even if they were calibrated
are reported as too small, with the number of rows they need.

Tables of groups saved by `measure --by --table` or `merge` can be given instead of rows.
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
    add_question_arguments(command, "0.05")
    add_answer_arguments(command, "what is printed as JSON")


def run(args: argparse.Namespace) -> int:
    """Audit, print and return the verdict as exit code."""
    return reported(args, lambda: _run(args))


def _run(args: argparse.Namespace) -> Outcome:
    from calibrant.audits import audit
    from calibrant.groups import shown_key

    with predictions(args) as given, ProgressLine() as line:

        def show(share: float) -> None:
            if line.is_due():
                line.draw("auditing ", share, "of the groups")

        result = audit(**given, **question(args), progress=show)
    groups = [(shown_key(one.group), one.verdict, str(one)) for one in result.groups]
    return answer(args, result, str(result), groups)
