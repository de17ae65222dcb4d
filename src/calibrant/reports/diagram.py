"""The reliability diagram as inline SVG: a few paths, which the script can draw again.

Geometry is in `place`, here and in the script; a test in a browser holds the two together.
"""

from __future__ import annotations

import math

from calibrant.reports.markup import Element, element
from calibrant.reports.pictures import Picture

WIDTH, HEIGHT = 420, 484
LEFT, TOP, SIDE = 48, 12, 360
BOTTOM = TOP + SIDE
COUNTS_TOP, COUNTS_BOTTOM = BOTTOM + 26, BOTTOM + 80
STEPS = 5
GEOMETRY = {
    "left": LEFT,
    "bottom": BOTTOM,
    "side": SIDE,
    "countsTop": COUNTS_TOP,
    "countsBottom": COUNTS_BOTTOM,
    "steps": STEPS,
}


def diagram(picture: Picture, said: str, happened: str, title: str) -> Element:
    """Return the diagram of a picture, with counts below."""
    return element(
        "svg",
        element("title", title, id="diagram-title"),
        element("desc", description(picture), id="diagram-description"),
        _frame(picture.limit, said, happened),
        *(element("path", d=d, class_=name, id=name) for name, d in paths(picture).items()),
        element("path", d="", id="here", class_="here"),
        _counts_frame(picture),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_labelledby="diagram-title diagram-description",
        id="diagram-svg",
        class_="diagram",
    )


def description(picture: Picture) -> str:
    """Say in one sentence what the picture shows."""
    n, beyond = len(picture), int(picture.beyond_chance.sum())
    above = int((picture.beyond_chance & (picture.happened > picture.said)).sum())
    bins = "one bin" if n == 1 else f"{n:,} bins"
    if not beyond:
        return f"{bins.capitalize()}; in none does the event rate leave the range of chance."
    return (
        f"{bins.capitalize()}; {beyond:,} lie beyond chance, of which {above:,} above the diagonal "
        f"(happened more often than said) and {beyond - above:,} below. The numbers of all bins "
        "are in the table that follows."
    )


def paths(picture: Picture) -> dict[str, str]:
    """Return what moves when the class changes: the data of each path, by its id."""
    limit, largest = picture.limit, float(picture.count.max())
    x = [place(p, limit, LEFT, SIDE) for p in picture.said]
    low, high, low_all, high_all, happened = (
        [place(p, limit, BOTTOM, -SIDE) for p in values]
        for values in (
            picture.low,
            picture.high,
            picture.low_all,
            picture.high_all,
            picture.happened,
        )
    )
    beyond = picture.beyond_chance.tolist()
    counts = [place(c, largest, COUNTS_BOTTOM, COUNTS_TOP - COUNTS_BOTTOM) for c in picture.count]
    points = list(zip(x, happened, beyond, strict=True))
    forth = [f"{a} {b}" for a, b in zip(x, high_all, strict=True)]
    back = [f"{a} {b}" for a, b in zip(x, low_all, strict=True)][::-1]
    return {
        "band": "M" + "L".join(forth + back) + "Z",
        "bars": "".join(f"M{a} {b}V{c}" for a, b, c in zip(x, low, high, strict=True)),
        "points": "".join(f"M{a} {b}h0" for a, b, _ in points),
        "inner": "".join(f"M{a} {b}h0" for a, b, off in points if not off),
        "counts": "".join(f"M{a} {COUNTS_BOTTOM}V{b}" for a, b in zip(x, counts, strict=True)),
    }


def place(value: float, limit: float, start: int, length: int) -> str:
    """Return the coordinate of a value on an axis that ends at `limit`, to a tenth."""
    tenths = math.floor(10 * (start + length * min(float(value) / limit, 1.0)) + 0.5)
    return f"{tenths / 10:g}"


def tick(limit: float, step: int) -> str:
    """Return the label of a step of the axes."""
    return f"{float(f'{100 * limit * step / STEPS:.3g}'):g}%"


def _frame(limit: float, said: str, happened: str) -> list[Element]:
    ends = range(STEPS + 1)
    spots = [step * SIDE / STEPS for step in ends]
    return [
        element(
            "path",
            d="".join(f"M{LEFT} {BOTTOM - s:g}h{SIDE}M{LEFT + s:g} {TOP}v{SIDE}" for s in spots),
            class_="grid",
        ),
        element("path", d=f"M{LEFT} {BOTTOM}l{SIDE} -{SIDE}", class_="diagonal"),
        *(
            element(
                "text", tick(limit, i), x=LEFT - 6, y=BOTTOM - s + 4, class_=f"end tick tick-{i}"
            )
            for i, s in zip(ends, spots, strict=True)
        ),
        *(
            element("text", tick(limit, i), x=LEFT + s, y=BOTTOM + 16, class_=f"mid tick tick-{i}")
            for i, s in zip(ends, spots, strict=True)
        ),
        element("text", f"{happened} ↑", x=LEFT + 8, y=TOP + 18, class_="axis", id="axis-happened"),
        element(
            "text", f"{said} →", x=LEFT + SIDE, y=HEIGHT - 6, class_="axis end", id="axis-said"
        ),
    ]


def _counts_frame(picture: Picture) -> list[Element]:
    return [
        element("path", d=f"M{LEFT} {COUNTS_BOTTOM}h{SIDE}", class_="grid"),
        element("text", "rows", x=LEFT - 6, y=COUNTS_BOTTOM, class_="end tick"),
        element(
            "text",
            f"{picture.count.max():,.0f}",
            x=LEFT - 6,
            y=COUNTS_TOP + 9,
            class_="end tick",
            id="largest-count",
        ),
    ]
