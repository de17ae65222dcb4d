"""Chunks of labels and predictions as NumPy arrays, from files of any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidInputError
from calibrant.files.arrow import record_batches
from calibrant.files.columns import as_labels, as_numbers, side_by_side
from calibrant.files.names import format_of, in_fixed_order, match_columns
from calibrant.files.npz import npz_chunks


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
class Wanted:
    """The columns to read: one of labels, some of predictions (names or patterns), weights.

    `text_labels` says whether labels are names or numbers; None lets every file tell.
    """

    labels: str | None
    probs: Sequence[str]
    weights: str | None = None
    text_labels: bool | None = None

    @property
    def others(self) -> list[str]:
        """The columns that are not predictions."""
        return [name for name in (self.labels, self.weights) if name is not None]

    def predictions(self, names: Sequence[str], shown: str) -> list[str]:
        """Return the columns of predictions; a pattern never means labels or weights."""
        found = match_columns(names, self.probs, shown)
        kept = [name for name in found if name not in self.others]
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
    labels: AnyArray | None
    probs: AnyArray
    weights: AnyArray | None
    names: list[str]
    label_name: str | None

    def __len__(self) -> int:
        return len(self.probs)


def read_chunks(file: File, wanted: Wanted, names: Sequence[str] | None = None) -> Iterator[Chunk]:
    """Yield the wanted columns of a file, a bounded number of rows at a time.

    Parameters
    ----------
    names : sequence of str, optional
        The columns of predictions in the order of the classes, as an earlier file has fixed them.
        Without them the first rows of this file do.
    """
    start = 0
    for columns, share in _columns(file, wanted):
        where = (file.shown, start)
        found = wanted.predictions(list(columns), file.shown)
        names = found if names is None else in_fixed_order(found, names, file.shown)
        parts = [as_numbers(columns[name], name, *where) for name in names]
        probs = side_by_side(parts, names, file.shown)
        labels = weights = None
        if wanted.labels is not None:
            labels = as_labels(columns[wanted.labels], wanted.text_labels, wanted.labels, *where)
        if wanted.weights is not None:
            weights = as_numbers(columns[wanted.weights], wanted.weights, *where)
        yield Chunk(file, start, share, labels, probs, weights, list(names), wanted.labels)
        start += len(probs)


def _columns(file: File, wanted: Wanted) -> Iterator[tuple[dict[str, Any], float]]:
    """Yield columns by name: arrays of an archive, or Arrow columns."""
    if file.format == "npz":
        yield from npz_chunks(file.path, [*wanted.others, *wanted.probs], file.shown)
        return

    def choose(names: list[str]) -> list[str]:
        others = match_columns(names, wanted.others, file.shown)
        return [*others, *wanted.predictions(names, file.shown)]

    for batch, share in record_batches(file.path, file.format, choose, file.shown):
        yield dict(zip(batch.schema.names, batch.columns, strict=True)), share
