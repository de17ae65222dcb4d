"""Recalibrators inside others: calibrant's or of other libraries, fitted on scores of one event."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from calibrant._types import AnyArray, FloatArray
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
)
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.reading import SEVERAL
from calibrant.recalibrators.scores import FitResult, Scores, identity_loss
from calibrant.recalibrators.temperature import Identity
from calibrant.sources.arrays import as_array

Fitted = TypeVar("Fitted", bound=Recalibrator)

BY_ROW = 1e-4
"""Between two answers for one score, at most: float32 sums of another batch differ by 1e-6."""


class ForeignEstimator(Recalibrator):
    """Anything with `fit` and `predict_proba`, fitted on a table with the one column of scores.

    It can be neither saved nor exported: its formula is not ours.

    Parameters
    ----------
    estimator : object
        ``fit(X, y)`` gets scores of shape (n, 1), labels 0 and 1, and `sample_weight` if there are
        weights; ``predict_proba(X)`` answers with one column, the event's, or two.
    """

    estimator_: Any

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:  # noqa: N803
        """Show what the user passed; a class that shows its address, by its name alone."""
        own = self.estimator
        shown = repr(own)[:N_CHAR_MAX]
        return f"{type(own).__name__}()" if shown == object.__repr__(own) else shown

    @property
    def _name(self) -> str:
        return type(self.estimator).__name__

    def _learn(self, scores: Scores) -> None:
        rows = scores.with_one_label()  # cells of a table have both
        happened = rows.events > 0
        if happened.all() or not happened.any():
            raise InvalidLabelsError(
                f"{self._name} needs rows with and without the event; all "
                f"{happened.size:,} have the label {int(happened[0])}. Use one of calibrant's "
                "recalibrators, such as PlattScaling(): they have an answer for one label too."
            )
        weights = {} if rows.weights is None else {_weights_name(self.estimator): rows.weights}
        self.estimator_ = clone(self.estimator, safe=False)
        # copies: the values may be the caller's own array, and an estimator may scale it in place
        copies = {name: value.copy() for name, value in weights.items()}
        self.estimator_.fit(rows.values[:, None].copy(), happened.astype(np.intp), **copies)
        event = self._apply(scores.values)
        self._check_by_row(scores.values, event)
        outputs = scores.replace_values(event)
        before, after = (identity_loss(s, "squared") for s in (scores, outputs))
        self.fit_result_ = FitResult(loss=after, loss_identity=before)

    def _check_by_row(self, values: FloatArray, event: FloatArray) -> None:
        """Refuse answers that depend on the rows beside a row, such as ranks: no map of a score."""
        values, event = values[::2], event[::2]
        off = np.flatnonzero(np.abs(self._apply(values) - event) > BY_ROW)
        if off.size:
            raise InvalidProbabilitiesError(
                "A recalibrator must answer by the score alone; asked again with half of the rows, "
                f"{type(self.estimator).__name__} gave {off.size:,} of {len(values):,} another "
                f"answer (first: {event[off[0]]:g} before, for the score {values[off[0]]:g}). "
                "Learn from the rows in fit, and use nothing but what was learned in predict_proba."
            )

    def _apply(self, probs: AnyArray) -> FloatArray:
        name, n = self._name, len(probs)
        answers = self.estimator_.predict_proba(probs.astype(np.float64)[:, None])
        if isinstance(answers, np.ma.MaskedArray):
            answers = np.ma.filled(answers.astype(np.float64), np.nan)
        out = as_array(answers, f"What predict_proba of {name} answers")
        if out.shape not in ((n,), (n, 1), (n, 2)):
            raise InvalidShapeError(
                f"A recalibrator of one score must predict one column or two; {name} gave the "
                f"shape {out.shape} for {n:,} rows. Answer with the event's probability alone, or "
                "as the second of two columns."
            )
        if out.dtype.kind not in "fiub":
            raise InvalidProbabilitiesError(
                f"A recalibrator must answer with probabilities; predict_proba of {name} gave "
                f"values of type {out.dtype}. Answer with floats."
            )
        labels = getattr(self.estimator_, "classes_", (0, 1))
        column = 0 if np.array_equal(labels, (1, 0)) else -1
        event = (out if out.ndim == 1 else out[:, column]).astype(np.float64)
        wrong = np.flatnonzero(~((event >= 0) & (event <= 1)))
        if wrong.size:
            raise InvalidProbabilitiesError(
                f"A recalibrator must answer with probabilities; {wrong.size:,} of {event.size:,} "
                f"answers of {name} lie outside [0, 1] (first: {event[wrong[0]]:g}). Clip them in "
                "its predict_proba, or find out why."
            )
        return event


def weights_name(estimator: Any) -> str | None:
    """Return what fit of an estimator calls the weights of rows; None where it takes none."""
    if isinstance(estimator, Pipeline):  # the last step is what is fitted
        name, last = estimator.steps[-1]
        inner = None if isinstance(last, str) else weights_name(last)
        return inner and f"{name}__{inner}"
    parameters = signature(estimator.fit).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return "sample_weight" if takes_any or "sample_weight" in parameters else None


def _weights_name(estimator: Any) -> str:
    """Refuse to drop the weights of rows, or to fail in the middle of a fit."""
    name = weights_name(estimator)
    if name is None:
        raise InvalidArgumentError(
            f"Rows have weights, and fit of {type(estimator).__name__} takes none. Give it a "
            "parameter sample_weight=None, or leave the weights out; cells of a table have one too."
        )
    return name


def as_recalibrator(estimator: Any) -> Recalibrator:
    """Return an unfitted copy of a recalibrator, or of what can stand for one."""
    fresh: Recalibrator = clone(
        ForeignEstimator(estimator) if is_foreign(estimator) else estimator, safe=False
    )
    return fresh


def is_foreign(estimator: Any) -> bool:
    """Tell an estimator of another library by its methods."""
    return not isinstance(estimator, Recalibrator | type) and all(
        callable(getattr(estimator, name, None)) for name in ("fit", "predict_proba")
    )


def check_of_one_score(name: str, recalibrator: object) -> None:
    """Raise InvalidArgumentError unless this recalibrates one score, with valid parameters."""
    if not isinstance(recalibrator, Recalibrator) or recalibrator._reads in SEVERAL:
        raise InvalidArgumentError(
            f"{name} must be a recalibrator of one score, such as PlattScaling(); "
            f"got {recalibrator!r:.100}."
        )
    recalibrator._check_parameters()


def check_inner(wrapper: Recalibrator, recalibrator: Any) -> None:
    """Refuse what does not recalibrate the probabilities of one event."""
    if is_foreign(recalibrator):
        return
    check_of_one_score("recalibrator", recalibrator)
    if recalibrator.input == "logits":
        raise InvalidArgumentError(
            f"{type(wrapper).__name__} passes probabilities on; its recalibrator needs "
            'input="probabilities".'
        )


def parts_as_steps(wrapper: Fitted) -> Fitted:
    """Return the same answers with steps in place of scalers of your own, which can be saved.

    See `ScalingBinning.as_steps`. A recalibrator of your own that is no scaler stays what it is,
    and cannot be saved.
    """
    check_is_fitted(wrapper, "classes_")
    steps: Any = copy(wrapper)
    steps.recalibrator = _without_own_scaler(steps.recalibrator)
    for name, kind in steps._learned.items():
        part = getattr(wrapper, name)
        if kind == "recalibrator":
            setattr(steps, name, _steps_of(part))
        elif kind == "recalibrators":
            setattr(steps, name, [None if own is None else _steps_of(own) for own in part])
    return steps  # type: ignore[no-any-return]


def _steps_of(fitted: Recalibrator) -> Recalibrator:
    steps: Recalibrator = fitted.as_steps() if hasattr(fitted, "as_steps") else fitted
    return steps


def can_be_saved(recalibrator: Any) -> bool:
    """Tell whether a recalibrator is calibrant's own, and the scaler in it too."""
    from calibrant.recalibrators.saving import known

    scaler = getattr(recalibrator, "scaler", None)
    own = known().get(type(recalibrator).__name__) is type(recalibrator)
    return own and (scaler is None or can_be_saved(scaler))


