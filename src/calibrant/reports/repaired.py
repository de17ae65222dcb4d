"""A model before and after its repair, side by side on the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from calibrant._html import Element, element, scrolling, table
from calibrant._svg import joint_window
from calibrant.reports.findings import Findings
from calibrant.reports.numbers_in_words import key_figures, three_numbers
from calibrant.reports.sections import section
from calibrant.reports.wording import axis_words, points


def before_and_after(findings: Findings) -> Element | None:
    """Return both diagrams for the first screen; there are none of several classes."""
    before = findings.before
    if before is None or before.curve is None or findings.curve is None:
        return None
    words = axis_words(findings, 0)
    window = joint_window(before.curve.frame.window, findings.curve.frame.window)
    states = (("Before", before.error, before.curve), ("After", findings.error, findings.curve))
    return element(
        "div",
        *(
            element(
                "figure",
                element("figcaption", f"{name}: off by {points(error.value)} points"),
                curve.seen_through(window).picture(f"{name} the repair", words),
            )
            for name, error, curve in states
        ),
        class_="panels pair",
    )


def changes(findings: Findings) -> Element | None:
    """Return the main numbers before and after."""
    before = findings.before
    if before is None:
        return None
    columns = [dict(_numbers(state)) for state in (before, findings)]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = ([name, *(column.get(name, "–") for column in columns)] for name in names)
    listed = table("Before and after", ("On the same rows", "Before", "After"), rows)
    return section(
        "changed",
        "What the repair changed",
        scrolling("Numbers before and after", listed),
        element(
            "p",
            f"Both on the same {findings.error.n:,} rows. They say something about the repair if "
            "it was fitted on others.",
            class_="note",
        ),
    )


def _numbers(state: Findings) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table, by name."""
    if state.certificate.verdict is not None:
        yield "Verdict", state.certificate.verdict
    low, high = state.interval
    for name, number, _ in three_numbers(state)[:2]:
        spread = f" ({points(low)} to {points(high)})" if name.startswith("Error") else ""
        yield name, f"{number}{spread}"
    for name, number, _ in key_figures(state):
        yield name, number
    yield "Brier score", f"{state.brier.value:.4f}"
