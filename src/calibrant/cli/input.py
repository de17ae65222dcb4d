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
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from calibrant.cli.parser import KINDS, bins_text, fraction, label, labels
from calibrant.exceptions import InvalidArgumentError, InvalidInputError

if TYPE_CHECKING:
    from calibrant.cli.output import Bar
    from calibrant.columns import Columns
    from calibrant.files.reading import Chunk, File, Wanted
    from calibrant.problem import Problem
    from calibrant.recalibrators import Recalibrator
    from calibrant.table import BinTable

LEVELS_HELP = (
    "all outputs that the model can give, known before the rows: numbers, or a calibrator's file"
)
FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz")
FILES_HELP = (
    "CSV, TSV, Parquet, JSON lines, Arrow or .npz files, patterns such as 'part-*.parquet' in "
    "quotes, or - for standard input"
)
TABLE_BEGINS = re.compile(rb'\s*\{\s*"format"\s*:\s*"calibrant\.table"')
"""How a table begins, and no row of predictions; the name of a file tells nothing, for .json may
be JSON lines."""

ABOUT_ROWS = {
    "y_true": "labels",
    "y_prob": ["probs"],
    **dict.fromkeys(("kind", "classes", "pos_label", "format")),
    **dict.fromkeys(("sample_weight", "calibrator", "versus")),
}
"""Options that say how rows are read, and their defaults; --bins is another, and the command's."""


def add_data_arguments(
    command: argparse.ArgumentParser,
    *,
    bins: str | None = "auto",
    bins_help: str = "auto, 15, mass:15, width:15, hybrid:15, distinct, or edges such as "
    "0,0.2,1 (default auto)",
    level: bool = True,
) -> None:
    """Add the arguments that `opened` reads, files, columns, kind, labels; bins, and a level."""
    command.add_argument("files", nargs="+", metavar="FILE", help=FILES_HELP)
    add_column_arguments(command)
    command.add_argument(
        "--kind",
        choices=KINDS,
        help="binary for one column or two, of which the second is the event's; for more "
        "top-label (the default) or marginal",
    )
    command.add_argument("--bins", metavar="RULE", type=bins_text, default=bins, help=bins_help)
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


@dataclass(frozen=True)
class Arrays:
    """All rows of the files, and what their labels are called: keywords for the library."""

    y_true: Any
    y_prob: Any
    weights: Any
    options: dict[str, Any]
    columns: list[str]


@dataclass(frozen=True)
class Data:
    """The files, the columns and what they mean."""

    files: list[File]
    wanted: Wanted
    kind: Any
    classes: Any
    pos_label: Any
    columns: list[str] = field(default_factory=list)
    """The columns of predictions in the order of the classes, once rows have been read."""

    @property
    def options(self) -> dict[str, Any]:
        """What `calibrant.calibration_error` and its like want to know about labels."""
        return {"kind": self.kind, "classes": self.classes, "pos_label": self.pos_label}

    def read(self, number: int) -> Iterator[Chunk]:
        """Yield one of the files in chunks; the first rows read fix the order of the columns."""
        from calibrant.files.reading import read_chunks

        for chunk in read_chunks(self.files[number], self.wanted, self.columns or None):
            if not self.columns:
                self.columns.extend(chunk.names)
            yield chunk

    def bar(self, what: str) -> Bar:
        """Return a progress bar for a pass over the files."""
        from calibrant.cli.output import Bar

        return Bar(what, self.files)

    def chunks(self, what: str = "reading") -> Iterator[Chunk]:
        """Yield all files in chunks, with a progress bar on a terminal."""
        with self.bar(what) as bar:
            for number in range(len(self.files)):
                yield from bar.watched(number, self.read(number))

    def digest_of_columns(self) -> str | None:
        """Return the digest of the names of the columns, as the first rows have them."""
        from calibrant._digests import digest_of_columns

        for chunk in self.chunks():
            return digest_of_columns(str(chunk.label_name), chunk.names)
        return None

    def rows_of(self, chunk: Chunk, problem: Problem | None = None) -> Columns:
        """Return the checked rows of a chunk; what is wrong is said with file, column, row.

        They must pose this problem, that of the rows before them.
        """
        from calibrant.cli.messages import located
        from calibrant.exceptions import InvalidShapeError
        from calibrant.sources.arrays import read_arrays

        with located(chunk):
            rows = read_arrays(
                chunk.labels, chunk.probs, sample_weight=chunk.weights, **self.options
            )
        if problem not in (None, rows.problem):
            raise InvalidShapeError(
                f"{chunk.file.shown}, rows from {chunk.start + 1:,}: there are "
                f"{rows.problem.n_classes:,} classes, in the rows before "
                f"{problem.n_classes:,}. Files of one run must have the same columns."
            )
        return rows

    def arrays(self) -> Arrays:
        """Read all rows into memory."""
        import numpy as np

        from calibrant.cli.messages import located
        from calibrant.exceptions import EmptyInputError

        parts, problem = [], None
        for chunk in self.chunks():
            rows = self.rows_of(chunk, problem)
            with located(chunk):
                rows.check()
            problem = rows.problem
            parts.append(chunk)
        if not parts:
            raise EmptyInputError(f"{self.files[0].shown} has no rows; at least one is needed.")
        weights = None
        if self.wanted.weights is not None:
            weights = np.concatenate([chunk.weights for chunk in parts])
        return Arrays(
            np.concatenate([chunk.labels for chunk in parts]),
            np.concatenate([chunk.probs for chunk in parts]),
            weights,
            self.options,
            self.columns,
        )


