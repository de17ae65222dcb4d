"""Optimisers: a safeguarded Newton method for one score, and L-BFGS for several classes.

The model of one score is ``sigma(theta . phi(z))`` with few features phi and an intercept. Features
are centred and scaled, the start is the constant model, steps along directions of little or
negative curvature are shortened, and a step that does not lower the loss is halved. On
separable rows, where the likelihood has no maximum, Platt's targets (1999) make it finite.

L-BFGS is for smooth convex losses whose evaluation takes nearly all of the time. SciPy's has
vectors added up by BLAS, which starts threads for more than 10,000 numbers (a hundred classes have
10,100). Between products these spin on the cores that evaluate the loss: 5,000 rows of 100 classes
took 0.20 s on two cores, and take 0.11 s with sums that start none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calibrant._compiled import compiles
from calibrant._logits import sigmoid
from calibrant._threads import in_pieces
from calibrant._types import FloatArray, IntArray
from calibrant.recalibrators.class_rows import RankOnePlusDiagonal
from calibrant.recalibrators.formulas import linear
from calibrant.recalibrators.scores import PIECE_ROWS, Loss, Scores, dot

if TYPE_CHECKING:
    from calibrant.recalibrators.matrix import DiagonalWeights, FullWeights, LossSums
    from calibrant.recalibrators.on_device import DeviceLoss

MAX_ITERATIONS = 100
"""Newton steps; a dozen are usual, and a fit that needs more is flagged as not converged."""
STEP_TOLERANCE = 1e-6
"""A Newton step this short leaves an error of its square."""
LOSS_NOISE = 1e-12
"""Relative rounding of a mean loss: a step that raises it by less has not failed."""
RIDGE = 1e-10
"""The least share of all curvature that a direction is taken to have."""
LONGEST_STEP = 20.0
"""In standard deviations of a feature: from there on sigma is 0 or 1 to rounding."""
WARM_ROWS = 1 << 11
"""Rows that a start is fitted on: enough to save several steps on all rows."""
ENOUGH, STEEP = 1e-4, 0.9
"""A step must lower the loss by that share of what its slope promised, and leave no more than that
share of the slope: the usual conditions of Wolfe, in the form of Lewis and Overton (2013)."""
MOST_TRIALS = 40
"""Of one line search: halvings down to rounding."""
MEMORY = 20
"""Steps that L-BFGS remembers: 5,000 rows of 10 classes take 24 evaluations, and 28 with its usual
10; more save none."""
MOST_REMEMBERED = 1 << 23
"""Numbers in all of these steps, each kept twice: 128 MB. A thousand classes have a million."""


@dataclass(frozen=True, eq=False)
class Design:
    """Centred features (k, n) of scores and their scales, labels, and the loss to minimise.

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
        if self.weights is None and self.loss == "log" and len(self.features) < 3 and compiles():
            work = self._compiled_sums(slopes)
        else:
            work = self._sums(slopes)
        sums = in_pieces(self.events.size, PIECE_ROWS, work)
        means = np.sum(sums, axis=0) / self.total
        half = means[1 + theta.size :]
        hessian = half[_places_in_half(theta.size)] * units * units[:, None]
        return float(means[0]), means[1 : 1 + theta.size] * units, hessian

    def every(self, step: int) -> Design:
        """Return one row in `step`, with the log loss."""
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
        """Return the same with the compiled loop, which has one or two features."""
        from calibrant import _kernels

        alone = len(self.features) == 1
        first, *others = np.ascontiguousarray(self.features)
        second, events = None if alone else others[0], np.ascontiguousarray(self.events)
        theta = (slopes[0], 0.0 if alone else slopes[1], slopes[-1])
        entries = [0, 1, 3, 4, 6, 9] if alone else list(range(10))

        def sums(part: slice) -> FloatArray:
            out, other = np.empty(10), None if second is None else second[part]
            _kernels.logistic_sums(first[part], other, events[part], theta, out)
            return out[entries]

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
    return np.asarray(-step if longest <= LONGEST_STEP else -step * (LONGEST_STEP / longest))


def fit_logistic(features: FloatArray, scores: Scores, loss: Loss = "log") -> Solution:
    """Fit ``sigma(coef . features + intercept)``; the solution's theta has the intercept last.

    `features` (k, n) is overwritten by its centred form.
    """
    centre, scale = _centre(features, scores)
    design = Design(features, scale, scores.events, scores.weights, scores.total, loss)
    solution = minimise(design, _warm_start(design))
    coefficients = solution.theta[:-1] / scale
    theta = np.append(coefficients, solution.theta[-1] - coefficients @ centre)
    return replace(solution, theta=theta)


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


