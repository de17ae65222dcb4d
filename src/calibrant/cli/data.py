"""The arguments that name data, and the data that they name."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from calibrant.cli.options import KINDS, bins_text, fraction, label, labels

if TYPE_CHECKING:
    from calibrant.cli.progress import Bar
    from calibrant.files.reading import Chunk, File, Wanted
    from calibrant.problem import Problem, Rows

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "npz")
FILES_HELP = (
    "CSV, TSV, Parquet, JSON lines, Arrow or .npz files, patterns such as 'part-*.parquet' in "
    "quotes, or - for standard input"
)


def add_data_arguments(
    command: argparse.ArgumentParser,
    *,
    bins: str | None = "auto",
    bins_help: str = "auto, 15, mass:15, width:15, hybrid:15 or distinct (default auto)",
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
        from calibrant.cli.progress import Bar

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

    def rows_of(self, chunk: Chunk, problem: Problem | None = None) -> Rows:
        """Return the checked rows of a chunk; what is wrong is said with file, column, row.

        They must pose this problem, that of the rows before them.
        """
        from calibrant.cli.messages import located
        from calibrant.exceptions import InvalidShapeError
        from calibrant.problem import read_rows

        with located(chunk):
            rows = read_rows(
                chunk.labels, chunk.probs, sample_weight=chunk.weights, part=True, **self.options
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

        from calibrant.bins import EqualWidth
        from calibrant.cli.messages import located
        from calibrant.exceptions import EmptyInputError
        from calibrant.measure import tabulate_part

        parts, problem = [], None
        for chunk in self.chunks():
            rows = self.rows_of(chunk, problem)
            with located(chunk):
                tabulate_part(rows, EqualWidth(1).bins)  # which checks every value
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
    from calibrant.cli.standard_input import found
    from calibrant.files.reading import Wanted

    classes = getattr(args, "classes", None)
    pos_label = getattr(args, "pos_label", None)
    known = (classes or [pos_label])[0]
    text = None if known is None else isinstance(known, str)
    weight = getattr(args, "sample_weight", None)
    wanted = Wanted(args.y_true, args.y_prob, weight, text)
    with found(args.files if names is None else names, args.format) as files:
        kind = getattr(args, "kind", None)
        yield Data(files, wanted, kind, classes, pos_label, list(columns or []))
