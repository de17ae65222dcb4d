"""Rows of several classes: their log-scores, their softmax, and its log loss.

Rows are read in blocks that fit the processor's cache, from all cores, so no second table of
their size is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.problem import Input
from calibrant.recalibrators.formulas import CLIP, NUMPY, log_probabilities
from calibrant.recalibrators.scores import dot

BLOCK_VALUES = 1 << 16
"""Values in a block of rows: 512 KB as float64, which a core's cache holds."""
PARTS = 64
"""Pieces that cores share. Their number is fixed, so that sums do not depend on the cores."""
FLOOR = 1e-8
"""The least share of the curvature that a variable keeps beside the mean's direction."""
LEAST = 1e-30
"""Keeps a root finite where a variable has no curvature at all."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ClassRows:
    """Probabilities or logits (n, K) with labels and weights above 0, and how to smooth them."""

    rows: AnyArray
    codes: IntArray
    weights: FloatArray
    kind: Input
    smoothing: float = 0.0

    @classmethod
    def of(
        cls, rows: AnyArray, codes: IntArray, weights: FloatArray | None, kind: Input
    ) -> ClassRows:
        """Leave rows of weight zero out."""
        if weights is None:
            return cls(rows, codes, np.ones(len(codes)), kind)
        used = weights > 0
        return cls(rows[used], codes[used], weights[used] / weights.max(), kind)

    @property
    def size(self) -> float:
        """The effective number of rows, ``(sum w)^2 / sum w^2``."""
        return float(self.weights.sum() ** 2 / dot(self.weights, self.weights))

    @property
    def n_values(self) -> int:
        """The number of predictions."""
        return int(self.rows.size)

    def every(self, step: int) -> ClassRows:
        """Return one row in `step`."""
        cut = slice(None, None, step)
        return replace(self, rows=self.rows[cut], codes=self.codes[cut], weights=self.weights[cut])

    def with_absent_classes(self) -> ClassRows:
        """Add the mean row for each class without rows; all of these weigh as much as one row."""
        seen = np.bincount(self.codes, minlength=self.rows.shape[1])
        absent = np.flatnonzero(seen == 0)
        if absent.size == 0:
            return self
        mean = np.average(self.rows.astype(np.float64), axis=0, weights=self.weights)
        return replace(
            self,
            rows=np.concatenate([self.rows, np.tile(mean, (absent.size, 1))]),
            codes=np.concatenate([self.codes, absent]),
            weights=np.concatenate([self.weights, np.full(absent.size, 1 / absent.size)]),
        )

    def centred(self, part: slice) -> FloatArray:
        """Return log-scores of a block, with the largest of each row moved to 0."""
        z = self._log_scores(self.rows[part])
        z -= z.max(axis=1, keepdims=True)
        return z

    def _log_scores(self, values: AnyArray) -> FloatArray:
        """Return smoothed log-probabilities, or the logits themselves."""
        values = values.astype(np.float64)
        if self.kind == "logits":
            return values
        share, n_classes = self.smoothing, self.rows.shape[1]
        return np.asarray(log_probabilities(NUMPY, values, share, n_classes))

    def extremes(self) -> AnyArray:
        """Return predictions, among them any 0 and the least above: all of them."""
        return self.rows

    def mean_scores(self) -> FloatArray:
        """Return the mean log-score of each row, less the largest."""
        means = in_blocks(self.rows.shape, lambda part: self.centred(part).mean(axis=1))
        return np.concatenate(means)

    def own(self) -> FloatArray:
        """Return how far the log-score of the label is below the largest of its row."""

        def block(part: slice) -> FloatArray:
            top = self._log_scores(self.rows[part].max(axis=1))
            return self._log_scores(own_values(self.rows[part], self.codes[part])) - top

        return np.concatenate(in_blocks(self.rows.shape, block))

    def loss(self) -> float:
        """Return the mean log loss of the rows as they came; infinite where a label had 0."""
        if self.kind == "logits":
            return self.softmax_sums(1.0, self.own())[0]
        with np.errstate(divide="ignore"):
            lost = -np.log(own_values(self.rows, self.codes).astype(np.float64))
        return float(np.average(lost, weights=self.weights))

    def softmax_sums(self, beta: float, own: FloatArray) -> tuple[float, float, float]:
        """Return the mean log loss of ``softmax(beta z)`` and its derivatives in beta.

        `own` is the log-score of the label, or a mixture of all that stands for it.
        """

        def block(part: slice) -> tuple[float, float, float]:
            z, w = self.centred(part), self.weights[part]
            total, mean, spread = _moments(z, beta)
            lost = np.log(total) - beta * own[part]
            return dot(w, lost), dot(w, mean - own[part]), dot(w, spread)

        lost, first, second = sums_of_blocks(self.rows.shape, block)
        n = float(self.weights.sum())
        return max(lost / n, 0.0), first / n, second / n


def _moments(z: FloatArray, beta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the total of ``exp(beta z)`` of each row, and mean and variance of z under it."""
    share = beta * z
    np.exp(share, out=share)
    total = share.sum(axis=1)
    share *= z
    mean = share.sum(axis=1) / total
    square = np.einsum("ij,ij->i", share, z) / total
    return total, mean, square - mean**2


def own_values(rows: AnyArray, codes: IntArray) -> AnyArray:
    """Return the entry of each row in the column of its label."""
    return np.asarray(rows[np.arange(len(codes)), codes])


