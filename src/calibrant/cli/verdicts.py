"""What commands that end with a verdict share: the question, its answer and the exit code."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from calibrant.cli import OK, REFUTED, UNDECIDED
from calibrant.cli.junit import Outcome, add_junit_argument
from calibrant.cli.output import emit, say
from calibrant.cli.parser import NORMS, fraction

EXIT = {"certified": OK, "refuted": REFUTED, "undecided": UNDECIDED}


def add_question_arguments(command: argparse.ArgumentParser, example: str) -> None:
    """Add --max-error, --norm and --target."""
    command.add_argument(
        "--max-error",
        metavar="ERROR",
        type=fraction,
        required=True,
        help=f"the largest error that passes, such as {example}",
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


def question(args: argparse.Namespace) -> dict[str, Any]:
    """Return what `add_question_arguments` and --confidence-level were set to."""
    names = ("max_error", "norm", "confidence_level", "target")
    return {name: getattr(args, name) for name in names}


def add_answer_arguments(command: argparse.ArgumentParser, what: str) -> None:
    """Add --output, --junit and --json."""
    command.add_argument("-o", "--output", metavar="FILE", help=f"save {what}")
    add_junit_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def answer(
    args: argparse.Namespace,
    result: Any,
    text: str,
    groups: Sequence[tuple[str, str | None, str]] = (),
) -> Outcome:
    """Save and print a result, as the text or as JSON, and return how the command ends."""
    from calibrant._writing import write_whole

    if args.output:
        write_whole(args.output, result.to_json())
    if args.json:
        emit(result.to_json())
    else:
        say(text)
    return Outcome(EXIT[result.verdict or "undecided"], result.verdict, text, groups)
