"""What a pass over a frame brings home: sums of disjoint cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.problem import Problem
from calibrant.table import BinTable, unit_weight_sums


@dataclass(frozen=True)
class Counted:
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
    def of_sides(
        cls,
        group: IntArray,
        number: FloatArray,
        happened: FloatArray,
        low: FloatArray,
        high: FloatArray,
        sums: dict[str, FloatArray],
    ) -> Counted:
        """Add up the rows of each cell in which the event happened and those in which not."""
        mass = sums.get("sum_w", sums["count"])
        sums = sums | {"sum_y": happened * mass, "sum_py": happened * sums["sum_p"]}
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

    def take(self, index: AnyArray) -> Counted:
        """Return some of the cells."""
        sums = {name: values[index] for name, values in self.sums.items()}
        return Counted(
            self.group[index], self.number[index], self.low[index], self.high[index], sums
        )

    @classmethod
    def joined(cls, parts: Sequence[Counted]) -> Counted:
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
        shape = (len(bins), max(map(len, bins)))
        place = self.group * shape[1] + self._places(bins, self.low)
        size = shape[0] * shape[1]
        sums: dict[str, FloatArray] = {
            name: np.bincount(place, values, size).astype(np.float64).reshape(shape)
            for name, values in self.sums.items()
        }
        if "sum_w" not in sums:
            sums |= unit_weight_sums(**sums)
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        np.minimum.at(low, place, self.low)
        np.maximum.at(high, place, self.high)
        level = np.where(low == high, low, np.nan).reshape(shape)
        return BinTable(problem, bins, **sums, level=level)

    def _places(self, bins: tuple[Bins, ...], values: FloatArray) -> IntArray:
        place = np.zeros(values.size, np.intp)
        for group, each in enumerate(bins):
            own = self.group == group
            place[own] = each.index(values[own])
        return place
