"""The reliability diagram as inline SVG, for reports and notebooks.

All geometry is here: a page that shows another curve swaps the path strings of `paths`, which
came with it. The plot is a square of 800 units: whole numbers are exact enough to draw with,
none has more than three digits, and a page of a thousand curves stays below 2 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from calibrant._html import Attribute, Content, Element, element, short

if TYPE_CHECKING:
    from calibrant._types import BoolArray, FloatArray

SIDE = 800
COUNTS_TOP, COUNTS_BOTTOM = SIDE + 58, SIDE + 178
VIEW_BOX = f"-107 -27 933 {COUNTS_BOTTOM + 98}"
STEPS = 5
BAR_LENGTH = 871
LIMITS = (*(float(f"{digit}e-{power}") for power in range(6, 0, -1) for digit in (1, 2, 5)), 1.0)
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
    "counts": {"fill": "none", "stroke": "currentColor", "stroke-opacity": 0.6, "stroke-width": 6},
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
    ("counts", "counts"),
)


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


def diagram(
    curve: DrawableCurve,
    at_once: DrawableCurve,
    title: str,
    labels: tuple[str, str] = ("predicted", "happened"),
    name: str | None = None,
) -> Element:
    """Return the diagram of a curve, with the number of rows below.

    Bars are the limits of `curve`, the band those of `at_once`. The `name` begins the ids, of
    which a page may have only one of each; without it there are none.
    """
    limit = axis_limit(curve)
    label_x, label_y = labels
    drawn = paths(curve, at_once)
    return element(
        "svg",
        element("title", title, id=name and f"{name}-title"),
        element("desc", description(curve, at_once), id=name and f"{name}-description"),
        _axes(ticks(limit)),
        *(element("path", d=drawn[part], class_=classes) for part, classes in LAYERS),
        element("path", d=f"M0 0V{COUNTS_BOTTOM}", class_="here", visibility="hidden"),
        element("path", d=f"M0 {COUNTS_BOTTOM}h{SIDE}", class_="grid"),
        element("text", "rows", x=-13, y=COUNTS_BOTTOM, class_="end tick"),
        element("text", largest_count(curve), x=-13, y=COUNTS_TOP + 20, class_="end tick largest"),
        element("text", f"{label_y} ↑", x=18, y=40, class_="axis axis-y"),
        element("text", f"{label_x} →", x=SIDE, y=COUNTS_BOTTOM + 58, class_="axis end axis-x"),
        viewBox=VIEW_BOX,
        role="img",
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
    labels = ("predicted", "happened")
    if class_name is not None:
        labels = (f"predicted: {short(class_name, 30)}", "happened")
    return str(_painted(diagram(curve, curve, "Reliability diagram", labels)))


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
    return str(_painted(picture))


def error_bar(
    estimate: float,
    interval: tuple[float, float],
    chance: float,
    limit: float | None,
    written: Callable[[float], str],
    description: str,
) -> Element:
    """Return an error to scale: estimate, interval, what chance alone gives, and the limit."""
    low, high = interval
    end = round_limit(max(high, chance, estimate, limit or 0.0))

    def at(value: float) -> int:
        return round(BAR_LENGTH * min(value / end, 1.0))

    def label(x: int, y: int, text: str) -> Element:
        """Write beside a mark, on the side where there is room."""
        where = "" if x < BAR_LENGTH / 3 else " end" if x > 2 * BAR_LENGTH / 3 else " mid"
        return element("text", text, x=x, y=y, class_=f"axis{where}")

    marks = [
        ("grid", f"M0 0H{BAR_LENGTH}"),
        ("chance", f"M0 -36H{at(chance)}V36H0Z"),
        ("interval", f"M{at(low)} 0H{at(high)}"),
        ("estimate", f"M{at(estimate)} 0h0"),
        *([("limit", f"M{at(limit)} -49V49")] if limit else []),
    ]
    places = ("tick", *["tick mid"] * 3, "tick end")
    return element(
        "svg",
        element("title", "The error to scale", id="error-bar-title"),
        element("desc", description, id="error-bar-description"),
        *(element("path", d=d, class_=name) for name, d in marks),
        label(at(estimate), -58, f"error {written(estimate)}"),
        label(at(limit), 82, f"limit {written(limit)}") if limit else None,
        *(
            element("text", f"{25 * end * i:.3g}", x=at(end * i / 4), y=129, class_=place)
            for i, place in enumerate(places)
        ),
        viewBox=f"-31 -111 {BAR_LENGTH + 62} 249",
        role="img",
        aria_labelledby="error-bar-title error-bar-description",
        class_="error-bar",
    )


def paths(curve: DrawableCurve, at_once: DrawableCurve) -> dict[str, str]:
    """Return what moves when another curve is shown: the data of each path, by its class."""
    limit = axis_limit(curve)
    x = _placed(curve.mean_prediction, limit)
    low, high, low_all, high_all, rate = (
        [SIDE - y for y in _placed(values, limit)]
        for values in (curve.low, curve.high, at_once.low, at_once.high, curve.event_rate)
    )
    most = float(curve.count.max(initial=0))
    heights = _placed(curve.count, most, COUNTS_BOTTOM - COUNTS_TOP)
    points = [f"M{a} {b}h0" for a, b in zip(x, rate, strict=True)]
    filled = beyond_chance(at_once).tolist()
    outline = [*zip(x, high_all, strict=True), *zip(x[::-1], low_all[::-1], strict=True)]
    return {
        "band": "M" + "L".join(f"{a} {b}" for a, b in outline) + "Z" if outline else "",
        "bars": "".join(f"M{a} {b}V{c}" for a, b, c in zip(x, low, high, strict=True)),
        "points": "".join(points),
        "filled": "".join(p for p, beyond in zip(points, filled, strict=True) if beyond),
        "counts": "".join(f"M{a} {COUNTS_BOTTOM}v-{h}" for a, h in zip(x, heights, strict=True)),
    }


def beyond_chance(at_once: DrawableCurve) -> BoolArray:
    """Return which bins have a mean prediction outside the limits of their event rate."""
    said = at_once.mean_prediction
    return (said < at_once.low) | (said > at_once.high)


def description(curve: DrawableCurve, at_once: DrawableCurve) -> str:
    """Say in one sentence what the diagram shows."""
    off = beyond_chance(at_once)
    n, beyond = len(off), int(off.sum())
    above = int((off & (curve.event_rate > curve.mean_prediction)).sum())
    bins = "One bin" if n == 1 else f"{n:,} bins"
    if not beyond:
        return f"{bins}, all of them within the range of chance."
    return (
        f"{bins}; {beyond:,} lie beyond chance, of which {above:,} above the diagonal "
        f"(happened more often than said) and {beyond - above:,} below."
    )


def axis_limit(curve: DrawableCurve) -> float:
    """Return where the axes end: the least round number that no mean lies beyond."""
    means = (curve.mean_prediction, curve.event_rate)
    return round_limit(max(float(values.max(initial=0)) for values in means))


def round_limit(largest: float) -> float:
    """Return the least round number that is not below this one, 1 at most."""
    return next(limit for limit in LIMITS if limit >= largest or limit == 1.0)


def ticks(limit: float) -> list[str]:
    """Return the labels of the axes."""
    return [f"{float(f'{100 * limit * step / STEPS:.3g}'):g}%" for step in range(STEPS + 1)]


def largest_count(curve: DrawableCurve) -> str:
    """Return the label of the tallest bar of the counts."""
    return f"{curve.count.max(initial=0):,.0f}"


def _axes(labels: list[str]) -> Iterable[Content]:
    places = [step * SIDE // STEPS for step in range(STEPS + 1)]
    grid = "".join(f"M0 {s}h{SIDE}M{s} 0v{SIDE}" for s in places)
    yield element("path", d=grid, class_="grid")
    yield element("path", d=f"M0 {SIDE}L{SIDE} 0", class_="diagonal")
    for i, (s, label) in enumerate(zip(places, labels, strict=True)):
        yield element("text", label, x=-13, y=SIDE - s + 9, class_=f"end tick tick-{i}")
        yield element("text", label, x=s, y=SIDE + 36, class_=f"mid tick tick-{i}")


def _placed(values: FloatArray, limit: float, length: int = SIDE) -> list[int]:
    """Return whole-number coordinates on an axis that ends at `limit`."""
    return [round(length * min(value / limit, 1.0)) for value in values.tolist()]


def _painted(node: Element) -> Element:
    """Add to each element the presentation attributes of its classes."""
    names = str(dict(node.attributes).get("class", "")).split()
    paint = {key: value for name in names for key, value in PAINT.get(name, {}).items()}
    children = (c if not isinstance(c, Element) else _painted(c) for c in node.children)
    return Element(node.tag, (*node.attributes, *paint.items()), tuple(children))
