"""calibrant compare."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.input import Arrays, add_data_arguments, opened, saved_table
from calibrant.cli.output import say, say_json
from calibrant.cli.parser import add_command, read_bins
from calibrant.exceptions import InvalidArgumentError, InvalidInputError, LengthMismatchError

if TYPE_CHECKING:
    from calibrant.stats import Comparison, TableComparison
    from calibrant.table import BinTable

EXAMPLES = """
calibrant compare a.csv b.csv --y-true label --y-prob score
calibrant compare preds.parquet --y-true label --y-prob old_score --versus new_score
calibrant compare preds.parquet --y-true label --y-prob 'old_*' --versus 'new_*' --json
calibrant compare last-week.json this-week.json
"""
NOTES = """
Two files with the same rows in the same order, or one file with the predictions of both models.
Differences are paired, so what both models share cancels. All rows are held in memory.

Two tables that `calibrant measure --table` saved are compared as tables of different, independent
rows: two weeks, say. Their calibration errors are compared, and no scores.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "compare", run, "compare two models on the same rows", EXAMPLES, NOTES
    )
    add_data_arguments(command)
    command.add_argument(
        "--versus",
        metavar="COLUMN",
        nargs="+",
        help="the predictions of model b, if not those of --y-prob",
    )
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from calibrant import stats, verify

    if len(args.files) > 2 or (len(args.files) == 1 and not args.versus):
        raise InvalidArgumentError(
            "Give two files, or one file and --versus with the columns of model b; "
            f"got {len(args.files)} {'file' if len(args.files) == 1 else 'files'}."
        )
    if tables := _tables(args):
        found = stats.compare_tables(*tables, confidence_level=args.confidence_level)
        return _show(found, args, [f"{name} = {file}" for name, file, _ in _legend(args)])
    a = _model(args, args.files[0], args.y_prob)
    b = _model(args, args.files[-1], args.versus, None if args.versus else a.columns)
    _check_same_rows(a, b, args)
    result = verify.compare(
        a.y_true,
        a.y_prob,
        b.y_prob,
        bins=read_bins(args.bins),
        confidence_level=args.confidence_level,
        **a.options,
    )
    legend = [f"{name} = {file}, {', '.join(columns)}" for name, file, columns in _legend(args)]
    return _show(result, args, legend)


def _show(result: Comparison | TableComparison, args: argparse.Namespace, legend: list[str]) -> int:
    if args.json:
        say_json(result.to_dict())
    else:
        for line in legend:
            say(line)
        say(str(result))
    return OK


def _tables(args: argparse.Namespace) -> list[BinTable]:
    """Return the two tables that the files hold, none if they hold rows."""
    chosen = [argparse.Namespace(**vars(args) | {"files": [file]}) for file in args.files]
    tables = [table for each in chosen if (table := saved_table(each, "auto")) is not None]
    if tables and len(tables) != 2:
        raise InvalidInputError(
            f"A table of sums is compared with another table; got {len(tables)} of "
            f"{len(args.files)} files. Count the other rows with `calibrant measure --table`."
        )
    return tables


def _model(
    args: argparse.Namespace, file: str, y_prob: list[str] | None, columns: list[str] | None = None
) -> Arrays:
    """Read the labels and predictions of one model, whose columns may be known."""
    chosen = argparse.Namespace(**vars(args) | {"y_prob": y_prob or args.y_prob})
    with opened(chosen, [file], columns) as data:
        if len(data.files) > 1:
            raise InvalidArgumentError(f"{file!r} stands for {len(data.files)} files; name one.")
        return data.arrays()


def _check_same_rows(a: Arrays, b: Arrays, args: argparse.Namespace) -> None:
    names = f"{args.files[0]} and {args.files[-1]}"
    if len(a.y_true) != len(b.y_true):
        raise LengthMismatchError(
            f"{names} must have the same rows; they have {len(a.y_true):,} and {len(b.y_true):,}."
        )
    differ = (a.y_true != b.y_true).nonzero()[0]
    if differ.size:
        row = int(differ[0])
        raise InvalidInputError(
            f"{names} must have the same rows in the same order; the labels of {differ.size:,} "
            f"rows differ (first: row {row + 1:,}, {a.y_true[row]!s} and {b.y_true[row]!s}). "
            "Sort both by the same key."
        )


def _legend(args: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    return [("a", args.files[0], args.y_prob), ("b", args.files[-1], args.versus or args.y_prob)]
