"""The two axes of a diagram: probabilities or their logits, and how much of them is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.display.curves import DisplayedCurve
from calibrant.display.histograms import BARS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Scale: TypeAlias = Literal["probability", "logit"]
ENDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Where a probability axis may end; one that would be longer shows all of [0, 1]."""
TICKS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25)
DECADES = (0.0001, 0.001, 0.01, 0.1)
MOST_TICKS = 7.0
"""Length of a logit axis beyond which labels between decades would run into each other."""
SHOWN = 0.995
"""The share of predictions that a zoomed axis shows."""
NEAREST = 1e-5
"""To 0 and 1 that a logit axis goes."""


def axis_range(curves: Sequence[DisplayedCurve], scale: Scale, zoom: bool) -> tuple[float, float]:
    """Return the ends of both axes."""
    if scale == "logit":
        low = min(min(c.histogram.quantile(1 - SHOWN), _least(c)) for c in curves)
        high = max(max(c.histogram.quantile(SHOWN), _greatest(c)) for c in curves)
        a, b = special.logit(np.clip([low, high], NEAREST, 1 - NEAREST))
        return float(special.expit(a - 0.4)), float(special.expit(b + 0.4))
    top = max(max(c.histogram.quantile(SHOWN), float(c.curve.event_rate.max())) for c in curves)
    fitting = [end for end in ENDS if end >= 1.05 * top]
    return (0.0, fitting[0]) if zoom and fitting else (0.0, 1.0)


def _least(displayed: DisplayedCurve) -> float:
    rates = displayed.curve.event_rate
    return float(rates[rates > 0].min(initial=0.5))


def _greatest(displayed: DisplayedCurve) -> float:
    rates = displayed.curve.event_rate
    return float(rates[rates < 1].max(initial=0.5))


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
