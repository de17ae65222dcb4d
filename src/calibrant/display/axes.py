"""The axes of a diagram, and what is counted along them: how often each prediction was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray, ReadOnlyArrays
from calibrant.bins import Bins
from calibrant.table import BinTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.display.curves import DisplayedCurve

Scale: TypeAlias = Literal["probability", "logit"]
ENDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Where a probability axis may end; one that would be longer shows all of [0, 1]."""
TICKS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25)
DECADES = (0.0001, 0.001, 0.01, 0.1)
"""Labels of a logit axis up to 1/2, mirrored above it, and those that a long axis keeps."""
MOST_TICKS = 7.0
"""Length of a logit axis beyond which labels between decades would run into each other."""
SHOWN = 0.995
"""The share of predictions that a zoomed axis shows."""
NEAREST = 1e-5
"""To 0 and 1 that a logit axis goes."""


def axis_range(curves: Sequence[DisplayedCurve], scale: Scale, zoom: bool) -> tuple[float, float]:
    """Return the ends of both axes."""
    rates = np.concatenate([displayed.curve.event_rate for displayed in curves])
    high = max(displayed.histogram.quantile(SHOWN) for displayed in curves)
    if scale == "logit":
        low = min(displayed.histogram.quantile(1 - SHOWN) for displayed in curves)
        ends = (
            min(low, rates[rates > 0].min(initial=0.5)),
            max(high, rates[rates < 1].max(initial=0.5)),
        )
        a, b = special.logit(np.clip(ends, NEAREST, 1 - NEAREST))
        return float(special.expit(a - 0.4)), float(special.expit(b + 0.4))
    top = max(high, float(rates.max()))
    fitting = [end for end in ENDS if end >= 1.05 * top]
    return (0.0, fitting[0]) if zoom and fitting else (0.0, 1.0)


def set_axes(ax: Axes, ends: tuple[float, float], scale: Scale) -> None:
    """Set scale, ends and ticks of both axes."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    low, high = ends
    if scale == "probability":
        margin = 0.02 * (high - low)
        ax.set(xlim=(low - margin, high + margin), ylim=(low - margin, high + margin))
        ax.set_aspect("equal")
        if high < 1:
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_locator(MaxNLocator(5))
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
        return

    wide = special.logit(high) - special.logit(low) > MOST_TICKS
    few = [t for t in TICKS if t in DECADES] if wide else TICKS
    ticks = [t for t in (*few, 0.5, *(1 - t for t in reversed(few))) if low <= t <= high]
    ax.set(xscale="logit", yscale="logit", xlim=ends, ylim=ends)
    ax.set_box_aspect(1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
        axis.set_minor_locator(NullLocator())


def shares(ax: Axes, values: FloatArray) -> FloatArray:
    """Return where values lie on the horizontal axis, as shares of what is shown."""
    low, high = ax.get_xlim()
    if ax.get_xscale() != "logit":
        return np.asarray((values - low) / (high - low))
    inner = special.logit(np.clip(values, NEAREST, 1 - NEAREST))
    a, b = special.logit([low, high])
    return np.asarray((inner - a) / (b - a))


def bar_edges(ax: Axes) -> FloatArray:
    """Return the edges of about 40 bars that fill the axis, all of which are counted finely."""
    low, high = ax.get_xlim()
    if ax.get_xscale() != "logit":
        step = max(round((min(high, 1.0) - max(low, 0.0)) / BARS, 3), 0.001)
        return np.arange(0.0, 1.0 + step / 2, step).clip(0.0, 1.0)
    a, b = special.logit([low, high])
    step = max(round((b - a) / BARS / 0.05), 1) * 0.05
    return np.asarray(special.expit(np.arange(np.floor(a / step), np.ceil(b / step) + 1) * step))


BARS = 40
"""Of a histogram: its shape is seen, and each bar is still some pixels wide."""
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
        places = []
        for i, (a, b) in enumerate(pairwise(x)):
            inside = empty & (self.edges[:-1] >= a) & (self.edges[1:] <= b)
            if not inside.any():
                continue
            run = longest = 0.0
            for is_empty, width in zip(inside, np.diff(on_axis), strict=True):
                run = run + width if is_empty else 0.0
                longest = max(longest, run)
            if longest > EMPTY_SHARE:
                places.append(i + 1)
        return np.array(places, int)
