"""What the paper reports, when our numbers agree with it, and the lines that say so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from calibrant.paper.predictions import CIFAR10, FILES, IMAGENET
from calibrant.paper.uncertainty import Estimate, Finding

if TYPE_CHECKING:
    from calibrant.paper.study import StudyResult

Rule: TypeAlias = Literal["number", "above", "below", "in range"]


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper that a study can check.

    Attributes
    ----------
    study, key : str
        Who checks it.
    source : str
        Where the paper says it.
    statement : str
        What it says, in our words.
    rule : str
        How agreement is decided; see `RULES`.
    value : float
        The paper's number, or the bound of an inequality.
    se : float, optional
        The paper's own standard error.
    rounding : float
        Half a unit of the last digit that the paper prints.
    repeats : int, optional
        How many repeats the paper's number rests on.
    dataset : str, optional
        The predictions that it speaks of.
    unit : {"", "x", "%"}
        How to print it.
    """

    study: str
    key: str
    source: str
    statement: str
    rule: Rule = "number"
    value: float = 0.0
    se: float | None = None
    rounding: float = 0.0
    repeats: int | None = None
    dataset: str | None = None
    unit: str = ""

    @property
    def missing(self) -> str:
        """The file without which the claim cannot be checked."""
        return FILES[self.dataset] if self.dataset else ""

    @property
    def paper(self) -> str:
        """The paper's number or inequality, for people."""
        sign = {"above": "> ", "below": "< "}.get(self.rule, "")
        shown = f"{sign}{show(self.value, self.unit)}"
        scale = 100 if self.unit == "%" else 1
        return shown if self.se is None else f"{shown} ± {scale * self.se:g}{self.unit}"


def show(value: float, unit: str = "") -> str:
    """Print a number in its unit.

    >>> show(1.98, "x"), show(0.351, "%"), show(0.0149)
    ('1.98x', '35.1%', '0.0149')
    """
    if unit == "%":
        return f"{100 * value:.1f}%"
    if value == 0:
        return f"0{unit}"
    digits = max(0, 2 - math.floor(math.log10(abs(value)))) if math.isfinite(value) else 0
    return (f"{value:.2e}" if digits > 6 else f"{value:,.{min(digits, 6)}f}") + unit


