"""Every class on the page, the worst first."""

from __future__ import annotations

from calibrant.reports.classes import MOST_CLASSES, ClassFindings
from calibrant.reports.findings import Findings
from calibrant.reports.markup import Content, Element, element
from calibrant.reports.names import shown
from calibrant.reports.opening import section
from calibrant.reports.tables import scrolling, table
from calibrant.reports.wording import percent, points

PRINTED = 40


def class_table(findings: Findings) -> Element | None:
    """Return every class by itself, the worst first."""
    found = findings.classes
    if found is None:
        return None
    level = percent(findings.confidence_level)
    heads = (
        ("Class", "text"),
        ("Column", "number"),
        ("Error, points", "number"),
        (f"{level} interval", "number"),
        ("Said", "number"),
        ("Happened", "number"),
        ("Beyond chance", "text"),
    )
    columns = [element("th", head, scope="col", data_sort=kind) for head, kind in heads]
    rows = (_class_row(found, i) for i in range(len(found)))
    listed = table("Classes, the largest error first", columns, rows, id="class-table")
    more = f"Only the first {PRINTED} classes are printed." if len(found) > PRINTED else None
    return section(
        "classes",
        "Each class",
        element("p", _class_words(found)),
        scrolling("Error of each class", listed, "tall"),
        more and element("p", more, class_="only-print"),
    )


def _class_words(found: ClassFindings) -> str:
    words = [
        f"Intervals hold for all {found.n_classes:,} classes at once. A class is beyond chance if "
        "its interval excludes 0, for which some group of its rows must leave an exact range that "
        "allows for having looked at all groups of all classes."
    ]
    if found.joined:
        words.append("Diagrams of single classes join neighbouring groups.")
    if found.n_classes > len(found):
        words.append(f"The {MOST_CLASSES:,} of the largest error are shown.")
    return " ".join(words)


def _class_row(found: ClassFindings, i: int) -> tuple[Content, ...]:
    return (
        shown(found.labels[i]),
        f"{found.position[i]}",
        points(found.error[i]),
        f"{points(found.low[i])} to {points(found.high[i])}",
        percent(found.mean_prediction[i]),
        percent(found.event_rate[i]),
        "yes" if found.beyond_chance[i] else "no",
    )