def _without_own_scaler(recalibrator: Any) -> Any:
    """Return parameters without a scaler of the user's, as `as_steps` leaves it out."""
    scaler = getattr(recalibrator, "scaler", None)
    if scaler is not None and not can_be_saved(scaler):
        recalibrator = copy(recalibrator)
        recalibrator.scaler = Identity(recalibrator.input)
    elif isinstance(getattr(recalibrator, "recalibrator", None), Recalibrator):
        recalibrator = copy(recalibrator)
        recalibrator.recalibrator = _without_own_scaler(recalibrator.recalibrator)
    return recalibrator


def fit_one_on_device(fresh: Recalibrator, tensors: Tensors) -> bool:
    """Fit on the scores of one event where they are; False where the host has to."""
    fresh.classes_, fresh.fingerprint_ = np.array([0, 1]), None
    return fresh._learn_tensors(tensors)


def fit_one(
    fresh: Recalibrator, scores: AnyArray, happened: AnyArray, weights: FloatArray | None
) -> Recalibrator:
    """Fit a recalibrator on the scores of one event."""
    return fresh._fit_scores(Scores.of_rows(scores.astype(np.float64), happened, weights))


def sum_of_fits(recalibrators: Sequence[Recalibrator | None]) -> FitResult:
    """Sum up several fits: mean losses, most iterations, all flags."""
    results = [r.fit_result_ for r in recalibrators if r is not None]
    return FitResult(
        all(result.converged for result in results),
        max(result.iterations for result in results),
        float(np.mean([result.loss for result in results])),
        float(np.mean([result.loss_identity for result in results])),
        tuple(sorted({flag for result in results for flag in result.flags})),
    )
