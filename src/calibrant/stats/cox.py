"""Cox's test: the logistic fit of events on predicted logits, against intercept 0 and slope 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.intervals import ConfidenceInterval, check_level
from calibrant.stats.null_hypothesis import Atoms, CalibrationTestResult, is_contradicted


@dataclass(frozen=True, repr=False)
class CoxTestResult(CalibrationTestResult):
    """Cox's test, with the logistic fit ``logit P(Y = 1) = intercept + slope logit(p)``.

    Attributes
    ----------
    intercept, slope : float
        0 and 1 for a calibrated model; a slope below 1 means overconfidence. Infinite or NaN
        where the rows do not determine them.
    intercept_error, slope_error : float
        Their standard errors.
    in_the_large, in_the_large_error : float
        Calibration in the large: the intercept when the slope is held at 1, and its standard error.
    is_separated : bool
        Whether some threshold separates events from non-events (or all labels agree), so that
        no finite fit is best. The likelihood ratio and its p-value are defined all the same.
    """

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    in_the_large: float
    in_the_large_error: float
    is_separated: bool

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        of: Literal["intercept", "slope", "in_the_large"] = "slope",
    ) -> ConfidenceInterval:
        """Return the Wald interval: estimate -+ z standard errors; unbounded where undefined."""
        check_level(confidence_level)
        if of not in ("intercept", "slope", "in_the_large"):
            raise InvalidArgumentError(
                f'of must be "intercept", "slope" or "in_the_large"; got {of!r}.'
            )
        value, error = getattr(self, of), getattr(self, f"{of}_error")
        if not math.isfinite(value) or not math.isfinite(error):
            return ConfidenceInterval(-math.inf, math.inf, confidence_level, "wald")
        reach = float(special.ndtri((1 + confidence_level) / 2)) * error
        return ConfidenceInterval(value - reach, value + reach, confidence_level, "wald")

    def __str__(self) -> str:
        fit = f"intercept {self.intercept:.4g}, slope {self.slope:.4g}"
        return super().__str__() + f" ({fit}{', separated' if self.is_separated else ''})"


@dataclass(frozen=True)
class LogisticFit:
    """The best fit of ``logit P(Y = 1) = intercept + slope logit(p)`` and its standard errors."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    log_likelihood: float
    is_separated: bool = False


def fit_logistic(atoms: Atoms) -> LogisticFit:
    """Fit intercept and slope by maximum likelihood to predictions inside (0, 1).

    Rows that a threshold separates have no finite best fit, and one distinct prediction none that
    is unique: both are recognised beforehand, and the supremum of the likelihood is returned.

    >>> y, p = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.6, 0.4, 0.8])
    >>> round(fit_logistic(Atoms.of(y, p)).slope, 4)
    1.1018
    >>> fit_logistic(Atoms.of(y, np.sort(p))).slope
    inf
    """
    x, events, misses = special.logit(atoms.p), atoms.events, atoms.count - atoms.events
    hits, fails = np.flatnonzero(events), np.flatnonzero(misses)
    if hits.size == 0 or fails.size == 0:
        side = math.inf if hits.size else -math.inf
        return LogisticFit(side, math.nan, math.inf, math.nan, 0.0, is_separated=True)
    up, down = fails[-1] <= hits[0], hits[-1] <= fails[0]
    if up or down:
        shared = np.intersect1d(hits, fails)
        rate = events[shared] / atoms.count[shared]
        entropy = special.xlogy(events[shared], rate) + special.xlog1py(misses[shared], -rate)
        slope = math.nan if up and down else math.inf if up else -math.inf
        is_separated = not (up and down)
        return LogisticFit(math.nan, slope, math.nan, math.nan, float(entropy.sum()), is_separated)
    return _newton(x, events, atoms.count)


