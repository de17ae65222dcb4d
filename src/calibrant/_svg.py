"""The reliability diagram as inline SVG, for reports and notebooks.

All geometry is here: a page that shows another curve swaps the path strings of `paths`, which
came with it. The plot is a square of 800 units: whole numbers are exact enough to draw with,
few have more than three digits, and a page of a thousand curves stays below 2 MB.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, Protocol

import numpy as np

from calibrant._html import Attribute, Content, Element, element, short
from calibrant._types import BoolArray, FloatArray, ReadOnlyArrays

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

    def spread(rows: FloatArray) -> FloatArray:
        if not rows.size:
            return np.zeros(COLUMNS)
        total = np.cumsum(rows)
        edges = np.stack([curve.left, curve.right], axis=1).ravel()
        below = np.stack([total - rows, total], axis=1).ravel()
        return np.diff(np.interp(shown.columns, edges, below))

    return Frame(shown, Histogram(spread(events), spread(others)))


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
    x, y, rows = curve.mean_prediction, curve.event_rate, curve.count
    most = CLOSER_LENGTH * (window.end - window.start)
    for limit in (limit for limit in LIMITS if limit <= most):
        for is_low, inside in ((True, x <= limit), (False, x >= 1 - limit)):
            if inside.sum() >= 3 and rows[inside].sum() >= CLOSER * rows.sum():
                reach = round_limit(max(limit, float((y if is_low else 1 - y)[inside].max())))
                return Window(0, limit, 0, reach) if is_low else Window(1 - limit, 1, 1 - reach, 1)
    return None


def round_limit(largest: float) -> float:
    """Return the least round number that is not below this one, 1 at most."""
    return next(limit for limit in LIMITS if limit >= largest or limit == 1.0)


SIDE = 800  # of the square of [0, 1]: whole units place a number to 0.00125
BASE, HALF = SIDE + 136, 74  # the base line of the histogram, and its height on either side
BOTTOM = BASE + HALF
VIEW_BOX = f"-107 -27 933 {BOTTOM + 98}"
STEPS = 5  # of the grid: a line and a label at every fifth of what is shown
EMPTY_COLUMNS = 2  # as many break the ribbon: one is often empty by chance
LONE = 7  # half the width of the ribbon where it stands for one point
# A report's style sheet paints these classes; in a notebook, presentation attributes do. Grey is
# the colour of the text around, and the blue shows on light and dark alike.
_POINTS: dict[str, Attribute] = {
    "fill": "none",
    "stroke": "#3b82c4",
    "stroke-width": 15.6,
    "stroke-linecap": "round",
}
PAINT: dict[str, dict[str, Attribute]] = {
    "grid": {"fill": "none", "stroke": "currentColor", "stroke-opacity": 0.2, "stroke-width": 2},
    "diagonal": {
        "fill": "none",
        "stroke": "currentColor",
        "stroke-opacity": 0.6,
        "stroke-width": 3.3,
        "stroke-dasharray": "4.4 9",
    },
    "band": {"fill": "#3b82c4", "fill-opacity": 0.22},
    "bars": {"fill": "none", "stroke": "#3b82c4", "stroke-width": 3.6},
    "points": _POINTS,
    "inner": {"stroke": "#fff", "stroke-width": 8},
    "filled": _POINTS,
    "events": {"fill": "#3b82c4", "fill-opacity": 0.8},
    "others": {"fill": "currentColor", "fill-opacity": 0.35},
    "end": {"text-anchor": "end"},
    "mid": {"text-anchor": "middle"},
    "diagram": {
        "width": 420,
        "overflow": "visible",
        "fill": "currentColor",
        "font-family": "sans-serif",
        "font-size": 25.6,
    },
}
# From the lowest layer up: the path, and the classes that paint it. Points are hollow unless
# the limits exclude the diagonal, so that a filled one is a finding.
LAYERS = (
    ("band", "band"),
    ("bars", "bars"),
    ("points", "points"),
    ("points", "points inner"),
    ("filled", "filled"),
    ("events", "events"),
    ("others", "others"),
)


def diagram(
    curve: DrawableCurve,
    at_once: DrawableCurve,
    title: str,
    labels: tuple[str, str] = ("predicted", "happened"),
    name: str | None = None,
    frame: Frame | None = None,
) -> Element:
    """Return the diagram of a curve, with a histogram of the predictions by outcome below.

    Bars are the limits of `curve`, the ribbon those of `at_once`. The `name` begins the ids, of
    which a page may have only one of each; without it there are none.
    """
    frame = frame or frame_of(curve)
    drawn = paths(curve, at_once, frame)
    (label_x, label_y), (most_events, most_others) = labels, most_rows(frame)
    return element(
        "svg",
        element("title", title, id=name and f"{name}-title"),
        element("desc", description(curve, at_once), id=name and f"{name}-description"),
        _axes(frame.window),
        *(element("path", d=drawn[part], class_=classes) for part, classes in LAYERS),
        element("path", d=f"M0 0V{BOTTOM}", class_="here", visibility="hidden"),
        element("path", d=f"M0 {BASE}h{SIDE}", class_="grid"),
        element("text", most_events, x=-13, y=BASE - HALF + 22, class_="end tick most-events"),
        element("text", most_others, x=-13, y=BOTTOM, class_="end tick most-others"),
        element("text", histogram_label(label_y), x=0, y=BOTTOM + 58, class_="tick outcomes"),
        element("text", f"{label_y} ↑", x=18, y=40, class_="axis axis-y"),
        element("text", f"{label_x} →", x=SIDE, y=BOTTOM + 58, class_="axis end axis-x"),
        viewBox=VIEW_BOX,
        role="img",
        aria_label=None if name else title,
        aria_labelledby=name and f"{name}-title {name}-description",
        id=name and f"{name}-svg",
        class_="diagram",
    )


def diagram_svg(curve: DrawableCurve, class_name: str | None = None) -> str:
    """Return the diagram of a curve for a notebook, which has no style sheet.

    The axes name the class, where the curve is that of one of several.

    Examples
    --------
    >>> from calibrant import reliability_curve
    >>> diagram_svg(reliability_curve([0, 0, 1, 1], [0.1, 0.4, 0.6, 0.9], bins=2))[:5]
    '<svg '
    """
    x_label = "predicted" if class_name is None else f"predicted: {short(class_name, 20)}"
    return str(painted(diagram(curve, curve, "Reliability diagram", (x_label, "happened"))))


def paths(curve: DrawableCurve, at_once: DrawableCurve, frame: Frame) -> dict[str, str]:
    """Return the data of each path by its class: what changes with the curve."""
    (start, end, bottom, top), inside = frame.window, frame.window.holds(curve)
    x = _placed(curve.mean_prediction[inside], start, end)
    low, high, low_all, high_all, rate = (
        [SIDE - y for y in _placed(values[inside], bottom, top)]
        for values in (curve.low, curve.high, at_once.low, at_once.high, curve.event_rate)
    )
    points = [f"M{a} {b}h0" for a, b in zip(x, rate, strict=True)]
    filled = beyond_chance(at_once)[inside].tolist()
    return {
        "band": _ribbon(x, low_all, high_all, _joined(curve, frame, inside)),
        "bars": "".join(f"M{a} {b}V{c}" for a, b, c in zip(x, low, high, strict=True)),
        "points": "".join(points),
        "filled": "".join(p for p, beyond in zip(points, filled, strict=True) if beyond),
        **{
            name: _bars_at(x, rows[inside], side) if frame.is_binned else _staircase(rows, side)
            for (name, rows), side in zip(vars(frame.histogram).items(), (-1, 1), strict=True)
        },
    }


def _joined(curve: DrawableCurve, frame: Frame, inside: BoolArray) -> list[bool]:
    """Return for each point whether there are predictions between it and the one before."""
    left, right, mean = curve.left[inside], curve.right[inside], curve.mean_prediction[inside]
    if frame.is_binned or not mean.size:
        return [False] * mean.size
    empty = np.cumsum(np.append(0, frame.histogram.events + frame.histogram.others <= 0))
    place = np.searchsorted(frame.window.columns[1:-1], mean)
    between = np.diff(empty[place]) < EMPTY_COLUMNS
    return [False, *(between & (left[1:] <= right[:-1])).tolist()]


def _ribbon(x: list[int], low: list[int], high: list[int], joined: list[bool]) -> str:
    """Return the ribbon in pieces: it says nothing where there are no predictions."""
    starts = [i for i, is_joined in enumerate(joined) if not is_joined]
    drawn = []
    for start, end in zip(starts, [*starts[1:], len(x)], strict=False):
        if end == start + 1:
            left, top, bottom = x[start] - LONE, high[start], low[start]
            drawn.append(f"M{left} {top}h{2 * LONE}V{bottom}h-{2 * LONE}Z")
        else:
            outline = [f"{x[i]} {high[i]}" for i in range(start, end)]
            outline += [f"{x[i]} {low[i]}" for i in reversed(range(start, end))]
            drawn.append(f"M{'L'.join(outline)}Z")
    return "".join(drawn)


def _heights(rows: FloatArray) -> list[int]:
    """Return heights in proportion to the tallest; a single row shows."""
    most = float(rows.max(initial=0.0)) or 1.0
    return [math.ceil(HALF * max(n, 0.0) / most) for n in rows.tolist()]


def _bars_at(x: list[int], rows: FloatArray, side: int) -> str:
    """Return a bar at each point, upwards or downwards."""
    bars = zip(x, _heights(rows), strict=True)
    return "".join(f"M{a - LONE} {BASE}v{side * h}h{2 * LONE}V{BASE}Z" for a, h in bars if h)


def _staircase(rows: FloatArray, side: int) -> str:
    """Return columns side by side, upwards or downwards."""
    steps, x, width = [], 0, SIDE // COLUMNS
    for height, run in groupby(_heights(rows)):
        x += width * len(list(run))
        steps.append(f"V{BASE + side * height}H{x}")
    return f"M0 {BASE}{''.join(steps)}V{BASE}Z" if rows.any() else ""


def most_rows(frame: Frame) -> tuple[str, str]:
    """Return the rows of the tallest columns, with and without the event."""
    rows = frame.histogram
    return _compact(rows.events.max(initial=0.0)), _compact(rows.others.max(initial=0.0))


def _compact(number: float) -> str:
    """Return a count in at most five characters; one row spread over columns is less than one.

    >>> [_compact(n) for n in (0, 0.2, 7, 999, 1234, 56_789, 99_700, 3_400_000)]
    ['0', '<1', '7', '999', '1.2k', '57k', '100k', '3.4M']
    """
    if 0 < number < 1:
        return "<1"
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            digits = ".2g" if number < 99.5 * size else ".0f"
            return f"{number / size:{digits}}{unit}"
    return f"{number:.0f}"


def histogram_label(happened: str) -> str:
    """Say which side of the histogram is which."""
    above, below = ("right", "wrong") if happened == "was right" else ("happened", "did not")
    return f"rows: {above} above, {below} below"


def beyond_chance(at_once: DrawableCurve) -> BoolArray:
    """Return which bins have a mean prediction outside the limits of their event rate."""
    predicted = at_once.mean_prediction
    return (predicted < at_once.low) | (predicted > at_once.high)


def description(curve: DrawableCurve, at_once: DrawableCurve) -> str:
    """Say in one sentence what the diagram shows."""
    off = beyond_chance(at_once)
    bins = "One bin" if off.size == 1 else f"{off.size:,} bins"
    if not off.any():
        return f"{bins}, all of them within the range of chance."
    beyond, above = off.sum(), (off & (curve.event_rate > curve.mean_prediction)).sum()
    return (
        f"{bins}; {beyond:,} lie beyond chance, of which {above:,} above the diagonal "
        f"(happened more often than said) and {beyond - above:,} below."
    )


def ticks(start: float, end: float) -> list[str]:
    """Return the labels of an axis."""
    values = np.linspace(start, end, STEPS + 1).tolist()
    return [f"{float(f'{100 * value:.6g}'):g}%" for value in values]


def _axes(window: Window) -> Iterable[Content]:
    start, end, bottom, top = window
    places = [step * SIDE // STEPS for step in range(STEPS + 1)]
    grid = "".join(f"M0 {s}h{SIDE}M{s} 0v{SIDE}" for s in places)
    ends = np.array([max(start, bottom), min(end, top)])
    (left, right), (low, high) = _placed(ends, start, end), _placed(ends, bottom, top)
    yield element("path", d=grid, class_="grid")
    yield element("path", d=f"M{left} {SIDE - low}L{right} {SIDE - high}", class_="diagonal")
    labels = zip(places, ticks(start, end), ticks(bottom, top), strict=True)
    for i, (s, predicted, happened) in enumerate(labels):
        yield element("text", happened, x=-13, y=SIDE - s + 9, class_=f"end tick tick-{i}")
        yield element("text", predicted, x=s, y=SIDE + 36, class_=f"mid tick tick-{i}")


def _placed(values: FloatArray, start: float, end: float) -> list[int]:
    """Return whole-number coordinates on an axis from `start` to `end`."""
    shares = (values - start) / (end - start)
    return [round(SIDE * min(max(share, 0.0), 1.0)) for share in shares.tolist()]


def painted(node: Element) -> Element:
    """Add to each element the presentation attributes of its classes."""
    names = str(dict(node.attributes).get("class", "")).split()
    paint = {key: value for name in names for key, value in PAINT.get(name, {}).items()}
    children = (c if not isinstance(c, Element) else painted(c) for c in node.children)
    return Element(node.tag, (*node.attributes, *paint.items()), tuple(children))
