"""Vector and matrix scaling with structured regularisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize

from calibrant._options import is_real
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Input, Kind, softmax
from calibrant.recalibrators.base import Recalibrator, check_choice
from calibrant.recalibrators.logistic import dot
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.preconditioning import RankOnePlusDiagonal
from calibrant.recalibrators.rows import (
    ClassRows,
    in_blocks,
    log_scores,
    own_values,
    sums_of_blocks,
)
from calibrant.recalibrators.smoothing import Smoothing, check_smoothing, may_keep
from calibrant.recalibrators.temperature import fit_row_temperature, smoothed_rows

PRODUCT_VALUES = 1 << 21
"""Values in a block of rows that is multiplied by a matrix. Products bring their own threads, which
would fight with ours, and wait for each other at the end of each: few large blocks, one by one."""

SMALL_PRODUCT, SMALL_ROWS = 1 << 18, 64
"""OpenBLAS starts threads for products of more multiplications. Where a block of that size still
has this many rows, short blocks are as fast, and 16 times as fast where cores are rationed."""


class VectorScaling(Recalibrator):
    """Fit ``softmax((1 + v) z + b)``, one scale and one bias for each class.

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
    smoothing_: float
    temperature_: float
    mixing_: float
    weight_: FloatArray
    bias_: FloatArray

    def __init__(
        self,
        regularization: float = 1.0,
        input: Input = "probabilities",  # noqa: A002
        smoothing: Smoothing = "auto",
    ) -> None:
        self.regularization = regularization
        self.input = input
        self.smoothing = smoothing

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        if len(shape) == 1 or shape[1] == 1:
            raise InvalidShapeError(
                f"{type(self).__name__} needs one column for each class; got shape {shape}. "
                "For one event use PlattScaling, which has a scale and a bias too."
            )
        return "top-label"

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        rows = smoothed_rows(ClassRows.of(probs, codes, weights, self.input), self.smoothing)
        self.smoothing_ = rows.smoothing
        beta, _, flags, _ = fit_row_temperature(rows)
        self.temperature_, self.mixing_ = 1 / beta, 1 / (rows.size + 1)
        converged, iterations, after = self._minimise(rows)
        before = rows.loss()
        if not after <= before and may_keep(rows.rows, self.smoothing, self.input):
            self._set_identity(self.classes_.size)
            after, flags = before, (*flags, "kept identity")
        self.fit_result_ = FitReport(converged, iterations, after, before, flags)

    def _mixed(self, rows: AnyArray) -> FloatArray:
        """Return the log-probabilities of the tempered, mixed distribution."""
        z = log_scores(rows, self.input, self.smoothing_, rows.shape[1])
        mixed = softmax(z / self.temperature_) * (1 - self.mixing_)
        mixed += self.mixing_ / rows.shape[1]
        return np.asarray(np.log(mixed, out=mixed))

    def _all_mixed(self, rows: AnyArray) -> FloatArray:
        out = np.empty(rows.shape)

        def write(part: slice) -> None:
            out[part] = self._mixed(rows[part])

        in_blocks(rows.shape, write)
        return out

    def _minimise(self, rows: ClassRows) -> tuple[bool, int, float]:
        """Minimise the penalised loss by L-BFGS; return (converged, iterations, loss)."""
        z, codes, w = self._all_mixed(rows.rows), rows.codes, rows.weights / rows.weights.sum()
        penalty = self.regularization * self._penalty(z.shape[1]) / rows.size
        round_variables = RankOnePlusDiagonal.of_moments(*self._moments(z, w), penalty)

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            parameters = round_variables.to_parameters(x.reshape(penalty.shape))
            self._set(parameters)
            value, bias, slope = self._slopes(z, codes, w)
            gradient = np.column_stack((slope, bias)) + 2 * penalty * parameters
            lost = value + float((penalty * parameters**2).sum())
            return lost, round_variables.to_slopes(gradient).ravel()

        found = minimize(
            objective,
            np.zeros(penalty.size),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500, "gtol": 1e-7, "ftol": 1e-12},
        )
        parameters = round_variables.to_parameters(found.x.reshape(penalty.shape))
        self._set(parameters)
        loss = max(float(found.fun) - float((penalty * parameters**2).sum()), 0.0)
        return bool(found.success), int(found.nit), loss

    def _penalty(self, k: int) -> FloatArray:
        """Return the weight of the square of each parameter, times n: a row for each class."""
        return np.full((k, 2), float(k))

    def _set(self, parameters: FloatArray) -> None:
        """Set weights and biases; each row holds changes of the weights, then the bias."""
        self.weight_, self.bias_ = 1 + parameters[:, 0], parameters[:, 1].copy()

    def _set_identity(self, k: int) -> None:
        self.smoothing_, self.temperature_, self.mixing_ = 0.0, 1.0, 0.0
        self._set(np.zeros(self._penalty(k).shape))

    def _moments(self, z: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return sums of ``q = p (1 - p)``, q z and q z^2 for each class, before any scaling."""

        def block(part: slice) -> tuple[FloatArray, FloatArray, FloatArray]:
            p = np.exp(z[part])
            q = p * (1 - p) * w[part, None]
            return (
                q.sum(axis=0),
                self._weight_slope(q, z[part]),
                self._weight_slope(q, z[part] ** 2),
            )

        total, first, second = self._sums(z.shape, block)
        k = len(total)
        return total, first.reshape(k, -1), second.reshape(k, -1)

    def _slopes(
        self, z: FloatArray, codes: IntArray, w: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Return the loss and its derivatives in the biases and in the weights."""

        def block(part: slice) -> tuple[float, FloatArray, FloatArray]:
            scaled = self._scaled(z[part])
            scaled -= scaled.max(axis=1, keepdims=True)
            own = own_values(scaled, codes[part])
            np.exp(scaled, out=scaled)
            total = scaled.sum(axis=1)
            value = dot(w[part], np.log(total) - own)
            scaled *= (w[part] / total)[:, None]
            scaled[np.arange(len(scaled)), codes[part]] -= w[part]
            return value, scaled.sum(axis=0), self._weight_slope(scaled, z[part])

        value, bias, slope = self._sums(z.shape, block)
        return value, bias, slope

    def _sums(
        self, shape: tuple[int, ...], block: Callable[[slice], tuple[Any, Any, Any]]
    ) -> list[Any]:
        return sums_of_blocks(shape, block)

    def _scaled(self, z: FloatArray) -> FloatArray:
        scaled = z * self.weight_
        scaled += self.bias_
        return np.asarray(scaled)

    def _weight_slope(self, residual: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->j", residual, z))

    def _apply(self, probs: AnyArray) -> FloatArray:
        if "kept identity" in self.fit_result_.flags:
            rows = probs.astype(np.float64)
            return softmax(rows) if self.input == "logits" else rows
        out = np.empty(probs.shape)

        def write(part: slice) -> None:
            out[part] = softmax(self._scaled(self._mixed(probs[part])))

        in_blocks(probs.shape, write)
        return out

    def _check_parameters(self) -> None:
        check_choice("input", self.input, ("probabilities", "logits"))
        check_smoothing(self.smoothing, self.input)
        if not (is_real(self.regularization) and 0 < float(self.regularization) <= 1e100):
            raise InvalidArgumentError(
                "regularization must be above 0 and at most 1e100; "
                f"got {self.regularization!r:.60}."
            )

    def _check_learned(self) -> None:
        k = self.classes_.size
        wanted = (k,) if self._learned["weight_"] == "vector" else (k, k)
        if self.weight_.shape != wanted or self.bias_.shape != (k,):
            raise ValueError(f"weight_ must have the shape {wanted} and bias_ {(k,)}")
        if not 0 <= self.mixing_ < 1:
            raise ValueError("mixing_ must lie in [0, 1)")


class MatrixScaling(VectorScaling):
    """Fit ``softmax((I + W) z + b)``, in which classes can borrow from each other.

    As `VectorScaling`; the off-diagonal entries of W have the stronger penalty
    ``(K (K - 1) / n) |W_off|^2``, so that the K^2 parameters do not overfit.

    Attributes
    ----------
    weight_ : ndarray
        ``I + W``, of shape (K, K): row i makes class i.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(500, 3))
    >>> y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> MatrixScaling(input="logits").fit(z, y).weight_.shape
    (3, 3)
    """

    _learned: ClassVar[dict[str, str]] = {**VectorScaling._learned, "weight_": "matrix"}

    def _penalty(self, k: int) -> FloatArray:
        penalty = np.full((k, k + 1), k * (k - 1.0))
        np.fill_diagonal(penalty, float(k))
        penalty[:, k] = k
        return penalty

    def _set(self, parameters: FloatArray) -> None:
        self.weight_ = np.eye(len(parameters)) + parameters[:, :-1]
        self.bias_ = parameters[:, -1].copy()

    def _sums(
        self, shape: tuple[int, ...], block: Callable[[slice], tuple[Any, Any, Any]]
    ) -> list[Any]:
        total: list[Any] = [0.0, 0.0, 0.0]
        alone = SMALL_PRODUCT // shape[1] ** 2
        size = alone if alone >= SMALL_ROWS else max(1, PRODUCT_VALUES // shape[1])
        for start in range(0, shape[0], size):
            terms = block(slice(start, min(start + size, shape[0])))
            total = [a + b for a, b in zip(total, terms, strict=True)]
        return total

    def _scaled(self, z: FloatArray) -> FloatArray:
        scaled = z @ self.weight_.T
        scaled += self.bias_
        return np.asarray(scaled)

    def _weight_slope(self, residual: FloatArray, z: FloatArray) -> FloatArray:
        return np.asarray(residual.T @ z)
