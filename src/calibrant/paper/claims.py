"""What the paper reports: sentences and numbers that a study can check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from calibrant.paper.predictions import CIFAR10, FILES, IMAGENET

Rule: TypeAlias = Literal["number", "above", "below", "in range", "ours"]


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
        How agreement is decided; see `calibrant.paper.verdicts.RULES`.
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
        """What cannot be checked without."""
        return FILES[self.dataset] if self.dataset else ""

    @property
    def paper(self) -> str:
        """The paper's number or inequality, for people."""
        shown = show(self.value, self.unit)
        if self.rule == "number":
            scale, unit = (100, "%") if self.unit == "%" else (1, self.unit)
            return shown if self.se is None else f"{shown} ± {scale * self.se:g}{unit}"
        return {"above": f"> {shown}", "below": f"< {shown}", "in range": shown}.get(self.rule, "")


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
