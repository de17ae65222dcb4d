"""Numbers and verdicts in words that need no statistics to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant.groups import shown_key
from calibrant.reports.findings import Findings
from calibrant.table import describe_bins

Words: TypeAlias = tuple[str, str]
"""What was said and what happened, as the axes of a diagram name them."""
SUBJECT = {
    "binary": "The predicted probabilities",
    "top-label": "The model's stated confidence in its answers",
    "marginal": "The predicted probabilities of the classes, taken together,",
    "multi-label": "The predicted probabilities of the labels, taken together,",
    "ordinal": "The predicted probabilities of a class or a lower one, taken together,",
    "quantile": "The levels of the predicted quantiles, taken together,",
}
VERB = {"top-label": "is"}
# Where the interval lies if it says the same as the verdict: within the limit, beyond it, or both.
AGREEING = {("certified", "within"), ("refuted", "beyond"), ("undecided", "across")}
RMS = "in the root mean square over all rows"
"""Said wherever a bound is: single groups may be off by more."""
LABELS_TOO_GOOD = (
    "The labels agree with the predictions better than independent draws would. Check that they "
    "were not used to make the predictions."
)
EVENTS: Words = ("said", "happened")
ANSWERS: Words = ("confidence", "was right")
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


def axis_words(findings: Findings, i: int) -> Words:
    """Return what was said and what happened, in words, for a curve of the switch."""
    return ANSWERS if i == 0 and findings.table.problem.kind == "top-label" else EVENTS


def verdict_of(findings: Findings) -> Verdict:
    """Say in one sentence what was found."""
    word: str = findings.certificate.verdict or "measured"
    say = {"undecided": _undecided, "measured": _measured}.get(word, _decided)
    sentence = " ".join(filter(None, (say(findings), _by_group(findings))))
    writers = (_before, _difference, _chance, _hidden, _trivial, _overall, _worst)
    return Verdict(word, sentence, [line for say in writers if (line := say(findings))])


def _by_group(findings: Findings) -> str:
    """Say whether the verdict on all rows holds in every group that was asked for."""
    audit = findings.audit
    if audit is None or audit.max_error is None:
        return ""
    what = f"groups by {audit.tables.described_by}"
    if audit.verdict == "certified":
        return f"Each of the {len(audit):,} {what} is certified by itself, all at once."
    counts = [(len(audit.of(verdict)), verdict) for verdict in ("refuted", "undecided")]
    counted = " and ".join(f"{n:,} {'is' if n == 1 else 'are'} {word}" for n, word in counts if n)
    sentence = f"Not every group is certified: of {len(audit):,} {what}, {counted}"
    if audit.verdict == "undecided":
        return f"{sentence}."
    worst = audit.groups[0]
    return (
        f"{sentence}; the worst, {shown_key(worst.group)}, is off by at least "
        f"{points(worst.lower_bound)} points."
    )


def _before(findings: Findings) -> str:
    before = findings.before
    if before is None:
        return ""
    proof = before.certificate
    proved = f", and at least {points(proof.lower_bound)} is proved" if proof.lower_bound else ""
    return f"Before the repair it was off by about {points(before.error.value)} points{proved}."


def _trivial(findings: Findings) -> str:
    """Say where the limit, or the bound, is one that a model without any inputs would keep."""
    proof = findings.certificate
    bound = proof.upper_bound if proof.max_error is None else proof.max_error
    if proof.table.problem.kind == "quantile":  # no answer is trivial there
        return ""
    if not proof.table.is_binned_model or proof.verdict == "refuted" or bound < proof.trivial_error:
        return ""
    return (
        "That says little: a model that always answers 0 or 1, whichever is commoner, is off by "
        f"{points(proof.trivial_error)} percentage points."
    )


def _decided(findings: Findings) -> str:
    proof = findings.certificate
    off, than = f"at least {points(proof.lower_bound)}", "more than"
    if proof.verdict == "certified":
        off, than = f"at most {points(proof.upper_bound)}", "within"
    return (
        f"{_subject(findings)} off by {off} percentage points {RMS}, {than} the limit of "
        f"{points(proof.max_error or 0)}. This holds with {percent(proof.confidence_level)} "
        "confidence."
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
    if proof.agrees_too_well:
        return LABELS_TOO_GOOD
    return (
        f"{findings.error.n:,} rows are not enough to decide. {_subject(findings)} off by at "
        f"least {points(proof.lower_bound)} and at most {points(proof.upper_bound)} percentage "
        f"points {RMS}; the limit is {limit}."
    )


def _measured(findings: Findings) -> str:
    error, (low, high) = findings.error, findings.interval
    if findings.certificate.agrees_too_well:
        return LABELS_TOO_GOOD
    level = percent(findings.confidence_level)
    subject = _subject(findings)
    if not error.table.is_binned_model:
        subject = f"In groups of similar predictions, {subject[0].lower()}{subject[1:]}"
    if low > 0:
        return (
            f"{subject} off by about {points(error.value)} percentage points {RMS} "
            f"({level} interval {points(low)} to {points(high)})."
        )
    at_most = (
        f"{subject} off by at most {points(high)} percentage points {RMS} "
        f"({level} interval from {error.n:,} rows)."
    )
    proved, part = findings.certificate.lower_bound, findings.curve or findings.classes
    if proved > 0:
        return f"{at_most} An exact bound shows an error of at least {points(proved)}."
    if part is not None and part.beyond_chance.any():  # a single group or class
        return at_most
    return f"No error can be told from chance. {at_most}"


def _difference(findings: Findings) -> str:
    """Say why interval and verdict differ, where they do."""
    proof, (low, high) = findings.certificate, findings.interval
    limit, level = proof.max_error, percent(findings.confidence_level)
    if limit is None:
        return ""
    side = "beyond" if low > limit else "within" if high <= limit else "across"
    if (proof.verdict, side) in AGREEING:
        return ""
    if proof.verdict == "undecided":
        what = f"lies {side} the limit, but that proves nothing"
    elif side == "across":
        other = "beyond" if proof.verdict == "certified" else "within"
        what = f"holds errors {other} the limit too"
    else:
        what = f"lies {side} the limit"
    return f"The {level} interval {what}: {_cause(findings)}."


def _cause(findings: Findings) -> str:
    """Say what sets the interval apart from the verdict."""
    proof, table = findings.certificate, findings.table
    if table.bins != proof.table.bins:
        return (
            f"it is about {describe_bins(table)}, and the verdict about "
            f"{describe_bins(proof.table)}"
        )
    if proof.verdict == "undecided" and findings.interval.high <= (proof.max_error or 0):
        if not table.is_binned_model:
            return "it is about groups of similar predictions, inside which errors can cancel"
        if proof.agrees_too_well:
            return "it takes these labels at their word"
    return "it is two-sided and approximate, and the verdict rests on an exact bound"


def _subject(findings: Findings) -> str:
    kind = findings.table.problem.kind
    return f"{SUBJECT[kind]} {VERB.get(kind, 'are')}"


def _chance(findings: Findings) -> str:
    return (
        f"A perfectly calibrated model would seem off by about "
        f"{points(findings.error.noise_floor)} points on these {findings.error.n:,} rows, by "
        "chance alone."
    )


def _hidden(findings: Findings) -> str:
    known = findings.table.is_binned_model or findings.certificate.verdict
    return "" if known else "Errors inside a group can cancel, so the true error may be larger."


def _overall(findings: Findings) -> str:
    if findings.curve is None:
        return ""
    curve = findings.curve.alone
    predicted, happened = (
        float(np.average(values, weights=curve.count))
        for values in (curve.mean_prediction, curve.event_rate)
    )
    if findings.table.problem.kind == "top-label":
        right = f"{percent(happened)} of its answers were right"
        return f"Its average confidence is {percent(predicted)}; {right}."
    return f"On average it said {percent(predicted)}, and {percent(happened)} happened."


def _worst(findings: Findings) -> str:
    if findings.curve is None:
        return _worst_class(findings)
    whole, beyond = _whole_beyond_chance(findings), findings.curve.beyond_chance
    if not beyond.any():
        sentence = "In no group of rows does what happened leave the range that chance allows"
        return f"{sentence}, but all groups together do." if whole else f"{sentence}."
    curve, i = findings.curve.alone, findings.curve.worst
    happened = "were right" if findings.table.problem.kind == "top-label" else "happened"
    where = (
        "Where it matters most:"
        if whole
        else "All groups together stay within what chance allows, but not every single one:"
    )
    return (
        f"{where} in {curve.count[i]:,.0f} rows it said {percent(curve.mean_prediction[i])} on "
        f"average, and {percent(curve.event_rate[i])} {happened}."
    )


def _worst_class(findings: Findings) -> str:
    classes = findings.classes
    if classes is None:
        return ""
    n, whole = int(classes.beyond_chance.sum()), _whole_beyond_chance(findings)
    if n == 0:
        sentence = (
            f"None of the {classes.n_classes:,} {classes.parts} is off by more than chance allows"
        )
        return f"{sentence}, but all together are." if whole else f"{sentence}."
    are = f"{classes.part} is" if n == 1 else f"{classes.parts} are"
    sentence = f"{n:,} of {classes.n_classes:,} {are} off by more than chance allows"
    return f"{sentence}." if whole else f"{sentence}, but all together are not."


def _whole_beyond_chance(findings: Findings) -> bool:
    """Return whether interval or bound exclude an error of 0 for all rows together."""
    return findings.interval.low > 0 or findings.certificate.lower_bound > 0
