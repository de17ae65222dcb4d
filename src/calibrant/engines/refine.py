"""Uniform-mass bins without a sort: passes that count cells, finer where a cut will fall.

A rule that cuts at quantiles needs to know the values next to its cuts and the mass below them,
and nothing else. So the cells of a grid are counted with their mass, minimum and maximum. A cell
that holds a wanted quantile and more than one distinct value is open; open cells are counted
on a finer grid or, once few rows are left in them, listed value by value. The rule then sees
fewer values than there are, with masses that add up to the same sums wherever it can cut, so it
makes the same edges.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray

Values = tuple[FloatArray, FloatArray]
"""Sorted distinct values and the mass of each."""

Within = tuple[int, FloatArray]
"""Some cells of the grid that cuts [0, 1] into 2^bits: (bits, their numbers)."""

MAX_PASSES = 4
BITS_A_PASS = 12


@dataclass(frozen=True)
class Cells:
    """Number, mass, rows, minimum and maximum of the cells that hold something."""

    number: FloatArray
    mass: FloatArray
    rows: FloatArray
    low: FloatArray
    high: FloatArray

    def take(self, index: AnyArray) -> Cells:
        """Return the cells at these positions."""
        return Cells(*(field[index] for field in self._fields()))

    def joined(self, other: Cells) -> Cells:
        """Return both, in the order of their values."""
        pairs = zip(self._fields(), other._fields(), strict=True)
        both = Cells(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.argsort(both.low))

    def _fields(self) -> list[FloatArray]:
        return [self.number, self.mass, self.rows, self.low, self.high]


@dataclass(frozen=True)
class Ask:
    """A question to the data: count the cells of 2^bits, or list the values if bits is None.

    `within` restricts it to cells of a coarser grid.
    """

    bits: int | None
    within: Within | None = None


def quantile_search(
    n_bins: int | Callable[[], int],
    few: float,
    bits: int | None = None,
    step: int = BITS_A_PASS,
    most_passes: int = MAX_PASSES,
) -> Generator[Ask, Any, Values]:
    """Ask pass after pass, and return values from which `EqualMass` makes the edges of all values.

    The answer to a count is `Cells`, that to a list `Values`. Whoever answers may do so for many
    groups in one pass over the data.

    Parameters
    ----------
    n_bins : int or callable
        The quantiles are those of 1 / n_bins, 2 / n_bins, ...; a callable is asked after the first
        pass, when the rows have been counted.
    few : float
        How many rows may be listed before the last pass.
    bits : int, optional
        Of the first grid; by default about 32 cells a bin.
    step : int
        How many bits finer each grid is than the one before.
    most_passes : int
        The last one lists whatever is left.
    """
    if bits is None:
        bits = int(np.clip(np.ceil(np.log2(32 * int(n_bins))), 10, 16))  # type: ignore[arg-type]
    cells: Cells = yield Ask(bits)
    n_bins = n_bins if isinstance(n_bins, int) else n_bins()
    cells = cells.take(np.argsort(cells.low))
    for done in range(1, most_passes):
        is_open = _open(cells, n_bins)
        if not is_open.any():
            return _as_values(cells)
        if done == most_passes - 1 or cells.rows[is_open].sum() <= few:
            break
        finer: Cells = yield Ask(bits + step, (bits, cells.number[is_open]))
        cells = cells.take(~is_open).joined(finer)
        bits += step
    listed: Values = yield Ask(None, (bits, cells.number[is_open]))
    return _joined(_as_values(cells.take(~is_open)), listed)


def _open(cells: Cells, n_bins: int) -> BoolArray:
    """Mark the cells that hold a quantile and more than one distinct value."""
    above = np.cumsum(cells.mass)
    targets = above[-1] * np.arange(1, n_bins) / n_bins
    holding = np.minimum(np.searchsorted(above, targets, side="left"), above.size - 1)
    marked = np.zeros(above.size, np.bool_)
    marked[holding] = True
    return marked & (cells.low < cells.high)


def _as_values(cells: Cells) -> Values:
    """Stand for each cell by its minimum with all its mass and, where it differs, its maximum."""
    several = cells.low < cells.high
    kept = np.column_stack([np.ones_like(several), several])
    mass = np.column_stack([cells.mass, np.zeros_like(cells.mass)])
    return np.column_stack([cells.low, cells.high])[kept], mass[kept]


def _joined(a: Values, b: Values) -> Values:
    values, mass = (np.concatenate(pair) for pair in zip(a, b, strict=True))
    order = np.argsort(values)
    return values[order], mass[order]
