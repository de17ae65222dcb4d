"""The isotonic reliability curve, which needs no choice of bins, and the parts of a score by it.

It splits a score into three parts that add up (CORP; Dimitriadis, Gneiting, Jordan, 2021).

**Intervals of the parts.** The curve is fitted to the rows it is scored on, so its mean score C is
too low by an optimism of order n^(-2/3), and miscalibration and discrimination are too large by the
same. To the first order C varies like the score of the true curve, for it minimises the score; so
the variance of ``S - C`` and ``R - C`` is that of a mean over rows. The optimism is found by
drawing labels from the curve (between the centres of its blocks) and fitting again. Where the true
curve is flat, the fitted one rises by chance and the simulated optimism is up to twice the true
one; therefore the lower limit allows for all of it, and the upper one for half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant._options import check_word
from calibrant._results import Result
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import EmptyInputError, InvalidWeightsError
from calibrant.problem import Label
from calibrant.stats.curves import group_of
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import ConfidenceInterval, check_level, clopper_pearson
from calibrant.stats.scores import ScoreDecomposition, ScoreRule
from calibrant.table import BinTable

Part: TypeAlias = Literal["miscalibration", "discrimination", "uncertainty"]

PARTS: tuple[Part, ...] = get_args(Part)
DRAWS = 40
"""Of labels, to find the optimism: its mean is then known to a sixth of its spread. Affects the
interval by less than its rounding; more only cost time."""
LARGE = 2.0**52
"""Multiplied by it, neighbouring scores next to 0 have a slope between them that is finite; a power
of two changes no other answer."""


@dataclass(frozen=True, eq=False, repr=False)
class IsotonicCurve(Result):
    """The non-decreasing event rate that fits best, and what it says about two scores.

    Attributes
    ----------
    prediction : ndarray
        Distinct predictions in rising order, or the mean of each bin that mixes several.
    event_rate : ndarray
        The isotonic estimate of the event rate at each of them.
    count : ndarray
        The rows that made each prediction.
    brier, log : ScoreDecomposition
    is_exact : bool
        Whether every bin of the table held one distinct prediction. If not, curve and scores are
        those of the binned predictions: each replaced by the mean of its bin.
    """

    prediction: FloatArray
    event_rate: FloatArray
    count: FloatArray
    brier: ScoreDecomposition
    log: ScoreDecomposition
    is_exact: bool

    @property
    def corners(self) -> tuple[FloatArray, FloatArray]:
        """The points where the curve bends: both ends of every constant piece."""
        rate = self.event_rate
        change = rate[1:] != rate[:-1]
        first = np.concatenate(([True], change))
        last = np.concatenate((change, [True]))
        return self.prediction[first | last], rate[first | last]

    def __len__(self) -> int:
        return self.prediction.size

    def __str__(self) -> str:
        return f"{self.brier}\n{self.log}"

    def _summary(self) -> str:
        return self.brier._summary()


def isotonic_curve(table: BinTable, *, class_label: Label | None = None) -> IsotonicCurve:
    """Fit the isotonic (CORP) reliability curve of a table, and decompose two scores by it.

    Pooling adjacent violators gives the non-decreasing f^ nearest to the labels. With S the mean
    score of the predictions, C that of f^ and R that of the base rate: miscalibration = S - C,
    discrimination = R - C, uncertainty = R. f^ is best for the Brier and the log score alike, so
    no part is negative. Nothing is clipped: the log score is infinite where a prediction of
    0 or 1 was wrong, and 0 log 0 is 0.

    Parameters
    ----------
    table : BinTable
        Count with ``bins=Distinct()``; other bins give the curve of the binned predictions.
    class_label : label, optional
        Which class of a marginal problem.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), Stable reliability diagrams for probabilistic
    classifiers.

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> curve = isotonic_curve(tabulate([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], z, bins=Distinct()))
    >>> curve.event_rate.round(2)
    array([0.  , 0.  , 0.33, 0.33, 0.33, 0.67, 0.67, 0.67, 1.  , 1.  ])
    >>> print(curve.brier)
    Brier 0.1705 = miscalibration 0.0372 - discrimination 0.1167 + uncertainty 0.2500
    """
    group = group_of(table.problem, class_label)
    used = np.flatnonzero(table.sum_w[group])
    weight = table.sum_w[group, used] / table.sum_w[group, used].sum()
    level = table.level[group, used]
    cells = cells_of(table)
    rate = np.clip(cells.rate[group, used], 0.0, 1.0)
    mean = np.clip(cells.mean[group, used], 0.0, 1.0)
    prediction = np.where(np.isnan(level), mean, level)
    fitted = pooled(rate, weight)
    base = float(table.sum_y[group].sum() / table.sum_w[group].sum())
    columns = (weight, rate, prediction, fitted, np.full_like(rate, min(base, 1.0)))
    return IsotonicCurve(
        prediction=prediction,
        event_rate=fitted,
        count=table.count[group, used],
        brier=_decompose("brier", *columns),
        log=_decompose("log", *columns),
        is_exact=not np.isnan(level).any(),
    )


def interpolate(scores: FloatArray, knots: FloatArray, values: FloatArray) -> FloatArray:
    """Return values between rising knots in [0, 1], also where knots are almost one.

    >>> interpolate(np.array([1e-320]), np.array([0.0, 2e-320]), np.array([0.0, 1.0])).round(2)
    array([0.5])
    """
    return np.interp(LARGE * scores, LARGE * knots, values)


def pooled(rate: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the non-decreasing values nearest to the rates, by pooling adjacent violators."""
    from scipy.optimize import isotonic_regression

    return np.clip(isotonic_regression(rate, weights=weight).x, 0.0, 1.0)


