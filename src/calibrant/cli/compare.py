"""calibrant compare."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.input import columns_of, one_file, read_command_log, saved_table
from calibrant.cli.output import complain, say, say_json
from calibrant.cli.parser import DATA, add_command, add_options, named, read_bins
from calibrant.exceptions import InvalidArgumentError, InvalidInputError, LengthMismatchError

if TYPE_CHECKING:
    from calibrant.sources.arrays import ArraySource
    from calibrant.stats import Comparison, TableComparison
    from calibrant.table import BinTable

EXAMPLES = """
calibrant compare a.csv b.csv --y-true label --y-prob score
calibrant compare preds.parquet --y-true label --y-prob old_score --versus new_score
calibrant compare preds.parquet --y-true label --y-prob 'old_*' --versus 'new_*' --json
calibrant compare a.csv b.csv --y-true right --y-prob confidence --key question
calibrant compare preds.csv --y-true right_a --y-prob conf_a --versus conf_b --y-true-b right_b
calibrant compare 'a/samples_*.jsonl' 'b/samples_*.jsonl' --log lm-eval
calibrant compare last-week.json this-week.json
"""
NOTES = """
Two files with the same rows in the same order, or one file with the predictions of both models.
Differences are paired, so what both models share cancels. All rows are held in memory.

With --key the rows of two files are matched by a column in which no value occurs twice, in any
order; rows that have no match are left out and counted. Labels may then differ: those of two
language models on the same questions say whether each was right. Without --key, --y-true-b names
the labels of model b.

Two tables that `calibrant measure --table` saved are compared as tables of different, independent
rows: two weeks, say. Their calibration errors are compared, and no scores.
"""


def add(commands: Any) -> None:
    """Register the command."""
    command = add_command(
        commands, "compare", run, "compare two models on the same rows", EXAMPLES, NOTES
    )
    add_options(command, *DATA, "--confidence-level", "--log")
    command.add_argument(
        "--versus",
        metavar="COLUMN",
        nargs="+",
        help="the predictions of model b, if not those of --y-prob",
    )
    command.add_argument(
        "--y-true-b",
        metavar="COLUMN",
        type=named,
        help="the labels of model b, if not those of --y-true",
    )
    command.add_argument(
        "--key", metavar="COLUMN", type=named, help="match the rows of two files by this column"
    )
    add_options(command, "--cluster", "--json")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from calibrant.stats import compare_tables

    if len(args.files) > 2 or (len(args.files) == 1 and not args.versus):
        raise InvalidArgumentError(
            "Give two files, or one file and --versus with the columns of model b; "
            f"got {len(args.files)} {'file' if len(args.files) == 1 else 'files'}."
        )
    legend = [f"a = {args.files[0]}", f"b = {args.files[-1]}"]
    result: Comparison | TableComparison
    if args.log:
        result = _compare_logs(args)
    elif tables := _tables(args):
        result = compare_tables(*tables, confidence_level=args.confidence_level)
    else:
        result = _compare_rows(args)
        columns = (args.y_prob, args.versus or args.y_prob)
        legend = [f"{file}, {', '.join(x)}" for file, x in zip(legend, columns, strict=True)]
    if args.json:
        say_json(result.to_dict())
    else:
        say("\n".join([*legend, str(result)]))
    return OK


def _compare_logs(args: argparse.Namespace) -> Comparison:
    """Pair the answers of two logs by question, each with its own grades."""
    from calibrant.comparison import compare

    if len(args.files) != 2:
        raise InvalidArgumentError(
            f"Two logs are compared, each a file or a pattern; got {len(args.files)}."
        )
    a, b = (read_command_log(args, [file]) for file in args.files)
    pairs = a.paired(b)
    complain(str(pairs))
    return compare(
        "correct_a",
        "confidence_a",
        "confidence_b",
        y_true_b="correct_b",
        data=pairs,
        bins=read_bins(args.bins or "auto"),
        cluster=False if args.cluster == "none" else args.cluster,
        confidence_level=args.confidence_level,
    )


def _tables(args: argparse.Namespace) -> list[BinTable]:
    """Return the two tables that the files hold, none if they hold rows."""
    from calibrant.table import BinTable

    chosen = [argparse.Namespace(**vars(args) | {"files": [file]}) for file in args.files]
    saved = [table for path in chosen if (table := saved_table(path)) is not None]
    tables = [table for table in saved if isinstance(table, BinTable)]
    if len(tables) < len(saved):
        raise InvalidInputError(
            "Tables of groups are compared one group at a time; got tables of groups. Count the "
            "rows without --by."
        )
    if tables and len(tables) != 2:
        raise InvalidInputError(
            f"A table of sums is compared with another table; got {len(tables)} of "
            f"{len(args.files)} files. Count the other rows with `calibrant measure --table`."
        )
    return tables


def _compare_rows(args: argparse.Namespace) -> Comparison:
    """Compare the labels and predictions of both models; those of b by the names of a's columns."""
    from calibrant.cli.resume import Progress
    from calibrant.comparison import compare_sources
    from calibrant.sources.column_names import in_fixed_order
    from calibrant.sources.files import Files, read_files

    if args.key and len(args.files) == 1:
        raise InvalidArgumentError("--key matches the rows of two files; got one file.")
    if args.key and args.cluster:
        raise InvalidArgumentError("--key and --cluster are not taken together.")
    with ExitStack() as stack:
        opened = [stack.enter_context(one_file(name, args.format)) for name in args.files]
        inputs = columns_of(args, opened[:1], Progress())
        bins = inputs.pop("bins", "auto")
        if column := args.key or inputs.pop("cluster", None):
            inputs["by"] = column
        a = read_files(**inputs)
        inputs |= {"data": Files(opened[-1:], Progress()), "y_prob": args.versus or args.y_prob}
        inputs["y_true"] = args.y_true_b or args.y_true
        b = read_files(**inputs)
        if not args.versus and a.names[1:] != b.names[1:]:  # other columns, or in another order
            order = in_fixed_order(b.names[1:], a.names[1:], opened[-1].shown)
            b = read_files(**inputs | {"y_prob": order})
        models = a.in_memory(), b.in_memory()
    if args.key:
        models = _matched(*models, args)
    else:
        _check_same_rows(*models, args)
    return compare_sources(*models, bins=bins, confidence_level=args.confidence_level)


