"""The loss of ``sigma(theta . phi(z))`` on many rows, with its gradient and Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import FloatArray, IntArray
from calibrant.engines import compiles
from calibrant.problem import sigmoid

Loss: TypeAlias = Literal["log", "squared"]

PIECE_ROWS = 1 << 15


@dataclass(frozen=True, eq=False)
class Design:
    """Centred features (k, n) of some scores and their scales, labels, and the loss to minimise.

    Parameters refer to features divided by their scale; the last one is the intercept.
    """

    features: FloatArray
    scale: FloatArray
    events: FloatArray
    weights: FloatArray | None
    total: float
    loss: Loss

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss, its gradient and its Hessian."""
        units = np.append(1 / self.scale, 1.0)
        slopes = theta * units
        if self.weights is None and self.loss == "log" and compiles(self.events.size):
            work = self._compiled_sums(slopes)
        else:
            work = self._sums(slopes)
        sums = in_pieces(self.events.size, PIECE_ROWS, work)
        means = np.sum(sums, axis=0) / self.total
        half = means[1 + theta.size :]
        hessian = half[_places_in_half(theta.size)] * units * units[:, None]
        return float(means[0]), means[1 : 1 + theta.size] * units, hessian

    def every(self, step: int) -> Design:
        """Return every few rows, with the log loss."""
        w = None if self.weights is None else self.weights[::step]
        events = self.events[::step]
        total = float(events.size) if w is None else float(w.sum())
        return Design(self.features[:, ::step].copy(), self.scale, events.copy(), w, total, "log")

    def _sums(self, slopes: FloatArray) -> Callable[[slice], FloatArray]:
        """Return a function that sums loss, gradient and upper half of the Hessian of a piece."""

        def sums(part: slice) -> FloatArray:
            phi, w = self.features[:, part], None if self.weights is None else self.weights[part]
            value, slope, curve = _terms(linear(slopes, phi), self.events[part], w, self.loss)
            gradient = [*(dot(row, slope) for row in phi), slope.sum()]
            bent = [row * curve for row in phi]
            hessian = [
                total
                for i, row in enumerate(bent)
                for total in (*(dot(row, other) for other in phi[i:]), row.sum())
            ]
            return np.array([value, *gradient, *hessian, curve.sum()])

        return sums

    def _compiled_sums(self, slopes: FloatArray) -> Callable[[slice], FloatArray]:
        """Return the same with the compiled loop, which has two features."""
        from calibrant.recalibrators.kernels import logistic_sums

        first, second = self.features[0], self.features[-1]
        alone = len(self.features) == 1
        theta = (slopes[0], 0.0 if alone else slopes[1], slopes[-1])
        kept = [0, 1, 3, 4, 6, 9] if alone else list(range(10))

        def sums(part: slice) -> FloatArray:
            return np.array(logistic_sums(first[part], second[part], self.events[part], theta))[
                kept
            ]

        return sums


@cache
def _places_in_half(size: int) -> IntArray:
    """Return where each entry of a symmetric matrix is in the list of its upper half."""
    places = np.zeros((size, size), np.intp)
    places[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(places, places.T)


def _terms(
    eta: FloatArray, events: FloatArray, w: FloatArray | None, loss: Loss
) -> tuple[float, FloatArray, FloatArray]:
    """Return the loss and its first two derivatives in eta; events are weights times labels."""
    p = sigmoid(eta)
    q = 1 - p
    curve = p * q
    residual = p - events if w is None else w * p - events
    if loss == "log":
        lost = np.maximum(eta, 0.0)
        lost -= np.log(np.maximum(p, q, out=q), out=q)
        if w is not None:
            lost *= w
            curve *= w
        lost -= events * eta
        return float(lost.sum()), residual, curve
    weight = 1.0 if w is None else w
    value = float((weight * p * p - 2 * events * p + events).sum())
    return value, 2 * residual * curve, 2 * curve * (weight * curve + residual * (1 - 2 * p))


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product, without the threads that BLAS starts for every short vector."""
    return float(np.einsum("i,i->", a, b))


def linear(theta: FloatArray, features: FloatArray) -> FloatArray:
    """Return the combination of features (k, n) plus the last number, the intercept."""
    eta = features[0] * theta[0]
    for coefficient, feature in zip(theta[1:-1], features[1:], strict=True):
        eta += coefficient * feature
    eta += theta[-1]
    return np.asarray(eta)
