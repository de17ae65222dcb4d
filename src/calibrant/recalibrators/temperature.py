"""Temperature scaling: one number for all classes, found by a bracketed Newton method."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.problem import Kind, Label, Rows
from calibrant.recalibrators.base import Input, Recalibrator, check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.newton import (
    FitReport,
    dot,
    is_separated,
    platt_targets,
    sigmoid,
)
from calibrant.recalibrators.scaling import CLIP, identity_loss, logit, mean_loss
from calibrant.recalibrators.scores import Scores

Slopes: TypeAlias = Callable[[float], tuple[float, float]]

BLOCK_VALUES = 1 << 16
LIMIT = 16.0
WARM_VALUES = 1 << 20
MAX_ITERATIONS = 100


class TemperatureScaling(BinaryRecalibrator):
    """Divide log-probabilities by one number T > 0: ``softmax(z / T)``.

    The log loss is convex in 1 / T; its minimum is bracketed in [exp(-16), exp(16)] and found
    by Newton steps, so T can be neither negative nor infinite. Takes one column, (n,), or one
    for each class, (n, K). Ranking and the predicted class stay as they were.

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

    def predict_proba(self, y_prob: Any) -> FloatArray:
        """Return recalibrated probabilities in the shape of `y_prob`."""
        return Recalibrator.predict_proba(self, y_prob)

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        return Recalibrator._kind(self, shape)

    def _read(
        self,
        y_prob: Any,
        y_true: Any = None,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Rows:
        return Recalibrator._read(self, y_prob, y_true, sample_weight, classes)

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        if probs.ndim == 1:
            super()._fit(probs, codes, weights)
            return
        if weights is not None:
            used = weights > 0
            probs, codes, weights = probs[used], codes[used], weights[used] / weights.max()
        z = log_scores(probs, self.input)
        beta, iterations, flags = fit_row_temperature(z, codes, weights)
        before = row_loss(probs, codes, weights, self.input)
        self._keep_the_better(
            beta, iterations, flags, row_log_loss(z, codes, weights, beta), before
        )

    def _learn(self, scores: Scores) -> None:
        scores = scores.compressed()
        logits = scores.values if self.input == "logits" else logit(scores.values)
        odds = scores.replace_values(logits)
        separated = is_separated(odds) and float(odds.values @ (odds.events - odds.weight / 2)) > 0
        slopes = _odds_slopes(platt_targets(odds) if separated else odds)
        beta, iterations, flags = inverse_temperature(slopes)
        before = mean_loss(logits, scores) if self.input == "logits" else identity_loss(scores)
        after = mean_loss(beta * logits, scores)
        flags = (("separable",) if separated else ()) + flags
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
        for part in blocks(*probs.shape):
            out[part] = softmax(log_scores(probs[part], self.input) / self.temperature_)
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
        if not (low < trial < high) or step == 0.0:
            trial = (low + high) / 2 if first else u
        done, u = abs(trial - u) < 1e-11, trial
        if done:
            break
    return float(np.exp(u)), iteration, ("at the limit",) if abs(u) > LIMIT - 1e-6 else ()


def _odds_slopes(odds: Scores) -> Slopes:
    z, events, w = odds.values, odds.events, odds.weight

    def slopes(beta: float) -> tuple[float, float]:
        p = sigmoid(beta * z)
        return dot(w * p - events, z), dot(w * p * (1 - p), z * z)

    return slopes


def fit_row_temperature(
    z: FloatArray, codes: IntArray, weights: FloatArray | None
) -> tuple[float, int, tuple[str, ...]]:
    """Fit rows of log-scores; every few rows of a long data set give the start.

    The largest entry of every row is subtracted from it, in place.
    """
    for part in blocks(*z.shape):
        z[part] -= z[part].max(axis=1, keepdims=True)
    w = np.ones(len(codes)) if weights is None else weights
    own = z[np.arange(len(codes)), codes]
    all_right = bool((own >= 0).all())
    target = _smooth_targets(z, own, w) if all_right else own
    start = 1.0
    if z.size > 4 * WARM_VALUES:
        step = slice(None, None, z.size // WARM_VALUES)
        start = inverse_temperature(_row_slopes(z[step], target[step], w[step]))[0]
    beta, iterations, flags = inverse_temperature(_row_slopes(z, target, w), start)
    return beta, iterations, (("separable",) if all_right else ()) + flags


def _smooth_targets(z: FloatArray, own: FloatArray, w: FloatArray) -> FloatArray:
    """Mix the labels with one pseudo-row for each class, so that the optimum is finite."""
    n, k = float(w.sum() ** 2 / (w @ w)), z.shape[1]
    return np.asarray((n * own + k * z.mean(axis=1)) / (n + k))


def _row_slopes(z: FloatArray, target: FloatArray, w: FloatArray) -> Slopes:
    def slopes(beta: float) -> tuple[float, float]:
        first = second = 0.0
        for part in blocks(*z.shape):
            mean, spread = _moments(z[part], beta)
            first += dot(w[part], mean - target[part])
            second += dot(w[part], spread)
        return first, second

    return slopes


def _moments(z: FloatArray, beta: float) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of each row's entries, at most 0, under softmax(beta z)."""
    share = beta * z
    np.exp(share, out=share)
    total = share.sum(axis=1)
    share *= z
    mean = share.sum(axis=1) / total
    square = np.einsum("ij,ij->i", share, z) / total
    return mean, square - mean**2


def row_log_loss(
    z: FloatArray, codes: IntArray, weights: FloatArray | None, beta: float = 1.0
) -> float:
    """Return the mean log loss of ``softmax(beta z)``."""
    lost = np.empty(len(codes))
    for part in blocks(*z.shape):
        top = z[part].max(axis=1)
        total = np.exp(beta * (z[part] - top[:, None])).sum(axis=1)
        lost[part] = np.log(total) - beta * (z[part][np.arange(len(top)), codes[part]] - top)
    return max(float(np.average(lost, weights=weights)), 0.0)


def row_loss(rows: AnyArray, codes: IntArray, weights: FloatArray | None, kind: Input) -> float:
    """Return the mean log loss of the rows as they came; infinite where a label had 0."""
    if kind == "logits":
        return row_log_loss(rows.astype(np.float64), codes, weights)
    own = rows[np.arange(len(codes)), codes].astype(np.float64)
    with np.errstate(divide="ignore"):
        return float(np.average(-np.log(own), weights=weights))


def log_scores(rows: AnyArray, kind: Input) -> FloatArray:
    """Return log-probabilities, kept above log(1e-12), or the logits themselves."""
    if kind == "logits":
        return rows.astype(np.float64)
    z = np.maximum(rows, CLIP, dtype=np.float64)
    return np.asarray(np.log(z, out=z))


def softmax(z: FloatArray) -> FloatArray:
    """Return the softmax of each row."""
    shares = np.exp(z - z.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def blocks(n: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that fit the processor's cache."""
    step = max(1, BLOCK_VALUES // width)
    return (slice(start, start + step) for start in range(0, n, step))
