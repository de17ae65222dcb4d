"""The loss of ``sigma(theta . phi(z))`` on many rows, with its gradient and Hessian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.engines import compiles
from calibrant.recalibrators.pieces import in_pieces

Loss: TypeAlias = Literal["log", "squared"]

PIECE_ROWS = 1 << 15
COMPILED_ROWS = 1 << 17


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
            sums = in_pieces(self.events.size, COMPILED_ROWS, self._compiled_sums(slopes))
        else:
            sums = in_pieces(
                self.events.size, PIECE_ROWS, lambda part: self._part(part).sums(slopes)
            )
        value, *rest = np.sum(sums, axis=0) / self.total
        gradient = np.array(rest[: theta.size]) * units
        hessian = np.zeros((theta.size, theta.size))
        hessian[np.triu_indices(theta.size)] = rest[theta.size :]
        hessian += np.triu(hessian, 1).T
        return float(value), gradient, hessian * np.outer(units, units)

    def every(self, step: int) -> Design:
        """Return every few rows, with the log loss."""
        w = None if self.weights is None else self.weights[::step]
        events = self.events[::step]
        total = float(events.size) if w is None else float(w.sum())
        return Design(self.features[:, ::step].copy(), self.scale, events.copy(), w, total, "log")

    def _part(self, part: slice) -> Design:
        w = None if self.weights is None else self.weights[part]
        return Design(
            self.features[:, part], self.scale, self.events[part], w, self.total, self.loss
        )

    def sums(self, slopes: FloatArray) -> FloatArray:
        """Return the summed loss, its gradient and the upper half of its Hessian."""
        phi = self.features
        value, slope, curve = _terms(linear(slopes, phi), self.events, self.weights, self.loss)
        gradient = [*(dot(row, slope) for row in phi), slope.sum()]
        bent = [row * curve for row in phi]
        hessian = [
            total
            for i, row in enumerate(bent)
            for total in (*(dot(row, other) for other in phi[i:]), row.sum())
        ]
        return np.array([value, *gradient, *hessian, curve.sum()])

    def _compiled_sums(self, slopes: FloatArray) -> Callable[[slice], FloatArray]:
        """Return a function that sums a piece with the compiled loop for two features."""
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


def sigmoid(eta: FloatArray) -> FloatArray:
    """Return ``1 / (1 + exp(-eta))`` without a warning at any eta."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-eta)))
