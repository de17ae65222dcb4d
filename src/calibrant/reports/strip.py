"""The error on a line: estimate, interval, noise floor and limit, each with its own sign."""

from __future__ import annotations

from calibrant.reports.findings import Findings
from calibrant.reports.markup import Element, element
from calibrant.reports.pictures import LIMITS
from calibrant.reports.wording import percent, points

WIDTH, HEIGHT = 420, 112
LEFT, RIGHT, LINE = 14, 406, 50


def strip(findings: Findings) -> Element:
    """Return the error, its interval and what chance and the limit are, to scale."""
    error, (low, high) = findings.error, findings.interval
    limit = findings.certificate.max_error
    longest = max(high, error.noise_floor, error.value, limit or 0.0)
    end = next(each for each in LIMITS if each >= longest or each == 1.0)

    def at(value: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * min(value / end, 1.0), 1)

    chance = at(error.noise_floor)
    return element(
        "svg",
        element("title", "The error to scale", id="strip-title"),
        element("desc", _said(findings), id="strip-description"),
        element("path", d=f"M{LEFT} {LINE}H{RIGHT}", class_="grid"),
        element("path", d=f"M{LEFT} {LINE - 16}H{chance}V{LINE + 16}H{LEFT}Z", class_="chance"),
        element("path", d=f"M{at(low)} {LINE}H{at(high)}", class_="interval"),
        element("path", d=f"M{at(error.value)} {LINE}h0", class_="estimate"),
        _label(at(error.value), LINE - 26, f"error {points(error.value)}"),
        _limit(at(limit), limit) if limit else None,
        *(
            element("text", f"{100 * end * i / 4:.3g}", x=at(end * i / 4), y=HEIGHT - 4, class_=c)
            for i, c in zip(range(5), ("tick", *["tick mid"] * 3, "tick end"), strict=True)
        ),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby="strip-title strip-description",
        class_="strip",
    )


def _limit(x: float, limit: float) -> list[Element]:
    return [
        element("path", d=f"M{x} {LINE - 22}V{LINE + 22}", class_="limit"),
        _label(x, LINE + 37, f"limit {points(limit)}"),
    ]


def _label(x: float, y: float, text: str) -> Element:
    """Write beside a mark, on the side where there is room."""
    where = "" if x < WIDTH / 3 else " end" if x > 2 * WIDTH / 3 else " mid"
    return element("text", text, x=x, y=y, class_=f"axis{where}")


def _said(findings: Findings) -> str:
    error, (low, high) = findings.error, findings.interval
    limit = findings.certificate.max_error
    tail = f", limit {points(limit)}" if limit else ""
    return (
        f"Error {points(error.value)} percentage points, {percent(findings.confidence_level)} "
        f"interval {points(low)} to {points(high)}, chance alone {points(error.noise_floor)}{tail}."
    )
