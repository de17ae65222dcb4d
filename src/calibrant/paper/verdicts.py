"""The rule by which our numbers agree with the paper's or not, and the lines that say so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from calibrant.paper.claims import CLAIMS, Claim, Rule, show
from calibrant.paper.uncertainty import Estimate, Finding

if TYPE_CHECKING:
    from calibrant.paper.study import StudyResult

Verdict: TypeAlias = Literal[
    "agree", "disagree", "undecided", "varies", "cannot be checked", "beyond the paper"
]
NOT_RUN: Verdict = "cannot be checked"

RULES: dict[Rule, str] = {
    "number": "agrees if the two numbers differ by at most 1.96 joint standard errors, and the "
    "rounding of the paper's number; where the paper states no error, its run is taken to have "
    "the error that ours would have with the paper's number of repeats",
    "above": "agrees if our whole 90% interval lies above the bound, disagrees if none of it does",
    "below": "agrees if our whole 90% interval lies below the bound, disagrees if none of it does",
    "in range": "the paper reports one split of the data; agrees if its number lies among nine in "
    "ten of our splits, given the rounding of the paper's number",
    "ours": "our own method in the paper's protocol; the paper has no number for it",
}
SPLITS = (
    "A claim that the paper makes from one random split of the data is judged in several splits, "
    "each by its own interval. It agrees, disagrees or is undecided if at least nine splits in ten "
    "are, else it varies with the split; fewer than ten splits do not disagree. The first split of "
    "the paper's own files is that of the authors' scripts. The number shown is the median over "
    "the splits, the interval holds nine in ten of them"
)
HOW_JUDGED = (*((name, text) for name, text in RULES.items() if name != "ours"), ("splits", SPLITS))
"""How a verdict is reached, to be printed with the verdicts."""
ONE_NUMBER: tuple[Rule, ...] = ("number", "in range")
AUTHORS_SPLIT: dict[Verdict, str] = {
    "agree": "the authors' among them",
    "disagree": "not in the authors'",
    "undecided": "undecided in the authors'",
}
ENOUGH = 0.9
"""The share of splits that settles a claim: the level of the paper's intervals."""
FEWEST_SPLITS = 10
"""With fewer, a claim that holds in one split of ten may well be found in none."""


def judge(claim: Claim, finding: Finding) -> Verdict:
    """Compare a number of ours with the paper's, by the claim's rule.

    Examples
    --------
    >>> claim = Claim("s", "k", "", "", value=2.0, se=0.06)
    >>> judge(claim, Finding("k", Estimate(2.05, 0.05, 1.97, 2.13), 1000))
    'agree'
    """
    if claim.rule == "ours":
        return "beyond the paper"
    if claim.rule == "in range":
        ours = finding.estimate
        inside = ours.low - claim.rounding <= claim.value <= ours.high + claim.rounding
        return "agree" if inside else _unless_few("disagree", finding)
    if claim.rule == "number":
        away = abs(finding.estimate.value - claim.value)
        return "agree" if away <= _slack(claim, finding) else "disagree"
    verdicts = [_beyond_bound(claim, one) for one in finding.splits or (finding.estimate,)]
    verdict, most = Counter(verdicts).most_common(1)[0]
    return _unless_few(verdict, finding) if most >= ENOUGH * len(verdicts) else "varies"


def _unless_few(verdict: Verdict, finding: Finding) -> Verdict:
    """Return the verdict, but no disagreement from a handful of splits."""
    few = 0 < len(finding.splits) < FEWEST_SPLITS
    return "undecided" if few and verdict == "disagree" else verdict


def _beyond_bound(claim: Claim, ours: Estimate) -> Verdict:
    """Tell on which side of an inequality's bound an interval lies."""
    above, below = ours.low > claim.value, ours.high < claim.value
    if not above and not below:
        return "undecided"
    return "agree" if above == (claim.rule == "above") else "disagree"


def worded(claim: Claim, finding: Finding) -> str:
    """Return the verdict and, where several splits were judged, in how many the claim holds.

    Examples
    --------
    >>> claim = Claim("s", "k", "", "", "above", 1.0)
    >>> splits = tuple(Estimate(x, 0.1, x - 0.2, x + 0.2) for x in (1.4, 0.6, 0.5))
    >>> worded(claim, Finding("k", splits[1], 100, splits=splits, has_authors_split=True))
    "varies, agrees in 1 of 3 splits, the authors' among them"
    """
    verdict, held = judge(claim, finding), splits_held(claim, finding)
    if not held:
        return verdict
    held += " splits" if len(finding.splits) > 1 else " split"
    with_authors = finding.has_authors_split and len(finding.splits) > 1
    if claim.rule in ONE_NUMBER:
        own = f", {show(finding.splits[0].value, claim.unit)} in the authors'"
        return f"{verdict}, at least that in {held}{own if with_authors else ''}"
    verdicts = [_beyond_bound(claim, one) for one in finding.splits]
    words = f"{verdict}, {'in' if verdict == 'agree' else 'agrees in'} {held}"
    if with_authors and len(set(verdicts)) > 1:
        words += f", {AUTHORS_SPLIT[verdicts[0]]}"
    undecided = verdicts.count("undecided")
    return f"{words}, undecided in {undecided}" if undecided else words


