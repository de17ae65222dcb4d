"""Formulas: every map from predictions to answers, written once.

A recalibrator states its map as `Recalibrator._formula`, by arithmetic and the few operations of
`Operations`. NumPy evaluates it for `predict_proba`; SQL, a data frame's engine and torch evaluate
the very same text for the exports, which therefore cannot disagree with `predict_proba`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import count_below
from calibrant.problem import sigmoid, softmax

CLIP = 1e-12
"""How far scores are kept from 0 and 1 where nothing is mixed in."""


class Operations(Protocol):
    """What formulas of one score need besides arithmetic; x stands for a column."""

    target: str

    def log(self, x: Any) -> Any:
        """Return the natural logarithm."""

    def log_complement(self, x: Any) -> Any:
        """Return ``log(1 - x)``."""

    def sigmoid(self, x: Any) -> Any:
        """Return ``1 / (1 + exp(-x))``, for any x."""

    def clip(self, x: Any, low: float | None, high: float | None) -> Any:
        """Return x, kept within the two limits."""

    def factor(self, x: Any) -> Any:
        """Return x such that no product with a coefficient underflows or overflows."""

    def steps(self, x: Any, cuts: Any, levels: Any) -> Any:
        """Return ``levels[i]`` with i the number of cuts strictly below x."""


class RowOperations(Operations, Protocol):
    """What formulas of several classes need too; x stands for a table with a row each."""

    def softmax(self, x: Any) -> Any:
        """Return the softmax of each row."""

    def where(self, condition: Any, x: Any, otherwise: Any) -> Any:
        """Return x where the condition holds, else the other."""

    def sums(self, x: Any) -> Any:
        """Return the sum of each row, as a column of a table."""

    def largest(self, x: Any) -> Any:
        """Return the largest entry of each row, as a column of a table."""

    def top(self, x: Any) -> tuple[Any, Any]:
        """Return the largest entry of each row and its column, the first of several."""

    def put(self, x: Any, top: Any, value: Any) -> Any:
        """Return the rows with other entries in the columns `top`."""

    def side_by_side(self, columns: Sequence[Any]) -> Any:
        """Return columns as a table."""

    def answers(self, part: Any, x: Any) -> Any:
        """Return what a part, such as the recalibrator of one class, answers."""

    def answers_at(self, where: Any, part: Any, x: Any, otherwise: Any) -> Any:
        """Return what a part answers where the condition holds, else the other."""


class _NumPy:
    """The operations on arrays of float64."""

    target = "NumPy"

    def log(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log(x))

    def log_complement(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(-x))

    def sigmoid(self, x: FloatArray) -> FloatArray:
        return sigmoid(x)

    def clip(self, x: FloatArray, low: float | None, high: float | None) -> FloatArray:
        return np.asarray(np.clip(x, low, high))

    def factor(self, x: FloatArray) -> FloatArray:
        return x

    def steps(self, x: FloatArray, cuts: FloatArray, levels: FloatArray) -> FloatArray:
        return np.asarray(levels[count_below(cuts, x)])

    def softmax(self, x: FloatArray) -> FloatArray:
        return softmax(x)

    def where(self, condition: AnyArray, x: Any, otherwise: Any) -> FloatArray:
        return np.asarray(np.where(condition, x, otherwise))

    def sums(self, x: FloatArray) -> FloatArray:
        return np.asarray(x.sum(axis=1, keepdims=True))

    def largest(self, x: FloatArray) -> FloatArray:
        return np.asarray(x.max(axis=1, keepdims=True))

    def top(self, x: AnyArray) -> tuple[FloatArray, IntArray]:
        top = x.argmax(axis=1)
        return x[np.arange(len(top)), top].astype(np.float64), top

    def put(self, x: FloatArray, top: IntArray, value: Any) -> FloatArray:
        out = x.copy()
        out[np.arange(len(top)), top] = value
        return out

    def side_by_side(self, columns: Sequence[FloatArray]) -> FloatArray:
        return np.column_stack(columns)

    def answers(self, part: Any, x: AnyArray) -> FloatArray:
        return np.asarray(part._apply(x))

    def answers_at(
        self, where: AnyArray, part: Any, x: AnyArray, otherwise: FloatArray
    ) -> FloatArray:
        if where.any():
            otherwise = otherwise.copy()
            otherwise[where] = part._apply(x[where])
        return otherwise


NUMPY: RowOperations = _NumPy()


def both_sides(ops: Operations, p: Any, share: float) -> tuple[Any, Any]:
    """Return the probabilities of an event and of its absence, away from 0 and 1.

    With a share of the even distribution mixed in; without one, clipped. ``p + (0.5 - p) share``
    is ``(1 - share) p + share / 2`` without a product that underflows, which PostgreSQL answers
    with an error.
    """
    if not share:
        p = ops.clip(p, CLIP, 1 - CLIP)
        return p, 1 - p
    return p + (0.5 - p) * share, (1 - p) + (0.5 - (1 - p)) * share


def log_odds(ops: Operations, p: Any, share: float = 0.0) -> Any:
    """Return the log-odds of smoothed probabilities or, without a share, of clipped ones."""
    happens, fails = both_sides(ops, p, share)
    return ops.log(happens / fails)


def log_probabilities(ops: Operations, p: Any, share: float, n_classes: int) -> Any:
    """Return log-probabilities, smoothed or, without a share, kept above log(1e-12)."""
    return ops.log(p + (1 / n_classes - p) * share if share else ops.clip(p, CLIP, None))


def linear(coef: Any, features: Sequence[Any] | FloatArray) -> Any:
    """Return the combination of features plus the last coefficient, the intercept."""
    eta = features[0] * coef[0]
    for i, feature in enumerate(features[1:], start=1):
        eta = eta + feature * coef[i]
    return eta + coef[len(features)]
