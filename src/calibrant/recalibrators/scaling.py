"""Scaling of one score: smooth maps with few parameters, by likelihood or to a mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit

from calibrant._logits import sigmoid
from calibrant._options import is_real
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.problem import Input, Label
from calibrant.recalibrators import logistic
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.formulas import Operations, Smoothing
from calibrant.recalibrators.logistic import Family
from calibrant.recalibrators.reading import INPUTS, Choices
from calibrant.recalibrators.scores import FitResult, Loss, Scores, dot, identity_loss, mean_loss
from calibrant.sources.arrays import as_array

LARGEST_OFFSET = 500.0
"""Odds of exp(500) neither overflow nor underflow when they are multiplied by a probability."""


class _Logistic(Recalibrator):
    """Maps ``sigma(coef . features)`` of one score; a family says what the features are."""

    _family: Family
    _choices = INPUTS
    _learned: ClassVar[dict[str, str]] = {"coef_": "vector", "smoothing_": "share"}
    _constants: ClassVar[tuple[str, ...]] = ("coef_",)
    _learn_tensors = Recalibrator._learn_sketch
    loss: Loss = "log"
    on: Literal["log-odds", "probabilities"] = "log-odds"
    coef_: FloatArray
    smoothing_: float

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
        return self.smoothing_ == 0 and tuple(self.coef_) == self._family.identity

    def _learn(self, scores: Scores) -> None:
        self.coef_, self.smoothing_, self.fit_result_ = logistic.fit_family(
            self._family,
            scores,
            smoothing=self.smoothing,
            loss=self.loss,
            kind=self.input,
            on_probabilities=self.on == "probabilities",
        )

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        if self.is_identity_:
            return ops.sigmoid(x) if self.input == "logits" else x
        raw = self.input == "logits" or self.on == "probabilities"
        return self._family.formula(ops, x, learned.coef_, None if raw else self.smoothing_)

    def _check_learned(self) -> None:
        if self.coef_.size != len(self._family.identity):
            raise ValueError(f"coef_ must hold {len(self._family.identity)} numbers")


class PlattScaling(_Logistic):
    r"""Fit ``sigma(a logit(z) + c)``: Platt scaling on log-odds.

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
        What the line is drawn over. ``sigma(a z + c)`` suits scores that are not probabilities of
        a likelihood, such as votes or shares of neighbours; the log-odds suit all others.
    smoothing : float or "auto"
        The share of the even distribution that is mixed in before log-odds are taken; see
        `TemperatureScaling`. The share that "auto" finds is the best one for this family.

    Attributes
    ----------
    coef_ : ndarray
        The slope and the intercept.
    smoothing_ : float
        The share that is mixed in.

    See Also
    --------
    BetaScaling : one parameter more, for maps that bend differently near 0 and near 1.
    ScalingBinning : Platt scaling with finitely many outputs, which can be certified.

    Notes
    -----
    The map of a score z in (0, 1), with the slope a and the intercept c, is

    .. math:: \sigma\left( a \log \frac{z}{1 - z} + c \right),
        \qquad \sigma(l) = \frac{1}{1 + e^{-l}}.

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

    _family = logistic.PLATT
    _choices = INPUTS | {"loss": ("log", "squared"), "on": ("log-odds", "probabilities")}

    def __init__(
        self,
        loss: Loss = "log",
        input: Input = "probabilities",
        on: Literal["log-odds", "probabilities"] = "log-odds",
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.on == "probabilities" and (self.input == "logits" or self.smoothing != "auto"):
            raise InvalidArgumentError(
                'on="probabilities" takes no logarithm of probabilities, and needs '
                f'input="probabilities" and smoothing="auto"; got input={self.input!r} and '
                f"smoothing={self.smoothing!r}."
            )


class QuadraticScaling(_Logistic):
    """Fit ``sigma(a l + q l^2 + c)`` with l the log-odds.

    Fitted by the log loss. The map need not be increasing; the flag "not increasing" says so if it
    is not over the range of the fitting scores.

    Parameters
    ----------
    input, smoothing
        As in `PlattScaling`.

    See Also
    --------
    PlattScaling : without the square; always increasing where the slope is positive.
    IsotonicCalibration : any increasing map, where rows are many.

    References
    ----------
    Cox (1958), Two further applications of a model for binary regression, Biometrika 45, whose
    next term this is.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> QuadraticScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]).coef_.round(6)
    array([ 1.370806, -0.016092,  0.172076])
    """

    _family = logistic.QUADRATIC

    def __init__(self, input: Input = "probabilities", smoothing: Smoothing = "auto") -> None:
        self.input = input
        self.smoothing = smoothing


class BetaScaling(_Logistic):
    r"""Fit ``sigma(a ln z - b ln(1 - z) + c)`` with a, b >= 0: beta calibration.

    A coefficient that would be negative is set to 0 and the others are fitted again (the flag
    "term dropped" says so), so the map never decreases.

    Parameters
    ----------
    parameters : {"abm", "log-odds"}
        All three, or the family of the paper's synthetic studies (appendix E), a = b.
    smoothing : float or "auto"
        See `PlattScaling`.

    See Also
    --------
    PlattScaling : the same with a = b.

    Notes
    -----
    The map is that of scores which are beta distributed given their label,

    .. math:: \sigma\left( a \log z - b \log(1 - z) + c \right), \qquad a, b \ge 0.

    References
    ----------
    Kull, Silva Filho, Flach (2017), Beyond sigmoids, Electronic Journal of Statistics 11.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> BetaScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]).coef_.round(6)
    array([1.440296, 1.301281, 0.268299])
    """

    _choices: ClassVar[Choices] = {"parameters": ("abm", "log-odds")}

    def __init__(
        self, parameters: Literal["abm", "log-odds"] = "abm", smoothing: Smoothing = "auto"
    ) -> None:
        self.parameters = parameters
        self.smoothing = smoothing

    @property
    def _family(self) -> Family:  # type: ignore[override]
        return logistic.BETA if self.parameters == "abm" else logistic.BETA_WITH_ONE_SLOPE


class PriorShift(Recalibrator):
    """Add one number to the log-odds: ``sigma(logit(z) + offset)``.

    Re-anchors predictions to another mean, such as the central tendency of a portfolio or the
    prevalence of another population: all odds are multiplied by ``exp(offset)``, so ranking stays
    as it was, and 0 and 1 stay 0 and 1. If the classes themselves look as before and only
    their frequency has changed, this is Bayes' rule (Saerens, Latinne, Decaestecker, 2002).

    Parameters
    ----------
    target_mean : float, optional
        The mean that the predictions of the fitting rows get, by their weights.
    offset : float, optional
        The number itself, at most 500 in size. Without either, the mean is the event rate of the
        labels, which repairs calibration in the large and nothing else.
    input : {"probabilities", "logits"}

    Attributes
    ----------
    offset_ : float
        What is added to the log-odds.
    odds_ratio_ : float
        ``exp(offset_)``.
    fit_result_ : FitResult
        With labels, its `loss` and `loss_identity` are the log loss after and before.

    See Also
    --------
    certify_label_shift : proves what the shifted predictions are worth.
    PlattScaling : a slope as well.

    Notes
    -----
    Labels are needed only to learn the event rate from, or for the losses: ``fit(y_prob)`` does
    where `target_mean` or `offset` is given. What the shift costs on labelled rows, with intervals
    for the Brier score and the log loss, is
    ``calibrant.compare(y_true, y_prob, shift.predict_proba(y_prob))``.

    Examples
    --------
    >>> shift = PriorShift(target_mean=0.02).fit([0.01, 0.02, 0.05])
    >>> round(shift.offset_, 4), round(float(shift.predict_proba([0.01, 0.02, 0.05]).mean()), 6)
    (-0.2974, 0.02)
    >>> shift.inverse([0.02]).round(4)
    array([0.0267])
    """

    _learned: ClassVar[dict[str, str]] = {"offset_": "number"}
    _constants: ClassVar[tuple[str, ...]] = ("offset_", "odds_ratio_")
    _choices = INPUTS
    offset_: float

    def __init__(
        self,
        target_mean: float | None = None,
        offset: float | None = None,
        input: Input = "probabilities",
    ) -> None:
        self.target_mean = target_mean
        self.offset = offset
        self.input = input

    @property
    def odds_ratio_(self) -> float:
        """What odds are multiplied by."""
        return float(np.exp(self.offset_))

    def fit(
        self,
        y_prob: Any,
        y_true: Any = None,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Self:
        """Learn the offset, and return self; see `Recalibrator.fit`.

        Without labels nothing but predictions shapes the answers, so any rows may certify them.
        """
        if y_true is not None or (self.target_mean is None and self.offset is None):
            return super().fit(y_prob, y_true, sample_weight, classes)
        non_event = 0 if classes is None else next(iter(classes), 0)
        labels = np.full(as_array(y_prob, "y_prob").shape[:1], non_event)
        super().fit(y_prob, labels, sample_weight, classes)
        self.fingerprint_, self.fit_result_ = None, FitResult()
        return self

    def _learn(self, scores: Scores) -> None:
        flags: tuple[str, ...] = ()
        target = self.target_mean
        if target is None and scores.event_rate in (0.0, 1.0):
            scores, flags = scores.with_platt_targets(), ("one class",)
        if self.offset is not None:
            self.offset_ = float(self.offset)
        else:
            mean = scores.event_rate if target is None else float(target)
            self.offset_ = _offset(scores, mean, self.input)
        if self.input == "logits":
            before, after = (mean_loss(scores.values + c, scores) for c in (0.0, self.offset_))
        else:
            answers = scores.replace_values(self._apply(scores.values))
            before, after = identity_loss(scores), identity_loss(answers)
        self.fit_result_ = FitResult(True, 1, after, before, flags)

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        if self.input == "logits":
            return ops.sigmoid(ops.factor(x) + learned.offset_)
        # No logarithm is taken, so that 0 and 1 need neither clipping nor smoothing.
        # Only a product with a ratio below 1 can underflow: above, the least scores matter.
        odds = (x if self.offset_ > 0 else ops.factor(x)) * learned.odds_ratio_
        return odds / ((1 - x) + odds)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        mean, offset = self.target_mean, self.offset
        if mean is not None and offset is not None:
            raise InvalidArgumentError(
                f"PriorShift takes target_mean or offset, not both; got {mean!r:.30} and "
                f"{offset!r:.30}. Leave one of them out."
            )
        if mean is not None and not (is_real(mean) and 0 < float(mean) < 1):
            raise InvalidArgumentError(
                f"target_mean must lie between 0 and 1; got {mean!r:.60}. Write 2% as 0.02."
            )
        if offset is not None and not (is_real(offset) and abs(offset) <= LARGEST_OFFSET):
            raise InvalidArgumentError(
                f"offset must be a number of at most {LARGEST_OFFSET:g} in size, on the scale of "
                f"log-odds; got {offset!r:.60}."
            )

    def _check_learned(self) -> None:
        if abs(self.offset_) > LARGEST_OFFSET:
            raise ValueError(f"offset_ must be at most {LARGEST_OFFSET:g} in size")


def _offset(scores: Scores, target: float, kind: Input) -> float:
    """Return the offset that gives the answers a mean; it rises with the offset."""
    weight = scores.weight
    logits = scores.values if kind == "logits" else logit(scores.values)
    ones, zeros = (float(weight[logits == x].sum()) / scores.total for x in (np.inf, -np.inf))
    if not (np.isfinite(logits).any() and ones < target < 1 - zeros):
        raise InvalidInputError(
            f"An offset moves no probability of exactly 0 or 1; {zeros:.4g} of the rows have a 0 "
            f"and {ones:.4g} a 1, so their mean cannot become {target:.4g}. Mix a little of 0.5 "
            "into them first, or leave those rows out."
        )
    # Farther ones, such as a mask, stay 0 or 1 at any offset; among them the search does not end.
    logits = np.clip(logits, -1e6, 1e6)

    def excess(offset: float) -> float:
        return dot(weight, sigmoid(logits + offset)) - target * scores.total

    low, high = (float(logit(target) - end) for end in (logits.max(), logits.min()))
    width = 1e-9 * (1 + abs(low) + abs(high))  # rounding may leave the root on an end
    offset = float(brentq(excess, low - width, high + width, xtol=1e-15, rtol=1e-15))
    if abs(offset) > LARGEST_OFFSET:
        raise InvalidInputError(
            f"A mean of {target:.4g} takes an offset of {offset:.4g}, beyond {LARGEST_OFFSET:g} in "
            "size, where odds overflow. Check that the scores are what input= says."
        )
    return offset
