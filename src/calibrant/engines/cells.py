"""Cells: the rows of one bin, or of a part of it, and one outcome.

What the engines share: how the bin of a value is found by a multiplication and a comparison or two,
how sums of cells become a table, how sums of parts are added, what levels they tell, and the cells
of a lazy frame, which need not be those of the bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.problem import Problem
from calibrant.table import WEIGHT_SUMS, BinTable

Array = TypeVar("Array", bound=Any)

SMALLEST_EXPONENT = -40
"""Edges below 2^-40 share a cell: places on a finer grid would not fit into an integer."""
SUMS_ROUND_BY = 1e-11
"""Far above the rounding error of sums of any engine that adds few thousand terms at a time."""
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
    both_outcomes = np.add(terms[..., 0], event, order="C")
    named = {
        "count": both_outcomes[0],
        "sum_y": event[3 if weighted else 0],
        "sum_p": both_outcomes[1],
        "sum_pp": both_outcomes[2],
        "sum_py": event[1],
        "level": np.where(level < 0, np.nan, level),
    }
    return named | dict(zip(WEIGHT_SUMS, both_outcomes[3:6], strict=True)) if weighted else named


def levels_of(sums: FloatArray, weighted: bool) -> tuple[FloatArray, bool]:
    """Return the one prediction of each bin where sums determine it, and whether any is open.

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
    """Sums of the rows of cells; the cells of one group do not overlap.

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
            in_group = self.group % len(bins) == group
            place[in_group] = own_bins.index(values[in_group])
        return place


def inner_edges(bins: tuple[Bins, ...]) -> FloatArray:
    """Return the edges between the bins of each group, (groups, edges), ended by infinity."""
    edges_of_groups = [group_bins.edges for group_bins in bins]
    sizes = np.array([edges.size for edges in edges_of_groups])
    padded = np.full((len(bins), int(sizes.max())), np.inf)
    padded[np.arange(padded.shape[1]) < sizes[:, None]] = np.concatenate(edges_of_groups)
    inner = padded[:, 1:-1]
    inner[inner == 1.0] = np.inf  # the last edge of groups with fewer bins
    return np.ascontiguousarray(inner)


@dataclass(frozen=True, eq=False)
class Lookup:
    """Where the edges of each group lie on a grid of its own, or on one that all share.

    The cells of a grid have the width of a power of two, so a value's cell is certain; the few
    edges inside that cell are compared with the value itself.

    Attributes
    ----------
    edges : ndarray
        The inner edges of all grids, one after the other, with infinities behind each.
    grids : ndarray of shape (1 or n_groups, cells)
        How many of `edges`, counted from the first of all, lie below each cell.
    scales : ndarray of shape (n_groups,)
        Cells per unit.
    shift : ndarray of shape (n_groups,)
        What takes the number of an edge to that of a bin among those of all groups.
    steps : int
        No cell holds 2^steps edges.
    n_bins : int
        Bins of each group, padded to the most of any.
    even : int
        The number of bins where all share bins of one width, which arithmetic finds; or 0.
    """

    edges: FloatArray
    grids: IntArray
    scales: FloatArray
    shift: IntArray
    steps: int
    n_bins: int
    even: int = 0

    def cell_index(self, bins: Bins, values: FloatArray) -> IntArray:
        """Return 2 * bins.index(values), for the bins that this was built from alone."""
        if self.even:  # as `even_bins` of the compiled loops
            below = (values * (self.even * (1 - 2.0**-50))).astype(np.int32)
            below += values > bins.edges[1:].take(below)
            return np.multiply(below, 2, dtype=np.intp)
        place = (values * self.scales[0]).astype(np.intp)
        if self.scales[0] >= self.grids.shape[1]:
            np.minimum(place, self.grids.shape[1] - 1, out=place)
        cell: IntArray = self._clear_cells.take(place)
        unclear = np.flatnonzero(cell < 0)
        cell.ravel()[unclear] = 2 * bins.index(values.ravel()[unclear])
        return cell

    @cached_property
    def _clear_cells(self) -> IntArray:
        """Twice the edges below the values of each cell of the first grid; -1 if unclear."""
        inside = np.diff(self.grids[0], append=-1)
        return np.where(inside == 0, 2 * self.grids[0], -1)

    @property
    def arguments(self) -> tuple[int, FloatArray, IntArray, FloatArray, IntArray, int, int]:
        """The arguments of the compiled loops, in their order."""
        tables = (self.edges, self.grids, self.scales, self.shift)
        return self.even, *tables, self.steps, self.n_bins

    def columns(self, part: slice) -> Lookup:
        """Return what these groups need; their bins are counted from the first of them."""
        if len(self.grids) == 1:
            shift = self.shift[part] - self.shift[part][:1]
            return replace(self, scales=self.scales[part], shift=shift)
        size = self.edges.size // len(self.grids)
        edges = self.edges.reshape(-1, size)[part].ravel()
        grids = self.grids[part] - part.start * size
        shift = self.shift[: grids.shape[0]]
        return Lookup(edges, grids, self.scales[part], shift, _steps(grids), self.n_bins)


def lookup(bins: Sequence[Bins]) -> Lookup:
    """Return the tables that find bins, one `Bins` for each group."""
    first = bins[0]
    if len(bins) == 1 or all(x is first for x in bins) or all(x == first for x in bins):
        # only fixed bins may be even: those made from data are so by chance, and look equal
        return _shared(first, len(bins), first.origin == "fixed")
    return _build(bins, len(bins))


@lru_cache(maxsize=16)
def _shared(bins: Bins, n_groups: int, may_be_even: bool) -> Lookup:
    return _build([bins], n_groups, may_be_even)


def _build(rows: Sequence[Bins], n_groups: int, may_be_even: bool = False) -> Lookup:
    n_bins = max(map(len, rows))
    # about 32 cells a bin, so that few hold an edge; smaller tables where there are many
    bits = min(max((32 * n_bins - 1).bit_length(), 8), 16 if len(rows) == 1 else 12)
    # infinities, because a search of up to 2 n_bins edges may begin at the last one
    edges = np.full((len(rows), 3 * n_bins), np.inf)
    for row, group_bins in zip(edges, rows, strict=True):
        row[: len(group_bins) - 1] = group_bins.edges[1:-1]
    scale = np.array([2.0 ** (bits - _exponent(group_bins)) for group_bins in rows])
    places = np.arange((1 << bits) + 1) / scale[:, None]
    starts = range(0, edges.size, edges.shape[1])
    grids = np.empty(places.shape, np.intp)
    for grid, row, place, start in zip(grids, edges, places, starts, strict=True):
        np.add(row.searchsorted(place), start, out=grid)
    shift = n_bins * np.arange(n_groups) - (0 if len(rows) == 1 else np.array(starts))
    scales = scale.repeat(n_groups) if len(rows) == 1 else scale
    even = n_bins if may_be_even and is_even(rows[0]) else 0
    return Lookup(edges.ravel(), grids, scales, shift, _steps(grids), n_bins, even)


def _exponent(bins: Bins) -> int:
    """Return e such that no inner edge exceeds 2^e, the least within limits."""
    fraction, exponent = math.frexp(bins.edges[-2] if len(bins) > 1 else 1.0)
    return min(max(exponent - (fraction == 0.5), SMALLEST_EXPONENT), 0)


def is_even(bins: Bins) -> bool:
    """Return whether `even_bins` of the compiled loops finds these bins, to the last bit.

    What it compares with must be the edges. Then the first guess must be the bin or the one
    below, for every value; as it never falls when the value grows, the ends of bins tell.
    """
    n, edges = len(bins), bins.edges[1:]
    if not 1 < n < 1 << 20:
        return False
    number = np.arange(1.0, n + 1)
    high = np.rint(2.0**32 / n) / 2.0**32
    low = (1 - n * high) / n
    scale = n * (1 - 2.0**-50)
    return (
        np.array_equal(number * high + number * low, edges)
        and bool(np.all(np.floor(edges * scale) < number))
        and bool(np.all(np.floor(np.nextafter(edges, 2.0) * scale) >= number - 1))
    )


def _steps(grids: IntArray) -> int:
    """Return how many halvings separate the edges of the fullest cell."""
    return max(int((grids[:, 1:] - grids[:, :-1]).max()), 1).bit_length()
