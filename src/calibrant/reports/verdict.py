"""The card at the top of the page, the numbers that it rests on, and what a repair changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from calibrant._html import Content, Element, bullets, element, scrolling, section, short, table
from calibrant._svg import joint_window
from calibrant.reports.findings import Findings
from calibrant.reports.key_numbers import KeyNumbers
from calibrant.reports.wording import axis_words, percent, points, verdict_of
from calibrant.table import describe_bins

Figure: TypeAlias = tuple[str, str, str]
"""A name, a number, and a note."""
OFF_BY = (
    "“Off by” is the typical gap between what was said and how often it happens: the square root "
    "of the mean square of the gaps over all rows, in percentage points. Single groups may be off "
    "by more."
)


def verdict(findings: Findings) -> Element:
    """Return the answer, before anything else, with the three numbers it rests on."""
    answer, before, numbers = verdict_of(findings), findings.before, three_numbers(findings)
    was: Content = None
    if before is not None:
        old, (low, high) = verdict_of(before), before.interval
        known = old.word if old.word != "measured" else "not repaired"
        was = element("span", f"before: {known}", class_=f"was {old.word}")
        notes = (f"; it was {points(low)} to {points(high)}", "", "")
        pairs = zip(numbers, three_numbers(before), notes, strict=False)
        numbers = [
            (name, f"{former} →\N{NO-BREAK SPACE}{number}", note + more)
            for (name, number, note), (_, former, _), more in pairs
        ]
    return element(
        "section",
        element(
            "h2",
            element("span", answer.sign, class_="sign", aria_hidden="true"),
            answer.word.capitalize(),
            was,
            id="verdict-heading",
        ),
        element(
            "div",
            element("p", answer.sentence, class_="sentence"),
            _before_and_after(findings),
            bullets(answer.meaning, class_="meaning"),
            element("p", OFF_BY, class_="note"),
        ),
        figures(numbers),
        id="verdict",
        class_=f"verdict {answer.word}",
        aria_labelledby="verdict-heading",
    )


def _before_and_after(findings: Findings) -> Element | None:
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
    if findings.before is None:
        return None
    columns = [dict(_numbers(state)) for state in (findings.before, findings)]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = ([name, *(column.get(name, "–") for column in columns)] for name in names)
    listed = table("Before and after", ("On the same rows", "Before", "After"), rows)
    note = (
        f"Both on the same {findings.error.n:,} rows. They say something about the repair if "
        "it was fitted on others."
    )
    return section(
        "changed",
        "What the repair changed",
        scrolling("Numbers before and after", listed),
        element("p", note, class_="note"),
    )


def _numbers(state: Findings) -> Iterator[tuple[str, str]]:
    """Yield the lines of the table, by name."""
    if state.certificate.verdict is not None:
        yield "Verdict", state.certificate.verdict
    low, high = state.interval
    (error, value, _), (bound, proved, _) = three_numbers(state)[:2]
    yield error, f"{value} ({points(low)} to {points(high)})"
    yield bound, proved
    for name, number, _ in key_figures(state):
        yield name, number
    yield "Brier score", f"{state.brier.value:.4f}"


def three_numbers(findings: Findings) -> list[Figure]:
    """Return the estimate, what is proved, and how events compare to predictions."""
    result, (low, high), numbers = findings.error, findings.interval, findings.key_numbers
    sign = "≥ " if result.is_lower_bound else ""
    note = f"{percent(findings.confidence_level)} interval {points(low)} to {points(high)}"
    if numbers is not None and numbers.is_rare:  # 1 point of 2% is half
        share = percent(result.value / numbers.event_rate)
        note += f"; {share} of the event rate of {percent(numbers.event_rate)}"
    estimate = ("Error, in points", f"{sign}{points(result.value)}", note)
    return [estimate, ("Proved, in points", *_proved(findings)), *_events_or_classes(findings)]


def _proved(findings: Findings) -> tuple[str, str]:
    proof = findings.certificate
    limit = "" if proof.max_error is None else f"; the limit is {points(proof.max_error)}"
    if proof.agrees_too_well:
        return "nothing", "the labels agree too well"
    least, most = points(proof.lower_bound), points(proof.upper_bound)
    if not proof.table.is_binned_model:
        return f"≥ {least}", f"exact; continuous outputs have no upper bound{limit}"
    if proof.lower_bound == 0:
        return f"≤ {most}", f"an exact bound{limit}"
    return f"{least} to {most}", f"exact bounds{limit}"


def _events_or_classes(findings: Findings) -> list[Figure]:
    numbers, classes = findings.key_numbers, findings.classes
    if numbers is not None:
        what = "right answers" if findings.table.problem.kind == "top-label" else "events"
        more = f"{numbers.events:,.0f} {what}, {numbers.expected:,.0f} expected"
        return [_observed_to_expected(numbers, findings.confidence_level, more)]
    if classes is None:
        return []
    worst = f"worst: {short(classes.labels[0], 24)}, {points(classes.error[0])} points"
    n = int(classes.beyond_chance.sum())
    return [
        (f"{classes.parts.capitalize()} beyond chance", f"{n:,} of {classes.n_classes:,}", worst)
    ]


def _observed_to_expected(numbers: KeyNumbers, level: float, more: str) -> Figure:
    value, low, high = (
        f"{ratio:.2f}" if np.isfinite(ratio) else "∞"
        for ratio in (numbers.observed_to_expected, numbers.low, numbers.high)
    )
    return "Observed / expected", value, f"{percent(level)} interval {low} to {high}; {more}"


def key_figures(findings: Findings) -> list[Figure]:
    """Return what a validation reports besides: events, O/E, slope and AUC."""
    numbers, level = findings.key_numbers, findings.confidence_level
    floor = points(findings.error.noise_floor)
    chance = ("Chance alone, in points", floor, "what a perfect model would score here")
    if numbers is None:
        return [chance]
    answers = findings.table.problem.kind == "top-label"
    figures = [
        (
            "Right answers" if answers else "Events",
            f"{numbers.events:,.0f}",
            f"of {numbers.n:,} rows, {percent(numbers.event_rate)}",
        ),
        _observed_to_expected(numbers, level, "1 is best"),
    ]
    if numbers.slope is not None:
        low, high = numbers.slope_low or 0.0, numbers.slope_high or 0.0
        note = f"{percent(level)} interval {low:.2f} to {high:.2f}; 1 is best, less is too sure"
        figures.append(("Slope", f"{numbers.slope:.2f}", note))
    if numbers.auc is not None:
        kinds = "right answers from wrong" if answers else "events from others"
        low, high = numbers.auc_low or 0.0, numbers.auc_high or 0.0
        interval = f"{percent(level)} interval {low:.3f} to {high:.3f}"
        note = f"{interval}; tells {kinds}: 0.5 is guessing, 1 best"
        figures.append(("AUC", f"{numbers.auc:.3f}", note))
    return [*figures, chance]


def figures(numbers: list[Figure]) -> Element:
    """Return large numbers, each with its name above and a note below."""
    pairs = (
        element(
            "div",
            element("dt", name),
            element("dd", element("span", number, class_="number"), element("span", note)),
        )
        for name, number, note in numbers
    )
    return element("dl", *pairs, class_="figures")


def error_bar_words(findings: Findings) -> str:
    """Describe the error bar to those who do not see it."""
    error, (low, high), proof = findings.error, findings.interval, findings.certificate
    limit = f", limit {points(proof.max_error)}" if proof.max_error else ""
    proved = "" if proof.agrees_too_well else f", proved at least {points(proof.lower_bound)}"
    if proved and proof.table.is_binned_model:
        proved += f" and at most {points(proof.upper_bound)}"
    return (
        f"Error {points(error.value)} percentage points, {percent(findings.confidence_level)} "
        f"interval {points(low)} to {points(high)}{proved}, chance alone "
        f"{points(error.noise_floor)}{limit}."
    )


def bounds_words(findings: Findings) -> str:
    """Say what is proved, and why that is not the interval."""
    proof, table = findings.certificate, findings.table
    level = percent(findings.confidence_level)
    least, most = points(proof.lower_bound), points(proof.upper_bound)
    why = (
        "The interval is two-sided and an approximation for many rows; a bound is one-sided and "
        "exact for any number of rows. So they end in different places, and either can be the "
        "narrower"
    )
    if not proof.table.is_binned_model:
        why += "; nothing can be proved upwards, because the outputs are continuous"
        return f"Proved: at least {least}, with {level} confidence. {why}."
    if table.bins != proof.table.bins:
        why += (
            f"; also, it is about {describe_bins(table)}, they about {describe_bins(proof.table)}"
        )
    return f"Proved: at least {least} and at most {most}, each with {level} confidence. {why}."
