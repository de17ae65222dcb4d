"""Errors and evidence of one batch after another as inline SVG, for a monitor's page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from calibrant._html import Content, Element, element, short
from calibrant._svg_frame import round_limit

WIDTH, TOP, GAP, BOTTOM = 1000, 380, 150, 220
"""Of both panels, and the heights of the upper one, the space between, and the lower one."""
MOST_BATCHES = 400
"""Drawn, the last ones; more than a year of days."""
MOST_POINTS = 80
"""Batches that are drawn as points with bars; more are a line in a band."""
_NAME_LENGTH = 22


class DrawableBatch(Protocol):
    """What is drawn of a `MonitoredBatch`, which lives in a higher layer."""

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
    told = f"{len(drawn):,} batches, {alarms:,} of them on alarm."
    return element(
        "svg",
        element("title", "Calibration error and evidence, batch by batch"),
        element("desc", told),
        _changed(drawn, since, x),
        *_errors(drawn, limit, x),
        *_evidence(drawn, threshold, x),
        _restarts(drawn, x),
        *_names(drawn),
        viewBox=f"-110 -60 {WIDTH + 210} {TOP + GAP + BOTTOM + 130}",
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
        marks.append(element("path", d=f"M0 {at(limit)}H{WIDTH}", class_="limit"))
        marks.append(element("text", "limit", x=WIDTH + 12, y=at(limit) + 10, class_="tick"))
    return [
        *_grid(shown),
        element("text", "calibration error", x=0, y=-24, class_="axis"),
        *marks,
    ]


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
        element("path", d=f"M0 {at(aim)}H{WIDTH}", class_="limit"),
        element("text", "alarm", x=WIDTH + 12, y=at(aim) + 10, class_="tick"),
    ]


def _grid(labels: Sequence[tuple[int, str]]) -> list[Content]:
    lines = "".join(f"M0 {y}H{WIDTH}" for y, _ in labels)
    texts = (element("text", text, x=-14, y=y + 10, class_="end tick") for y, text in labels)
    return [element("path", d=lines, class_="grid"), *texts]


def _changed(batches: Sequence[DrawableBatch], since: str | None, x: list[int]) -> Element | None:
    """Shade the ground from the estimated start of the change on."""
    first = next((a for a, batch in zip(x, batches, strict=True) if batch.name == since), None)
    if first is None:
        return None
    return element("path", d=f"M{first} 0H{WIDTH}V{TOP + GAP + BOTTOM}H{first}Z", class_="changed")


def _restarts(batches: Sequence[DrawableBatch], x: list[int]) -> Element | None:
    pairs = zip(x[1:], batches, batches[1:], strict=False)
    cuts = [a for a, before, after in pairs if before.period != after.period]
    lines = "".join(f"M{a} 0V{TOP + GAP + BOTTOM}" for a in cuts)
    return element("path", d=lines, class_="diagonal") if cuts else None


def _names(batches: Sequence[DrawableBatch]) -> list[Content]:
    y = TOP + GAP + BOTTOM + 48
    last = element("text", short(batches[-1].name, _NAME_LENGTH), x=WIDTH, y=y, class_="end tick")
    if len(batches) == 1:
        return [last]
    return [element("text", short(batches[0].name, _NAME_LENGTH), x=0, y=y, class_="tick"), last]


def _line(points: Sequence[tuple[int, int]]) -> str:
    return "M" + "L".join(f"{a} {b}" for a, b in points)
