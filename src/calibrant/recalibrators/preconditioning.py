"""A change of variables in which the loss of a linear map of classes is nearly round.

L-BFGS takes a hundred steps where scales differ: log-probabilities have a mean far from 0, which
ties every weight to the bias of its class, and penalties differ a hundredfold. Between the
parameters of one class, with features f (log-probabilities and a constant) and ``q = p (1 - p)``,
the Hessian is ``sum q f f^T`` plus the penalty. Its diagonal and the direction of the mean feature
hold nearly all of it: ``H = D + u u^T``, with D the variances and twice the penalties, and
``u = sum q f / sqrt(sum q)``. In the variables ``H^(1/2) x`` one or two dozen steps do, for any
number of classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._types import FloatArray

FLOOR = 1e-8
"""The least share of the curvature that a variable keeps beside the mean's direction."""
LEAST = 1e-30


@dataclass(frozen=True, eq=False)
class RankOnePlusDiagonal:
    """One matrix ``D + u u^T`` for each class, as ``R^-1 (I + v v^T) R^-1``; all rows are classes.

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