def _decompose(
    rule: ScoreRule,
    weight: FloatArray,
    rate: FloatArray,
    prediction: FloatArray,
    fitted: FloatArray,
    base: FloatArray,
) -> ScoreDecomposition:
    means = (float(weight @ mean_scores(rule, rate, p)) for p in (prediction, fitted, base))
    score, best, uncertainty = means
    parts = max(score - best, 0.0), max(uncertainty - best, 0.0), uncertainty
    return ScoreDecomposition(rule, score, *parts)


def mean_scores(rule: ScoreRule, rate: FloatArray, p: FloatArray) -> FloatArray:
    """Mean score of predicting p where a share `rate` of the labels is 1."""
    if rule == "brier":
        return np.asarray((rate - p) ** 2 + rate * (1 - rate))
    return np.asarray(-special.xlogy(rate, p) - special.xlog1py(1 - rate, -p))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorpDecomposition(ScoreDecomposition):
    """A score split by its isotonic curve; see `calibrant.stats.isotonic_curve`.

    Attributes
    ----------
    rule, value, miscalibration, discrimination, uncertainty, is_debiased
        As in `ScoreDecomposition`.
    prediction, count, event_rate, curve : ndarray
        Distinct predictions, their rows, observed event rate and isotonic event rate.
    """

    prediction: FloatArray
    count: FloatArray
    event_rate: FloatArray
    curve: FloatArray

    def confidence_interval(
        self, part: Part = "miscalibration", confidence_level: float = 0.95
    ) -> ConfidenceInterval:
        """Return an interval for a part of the decomposition in the population.

        There, with q the true event rate given the prediction p, if it rises with p: of the
        Brier score, miscalibration is the mean of (p - q)^2, discrimination the variance of q, and
        uncertainty that of the outcome. The interval may lie below the estimate, which
        overfits; see `calibrant.stats.isotonic_curves`, and docs/coverage.md for its coverage.

        Parameters
        ----------
        part : {"miscalibration", "discrimination", "uncertainty"}
        confidence_level : float
        """
        check_level(confidence_level)
        check_word("part", part, PARTS)
        if part == "uncertainty":
            return self._uncertainty(confidence_level)
        value = self.miscalibration if part == "miscalibration" else self.discrimination
        if not math.isfinite(value):
            return ConfidenceInterval(math.inf, math.inf, confidence_level, "corp")
        base = np.full_like(self.curve, (self.count @ self.event_rate) / self.count.sum())
        first = self.prediction if part == "miscalibration" else base
        optimism, spread = self._optimism
        margin = float(special.ndtri((1 + confidence_level) / 2)) * math.hypot(
            self._standard_error(first), spread
        )
        low, high = value - optimism - margin, value - optimism / 2 + margin
        return ConfidenceInterval(max(low, 0.0), max(high, 0.0), confidence_level, "corp")

    def _uncertainty(self, confidence_level: float) -> ConfidenceInterval:
        """Return the exact interval: that of the event rate, carried over."""
        n, events = self.count.sum(), self.count @ self.event_rate
        low, high = clopper_pearson(events, n, 1 - confidence_level)
        rates = np.array([low, high, np.clip(0.5, low, high)])  # the score is largest at 1/2
        values = mean_scores(self.rule, rates, rates)
        ends = float(values.min()), float(values.max())
        return ConfidenceInterval(*ends, confidence_level, "clopper-pearson")

    def _standard_error(self, first: FloatArray) -> float:
        """Return the standard error of the mean score of a prediction less that of the curve."""
        n = float(self.count.sum())
        total, square = 0.0, 0.0
        for outcome, share in ((1.0, self.event_rate), (0.0, 1 - self.event_rate)):
            used = share > 0
            happened = np.full(int(used.sum()), outcome)
            scores, curve = (mean_scores(self.rule, happened, p[used]) for p in (first, self.curve))
            weight = self.count[used] * share[used] / n
            total += float(weight @ (scores - curve))
            square += float(weight @ (scores - curve) ** 2)
        return math.sqrt(max(square - total**2, 0.0) / n)

    @cached_property
    def _optimism(self) -> tuple[float, float]:
        """Return how much too low fitted curves score on their own rows, and its spread."""
        n = self.count.sum()
        # labels are drawn from the curve as it is between the centres of its constant pieces
        first = np.flatnonzero(np.concatenate(([True], self.curve[1:] != self.curve[:-1])))
        size = np.add.reduceat(self.count, first)
        centres = np.add.reduceat(self.count * self.prediction, first) / size
        centre = np.interp(self.prediction, centres, self.curve[first])
        # between predictions below 1e-308 the slope overflows
        centre = np.where(np.isfinite(centre), centre, self.curve)
        rng = np.random.default_rng(0)
        optimism = np.empty(DRAWS)
        for draw in range(DRAWS):
            rate = rng.binomial(self.count.astype(np.int64), centre) / self.count
            fitted = pooled(rate, self.count)
            gain = mean_scores(self.rule, rate, centre) - mean_scores(self.rule, rate, fitted)
            optimism[draw] = self.count @ gain / n
        return float(optimism.mean()), float(optimism.std(ddof=1))

    def __str__(self) -> str:
        intervals = (f"{part} {self.confidence_interval(part)}" for part in PARTS)
        return "\n  ".join([super().__str__(), *intervals])

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return plain values that JSON can hold, the intervals included, the curve not."""
        facts = super().to_dict()
        for name in ("prediction", "count", "event_rate", "curve"):
            del facts[name]
        intervals = (self.confidence_interval(part, confidence_level).to_dict() for part in PARTS)
        return {**facts, "confidence_intervals": dict(zip(PARTS, intervals, strict=True))}


def corp_decomposition(
    table: BinTable, *, rule: ScoreRule = "brier", class_label: Label | None = None
) -> CorpDecomposition:
    """Split the Brier score or the log loss by the isotonic curve, with intervals for the parts.

    Parameters
    ----------
    table : BinTable
        Of distinct predictions (``bins="distinct"``), without sample weights.
    rule : {"brier", "log"}
    class_label : label, optional
        Which class of a marginal problem.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), Stable reliability diagrams for probabilistic
    classifiers.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> table = tabulate([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], z, bins="distinct")
    >>> corp_decomposition(table)
    <CorpDecomposition: Brier 0.1705 = miscalibration 0.0372 - discrimination 0.1167 + ...
    """
    check_word("rule", rule, get_args(ScoreRule))
    if table.is_weighted:
        raise InvalidWeightsError(
            "The intervals of this decomposition count rows; this table has sample weights. Count "
            "the rows without them, or use calibrant.stats.isotonic_curve, which has no intervals."
        )
    curve = isotonic_curve(table, class_label=class_label)
    group = group_of(table.problem, class_label)
    used = table.count[group] > 0
    if curve.count.sum() < 2:
        raise EmptyInputError(
            "The intervals of this decomposition need at least 2 rows; got 1. "
            "calibrant.stats.isotonic_curve has the parts without intervals."
        )
    return CorpDecomposition(
        **vars(curve.brier if rule == "brier" else curve.log),
        prediction=curve.prediction,
        count=curve.count,
        event_rate=np.clip(table.sum_y[group, used] / curve.count, 0.0, 1.0),
        curve=curve.event_rate,
    )
