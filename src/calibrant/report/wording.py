"""Numbers and verdicts in words that need no statistics to be read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant.report.findings import Findings

SUBJECT = {
    "binary": "The predicted probabilities",
    "top-label": "The model's stated confidence in its answers",
    "marginal": "The predicted probabilities of the classes, taken together,",
}
VERB = {"binary": "are", "top-label": "is", "marginal": "are"}
SIGNS = {"certified": "✓", "refuted": "✕", "undecided": "?", "measured": "≈"}


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees: one word, one sentence, and what it means."""

    word: str
    sentence: str
    meaning: list[str]

    @property
    def sign(self) -> str:
        """A sign that says the same as the word, without colour."""
        return SIGNS[self.word]


def points(error: float) -> str:
    """Return an error in percentage points, without the unit: two digits that matter."""
    value = 100 * error
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def percent(share: float) -> str:
    """Return a share in percent.

    Examples
    --------
    >>> percent(0.95), percent(0.1234), percent(0.00012), percent(1e-9)
    ('95%', '12.3%', '0.012%', '<0.001%')
    """
    value = 100 * share
    if 0 < value < 0.001:
        return "<0.001%"
    if 0 < value < 1:
        return f"{value:.2g}%"
    return f"{value:.1f}".removesuffix(".0") + "%"


def verdict_of(findings: Findings) -> Verdict:
    """Say in one sentence what was found."""
    word = findings.certificate.verdict or "measured"
    sentence = {
        "certified": _certified,
        "refuted": _refuted,
        "undecided": _undecided,
        "measured": _measured,
    }[word](findings)
    meaning = [_chance(findings), _hidden(findings), _overall(findings), _worst(findings)]
    return Verdict(word, sentence, [each for each in meaning if each])


def _certified(findings: Findings) -> str:
    proof = findings.certificate
    return (
        f"{_subject(findings)} off by at most {points(proof.upper_bound)} percentage points, "
        f"within the limit of {points(proof.max_error or 0)}. This holds with "
        f"{percent(proof.confidence_level)} confidence."
    )


def _refuted(findings: Findings) -> str:
    proof = findings.certificate
    return (
        f"{_subject(findings)} off by at least {points(proof.lower_bound)} percentage points, "
        f"more than the limit of {points(proof.max_error or 0)}. This holds with "
        f"{percent(proof.confidence_level)} confidence."
    )


def _undecided(findings: Findings) -> str:
    proof = findings.certificate
    limit = points(proof.max_error or 0)
    if not proof.table.is_binned_model:
        return (
            f"These rows do not show that the limit of {limit} percentage points is broken, and "
            "no data can show that it is kept: the model's outputs are continuous, and errors "
            "can hide between any two of them."
        )
    if proof.upper_bound < proof.lower_bound or proof.upper_bound <= (proof.max_error or 0):
        return (
            "The labels agree with the predictions better than independent draws would. Check "
            "that they were not used to make the predictions."
        )
    return (
        f"{findings.error.n:,} rows are not enough to decide. {_subject(findings)} off by at "
        f"least {points(proof.lower_bound)} and at most {points(proof.upper_bound)} percentage "
        f"points; the limit is {limit}."
    )


def _measured(findings: Findings) -> str:
    error, (low, high) = findings.error, findings.interval
    level = percent(findings.confidence_level)
    subject = _subject(findings)
    if not error.table.is_binned_model:
        subject = f"In groups of similar predictions, {subject[0].lower()}{subject[1:]}"
    if low == 0:
        return (
            f"No error can be told from chance. {subject} off by at most "
            f"{points(high)} percentage points ({level} interval from {error.n:,} rows)."
        )
    return (
        f"{subject} off by about {points(error.value)} percentage points "
        f"({level} interval {points(low)} to {points(high)})."
    )


def _subject(findings: Findings) -> str:
    kind = findings.table.problem.kind
    return f"{SUBJECT[kind]} {VERB[kind]}"


def _chance(findings: Findings) -> str:
    return (
        f"A perfectly calibrated model would seem off by about "
        f"{points(findings.error.noise_floor)} points on these {findings.error.n:,} rows, by "
        "chance alone."
    )


def _hidden(findings: Findings) -> str:
    if findings.table.is_binned_model or findings.certificate.verdict:
        return ""
    return "Errors inside a group can cancel, so the true error may be larger."


def _overall(findings: Findings) -> str:
    picture = findings.picture
    if picture is None:
        return ""
    said, happened = (
        float(np.average(values, weights=picture.count))
        for values in (picture.said, picture.happened)
    )
    if findings.table.problem.kind == "top-label":
        return f"Its average confidence is {percent(said)}; {percent(happened)} was right."
    return f"On average it said {percent(said)}, and {percent(happened)} happened."


def _worst(findings: Findings) -> str:
    picture = findings.picture
    if picture is None:
        return _worst_class(findings)
    if not picture.beyond_chance.any():
        return "In no group of rows does what happened leave the range that chance allows."
    weight = picture.count * (picture.happened - picture.said) ** 2
    i = int(np.argmax(np.where(picture.beyond_chance, weight, 0.0)))
    told = "was right" if findings.table.problem.kind == "top-label" else "happened"
    return (
        f"Where it matters most: in {picture.count[i]:,.0f} rows it said "
        f"{percent(picture.said[i])} on average, and {percent(picture.happened[i])} {told}."
    )


def _worst_class(findings: Findings) -> str:
    classes = findings.classes
    if classes is None:
        return ""
    n = int(classes.beyond_chance.sum())
    if n == 0:
        return f"None of the {classes.n_classes:,} classes is off by more than chance allows."
    are = "class is" if n == 1 else "classes are"
    return f"{n:,} of {classes.n_classes:,} {are} off by more than chance allows."
