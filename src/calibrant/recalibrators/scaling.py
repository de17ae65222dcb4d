"""Scaling of one score: a smooth map with few parameters, fitted by maximum likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, sigmoid
from calibrant.recalibrators.base import Recalibrator, check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.logistic import PIECE_ROWS, Loss, linear
from calibrant.recalibrators.losses import identity_loss, mean_loss
from calibrant.recalibrators.newton import (
    FitReport,
    fit_logistic,
    fit_shift,
    is_separated,
    one_pseudo_row,
    platt_targets,
)
from calibrant.recalibrators.scores import Scores
from calibrant.recalibrators.smoothing import (
    CLIP,
    Smoothing,
    best_share,
    check_smoothing,
    log_smoothed,
    logit,
    may_keep,
)
from calibrant.sources.arrays import off_device

Solved: TypeAlias = tuple[FloatArray, int, float | None, tuple[str, ...]]
On: TypeAlias = Literal["log-odds", "probabilities"]

SMOOTHING_ROWS = 1 << 12
"""So many rows, at equal steps through all, decide how much is mixed in; few distinct scores, as of
votes, are added up first and all used."""


class Identity(Recalibrator):
    """Leave the probabilities alone.

    Examples
    --------
    >>> Identity().fit([0.2, 0.7], [0, 1]).predict_proba([0.1])
    array([0.1])
    """

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self.fit_result_ = FitReport()

    def predict_proba(self, y_prob: Any) -> FloatArray:
        """Return the probabilities as they came."""
        self._read_fitted(y_prob)
        return np.array(off_device(y_prob), np.float64)

    def _apply(self, probs: AnyArray) -> FloatArray:
        return probs.astype(np.float64)


class LogisticScaling(BinaryRecalibrator):
    """Base of the families ``sigma(coef . features(z) + intercept)``.

    Attributes
    ----------
    coef_ : ndarray
        The coefficients of the features, then the intercept.
    smoothing_ : float
        The share of the even distribution that is mixed in before logarithms are taken.
    """

    _learned: ClassVar[dict[str, str]] = {"coef_": "vector", "smoothing_": "share"}
    _identity: ClassVar[tuple[float, ...]] = (1.0, 0.0)
    coef_: FloatArray
    smoothing_: float
    input: Input = "probabilities"
    loss: Loss = "log"
    on: On = "log-odds"
    smoothing: Smoothing = "auto"

    @property
    def intercept_(self) -> float:
        """The constant term."""
        return float(self.coef_[-1])

    @property
    def is_identity_(self) -> bool:
        """Whether the scores are left alone."""
        if self.on == "probabilities":
            # No line through probabilities is the identity, so coefficients cannot tell.
            return "kept identity" in self.fit_result_.flags
        return bool(self.coef_.tolist() == list(self._identity)) and self.smoothing_ == 0

    def _features(self, scores: FloatArray) -> FloatArray:
        """Return the features (k, n) of scores; of which the logit is a combination."""
        return self._base(scores)[None, :]

    def _all_features(self, scores: FloatArray) -> FloatArray:
        """Return the same for many scores, from all cores."""
        out = np.empty((len(self._identity) - 1, scores.size))

        def write(part: slice) -> None:
            out[:, part] = self._features(scores[part])

        in_pieces(scores.size, PIECE_ROWS, write)
        return out

    def _base(self, scores: FloatArray) -> FloatArray:
        """Return what the map is drawn over: log-odds, or the probabilities themselves."""
        if self.input == "logits" or self.on == "probabilities":
            return scores.copy()
        return logit(scores, self.smoothing_)

    def _learn(self, scores: Scores) -> None:
        scores = scores.compressed()
        self.smoothing_ = self._share(scores)
        low, high = self._base(np.array([scores.values.min(), scores.values.max()]))
        flags = _degenerate(scores, low, high)
        if flags:
            shift = fit_shift(self._base(scores.values), scores)
            theta, iterations, loss = np.array([*self._identity[:-1], shift]), 0, None
        else:
            theta, iterations, loss, flags = self._solve(scores)
        loss = self._loss_of(theta, scores) if loss is None else loss
        loss_identity = self._loss_of_identity(scores)
        bounded = self.loss == "squared"
        if not loss <= loss_identity and (
            bounded or may_keep(scores.values, self.smoothing, self.input)
        ):
            theta, loss, self.smoothing_ = np.array(self._identity), loss_identity, 0.0
            flags = (*flags, "kept identity")
        self.coef_ = theta
        if not self._is_increasing(low, high):
            flags = (*flags, "not increasing")
        self.fit_result_ = FitReport(
            "not converged" not in flags, iterations, loss, loss_identity, flags
        )

    def _share(self, scores: Scores) -> float:
        """Return how much is mixed in: as declared, or what fits a sample of the rows best."""
        if self.smoothing != "auto":
            return float(self.smoothing)
        if self.input == "logits" or self.on == "probabilities":
            return 0.0
        few = one_pseudo_row(scores.thinned(SMOOTHING_ROWS))

        def loss(share: float) -> float:
            self.smoothing_ = share
            return fit_logistic(self._features(few.values), few, self.loss).loss

        return best_share(np.minimum(scores.values, 1 - scores.values), 2, loss)

    def _solve(self, scores: Scores) -> Solved:
        """Fit rows with both labels and several scores."""
        return _solve(scores, lambda: self._all_features(scores.values), self.loss)

    def _is_increasing(self, low: float, high: float) -> bool:
        return bool(self.coef_[0] > 0)

    def _loss_of(self, theta: FloatArray, scores: Scores) -> float:
        eta = linear(theta, self._features(scores.values))
        return mean_loss(eta, scores, self.loss)

    def _loss_of_identity(self, scores: Scores) -> float:
        if self.input == "logits":
            return mean_loss(scores.values, scores, self.loss)
        return identity_loss(scores, self.loss)

    def _apply(self, probs: AnyArray) -> FloatArray:
        scores = probs.astype(np.float64)
        if self.is_identity_:
            return sigmoid(scores) if self.input == "logits" else scores
        return sigmoid(linear(self.coef_, self._features(scores)))

    def _check_parameters(self) -> None:
        check_choice("input", self.input, ("probabilities", "logits"))
        check_choice("loss", self.loss, ("log", "squared"))
        check_choice("on", self.on, ("log-odds", "probabilities"))
        check_smoothing(self.smoothing, self.input)
        if self.on == "probabilities" and (self.input == "logits" or self.smoothing != "auto"):
            raise InvalidArgumentError(
                'on="probabilities" takes no logarithm of probabilities, and needs '
                f'input="probabilities" and smoothing="auto"; got input={self.input!r} and '
                f"smoothing={self.smoothing!r}."
            )

    def _check_learned(self) -> None:
        if self.coef_.size != len(self._identity):
            raise ValueError(f"coef_ must hold {len(self._identity)} numbers")


class PlattScaling(LogisticScaling):
    """Fit ``sigma(a logit(z) + c)``: Platt scaling on log-odds.

    Minimises the log loss, or the squared error as step 1 of section 4.1 of Kumar, Liang, Ma
    (2019) writes it, by a safeguarded Newton method. Separable rows get Platt's targets; a fit
    that would be worse than doing nothing on its own rows is not used, unless doing nothing
    means answers of exactly 0 or 1, which the log loss of the next row may not survive.

    Parameters
    ----------
    loss : {"log", "squared"}
    input : {"probabilities", "logits"}
        What the scores are; they are never guessed.
    on : {"log-odds", "probabilities"}
        What the line is drawn over. ``sigma(a z + c)`` suits scores that are no probabilities of
        a likelihood, such as votes or shares of neighbours; the log-odds suit all others.
    smoothing : float or "auto"
        The share of the even distribution that is mixed in before log-odds are taken; see
        `TemperatureScaling`. The share that "auto" finds is the best one for this family.

    References
    ----------
    Platt (1999), Probabilistic outputs for support vector machines.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> platt = PlattScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
    >>> round(platt.slope_, 6), round(platt.intercept_, 6)
    (1.372329, 0.160078)
    """

    def __init__(
        self,
        loss: Loss = "log",
        input: Input = "probabilities",  # noqa: A002
        on: On = "log-odds",
        smoothing: Smoothing = "auto",
    ) -> None:
        self.loss = loss
        self.input = input
        self.on = on
        self.smoothing = smoothing

    @property
    def slope_(self) -> float:
        """The coefficient of the log-odds, or of the probabilities."""
        return float(self.coef_[0])


class QuadraticScaling(LogisticScaling):
    """Fit ``sigma(a l + q l^2 + c)`` with l the log-odds; see `PlattScaling`.

    The map need not be increasing; the flag "not increasing" says so if it is not over the
    range of the fitting scores.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> QuadraticScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]).coef_.round(6)
    array([ 1.370806, -0.016092,  0.172076])
    """

    _identity = (1.0, 0.0, 0.0)

    def __init__(
        self,
        input: Input = "probabilities",  # noqa: A002
        smoothing: Smoothing = "auto",
    ) -> None:
        self.input = input
        self.smoothing = smoothing

    def _features(self, scores: FloatArray) -> FloatArray:
        logits = self._base(scores)
        return np.stack((logits, logits**2))

    def _is_increasing(self, low: float, high: float) -> bool:
        a, q, _ = self.coef_
        return bool(min(a + 2 * q * low, a + 2 * q * high) > 0)


class BetaScaling(LogisticScaling):
    """Fit ``sigma(a ln z - b ln(1 - z) + c)`` with a, b >= 0: beta calibration.

    A coefficient that would be negative is set to 0 and the others are fitted again (the flag
    "term dropped" says so), so the map never decreases.

    Parameters
    ----------
    parameters : {"abm", "log-odds"}
        All three, or the family of the paper's synthetic studies (appendix E), a = b.
    smoothing : float or "auto"
        See `PlattScaling`.

    References
    ----------
    Kull, Silva Filho, Flach (2017), Beyond sigmoids.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> BetaScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]).coef_.round(6)
    array([1.440296, 1.301281, 0.268299])
    """

    _identity = (1.0, 1.0, 0.0)

    def __init__(
        self, parameters: Literal["abm", "log-odds"] = "abm", smoothing: Smoothing = "auto"
    ) -> None:
        self.parameters = parameters
        self.smoothing = smoothing

    def _features(self, scores: FloatArray) -> FloatArray:
        if self.smoothing_:
            happens, fails = (log_smoothed(p, self.smoothing_, 2) for p in (scores, 1 - scores))
            return np.stack((happens, -fails))
        z = np.clip(scores, CLIP, 1 - CLIP)
        return np.stack((np.log(z), -np.log1p(-z)))

    def _solve(self, scores: Scores) -> Solved:
        if self.parameters == "log-odds":
            platt = PlattScaling()
            platt.smoothing_ = self.smoothing_
            (slope, shift), its, loss, flags = platt._solve(scores)
            slope = max(slope, 0.0)
            return np.array([slope, slope, shift]), its, loss if slope else None, flags
        theta, its, loss, flags = super()._solve(scores)
        if min(theta[0], theta[1]) >= 0:
            return theta, its, loss, flags
        options = [self._without(j, scores) for j in (0, 1)]
        theta, its, loss = min(options, key=lambda option: option[2])
        return theta, its, loss, (*flags, "term dropped")

    def _without(self, j: int, scores: Scores) -> tuple[FloatArray, int, float]:
        """Fit with coefficient j at 0; the other at 0 too where it would be negative."""
        (slope, shift), its, _, _ = _solve(
            scores, lambda: self._all_features(scores.values)[[1 - j]]
        )
        rate = float(platt_targets(scores).events.sum()) / scores.total
        theta = np.zeros(3)
        theta[1 - j] = max(slope, 0.0)
        theta[2] = shift if slope > 0 else np.log(rate / (1 - rate))
        return theta, its, self._loss_of(theta, scores)

    def _is_increasing(self, low: float, high: float) -> bool:
        return bool(self.coef_[0] > 0 or self.coef_[1] > 0)

    def _check_parameters(self) -> None:
        check_choice("parameters", self.parameters, ("abm", "log-odds"))
        check_smoothing(self.smoothing, self.input)


def _solve(scores: Scores, features: Callable[[], FloatArray], loss: Loss = "log") -> Solved:
    """Maximise the likelihood, of Platt's targets where the rows are separable."""
    if not is_separated(scores):
        found = fit_logistic(features(), scores, loss)
        if not found.is_separable:
            return found.theta, found.iterations, found.loss, ()
    found = fit_logistic(features(), platt_targets(scores))
    flags = ("separable",) if found.converged else ("separable", "not converged")
    return found.theta, found.iterations, None, flags


def _degenerate(scores: Scores, low: float, high: float) -> tuple[str, ...]:
    """Name what leaves the slope undetermined: then only a shift of the log-odds is fitted."""
    n1 = float(scores.events.sum())
    short = n1 < scores.total if scores.weights is None else (scores.events < scores.weights).any()
    constant = high - low <= 1e-13 * max(abs(low), abs(high))
    return (() if n1 > 0 and short else ("one class",)) + (("constant scores",) if constant else ())