@contextmanager
def opened(
    args: argparse.Namespace, names: list[str] | None = None, columns: list[str] | None = None
) -> Iterator[Data]:
    """Find the files that the arguments name; standard input is kept in a file meanwhile.

    The columns of predictions may be known, from the file of another model; else the first rows
    fix them.
    """
    from calibrant.files.reading import Wanted

    classes = getattr(args, "classes", None)
    pos_label = getattr(args, "pos_label", None)
    known = (classes or [pos_label])[0]
    text = None if known is None else isinstance(known, str)
    weight = getattr(args, "sample_weight", None)
    wanted = Wanted(args.y_true, args.y_prob, weight, text)
    with open_files(args.files if names is None else names, args.format) as files:
        kind = getattr(args, "kind", None)
        yield Data(files, wanted, kind, classes, pos_label, list(columns or []))


@contextmanager
def open_files(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    from calibrant.files.names import STANDARD_INPUT, expand, format_of
    from calibrant.files.reading import File

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


def saved_table(args: argparse.Namespace, default_bins: str | None) -> BinTable | None:
    """Return the sum of the tables that the files hold, or None if they hold rows.

    A table has its bins, its problem and its labels: options about them are refused.
    """
    from calibrant.files import expand

    paths = expand(args.files)
    tables = [path for path in paths if is_table(path)]
    if not tables:
        return None
    if len(tables) < len(paths):
        other = next(path for path in paths if path not in tables)
        raise InvalidInputError(
            f"{tables[0]} is a table of sums and {other} is not. Name tables, or files of rows."
        )
    for name, default in (ABOUT_ROWS | {"bins": default_bins}).items():
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


def sum_of(paths: list[str]) -> BinTable:
    """Add saved tables; what is wrong is said with the file."""
    from calibrant.cli.messages import about
    from calibrant.table import BinTable

    with about(paths[0]):
        total = BinTable.from_json(Path(paths[0]).read_bytes())
    for path in paths[1:]:
        with about(path):
            total += BinTable.from_json(Path(path).read_bytes())
    return total


def read_levels(given: list[float] | str | None) -> list[float] | None:
    """Return the outputs that --levels declares: numbers, or those of a saved calibrator."""
    if not isinstance(given, str):
        return given
    from calibrant.cli.messages import about
    from calibrant.recalibrators import load

    with about(given):
        calibrator = load(given)
    if getattr(calibrator, "levels_", None) is None:
        raise InvalidArgumentError(
            f"--levels are the outputs of a model that has finitely many; the calibrator in "
            f"{given} is a {type(calibrator).__name__}, which has none. Use scaling-binning."
        )
    return [float(level) for level in calibrator.levels_]


def labels_to_fit(rows: Arrays, args: argparse.Namespace) -> tuple[Any, Any]:
    """Return labels and the names of classes; --pos-label makes them no and yes."""
    if args.pos_label is None:
        return rows.y_true, args.classes
    from calibrant.columns import absent_event
    from calibrant.problem import read_problem

    if rows.y_prob.ndim == 2:
        _check_event_is_last(args)
    problem = read_problem("binary", 2, args.classes, args.pos_label)
    codes = problem.codes(rows.y_true)
    if problem.pos_label is not None and not codes.any():
        raise absent_event(problem.pos_label, rows.y_true)
    return codes, None


def labels_to_certify(
    calibrator: Recalibrator, rows: Arrays, args: argparse.Namespace
) -> tuple[Any, Any]:
    """Return labels and classes as the calibrator knows them; its event must be --pos-label."""
    labels, classes = labels_to_fit(rows, args)
    own = calibrator.classes_
    if args.pos_label is None or own.size != 2 or own.tolist() == [0, 1]:
        return labels, classes
    if own[1] != args.pos_label:
        raise InvalidArgumentError(
            f"The calibrator was fitted on the classes {own[0]} and {own[1]}, and its event is "
            f"{own[1]}; got --pos-label {args.pos_label}. Leave the option out, or fit a "
            "calibrator with the same --pos-label."
        )
    return own[labels], own.tolist()


def _check_event_is_last(args: argparse.Namespace) -> None:
    """Refuse two columns whose first is the event's: calibrators take the second."""
    names = args.classes or (0, 1)
    if args.pos_label == names[0]:
        raise InvalidArgumentError(
            f"Of two columns the second must be the event's; --pos-label {args.pos_label} is the "
            "first. Give --y-prob in the other order, or the event's column alone."
        )