def map_rows(rows: AnyArray, work: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Apply `work` to a column or a table, block by block."""
    out = np.empty(rows.shape)

    def write(part: slice) -> None:
        with np.errstate(over="ignore"):  # of the largest logits: their answers are 0 and 1
            out[part] = work(rows[part].astype(np.float64))

    in_blocks(rows.shape, write)
    return out


def in_blocks(shape: tuple[int, ...], work: Callable[[slice], T]) -> list[T]:
    """Apply `work` to each block of rows that fits the processor's cache."""
    return in_pieces(shape[0], block_rows(shape), work)


def block_rows(shape: tuple[int, ...]) -> int:
    """Return how many rows of a table fit the processor's cache."""
    return max(1, BLOCK_VALUES // shape[1]) if len(shape) > 1 else BLOCK_VALUES


def sums_of_blocks(
    shape: tuple[int, ...], work: Callable[[slice], tuple[Any, Any, Any]]
) -> list[Any]:
    """Add up the three terms that `work` returns for each block, in few large parts of the table.

    The parts are the same on any number of cores, and only their sums are kept.
    """
    n, size = shape[0], block_rows(shape)
    large = size * -(-n // (size * PARTS))

    def add_up(part: slice) -> list[Any]:
        total: list[Any] = [0.0, 0.0, 0.0]
        for start in range(part.start, part.stop, size):
            terms = work(slice(start, min(start + size, part.stop)))
            total = [a + b for a, b in zip(total, terms, strict=True)]
        return total

    return [sum(terms) for terms in zip(*in_pieces(n, large, add_up), strict=True)]


def squared_errors(probs: FloatArray, codes: IntArray) -> FloatArray:
    """Return the Brier score of each row: summed over classes, and averaged over labels."""
    if codes.ndim == 2:
        return np.asarray(((probs - codes) ** 2).mean(axis=1))
    if probs.ndim == 1:
        return np.asarray((probs - codes) ** 2)
    return np.asarray(np.einsum("ij,ij->i", probs, probs) - 2 * own_values(probs, codes) + 1)


def log_losses(probs: FloatArray, codes: IntArray) -> FloatArray:
    """Return the log loss of each row; an answer of 0 for what happened costs as much as CLIP."""
    p_of_label = np.abs(codes + probs - 1) if probs.ndim == 1 else own_values(probs, codes)
    return np.asarray(-np.log(np.maximum(p_of_label, CLIP)))


def fold_of_rows(codes: IntArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Return the fold of each row; every class is spread evenly."""
    order = rng.permutation(codes.size)
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(codes.size, np.intp)
    fold[order] = np.arange(codes.size) % n_folds
    return fold


def curvature(p: Any, residual: Any) -> Any:
    """Return the curvature of the log loss that is expected at the optimum.

    Where a fit begins it is ``p (1 - p)``: next to none in rows that an overconfident model has
    wrong, which gain it as they are corrected, so that steps overshoot. At the optimum squared
    residuals have the same mean, and before it they tell where it will be. Three parts of them to
    one take 16 evaluations for 5,000 overconfident rows of 100 classes, ``p (1 - p)`` alone 28;
    residuals alone take 16 too, but 35 instead of 29 where a class of thirty has no rows.
    """
    return (p * (1 - p) + 3 * residual**2) / 4


@dataclass(frozen=True, eq=False)
class RankOnePlusDiagonal:
    """A change of variables in which the loss of a linear map of classes is nearly round.

    L-BFGS takes a hundred steps where scales differ: log-probabilities have a mean far from 0,
    which ties every weight to the bias of its class, and penalties differ a hundredfold. Between
    the parameters of one class, with features f (log-probabilities and a constant) and `curvature`
    q, the Hessian is ``sum q f f^T`` plus the penalty. Its diagonal and the
    direction of the mean feature hold nearly all of it: ``H = D + u u^T``, with D the variances
    and twice the penalties, and ``u = sum q f / sqrt(sum q)``. In the variables ``H^(1/2) x`` one
    or two dozen steps do, for any number of classes.

    Kept as ``R^-1 (I + v v^T) R^-1`` for each class; all rows are classes.

    Attributes
    ----------
    root : ndarray of shape (K, d)
        R, ``1 / sqrt(D)``.
    direction : ndarray of shape (K, d)
        v, ``R u``.
    bend : ndarray of shape (K, 1)
        ``(I + v v^T)^(-1/2) = I + bend v v^T``.
    """

    root: FloatArray
    direction: FloatArray
    bend: FloatArray

    @classmethod
    def of_moments(
        cls, total: FloatArray, first: FloatArray, second: FloatArray, penalty: FloatArray
    ) -> RankOnePlusDiagonal:
        """Take ``sum q`` (K,), ``sum q z`` and ``sum q z^2`` (K, d - 1), and the penalty (K, d)."""
        total = np.maximum(total, np.finfo(np.float64).tiny)[:, None]
        diagonal = 2 * penalty
        diagonal[:, :-1] += np.maximum(second - first**2 / total, 0.0)
        mean = np.hstack((first / np.sqrt(total), np.sqrt(total)))
        # Penalties may be as good as nothing; any floor is a valid change of variables.
        diagonal = np.maximum(diagonal, FLOOR * (diagonal + mean**2))
        root = 1 / np.sqrt(np.maximum(diagonal, LEAST))
        direction = root * mean
        square = np.einsum("ij,ij->i", direction, direction)[:, None]
        bend = (1 / np.sqrt(1 + square) - 1) / np.maximum(square, np.finfo(np.float64).tiny)
        return cls(root, direction, bend)

    def to_parameters(self, x: FloatArray) -> FloatArray:
        """Return the parameters (K, d) that round variables stand for."""
        return np.asarray(self.root * self._bent(x))

    def to_slopes(self, gradient: FloatArray) -> FloatArray:
        """Return the gradient in the round variables, from that in the parameters."""
        return self._bent(self.root * gradient)

    def _bent(self, x: FloatArray) -> FloatArray:
        along = np.einsum("ij,ij->i", self.direction, x)[:, None]
        return np.asarray(x + self.bend * along * self.direction)
