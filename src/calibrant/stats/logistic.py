"""Logistic regression, of events on predicted logits above all: intercept 0, slope 1 if calibrated.

Maximum likelihood has no finite fit where events and non-events are separated, and is biased away
from zero where there are few. Firth (1993) maximises the likelihood times the square root of the
determinant of its information, Jeffreys' prior, which removes the bias of order 1/n and always has
a finite maximum. Its intervals are those of the profiled penalised likelihood (Heinze and Schemper,
2002), which unlike Wald's keep their level there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import optimize, special
from calibrant._types import FloatArray
from calibrant.stats.samples import Atoms

STEPS = 100
"""Newton converges in a few; a coefficient that runs away, `LONGEST_STEP` at a time, ends here."""
TOLERANCE = 1e-9
"""Of a coefficient on a standardised scale: three digits beyond what is ever printed."""
LONGEST_STEP = 5.0
"""Of a coefficient at a time; log-odds beyond it leave no information to take the next step by."""

SMALLEST = float(np.finfo(float).tiny)
"""The least size whose reciprocal is finite."""


@dataclass(frozen=True, eq=False)
class LogisticModel:
    """A logistic regression of rows with counts: ``logit P(Y = 1) = offset + theta . design``.

    Attributes
    ----------
    design : ndarray of shape (k, n)
    y, count, offset : ndarray of shape (n,)
    is_penalised : bool
        Whether Firth's correction is applied.
    """

    design: FloatArray
    y: FloatArray
    count: FloatArray
    offset: FloatArray
    is_penalised: bool = False

    def rate(self, theta: FloatArray) -> FloatArray:
        """Return the fitted probability of each row."""
        return np.asarray(special.expit(self.offset + theta @ self.design))

    def information(self, theta: FloatArray) -> FloatArray:
        """Return Fisher's information of the coefficients."""
        rate = self.rate(theta)
        return np.asarray((self.design * (self.count * rate * (1 - rate))) @ self.design.T)

    def leverage(self, theta: FloatArray) -> FloatArray:
        """Return the diagonal of the hat matrix; of a row with a count, that of all its rows."""
        rate = self.rate(theta)
        inverse, size = _inverse(self.information(theta))
        squares = np.einsum("in,ij,jn->n", self.design, inverse, self.design)
        return np.asarray(self.count * rate * (1 - rate) / size * squares)

    def likelihood(self, theta: FloatArray) -> float:
        """Return the log-likelihood, penalised if asked for."""
        score = self.offset + theta @ self.design
        value = float(self.count @ (self.y * score - np.logaddexp(0.0, score)))
        if not self.is_penalised:
            return value
        sign, log_determinant = np.linalg.slogdet(self.information(theta))
        return value + log_determinant / 2 if sign > 0 else -np.inf

    def fit(self, start: FloatArray | None = None, fixed: int | None = None) -> FloatArray:
        """Return the coefficients of the largest likelihood; one may be held where it starts."""
        theta = np.zeros(len(self.design)) if start is None else start.astype(float)
        free = np.array([i for i in range(theta.size) if i != fixed], int)
        value = self.likelihood(theta)
        if free.size == 0:
            return theta
        for _ in range(STEPS):
            rate = self.rate(theta)
            residual = self.count * (self.y - rate)
            if self.is_penalised:
                residual += self.leverage(theta) * (0.5 - rate)
            information = self.information(theta)[np.ix_(free, free)]
            inverse, size = _inverse(information)
            step = np.zeros_like(theta)
            step[free] = inverse @ (self.design @ residual)[free]
            step *= min(1 / size, LONGEST_STEP / max(float(np.abs(step).max()), 1e-300))
            while (higher := self.likelihood(theta + step)) < value and np.abs(step).max() > 1e-12:
                step /= 2
            if higher < value:
                break
            theta, value = theta + step, higher
            if np.abs(step).max() < TOLERANCE:
                break
        return theta

    def profile_limits(
        self, theta: FloatArray, index: int, confidence_level: float
    ) -> tuple[float, float]:
        """Return where the profiled log-likelihood is half a chi-squared quantile below its top."""
        drop = float(special.chdtri(1, 1 - confidence_level)) / 2
        best = self.likelihood(theta)
        inverse, size = _inverse(self.information(theta))
        scale = max(float(np.sqrt(inverse[index, index] / size)), 1e-6)

        def excess(value: float) -> float:
            held = theta.copy()
            held[index] = value
            return best - self.likelihood(self.fit(held, fixed=index)) - drop

        def limit(side: float) -> float:
            reach = scale
            for _ in range(60):  # at 2^60 standard errors nothing bounds this side
                if excess(theta[index] + side * reach) > 0:
                    a, b = sorted((float(theta[index]), float(theta[index] + side * reach)))
                    return float(optimize.brentq(excess, a, b, xtol=1e-7 * scale))
                reach *= 2
            return float(side * np.inf)

        return limit(-1.0), limit(1.0)


def _inverse(information: FloatArray) -> tuple[FloatArray, float]:
    """Return the inverse of an information divided by its size, and the size.

    Where all rates are next to 0 or 1 there is so little information that its inverse overflows.
    """
    size = max(float(np.abs(information).max()), SMALLEST)
    return np.asarray(np.linalg.pinv(information / size, hermitian=True)), size


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
    # from slope 0 and the overall event rate, where no weight vanishes, on a standardised scale
    centre = float(np.average(x, weights=atoms.count))
    scale = math.sqrt(float(np.average((x - centre) ** 2, weights=atoms.count)))
    design = np.stack([np.ones_like(x), (x - centre) / scale])
    model = LogisticModel(design, events / atoms.count, atoms.count, np.zeros_like(x))
    theta = model.fit(np.array([float(special.logit(events.sum() / atoms.n)), 0.0]))
    back = np.array([[1.0, -centre / scale], [0.0, 1 / scale]])
    inverse, size = _inverse(model.information(theta))
    (intercept, slope), errors = back @ theta, np.sqrt(np.diag(back @ inverse @ back.T) / size)
    estimates = float(intercept), float(slope), float(errors[0]), float(errors[1])
    return LogisticFit(*estimates, model.likelihood(theta))


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
