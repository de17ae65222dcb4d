"""What commands read: files of rows, tables counted before, standard input, and their arguments.

Bins that depend on all rows need several passes, and Parquet is read from its end: standard input
and pipes, which cannot be read twice, are copied to a temporary file that is removed afterwards.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from calibrant.cli.logs import log_columns
from calibrant.cli.parser import (
    KINDS,
    bins_text,
    fraction,
    group_column,
    label,
    labels,
    read_bins,
)
from calibrant.exceptions import InvalidArgumentError, InvalidInputError

if TYPE_CHECKING:
    from calibrant._types import AnyArray
    from calibrant.groups import Groups
    from calibrant.recalibrators import Recalibrator
    from calibrant.sources.files import Hooks
    from calibrant.sources.files.reading import File
    from calibrant.table import BinTable
    from calibrant.tables import Tables

LEVELS_HELP = (
    "all outputs that the model can give, known before the rows: numbers, or a calibrator's file"
)
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz")
FILES_HELP = (
    "CSV, TSV, Parquet, JSON lines, Arrow or .npz files, patterns such as 'part-*.parquet' in "
    "quotes, or - for standard input"
)
BINS_HELP = (
    "auto, 15, mass:15, width:15, hybrid:15, distinct, or edges such as 0,0.2,1 (default auto)"
)
INPUTS = ("probabilities", "logits")
TABLE_BEGINS = re.compile(rb'\s*\{\s*"format"\s*:\s*"calibrant\.tables?"')
"""How a table begins, and no row of predictions; the name of a file tells nothing, for .json may
be JSON lines."""

ABOUT_ROWS = {
    "y_true": "labels",
    "y_prob": ["probs"],
    **dict.fromkeys(("kind", "input", "bins", "classes", "pos_label", "format")),
    **dict.fromkeys(("sample_weight", "calibrator", "versus", "by", "cluster", "key", "y_true_b")),
    "log": None,
}
"""Options that say how rows are read, and their defaults."""


def add_data_arguments(
    command: argparse.ArgumentParser,
    bins_help: str = BINS_HELP,
    level: bool = True,
    least: str = "+",
) -> None:
    """Add what `predictions` reads: files, columns, what they mean, and bins; and a level."""
    command.add_argument("files", nargs=least, metavar="FILE", help=FILES_HELP)
    add_column_arguments(command)
    command.add_argument(
        "--kind",
        choices=KINDS,
        help="binary for one column or two, of which the second is the event's; for more "
        "top-label (the default) or marginal; multi-label for --y-true 'y_*' beside 'p_*'; ordinal "
        "for classes in ascending order; quantile for quantiles at the levels --classes",
    )
    add_input_argument(command)
    command.add_argument("--bins", metavar="RULE", type=bins_text, help=bins_help)
    command.add_argument(
        "--classes",
        metavar="A,B,...",
        type=labels,
        help="labels in the order of the columns; for one column NO,YES",
    )
    command.add_argument(
        "--pos-label", metavar="LABEL", type=label, help="the label that means yes"
    )
    add_format_argument(command)
    if level:
        command.add_argument(
            "--confidence-level",
            metavar="LEVEL",
            type=fraction,
            default=0.95,
            help="of each interval and bound (default 0.95)",
        )


def add_group_argument(command: argparse.ArgumentParser, required: bool = False) -> None:
    """Add --by."""
    command.add_argument(
        "--by",
        metavar="COLUMN",
        nargs="+",
        type=group_column,
        required=required,
        help="the columns that tell groups apart; numeric ones are cut with age=0,40,65,120",
    )


def add_cluster_argument(command: argparse.ArgumentParser) -> None:
    """Add --cluster."""
    command.add_argument(
        "--cluster",
        metavar="COLUMN",
        help="the patient, prompt or day of each row, if rows of one depend on each other; of a "
        "log its questions unless none",
    )


def add_input_argument(command: argparse.ArgumentParser) -> None:
    """Add --input."""
    command.add_argument(
        "--input",
        choices=INPUTS,
        help="what the columns of predictions hold (default probabilities; with a calibrator what "
        "it was fitted on)",
    )


def add_column_arguments(command: argparse.ArgumentParser) -> None:
    """Add --y-true and --y-prob."""
    command.add_argument(
        "--y-true", metavar="COLUMN", default="labels", help="the column of labels (default labels)"
    )
    command.add_argument(
        "--y-prob",
        metavar="COLUMN",
        nargs="+",
        default=["probs"],
        help="the column of predictions, several, or a pattern such as 'prob_*' (default probs)",
    )


def add_format_argument(command: argparse.ArgumentParser) -> None:
    """Add --format."""
    command.add_argument(
        "--format",
        choices=FORMATS,
        help="the format, where the name of a file "
        "does not tell it; of standard input csv unless told",
    )


@contextmanager
def predictions(args: argparse.Namespace, output: str | None = None) -> Iterator[dict[str, Any]]:
    """Return what the arguments name, as keywords of the library.

    They are columns of files and what those mean, or a saved table in place of `y_true`. Beside
    `output`, the file that the run writes, checkpoints are kept until the context ends.
    """
    from calibrant.cli.resume import hooks_for

    table = saved_table(args)
    if table is not None:
        yield {"y_true": table}
        return
    if getattr(args, "log", None):
        yield log_columns(args)
        return
    settings = {name: getattr(args, name, default) for name, default in ABOUT_ROWS.items()}
    with open_files(args.files, args.format) as files, hooks_for(output, files, settings) as hooks:
        yield columns_of(args, files, hooks)


def columns_of(args: argparse.Namespace, files: list[File], hooks: Hooks) -> dict[str, Any]:
    """Return columns of files and what they mean, as keywords of the library."""
    from calibrant.sources.files import Files

    given = {"y_true": args.y_true, "y_prob": args.y_prob, "data": Files(files, hooks)}
    for name in ("kind", "input", "classes", "pos_label", "sample_weight"):
        if getattr(args, name, None) is not None:
            given[name] = getattr(args, name)
    if getattr(args, "by", None) is not None:
        given["by"] = dict(args.by)
    if getattr(args, "cluster", None) is not None:
        given["cluster"] = args.cluster
    if getattr(args, "bins", None) is not None:
        given["bins"] = read_bins(args.bins)
    return given


@contextmanager
def open_files(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    from calibrant.sources.files.names import STANDARD_INPUT, expand, format_of
    from calibrant.sources.files.reading import File

    with ExitStack() as stack:
        files = []
        for path in expand(patterns):
            if path == STANDARD_INPUT:
                if sys.stdin is None:
                    raise InvalidInputError(
                        "Standard input is closed. Pipe rows in, or name a file."
                    )
                copy = stack.enter_context(_copied(sys.stdin.buffer))
                files.append(File(copy, format_ or "csv", "standard input"))
            elif not os.path.isfile(path):
                copy = stack.enter_context(_copied(stack.enter_context(open(path, "rb"))))
                # a nameless pipe such as /dev/fd/63 holds CSV
                told = format_of(path) if os.path.splitext(path)[1] else "csv"
                files.append(File(copy, format_ or told, path))
            else:
                files.append(File(path, format_ or format_of(path), path))
        yield files


@contextmanager
def _copied(stream: IO[bytes]) -> Iterator[str]:
    """Copy a stream to a temporary file, and return its name."""
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        path = os.path.join(folder, "copy")
        with open(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        yield path


def saved_table(args: argparse.Namespace) -> BinTable | Tables | None:
    """Return the sum of the tables that the files hold, or None if they hold rows.

    A table has its bins, its problem and its labels: options about them are refused.
    """
    from calibrant.sources.files.names import expand

    paths = expand(args.files)
    tables = [path for path in paths if is_table(path)]
    if not tables:
        return None
    if len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise InvalidInputError(
            f"{tables[0]} is a table of sums and {other} is not. Name tables, or files of rows."
        )
    for name, default in ABOUT_ROWS.items():
        if getattr(args, name, default) != default:
            raise InvalidArgumentError(
                f"--{name.replace('_', '-')} says how rows are read, and {tables[0]} is a table of "
                "sums: it has its own bins, classes and labels. Leave the option out."
            )
    return sum_of(tables)


def is_table(path: str) -> bool:
    """Tell by its content whether a file is a table; what cannot be read twice is not."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        return TABLE_BEGINS.match(stream.read(200)) is not None