def _newton(x: FloatArray, events: FloatArray, count: FloatArray) -> LogisticFit:
    """Maximise the strictly concave log-likelihood; a step that does not raise it is halved.

    From slope 0 and the overall event rate, where no weight vanishes, on a standardised scale.
    """
    centre = float(np.average(x, weights=count))
    scale = math.sqrt(float(np.average((x - centre) ** 2, weights=count)))
    design = np.stack([np.ones_like(x), (x - centre) / scale])

    def loss(theta: FloatArray) -> float:
        score = theta @ design
        return float(np.sum(count * np.logaddexp(0.0, score) - events * score))

    theta = np.array([float(special.logit(events.sum() / count.sum())), 0.0])
    value = loss(theta)
    for _ in range(200):
        rate = special.expit(theta @ design)
        step = np.linalg.solve(_information(design, count, rate), design @ (events - count * rate))
        while (lower := loss(theta + step)) > value and np.abs(step).max() > 1e-14:
            step = step / 2
        if lower > value:
            break
        theta, value = theta + step, lower
        if np.abs(step).max() < 1e-11:
            break
    rate = special.expit(theta @ design)
    covariance = np.linalg.inv(_information(design, count, rate))
    back = np.array([[1.0, -centre / scale], [0.0, 1 / scale]])
    (intercept, slope), errors = back @ theta, np.sqrt(np.diag(back @ covariance @ back.T))
    return LogisticFit(float(intercept), float(slope), float(errors[0]), float(errors[1]), -value)


def _information(design: FloatArray, count: FloatArray, rate: FloatArray) -> FloatArray:
    information = (design * (count * rate * (1 - rate))) @ design.T
    return np.asarray(information + 1e-14 * np.trace(information) * np.eye(2))


def _in_the_large(atoms: Atoms) -> tuple[float, float]:
    """Return the intercept a with sum expit(a + logit p) = sum y, and its standard error."""
    x, total, n = special.logit(atoms.p), float(atoms.events.sum()), atoms.n
    if total in (0, n):
        return math.copysign(math.inf, total - 0.5), math.inf
    level = float(special.logit(total / n))
    low, high = level - float(x[-1]), level - float(x[0])
    a = min(max(0.0, low), high)
    for _ in range(200):
        rate = special.expit(a + x)
        excess = float(np.sum(atoms.count * rate)) - total
        information = float(np.sum(atoms.count * rate * (1 - rate)))
        low, high = (low, min(high, a)) if excess > 0 else (max(low, a), high)
        newton = a - excess / information if information > 0 else math.inf
        moved = newton if low < newton < high else (low + high) / 2
        if abs(moved - a) <= 1e-13 * max(1.0, abs(a)):
            break
        a = moved
    return a, 1 / math.sqrt(information) if information > 0 else math.inf


def cox_test(atoms: Atoms) -> CoxTestResult:
    """Test intercept 0 and slope 1 by the likelihood ratio, chi-square with two degrees.

    Predictions of 0 and 1 have no finite logit. Where they agree with the labels they do not
    change the likelihood and are left out; where they do not, the p-value is 0.
    """
    inside = (atoms.p > 0) & (atoms.p < 1)
    rest = Atoms(atoms.p[inside], atoms.count[inside], atoms.events[inside])
    if inside.any():
        fit, (large, large_error) = fit_logistic(rest), _in_the_large(rest)
        misses = rest.count - rest.events
        null = special.xlogy(rest.events, rest.p) + special.xlog1py(misses, -rest.p)
        ratio = max(2 * (fit.log_likelihood - float(null.sum())), 0.0)
    else:
        fit = LogisticFit(math.nan, math.nan, math.nan, math.nan, math.nan)
        large = large_error = math.nan
        ratio = 0.0
    ratio = math.inf if is_contradicted(atoms) else ratio
    degrees = min(2, rest.p.size)
    return CoxTestResult(
        ratio,
        float(special.chdtrc(degrees, ratio)) if degrees else float(ratio == 0),
        "cox",
        atoms.n,
        fit.intercept,
        fit.slope,
        fit.intercept_error,
        fit.slope_error,
        large,
        large_error,
        fit.is_separated,
    )
