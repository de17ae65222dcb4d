"""One safeguarded Newton method for every logistic family of one score.

The model is ``sigma(theta . phi(z))`` with few features phi and an intercept. Features are
centred and scaled, the start is the constant model, steps along directions of little or
negative curvature are shortened, and a step that does not lower the loss is halved. On
separable rows, where the likelihood has no maximum, Platt's targets (1999) make it finite. The
result is never worse on the fitting rows than leaving the scores alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.recalibrators.scores import Scores

Loss: TypeAlias = Literal["log", "squared"]

BLOCK = 1 << 14
MAX_ITERATIONS = 100
STEP_TOLERANCE = 1e-9
LOSS_NOISE = 1e-12
RIDGE = 1e-10
WARM_ROWS = 1 << 13


@dataclass(frozen=True)
class FitReport:
    """What a fit did.

    Attributes
    ----------
    converged : bool
        Whether the last step was negligible.
    iterations : int
        Newton steps on all rows.
    loss, loss_identity : float
        The mean loss on the fitting rows, after the fit and before it.
    flags : tuple of str
        Words for what was unusual: "separable", "one class", "constant scores",
        "not increasing", "kept identity", "term dropped", "at the limit", "not converged",
        "weighted".
    """

    converged: bool = True
    iterations: int = 0
    loss: float = float("nan")
    loss_identity: float = float("nan")
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Design:
    """Standardised features of some scores, their labels, and the loss to minimise."""

    features: FloatArray
    events: FloatArray
    weights: FloatArray | None
    total: float
    loss: Loss

    def evaluate(self, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss, its gradient and its Hessian."""
        k = theta.size - 1
        value, gradient, hessian = 0.0, np.zeros(k + 1), np.zeros((k + 1, k + 1))
        for start in range(0, self.events.size, BLOCK):
            part = slice(start, start + BLOCK)
            phi, events = self.features[:, part], self.events[part]
            w = None if self.weights is None else self.weights[part]
            v, slope, curve = _terms(linear(theta, phi), events, w, self.loss)
            value += v
            gradient[k] += slope.sum()
            hessian[k, k] += curve.sum()
            for j in range(k):
                gradient[j] += dot(phi[j], slope)
                bent = phi[j] * curve
                hessian[j, k] += bent.sum()
                for i in range(j + 1):
                    hessian[i, j] += dot(phi[i], bent)
        hessian += np.triu(hessian, 1).T
        return value / self.total, gradient / self.total, hessian / self.total


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


@dataclass(frozen=True, eq=False)
class Solution:
    """Where the Newton steps ended."""

    theta: FloatArray
    loss: float
    hessian: FloatArray
    iterations: int
    converged: bool

    @property
    def is_separable(self) -> bool:
        """Whether the loss vanishes, or some direction no longer changes it."""
        if self.loss < 1e-9 or not self.converged:
            return True
        curvature = np.linalg.eigvalsh(self.hessian)
        return bool(curvature[0] < 1e-9 * max(float(curvature[-1]), 1e-9))


def minimise(design: Design, start: FloatArray) -> Solution:
    """Take safeguarded Newton steps from a start until they are negligible."""
    theta = start
    value, gradient, hessian = design.evaluate(theta)
    for iteration in range(1, MAX_ITERATIONS + 1):
        step = _newton_step(gradient, hessian)
        if np.abs(step).max() < STEP_TOLERANCE:
            return Solution(theta + step, value, hessian, iteration, True)
        for _ in range(40):
            trial = design.evaluate(theta + step)
            if trial[0] <= value + LOSS_NOISE * abs(value):
                break
            step = step / 2
        else:
            settled = bool(np.abs(gradient).max() < 1e-8)
            return Solution(theta, value, hessian, iteration, settled)
        theta = theta + step
        value, gradient, hessian = trial
        if value < 1e-12:
            break
    return Solution(theta, value, hessian, iteration, False)