def sum_of(paths: list[str]) -> BinTable | Tables:
    """Add saved tables, or tables of groups; what is wrong is said with the file."""
    from calibrant.cli.messages import about
    from calibrant.tables import read_any_table

    total: Any = 0
    for path in paths:
        with about(path):
            table = read_any_table(Path(path).read_bytes())
            if total != 0 and type(table) is not type(total):
                raise InvalidInputError(
                    "this and the tables before must all be tables of groups, or none of them."
                )
            total = total + table
    return total  # type: ignore[no-any-return]


def load_calibrator(path: str) -> Recalibrator:
    """Read a saved calibrator of probabilities, the only ones that commands apply."""
    from calibrant.recalibrators import QuantileRepair, load

    calibrator = load(path)
    if isinstance(calibrator, QuantileRepair):
        raise InvalidArgumentError(
            f"Commands apply calibrators of probabilities; {path} holds a "
            f"{type(calibrator).__name__}, which repairs quantiles. Apply it in Python: "
            "calibrant.load(path).predict(quantiles)."
        )
    return calibrator


def read_levels(given: list[float] | str | None) -> list[float] | None:
    """Return the outputs that --levels declares: numbers, or those of a saved calibrator."""
    if not isinstance(given, str):
        return given
    from calibrant.cli.messages import about

    with about(given):
        calibrator = load_calibrator(given)
    if getattr(calibrator, "levels_", None) is None:
        raise InvalidArgumentError(
            f"--levels are the outputs of a model that has finitely many; the calibrator in "
            f"{given} is a {type(calibrator).__name__}, which has none. Use scaling-binning."
        )
    return [float(level) for level in calibrator.levels_]


