"""Vector and matrix scaling with structured regularisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from calibrant._options import is_real
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import (
    ClassRows,
    curvature,
    map_rows,
    own_values,
    sums_of_blocks,
)
from calibrant.recalibrators.formulas import (
    NUMPY,
    RowOperations,
    Smoothing,
    log_probabilities,
    may_keep,
)
from calibrant.recalibrators.optimise import minimise_loss
from calibrant.recalibrators.reading import INPUTS, Reads
from calibrant.recalibrators.scores import FitResult, dot
from calibrant.recalibrators.temperature import fit_row_temperature, smoothed_rows

PRODUCT_VALUES = 1 << 21
"""Values in a block of rows that is multiplied by a large matrix. Such products bring their own
threads, which would fight with ours: few large blocks, one by one."""

SMALL_PRODUCT, SMALL_ROWS = 1 << 18, 8
"""OpenBLAS starts threads for products of more multiplications, which then spin between products:
on two cores 5,000 rows of 100 classes took four times as long. Where so many rows of a product stay
below that, rows are multiplied in runs of that length, and threads of our own share the runs."""

RUNS = 24
"""Runs of rows in a block: half a megabyte of 100 classes, and 8 blocks of 5,000 rows."""


class DiagonalWeights:
    """One weight for each class."""

    tolerance: ClassVar[float] = 1e-12

    def penalty(self, k: int) -> FloatArray:
        """Return the weight of the square of each parameter, times n: a row for each class."""
        return np.full((k, 2), float(k))

    def read(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weights and biases; each row holds changes of the weights, then the bias."""
        return 1 + parameters[:, 0], parameters[:, 1].copy()

    def scaled(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """Return rows times weights."""
        return z * weight

    def slope(self, residual: FloatArray, z: FloatArray) -> FloatArray:
        """Return the derivative in the weights, summed over rows."""
        return np.asarray(np.einsum("ij,ij->j", residual, z))

    def sums(
        self, shape: tuple[int, ...], block: Callable[[slice], tuple[Any, Any, Any]]
    ) -> list[Any]:
        """Add up the three terms of all blocks of rows."""
        return sums_of_blocks(shape, block)


class FullWeights:
    """A matrix of weights: row i makes class i."""

    tolerance: ClassVar[float] = 1e-9

    def penalty(self, k: int) -> FloatArray:
        """Return the weight of the square of each parameter, times n: a row for each class."""
        penalty = np.full((k, k + 1), k * (k - 1.0))
        np.fill_diagonal(penalty, float(k))
        penalty[:, k] = k
        return penalty

    def read(self, parameters: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return weights and biases; each row holds changes of the weights, then the bias."""
        return np.eye(len(parameters)) + parameters[:, :-1], parameters[:, -1].copy()

    def scaled(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """Return rows times weights."""
        runs, rest = _in_runs(z)
        parts = [(runs @ weight.T).reshape(-1, len(weight)), rest @ weight.T]
        return np.concatenate(parts) if len(rest) else np.asarray(parts[0])

    def slope(self, residual: FloatArray, z: FloatArray) -> FloatArray:
        """Return the derivative in the weights, summed over rows."""
        of_runs, of_rest = _in_runs(residual)
        runs, rest = _in_runs(z)
        return np.asarray((of_runs.transpose(0, 2, 1) @ runs).sum(axis=0) + of_rest.T @ rest)

    def sums(
        self, shape: tuple[int, ...], block: Callable[[slice], tuple[Any, Any, Any]]
    ) -> list[Any]:
        """Add up the three terms of all blocks of rows, whose size depends on k alone."""
        n, k = shape
        if run := _run_rows(k):
            parts = in_pieces(n, RUNS * run, block)
        else:
            size = max(1, PRODUCT_VALUES // k)
            parts = [block(slice(i, min(i + size, n))) for i in range(0, n, size)]
        return [sum(terms) for terms in zip(*parts, strict=True)]


def _run_rows(k: int) -> int:
    """Return how many rows of k classes are multiplied at a time; 0 for all."""
    rows = SMALL_PRODUCT // k**2
    return rows if rows >= SMALL_ROWS else 0


def _in_runs(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return rows as a stack of runs, and those that are left."""
    n, k = rows.shape
    run = _run_rows(k) or n
    whole = n // run * run if run else 0
    return rows[:whole].reshape(-1, max(run, 1), k), rows[whole:]


@dataclass(frozen=True, eq=False)
class LossSums:
    """Sums of the log loss over rows z with labels, whose weights add up to 1."""

    weights: DiagonalWeights | FullWeights
    z: FloatArray
    codes: IntArray
    w: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return sums of the curvature q, q z and q z^2 for each class, before any scaling."""

        def block(part: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
            z = self.z[part]
            p = np.exp(z)
            residual = p.copy()
            residual[np.arange(len(z)), self.codes[part]] -= 1
            q = curvature(p, residual) * self.w[part, None]
            return q.sum(axis=0), self.weights.slope(q, z), self.weights.slope(q, z**2)

        total, first, second = self.weights.sums(self.z.shape, block)
        k = len(total)
        return total, first.reshape(k, -1), second.reshape(k, -1)

    def slopes(self, weight: FloatArray, bias: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss and its derivatives in the biases and in the weights."""

        def block(part: slice) -> tuple[float, FloatArray, FloatArray]:
            z, w, codes = self.z[part], self.w[part], self.codes[part]
            scaled = self.weights.scaled(z, weight)
            scaled += bias
            scaled -= scaled.max(axis=1, keepdims=True)
            of_label = own_values(scaled, codes)
            np.exp(scaled, out=scaled)
            total = scaled.sum(axis=1)
            value = dot(w, np.log(total) - of_label)
            scaled *= (w / total)[:, None]
            scaled[np.arange(len(scaled)), codes] -= w
            return value, scaled.sum(axis=0), self.weights.slope(scaled, z)

        return tuple(self.weights.sums(self.z.shape, block))


def check_regularization(strength: object) -> None:
    """Refuse a strength that cannot multiply a penalty."""
    if not (is_real(strength) and 0 < float(strength) <= 1e100):  # type: ignore[arg-type]
        raise InvalidArgumentError(
            f"regularization must be above 0 and at most 1e100; got {strength!r:.60}. 1 is usual."
        )


class SoftmaxScaling(Recalibrator):
    """Maps ``softmax(W z + b)`` of rows, with z made of their log-probabilities by `_logs`."""

    _reads: ClassVar[Reads] = "classes"
    _choices = INPUTS
    _weights: ClassVar[DiagonalWeights | FullWeights]
    smoothing: Smoothing
    smoothing_: float
    weight_: FloatArray
    bias_: FloatArray

    def _logs(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        raise NotImplementedError

    def _loss_sums(self, rows: ClassRows) -> LossSums:
        """Return the log loss of linear maps of the log-probabilities of rows."""
        z = map_rows(rows.rows, partial(self._logs, NUMPY, learned=self))
        return LossSums(self._weights, z, rows.codes, rows.weights / rows.weights.sum())

    def _formula(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        if "kept identity" in self.fit_result_.flags:
            return ops.softmax(x) if self.input == "logits" else x
        z = self._logs(ops, x, learned)
        scaled = z * learned.weight_ if self.weight_.ndim == 1 else z @ learned.weight_.T
        return ops.softmax(scaled + learned.bias_)

    def _check_learned(self) -> None:
        k = self.classes_.size
        shape = (k,) if self._learned["weight_"] == "vector" else (k, k)
        if self.weight_.shape != shape or self.bias_.shape != (k,):
            raise ValueError(f"weight_ must have the shape {shape} and bias_ {(k,)}")


class _Structured(SoftmaxScaling):
    """Linear maps of tempered log-probabilities, mixed with a little of the uniform ones."""

    _constants: ClassVar[tuple[str, ...]] = ("temperature_", "mixing_", "weight_", "bias_")
    temperature_: float
    mixing_: float

    def __init__(
        self,
        regularization: float = 1.0,
        input: Input = "probabilities",
        smoothing: Smoothing = "auto",
    ) -> None:
        self.regularization = regularization
        self.input = input
        self.smoothing = smoothing

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self._fit_rows(ClassRows.of(probs, codes, weights, self.input))

    def _fit_rows(self, rows: ClassRows) -> None:
        rows = smoothed_rows(rows, self.smoothing)
        self.smoothing_ = rows.smoothing
        beta, _, flags, _ = fit_row_temperature(rows)
        self.temperature_, self.mixing_ = 1 / beta, 1 / (rows.size + 1)
        penalty = self.regularization * self._weights.penalty(rows.rows.shape[1]) / rows.size
        loss: LossSums | on_device.DeviceLoss
        if isinstance(rows, on_device.TensorRows):
            loss = on_device.DeviceLoss(rows, partial(self._logs, on_device.TORCH, learned=self))
        else:
            loss = self._loss_sums(rows)
        parameters, after, converged, iterations = minimise_loss(loss, self._weights, penalty)
        before = rows.loss()
        if not after <= before and may_keep(rows.extremes(), self.smoothing, self.input):
            self.smoothing_, self.temperature_, self.mixing_ = 0.0, 1.0, 0.0
            parameters, after, flags = np.zeros(penalty.shape), before, (*flags, "kept identity")
        self.weight_, self.bias_ = self._weights.read(parameters)
        self.fit_result_ = FitResult(converged, iterations, after, before, flags)

    def _logs(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        k = self.classes_.size
        z = x if self.input == "logits" else log_probabilities(ops, x, self.smoothing_, k)
        shares = ops.softmax(z / learned.temperature_)
        return ops.log(shares * (1 - learned.mixing_) + learned.mixing_ / k)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_regularization(self.regularization)

    def _check_learned(self) -> None:
        super()._check_learned()
        if not 0 <= self.mixing_ < 1:
            raise ValueError("mixing_ must lie in [0, 1)")


class VectorScaling(_Structured):
    r"""Fit ``softmax((1 + v) z + b)``, one scale and one bias for each class.

    Here z are the log-probabilities after temperature scaling, mixed with ``1 / (n + 1)`` of
    the uniform distribution, and the penalty ``(K / n) (|v|^2 + |b|^2)`` pulls towards that
    (structured scaling, Berta et al., 2025). A class without rows keeps a finite answer.

    Parameters
    ----------
    regularization : float
        Multiplies the penalty; above 0.
    input : {"probabilities", "logits"}
    smoothing : float or "auto"
        See `TemperatureScaling`.

    Attributes
    ----------
    smoothing_ : float
        The share of the uniform distribution that is mixed in before tempering.
    temperature_ : float
    mixing_ : float
        The share of the uniform distribution in z.
    weight_ : ndarray
        ``1 + v``, of shape (K,).
    bias_ : ndarray
        b, of shape (K,).

    See Also
    --------
    TemperatureScaling : one number, and the predicted class stays.
    MatrixScaling : classes can borrow from each other.

    Notes
    -----
    With the tempered log-probabilities z of a row with label y, it minimises

    .. math::

        -\frac1n \sum_i \log \mathrm{softmax}\left( (1 + v) z_i + b \right)_{y_i}
        + r \, \frac{K}{n} \left( |v|^2 + |b|^2 \right),

    with r the parameter `regularization`, which multiplies the penalty.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML. Berta et
    al. (2025), on structured scaling, for the penalty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 3))
    >>> y = (z + [1, 0, 0] + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> VectorScaling(input="logits").fit(z, y).bias_.round(1)
    array([ 0.4, -0.3, -0.1])
    """

    _learned: ClassVar[dict[str, str]] = {
        "smoothing_": "share",
        "temperature_": "positive",
        "mixing_": "number",
        "weight_": "vector",
        "bias_": "vector",
    }
    _weights = DiagonalWeights()

    def _learn_tensors(self, tensors: Tensors) -> bool:
        self._fit_rows(on_device.TensorRows.of_tensors(tensors))
        return True


class MatrixScaling(_Structured):
    """Fit ``softmax((I + W) z + b)``, in which classes can borrow from each other.

    As `VectorScaling`; the off-diagonal entries of W have the stronger penalty
    ``(K (K - 1) / n) |W_off|^2``, so that the K^2 parameters do not overfit.

    Parameters
    ----------
    regularization, input, smoothing
        As in `VectorScaling`.

    Attributes
    ----------
    weight_ : ndarray
        ``I + W``, of shape (K, K): row i makes class i.

    See Also
    --------
    VectorScaling : W is diagonal there, which takes fewer rows.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger (2017), On calibration of modern neural networks, ICML. Berta et
    al. (2025), on structured scaling, for the penalty.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> MatrixScaling(input="logits").fit(z, y).weight_.shape
    (3, 3)
    """

    _learned: ClassVar[dict[str, str]] = {**VectorScaling._learned, "weight_": "matrix"}
    _weights = FullWeights()
