"""Tables that find the bin of a value with a multiplication and a comparison or two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from calibrant._types import FloatArray, IntArray
from calibrant.bins import Bins

SMALLEST_EXPONENT = -40
"""Edges below 2^-40 share a cell: places on a finer grid would not fit into an integer."""


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
        """What the compiled loops take, in their order."""
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
        steps = _steps(grids)
        return Lookup(edges, grids, self.scales[part], shift, steps, self.n_bins)


def lookup(bins: Sequence[Bins]) -> Lookup:
    """Return the tables that find bins, one `Bins` for each group."""
    first = bins[0]
    if len(bins) == 1 or all(own is first for own in bins) or all(own == first for own in bins):
        # bins of one width are not made from data, but by chance; equal bins may differ in that
        return _shared(first, len(bins), first.origin == "fixed")
    return _build(bins, len(bins))


@lru_cache(maxsize=16)
def _shared(bins: Bins, n_groups: int, may_be_even: bool) -> Lookup:
    return _build([bins], n_groups, may_be_even)


def _build(rows: Sequence[Bins], n_groups: int, may_be_even: bool = False) -> Lookup:
    n_bins = max(map(len, rows))
    bits = min(max((32 * n_bins - 1).bit_length(), 8), 16 if len(rows) == 1 else 12)
    edges = np.full((len(rows), 3 * n_bins), np.inf)
    for row, own in zip(edges, rows, strict=True):
        row[: len(own) - 1] = own.edges[1:-1]
    scale = np.array([2.0 ** (bits - _exponent(own)) for own in rows])
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
    """Return how many halvings tell the edges of the fullest cell apart."""
    return max(int((grids[:, 1:] - grids[:, :-1]).max()), 1).bit_length()
