"""The card at the top of the page: the answer, and the numbers that it rests on."""

from __future__ import annotations

from calibrant._html import Element, element
from calibrant.reports.findings import Findings
from calibrant.reports.numbers_in_words import Figure, three_numbers
from calibrant.reports.repaired import before_and_after
from calibrant.reports.sections import figures
from calibrant.reports.wording import points, verdict_of

OFF_BY = (
    "“Off by” is the typical gap between what was said and how often it happens: the square root "
    "of the mean square of the gaps over all rows, in percentage points. Single groups may be off "
    "by more."
)


def verdict(findings: Findings) -> Element:
    """Return the answer, before anything else, with the three numbers it rests on."""
    answer = verdict_of(findings)
    return element(
        "section",
        element(
            "h2",
            element("span", answer.sign, class_="sign", aria_hidden="true"),
            answer.word.capitalize(),
            _verdict_before(findings),
            id="verdict-heading",
        ),
        element(
            "div",
            element("p", answer.sentence, class_="sentence"),
            before_and_after(findings),
            element("ul", *(element("li", line) for line in answer.meaning), class_="meaning"),
            element("p", OFF_BY, class_="note"),
        ),
        figures(_numbers(findings)),
        id="verdict",
        class_=f"verdict {answer.word}",
        aria_labelledby="verdict-heading",
    )


def _verdict_before(findings: Findings) -> Element | None:
    if findings.before is None:
        return None
    answer = verdict_of(findings.before)
    known = answer.word if answer.word != "measured" else "not repaired"
    return element("span", f"before: {known}", class_=f"was {answer.word}")


def _numbers(findings: Findings) -> list[Figure]:
    """Return three numbers, each after that of before the repair, where there was one."""
    numbers = three_numbers(findings)
    if findings.before is None:
        return numbers
    (low, high), old = findings.before.interval, three_numbers(findings.before)
    notes = [f"; it was {points(low)} to {points(high)}", "", ""]
    return [
        (name, f"{was} →\N{NO-BREAK SPACE}{number}", note + more)
        for (name, number, note), (_, was, _), more in zip(numbers, old, notes, strict=False)
    ]
