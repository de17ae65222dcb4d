"""Which numbers a page shows large, and what sets interval and bounds apart."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from calibrant._html import short
from calibrant.reports.findings import Findings
from calibrant.reports.wording import percent, points
from calibrant.table import describe_bins

Figure: TypeAlias = tuple[str, str, str]
"""A name, a number, and a note."""


def three_numbers(findings: Findings) -> list[Figure]:
    """Return the estimate, what is proved, and how events compare to predictions."""
    result, (low, high) = findings.error, findings.interval
    level = percent(findings.confidence_level)
    sign = "≥ " if result.is_lower_bound else ""
    relative = _relative(findings)
    return [
        (
            "Error, in points",
            f"{sign}{points(result.value)}",
            f"{level} interval {points(low)} to {points(high)}{relative}",
        ),
        _proved(findings),
        *_events_or_classes(findings),
    ]


def _relative(findings: Findings) -> str:
    """Return the error beside the event rate, where events are rare: 1 point of 2% is half."""
    numbers = findings.key_numbers
    if numbers is None or not numbers.is_rare:
        return ""
    share = percent(findings.error.value / numbers.event_rate)
    return f"; {share} of the event rate of {percent(numbers.event_rate)}"


def _proved(findings: Findings) -> Figure:
    proof = findings.certificate
    limit = "" if proof.max_error is None else f"; the limit is {points(proof.max_error)}"
    if proof.agrees_too_well:
        return "Proved, in points", "nothing", "the labels agree too well"
    if not proof.table.is_binned_model:
        note = "exact; continuous outputs have no upper bound"
        return "Proved, in points", f"≥ {points(proof.lower_bound)}", f"{note}{limit}"
    if proof.lower_bound == 0:
        return "Proved, in points", f"≤ {points(proof.upper_bound)}", f"an exact bound{limit}"
    both = f"{points(proof.lower_bound)} to {points(proof.upper_bound)}"
    return "Proved, in points", both, f"exact bounds{limit}"


def _events_or_classes(findings: Findings) -> list[Figure]:
    numbers, classes = findings.key_numbers, findings.classes
    if numbers is not None:
        what = "right answers" if findings.table.problem.kind == "top-label" else "events"
        level = percent(findings.confidence_level)
        note = (
            f"{level} interval {_ratio(numbers.low)} to {_ratio(numbers.high)}; "
            f"{numbers.events:,.0f} {what}, {numbers.expected:,.0f} expected"
        )
        return [("Observed / expected", _ratio(numbers.observed_to_expected), note)]
    if classes is None:
        return []
    worst = f"worst: {short(classes.labels[0], 24)}, {points(classes.error[0])} points"
    n = int(classes.beyond_chance.sum())
    return [
        (f"{classes.parts.capitalize()} beyond chance", f"{n:,} of {classes.n_classes:,}", worst)
    ]


def key_figures(findings: Findings) -> list[Figure]:
    """Return what a validation reports besides: events, O/E, slope and AUC."""
    numbers = findings.key_numbers
    level = percent(findings.confidence_level)
    floor = points(findings.error.noise_floor)
    chance = [("Chance alone, in points", floor, "what a perfect model would score here")]
    if numbers is None:
        return chance
    answers = findings.table.problem.kind == "top-label"
    figures = [
        (
            "Right answers" if answers else "Events",
            f"{numbers.events:,.0f}",
            f"of {numbers.n:,} rows, {percent(numbers.event_rate)}",
        ),
        (
            "Observed / expected",
            _ratio(numbers.observed_to_expected),
            f"{level} interval {_ratio(numbers.low)} to {_ratio(numbers.high)}; 1 is best",
        ),
    ]
    if numbers.slope is not None:
        low, high = numbers.slope_low or 0.0, numbers.slope_high or 0.0
        note = f"{level} interval {low:.2f} to {high:.2f}; 1 is best, less is too sure"
        figures.append(("Slope", f"{numbers.slope:.2f}", note))
    if numbers.auc is not None:
        told = "right answers from wrong" if answers else "events from others"
        low, high = numbers.auc_low or 0.0, numbers.auc_high or 0.0
        note = f"{level} interval {low:.3f} to {high:.3f}; tells {told}: 0.5 is guessing, 1 best"
        figures.append(("AUC", f"{numbers.auc:.3f}", note))
    return [*figures, *chance]


def _ratio(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "∞"


def error_bar_words(findings: Findings) -> str:
    """Describe the error bar to those who do not see it."""
    error, (low, high), proof = findings.error, findings.interval, findings.certificate
    limit = f", limit {points(proof.max_error)}" if proof.max_error else ""
    upper = f" and at most {points(proof.upper_bound)}" if proof.table.is_binned_model else ""
    proved = (
        "" if proof.agrees_too_well else f", proved at least {points(proof.lower_bound)}{upper}"
    )
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