def fit_shift(logits: FloatArray, scores: Scores) -> float:
    """Return c such that ``sigma(logits + c)`` has the mean of Platt's targets, by bisection."""
    smooth = scores.with_platt_targets()
    w, target = smooth.weight, float(smooth.events.sum())
    rate = target / float(w.sum())
    middle = float(np.log(rate / (1 - rate)))
    low, high = middle - float(logits.max()), middle - float(logits.min())
    for _ in range(200):
        shift = (low + high) / 2
        if not low < shift < high:
            break
        if float((w * sigmoid(logits + shift)).sum()) < target:
            low = shift
        else:
            high = shift
    return (low + high) / 2


def minimise_loss(
    loss: LossSums | DeviceLoss,
    weights: DiagonalWeights | FullWeights,
    penalty: FloatArray,
    most_steps: int = 500,
) -> tuple[FloatArray, float, bool, int]:
    """Minimise the mean log loss plus the penalty of the parameters.

    Return the parameters, their mean log loss, whether it converged, and iterations.
    """
    round_variables = RankOnePlusDiagonal.of_moments(*loss.moments(), penalty)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        parameters = round_variables.to_parameters(x.reshape(penalty.shape))
        value, bias, slope = loss.slopes(*weights.read(parameters))
        gradient = np.column_stack((slope, bias)) + 2 * penalty * parameters
        lost = value + float((penalty * parameters**2).sum())
        return lost, round_variables.to_slopes(gradient).ravel()

    minimum = minimise_smooth(
        objective,
        np.zeros(penalty.size),
        most_steps=most_steps,
        tolerance=weights.tolerance,
    )
    parameters = round_variables.to_parameters(minimum.x.reshape(penalty.shape))
    lost = max(minimum.value - float((penalty * parameters**2).sum()), 0.0)
    return parameters, lost, minimum.converged, minimum.steps


class Minimum(NamedTuple):
    """Where a loss is least, the loss there, whether that was reached, and steps."""

    x: FloatArray
    value: float
    converged: bool
    steps: int


def minimise_smooth(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    most_steps: int = 500,
    tolerance: float = 1e-12,
    slope_tolerance: float = 1e-7,
) -> Minimum:
    """Minimise a loss, given with its slopes, until a step changes it by less than a share.

    The tolerances leave errors far below the noise of any label: tighter ones only cost.

    Parameters
    ----------
    tolerance : float
        Of the change of the loss, relative to the loss or to 1.
    slope_tolerance : float
        No slope is larger at the minimum, if that is reached first.
    """
    x = start
    value, slopes = objective(x)
    memory = min(MEMORY, max(5, MOST_REMEMBERED // max(x.size, 1)))
    history: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=memory)
    for step in range(most_steps):
        if np.abs(slopes).max(initial=0.0) <= slope_tolerance:
            return Minimum(x, value, True, step)
        direction = -_times_inverse(slopes, history)
        first = 1.0 if history else min(1.0, 1 / math.sqrt(dot(slopes, slopes)))
        lower = _line_search(objective, x, value, slopes, direction, first)
        if lower is None:  # no descent beyond rounding
            return Minimum(x, value, True, step)
        moved, after, new = lower
        change, bend = moved - x, new - slopes
        if (product := dot(change, bend)) > 0:
            history.append((change, bend, product))
        small = value - after <= tolerance * max(abs(value), abs(after), 1.0)
        x, value, slopes = moved, after, new
        if small:
            return Minimum(x, value, True, step + 1)
    return Minimum(x, value, False, most_steps)


def _times_inverse(
    slopes: FloatArray, history: deque[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """Return slopes times the inverse Hessian of the last steps (two loops, Nocedal 1980)."""
    out, shares = slopes.copy(), []
    for change, bend, product in reversed(history):
        share = dot(change, out) / product
        out -= share * bend
        shares.append(share)
    if history:
        _, bend, product = history[-1]
        out *= product / dot(bend, bend)
    for (change, bend, product), share in zip(history, reversed(shares), strict=True):
        out += (share - dot(bend, out) / product) * change
    return out


def _line_search(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    value: float,
    slopes: FloatArray,
    direction: FloatArray,
    length: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return a place along the direction, its loss and slopes; None if none is lower."""
    slope = dot(slopes, direction)
    low, high, best = 0.0, math.inf, None
    for _ in range(MOST_TRIALS):
        moved = x + length * direction
        after, new = objective(moved)
        if not after <= value + ENOUGH * length * slope:  # too long, or not a number
            high = length
            # the least of the parabola through both values and the slope, kept inside
            excess = after - value - length * slope
            share = -slope * length / (2 * excess) if math.isfinite(excess) else 0.1
            length = low + min(max(share, 0.1), 0.5) * (high - low)
            continue
        best = moved, after, new
        if dot(new, direction) >= STEEP * slope:
            break
        low = length
        length = 2 * low if math.isinf(high) else (low + high) / 2
    return best
