"""Estimates with their intervals as inline SVG: one error, several differences, many batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from calibrant._html import Content, Element, element, short
from calibrant._svg import painted, round_limit

LENGTH = 871  # of a bar: with its margins as wide as the reliability diagram
UNBOUNDED = 4.0  # times what else is shown: a bound beyond is an arrow, or the rest would shrink


class ErrorBar(NamedTuple):
    """An error, all its limits on one scale.

    Attributes
    ----------
    estimate : float
    interval : (float, float)
    chance : float
        What a calibrated model would score.
    bounds : (float, float) or None
        What is proved: at least, and at most.
    max_error : float, optional
        The tolerance.
    """

    estimate: float
    interval: tuple[float, float]
    chance: float
    bounds: tuple[float, float] | None
    max_error: float | None

    @property
    def end(self) -> float:
        """Where the scale ends: a round number beyond everything that is shown."""
        lower, upper = self.bounds or (0.0, 0.0)
        largest = max(self.interval[1], self.chance, self.estimate, self.max_error or 0.0, lower)
        return round_limit(max(largest, upper if upper <= UNBOUNDED * largest else 0.0))


def error_bar(bar: ErrorBar, written: Callable[[float], str], description: str) -> Element:
    """Return an error to scale: estimate and interval, and below them what is proved."""
    (low, high), end, limit = bar.interval, bar.end, bar.max_error

    def at(value: float) -> int:
        return round(LENGTH * min(value / end, 1.0))

    if bar.bounds:  # a bound beyond the scale ends in an arrow
        tail = "m-16 -13l16 13l-16 13" if bar.bounds[1] > end else "m0 -18v36"
        proved = f"M{at(bar.bounds[0])} 60v36m0 -18H{at(bar.bounds[1])}{tail}"
    marks = [
        ("grid", f"M0 0H{LENGTH}M0 78H{LENGTH}" if bar.bounds else f"M0 0H{LENGTH}"),
        ("chance", f"M0 -36H{at(bar.chance)}V36H0Z"),
        ("interval", f"M{at(low)} 0H{at(high)}"),
        ("estimate", f"M{at(bar.estimate)} 0h0"),
        *([("proved", proved)] if bar.bounds else []),
        *([("limit", f"M{at(limit)} -49V{114 if bar.bounds else 49}")] if limit else []),
    ]
    bottom = 78 if bar.bounds else 0
    places = ("tick", *["tick mid"] * 3, "tick end")
    return element(
        "svg",
        element("title", "The error to scale", id="error-bar-title"),
        element("desc", description, id="error-bar-description"),
        *(element("path", d=d, class_=name) for name, d in marks),
        _label(at(bar.estimate), -58, f"error {written(bar.estimate)}"),
        _label(at(limit), bottom + 82, f"limit {written(limit)}") if limit else None,
        *(
            element("text", f"{25 * end * i:.3g}", x=at(end * i / 4), y=bottom + 129, class_=place)
            for i, place in enumerate(places)
        ),
        viewBox=f"-31 -111 {LENGTH + 62} {bottom + 249}",
        role="img",
        aria_labelledby="error-bar-title error-bar-description",
        class_="error-bar",
    )


def _label(x: int, y: int, text: str) -> Element:
    """Write beside a mark, on the side where there is room."""
    where = "" if x < LENGTH / 3 else " end" if x > 2 * LENGTH / 3 else " mid"
    return element("text", text, x=x, y=y, class_=f"axis{where}")


def differences_svg(rows: Sequence[tuple[str, float, float, float]]) -> str:
    """Return differences a - b with their intervals for a notebook, each line to its own scale.

    A row is a name, the difference, and the ends of its interval; less is better.
    """
    middle, reach, height = 600, 220, 55
    bottom = height * len(rows)
    marks: list[Content] = [element("path", d=f"M{middle} 0V{bottom}", class_="diagonal")]
    for i, (name, value, low, high) in enumerate(rows):
        y, scale = height * i + 30, reach / (max(abs(low), abs(value), abs(high)) or 1.0)
        x, left, right = (round(middle + scale * v) for v in (value, low, high))
        marks += [
            element("text", name, x=0, y=y + 9),
            element("path", d=f"M{left} {y}H{right}", class_="bars"),
            element("path", d=f"M{x} {y}h0", class_="points"),
            element("path", d=f"M{x} {y}h0", class_="points inner") if low <= 0 <= high else None,
        ]
    picture = element(
        "svg",
        element("title", "Differences a - b and their intervals, each line to its own scale"),
        *marks,
        element("text", "← a is better", x=middle - 20, y=bottom + 36, class_="end"),
        element("text", "b is better →", x=middle + 20, y=bottom + 36),
        viewBox=f"-10 0 850 {bottom + 50}",
        role="img",
        class_="diagram",
    )
    return str(painted(picture))


WIDTH, TOP, GAP, BOTTOM = 1000, 380, 150, 220
"""Of both panels, and the heights of the upper one, the space between, and the lower one."""
MOST_BATCHES = 400
"""The last batches are drawn; these are more than a year of days."""
MOST_POINTS = 80
"""Batches that are drawn as points with bars; more are a line in a band."""
_NAME_LENGTH = 22
"""Letters of the first and last batch below the axis: longer names would run into each other."""


class DrawableBatch(Protocol):
    """The part of a `MonitoredBatch` that is drawn; that class lives in a higher layer."""

    @property
    def name(self) -> str: ...
    @property
    def period(self) -> int: ...
    @property
    def error(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def log_evidence(self) -> float: ...
    @property
    def alarm(self) -> bool: ...


def timeline(
    batches: Sequence[DrawableBatch], limit: float | None, threshold: float, since: str | None
) -> Element:
    """Return the error of each batch above, and the evidence, on a logarithmic scale, below.

    The limits are those of the error, and of the evidence that raises an alarm. From `since` on
    the ground is shaded.
    """
    drawn = batches[-MOST_BATCHES:]
    x = [round(WIDTH * (i + 0.5) / len(drawn)) for i in range(len(drawn))]
    alarms = sum(batch.alarm for batch in drawn)
    summary = f"{len(drawn):,} batches, {alarms:,} of them on alarm."
    bottom = TOP + GAP + BOTTOM
    marks: list[Content] = []
    begin = next((a for a, batch in zip(x, drawn, strict=True) if batch.name == since), None)
    if begin is not None:
        ground = f"M{begin} 0H{WIDTH}V{bottom}H{begin}Z"
        marks.append(element("path", d=ground, class_="changed"))
    marks += [*_errors(drawn, limit, x), *_evidence(drawn, threshold, x)]
    pairs = zip(x[1:], drawn, drawn[1:], strict=False)
    restarts = [f"M{a} 0V{bottom}" for a, before, after in pairs if before.period != after.period]
    if restarts:
        marks.append(element("path", d="".join(restarts), class_="diagonal"))
    return element(
        "svg",
        element("title", "Calibration error and evidence, batch by batch"),
        element("desc", summary),
        *marks,
        _name(drawn[0].name, 0, "tick") if len(drawn) > 1 else None,
        _name(drawn[-1].name, WIDTH, "end tick"),
        viewBox=f"-110 -60 {WIDTH + 210} {bottom + 130}",
        role="img",
        class_="diagram timeline",
    )


def _errors(batches: Sequence[DrawableBatch], limit: float | None, x: list[int]) -> list[Content]:
    end = round_limit(max(*(batch.high for batch in batches), 1.2 * (limit or 0.0)))

    def at(value: float) -> int:
        return round(TOP * (1 - min(value / end, 1.0)))

    low, high, error = (
        [at(getattr(b, name)) for b in batches] for name in ("low", "high", "error")
    )
    if len(batches) <= MOST_POINTS:
        bars = "".join(f"M{a} {b}V{c}" for a, b, c in zip(x, low, high, strict=True))
        marks: list[Content] = [element("path", d=bars, class_="bars")]
    else:
        outline = [*zip(x, high, strict=True), *zip(x[::-1], low[::-1], strict=True)]
        marks = [element("path", d=_line(outline) + "Z", class_="band")]
        marks.append(element("path", d=_line(list(zip(x, error, strict=True))), class_="bars"))
    for is_alarm, kind in ((False, "points"), (True, "points alarm")):
        dots = [
            f"M{a} {b}h0"
            for a, b, batch in zip(x, error, batches, strict=True)
            if batch.alarm is is_alarm and (is_alarm or len(batches) <= MOST_POINTS)
        ]
        marks.append(element("path", d="".join(dots), class_=kind) if dots else None)
    shown = [(at(end * i / 4), f"{100 * end * i / 4:.3g}%") for i in range(5)]
    if limit:
        marks += _limit(at(limit), "limit")
    return [*_grid(shown), element("text", "calibration error", x=0, y=-24, class_="axis"), *marks]


def _evidence(batches: Sequence[DrawableBatch], threshold: float, x: list[int]) -> list[Content]:
    top = TOP + GAP
    logs = [batch.log_evidence / math.log(10) for batch in batches]
    aim = math.log10(threshold)
    low, high = min(-1.0, *logs), max(aim + 0.5, min(max(logs), 4 * aim))

    def at(value: float) -> int:
        return round(top + BOTTOM * (1 - (min(value, high) - low) / (high - low)))

    points = [(a, at(value)) for a, value in zip(x, logs, strict=True)]
    line = _line(points) if len(points) > 1 else f"M{points[0][0]} {points[0][1]}h0"
    return [
        *_grid([(at(0), "1"), (at(aim), f"{threshold:.3g}")]),
        element("text", "evidence", x=0, y=top - 24, class_="axis"),
        element("path", d=line, class_="bars" if len(points) > 1 else "points"),
        *_limit(at(aim), "alarm"),
    ]


def _limit(y: int, name: str) -> list[Element]:
    line = element("path", d=f"M0 {y}H{WIDTH}", class_="limit")
    return [line, element("text", name, x=WIDTH + 12, y=y + 10, class_="tick")]


def _grid(labels: Sequence[tuple[int, str]]) -> list[Content]:
    lines = "".join(f"M0 {y}H{WIDTH}" for y, _ in labels)
    texts = (element("text", text, x=-14, y=y + 10, class_="end tick") for y, text in labels)
    return [element("path", d=lines, class_="grid"), *texts]


def _name(name: str, x: int, kind: str) -> Element:
    y = TOP + GAP + BOTTOM + 48
    return element("text", short(name, _NAME_LENGTH), x=x, y=y, class_=kind)


def _line(points: Sequence[tuple[int, int]]) -> str:
    return "M" + "L".join(f"{a} {b}" for a, b in points)
