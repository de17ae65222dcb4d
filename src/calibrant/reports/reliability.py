"""The reliability diagram on the page: picture, switch, legend, and the numbers behind it."""

from __future__ import annotations

from typing import TypeAlias

from calibrant.reports.classes import ClassFindings
from calibrant.reports.diagram import diagram
from calibrant.reports.findings import Findings
from calibrant.reports.markup import Content, Element, element
from calibrant.reports.names import shown
from calibrant.reports.opening import section
from calibrant.reports.pictures import Picture
from calibrant.reports.tables import scrolling, table
from calibrant.reports.wording import percent, points

Words: TypeAlias = tuple[str, str]

EVENTS: Words = ("said", "happened")
ANSWERS: Words = ("confidence", "was right")


def reliability(findings: Findings) -> Element:
    """Return the diagram, the switch between classes, and the numbers behind it."""
    picture, classes = findings.pictures[0], findings.classes
    name: Content = "All answers" if classes else "All rows"
    if findings.picture is None and classes:
        name = shown(classes.labels[0])
    words = picture_words(findings)[0]
    figure = element(
        "figure",
        diagram(picture, *words, "Reliability diagram: what happened beside what was said"),
        element("figcaption", _switch(findings), _legend(findings), _readout(), class_="beside"),
    )
    return section(
        "diagram",
        "What was said, and what happened",
        element(
            "p",
            "Each point is a group of rows with similar predictions. On the dotted diagonal, "
            "events happen exactly as often as predicted; below it the model says too much, "
            "above it too little.",
        ),
        figure,
        _bin_table(picture, name, words, findings.confidence_level),
    )


def picture_words(findings: Findings) -> list[Words]:
    """Return what was said and what happened, in words, for each picture of the switch."""
    first = ANSWERS if findings.table.problem.kind == "top-label" else EVENTS
    return [first, *[EVENTS] * (len(findings.pictures) - 1)]


def _switch(findings: Findings) -> Element | None:
    """Return a list of the classes; shown by the script that makes it work."""
    classes = findings.classes
    if classes is None:
        return None
    first = [] if findings.picture is None else ["All answers"]
    names: list[Content] = [*first, *(_option(classes, i) for i in range(len(classes)))]
    return element(
        "p",
        element("label", "Show", for_="switch"),
        element(
            "select",
            *(element("option", name, value=i) for i, name in enumerate(names)),
            id="switch",
            autocomplete="off",
        ),
        class_="needs-script",
    )


def _option(classes: ClassFindings, i: int) -> Content:
    return [shown(classes.labels[i]).children, f" · error {points(classes.error[i])}"]


def _legend(findings: Findings) -> Element:
    level = percent(findings.confidence_level)
    entries = [
        ("band", "band", f"{level} range for {_at_once(findings)}"),
        ("bars", "bars", f"{level} range of each group by itself"),
        ("points", "points", "filled: off by more than chance allows"),
        ("hollow", "points", "hollow: within what chance allows"),
    ]
    return element(
        "ul", *(element("li", _key(name, look), text) for name, look, text in entries), class_="key"
    )


def _at_once(findings: Findings) -> str:
    if findings.picture is None:
        return "all groups of all classes at once"
    more = "; of a class, for those of all classes" if findings.classes else ""
    return f"all groups at once{more}"


def _key(name: str, look: str) -> Element:
    marks = {
        "band": "M1 4L27 1V13L1 16Z",
        "bars": "M8 2V15M20 2V15",
        "points": "M14 9h0",
        "hollow": "M14 9h0",
    }
    inner = element("path", d=marks[name], class_="inner") if name == "hollow" else None
    return element(
        "svg",
        element("path", d=marks[name], class_=look),
        inner,
        viewBox="0 0 28 17",
        class_="sample",
        aria_hidden="true",
    )


def _readout() -> Element:
    """Where the script writes the numbers of the group that is pointed at."""
    return element(
        "div",
        element("div", "Point at a group, or use the arrow keys on the diagram.", id="readout"),
        class_="readout needs-script",
        aria_live="polite",
    )


def _bin_table(picture: Picture, name: Content, words: Words, level: float) -> Element:
    heads = (
        "predictions",
        "rows",
        *words,
        f"{percent(level)} range, by itself",
        "all at once",
    )
    rows = (_bin_row(picture, i) for i in range(len(picture)))
    return element(
        "details",
        element("summary", "The numbers behind the diagram"),
        element("p", element("strong", name, id="shown-name")),
        scrolling("Numbers of each group", table("Groups of rows", heads, rows, id="bin-table")),
    )


def _bin_row(picture: Picture, i: int) -> tuple[str, ...]:
    return (
        f"{picture.left[i]:g} to {picture.right[i]:g}",
        f"{picture.count[i]:,.0f}",
        percent(picture.said[i]),
        percent(picture.happened[i]),
        f"{percent(picture.low[i])} to {percent(picture.high[i])}",
        f"{percent(picture.low_all[i])} to {percent(picture.high_all[i])}",
    )
