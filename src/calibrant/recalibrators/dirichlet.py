"""Dirichlet calibration and joint beta calibration of several classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np

from calibrant._logits import softmax
from calibrant._options import is_real
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import ClassRows, fold_of_rows, own_values
from calibrant.recalibrators.formulas import (
    CLIP,
    NUMPY,
    RowOperations,
    Smoothing,
    log_probabilities,
    may_keep,
)
from calibrant.recalibrators.matrix import (
    FullWeights,
    SoftmaxScaling,
    check_regularization,
)
from calibrant.recalibrators.optimise import minimise_loss, minimise_smooth
from calibrant.recalibrators.reading import Reads
from calibrant.recalibrators.scores import FitResult
from calibrant.recalibrators.temperature import smoothed_rows

STRENGTHS = (1e4, 1e3, 1e2, 1e1, 1.0, 0.1)
"""Penalties of one entry, times rows, that "auto" tries, from the strongest on, until the held-out
loss rises. On 1,000 and 5,000 predictions of CIFAR-10 the best was 1e3, and its neighbours lost
0.001; with 3, 30 and 100 simulated classes it was 100, 1e3, and 1e3 to 1e4."""
FOLDS = 3
"""Each is a fit for each penalty, and penalties are far apart."""
CHOOSING_VALUES = 1 << 18
"""About so many predictions, at equal steps through the rows, decide on the penalty; about two rows
a class if those are more."""

CHOOSING_STEPS = 40
"""Steps of a fit that only decides on the penalty: where more would be taken, diagonal entries run
away on rows that they separate, and the held-out loss has told so long before."""

TINY = 1e-300
"""The least probability of a softmax of logits whose logarithm is taken."""


class DirichletScaling(SoftmaxScaling):
    """Fit ``softmax(W log(z) + b)``: Dirichlet calibration, with off-diagonal regularisation.

    If the scores of each class were Dirichlet distributed, this would be Bayes' rule. The penalty
    ``lambda (mean of W_ij^2 off the diagonal + mean of b_j^2)`` is ODIR of Kull et al. (2019) with
    one strength for both. `MatrixScaling` differs in that it tempers first and pulls the
    diagonal towards 1 as well.

    Parameters
    ----------
    regularization : float or "auto"
        lambda, above 0. "auto" chooses ``lambda n`` by cross-validation of the log loss, on 262,144
        predictions or two rows a class; where no repair loses less there, rows are left as they
        are ("kept identity").
    input : {"probabilities", "logits"}
    smoothing : float or "auto"
        See `TemperatureScaling`.

    Attributes
    ----------
    weight_ : ndarray
        W, of shape (K, K): row i makes class i.
    bias_ : ndarray
        b, of shape (K,).
    regularization_ : float
        lambda.
    smoothing_ : float
        The share of the uniform distribution that is mixed in before logarithms are taken.

    See Also
    --------
    MatrixScaling : the same map, pulled towards temperature scaling.
    VectorScaling : no entries off the diagonal, for fewer rows.

    References
    ----------
    Kull, Perello-Nieto, Kaengsepp, Silva Filho, Song, Flach (2019), Beyond temperature scaling.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.dirichlet(np.ones(3), size=500)
    >>> y = (np.log(z) / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> DirichletScaling().fit(z, y).weight_.shape
    (3, 3)
    """

    _learned: ClassVar[dict[str, str]] = {
        "smoothing_": "share",
        "regularization_": "positive",
        "weight_": "matrix",
        "bias_": "vector",
    }
    _constants: ClassVar[tuple[str, ...]] = ("weight_", "bias_")
    _weights = FullWeights()
    regularization_: float

    def __init__(
        self,
        regularization: float | Literal["auto"] = "auto",
        input: Input = "probabilities",
        smoothing: Smoothing = "auto",
    ) -> None:
        self.regularization = regularization
        self.input = input
        self.smoothing = smoothing

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        rows = smoothed_rows(ClassRows.of(probs, codes, weights, self.input), self.smoothing)
        self.smoothing_ = rows.smoothing
        # the diagonal is not penalised: without a row, a class would be ruled out for ever
        rows = rows.with_absent_classes()
        self.regularization_, helps = self._chosen_strength(rows)
        keeps = may_keep(rows.extremes(), self.smoothing, self.input)
        k, before = self.classes_.size, rows.loss()
        identity, flags = np.zeros((k, k + 1)), ()
        parameters, after, converged, steps = identity, np.inf, True, 0
        if helps or not keeps:
            parameters, after, converged, steps = self._solve(rows, self.regularization_)
        if keeps and not after <= before:
            parameters, after, flags = identity, before, ("kept identity",)  # type: ignore[assignment]
            self.smoothing_ = 0.0
        self.weight_, self.bias_ = self._weights.read(parameters)
        self.fit_result_ = FitResult(converged, steps, after, before, flags)

    def _solve(
        self, rows: ClassRows, strength: float, most_steps: int = 500
    ) -> tuple[FloatArray, float, bool, int]:
        """Return the parameters, their mean log loss, whether it converged, and iterations."""
        k = rows.rows.shape[1]
        penalty = np.full((k, k + 1), strength / (k * (k - 1)))
        np.fill_diagonal(penalty, 0.0)
        penalty[:, k] = strength / k
        return minimise_loss(self._loss_sums(rows), self._weights, penalty, most_steps)

    def _chosen_strength(self, rows: ClassRows) -> tuple[float, bool]:
        """Return the penalty, and whether rows held out lose less by it than by no repair."""
        if self.regularization != "auto":
            return float(self.regularization), True
        k = rows.rows.shape[1]
        sample = rows.every(max(1, rows.n_values // max(CHOOSING_VALUES, 2 * k**2)))
        strengths = [strength * k * (k - 1) for strength in STRENGTHS]
        n_folds = min(FOLDS, len(sample.codes))
        if n_folds < 2 or len(sample.codes) < k:  # some classes have no row to learn from
            return strengths[0] / rows.size, n_folds < 2
        fold = fold_of_rows(sample.codes, n_folds, np.random.default_rng(0))
        best, lowest = strengths[0], np.inf
        for strength in strengths:
            lost = sum(self._held_out(sample, fold == i, strength) for i in range(n_folds))
            if lost > lowest:
                break
            best, lowest = strength, lost
        return best / rows.size, lowest <= sample.loss() * float(sample.weights.sum())

    def _held_out(self, rows: ClassRows, held: AnyArray, strength: float) -> float:
        inside, outside = (
            replace(rows, rows=rows.rows[x], codes=rows.codes[x], weights=rows.weights[x])
            for x in (~held, held)
        )
        parameters = self._solve(inside, strength / inside.size, CHOOSING_STEPS)[0]
        weight, bias = self._weights.read(parameters)
        answers = softmax(self._logs(NUMPY, outside.rows.astype(np.float64)) @ weight.T + bias)
        p_of_label = np.maximum(own_values(answers, outside.codes), CLIP)
        return float(outside.weights @ -np.log(p_of_label))

    def _logs(self, ops: RowOperations, x: Any, learned: Any = None) -> Any:
        if self.input == "logits":
            # Of the softmax, which may round to 0 where logits are far apart.
            return ops.log(ops.clip(ops.softmax(x), TINY, None))
        return log_probabilities(ops, x, self.smoothing_, self.classes_.size)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        strength = self.regularization
        if isinstance(strength, str) and strength == "auto":
            return
        if not (is_real(strength) and 1e-100 <= float(strength) <= 1e100):
            raise InvalidArgumentError(
                'regularization must be "auto" or a number from 1e-100 to 1e100; got '
                f"{strength!r:.60}."
            )


class JointBetaScaling(Recalibrator):
    """Fit ``softmax(a log(z) - b log(1 - z) + c)``, three numbers for each class, all together.

    Beta calibration of every class, fitted jointly so that rows add up to 1; of two classes it is
    `BetaScaling`, without its signs. The penalty ``(K / n) (|a - 1|^2 + |b|^2 + |c|^2)`` pulls
    towards leaving things alone, as in `VectorScaling`, which this extends by b.

    Parameters
    ----------
    regularization : float
        Multiplies the penalty; above 0.
    smoothing : float or "auto"
        See `TemperatureScaling`.

    Attributes
    ----------
    coef_ : ndarray of shape (3, K)
        a, b and c of each class.
    smoothing_ : float
        The share of the uniform distribution that is mixed in before logarithms are taken.

    See Also
    --------
    BetaScaling : of one event.
    OneVsRest : one repair for each class.

    References
    ----------
    Kull, Silva Filho, Flach (2017), Beyond sigmoids.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.dirichlet(np.ones(3), size=2000)
    >>> y = (np.log(z) / 2 + rng.gumbel(size=z.shape)).argmax(axis=1)
    >>> JointBetaScaling().fit(z, y).coef_.shape
    (3, 3)
    """

    _reads: ClassVar[Reads] = "classes"
    _learned: ClassVar[dict[str, str]] = {"smoothing_": "share", "coef_": "matrix"}
    _constants: ClassVar[tuple[str, ...]] = ("coef_",)
    smoothing_: float
    coef_: FloatArray

    def __init__(self, regularization: float = 1.0, smoothing: Smoothing = "auto") -> None:
        self.regularization = regularization
        self.smoothing = smoothing

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        rows = smoothed_rows(ClassRows.of(probs, codes, weights, self.input), self.smoothing)
        self.smoothing_ = rows.smoothing
        k = rows.rows.shape[1]
        p = rows.rows.astype(np.float64)
        features = self._both_logs(NUMPY, p)
        shares = rows.weights / rows.weights.sum()
        penalty = float(self.regularization) * k / rows.size
        # Round variables: the spread of each feature, and of the penalty, is 1.
        spread = np.stack([np.sqrt(shares @ ((f - shares @ f) ** 2)) for f in features])
        scale = 1 / np.sqrt(np.vstack([spread, np.ones(k)]) ** 2 / k + 2 * penalty)
        identity = np.array([1.0, 0.0, 0.0])[:, None]

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            change = x.reshape(3, k) * scale
            a, b, c = change + identity
            eta = features[0] * a + features[1] * b + c
            answers = softmax(eta)
            p_of_label = np.maximum(own_values(answers, rows.codes), TINY)
            residual = answers * shares[:, None]
            residual[np.arange(len(p)), rows.codes] -= shares
            slopes = [(residual * f).sum(axis=0) for f in features] + [residual.sum(axis=0)]
            gradient = (np.stack(slopes) + 2 * penalty * change) * scale
            lost = -float(shares @ np.log(p_of_label))
            return lost + penalty * float((change**2).sum()), gradient.ravel()

        minimum = minimise_smooth(objective, np.zeros(3 * k))
        change = minimum.x.reshape(3, k) * scale
        after = max(minimum.value - penalty * float((change**2).sum()), 0.0)
        before, flags = rows.loss(), ()
        self.coef_ = change + identity
        if not after <= before and may_keep(rows.extremes(), self.smoothing, self.input):
            self.coef_, self.smoothing_ = identity * np.ones((3, k)), 0.0
            after, flags = before, ("kept identity",)  # type: ignore[assignment]
        self.fit_result_ = FitResult(minimum.converged, minimum.steps, after, before, flags)

    def _formula(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        if "kept identity" in self.fit_result_.flags:
            return x
        first, second = self._both_logs(ops, x)
        coef = learned.coef_
        return ops.softmax(first * coef[0] + second * coef[1] + coef[2])

    def _both_logs(self, ops: RowOperations, x: Any) -> tuple[Any, Any]:
        """Return log(z) and -log(1 - z) of smoothed or clipped probabilities."""
        share, k = self.smoothing_, self.classes_.size
        p = x + (1 / k - x) * share if share else x
        return ops.log(ops.clip(p, CLIP, None)), -ops.log_complement(ops.clip(p, None, 1 - CLIP))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_regularization(self.regularization)

    def _check_learned(self) -> None:
        if self.coef_.shape != (3, self.classes_.size):
            raise ValueError(f"coef_ must have the shape {(3, self.classes_.size)}")
