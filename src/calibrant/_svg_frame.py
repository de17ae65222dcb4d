"""What a reliability diagram shows: a part of the axes, and the rows in its histogram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from calibrant._read_only import ReadOnlyArrays

if TYPE_CHECKING:
    from calibrant._types import BoolArray, FloatArray

COLUMNS = 40  # of the histogram, 20 units each: a little wider than a point
LIMITS = (*(float(f"{digit}e-{power}") for power in range(6, 0, -1) for digit in (1, 2, 5)), 1.0)
CLOSER = 2 / 3  # the share of rows that crowd in a corner, for it to be worth a closer look
CLOSER_LENGTH = 0.3  # of the axes, at most: in more than this they do not crowd


class DrawableCurve(Protocol):
    """What a diagram draws of a `ReliabilityCurve`, which lives in a higher layer."""

    @property
    def count(self) -> FloatArray: ...
    @property
    def mean_prediction(self) -> FloatArray: ...
    @property
    def event_rate(self) -> FloatArray: ...
    @property
    def low(self) -> FloatArray: ...
    @property
    def high(self) -> FloatArray: ...
    @property
    def left(self) -> FloatArray: ...
    @property
    def right(self) -> FloatArray: ...


class Window(NamedTuple):
    """The part of the axes that a diagram shows: predictions, and event rates."""

    start: float
    end: float
    bottom: float
    top: float

    @property
    def columns(self) -> FloatArray:
        """The edges of the columns of the histogram."""
        return np.linspace(self.start, self.end, COLUMNS + 1)

    def holds(self, curve: DrawableCurve) -> BoolArray:
        """Return which points of a curve lie in the window."""
        x, y, slack = curve.mean_prediction, curve.event_rate, 1e-12  # 1 - limit is rounded
        is_beside = (x >= self.start - slack) & (x <= self.end + slack)
        return is_beside & (y >= self.bottom - slack) & (y <= self.top + slack)


@dataclass(frozen=True, eq=False)
class Histogram(ReadOnlyArrays):
    """Rows with and without the event in each column of a window, or at each point of a curve."""

    events: FloatArray
    others: FloatArray


class Frame(NamedTuple):
    """What a diagram shows besides its curve.

    Attributes
    ----------
    window : Window
    histogram : Histogram
    is_binned : bool
        Whether each point is one distinct prediction, so that there is nothing between two: the
        histogram then has a bar at each.
    """

    window: Window
    histogram: Histogram
    is_binned: bool = False


def frame_of(curve: DrawableCurve, window: Window | None = None, is_binned: bool = False) -> Frame:
    """Return a frame whose histogram spreads the rows of each bin evenly between its edges."""
    shown = window or window_of(curve)
    events = curve.count * curve.event_rate
    others = curve.count - events
    if is_binned:
        return Frame(shown, Histogram(events, others), is_binned)
    return Frame(shown, Histogram(*(_spread(curve, rows, shown) for rows in (events, others))))


def _spread(curve: DrawableCurve, rows: FloatArray, window: Window) -> FloatArray:
    if not rows.size:
        return np.zeros(COLUMNS)
    total = np.cumsum(rows)
    edges = np.stack([curve.left, curve.right], axis=1).ravel()
    below = np.stack([total - rows, total], axis=1).ravel()
    return np.diff(np.interp(window.columns, edges, below))


def window_of(curve: DrawableCurve) -> Window:
    """Return the least round square, from 0 or up to 1, that holds all points."""
    means = np.concatenate([curve.mean_prediction, curve.event_rate])
    from_0 = round_limit(float(means.max(initial=0.0)))
    to_1 = round_limit(float((1 - means).max(initial=0.0))) if means.size else 1.0
    if from_0 <= to_1:
        return Window(0.0, from_0, 0.0, from_0)
    return Window(1 - to_1, 1.0, 1 - to_1, 1.0)


def joint_window(first: Window, second: Window) -> Window:
    """Return the least window that holds both: two diagrams side by side need the same axes."""
    ends = (min(first.start, second.start), max(first.end, second.end))
    return Window(*ends, min(first.bottom, second.bottom), max(first.top, second.top))


def closer_window(curve: DrawableCurve, window: Window) -> Window | None:
    """Return a window that shows most rows larger, where they crowd in a corner of this one.

    It holds the event rates of all its points, so that its sides may differ.
    """
    x, y, most = (
        curve.mean_prediction,
        curve.event_rate,
        CLOSER_LENGTH * (window.end - window.start),
    )
    for limit in (limit for limit in LIMITS if limit <= most):
        for is_low in (True, False):
            inside = x <= limit if is_low else x >= 1 - limit
            if inside.sum() < 3 or curve.count[inside].sum() < CLOSER * curve.count.sum():
                continue
            reach = round_limit(max(limit, float((y if is_low else 1 - y)[inside].max())))
            return Window(0, limit, 0, reach) if is_low else Window(1 - limit, 1, 1 - reach, 1)
    return None


def round_limit(largest: float) -> float:
    """Return the least round number that is not below this one, 1 at most."""
    return next(limit for limit in LIMITS if limit >= largest or limit == 1.0)