CLAIMS: tuple[Claim, ...] = (
    Claim("example-3-1", "error", "Example 3.1", "a model has a calibration error of 0.49 or more",
          "above", 0.49),
    Claim("example-3-1", "binned", "Example 3.1", "while its binned error is 0",
          "below", 1e-9),
    Claim("proposition-3-2", "finer", "Proposition 3.2",
          "finer bins never lower the binned error (largest fall from bins to their halves)",
          "below", 1e-9),
    Claim("proposition-3-2", "bound", "Proposition 3.2",
          "no binned error exceeds the model's own (largest excess)", "below", 1e-9),
    Claim("synthetic-n", "histogram", "Appendix E (A)",
          "n 1,000 to 2,000 divides the squared error of histogram binning by",
          value=2.0, se=0.06, unit="x"),
    Claim("synthetic-n", "scaling-binning", "Appendix E (A)",
          "n 1,000 to 2,000 divides the squared error of scaling-binning by",
          value=1.98, se=0.09, unit="x"),
    Claim("synthetic-n", "histogram-linear", "Appendix E (A)",
          "1 / error² of histogram binning is about linear in n (exponent of n)",
          value=1.0, rounding=0.1),
    Claim("synthetic-n", "scaling-binning-linear", "Appendix E (A)",
          "1 / error² of scaling-binning is about linear in n (exponent of n)",
          value=1.0, rounding=0.1),
    Claim("synthetic-bins", "histogram", "Appendix E (A)",
          "B 5 to 20 multiplies the squared error of histogram binning by",
          value=3.71, se=0.15, unit="x"),
    Claim("synthetic-bins", "scaling-binning", "Appendix E (A)",
          "B 5 to 20 changes the squared error of scaling-binning by",
          value=-0.02, se=0.07, unit="%"),
    Claim("synthetic-noisy", "gain", "Appendix E (B)",
          "n = 3,000: scaling-binning has a squared error lower than scaling alone by",
          value=5.2, se=1.1, unit="x"),
    Claim("synthetic-noisy", "always", "Appendix E (B)",
          "scaling-binning is better at every n (least ratio)", "above", 1.0, unit="x"),
    Claim("lower-bounds", "growth", "Section 3.1, Figure 2",
          "the binned l2 error grows with the bins (largest B minus B = 2)",
          "above", 0.0, dataset=CIFAR10),
    Claim("lower-bounds", "at-15", "Section 3.1, Figure 2", "the binned l2 error at 15 bins",
          "in range", 0.02, rounding=0.005, dataset=IMAGENET),
    Claim("lower-bounds", "twice", "Section 3.1, Figure 2",
          "with more bins it is at least twice that", "above", 2.0, dataset=IMAGENET, unit="x"),
    Claim("lower-bounds-l1", "gap-mass", "Appendix C",
          "inconclusive: the error bars of the l1 error overlap (gap between those of the "
          "fewest and the most uniform-mass bins)", "below", 0.0, dataset=CIFAR10),
    Claim("lower-bounds-l1", "gap-width", "Appendix C",
          "inconclusive: the error bars of the l1 error overlap (gap between those of the "
          "fewest and the most equal-width bins)", "below", 0.0, dataset=CIFAR10),
    Claim("lower-bounds-l1", "growth-mass", "Appendix C",
          "the l1 error with uniform-mass bins grows with the bins", "above", 0.0,
          dataset=IMAGENET),
    Claim("lower-bounds-l1", "growth-width", "Appendix C",
          "the l1 error with equal-width bins grows with the bins", "above", 0.0,
          dataset=IMAGENET),
    Claim("calibrators-marginal", "gain", "Section 4.3, Figure 3",
          "B = 100: the squared marginal error of scaling-binning is lower by",
          value=0.35, rounding=0.005, repeats=100, dataset=CIFAR10, unit="%"),
    Claim("calibrators-marginal", "mse", "Section 4.3, Figure 3",
          "at an error of at most 0.02 its mean squared error is lower by",
          value=0.09, rounding=0.005, repeats=100, dataset=CIFAR10, unit="%"),
    Claim("calibrators-top-label", "many-bins", "Appendix E",
          "scaling-binning is better for every B > 30 (least ratio)",
          "above", 1.0, dataset=CIFAR10, unit="x"),
    Claim("calibrators-top-label", "few-bins", "Appendix E",
          "histogram binning is better for few bins (ratio at B = 10)",
          "below", 1.0, dataset=CIFAR10, unit="x"),
    Claim("calibrators-top-label", "gain", "Appendix E",
          "B = 100: the squared top-label error of scaling-binning is lower by nearly",
          value=5.0, rounding=0.5, repeats=100, dataset=IMAGENET, unit="x"),
    Claim("calibrators-top-label", "all-bins", "Appendix E",
          "scaling-binning is better for every B >= 10 (least ratio)",
          "above", 1.0, dataset=IMAGENET, unit="x"),
    *(
        Claim("estimators-marginal", key, "Section 5.1, Figure 4", statement, "above", 1.0,
              dataset=CIFAR10, unit="x")
        for key, statement in (
            ("least-10", "B = 10: the debiased estimate deviates less at every n (least ratio "
                         "of mean squared deviations)"),
            ("least-100", "B = 100: the debiased estimate deviates less at every n (least ratio)"),
            ("small-n-10", "B = 10: more so for small n (ratio at the smallest n over the "
                           "largest)"),
            ("small-n-100", "B = 100: more so for small n (ratio at the smallest n over the "
                            "largest)"),
            ("large-bins", "more so for large B (B = 100 over B = 10, least over n)"),
        )
    ),
    Claim("estimators-marginal", "worst-10", "Appendix G, Figure 9",
          "B = 10: debiasing avoids very bad estimates (99% quantiles of the deviations, "
          "plug-in over debiased)", "above", 1.0, dataset=CIFAR10, unit="x"),
    Claim("estimators-marginal", "median-100", "Appendix G, Figure 9",
          "B = 100: debiased estimates are much closer (medians of the deviations, plug-in over "
          "debiased)", "above", 1.0, dataset=CIFAR10, unit="x"),
    *(
        Claim("estimators-ece", key, "Appendix G", statement, "above", 1.0, dataset=dataset,
              unit="x")
        for dataset in (CIFAR10, IMAGENET)
        for key, statement in (
            ("least-15", "B = 15: the debiased ECE deviates less at every n (least ratio of mean "
                         "squared deviations)"),
            ("least-100", "B = 100: the debiased ECE deviates less at every n (least ratio)"),
            ("small-n-15", "B = 15: more so for small n (ratio at the smallest n over the "
                           "largest)"),
            ("small-n-100", "B = 100: more so for small n (ratio at the smallest n over the "
                            "largest)"),
            ("large-bins", "more so for large B (B = 100 over B = 15, least over n)"),
            ("median-100", "B = 100: debiased estimates are much closer (medians of the "
                           "deviations, plug-in over debiased)"),
        )
    ),
    Claim("choosing-bins", "debiased-bins", "Appendix G",
          "bins that a debiased bound of at most 1.5% allows", "in range", 100,
          dataset=CIFAR10),
    Claim("choosing-bins", "plug-in-bins", "Appendix G",
          "bins that a plug-in bound of at most 1.5% allows", "in range", 15,
          dataset=CIFAR10),
    Claim("choosing-bins", "mse", "Appendix G",
          "the mean squared error that the plug-in bound costs", "in range", 0.13,
          dataset=CIFAR10, unit="%"),
)  # fmt: skip

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
}
SPLITS = (
    "A claim that the paper makes from one random split of the data is judged in several splits, "
    "each by its own interval. It agrees, disagrees or is undecided if at least nine splits in ten "
    "are, else it varies with the split; fewer than ten splits do not disagree. The first split of "
    "the paper's own files is that of the authors' scripts. The number shown is the median over "
    "the splits, the interval holds nine in ten of them"
)
HOW_JUDGED = (*RULES.items(), ("splits", SPLITS))
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
    if claim.rule == "in range":
        ours = finding.estimate
        inside = ours.low - claim.rounding <= claim.value <= ours.high + claim.rounding
        return "agree" if inside else _unless_few("disagree", finding)
    if claim.rule == "number":
        away = abs(finding.estimate.value - claim.value)
        return "agree" if away <= _slack(claim, finding) else "disagree"
    verdicts = [_beyond_bound(claim, split) for split in finding.splits or (finding.estimate,)]
    verdict, most = Counter(verdicts).most_common(1)[0]
    return _unless_few(verdict, finding) if most >= ENOUGH * len(verdicts) else "varies"


