"""What a reader needs first: the verdict, and how large the error is."""

from __future__ import annotations

from calibrant.reports.findings import Findings
from calibrant.reports.markup import Content, Element, element
from calibrant.reports.strip import strip
from calibrant.reports.wording import percent, points, verdict_of
from calibrant.table import describe_bins

OFF_BY = (
    "“Off by” is the typical gap between what was said and how often it happens: the square root "
    "of the mean square of the gaps over all rows, in percentage points. Single groups may be off "
    "by more."
)


def section(name: str, heading: Content, *content: Content) -> Element:
    """Return a part of the page under a heading of its own."""
    title = element("h2", heading, id=f"{name}-heading")
    return element("section", title, *content, id=name, aria_labelledby=f"{name}-heading")


def verdict(findings: Findings) -> Element:
    """Return the answer, before anything else."""
    found = verdict_of(findings)
    return element(
        "section",
        element(
            "h2",
            element("span", found.sign, class_="sign", aria_hidden="true"),
            found.word.capitalize(),
            id="verdict-heading",
        ),
        element("p", found.sentence, class_="sentence"),
        element("ul", *(element("li", line) for line in found.meaning), class_="meaning"),
        element("p", OFF_BY, class_="note"),
        id="verdict",
        class_=f"verdict {found.word}",
        aria_labelledby="verdict-heading",
    )


def error(findings: Findings) -> Element:
    """Return the error with its interval and what chance alone would give."""
    result, (low, high) = findings.error, findings.interval
    level = percent(findings.confidence_level)
    sign = "≥ " if result.is_lower_bound else ""
    figures = [
        ("Calibration error", f"{sign}{points(result.value)}", "percentage points"),
        (f"{level} interval", f"{points(low)} to {points(high)}", f"{result.n:,} rows"),
        ("Chance alone", points(result.noise_floor), "what a perfect model would score here"),
    ]
    return section(
        "error",
        "How large the error is",
        element("dl", *(_figure(*each) for each in figures), class_="figures"),
        strip(findings),
        element(
            "p",
            "To scale, in percentage points: the dot is the estimate, the bar its interval, the "
            "grey box what chance alone would give.",
            class_="note",
        ),
        element("p", _error_words(findings)),
    )


def _figure(name: str, number: str, note: str) -> Element:
    return element(
        "div",
        element("dt", name),
        element("dd", element("span", number, class_="number"), element("span", note)),
    )


def _error_words(findings: Findings) -> str:
    result = findings.error
    words = [
        "The number is known as the l2 calibration error, with its bias removed. It was measured "
        f"in {describe_bins(result.table)}."
    ]
    if not result.table.is_binned_model:
        words.append(
            "Groups mix different predictions, so that errors within a group can cancel: the "
            "number is a lower bound of the model's error."
        )
    if result.unresolved_mass > 0:
        words.append(
            f"{percent(result.unresolved_mass)} of the rows sit alone in their group, where "
            "error and chance cannot be told apart."
        )
    words += [f"{note[0].upper()}{note[1:]}." for note in findings.interval.notes]
    return " ".join(words)
