"""Rows of one event, reduced to distinct predictions: what methods without bins work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    LengthMismatchError,
)
from calibrant.table import BinTable, describe_bins

BLOCK = 1 << 21
"""Events drawn at a time, 16 MB."""


@dataclass(frozen=True, eq=False)
class Atoms:
    """Rows reduced to distinct predictions in rising order, with rows and events of each."""

    p: FloatArray
    count: FloatArray
    events: FloatArray

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.count.sum())

    @classmethod
    def of(cls, y: FloatArray | BinTable, p: FloatArray | None = None) -> Atoms:
        """Check rows of one event and pool equal predictions, unless a table has done so."""
        if isinstance(y, BinTable):
            return cls.of_table(y)
        y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
        check_rows(y, p)
        values, place, count = np.unique(p, return_inverse=True, return_counts=True)
        events = np.bincount(place, y).astype(np.float64)
        return cls(values, count.astype(np.float64), events)

    @classmethod
    def of_table(cls, table: BinTable) -> Atoms:
        """Return what a table of distinct predictions holds; refuse other tables."""
        if table.n_groups > 1 or table.is_weighted or not table.is_binned_model:
            what = (
                f"several {table.problem.parts}" if table.n_groups > 1
                else "sample weights" if table.is_weighted
                else f"different predictions in one bin, of {describe_bins(table)}"
            )  # fmt: skip
            raise InvalidArgumentError(
                "A table in place of predictions must have one event, rows without weights, and a "
                f"bin for each distinct prediction; this one has {what}. Count with "
                'bins="distinct".'
            )
        used = table.count[0] > 0
        return cls(table.level[0, used], table.count[0, used], table.sum_y[0, used])

    def draw(self, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield blocks of events drawn from the predictions, `size` in all, one a line."""
        step = max(1, BLOCK // max(self.p.size, 1))
        alone = bool(self.count.max() == 1)
        for start in range(0, size, step):
            shape = (min(step, size - start), self.p.size)
            if alone:
                yield (rng.random(shape) < self.p).astype(np.float64)
            else:
                yield rng.binomial(self.count.astype(np.int64), self.p, shape).astype(np.float64)


def check_rows(y: FloatArray, p: FloatArray) -> None:
    """Refuse anything but equally many events in {0, 1} and predictions in [0, 1]."""
    if y.ndim != 1 or y.shape != p.shape:
        raise LengthMismatchError(
            f"Events and predictions must be 1-D and of one length; got {y.shape} and {p.shape}."
        )
    if y.size == 0:
        raise EmptyInputError("At least one row is needed; there are none.")
    if not np.all((y == 0) | (y == 1)):
        raise InvalidLabelsError("Events must be 0 or 1; some are not. Encode the labels first.")
    if not np.all((p >= 0) & (p <= 1)):
        raise InvalidProbabilitiesError("Predictions must lie in [0, 1]; some do not.")


def is_contradicted(atoms: Atoms) -> bool:
    """Tell whether something happened that was predicted with probability 0."""
    never, always = atoms.p == 0, atoms.p == 1
    return bool(np.any(atoms.events[never] > 0) or np.any((atoms.count - atoms.events)[always] > 0))


def cumulative_differences(atoms: Atoms, events: FloatArray | None = None) -> FloatArray:
    """Return S_k, the mean over all rows of (y - p) 1{p <= k-th distinct prediction}.

    >>> atoms = Atoms.of(np.array([0.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.7]))
    >>> cumulative_differences(atoms).round(3)
    array([0. , 0.1])
    """
    events = atoms.events if events is None else events
    return np.asarray(np.cumsum(events - atoms.count * atoms.p, axis=-1) / atoms.n)


def kuiper(s: FloatArray) -> FloatArray:
    """Return the range of cumulative differences, their start at 0 included, along the last axis.

    >>> float(kuiper(np.array([0.1, -0.2, 0.05])).round(3))
    0.3
    """
    return np.asarray(np.maximum(s.max(axis=-1), 0.0) - np.minimum(s.min(axis=-1), 0.0))
