"""Cells: sums of the rows of one bin, or of a part of it, and one outcome.

What the engines share: how sums become a table, how sums of parts are added, what levels they tell,
and the cells of a lazy frame, which need not be those of the bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.problem import Problem
from calibrant.table import WEIGHT_SUMS, BinTable

Array = TypeVar("Array", bound=Any)

SUMS_ROUND_BY = 1e-11
"""Far beyond what sums are wrong by, of any engine that adds few thousand terms at a time."""
SMALLEST_MEAN = 1e-140
"""Squares of smaller means are rounded by more than that, below the smallest normal number."""


def table_of(
    problem: Problem, bins: tuple[Bins, ...], sums: FloatArray, level: FloatArray, weighted: bool
) -> BinTable:
    """Make a table of sums, of shape (groups, bins, event, term), and levels, -1 where unknown."""
    return BinTable(problem, bins, **named_sums(sums, level, weighted))


def named_sums(sums: FloatArray, level: FloatArray, weighted: bool) -> dict[str, FloatArray]:
    """Return the arrays of a `BinTable`, or of several in leading dimensions.

    The sums have shape (..., bins, event, term), the levels (..., bins), -1 where unknown. Terms
    are 1, p, p^2 or, with weights, 1, w p, w p^2, w, w^2, w^2 (y - p)^2; without, there are no sums
    of weights.
    """
    terms = sums.transpose(sums.ndim - 1, *range(sums.ndim - 1))
    event = terms[..., 1].copy()
    both = np.add(terms[..., 0], event, order="C")
    named = {
        "count": both[0],
        "sum_y": event[3 if weighted else 0],
        "sum_p": both[1],
        "sum_pp": both[2],
        "sum_py": event[1],
        "level": np.where(level < 0, np.nan, level),
    }
    return named | dict(zip(WEIGHT_SUMS, both[3:6], strict=True)) if weighted else named


def levels_of(sums: FloatArray, weighted: bool) -> tuple[FloatArray, bool]:
    """Return the one prediction of each bin as far as sums tell, and whether some do not.

    The sums have shape (2 bins, terms), as for `table_of`. A level is -1 without rows, and NaN
    where predictions certainly differ: their spread is beyond the rounding of sums.
    """
    count, first, second = sums.reshape(-1, 2, sums.shape[1]).sum(axis=1).T[:3]
    weight = sums[:, 3].reshape(-1, 2).sum(axis=1) if weighted else count
    with np.errstate(over="ignore", invalid="ignore"):
        differ = weight * second - first * first > SUMS_ROUND_BY * (first * first)
    differ &= first > SMALLEST_MEAN * np.maximum(weight, 1.0)
    level = np.where(differ, np.nan, -1.0)
    if not weighted:
        alone = (count == 1) | ((count > 0) & (first == 0))
        level[alone] = first[alone]
    return level, bool(np.any((count > 0) & (level == -1)))


def merged_levels(known: FloatArray, level: FloatArray) -> FloatArray:
    """Return the level that both agree on, -1 where neither has one, NaN where they differ."""
    same = np.where(known == level, known, np.nan)
    return np.where(known == -1, level, np.where(level == -1, known, same))


def distinct(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, sorted, and the mass of each."""
    if weights is None:
        values = np.sort(values)
        new = np.ones(values.size, np.bool_)
        np.not_equal(values[1:], values[:-1], out=new[1:])
        first = np.flatnonzero(new)
        ends = np.append(first[1:], values.size)
        return values[first], (ends - first).astype(np.float64)
    values, weights = values[weights > 0], weights[weights > 0]
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, weights).astype(np.float64)


def add_compensated(total: Array, lost: Array, term: Array) -> tuple[Array, Array]:
    """Add a term to a total, and return both it and what it lost to rounding (Kahan)."""
    term = term - lost
    new = total + term
    return new, (new - total) - term


@dataclass(frozen=True)
class CellSums:
    """Sums of the rows of cells, of which no two of a group overlap.

    Attributes
    ----------
    group : ndarray
    number : ndarray
        The number of the cell in its grid, or the one value it holds.
    low, high : ndarray
        The least and the greatest prediction.
    sums : dict
        count, sum_y, sum_p, sum_pp, sum_py and, with weights, sum_w, sum_ww, sum_wwuu.
    """

    group: IntArray
    number: FloatArray
    low: FloatArray
    high: FloatArray
    sums: dict[str, FloatArray]

    @classmethod
    def of_parts(
        cls,
        group: IntArray,
        number: FloatArray,
        low: FloatArray,
        high: FloatArray,
        sums: dict[str, FloatArray],
    ) -> CellSums:
        """Add up the parts of each cell, as those in which the event happened and did not."""
        order = np.lexsort((number, group))
        group, number = group[order], number[order]
        new = (group[1:] != group[:-1]) | (number[1:] != number[:-1])
        first = np.flatnonzero(np.concatenate(([True], new)))
        return cls(
            group[first],
            number[first],
            np.minimum.reduceat(low[order], first),
            np.maximum.reduceat(high[order], first),
            {name: np.add.reduceat(values[order], first) for name, values in sums.items()},
        )

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.sums["count"][self.group == self.group[0]].sum())

    @property
    def mass(self) -> FloatArray:
        """The weight of the rows of each cell."""
        return self.sums.get("sum_w", self.sums["count"])

    def take(self, index: AnyArray) -> CellSums:
        """Return some of the cells."""
        sums = {name: values[index] for name, values in self.sums.items()}
        return CellSums(
            self.group[index], self.number[index], self.low[index], self.high[index], sums
        )

    @classmethod
    def joined(cls, parts: Sequence[CellSums]) -> CellSums:
        """Return the cells of all parts."""
        return cls(
            np.concatenate([part.group for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            {name: np.concatenate([part.sums[name] for part in parts]) for name in parts[0].sums},
        )

    def cut_by(self, bins: tuple[Bins, ...]) -> BoolArray:
        """Mark the cells with predictions in more than one bin."""
        return np.not_equal(self._places(bins, self.low), self._places(bins, self.high))

    def table(self, problem: Problem, bins: tuple[Bins, ...]) -> BinTable:
        """Add up the cells of each bin; no cell may be cut."""
        sums = {name: array[0] for name, array in self.stacked(bins, 1).items()}
        return BinTable(problem, bins, **sums)

    def stacked(self, bins: tuple[Bins, ...], n_codes: int) -> dict[str, FloatArray]:
        """Add up the cells of each code and bin; arrays have the shape (codes, groups, bins).

        The groups of code c are numbered from ``c * len(bins)`` on.
        """
        shape = (n_codes, len(bins), max(map(len, bins)))
        place, size = self.group * shape[2] + self._places(bins, self.low), math.prod(shape)
        sums: dict[str, FloatArray] = {
            name: np.bincount(place, values, size).astype(np.float64).reshape(shape)
            for name, values in self.sums.items()
        }
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, place, self.low)
        np.maximum.at(high, place, self.high)
        return sums | {"level": np.where(low == high, low, np.nan).reshape(shape)}

    def _places(self, bins: tuple[Bins, ...], values: FloatArray) -> IntArray:
        place = np.zeros(values.size, np.intp)
        for group, own_bins in enumerate(bins):
            own = self.group % len(bins) == group
            place[own] = own_bins.index(values[own])
        return place