def _newton_step(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    """Divide by the absolute curvature along each axis of the Hessian."""
    curvature, axes = np.linalg.eigh(hessian)
    floor = max(RIDGE * float(np.abs(curvature).sum()), 1e-300)
    step = axes @ ((axes.T @ gradient) / np.maximum(np.abs(curvature), floor))
    longest = float(np.abs(step).max())
    return np.asarray(-step if longest <= 20.0 else -step * (20.0 / longest))


def fit_logistic(features: FloatArray, scores: Scores, loss: Loss = "log") -> Solution:
    """Fit ``sigma(coef . features + intercept)``; the solution's theta has the intercept last.

    `features` (k, n) is overwritten by its standardised form.
    """
    centre, scale = _standardise(features, scores)
    design = Design(features, scores.events, scores.weights, scores.total, loss)
    found = minimise(design, _warm_start(design))
    coefficients = found.theta[:-1] / scale
    theta = np.append(coefficients, found.theta[-1] - coefficients @ centre)
    return replace(found, theta=theta)


def _standardise(features: FloatArray, scores: Scores) -> tuple[FloatArray, FloatArray]:
    w, total = scores.weights, scores.total
    centre, scale = np.empty(len(features)), np.empty(len(features))
    for j, row in enumerate(features):
        centre[j] = (row.sum() if w is None else dot(row, w)) / total
        row -= centre[j]
        square = dot(row, row) if w is None else dot(row * row, w)
        scale[j] = np.sqrt(square / total) or 1.0
        row /= scale[j]
    return centre, scale


def _warm_start(design: Design) -> FloatArray:
    """Start at the constant model, or where every few rows of a long data set lead."""
    rate = float(design.events.sum()) / design.total
    rate = min(max(rate, 1e-6), 1 - 1e-6)
    start = np.append(np.zeros(len(design.features)), np.log(rate / (1 - rate)))
    step = min(design.events.size // WARM_ROWS, 64)
    if step >= 4:
        w = None if design.weights is None else design.weights[::step]
        total = float(design.events[::step].size) if w is None else float(w.sum())
        thin = Design(design.features[:, ::step], design.events[::step], w, total, "log")
        return minimise(thin, start).theta
    return start if design.loss == "log" else _log_start(design, start)


def _log_start(design: Design, start: FloatArray) -> FloatArray:
    """Start the squared loss, which is not convex, at the maximum of the likelihood."""
    convex = Design(design.features, design.events, design.weights, design.total, "log")
    return minimise(convex, start).theta


def platt_targets(scores: Scores) -> Scores:
    """Move labels to ``(N1 + 1) / (N1 + 2)`` and ``1 / (N0 + 2)`` (Platt, 1999)."""
    w = scores.weight
    n1 = float(scores.events.sum())
    n0 = max(float(w.sum()) - n1, 0.0)
    high, low = (n1 + 1) / (n1 + 2), 1 / (n0 + 2)
    return Scores(scores.values, scores.events * (high - low) + w * low, w, scores.size)


def is_separated(scores: Scores) -> bool:
    """Tell whether a threshold divides events from the rest, ties at the threshold allowed."""
    if scores.values.size > WARM_ROWS and not is_separated(scores.thinned(1000)):
        return False
    happened, failed = scores.events > 0, scores.weight > scores.events
    z1, z0 = scores.values[happened], scores.values[failed]
    if z1.size == 0 or z0.size == 0:
        return True
    return bool(z1.min() >= z0.max() or z0.min() >= z1.max())


def fit_shift(logits: FloatArray, scores: Scores) -> float:
    """Return c such that ``sigma(logits + c)`` has the mean of Platt's targets, by bisection."""
    smooth = platt_targets(scores)
    w, wanted = smooth.weight, float(smooth.events.sum())
    rate = wanted / float(w.sum())
    middle = float(np.log(rate / (1 - rate)))
    low, high = middle - float(logits.max()), middle - float(logits.min())
    for _ in range(200):
        shift = (low + high) / 2
        if not low < shift < high:
            break
        if float((w * sigmoid(logits + shift)).sum()) < wanted:
            low = shift
        else:
            high = shift
    return (low + high) / 2
