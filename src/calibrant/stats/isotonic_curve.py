"""Two companions of the reliability curve: the isotonic curve, and consistency limits.

The isotonic curve needs no choice of bins and splits a score into three parts that add up
(CORP; Dimitriadis, Gneiting, Jordan, 2021). Consistency limits say where event rates would lie
if the predictions were calibrated (Broecker, Smith, 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy import special

from calibrant._json import plain
from calibrant._options import check_flag
from calibrant._read_only import ReadOnlyArrays
from calibrant._types import FloatArray
from calibrant.problem import Label
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import Limits, check_level
from calibrant.stats.measures import group_of
from calibrant.table import BinTable

ScoreRule: TypeAlias = Literal["brier", "log"]

LARGE = 2.0**52
"""Multiplied by it, neighbouring scores next to 0 have a slope between them that is finite; a power
of two changes no other answer."""


@dataclass(frozen=True)
class ScoreDecomposition:
    """A mean score = miscalibration - discrimination + uncertainty.

    Attributes
    ----------
    rule : {"brier", "log"}
    score : float
        Mean of (y - p)^2, or of -log of the probability given to what happened.
    miscalibration : float
        What the isotonic fit gains over the predictions: never negative. It is fitted to the
        rows it is scored on, so a calibrated model has a little of it too, of order n^(-2/3).
    discrimination : float
        What the isotonic fit gains over always predicting the base rate: never negative.
    uncertainty : float
        The score of always predicting the base rate.
    """

    rule: ScoreRule
    score: float
    miscalibration: float
    discrimination: float
    uncertainty: float

    def __str__(self) -> str:
        return (
            f"{self.rule} {self.score:.4f} = miscalibration {self.miscalibration:.4f} "
            f"- discrimination {self.discrimination:.4f} + uncertainty {self.uncertainty:.4f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; an infinite log score is None."""
        return dict(plain(vars(self)))


@dataclass(frozen=True, eq=False)
class IsotonicCurve(ReadOnlyArrays):
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
    brier 0.1705 = miscalibration 0.0372 - discrimination 0.1167 + uncertainty 0.2500
    """
    group = group_of(table, class_label)
    used = np.flatnonzero(table.sum_w[group])
    weight = table.sum_w[group, used] / table.sum_w[group, used].sum()
    level = table.level[group, used]
    cells = cells_of(table)
    rate = np.clip(cells.rate[group, used], 0.0, 1.0)
    mean = np.clip(cells.mean[group, used], 0.0, 1.0)
    prediction = np.where(np.isnan(level), mean, level)
    fitted = _pool(rate, weight)
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


def consistency_limits(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool = False,
    class_label: Label | None = None,
) -> Limits:
    """Return the limits between which event rates would lie if the predictions were calibrated.

    Quantiles of Bin(N_j, s_j) / N_j in each occupied bin, where s_j is the mean prediction: exact
    in bins of one distinct prediction, and a little wide in others, where the number of events
    varies less than a binomial one does (Hoeffding, 1956). The parameters are those of
    `reliability_curve`, whose occupied bins these are; with sample weights N_j is the effective
    number of rows, rounded down.

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> table = tabulate([0, 1] * 50, [0.5] * 100, bins=Distinct())
    >>> consistency_limits(table)
    (array([0.4]), array([0.6]))
    """
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    group = group_of(table, class_label)
    used = np.flatnonzero(table.count[group])
    tail = (1 - confidence_level) / 2
    if simultaneous:
        tail = -np.expm1(np.log(confidence_level) / used.size) / 2
    cells = cells_of(table)
    size = np.maximum(np.floor(cells.size[group, used] * (1 + 1e-12)), 1.0)
    mean = np.clip(cells.mean[group, used], 0.0, 1.0)
    misses = _binomial_quantile(tail, size, 1 - mean)
    return _binomial_quantile(tail, size, mean) / size, 1 - misses / size


def _binomial_quantile(chance: float, size: FloatArray, p: FloatArray) -> FloatArray:
    """Return the least k with P(Bin(size, p) <= k) >= chance."""
    inner = np.clip(p, 1e-300, 1 - 1e-16)
    k = np.clip(np.ceil(np.nan_to_num(special.bdtrik(chance, size, inner))), 0.0, size)
    below = np.maximum(k - 1, 0.0)
    k = np.where(special.betainc(size - below, below + 1, 1 - inner) >= chance, below, k)
    return np.where(p <= 0, 0.0, np.where(p >= 1, size, k))


def _pool(rate: FloatArray, weight: FloatArray) -> FloatArray:
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
    score, best, uncertainty = (
        float(weight @ _score(rule, rate, p)) for p in (prediction, fitted, base)
    )
    return ScoreDecomposition(
        rule, score, max(score - best, 0.0), max(uncertainty - best, 0.0), uncertainty
    )


def _score(rule: ScoreRule, rate: FloatArray, p: FloatArray) -> FloatArray:
    """Mean score of predicting p where a share `rate` of the labels is 1."""
    if rule == "brier":
        return np.asarray((rate - p) ** 2 + rate * (1 - rate))
    return np.asarray(-special.xlogy(rate, p) - special.xlog1py(1 - rate, -p))