def splits_held(claim: Claim, finding: Finding) -> str:
    """Return in how many splits a claim holds, as "3 of 20"; nothing where none was made.

    A number holds where it is reached, an inequality where a split agrees with it.
    """
    if not finding.splits:
        return ""
    held = sum(
        one.value >= claim.value
        if claim.rule in ONE_NUMBER
        else _beyond_bound(claim, one) == "agree"
        for one in finding.splits
    )
    return f"{held} of {len(finding.splits)}"


def _slack(claim: Claim, finding: Finding) -> float:
    """Return by how much a number may differ from the paper's."""
    own, paper = finding.estimate.se, claim.se
    if paper is None:
        paper = own * math.sqrt(finding.repeats / claim.repeats) if claim.repeats else 0.0
    return 1.96 * math.hypot(own, paper) + claim.rounding


@dataclass(frozen=True)
class Line:
    """One line: what the paper says, what came out, and the verdict.

    `splits` is in how many splits of the data the claim holds, and `worded` the verdict with that.
    """

    study: str
    source: str
    statement: str
    paper: str
    ours: str
    interval: str
    verdict: Verdict
    splits: str
    worded: str
    note: str


def claim_lines(results: Sequence[StudyResult]) -> list[Line]:
    """Return a line for every claim of the paper, in its order."""
    return [_claim_line(claim, results) for claim in CLAIMS]


def other_lines(result: StudyResult) -> list[Line]:
    """Return the findings of a result about which the paper says nothing."""
    return [
        Line(result.study, "", finding.statement, "", *_ours(finding, finding.unit),
             "beyond the paper", "", "beyond the paper", finding.note)
        for finding in result.output.findings
        if finding.statement and not any(_speaks_of(c, result, finding.key) for c in CLAIMS)
    ]  # fmt: skip


def lines_of(result: StudyResult) -> list[Line]:
    """Return the claims that a result checks, then its other findings."""
    checked = [
        _claim_line(claim, [result])
        for claim in CLAIMS
        if any(_speaks_of(claim, result, finding.key) for finding in result.output.findings)
    ]
    return checked + other_lines(result)


def _speaks_of(claim: Claim, result: StudyResult, key: str) -> bool:
    dataset = result.data and result.data["dataset"]
    return (claim.study, claim.key) == (result.study, key) and claim.dataset in (None, dataset)


def _claim_line(claim: Claim, results: Sequence[StudyResult]) -> Line:
    for result in results:
        for finding in result.output.findings:
            if _speaks_of(claim, result, finding.key):
                return Line(
                    claim.study, claim.source, _statement(claim), claim.paper,
                    *_ours(finding, claim.unit), judge(claim, finding),
                    splits_held(claim, finding), worded(claim, finding), finding.note,
                )  # fmt: skip
    why = f"without {claim.missing}" if claim.missing else f"until {claim.study} has run"
    return Line(
        claim.study, claim.source, _statement(claim), claim.paper, "", "", NOT_RUN, "",
        NOT_RUN, why,
    )  # fmt: skip


def _statement(claim: Claim) -> str:
    named = {"cifar10": "CIFAR-10: ", "imagenet": "ImageNet: "}
    return named.get(claim.dataset or "", "") + claim.statement


def _ours(finding: Finding, unit: str) -> tuple[str, str]:
    ours = finding.estimate
    interval = f"{show(ours.low, unit)} to {show(ours.high, unit)}"
    return show(ours.value, unit), interval if finding.repeats else "exact"


def tally(lines: Sequence[Line]) -> str:
    """Return how many claims have each verdict, in words."""
    verdicts: tuple[Verdict, ...] = ("agree", "disagree", "varies", "undecided", NOT_RUN)
    names: dict[Verdict, str] = {"varies": "vary with the split", "undecided": "are undecided"}
    counts = {verdict: sum(line.verdict == verdict for line in lines) for verdict in verdicts}
    return ", ".join(
        f"{count} {names.get(verdict, verdict)}" for verdict, count in counts.items() if count
    )
