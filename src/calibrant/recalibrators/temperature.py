"""Temperature scaling, one number for all classes, and the identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np

from calibrant._logits import sigmoid
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.tensors import Tensors
from calibrant.problem import Input
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import ClassRows
from calibrant.recalibrators.formulas import (
    NUMPY,
    Smoothing,
    best_share,
    log_odds,
    log_probabilities,
    may_keep,
)
from calibrant.recalibrators.logistic import base, share_to_mix
from calibrant.recalibrators.optimise import MAX_ITERATIONS, STEP_TOLERANCE
from calibrant.recalibrators.reading import INPUTS, Reads, read_unlabelled
from calibrant.recalibrators.scores import FitResult, Scores, dot, identity_loss, mean_loss
from calibrant.sources.arrays import as_array

Slopes: TypeAlias = Callable[[float], tuple[float, float]]

LIMIT = 16.0
"""The largest logarithm of 1 / T: beyond it all answers are even, or 0 and 1, to rounding."""
WARM_VALUES = 1 << 20
"""Values that a start is fitted on: enough to save several passes over all rows."""
SMOOTHING_VALUES = 1 << 18
"""About so many values, at equal steps through the rows, decide how much is mixed in: one number,
that a few thousand rows determine well enough, for a handful of fits."""


class Identity(Recalibrator):
    """Leave the probabilities alone; of logits, answer with the probabilities they stand for.

    Parameters
    ----------
    input : {"probabilities", "logits"}
        What the predictions are; they are never guessed.

    See Also
    --------
    best_recalibrator : answers with this one where no repair is needed.

    Examples
    --------
    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.1])
    array([0.1])
    """

    _reads: ClassVar[Reads] = "either"
    _choices = INPUTS

    def __init__(self, input: Input = "probabilities") -> None:
        self.input = input

    def predict_proba(self, y_prob: Any) -> FloatArray:
        """Return the probabilities as they came, or those of the logits."""
        if self.input == "logits":
            return super().predict_proba(y_prob)
        read_unlabelled(self, y_prob)
        return as_array(y_prob, "y_prob").astype(np.float64)

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self.fit_result_ = FitResult()

    def _learn(self, scores: Scores) -> None:
        self.fit_result_ = FitResult()

    def _formula(self, ops: Any, x: Any, learned: Any) -> Any:
        if self.input == "probabilities":
            return x
        return ops.sigmoid(x) if self.classes_.size == 2 else ops.softmax(x)


class TemperatureScaling(Recalibrator):
    r"""Divide log-probabilities by one number T > 0: ``softmax(z / T)``.

    The log loss is convex in 1 / T; its minimum is bracketed in [exp(-16), exp(16)] and found
    by Newton steps, so T can be neither negative nor infinite. Where every row leans to its
    label, the loss has no minimum and each class gets one pseudo-row at equal odds. Takes one
    column, (n,), or one for each class, (n, K); of two columns the second is the event, as
    everywhere. Ranking and the predicted class stay as they were.

    Parameters
    ----------
    input : {"probabilities", "logits"}
        What the rows are; they are never guessed.
    smoothing : float or "auto"
        The share of the even distribution that is mixed in before logarithms are taken, so that
        exact zeros have one. "auto" is 0, and scores are kept above 1e-12, unless probabilities
        of exactly 0 (or, of one event, 1) are among the fitting rows; then it is the share of
        least log loss, with one pseudo-row of every label beside the fitting rows.

    Attributes
    ----------
    temperature_ : float
        Above 1 for an overconfident model, where nothing is mixed in.
    smoothing_ : float
        The share of the even distribution.

    See Also
    --------
    VectorScaling : a scale and a bias for each class.
    TopLabel : repairs the confidence in the predicted class by any recalibrator of one score.

    Notes
    -----
    The probability of class k, with the log-probabilities or logits z of a row, is

    .. math:: \frac{e^{z_k / T}}{\sum_c e^{z_c / T}}.

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

    _reads: ClassVar[Reads] = "either"
    _learned: ClassVar[dict[str, str]] = {"temperature_": "positive", "smoothing_": "share"}
    _constants: ClassVar[tuple[str, ...]] = ("temperature_",)
    _choices = INPUTS
    temperature_: float
    smoothing_: float

    def __init__(self, input: Input = "probabilities", smoothing: Smoothing = "auto") -> None:
        self.input = input
        self.smoothing = smoothing

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        if probs.ndim == 1:
            super()._fit(probs, codes, weights)
            return
        self._fit_rows(ClassRows.of(probs, codes, weights, self.input))

    def _fit_rows(self, rows: ClassRows) -> None:
        rows = smoothed_rows(rows, self.smoothing)
        self.smoothing_ = rows.smoothing
        self._keep_the_better(rows.extremes(), fit_row_temperature(rows), rows.loss())

    def _learn_tensors(self, tensors: Tensors) -> bool:
        if tensors.problem.kind == "binary":
            self._learn(on_device.sketch(tensors))
        else:
            self._fit_rows(on_device.TensorRows.of_tensors(tensors))
        return True

    def _learn(self, scores: Scores) -> None:
        def loss_with(share: float, sample: Scores) -> float:
            logits = log_odds(NUMPY, sample.values, share)
            beta = inverse_temperature(_odds_slopes(sample.replace_values(logits)))[0]
            return mean_loss(beta * logits, sample)

        scores = scores.compressed()
        share = None
        if self.input == "probabilities":
            share = share_to_mix(scores, self.smoothing, SMOOTHING_VALUES, loss_with)
        self.smoothing_ = share or 0.0
        logits = base(NUMPY, scores.values, share)
        odds = scores.replace_values(logits)
        happened, failed = odds.events > 0, odds.weight > odds.events
        # Where no row leans to the wrong label, the loss falls in 1 / T for ever.
        all_right = not ((logits[happened] < 0).any() or (logits[failed] > 0).any())
        slopes = _odds_slopes(odds.with_pseudo_rows(2) if all_right else odds)
        beta, iterations, flags = inverse_temperature(slopes)
        before = mean_loss(logits, scores) if self.input == "logits" else identity_loss(scores)
        flags = (("separable",) if all_right else ()) + flags
        fit = beta, iterations, flags, mean_loss(beta * logits, scores)
        self._keep_the_better(scores.values, fit, before)

    @property
    def is_identity_(self) -> bool:
        """Whether the scores are left alone."""
        return self.temperature_ == 1 and self.smoothing_ == 0

    def _keep_the_better(
        self, probs: AnyArray, fit: tuple[float, int, tuple[str, ...], float], before: float
    ) -> None:
        beta, iterations, flags, after = fit
        if not after <= before and may_keep(probs, self.smoothing, self.input):
            beta, after, flags = 1.0, before, (*flags, "kept identity")
            self.smoothing_ = 0.0
        self.temperature_ = 1 / beta
        self.fit_result_ = FitResult(True, iterations, after, before, flags)

    def _formula(self, ops: Any, x: Any, learned: Any) -> Any:
        share = None if self.input == "logits" else self.smoothing_
        if self.is_identity_ and share is not None:
            return x
        if self.classes_.size == 2:
            return ops.sigmoid(base(ops, x, share) / learned.temperature_)
        z = x if share is None else log_probabilities(ops, x, share, self.classes_.size)
        return ops.softmax(z / learned.temperature_)


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


