"""What moves when the script runs: the diagram with its numbers, and the table of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from calibrant import _svg
from calibrant._html import (
    Content,
    Element,
    bullets,
    element,
    scrolling,
    section,
    short,
    shown,
    table,
)
from calibrant.groups import key_of, shown_key
from calibrant.reports.curves import ClassFindings, ReportedCurve, curve_of
from calibrant.reports.findings import Findings
from calibrant.reports.wording import ANSWERS, EVENTS, Words, axis_words, percent, points
from calibrant.stats import Audit
from calibrant.stats.curves import join_bins

BINS_OF_A_PANEL = 20  # more points run together in a small diagram
MOST_GROUPS = 200  # lines of their table; the others are counted
PANELS = 6  # small diagrams of the worst: two lines of a screen
PRINTED = 40  # a page of paper; the style sheet hides the rows after these
# Where the script writes the numbers of the group that is pointed at, the worst one at first.
_READOUT = element(
    "div",
    element("div", id="readout", aria_live="polite"),
    element("p", "Point at a group, or use the arrow keys on the diagram.", class_="by-mouse"),
    element("p", "Tap a group of the diagram to see its numbers.", class_="by-touch"),
    class_="readout needs-script",
)


def reliability(findings: Findings) -> Element:
    """Return the diagram, the switch between classes, and the numbers behind it."""
    curve, classes = findings.curves[0], findings.classes
    name: Content = "All answers" if classes else "All rows"
    if findings.curve is None and classes:
        name = shown(classes.labels[0])
    words = axis_words(findings, 0)
    title = "Reliability diagram: what happened beside what was said"
    return section(
        "diagram",
        "What was said, and what happened",
        element(
            "p",
            "Each point is a group of rows with similar predictions. On the dotted diagonal, "
            "events happen exactly as often as predicted; below it the model says too much, "
            "above it too little.",
        ),
        _worst_classes(classes) if findings.curve is None and classes else None,
        element(
            "figure",
            curve.picture(title, words, "diagram"),
            element("figcaption", _switch(findings), _legend(findings), _READOUT, class_="beside"),
        ),
        _closer(curve, words),
        _bin_table(curve, name, words, findings.confidence_level),
    )


def panels(pictures: Iterable[tuple[object, float, ReportedCurve]]) -> Element:
    """Return small diagrams, each under its name and error."""
    return element(
        "div",
        *(
            element(
                "figure",
                element("figcaption", shown(name), f": {points(error)} points"),
                curve.picture(f"Reliability diagram: {short(name)}", EVENTS),
            )
            for name, error, curve in pictures
        ),
        class_="panels",
    )


def _worst_classes(classes: ClassFindings) -> list[Element]:
    """Return diagrams of the worst classes, before any single one is looked at."""
    n = min(PANELS, len(classes))
    parts = classes.parts
    head = f"The {n} {parts} that are off most" if n < classes.n_classes else f"All {parts}"
    pictures = zip(classes.labels[:n], classes.error[:n], classes.curves[:n], strict=True)
    return [
        element("h3", f"{head}, and by how much"),
        panels(pictures),
        element("h3", f"One {classes.part}, with its numbers"),
    ]


def _closer(curve: ReportedCurve, words: Words) -> Element | None:
    """Return a second diagram of the corner that most rows crowd in, where there is one."""
    if curve.closer is None:
        return None
    start, end, bottom, top = curve.closer.window
    inside = curve.closer.window.holds(curve.alone)
    share = percent(curve.alone.count[inside].sum() / curve.alone.count.sum())
    where = f"below {percent(end)}" if start == 0 else f"above {percent(start)}"
    title = f"Reliability diagram, closer: the groups {where}"
    return element(
        "figure",
        _svg.diagram(curve.alone, curve.at_once, title, words, "closer", curve.closer),
        element(
            "figcaption",
            element("h3", "A closer look"),
            element(
                "p",
                f"{share} of the rows are in {inside.sum():,} groups {where}, in a corner of the "
                "diagram above. Here they fill the axes."
                + " The axes differ in scale."
                * (top - bottom > end - start),
            ),
            class_="beside",
        ),
        id="closer",
    )


def curves_data(findings: Findings) -> list[dict[str, Any]]:
    """Return what the script swaps to show another curve, in the order of the switch."""
    return [
        {
            "paths": _svg.paths(curve.alone, curve.at_once, curve.frame),
            "ticks": _svg.ticks(curve.frame.window.start, curve.frame.window.end),
            "most": _svg.most_rows(curve.frame),
            "outcomes": _svg.histogram_label(axis_words(findings, i)[1]),
            "worst": curve.worst,
            "description": _svg.description(curve.alone, curve.at_once),
            "words": axis_words(findings, i),
            "rows": ["|".join(row).replace(" to ", "~") for row in _bin_rows(curve)],
            "beyond": curve.beyond_chance.nonzero()[0],
        }
        for i, curve in enumerate(findings.curves)
    ]


def _switch(findings: Findings) -> Element | None:
    """Return a list of the classes; shown by the script that makes it work."""
    classes = findings.classes
    if classes is None:
        return None
    names: list[Content] = [] if findings.curve is None else ["All answers"]
    for label, error in zip(classes.labels, classes.error, strict=True):
        names.append(f"{short(label)} · error {points(error)}")
    options = (element("option", name, value=i) for i, name in enumerate(names))
    choice = element("select", *options, id="switch", autocomplete="off")
    return element("p", element("label", "Show", for_="switch"), choice, class_="needs-script")


def _legend(findings: Findings) -> Element:
    level = percent(findings.confidence_level)
    part, parts = findings.table.problem.part, findings.table.problem.parts
    at_once = f"all groups of all {parts} at once"
    if findings.curve is not None:
        more = f"; of a {part}, for those of all {parts}" if findings.classes else ""
        at_once = f"all groups at once{more}"
    above, below = (
        ("right", "wrong") if axis_words(findings, 0) == ANSWERS else ("events", "others")
    )
    entries = [
        ([("band", "M2 9L60 2V29L2 36Z")], f"{level} range for {at_once}"),
        ([("bars", "M18 4V33M44 4V33")], f"{level} range of each group by itself"),
        ([("points", "M31 20h0")], "filled: off by more than chance allows"),
        ([("points", "M31 20h0"), ("inner", "M31 20h0")], "hollow: within what chance allows"),
        (
            [("events", "M2 18V11H21V3H41V13H60V18Z"), ("others", "M2 18V23H21V34H41V27H60V18Z")],
            f"rows by prediction: {above} above, {below} below, each to its own scale",
        ),
    ]
    sample = {"viewBox": "0 0 62 38", "class_": "sample", "aria_hidden": "true"}
    lines: Iterable[Content] = (
        [element("svg", *(element("path", d=d, class_=c) for c, d in layers), **sample), text]
        for layers, text in entries
    )
    return bullets(lines, class_="key")


def _bin_table(curve: ReportedCurve, name: Content, words: Words, level: float) -> Element:
    heads = ("predictions", "rows", *words, f"{percent(level)} range, by itself", "all at once")
    rows = table("Groups of rows", heads, _bin_rows(curve), id="bin-table")
    return element(
        "details",
        element("summary", "The numbers behind the diagram"),
        element("p", element("strong", name, id="shown-name")),
        scrolling("Numbers of each group", rows),
    )


def _bin_rows(curve: ReportedCurve) -> Iterator[tuple[str, ...]]:
    alone, at_once = curve.alone, curve.at_once
    for i in range(len(curve)):
        yield (
            f"{alone.mean_prediction[i]:.4g}"
            if curve.frame.is_binned
            else f"{alone.left[i]:.4g} to {alone.right[i]:.4g}",
            f"{alone.count[i]:,.0f}",
            percent(alone.mean_prediction[i]),
            percent(alone.event_rate[i]),
            f"{percent(alone.low[i])} to {percent(alone.high[i])}",
            f"{percent(at_once.low[i])} to {percent(at_once.high[i])}",
        )


def class_table(findings: Findings) -> Element | None:
    """Return every class by itself, the worst first."""
    classes = findings.classes
    if classes is None:
        return None
    heads = (
        (classes.part.capitalize(), "text"),
        ("Column", "number"),
        ("Error, points", "number"),
        (f"{percent(findings.confidence_level)} interval", "number"),
        ("Said", "number"),
        ("Happened", "number"),
        ("Beyond chance", "text"),
    )
    columns = [element("th", head, scope="col", data_sort=kind) for head, kind in heads]
    rows = (
        (
            shown(classes.labels[i]),
            f"{classes.position[i]}",
            points(classes.error[i]),
            f"{points(classes.low[i])} to {points(classes.high[i])}",
            percent(classes.mean_prediction[i]),
            percent(classes.event_rate[i]),
            "yes" if classes.beyond_chance[i] else "no",
        )
        for i in range(len(classes))
    )
    title = f"{classes.parts.capitalize()}, the largest error first"
    listed = table(title, columns, rows, id="class-table")
    shown_at_most = f"Only the first {PRINTED} {classes.parts} are printed."
    more = shown_at_most if len(classes) > PRINTED else None
    return section(
        "classes",
        f"Each {classes.part}",
        element("p", _class_words(classes)),
        scrolling(f"Error of each {classes.part}", listed, "tall"),
        more and element("p", more, class_="only-print"),
    )


def _class_words(classes: ClassFindings) -> str:
    words = [
        f"Intervals hold for all {classes.n_classes:,} {classes.parts} at once. "
        f"A {classes.part} is beyond chance if its interval excludes 0, for which some group of "
        "its rows must leave an exact range that allows for having looked at all groups of all "
        f"{classes.parts}."
    ]
    if classes.part == "threshold":
        words.append("A threshold stands for its class or a lower one.")
    if classes.joined:
        words.append(f"Diagrams of single {classes.parts} join neighbouring groups.")
    if classes.n_classes > len(classes):
        words.append(f"The {len(classes):,} of the largest error are shown.")
    return " ".join(words)


def groups_of_rows(findings: Findings) -> Element | None:
    """Return the table of groups, the worst first, and diagrams of the worst six."""
    audit = findings.audit
    if audit is None:
        return None
    heads = ["Group", "Rows", "Error, points", "Interval", "Proved, points"]
    heads += ["Verdict"] if audit.max_error else []
    rows = []
    for group in audit.groups[:MOST_GROUPS]:
        bounds = f"≥ {points(group.lower_bound)}"
        if group.upper_bound < 1:
            bounds = f"{points(group.lower_bound)} to {points(group.upper_bound)}"
        if group.agrees_too_well:
            bounds = "nothing"
        cells = (
            shown(shown_key(group.group)),
            f"{group.n:,}",
            points(group.error),
            f"{points(group.low)} to {points(group.high)}",
            bounds,
            "too small" if group.is_too_small else group.verdict or "",
        )
        rows.append(cells[: len(heads)])
    listed = table("Groups, the worst first", heads, rows)
    left_out = len(audit) - MOST_GROUPS
    more = f"{left_out:,} more groups are not shown." if left_out > 0 else None
    return section(
        "groups",
        "Who is it wrong for?",
        element("p", _words(audit)),
        scrolling("Error of each group", listed, "tall"),
        more and element("p", more, class_="note"),
        _panels(audit),
        element(
            "p",
            "Rows are told apart by ",
            shown(audit.tables.described_by),
            f". Intervals, bounds and verdicts hold for all {len(audit):,} groups at once, with "
            f"{percent(audit.confidence_level)} confidence.",
            class_="note",
        ),
    )


def _words(audit: Audit) -> str:
    """Say in a few sentences what holds for all groups."""
    sentences = []
    if audit.max_error is not None:
        limit, n = points(audit.max_error), len(audit)
        counts = [(len(audit.of(x)), x) for x in ("refuted", "certified", "undecided")]
        counted = ", ".join(f"{k:,} {x}" for k, x in counts if k)
        sentences.append(f"Is every group off by at most {limit} points? Of {n:,}: {counted}.")
    if audit.too_small:
        needed = max(group.rows_needed or 0 for group in audit.too_small)
        k = len(audit.too_small)
        has = "1 group has" if k == 1 else f"{k:,} groups have"
        sentences.append(
            f"{has} too few rows to be certified even if calibrated: "
            + (f"{needed:,} are needed." if k == 1 else f"up to {needed:,} are needed in each.")
        )
    if audit.heterogeneity is not None:
        p = audit.heterogeneity.pvalue
        differ = p <= 1 - audit.confidence_level
        words = "The error differs between groups" if differ else "No difference between groups"
        sentences.append(f"{words}{'' if differ else ' can be shown'} (p = {p:.2g}).")
    return " ".join(sentences)


def _panels(audit: Audit) -> Element | None:
    """Return small diagrams of the worst groups; of several classes there are none."""
    if audit.tables.problem.n_groups > 1:
        return None
    level = audit.confidence_level
    at_once = 1 - (1 - level) / len(audit)
    worst = audit.groups[:PANELS]
    drawn = (join_bins(audit.tables[key_of(group.group)], BINS_OF_A_PANEL) for group in worst)
    curves = (curve_of(table, None, level, at_once) for table in drawn)
    return panels((shown_key(g.group), g.error, c) for g, c in zip(worst, curves, strict=True))
