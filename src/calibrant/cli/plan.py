"""calibrant plan."""

from __future__ import annotations

import argparse
from typing import Any

from calibrant.cli import OK
from calibrant.cli.apply import read_levels
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import add_command, add_options, fraction, whole_number

EXAMPLES = """
calibrant plan --max-error 0.02 --n-bins 20
calibrant plan --max-error 0.02 --levels cal.json
calibrant plan --rows 5000 --n-bins 20
calibrant plan --max-error 0.02 --n-bins 20 --looks 2
calibrant plan --max-error 0.1 --n-bins 20 --norm max
"""

_ERRORS = {"l1": "an l1 error", "l2": "an error", "max": "a largest error"}


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands,
        "plan",
        run,
        "compute how many rows a certificate needs",
        EXAMPLES,
        "Give the error to certify, or the number of rows.",
    )
    question = command.add_mutually_exclusive_group(required=True)
    add_options(question, "--max-error", max_error="the error to certify: how many rows?")
    question.add_argument(
        "--rows",
        metavar="N",
        type=whole_number,
        help="the number of rows: how small an error can they certify?",
    )
    outputs = command.add_mutually_exclusive_group(required=True)
    outputs.add_argument(
        "--n-bins", metavar="N", type=whole_number, help="how many outputs the model has"
    )
    add_options(outputs, "--levels")
    add_options(command, "--norm")
    command.add_argument(
        "--true-error",
        metavar="ERROR",
        type=float,
        default=0.0,
        help="the true error (default 0)",
    )
    command.add_argument(
        "--power",
        type=fraction,
        default=0.9,
        help="probability of obtaining the certificate (default 0.9)",
    )
    add_options(
        command,
        *("--confidence-level", "--looks"),
        confidence_level="of the certificate (default 0.95)",
        looks="how often the rows will be certified as they grow (default 1)",
    )
    command.add_argument(
        "--balanced",
        action="store_true",
        help="every output will be known to have a share of at least 1 / (2 N): --min-bin-mass",
    )
    add_options(command, "--json")


def run(args: argparse.Namespace) -> int:
    """Plan and print."""
    from calibrant import stats
    from calibrant._results import filled

    names = ("norm", "true_error", "power", "confidence_level", "looks", "balanced")
    options = {name: getattr(args, name) for name in names}
    outputs = read_levels(args.levels)
    rows, max_error, n_bins = args.rows, args.max_error, args.n_bins
    if rows is None:
        rows = stats.samples_to_certify(max_error, n_bins, levels=outputs, **options)
    else:
        max_error = stats.smallest_certifiable_error(rows, n_bins, levels=outputs, **options)
    document = {"rows": rows, "max_error": max_error, "n_bins": n_bins, **options}
    if outputs is not None:
        distinct = [*dict.fromkeys(outputs)]  # repeated levels are one output
        n_bins = len(distinct)
        document |= {"n_bins": n_bins, "levels": distinct}
    if args.json:
        say_json(document)
    else:
        looks = f", in one look of {args.looks:,}" if args.looks > 1 else ""
        sentence = (
            f"{rows:,} rows certify {_ERRORS[args.norm]} of at most {max_error:.4g} with "
            f"probability {args.power:g}, if the model has {n_bins:,} outputs and its error is "
            f"{args.true_error:g}{looks}."
        )
        say(filled(sentence))
    return OK
