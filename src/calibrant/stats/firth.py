"""Logistic regression with Firth's correction: finite however few events there are.

Maximum likelihood has no finite fit where events and non-events are separated, and is biased away
from zero where there are few. Firth (1993) maximises the likelihood times the square root of the
determinant of its information, Jeffreys' prior, which removes the bias of order 1/n and always has
a finite maximum. Its intervals are those of the profiled penalised likelihood (Heinze and Schemper,
2002), which unlike Wald's keep their level there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._scipy import optimize, special
from calibrant._types import FloatArray

STEPS = 100
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
        """Return where the profiled likelihood falls below its maximum by half of chi-squared's."""
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
            for _ in range(60):
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
