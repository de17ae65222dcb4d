"""Scores: the one-dimensional view of a recalibration problem, its losses, and what a fit does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from sklearn.metrics import roc_auc_score

from calibrant._compiled import compiles
from calibrant._logits import sigmoid
from calibrant._results import Result
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, BoolArray, FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.reading import SEVERAL, read_again
from calibrant.table import BinTable

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator

Loss: TypeAlias = Literal["log", "squared"]

PIECE_ROWS = 1 << 15
"""Rows that one thread works on at a time: a few columns of them fit the processor's cache."""
PROBE = 1 << 12
MOST_PROBES = 1 << 13
WORTH_SORTING = 16
"""Scores that are looked at to tell whether most repeat, and how many rows a distinct score must
stand for to repay the sort that adds them up: affect speed only, never an answer."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Predictions of one event, the weight of the rows that made each, and of its events.

    Attributes
    ----------
    values : ndarray
        Predictions, as float64.
    events : ndarray
        The weight of the rows in which the event happened: 0 or 1 for single rows.
    weights : ndarray or None
        The weight of all rows; None means 1 everywhere.
    size : float
        The effective number of rows, ``(sum w)^2 / sum w^2``.
    """

    values: FloatArray
    events: FloatArray
    weights: FloatArray | None
    size: float

    @classmethod
    def of_rows(
        cls, values: FloatArray, happened: BoolArray, weights: FloatArray | None = None
    ) -> Scores:
        """Read single rows; rows of weight zero are left out."""
        if weights is None:
            return cls(values, happened.astype(np.float64), None, float(values.size))
        used = weights > 0
        values, happened, weights = values[used], happened[used], weights[used]
        weights = weights / weights.max()
        size = float(weights.sum() ** 2 / (weights**2).sum())
        weights = weights * (size / weights.sum())
        return cls(values, weights * happened, weights, size)

    @classmethod
    def of_table(cls, table: BinTable) -> Scores:
        """Read the cells of a table with one group: (mean prediction, events, weight)."""
        if table.n_groups != 1:
            raise InvalidArgumentError(
                "A one-dimensional recalibrator is fitted from a table of one group; this one "
                f"has {table.n_groups:,}. Count each class on its own."
            )
        used = table.sum_w[0] > 0
        w, wy, wp = table.sum_w[0][used], table.sum_y[0][used], table.sum_p[0][used]
        size = float(w.sum() ** 2 / table.sum_ww[0].sum())
        scale = size / w.sum()
        level = table.level[0][used]
        values = np.where(np.isnan(level), np.clip(wp / w, 0.0, 1.0), level)
        return cls(values, np.minimum(wy, w) * scale, w * scale, size).distinct()

    @property
    def weight(self) -> FloatArray:
        """The weight of each score, also where all are 1."""
        return np.ones_like(self.values) if self.weights is None else self.weights

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.values.size) if self.weights is None else float(self.weights.sum())

    @property
    def event_rate(self) -> float:
        """The weighted share of events."""
        return float(self.events.sum()) / self.total

    def distinct(self) -> Scores:
        """Return the distinct scores in rising order, each with its summed weights."""
        keys = self.sorted_keys()
        if keys is None:
            order = np.argsort(self.values)
            values, events, weights = self.values[order], self.events[order], self.weight[order]
        elif compiles():
            return self._distinct_of_keys(keys)
        else:
            values, weights = scores_of_keys(keys), None
            events = (keys & np.uint64(1)).astype(np.float64)
        first = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
        if weights is None:
            if first.size == values.size:
                return Scores(values, events, None, self.size)
            summed = np.diff(np.append(first, values.size)).astype(np.float64)
        else:
            summed = np.add.reduceat(weights, first)
        return Scores(values[first], np.add.reduceat(events, first), summed, self.size)

    def sorted_keys(self) -> AnyArray | None:
        """Return single rows in rising order, each as twice the bits of its score plus its label.

        Floats >= 0 rise as their bits do, and leave the sign bit free. None where rows have
        weights or scores are negative.
        """
        if self.weights is not None or (self.values.size and self.values.min() < 0):
            return None
        keys = (self.values + 0.0).view(np.uint64)
        keys <<= np.uint64(1)
        keys |= self.events > 0
        keys.sort()
        return keys

    def _distinct_of_keys(self, keys: AnyArray) -> Scores:
        from calibrant import _kernels

        events, counts = np.empty(keys.size), np.empty(keys.size)
        n = _kernels.distinct_scores(keys, events, counts)
        weights = None if n == keys.size else counts[:n]
        return Scores(keys[:n].view(np.float64), events[:n], weights, self.size)

    def compressed(self) -> Scores:
        """Return the distinct scores where that shortens the work, else these scores."""
        n = self.values.size
        if n <= PROBE:
            return self.distinct()
        probe = np.sort(self.values[:: max(n // MOST_PROBES, 4)])
        # Of so few distinct scores, drawn at random, this share would have come before.
        draws = WORTH_SORTING * probe.size / n
        expected = 1 - (1 - np.exp(-draws)) / draws
        return self.distinct() if (np.diff(probe) == 0).mean() > expected else self

    def thinned(self, n: int) -> Scores:
        """Return about n scores at equal steps through the rows."""
        return self.rows(slice(None, None, max(1, self.values.size // n)))

    def rows(self, part: slice) -> Scores:
        """Return the rows of a slice; the size is that of all rows."""
        weights = None if self.weights is None else self.weights[part]
        return Scores(self.values[part], self.events[part], weights, self.size)

    def take(self, index: BoolArray) -> Scores:
        """Return these rows; the weights keep their scale."""
        weights = None if self.weights is None else self.weights[index]
        share = index.sum() / index.size
        return Scores(self.values[index], self.events[index], weights, self.size * share)

    def replace_values(self, values: FloatArray) -> Scores:
        """Return the same rows with other scores."""
        return Scores(values, self.events, self.weights, self.size)

    def with_one_label(self) -> Scores:
        """Split scores that have both labels in two, one with the weight of each."""
        misses = np.maximum(self.weight - self.events, 0.0)
        if not ((self.events > 0) & (misses > 0)).any():
            return self
        values, weights = np.tile(self.values, 2), np.concatenate((self.events, misses))
        events = np.concatenate((self.events, np.zeros_like(misses)))
        used = weights > 0
        return Scores(values[used], events[used], weights[used], self.size)

    def with_platt_targets(self) -> Scores:
        """Move labels to ``(N1 + 1) / (N1 + 2)`` and ``1 / (N0 + 2)`` (Platt, 1999)."""
        w = self.weight
        n1 = float(self.events.sum())
        n0 = max(float(w.sum()) - n1, 0.0)
        high, low = (n1 + 1) / (n1 + 2), 1 / (n0 + 2)
        return Scores(self.values, self.events * (high - low) + w * low, w, self.size)

    def with_pseudo_rows(self, n: float) -> Scores:
        """Mix the labels with n pseudo-rows, half of either label: a 0 may be wrong next time."""
        w = self.weight
        events = (self.size * self.events + w * (n / 2)) / (self.size + n)
        return Scores(self.values, events, w, self.size)

    @property
    def is_separated(self) -> bool:
        """Whether a threshold divides events from the rest, ties at the threshold allowed."""
        if self.values.size > PROBE // 2 and not self.thinned(1000).is_separated:
            return False
        happened, failed = self.events > 0, self.weight > self.events
        z1, z0 = self.values[happened], self.values[failed]
        if z1.size == 0 or z0.size == 0:
            return True
        return bool(z1.min() >= z0.max() or z0.min() >= z1.max())


def scores_of_keys(keys: AnyArray) -> FloatArray:
    """Return the scores of `Scores.sorted_keys`."""
    return (keys >> np.uint64(1)).view(np.float64)


def mean_loss(eta: FloatArray, scores: Scores, loss: Loss = "log") -> float:
    """Return the mean log loss or squared error of ``sigma(eta)``."""
    if loss == "squared":
        return identity_loss(scores.replace_values(sigmoid(eta)), "squared")
    return max(_sum_by_pieces(_log_loss, scores.replace_values(eta)) / scores.total, 0.0)


def identity_loss(scores: Scores, loss: Loss = "log") -> float:
    """Return the mean log loss or squared error of the scores themselves."""
    lost = _squared_error if loss == "squared" else _log_loss_of_probabilities
    return _sum_by_pieces(lost, scores) / scores.total


def _sum_by_pieces(lost: Callable[[Scores], float], scores: Scores) -> float:
    """Add up a loss, from all cores."""
    sums = in_pieces(scores.values.size, PIECE_ROWS, lambda part: lost(scores.rows(part)))
    return float(np.sum(sums))


def _log_loss(logits: Scores) -> float:
    """Return the summed log loss of ``sigma(values)``."""
    eta = logits.values
    softplus = np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
    return float((logits.weight * softplus - logits.events * eta).sum())


def _squared_error(scores: Scores) -> float:
    p, events, w = scores.values, scores.events, scores.weights
    square = dot(p, p) if w is None else dot(p * p, w)
    return square - 2 * dot(events, p) + float(events.sum())


def _log_loss_of_probabilities(scores: Scores) -> float:
    p, events, w = scores.values, scores.events, scores.weights
    with np.errstate(divide="ignore"):
        if w is None:
            return -float(np.log(np.abs(events + p - 1)).sum())
        happened, failed = -np.log(p), -np.log1p(-p)
    misses = np.maximum(w - events, 0.0)
    happened[events == 0], failed[misses == 0] = 0.0, 0.0
    return dot(events, happened) + dot(misses, failed)


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the inner product, without the threads that BLAS starts for every short vector."""
    return float(np.einsum("i,i->", a, b))


@dataclass(frozen=True)
class FitResult:
    """The outcome of a fit.

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
        "less accurate", "weighted".
    """

    converged: bool = True
    iterations: int = 0
    loss: float = float("nan")
    loss_identity: float = float("nan")
    flags: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"{'converged' if self.converged else 'stopped'} after {self.iterations:,} steps"
        losses = f"mean loss {self.loss_identity:.4f} before, {self.loss:.4f} after"
        return ", ".join([head, losses, *self.flags])

    @classmethod
    def of_all(cls, results: Iterable[FitResult]) -> FitResult:
        """Sum up several fits: mean losses, most iterations, all flags."""
        fits = list(results)
        return cls(
            all(result.converged for result in fits),
            max(result.iterations for result in fits),
            float(np.mean([result.loss for result in fits])),
            float(np.mean([result.loss_identity for result in fits])),
            tuple(sorted({flag for result in fits for flag in result.flags})),
        )


@dataclass(frozen=True, repr=False)
class ResolutionReport(Result):
    """Ranking and resolution before and after recalibrating.

    Attributes
    ----------
    auc_before, auc_after : float
        The chance that an event was ranked above a non-event, ties counting half; NaN if all
        rows have one label.
    outputs_before, outputs_after : int
        How many distinct predictions there are.
    brier_before, brier_after : float
        The Brier score.
    coarseness_cost : float
        The part of the Brier score that is due to coarse outputs: the mean variance, among
        rows with the same output, of the map before binning (the scaler's output of a
        `ScalingBinning`, else the prediction itself).
    """

    auc_before: float
    auc_after: float
    outputs_before: int
    outputs_after: int
    brier_before: float
    brier_after: float
    coarseness_cost: float

    def __str__(self) -> str:
        return (
            f"AUC {self.auc_before:.4f} -> {self.auc_after:.4f}, "
            f"outputs {self.outputs_before:,} -> {self.outputs_after:,}, "
            f"Brier {self.brier_before:.5f} -> {self.brier_after:.5f}\n"
            f"  of the Brier score, {self.coarseness_cost:.5f} is due to coarse outputs"
        )


def resolution_report(
    recalibrator: Recalibrator, y_prob: Any, y_true: Any, sample_weight: Any = None
) -> ResolutionReport:
    """Report AUC, number of outputs and Brier score before and after a fitted recalibrator.

    If the map before binning is calibrated, binning raises the Brier score by exactly the mean
    variance within bins; that is the cost of coarseness.

    Examples
    --------
    >>> from calibrant.recalibrators import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=5000)
    >>> y = rng.uniform(size=5000) < p**2
    >>> binned = ScalingBinning(bins=20).fit(p[:2000], y[:2000])
    >>> print(resolution_report(binned, p[2000:], y[2000:]))
    AUC 0.8763 -> 0.8756, outputs 3,000 -> 20, Brier 0.16603 -> 0.13377
      of the Brier score, 0.00028 is due to coarse outputs
    """
    if isinstance(recalibrator, type) or getattr(recalibrator, "_reads", "classes") in SEVERAL:
        raise InvalidArgumentError(
            "resolution_report reads recalibrators of one score; apply it to the parts of a "
            f"{type(recalibrator).__name__}."
        )
    rows = read_again(recalibrator, y_prob, y_true, sample_weight)
    codes, scores = rows.codes(), rows.predictions.astype(np.float64)
    before = sigmoid(scores) if recalibrator.input == "logits" else scores
    after = recalibrator._apply(scores)
    scaler = getattr(recalibrator, "scaler_", None)  # of a `ScalingBinning`
    smooth = before if scaler is None else scaler._apply(scores)
    w = np.ones(codes.size) if rows.weights is None else rows.weights

    def brier(probs: FloatArray) -> float:
        return float(np.average((probs - codes) ** 2, weights=w))

    def auc(probs: FloatArray) -> float:
        has_both = np.unique(codes[w > 0]).size == 2
        return float(roc_auc_score(codes, probs, sample_weight=w)) if has_both else float("nan")

    # The mean variance of the map before binning among rows with equal outputs.
    _, group = np.unique(recalibrator._answers(scores), return_inverse=True)
    weight = np.bincount(group, w)
    mean = np.bincount(group, w * smooth) / np.where(weight > 0, weight, 1.0)
    return ResolutionReport(
        auc(before),
        auc(after),
        np.unique(before).size,
        np.unique(after).size,
        brier(before),
        brier(after),
        float(np.average((smooth - mean[group]) ** 2, weights=w)),
    )
