"""Chunks of labels and predictions as NumPy arrays, from files of any format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from calibrant._types import AnyArray
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError
from calibrant.groups import Factor, GroupColumn
from calibrant.sources.files.arrow import record_batches
from calibrant.sources.files.conversion import as_group, as_labels, as_numbers, side_by_side
from calibrant.sources.files.names import (
    check_columns,
    format_of,
    in_fixed_order,
    match_columns,
)
from calibrant.sources.files.npz import npz_chunks

# how exceptions about arrays name a value; in a file it has a column and a row
PLACE = re.compile(r"(?:y_(true|prob)|by)\[(\d+)(?:, (\d+))?\] = ")


@dataclass(frozen=True)
class File:
    """A file to read: where it is, its format, and the name that messages call it."""

    path: str
    format: str
    shown: str

    @classmethod
    def of(cls, path: str) -> File:
        """Return the file of this name, its format told by the suffix."""
        return cls(path, format_of(path), path)


@dataclass(frozen=True)
class ColumnNames:
    """The columns to read: labels, predictions (names or patterns), weights, and those of groups.

    `text_labels` says whether labels are names or numbers; None lets every file tell.
    """

    labels: str
    predictions: Sequence[str]
    weights: str | None = None
    text_labels: bool | None = None
    by: tuple[GroupColumn, ...] = ()

    @property
    def others(self) -> list[str]:
        """The columns that are not predictions, though these may tell groups apart as well."""
        names = (self.labels, self.weights, *(own.name for own in self.by))
        return [name for name in names if name is not None]

    def predictions_among(self, names: Sequence[str], shown: str) -> list[str]:
        """Return the columns of predictions; a pattern never means labels, weights or groups."""
        matches = match_columns(names, self.predictions, shown)
        groups = {own.name for own in self.by} & {*self.predictions} - {self.labels, self.weights}
        kept = [name for name in matches if name not in self.others or name in groups]
        if not kept:
            raise InvalidInputError(
                f"{shown}: labels and predictions are both read from column {self.labels!r:.80}."
            )
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
    label_name: str
    groups: tuple[AnyArray | Factor, ...] = ()

    def __len__(self) -> int:
        return len(self.probs)


def read_chunks(
    file: File, columns: ColumnNames, names: Sequence[str] | None = None
) -> Iterator[Chunk]:
    """Yield the named columns of a file, a bounded number of rows at a time.

    Parameters
    ----------
    names : sequence of str, optional
        The columns of predictions in the order of the classes, as an earlier file has fixed them.
        Without them the first rows of this file do.
    """
    start = 0
    for arrays, share in _arrays(file, columns):
        where = (file.shown, start)
        matches = columns.predictions_among(list(arrays), file.shown)
        names = matches if names is None else in_fixed_order(matches, names, file.shown)
        parts = [as_numbers(arrays[name], name, *where) for name in names]
        probs = side_by_side(parts, names, file.shown)
        label = columns.labels
        labels = as_labels(arrays[label], columns.text_labels, label, *where)
        weights = None
        if columns.weights is not None:
            weights = as_numbers(arrays[columns.weights], columns.weights, *where)
        groups = tuple(as_group(arrays[own.name], own, *where) for own in columns.by)
        yield Chunk(file, start, share, labels, probs, weights, list(names), label, groups)
        start += len(probs)


def _arrays(file: File, columns: ColumnNames) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield columns by name: arrays of an archive, or Arrow columns."""

    def choose(names: list[str]) -> list[str]:
        check_columns(names, columns.others, file.shown)
        predictions = columns.predictions_among(names, file.shown)
        return list(dict.fromkeys([*columns.others, *predictions]))

    if file.format == "npz":
        yield from npz_chunks(file.path, choose, file.shown)
        return
    for batch, share in record_batches(file.path, file.format, choose, file.shown):
        yield dict(zip(batch.schema.names, batch.columns, strict=True)), share


@contextmanager
def located(chunk: Chunk) -> Iterator[None]:
    """Raise exceptions about a chunk of rows again, saying where in which file the rows are."""
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
    name = chunk.names[int(position or 0) % len(chunk.names)]
    if column == "true":
        name = chunk.label_name
    return f"column {name!r:.80}, row {chunk.start + int(row) + 1:,} = "
