"""How often each prediction was made, counted finely once and drawn on any axis."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray, ReadOnlyArrays
from calibrant.bins import Bins
from calibrant.table import BinTable

BARS = 40
FINE = Bins(
    np.unique(
        np.concatenate([np.linspace(0, 1, 1001), special.expit(np.linspace(-10, 10, 401))]).round(
            12
        )
    )
)
"""Edges of bars on a probability axis, down to 0.001, and on a logit axis, down to 1 in 20,000."""
EMPTY_SHARE = 0.06
"""Of an axis: a curve is not drawn across a longer stretch without rows."""


@dataclass(frozen=True, eq=False)
class Histogram(ReadOnlyArrays):
    """Rows and events in bins of predictions.

    Attributes
    ----------
    edges : ndarray of shape (m + 1,)
    rows, events : ndarray of shape (m,)
        With sample weights both are sums of weights.
    """

    edges: FloatArray
    rows: FloatArray
    events: FloatArray

    @classmethod
    def of(cls, table: BinTable, group: int) -> Histogram:
        """Read the bins of one group of a table."""
        edges = table.bins[group].edges
        used = slice(0, edges.size - 1)
        return cls(edges, table.sum_w[group, used], table.sum_y[group, used])

    @property
    def base_rate(self) -> float:
        """The share of events."""
        return float(self.events.sum() / self.rows.sum())

    def quantile(self, share: float) -> float:
        """Return the prediction below which this share of the rows lies."""
        reached = np.concatenate([[0.0], np.cumsum(self.rows)]) / self.rows.sum()
        return float(np.interp(share, reached, self.edges))

    def bars(self, edges: FloatArray, events: bool = False) -> FloatArray:
        """Return rows, or events, between these edges; those of wider bins are spread evenly."""
        sums = self.events if events else self.rows
        return np.diff(np.interp(edges, self.edges, np.concatenate([[0.0], np.cumsum(sums)])))

    def breaks(self, x: FloatArray, on_axis: FloatArray) -> IntArray:
        """Return the places in x after which there is a long stretch of the axis without rows.

        `on_axis` are the edges of the histogram as shares of the axis.
        """
        empty = self.rows == 0
        found = []
        for i, (a, b) in enumerate(pairwise(x)):
            inside = empty & (self.edges[:-1] >= a) & (self.edges[1:] <= b)
            if not inside.any():
                continue
            run = longest = 0.0
            for is_empty, width in zip(inside, np.diff(on_axis), strict=True):
                run = run + width if is_empty else 0.0
                longest = max(longest, run)
            if longest > EMPTY_SHARE:
                found.append(i + 1)
        return np.array(found, int)
