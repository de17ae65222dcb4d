"""Mean scores of forecasts with intervals, their parts, and skill against a reference.

**Mean scores** are skewed: most rows cost little, a few much. Student's limits of their mean
covered 80% to 90% at a nominal 95% in simulation. The interval is Hall's (1992, On the removal of
skewness by transformation): Student's t of the mean, T, with c the skewness of the mean, is
replaced by ((1 + c T / 3)^3 - 1) / c + c / 6, which has less skewness, rises in T and is inverted
exactly.

**Skill.** With s and r the scores of a row by the forecast and by its reference, and S and R their
means, the skill is ``1 - S / R``: 1 is perfect, 0 is the reference, below 0 is worse. All skills t
for which the mean of ``s - (1 - t) r`` is within Student's limits of 0 make the interval (Fieller,
1954); rows are paired, so what both scores owe to the outcome cancels. The base rate of the very
rows minimises R, so that it was estimated matters only in the second order.

Where so few rows decide R that Student's limits of it reach 0, Fieller's set has no end. There the
interval is that of log(S / R), by the delta method, with Student's quantile of as many degrees of
freedom as rows of equal influence have: wide, and finite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from calibrant._options import check_flag
from calibrant._results import NumberResult
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import EmptyInputError, InvalidInputError
from calibrant.stats.estimators import ClassWeight, cells_of, class_weights, raw_error
from calibrant.stats.influences import few_rows_notes
from calibrant.stats.intervals import ConfidenceInterval, check_level
from calibrant.table import BinTable

ScoreRule: TypeAlias = Literal["brier", "log"]
Rule: TypeAlias = Literal["brier", "log", "rps"]

FEWEST_FOR_SKILL = 20
"""Rows that the interval needs to rest on. In 24 simulated settings (50 to 400 rows, base rates of
0.03 to 0.5, both references) nominal 95% intervals that rest on 20 covered 93.9% or more, those on
fewer down to 88.8%."""
LONGEST_REACH = 700.0
"""Of the log of a ratio: the exponential of more overflows."""

RULES: dict[Rule, str] = {
    "brier": "Brier score",
    "log": "log loss",
    "rps": "ranked probability score",
}


@dataclass(frozen=True, eq=False, repr=False)
class MeanScore(NumberResult):
    """A mean score over rows; lower is better.

    Attributes
    ----------
    name : str
        The score.
    value : float
        Its mean; ``float(score)`` gives it too.
    standard_error : float
        Of the mean, for independent rows; NaN of a single row.
    n : int
        Rows.
    skewness : float
        Of the mean: that of the scores, over the root of n.
    per_level : dict
        Of quantiles, the mean loss at each level.
    sharpness : dict
        Of quantiles, the mean width of each central interval, by what it is to hold.
    """

    name: str
    value: float
    standard_error: float
    n: int
    skewness: float = 0.0
    per_level: dict[float, float] = field(default_factory=dict)
    sharpness: dict[float, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        scores: FloatArray,
        weights: FloatArray | None = None,
        per_level: dict[float, float] | None = None,
        sharpness: dict[float, float] | None = None,
    ) -> Self:
        """Return the mean of the scores of rows, and its standard error."""
        w = np.ones(scores.size) if weights is None else weights / weights.max()
        total, rows, spread, skewness = float(w.sum()), int((w > 0).sum()), math.nan, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(scores @ w / total)
            if rows > 1:
                deviations = w * (scores - mean)
                square = float(deviations @ deviations)
                spread = math.sqrt(square * rows / (rows - 1)) / total
                skewness = float(np.sum((deviations / (math.sqrt(square) or 1.0)) ** 3))
        if not math.isfinite(mean) or math.isinf(spread) or (rows > 1 and math.isnan(spread)):
            raise InvalidInputError(
                f"The {name} of these rows is beyond what a float holds: outcomes and forecasts "
                "must be of sizes that can be squared. Give them in a larger unit."
            )
        return cls(name, mean, spread, rows, skewness, per_level or {}, sharpness or {})

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return Student's interval of the mean, corrected for its skewness; asymptotic.

        Its `notes` say where fewer than ten rows decide it, or would lie beyond the outermost
        levels: it was found to cover as promised where more do (docs/coverage.md).
        """
        check_level(confidence_level)
        t = float(special.stdtrit(max(self.n - 1, 1), (1 + confidence_level) / 2))
        below, above = max(self._unskewed(t), 0.0), max(-self._unskewed(-t), 0.0)
        tails = [min(level, 1 - level) for level in self.per_level]
        rows = min(1 / (self.skewness**2 + 1 / self.n), 2 * self.n * min(tails, default=1.0))
        notes = few_rows_notes(rows)
        low, high = (
            self.value - below * self.standard_error,
            self.value + above * self.standard_error,
        )
        return ConfidenceInterval(low, high, float(confidence_level), "hall", notes)

    def _unskewed(self, t: float) -> float:
        """Return the Student's t that the transformation maps to this value."""
        c = self.skewness  # next to 0 the cube root cancels; the limit is t
        return 3 * (float(np.cbrt(1 + c * (t - c / 6))) - 1) / c if abs(c) > 1e-6 else t

    def _measure(self) -> str:
        return self.name

    def __str__(self) -> str:
        error = f" (standard error {self.standard_error:.4f})" if self.n > 1 else ""
        lines = [f"{self.name} = {self.value:.4f}{error}, n = {self.n:,}"]
        lines += [f"  level {level:g}: {loss:.4f}" for level, loss in self.per_level.items()]
        lines += [
            f"  {100 * nominal:g}% intervals are {width:.4g} wide on average"
            for nominal, width in self.sharpness.items()
        ]
        lines += [f"  {note}" for note in self.confidence_interval().notes]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class ScoreDecomposition(NumberResult):
    """A mean score = miscalibration - discrimination + uncertainty, adding up exactly.

    Attributes
    ----------
    rule : {"brier", "log"}
    value : float
        Mean of (y - p)^2, or of -log of the probability given to what happened; for marginal
        problems the weighted mean over classes. ``float(parts)`` gives it too.
    miscalibration : float
        What a recalibrated model would gain; 0 is best. In bins it is the squared l2 calibration
        error. An isotonic curve is fitted to the rows it is scored on: a calibrated model has a
        little of it too, of order n^(-2/3).
    discrimination : float
        How much better than the base rate the recalibrated model would score; more is better.
        In bins, less what predictions that vary inside bins lose (the generalised resolution of
        Stephenson et al., 2008).
    uncertainty : float
        The score of always predicting the base rate.
    is_debiased : bool
        Whether the three terms are corrected for bias (Ferro and Fricker, 2012); their sum is not
        changed by that, and single terms may be negative.
    """

    rule: ScoreRule
    value: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    is_debiased: bool = False

    def _measure(self) -> str:
        return f"{self.rule} score"

    def _summary(self) -> str:
        return (
            f"{'Brier' if self.rule == 'brier' else 'log score'} {self.value:.4f} = "
            f"miscalibration {self.miscalibration:.4f} - discrimination "
            f"{self.discrimination:.4f} + uncertainty {self.uncertainty:.4f}"
        )


