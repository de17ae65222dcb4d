"""Estimates with their intervals as inline SVG: one error to scale, or several differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from calibrant._html import Content, Element, element
from calibrant._svg import painted
from calibrant._svg_frame import round_limit

LENGTH = 871
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
        """Where the scale ends: a round number beyond all that is worth showing."""
        largest = max(
            self.interval[1], self.chance, self.estimate, self.max_error or 0.0,
            self.bounds[0] if self.bounds else 0.0,
        )  # fmt: skip
        upper = self.bounds[1] if self.bounds else 0.0
        return round_limit(max(largest, upper if upper <= UNBOUNDED * largest else 0.0))


def error_bar(bar: ErrorBar, written: Callable[[float], str], description: str) -> Element:
    """Return an error to scale: estimate and interval, and below them what is proved."""
    (low, high), end, limit = bar.interval, bar.end, bar.max_error

    def at(value: float) -> int:
        return round(LENGTH * min(value / end, 1.0))

    marks = [
        ("grid", f"M0 0H{LENGTH}M0 78H{LENGTH}" if bar.bounds else f"M0 0H{LENGTH}"),
        ("chance", f"M0 -36H{at(bar.chance)}V36H0Z"),
        ("interval", f"M{at(low)} 0H{at(high)}"),
        ("estimate", f"M{at(bar.estimate)} 0h0"),
        *([("proved", _bracket(at(bar.bounds[0]), at(bar.bounds[1]), bar))] if bar.bounds else []),
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


def _bracket(left: int, right: int, bar: ErrorBar) -> str:
    """Return the range between two bounds; one beyond the scale ends in an arrow."""
    open_ended = bar.bounds is not None and bar.bounds[1] > bar.end
    tail = "m-16 -13l16 13l-16 13" if open_ended else "m0 -18v36"
    return f"M{left} 60v36m0 -18H{right}{tail}"


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
