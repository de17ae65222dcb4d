"""The isotonic reliability curve, which needs no choice of bins.

It splits a score into three parts that add up (CORP; Dimitriadis, Gneiting, Jordan, 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._results import Result
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.problem import Label
from calibrant.stats.curves import group_of
from calibrant.stats.estimators import cells_of
from calibrant.stats.scores import ScoreDecomposition, ScoreRule
from calibrant.table import BinTable

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
    score, best, uncertainty = (
        float(weight @ mean_scores(rule, rate, p)) for p in (prediction, fitted, base)
    )
    return ScoreDecomposition(
        rule, score, max(score - best, 0.0), max(uncertainty - best, 0.0), uncertainty
    )


def mean_scores(rule: ScoreRule, rate: FloatArray, p: FloatArray) -> FloatArray:
    """Mean score of predicting p where a share `rate` of the labels is 1."""
    if rule == "brier":
        return np.asarray((rate - p) ** 2 + rate * (1 - rate))
    return np.asarray(-special.xlogy(rate, p) - special.xlog1py(1 - rate, -p))
