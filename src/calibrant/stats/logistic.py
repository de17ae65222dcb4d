"""The logistic fit of events on predicted logits: intercept 0 and slope 1 are calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.stats.atoms import Atoms


@dataclass(frozen=True)
class LogisticFit:
    """The best fit of ``logit P(Y = 1) = intercept + slope logit(p)`` and its standard errors."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    log_likelihood: float
    is_separated: bool = False


def logistic_fit(atoms: Atoms) -> LogisticFit:
    """Fit intercept and slope by maximum likelihood to predictions inside (0, 1).

    Rows that a threshold separates have no finite best fit, and one distinct prediction none that
    is unique: both are recognised beforehand, and the supremum of the likelihood is returned.

    >>> y, p = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.6, 0.4, 0.8])
    >>> round(logistic_fit(Atoms.of(y, p)).slope, 4)
    1.1018
    >>> logistic_fit(Atoms.of(y, np.sort(p))).slope
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


def in_the_large(atoms: Atoms) -> tuple[float, float]:
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