def brier_decomposition(
    table: BinTable, *, debias: bool = False, class_weight: ClassWeight = None
) -> ScoreDecomposition:
    """Decompose the Brier score of a table: miscalibration - discrimination + uncertainty.

    With ``debias=True`` the terms are corrected for bias: miscalibration becomes the debiased
    square (bins of one row count as 0 there), uncertainty is multiplied by n / (n - 1), and
    discrimination keeps the sum. The parameters are those of `calibrant.brier_decomposition`.
    """
    weights = class_weights(class_weight, table.problem)
    cells = cells_of(table)
    check_flag("debias", debias)
    total = table.sum_w.sum(axis=-1)
    brier = float((table.sum_y - 2 * table.sum_py + table.sum_pp).sum(axis=-1) / total @ weights)
    base = table.sum_y.sum(axis=-1) / total
    n = total**2 / table.sum_ww.sum(axis=-1)
    correction = n / np.maximum(n - 1, 1) if debias else 1.0
    uncertainty = float(base * (1 - base) * correction @ weights)
    miscalibration = float(raw_error(cells, weights, 2.0, debias))
    parts = miscalibration, miscalibration + uncertainty - brier, uncertainty
    return ScoreDecomposition("brier", brier, *parts, bool(debias))


@dataclass(frozen=True, eq=False, repr=False)
class SkillScore(NumberResult):
    """How much better than its reference a forecast scores: ``1 - score / reference_score``.

    Attributes
    ----------
    value : float
        1 is perfect, 0 is as good as the reference, below 0 is worse; ``float(skill)`` gives it.
    rule : {"brier", "log", "rps"}
    score, reference_score : float
        The mean scores of both; lower is better.
    reference : str
        "climatology", "a constant" or "another model".
    n : int
        Rows.
    n_clusters : int or None
        How many clusters the rows come in, where they do.
    variances : tuple of float
        Variances of the two mean scores, and their covariance between the two.
    influential : float
        How many rows, or clusters, of equal influence would spread the skill as these do.
    """

    value: float
    rule: Rule
    score: float
    reference_score: float
    reference: str
    n: int
    n_clusters: int | None
    variances: tuple[float, float, float]
    influential: float

    def _measure(self) -> str:
        return f"{RULES[self.rule]} skill against {self.reference}"

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return Fieller's interval for the skill of the forecast in the population.

        It holds the estimate. Its `notes` say where fewer than twenty rows decide it: it was found
        to cover as promised where more do (docs/coverage.md). Where so few decide it that Fieller's
        has no end, that of the log of the ratio takes its place; `method` says which it is.
        """
        check_level(confidence_level)
        if not math.isfinite(self.score):
            note = "it gave 0 to what happened, which no other row makes up for"
            return ConfidenceInterval(-math.inf, -math.inf, confidence_level, "exact", (note,))
        units = self.n if self.n_clusters is None else self.n_clusters
        square = float(special.stdtrit(units - 1, (1 + confidence_level) / 2)) ** 2
        var_s, covariance, var_r = self.variances
        s, r = self.score, self.reference_score
        a, b, c = r * r - square * var_r, s * r - square * covariance, s * s - square * var_s
        if a > 0:
            half = math.sqrt(max(b * b - a * c, 0.0))
            method, low, high = "fieller", 1 - (b + half) / a, min(1 - (b - half) / a, 1.0)
        else:
            method, (low, high) = "log ratio", self._log_ratio_limits(confidence_level)
        notes = few_rows_notes(self.influential, FEWEST_FOR_SKILL)
        low, high = min(low, self.value), max(high, self.value)
        return ConfidenceInterval(low, high, confidence_level, method, notes)

    def _log_ratio_limits(self, confidence_level: float) -> tuple[float, float]:
        """Return limits from a normal log(S / R): finite however little is known of R."""
        var_s, covariance, var_r = self.variances
        ratio = 1 - self.value
        if ratio == 0:
            return self.value, self.value
        variance = max(var_s - 2 * ratio * covariance + ratio**2 * var_r, 0.0)
        freedom = max(self.influential - 1, 1.0)
        t = float(special.stdtrit(freedom, (1 + confidence_level) / 2))
        reach = t * math.sqrt(variance) / (ratio * self.reference_score)
        factor = math.exp(min(reach, LONGEST_REACH))
        return 1 - ratio * factor, 1 - ratio / factor

    def __str__(self) -> str:
        interval = self.confidence_interval()
        clusters = f" in {self.n_clusters:,} clusters" if self.n_clusters else ""
        lines = [
            f"{RULES[self.rule]} skill = {self.value:.4f} {interval}",
            *interval.notes,
            f"{self.score:.5f} against {self.reference_score:.5f} of {self.reference}, "
            f"n = {self.n:,}{clusters}",
        ]
        return "\n  ".join(lines)

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return plain values that JSON can hold, the interval included."""
        return {
            **super().to_dict(),
            "confidence_interval": self.confidence_interval(confidence_level).to_dict(),
        }


