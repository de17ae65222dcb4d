"""Chunks of labels and predictions as NumPy arrays, from files of any format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import (
    CalibrantError,
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
)
from calibrant.groups import Factor, GroupColumn
from calibrant.sources.arrow_columns import (
    as_group,
    as_labels,
    as_numbers,
    columns_of,
    named_numbers,
    side_by_side,
)
from calibrant.sources.column_names import (
    check_columns,
    in_fixed_order,
    is_pattern,
    match_columns,
    paired,
)
from calibrant.sources.files.arrow import record_batches
from calibrant.sources.files.npz import npz_chunks
from calibrant.sources.files.streams import File

if TYPE_CHECKING:
    from calibrant.bins import Bins
    from calibrant.engines.search import Sketch
    from calibrant.table import BinTable
    from calibrant.tables import Tables

# the place of a value in exceptions about arrays; in a file it has a column and a row
PLACE = re.compile(r"(?:y_(true|prob)|by|sample_weight)\[(\d+)(?:, (\d+))?\] = ")


@dataclass(frozen=True)
class ColumnNames:
    """The columns to read: labels, predictions (names or patterns), weights, and those of groups.

    `text_labels` says whether labels are names or numbers; None lets every file tell. Several
    columns of labels, as of a multi-label problem, are a tuple of names or patterns. `numbers` are
    what names in the columns of predictions stand for, as grades for their PDs.
    """

    labels: str | tuple[str, ...]
    predictions: Sequence[str]
    weights: str | None = None
    text_labels: bool | None = None
    by: tuple[GroupColumn, ...] = ()
    numbers: Mapping[str, float] | None = None

    def labels_among(self, names: Sequence[str], shown: str) -> list[str]:
        """Return the column of labels, or those of several."""
        if isinstance(self.labels, tuple):
            return match_columns(names, self.labels, shown)
        return [self.labels]

    def others_among(self, names: Sequence[str], shown: str) -> list[str]:
        """Return the columns of labels, weights and groups; predictions may be among the last."""
        beside = (self.weights, *(column.name for column in self.by))
        return [*self.labels_among(names, shown), *(name for name in beside if name is not None)]

    def predictions_among(self, names: Sequence[str], shown: str) -> list[str]:
        """Return the columns of predictions; a pattern never means labels, weights or groups.

        Where labels have a pattern too, predictions come in the order of their labels.
        """
        matches, labels = match_columns(names, self.predictions, shown), self.labels
        label_names, by = self.labels_among(names, shown), {column.name for column in self.by}
        groups = by & {*self.predictions} - {*label_names, self.weights}
        others = self.others_among(names, shown)
        kept = [name for name in matches if name not in others or name in groups]
        if not kept:
            raise InvalidInputError(
                f"{shown}: labels and predictions are both read from column {label_names[0]!r:.80}."
            )
        if isinstance(labels, tuple) and len(labels) == len(self.predictions) == 1:
            pattern = self.predictions[0]
            if is_pattern(labels[0], names) and is_pattern(pattern, names):
                return paired(label_names, kept, labels[0], pattern)
        return kept


@dataclass(frozen=True)
class Chunk:
    """Some rows of a file: labels, predictions (one column or several), and where they are."""

    file: File
    start: int
    share: float
    labels: AnyArray
    probs: AnyArray
    weights: AnyArray | None
    names: list[str]
    label_names: list[str]
    groups: tuple[AnyArray | Factor, ...] = ()

    def __len__(self) -> int:
        return len(self.probs)


class Hooks:
    """Steps of reading files at which a caller may show progress or keep checkpoints."""

    def begin(self, what: str, files: Sequence[File]) -> None:
        """Begin a pass over the files."""

    def advance(self, number: int, share: float, n_rows: int) -> None:
        """Report that this share of file `number` has been read, `n_rows` rows more."""

    def end(self) -> None:
        """End the pass, whether it is finished or has failed."""

    def settle(self, names: Sequence[str]) -> None:
        """Take note of the columns that are read, labels first, in the order of the first rows."""

    def restore_pass(self, number: int, sketch: Sketch) -> int:
        """Restore the sketch of a pass that chooses bins; return how many files it holds."""
        return 0

    def save_pass(self, number: int, sketch: Sketch, done: int) -> None:
        """Keep the sketch of a pass after its first `done` files."""

    def restore_table(
        self, number: int, bins: tuple[Bins, ...]
    ) -> tuple[bool, BinTable | Tables | None]:
        """Return whether a file has been counted in these bins, and its table if it has rows."""
        return False, None

    def save_table(self, number: int, table: BinTable | Tables | None) -> None:
        """Keep the table of a file that has been counted."""


def read_chunks(
    file: File,
    columns: ColumnNames,
    names: Sequence[str] | None = None,
    label_names: Sequence[str] | None = None,
) -> Iterator[Chunk]:
    """Yield the named columns of a file, a bounded number of rows at a time.

    Parameters
    ----------
    names : sequence of str, optional
        The columns of predictions in the order of the classes, as an earlier file has fixed them.
        Without them the first rows of this file do.
    label_names : sequence of str, optional
        Those of labels, in the same sense.
    """
    start = 0
    for arrays, share in _arrays(file, columns):
        where = (file.shown, start)
        matches = columns.predictions_among(list(arrays), file.shown)
        names = matches if names is None else in_fixed_order(matches, names, file.shown)
        probs = _predictions(arrays, columns, names, where)
        present, text = columns.labels_among(list(arrays), file.shown), columns.text_labels
        if label_names is not None:
            present = in_fixed_order(present, label_names, file.shown)
        label_names, is_one = present, isinstance(columns.labels, str)
        marks = [as_labels(arrays[name], text, name, *where) for name in present]
        labels = marks[0] if is_one else side_by_side(marks, present, file.shown)
        weights = None
        if columns.weights is not None:
            weights = as_numbers(arrays[columns.weights], columns.weights, *where)
        blank = file.format in ("csv", "tsv")
        groups = tuple(as_group(arrays[group.name], group, *where, blank) for group in columns.by)
        yield Chunk(file, start, share, labels, probs, weights, list(names), present, groups)
        start += len(probs)


def read_predictions(
    files: Sequence[File], predictions: Sequence[str]
) -> tuple[AnyArray, list[str]]:
    """Return columns of predictions of all files, and their names; no labels are read."""
    columns, parts = ColumnNames((), predictions), list[AnyArray]()
    names: list[str] | None = None
    for file in files:
        start = 0
        for arrays, _ in _arrays(file, columns):
            matches = columns.predictions_among(list(arrays), file.shown)
            names = matches if names is None else in_fixed_order(matches, names, file.shown)
            parts.append(_predictions(arrays, columns, names, (file.shown, start)))
            start += len(parts[-1])
    if not parts or names is None:
        raise EmptyInputError("There are no rows; at least one is needed.")
    return np.concatenate(parts), names


def _predictions(
    arrays: Mapping[str, Any], columns: ColumnNames, names: Sequence[str], where: tuple[str, int]
) -> AnyArray:
    x = {name: arrays[name] for name in names}
    if columns.numbers is not None:
        x = {name: named_numbers(x[name], columns.numbers, name, *where) for name in names}
    return side_by_side([as_numbers(x[name], name, *where) for name in names], names, where[0])


def _arrays(file: File, columns: ColumnNames) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield columns by name: arrays of an archive, or Arrow columns."""

    def choose(names: list[str]) -> list[str]:
        others = columns.others_among(names, file.shown)
        check_columns(names, others, file.shown)
        predictions = columns.predictions_among(names, file.shown)
        return list(dict.fromkeys([*others, *predictions]))

    if file.format == "npz":
        yield from npz_chunks(file.path, choose, file.shown)
        return
    for batch, share in record_batches(file.path, file.format, choose, file.shown):
        yield columns_of(batch), share


@contextmanager
def located(chunk: Chunk) -> Iterator[None]:
    """Say in exceptions about a chunk in which file and rows it is."""
    try:
        yield
    except InvalidArgumentError:
        raise
    except CalibrantError as error:
        rows = f"rows {chunk.start + 1:,} to {chunk.start + len(chunk):,}"
        text = PLACE.sub(lambda place: _in_file(place, chunk), str(error))
        raise type(error)(f"{chunk.file.shown}, {rows}: {text}") from error


def _in_file(place: re.Match[str], chunk: Chunk) -> str:
    column, row, position = place.groups()
    if column is None:
        return f"row {chunk.start + int(row) + 1:,} = "
    names = chunk.label_names if column == "true" else chunk.names
    name = names[int(position or 0) % len(names)]
    return f"column {name!r:.80}, row {chunk.start + int(row) + 1:,} = "