def _odds_slopes(odds: Scores) -> Slopes:
    z, events, w = odds.values, odds.events, odds.weight

    def slopes(beta: float) -> tuple[float, float]:
        p = sigmoid(beta * z)
        return dot(w * p - events, z), dot(w * p * (1 - p), z * z)

    return slopes


def smoothed_rows(rows: ClassRows, smoothing: Smoothing) -> ClassRows:
    """Return the rows with the share to mix in: that of least log loss after tempering."""
    if smoothing != "auto":
        return replace(rows, smoothing=float(smoothing))
    if rows.kind == "logits":
        return rows
    sample = rows.every(max(1, rows.n_values // SMOOTHING_VALUES))

    def loss(share: float) -> float:
        mixed = replace(sample, smoothing=share)
        target = _mixed_targets(mixed, mixed.own(), 1.0)
        beta = inverse_temperature(_row_slopes(mixed, target))[0]
        return mixed.softmax_sums(beta, target)[0]

    return replace(rows, smoothing=best_share(rows.extremes(), rows.rows.shape[1], loss))


def fit_row_temperature(rows: ClassRows) -> tuple[float, int, tuple[str, ...], float]:
    """Return (beta, iterations, flags, loss); every few rows of a long data set give the start."""
    of_label = rows.own()
    all_right = bool((of_label >= 0).all())
    target = _mixed_targets(rows, of_label, float(rows.rows.shape[1])) if all_right else of_label
    start, step = 1.0, rows.n_values // WARM_VALUES
    if step > 4:
        start = inverse_temperature(_row_slopes(rows.every(step), target[::step]))[0]
    beta, iterations, flags = inverse_temperature(_row_slopes(rows, target), start)
    loss = rows.softmax_sums(beta, of_label)[0]
    return beta, iterations, (("separable",) if all_right else ()) + flags, loss


def _mixed_targets(rows: ClassRows, of_label: Any, n_pseudo: float) -> Any:
    """Mix the labels with pseudo-rows of every class, so that the optimum is finite."""
    return (rows.size * of_label + n_pseudo * rows.mean_scores()) / (rows.size + n_pseudo)


def _row_slopes(rows: ClassRows, target: Any) -> Slopes:
    return lambda beta: rows.softmax_sums(beta, target)[1:]
