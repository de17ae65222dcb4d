"""calibrant compare."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from calibrant.cli import OK
from calibrant.cli.input import (
    add_log_argument,
    columns_of,
    open_files,
    read_command_log,
    saved_table,
)
from calibrant.cli.output import complain, say, say_json
from calibrant.cli.parser import add_cluster_argument, add_command, add_data_arguments, read_bins
from calibrant.exceptions import InvalidArgumentError, InvalidInputError, LengthMismatchError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.sources.arrays import ArraySource
    from calibrant.sources.files.streams import File
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
    add_data_arguments(command)
    add_log_argument(command)
    command.add_argument(
        "--versus",
        metavar="COLUMN",
        nargs="+",
        help="the predictions of model b, if not those of --y-prob",
    )
    command.add_argument(
        "--y-true-b", metavar="COLUMN", help="the labels of model b, if not those of --y-true"
    )
    command.add_argument(
        "--key", metavar="COLUMN", help="match the rows of two files by this column"
    )
    add_cluster_argument(command)
    command.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Compare and print."""
    from calibrant.comparison import compare_sources
    from calibrant.stats import compare_tables

    if len(args.files) > 2 or (len(args.files) == 1 and not args.versus):
        raise InvalidArgumentError(
            "Give two files, or one file and --versus with the columns of model b; "
            f"got {len(args.files)} {'file' if len(args.files) == 1 else 'files'}."
        )
    if args.log:
        return _show(_compare_logs(args), args, [f"{n} = {file}" for n, file, _ in _legend(args)])
    if tables := _tables(args):
        result: Comparison | TableComparison = compare_tables(
            *tables, confidence_level=args.confidence_level
        )
        return _show(result, args, [f"{name} = {file}" for name, file, _ in _legend(args)])
    if args.key and len(args.files) == 1:
        raise InvalidArgumentError("--key matches the rows of two files; got one file.")
    if args.key and args.cluster:
        raise InvalidArgumentError("--key and --cluster are not taken together.")
    with ExitStack() as stack:
        files = [stack.enter_context(open_files([file], args.format)) for file in args.files]
        models = _models(args, files[0], files[-1])
    bins = "auto" if args.bins is None else read_bins(args.bins)
    result = compare_sources(*models, bins=bins, confidence_level=args.confidence_level)
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
    bins = "auto" if args.bins is None else read_bins(args.bins)
    cluster = False if args.cluster == "none" else args.cluster
    return compare(
        "correct_a",
        "confidence_a",
        "confidence_b",
        y_true_b="correct_b",
        data=pairs,
        bins=bins,
        cluster=cluster,
        confidence_level=args.confidence_level,
    )


def _tables(args: argparse.Namespace) -> list[BinTable]:
    """Return the two tables that the files hold, none if they hold rows."""
    from calibrant.table import BinTable

    chosen = [argparse.Namespace(**vars(args) | {"files": [file]}) for file in args.files]
    saved = [table for one in chosen if (table := saved_table(one)) is not None]
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


def _models(
    args: argparse.Namespace, files_a: list[File], files_b: list[File]
) -> tuple[ArraySource, ArraySource]:
    """Read the labels and predictions of both models; those of b by the names of a's columns."""
    from calibrant.cli.resume import Progress
    from calibrant.sources.column_names import in_fixed_order
    from calibrant.sources.files import Files, read_files

    for name, files in ((args.files[0], files_a), (args.files[-1], files_b)):
        if len(files) > 1:
            raise InvalidArgumentError(f"{name!r} stands for {len(files)} files; name one.")
    given = columns_of(args, files_a, Progress())
    given.pop("bins", None)
    if column := args.key or given.pop("cluster", None):
        given["by"] = column
    a = read_files(**given)
    given |= {"data": Files(files_b, Progress()), "y_prob": args.versus or args.y_prob}
    given["y_true"] = args.y_true_b or args.y_true
    b = read_files(**given)
    if not args.versus and a.names[1:] != b.names[1:]:  # other columns, or in another order
        order = in_fixed_order(b.names[1:], a.names[1:], files_b[0].shown)
        b = read_files(**given | {"y_prob": order})
    models = a.in_memory(), b.in_memory()
    if args.key:
        return _matched(*models, args)
    if not args.y_true_b:
        _check_same_rows(models[0].columns().labels, models[1].columns().labels, args)
    if args.cluster:
        _check_same_clusters(*models, args)
    return models


def _matched(
    a: ArraySource, b: ArraySource, args: argparse.Namespace
) -> tuple[ArraySource, ArraySource]:
    """Match rows by their keys, of which none may occur twice; say how many have no match."""
    import numpy as np

    from calibrant.groups import required
    from calibrant.sources.arrays import ArraySource

    places = []
    for rows, file in ((a, args.files[0]), (b, args.files[1])):
        groups = required(rows.groups)
        keys = [groups.labels[code] for code in groups.codes.tolist()]
        known = {key: row for row, key in enumerate(keys)}
        if len(known) < len(keys) or (None,) in known:
            seen: set[object] = {(None,)}
            first = next(i for i, key in enumerate(keys) if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InvalidInputError(
                f"{file}, column {args.key!r:.80} must have another value in every row, and none "
                f"missing, to match rows by; row {first + 1:,} has {keys[first][0]!r:.60} "
                "once more or none."
            )
        places.append(known)
    both = [key for key in places[0] if key in places[1]]
    if len(both) < 2:
        raise InvalidInputError(
            f"{args.files[0]} and {args.files[1]} share {len(both)} values of {args.key!r:.80}; at "
            "least 2 are needed. Numbers in one file may be text in the other."
        )
    for file, known in zip(args.files, places, strict=True):
        if len(known) > len(both):
            complain(f"{len(known) - len(both):,} of {len(known):,} rows of {file} have no match")
    rows_a, rows_b = ([known[key] for key in both] for known in places)
    return (
        ArraySource(a.columns().take(np.array(rows_a))),
        ArraySource(b.columns().take(np.array(rows_b))),
    )


def _check_same_rows(a: AnyArray, b: AnyArray, args: argparse.Namespace) -> None:
    names = f"{args.files[0]} and {args.files[-1]}"
    if len(a) != len(b):
        raise LengthMismatchError(
            f"{names} must have the same rows; they have {len(a):,} and {len(b):,}."
        )
    differ = (a != b).nonzero()[0]
    if differ.size:
        row = int(differ[0])
        raise InvalidInputError(
            f"{names} must have the same rows in the same order; the labels of {differ.size:,} "
            f"rows differ (first: row {row + 1:,}, {a[row]!s} and {b[row]!s}). "
            "Sort both by the same key."
        )


def _check_same_clusters(a: ArraySource, b: ArraySource, args: argparse.Namespace) -> None:
    """Refuse rows that one file clusters otherwise than the other, by whatever names."""
    from calibrant.groups import required

    codes = [required(rows.groups).codes.tolist() for rows in (a, b)]
    pairs = set(zip(*codes, strict=False))  # of other lengths more is said by who pairs the rows
    if len(codes[0]) == len(codes[1]) and {len(set(own)) for own in codes} != {len(pairs)}:
        raise InvalidInputError(
            f"{args.files[0]} and {args.files[-1]} must have the same rows in the same order; they "
            f"differ in which rows column {args.cluster!r:.80} puts into one cluster. Sort both by "
            "the same key."
        )


def _legend(args: argparse.Namespace) -> list[tuple[str, str, list[str]]]:
    return [("a", args.files[0], args.y_prob), ("b", args.files[-1], args.versus or args.y_prob)]
