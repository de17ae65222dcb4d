"""Prior shift: one number added to the log-odds, so that predictions have another mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import brentq
from scipy.special import logit

from calibrant._logits import sigmoid
from calibrant._options import is_real
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.problem import Input, Label
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.formulas import Operations
from calibrant.recalibrators.reading import INPUTS
from calibrant.recalibrators.scores import FitResult, Scores, identity_loss, mean_loss
from calibrant.sources.arrays import as_array

LARGEST_OFFSET = 500.0
"""Odds of exp(500) neither overflow nor underflow when they are multiplied by a probability."""


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
        probs = as_array(y_prob, "y_prob")
        super().fit(y_prob, np.zeros(probs.shape[:1], np.int8), sample_weight)
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
            self.offset_ = _offset(
                scores, scores.event_rate if target is None else float(target), self.input
            )
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
        if self.target_mean is not None and self.offset is not None:
            raise InvalidArgumentError(
                "PriorShift takes target_mean or offset, not both; got "
                f"{self.target_mean!r:.30} and {self.offset!r:.30}. Leave one of them out."
            )
        mean, offset = self.target_mean, self.offset
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
    values, weight = scores.values, scores.weight
    ones, zeros = (float(weight[values == x].sum()) / scores.total for x in (1, 0))
    if kind == "logits":
        logits, ones, zeros = values, 0.0, 0.0
    else:
        inner = (values > 0) & (values < 1)
        logits, weight = logit(values[inner]), weight[inner]
    if logits.size == 0 or not ones < target < 1 - zeros:
        raise InvalidInputError(
            f"An offset moves no probability of exactly 0 or 1; {zeros:.4g} of the rows have a 0 "
            f"and {ones:.4g} a 1, so their mean cannot become {target:.4g}. Mix a little of 0.5 "
            "into them first, or leave those rows out."
        )
    total = (target - ones) * scores.total
    level = logit(total / weight.sum())

    def excess(offset: float) -> float:
        return float(np.einsum("i,i->", weight, sigmoid(logits + offset))) - total

    low, high = (float(level - end) for end in (logits.max(), logits.min()))
    width = 1e-9 * (1 + abs(low) + abs(high))  # rounding may leave the root on an end
    offset = float(brentq(excess, low - width, high + width, xtol=1e-15, rtol=1e-15))
    if abs(offset) > LARGEST_OFFSET:
        raise InvalidInputError(
            f"A mean of {target:.4g} takes an offset of {offset:.4g}, beyond {LARGEST_OFFSET:g} in "
            "size, where odds overflow. Check that the scores are what input= says."
        )
    return offset