class GivenRows(NamedTuple):
    """Labels, predictions and what stands beside them, as files or a log hold them."""

    labels: AnyArray
    probs: AnyArray
    weights: AnyArray | None = None
    groups: Groups | None = None
    names: tuple[str, ...] = ()
    """Of the columns of predictions."""


def rows_of(given: dict[str, Any]) -> GivenRows:
    """Read the rows that keywords of the library name."""
    from calibrant.sources.files import Files, read_files
    from calibrant.sources.groups import columns_named, read_groups

    data = given["data"]
    if isinstance(data, Files):
        source = read_files(**given)
        return GivenRows(*source.arrays_and_groups(), source.names[1:])
    labels, groups = data[given["y_true"]], None
    if given.get("by") is not None:
        own = columns_named(given["by"])
        groups = read_groups({x.name: data[x.name] for x in own}, len(labels), own)
    return GivenRows(labels, data[given["y_prob"]], None, groups)


def labels_to_fit(
    y_true: AnyArray, y_prob: AnyArray, args: argparse.Namespace
) -> tuple[AnyArray, Any]:
    """Return labels and the names of classes; --pos-label makes them no and yes."""
    if args.pos_label is None:
        return y_true, args.classes
    from calibrant.columns import absent_event
    from calibrant.problem import read_problem

    if y_prob.ndim == 2 and args.pos_label == (args.classes or (0, 1))[0]:
        raise InvalidArgumentError(
            f"Of two columns the second must be the event's; --pos-label {args.pos_label} is the "
            "first. Give --y-prob in the other order, or the event's column alone."
        )
    problem = read_problem("binary", 2, args.classes, args.pos_label)
    codes = problem.codes(y_true)
    if problem.pos_label is not None and not codes.any():
        raise absent_event(problem.pos_label, y_true)
    return codes, None


def arrays_to_certify(
    calibrator: Recalibrator, given: dict[str, Any], args: argparse.Namespace
) -> tuple[AnyArray, AnyArray, Any]:
    """Return predictions, labels and classes as the calibrator knows them.

    Its event must be --pos-label, and its input --input.
    """
    given = {name: value for name, value in given.items() if name != "bins"}
    given["input"] = input_of(calibrator, args.input)
    rows = rows_of(given)
    check_fitted_order(calibrator, rows.names)
    y_prob = rows.probs
    labels, classes = labels_to_fit(rows.labels, y_prob, args)
    own = calibrator.classes_
    if args.pos_label is None or own.size != 2 or own.tolist() == [0, 1]:
        return y_prob, labels, classes
    if own[1] != args.pos_label:
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {own[0]} and {own[1]}, and its event is "
            f"{own[1]}; got --pos-label {args.pos_label}. Leave the option out, or fit a "
            "calibrator with the same --pos-label."
        )
    return y_prob, own[labels], own.tolist()


def check_fitted_order(calibrator: Recalibrator, names: Sequence[str]) -> None:
    """Refuse the columns of a calibrator's fit in another order."""
    from calibrant.recalibrators.reading import fitted_names
    from calibrant.sources.column_order import check_same_order

    check_same_order(names, fitted_names(calibrator))


def input_of(calibrator: Recalibrator, given: str | None) -> Any:
    """Return what a calibrator reads; refuse an --input that says otherwise."""
    own = calibrator.input
    if given not in (None, own):
        raise InvalidArgumentError(
            f"The calibrator was fitted on {own}; got --input {given}. Leave the option out, or "
            "fit a calibrator with the same --input."
        )
    return own
