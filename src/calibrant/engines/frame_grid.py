"""Grids of cells by which a lazy frame groups predictions, and the passes made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calibrant._types import FloatArray
from calibrant.engines.expressions import balanced, narwhals

LINEAR_BITS = 18
"""Grids of at most so many bits are even; finer ones are finer towards 0 and 1."""
STEEP_AT_ZERO = range(16, 144, 16)
STEEP_AT_ONE = range(16, 64, 16)
STEEP_SHARE = 2.0**-11
"""Orders of magnitude, as powers of two, at which fine grids are steep, and the share of the cells
that they take there: down to 2^-128 beside 0, and to 2^-48 beside 1, where floats end at 2^-53. A
poor choice costs a pass more, never an edge."""


@dataclass(frozen=True)
class Grid:
    """Cells of [0, 1]: ``(i - 1, i] / scale``, or beyond `LINEAR_BITS` finer near 0 and 1."""

    scale: float

    @classmethod
    def of_bits(cls, bits: int) -> Grid:
        """Return the grid of 2^bits cells; multiplying by a power of two is exact."""
        return cls(float(1 << bits))

    @property
    def is_even(self) -> bool:
        """Whether all cells have the same width."""
        return self.scale <= 1 << LINEAR_BITS

    @property
    def largest(self) -> float:
        """The number of the last cell."""
        steep = STEEP_SHARE * (len(STEEP_AT_ZERO) + len(STEEP_AT_ONE))
        return self.scale * (1.0 if self.is_even else 1.0 + steep)

    def number(self, p: Any) -> Any:
        """Return the cell of p, which rises with p."""
        return ((p if self.is_even else _stretched(p)) * self.scale).ceil()


@dataclass(frozen=True)
class Pass:
    """What one group of predictions is grouped by.

    Attributes
    ----------
    grid : Grid or None
        None means by value.
    within : list of (Grid, numbers)
        Only rows that lie in one of these cells of each grid.
    edges : ndarray
        Cells are parted once more at these values.
    """

    grid: Grid | None
    within: tuple[tuple[Grid, FloatArray], ...] = ()
    edges: FloatArray = field(default_factory=lambda: np.empty(0))

    @property
    def largest_key(self) -> float:
        """The largest number of a cell, parts of cells and what happened included."""
        cells = 1.0 if self.grid is None else self.grid.largest + 1
        return 2 * cells * (self.edges.size + 1)


def _stretched(p: Any) -> Any:
    """Return a rising function of p that is steep near 0 and 1, on a scale of orders of magnitude.

    p itself, plus small parts of ``p / (p + c)`` for many c, less those of ``q / (q + c)`` for
    q = 1 - p. Written so that every operation rises or falls with p also when it is rounded, and
    none divides by zero.
    """
    nw = narwhals()

    def share(x: Any, c: float) -> Any:
        return nw.lit(STEEP_SHARE) / (nw.lit(c) / (x + 1e-300) + 1.0)

    q = nw.lit(1.0) - p
    rising = [share(p, 2.0**-k) for k in STEEP_AT_ZERO]
    falling = [share(q, 2.0**-k) for k in STEEP_AT_ONE]
    return p + balanced(rising) - balanced(falling) + STEEP_SHARE * len(falling)
