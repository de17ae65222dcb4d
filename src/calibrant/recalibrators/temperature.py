"""Temperature scaling: one number for all classes, found by a bracketed Newton method."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.problem import Kind
from calibrant.problem.logits import Input, sigmoid, softmax
from calibrant.recalibrators.base import Recalibrator, check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.logistic import dot
from calibrant.recalibrators.losses import identity_loss, mean_loss
from calibrant.recalibrators.newton import STEP_TOLERANCE, FitReport
from calibrant.recalibrators.rows import ClassRows, in_blocks, log_scores
from calibrant.recalibrators.scaling import logit
from calibrant.recalibrators.scores import Scores

Slopes: TypeAlias = Callable[[float], tuple[float, float]]

LIMIT = 16.0
WARM_VALUES = 1 << 20
MAX_ITERATIONS = 100


class TemperatureScaling(BinaryRecalibrator):
    """Divide log-probabilities by one number T > 0: ``softmax(z / T)``.

    The log loss is convex in 1 / T; its minimum is bracketed in [exp(-16), exp(16)] and found
    by Newton steps, so T can be neither negative nor infinite. Where every row leans to its
    label, the loss has no minimum and each class gets one pseudo-row at equal odds. Takes one
    column, (n,), or one for each class, (n, K); of two columns the second is the event, as
    everywhere. Ranking and the predicted class stay as they were.

    Parameters
    ----------
    input : {"probabilities", "logits"}
        What the rows are; they are never guessed.

    Attributes
    ----------
    temperature_ : float
        Above 1 for an overconfident model.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks.

    Examples
    --------
    >>> z = [[2, 0, -1], [0, 1, 0], [1, 1.5, -.5], [-1, 0, 2], [3, 0, 0], [0, .5, 1]]
    >>> scaling = TemperatureScaling(input="logits").fit(z, [0, 1, 0, 2, 0, 1])
    >>> round(scaling.temperature_, 6)
    0.62405
    """

    _learned: ClassVar[dict[str, str]] = {"temperature_": "positive"}
    temperature_: float

    def __init__(self, input: Input = "probabilities") -> None:  # noqa: A002
        self.input = input

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        return Recalibrator._kind(self, shape)

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        if probs.ndim == 1:
            super()._fit(probs, codes, weights)
            return
        rows = ClassRows.of(probs, codes, weights, self.input)
        beta, iterations, flags, after = fit_row_temperature(rows)
        self._keep_the_better(beta, iterations, flags, after, rows.loss())

    def _learn(self, scores: Scores) -> None:
        scores = scores.compressed()
        logits = scores.values if self.input == "logits" else logit(scores.values)
        odds = scores.replace_values(logits)
        all_right = _all_right(odds)
        slopes = _odds_slopes(_with_pseudo_rows(odds) if all_right else odds)
        beta, iterations, flags = inverse_temperature(slopes)
        before = mean_loss(logits, scores) if self.input == "logits" else identity_loss(scores)
        after = mean_loss(beta * logits, scores)
        flags = (("separable",) if all_right else ()) + flags
        self._keep_the_better(beta, iterations, flags, after, before)

    def _keep_the_better(
        self, beta: float, iterations: int, flags: tuple[str, ...], after: float, before: float
    ) -> None:
        if not after <= before:
            beta, after, flags = 1.0, before, (*flags, "kept identity")
        self.temperature_ = 1 / beta
        self.fit_result_ = FitReport(True, iterations, after, before, flags)

    def _apply(self, probs: AnyArray) -> FloatArray:
        if self.temperature_ == 1 and self.input == "probabilities":
            return probs.astype(np.float64)
        if probs.ndim == 1:
            z = probs.astype(np.float64)
            return sigmoid((z if self.input == "logits" else logit(z)) / self.temperature_)
        out = np.empty(probs.shape)

        def write(part: slice) -> None:
            out[part] = softmax(log_scores(probs[part], self.input) / self.temperature_)

        in_blocks(probs.shape, write)
        return out

    def _check_parameters(self) -> None:
        check_choice("input", self.input, ("probabilities", "logits"))


def inverse_temperature(slopes: Slopes, start: float = 1.0) -> tuple[float, int, tuple[str, ...]]:
    """Return (beta, iterations, flags) where the rising first slope crosses zero."""
    low, high, u = -LIMIT, LIMIT, float(np.log(start))
    iteration = 0
    while iteration < MAX_ITERATIONS:
        iteration += 1
        first, second = slopes(np.exp(u))
        low, high = (u, high) if first < 0 else (low, u)
        step = -first / second if second > 0 else 0.0
        beta = np.exp(u) + step
        trial = float(np.log(beta)) if beta > 0 else low
        safe = low < trial < high and step != 0.0
        if not safe:
            trial = (low + high) / 2 if first else u
        done, u = abs(trial - u) < (STEP_TOLERANCE if safe else 1e-11), trial
        if done:
            break
    return float(np.exp(u)), iteration, ("at the limit",) if abs(u) > LIMIT - 1e-6 else ()


def _all_right(odds: Scores) -> bool:
    """Tell whether no row leans to the wrong label: then the loss falls in 1 / T for ever."""
    happened, failed = odds.events > 0, odds.weight > odds.events
    return not bool((odds.values[happened] < 0).any() or (odds.values[failed] > 0).any())


def _with_pseudo_rows(odds: Scores) -> Scores:
    """Mix the labels with one pseudo-row for each class, as `_smooth_targets` does for several."""
    n = odds.size
    return Scores(odds.values, (n * odds.events + odds.weight) / (n + 2), odds.weights, n)


def _odds_slopes(odds: Scores) -> Slopes:
    z, events, w = odds.values, odds.events, odds.weight

    def slopes(beta: float) -> tuple[float, float]:
        p = sigmoid(beta * z)
        return dot(w * p - events, z), dot(w * p * (1 - p), z * z)

    return slopes


def fit_row_temperature(rows: ClassRows) -> tuple[float, int, tuple[str, ...], float]:
    """Return (beta, iterations, flags, loss); every few rows of a long data set give the start."""
    own = rows.own()
    all_right = bool((own >= 0).all())
    target = _smooth_targets(rows, own) if all_right else own
    start, step = 1.0, rows.rows.size // WARM_VALUES
    if step > 4:
        start = inverse_temperature(_row_slopes(rows.every(step), target[::step]))[0]
    beta, iterations, flags = inverse_temperature(_row_slopes(rows, target), start)
    loss = rows.softmax_sums(beta, own)[0]
    return beta, iterations, (("separable",) if all_right else ()) + flags, loss


def _smooth_targets(rows: ClassRows, own: FloatArray) -> FloatArray:
    """Mix the labels with one pseudo-row for each class, so that the optimum is finite."""
    n, k = rows.size, rows.rows.shape[1]
    means = in_blocks(rows.rows.shape, lambda part: rows.centred(part).mean(axis=1))
    return np.asarray((n * own + k * np.concatenate(means)) / (n + k))


def _row_slopes(rows: ClassRows, target: FloatArray) -> Slopes:
    return lambda beta: rows.softmax_sums(beta, target)[1:]
