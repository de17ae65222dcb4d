"""calibrant plan."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import add_command, fraction, whole_number

EXAMPLES = """
calibrant plan --max-error 0.02 --n-bins 20
calibrant plan --rows 5000 --n-bins 20
calibrant plan --max-error 0.02 --n-bins 20 --looks 2
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "plan",
        run,
        "say how many rows a certificate needs",
        EXAMPLES,
        "Give the error to certify, or the rows there are.",
    )
    question = command.add_mutually_exclusive_group(required=True)
    question.add_argument(
        "--max-error", metavar="ERROR", type=fraction, help="the error to certify: how many rows?"
    )
    question.add_argument(
        "--rows",
        metavar="N",
        type=whole_number,
        help="the rows there are: how small an error can they certify?",
    )
    command.add_argument(
        "--n-bins",
        metavar="N",
        type=whole_number,
        required=True,
        help="how many outputs the model has",
    )
    command.add_argument(
        "--true-error",
        metavar="ERROR",
        type=float,
        default=0.0,
        help="what the error really is (default 0)",
    )
    command.add_argument(
        "--power",
        type=fraction,
        default=0.9,
        help="probability of obtaining the certificate (default 0.9)",
    )
    command.add_argument(
        "--confidence-level",
        metavar="LEVEL",
        type=fraction,
        default=0.95,
        help="of the certificate (default 0.95)",
    )
    command.add_argument(
        "--looks",
        metavar="K",
        type=whole_number,
        default=1,
        help="how often the rows will be certified as they grow (default 1)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from calibrant import stats

    options = {
        "true_error": args.true_error,
        "power": args.power,
        "confidence_level": args.confidence_level,
        "looks": args.looks,
    }
    rows, max_error = args.rows, args.max_error
    if rows is None:
        rows = stats.samples_to_certify(max_error, args.n_bins, **options)
    else:
        max_error = stats.smallest_certifiable_error(rows, args.n_bins, **options)
    if args.json:
        say_json({"rows": rows, "max_error": max_error, "n_bins": args.n_bins, **options})
    else:
        looks = f", in one look of {args.looks:,}" if args.looks > 1 else ""
        say(
            f"{rows:,} rows certify an error of at most {max_error:.4g} with probability "
            f"{args.power:g}, if the model has {args.n_bins:,} outputs and its error is "
            f"{args.true_error:g}{looks}."
        )
    return OK