def _unless_few(verdict: Verdict, finding: Finding) -> Verdict:
    """Return the verdict, but no disagreement from a handful of splits."""
    few = 0 < len(finding.splits) < FEWEST_SPLITS
    return "undecided" if few and verdict == "disagree" else verdict


def _beyond_bound(claim: Claim, ours: Estimate) -> Verdict:
    """Return on which side of an inequality's bound an interval lies."""
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
        authors = f", {show(finding.splits[0].value, claim.unit)} in the authors'"
        return f"{verdict}, at least that in {held}{authors if with_authors else ''}"
    verdicts = [_beyond_bound(claim, split) for split in finding.splits]
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
        split.value >= claim.value
        if claim.rule in ONE_NUMBER
        else _beyond_bound(claim, split) == "agree"
        for split in finding.splits
    )
    return f"{held} of {len(finding.splits)}"


def _slack(claim: Claim, finding: Finding) -> float:
    """Return by how much a number may differ from the paper's."""
    ours, paper = finding.estimate.se, claim.se
    if paper is None:
        paper = ours * math.sqrt(finding.repeats / claim.repeats) if claim.repeats else 0.0
    return 1.96 * math.hypot(ours, paper) + claim.rounding


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
    """Return the findings of a result that the paper does not mention."""
    return [
        Line(result.study, "", finding.statement, "", *_ours(finding, finding.unit),
             "beyond the paper", "", "beyond the paper", finding.note)
        for finding in result.output.findings
        if finding.statement and not any(_speaks_of(c, result, finding.key) for c in CLAIMS)
    ]  # fmt: skip


def lines_of(result: StudyResult) -> list[Line]:
    """Return the claims that a result checks, then its other findings."""
    lines = [_claim_line(claim, [result]) for claim in CLAIMS]
    return [line for line in lines if line.verdict != NOT_RUN] + other_lines(result)


def _speaks_of(claim: Claim, result: StudyResult, key: str) -> bool:
    dataset = result.data and result.data["dataset"]
    return (claim.study, claim.key) == (result.study, key) and claim.dataset in (None, dataset)


def _claim_line(claim: Claim, results: Sequence[StudyResult]) -> Line:
    dataset = {CIFAR10: "CIFAR-10: ", IMAGENET: "ImageNet: "}.get(claim.dataset or "", "")
    head = (claim.study, claim.source, f"{dataset}{claim.statement}", claim.paper)
    for result in results:
        for finding in result.output.findings:
            if _speaks_of(claim, result, finding.key):
                verdict, held = judge(claim, finding), splits_held(claim, finding)
                ours = _ours(finding, claim.unit)
                return Line(*head, *ours, verdict, held, worded(claim, finding), finding.note)
    why = f"without {claim.missing}" if claim.missing else f"until {claim.study} has run"
    return Line(*head, "", "", NOT_RUN, "", NOT_RUN, why)


def _ours(finding: Finding, unit: str) -> tuple[str, str]:
    ours = finding.estimate
    interval = f"{show(ours.low, unit)} to {show(ours.high, unit)}"
    return show(ours.value, unit), interval if finding.repeats else "exact"


def tally(lines: Sequence[Line]) -> str:
    """Return how many claims have each verdict, in words."""
    verdicts: tuple[Verdict, ...] = ("agree", "disagree", "varies", "undecided", NOT_RUN)
    names: dict[Verdict, str] = {"varies": "vary with the split", "undecided": "are undecided"}
    counts = Counter(line.verdict for line in lines)
    return ", ".join(f"{counts[x]} {names.get(x, x)}" for x in verdicts if counts[x])
