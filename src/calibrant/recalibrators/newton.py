"""One safeguarded Newton method for every logistic family of one score.

The model is ``sigma(theta . phi(z))`` with few features phi and an intercept. Features are
centred and scaled, the start is the constant model, steps along directions of little or
negative curvature are shortened, and a step that does not lower the loss is halved. On
separable rows, where the likelihood has no maximum, Platt's targets (1999) make it finite. The
result is never worse on the fitting rows than leaving the scores alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import FloatArray
from calibrant.problem import sigmoid
from calibrant.recalibrators.logistic import PIECE_ROWS, Design, Loss, dot
from calibrant.recalibrators.scores import Scores

MAX_ITERATIONS = 100
STEP_TOLERANCE = 1e-6
"""A Newton step this short leaves an error of its square."""
LOSS_NOISE = 1e-12
RIDGE = 1e-10
WARM_ROWS = 1 << 11


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

    `features` (k, n) is overwritten by its centred form.
    """
    centre, scale = _centre(features, scores)
    design = Design(features, scale, scores.events, scores.weights, scores.total, loss)
    found = minimise(design, _warm_start(design))
    coefficients = found.theta[:-1] / scale
    theta = np.append(coefficients, found.theta[-1] - coefficients @ centre)
    return replace(found, theta=theta)


def _centre(features: FloatArray, scores: Scores) -> tuple[FloatArray, FloatArray]:
    """Subtract the mean of each feature, in place, and return means and standard deviations."""
    n, w = scores.values.size, scores.weights

    def first(part: slice) -> list[float]:
        return [row.sum() if w is None else dot(row, w[part]) for row in features[:, part]]

    def second(part: slice) -> list[float]:
        rows = features[:, part]
        rows -= centre[:, None]
        return [dot(row, row) if w is None else dot(row * row, w[part]) for row in rows]

    centre = np.sum(in_pieces(n, PIECE_ROWS, first), axis=0) / scores.total
    square = np.sum(in_pieces(n, PIECE_ROWS, second), axis=0) / scores.total
    return centre, np.where(square > 0, np.sqrt(square), 1.0)


def _warm_start(design: Design) -> FloatArray:
    """Start at the constant model, or where every few rows of a long data set lead."""
    rate = float(design.events.sum()) / design.total
    rate = min(max(rate, 1e-6), 1 - 1e-6)
    start = np.append(np.zeros(len(design.features)), np.log(rate / (1 - rate)))
    step = min(design.events.size // WARM_ROWS, 64)
    if step >= 4:
        return minimise(design.every(step), start).theta
    return start if design.loss == "log" else minimise(replace(design, loss="log"), start).theta


def platt_targets(scores: Scores) -> Scores:
    """Move labels to ``(N1 + 1) / (N1 + 2)`` and ``1 / (N0 + 2)`` (Platt, 1999)."""
    w = scores.weight
    n1 = float(scores.events.sum())
    n0 = max(float(w.sum()) - n1, 0.0)
    high, low = (n1 + 1) / (n1 + 2), 1 / (n0 + 2)
    return Scores(scores.values, scores.events * (high - low) + w * low, w, scores.size)


def one_pseudo_row(scores: Scores) -> Scores:
    """Mix the labels with one pseudo-row that has either label: a 0 may be wrong the next time."""
    n = scores.size
    w = scores.weight
    return Scores(scores.values, (n * scores.events + w / 2) / (n + 1), w, n)


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