def row_scores(rule: Rule, y: FloatArray, p: FloatArray) -> FloatArray:
    """Return the score of each row; of several classes y has a column each, with one 1 in a row.

    The Brier score of several classes is summed over them, and the ranked probability score over
    the events "this class or one before". Nothing is clipped: a probability of 0 for what happened
    has an infinite log loss.

    >>> row_scores("rps", np.array([[0.0, 1, 0]]), np.array([[0.2, 0.5, 0.3]])).round(3)
    array([0.13])
    """
    if rule == "log":
        with np.errstate(divide="ignore"):
            chance = np.abs(y + p - 1) if y.ndim == 1 else (y * p).sum(axis=1)
            return np.asarray(-np.log(chance))
    if y.ndim == 1:
        return np.asarray((y - p) ** 2)
    gaps = np.cumsum(p - y, axis=1)[:, :-1] if rule == "rps" else p - y
    return np.asarray(np.einsum("ij,ij->i", gaps, gaps))


def skill_score(
    own: FloatArray,
    other: FloatArray,
    *,
    rule: Rule = "brier",
    reference: str = "another model",
    weights: FloatArray | None = None,
    clusters: IntArray | None = None,
) -> SkillScore:
    """Return the skill of scores against those of a reference, row by row.

    Parameters
    ----------
    own, other : ndarray of shape (n,)
        The score of each row by the forecast and by the reference.
    rule, reference : str
        What they are called when the result is printed.
    weights : ndarray of shape (n,), optional
        Importance of each row.
    clusters : ndarray of shape (n,), optional
        The number of each row's cluster; rows of one may depend on each other.
    """
    w = np.ones(own.size) if weights is None else weights / weights.mean()
    units = int(np.count_nonzero(w)) if clusters is None else int(np.unique(clusters).size)
    if units < 2:
        raise EmptyInputError(
            f"The interval of a skill needs at least 2 rows, or clusters; got {units}."
        )
    total = float(w.sum())
    s, r = float(w @ own) / total, float(w @ other) / total
    if not 0 < r < math.inf:
        why = "all outcomes are the same" if r == 0 else "it gave 0 to what happened"
        raise InvalidInputError(
            f"A skill needs a reference whose mean score is above 0 and finite; this one scores "
            f"{r:g}: {why}. Use rows with other outcomes, or another reference."
        )
    value = 1 - s / r
    if not math.isfinite(s):
        nothing = (math.inf, math.inf, math.inf)
        return SkillScore(value, rule, s, r, reference, own.size, None, nothing, 0.0)
    terms = [w * (own - s), w * (other - r)]
    if clusters is not None:
        codes = np.unique(clusters, return_inverse=True)[1]
        terms = [np.bincount(codes, term) for term in terms]
    scale = units / (units - 1) / total**2
    a, b = terms
    pairs = ((a, a), (a, b), (b, b))
    variance, covariance, variance_other = (float(np.einsum("i,i->", *x)) * scale for x in pairs)
    h = (a - (1 - value) * b) ** 2
    influential = float(h.sum() ** 2 / (h**2).sum()) if (h > 0).any() else 0.0
    return SkillScore(
        value=value,
        rule=rule,
        score=s,
        reference_score=r,
        reference=reference,
        n=own.size,
        n_clusters=None if clusters is None else units,
        variances=(variance, covariance, variance_other),
        influential=influential,
    )
