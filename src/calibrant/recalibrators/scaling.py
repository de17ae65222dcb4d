"""Scaling of one score: a smooth map with few parameters, fitted by maximum likelihood."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.formulas import Operations, Smoothing
from calibrant.recalibrators.logistic import (
    BETA,
    BETA_WITH_ONE_SLOPE,
    PLATT,
    QUADRATIC,
    Family,
    fit_family,
)
from calibrant.recalibrators.reading import INPUTS, Choices, Reads, read_unlabelled
from calibrant.recalibrators.scores import FitResult, Loss, Scores
from calibrant.sources.arrays import as_array

On: TypeAlias = Literal["log-odds", "probabilities"]


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


Logistic: TypeAlias = "PlattScaling | QuadraticScaling | BetaScaling"
"""Maps ``sigma(coef . features)`` of one score; what they share are the functions that follow."""


def _intercept(model: Logistic) -> float:
    """Return the constant term."""
    return float(model.coef_[-1])


def _is_identity(model: Logistic) -> bool:
    """Tell whether the scores are left alone."""
    if model.on == "probabilities":
        # No line through probabilities is the identity, so coefficients cannot tell.
        return "kept identity" in model.fit_result_.flags
    return model._family.leaves_alone(model.coef_, model.smoothing_)


def _learn(model: Logistic, scores: Scores) -> None:
    model.coef_, model.smoothing_, model.fit_result_ = fit_family(
        model._family,
        scores,
        smoothing=model.smoothing,
        loss=model.loss,
        kind=model.input,
        on_probabilities=model.on == "probabilities",
    )


def _formula(model: Logistic, ops: Operations, x: Any, learned: Any) -> Any:
    if model.is_identity_:
        return ops.sigmoid(x) if model.input == "logits" else x
    raw = model.input == "logits" or model.on == "probabilities"
    return model._family.formula(ops, x, learned.coef_, None if raw else model.smoothing_)


def _check_learned(model: Logistic) -> None:
    model._family.check(model.coef_)


class PlattScaling(Recalibrator):
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

    _family = PLATT
    _learned: ClassVar[dict[str, str]] = {"coef_": "vector", "smoothing_": "share"}
    _constants: ClassVar[tuple[str, ...]] = ("coef_",)
    _choices = INPUTS | {"loss": ("log", "squared"), "on": ("log-odds", "probabilities")}
    _learn_tensors = Recalibrator._learn_sketch
    coef_: FloatArray
    smoothing_: float

    intercept_ = property(_intercept)
    is_identity_ = property(_is_identity)
    _learn, _formula, _check_learned = _learn, _formula, _check_learned

    def __init__(
        self,
        loss: Loss = "log",
        input: Input = "probabilities",
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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.on == "probabilities" and (self.input == "logits" or self.smoothing != "auto"):
            raise InvalidArgumentError(
                'on="probabilities" takes no logarithm of probabilities, and needs '
                f'input="probabilities" and smoothing="auto"; got input={self.input!r} and '
                f"smoothing={self.smoothing!r}."
            )


class QuadraticScaling(Recalibrator):
    r"""Fit ``sigma(a l + q l^2 + c)`` with l the log-odds.

    The map need not be increasing; the flag "not increasing" says so if it is not over the
    range of the fitting scores.

    Parameters
    ----------
    input, smoothing
        As in `PlattScaling`.

    See Also
    --------
    PlattScaling : without the square; always increasing where the slope is positive.
    IsotonicCalibration : any increasing map, where rows are many.

    Notes
    -----
    With the log-odds :math:`l = \log(z / (1 - z))` the map is :math:`\sigma(a l + q l^2 + c)`,
    fitted by the log loss.

    References
    ----------
    Cox (1958), Two further applications of a model for binary regression, Biometrika 45, of which
    this is the next term.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> QuadraticScaling().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]).coef_.round(6)
    array([ 1.370806, -0.016092,  0.172076])
    """

    _family = QUADRATIC
    _choices = INPUTS
    _learned, _constants = PlattScaling._learned, PlattScaling._constants
    _learn_tensors = Recalibrator._learn_sketch
    loss: Loss = "log"
    on: On = "log-odds"
    coef_: FloatArray
    smoothing_: float

    intercept_ = property(_intercept)
    is_identity_ = property(_is_identity)
    _learn, _formula, _check_learned = _learn, _formula, _check_learned

    def __init__(
        self,
        input: Input = "probabilities",
        smoothing: Smoothing = "auto",
    ) -> None:
        self.input = input
        self.smoothing = smoothing


class BetaScaling(Recalibrator):
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
    _learned, _constants = PlattScaling._learned, PlattScaling._constants
    _learn_tensors = Recalibrator._learn_sketch
    loss: Loss = "log"
    on: On = "log-odds"
    coef_: FloatArray
    smoothing_: float

    intercept_ = property(_intercept)
    is_identity_ = property(_is_identity)
    _learn, _formula, _check_learned = _learn, _formula, _check_learned

    def __init__(
        self, parameters: Literal["abm", "log-odds"] = "abm", smoothing: Smoothing = "auto"
    ) -> None:
        self.parameters = parameters
        self.smoothing = smoothing

    @property
    def _family(self) -> Family:
        return BETA if self.parameters == "abm" else BETA_WITH_ONE_SLOPE