def _matched(
    a: ArraySource, b: ArraySource, args: argparse.Namespace
) -> tuple[ArraySource, ArraySource]:
    """Match rows by keys that occur once; report how many have no match."""
    import numpy as np

    from calibrant.groups import required
    from calibrant.sources.arrays import ArraySource

    places = []
    for rows, file in ((a, args.files[0]), (b, args.files[1])):
        groups = required(rows.groups)
        row_of: dict[tuple[object, ...], int] = {}
        for row, code in enumerate(groups.codes.tolist()):
            key = groups.labels[code]
            if key in row_of or key == (None,):
                raise InvalidInputError(
                    f"{file}, column {args.key!r:.80} must have another value in every row, and "
                    f"none missing, to match rows by; row {row + 1:,} has {key[0]!r:.60} once more "
                    "or none."
                )
            row_of[key] = row
        places.append(row_of)
    shared = [key for key in places[0] if key in places[1]]
    if len(shared) < 2:
        raise InvalidInputError(
            f"{args.files[0]} and {args.files[1]} share {len(shared)} values of {args.key!r:.80}; "
            "at least 2 are needed. Numbers in one file may be text in the other."
        )
    for file, row_of in zip(args.files, places, strict=True):
        if len(row_of) > len(shared):
            alone = len(row_of) - len(shared)
            complain(f"{alone:,} of {len(row_of):,} rows of {file} have no match")
    rows_a, rows_b = (np.array([row_of[key] for key in shared]) for row_of in places)
    return ArraySource(a.columns().take(rows_a)), ArraySource(b.columns().take(rows_b))


def _check_same_rows(a: ArraySource, b: ArraySource, args: argparse.Namespace) -> None:
    """Refuse rows whose labels or clusters (under any names) differ between the files."""
    from calibrant.groups import required

    names = f"{args.files[0]} and {args.files[-1]}"
    if not args.y_true_b:
        labels, labels_b = a.columns().labels, b.columns().labels
        if len(labels) != len(labels_b):
            raise LengthMismatchError(
                f"{names} must have the same rows; they have {len(labels):,} and {len(labels_b):,}."
            )
        differ = (labels != labels_b).nonzero()[0]
        if differ.size:
            row = int(differ[0])
            raise InvalidInputError(
                f"{names} must have the same rows in the same order; the labels of {differ.size:,} "
                f"rows differ (first: row {row + 1:,}, {labels[row]!s} and {labels_b[row]!s}). "
                "Sort both by the same key."
            )
    if args.cluster:
        codes = [required(rows.groups).codes.tolist() for rows in (a, b)]
        pairs = set(zip(*codes, strict=False))  # lengths are compared where rows are paired
        if len(codes[0]) == len(codes[1]) and {len(set(x)) for x in codes} != {len(pairs)}:
            raise InvalidInputError(
                f"{names} must have the same rows in the same order; they differ in which rows "
                f"column {args.cluster!r:.80} puts into one cluster. Sort both by the same key."
            )
