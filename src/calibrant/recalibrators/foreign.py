"""Estimators of other libraries: recalibrators of one score, classifiers fitted fold by fold."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from inspect import Parameter, signature
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
)
from calibrant.problem import Input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import fold_of_rows
from calibrant.recalibrators.reading import SEVERAL
from calibrant.recalibrators.scores import FitResult, Scores, identity_loss
from calibrant.sources.arrays import as_array

BY_ROW = 1e-4
"""Between two answers for one score, at most: float32 sums of another batch differ by 1e-6."""
ROUNDING = 1e-6
"""How far beyond [0, 1] a classifier may predict: float32 rows do by about 1e-7."""


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
        shown = repr(self.estimator)
        return f"{self._name}()" if shown == object.__repr__(self.estimator) else shown[:N_CHAR_MAX]

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
        parameters = {}
        if rows.weights is not None:
            name = weights_name(self.estimator)
            if name is None:
                raise InvalidArgumentError(
                    f"Rows have weights, and fit of {self._name} takes none or makes no use of "
                    "them. Give it a parameter sample_weight=None, or leave the weights out; cells "
                    "of a table have one too."
                )
            parameters[name] = rows.weights.copy()
        self.estimator_ = clone(self.estimator, safe=False)
        # copies: the values may be the caller's own array, and an estimator may scale it in place
        fit_with(self.estimator_, rows.values[:, None].copy(), happened.astype(np.intp), parameters)
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
                f"{self._name} gave {off.size:,} of {len(values):,} another "
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


def as_recalibrator(estimator: Any) -> Recalibrator:
    """Return an unfitted copy of a recalibrator, or of an estimator that can serve as one."""
    fresh: Recalibrator = clone(
        ForeignEstimator(estimator) if is_foreign(estimator) else estimator, safe=False
    )
    return fresh


def is_foreign(estimator: Any) -> bool:
    """Tell whether this is an estimator of another library, by its methods."""
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


def fit_one(
    fresh: Recalibrator, scores: AnyArray, happened: AnyArray, weights: FloatArray | None
) -> Recalibrator:
    """Fit a recalibrator on the scores of one event."""
    return fresh._fit_scores(Scores.of_rows(scores.astype(np.float64), happened, weights))


def fit_one_on_device(fresh: Recalibrator, tensors: Tensors) -> bool:
    """Fit on the scores of one event where they are; False where the host has to."""
    fresh.classes_, fresh.fingerprint_ = np.array([0, 1]), None
    return fresh._learn_tensors(tensors)


def weights_name(estimator: Any) -> str | None:
    """Return the name of the parameter of fit for weights; None where it does not use any."""
    if isinstance(estimator, Pipeline):  # the last step is what is fitted
        name, last = estimator.steps[-1]
        inner = weights_name(last)
        return inner and f"{name}__{inner}"
    if isinstance(estimator, GridSearchCV | RandomizedSearchCV):
        return weights_name(estimator.estimator)
    parameters = signature(estimator.fit).parameters
    if "sample_weight" in parameters:
        by_name = parameters["sample_weight"].kind is not Parameter.POSITIONAL_ONLY
        return "sample_weight" if by_name else None
    takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())
    return "sample_weight" if takes_any and _uses_weights(estimator) else None


def _uses_weights(estimator: Any) -> bool:
    """Tell whether a fit that takes any keyword uses weights: it may drop or refuse them.

    By trial: with nine in ten of the weight on one label, and then on the other, an estimator that
    uses weights gives other answers.
    """
    scores = np.repeat(np.linspace(0.05, 0.95, 19), 6)[:, None]
    happened = np.arange(len(scores)) % 2
    answers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for heavy in (0, 1):
            trial = clone(estimator, safe=False)
            weights = np.where(happened == heavy, 9.0, 1.0)
            try:
                trial.fit(scores.copy(), happened.copy(), sample_weight=weights)
                answers.append(np.array(trial.predict_proba(scores.copy())))
            except Exception:  # in whatever way an estimator says that it takes no weights
                return False
    first, second = answers
    return not np.array_equal(first, second)


def fit_with(estimator: Any, x: Any, y: AnyArray, parameters: dict[str, Any]) -> None:
    """Fit an estimator; where it fails on weights, say that they were passed."""
    try:
        estimator.fit(x, y, **parameters)
    except (TypeError, ValueError) as error:
        if not any(name.endswith("sample_weight") for name in parameters):
            raise
        raise InvalidArgumentError(
            f"Rows have weights, and fit of {type(estimator).__name__} failed with them: "
            f"{str(error).rstrip('.')[:300]}. If it cannot take weights, leave sample_weight out."
        ) from error


def check_estimator(estimator: Any, prefit: bool) -> None:
    """Refuse what is not a classifier; None stands for one that is still to be fitted."""
    if estimator is None and not prefit:
        return
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise InvalidArgumentError(
            f"estimator must be a {'fitted ' * prefit}classifier, such as "
            f"LogisticRegression(){'.fit(X, y)' * prefit}; got {estimator!r:.60}."
        )


def fitted(estimator: Any, x: Any, y: AnyArray, parameters: dict[str, Any], index: IntArray) -> Any:
    """Return a copy of the estimator fitted on these rows."""
    fresh = clone(estimator)
    fit_with(fresh, _safe_indexing(x, index), y[index], _check_method_params(x, parameters, index))
    return fresh


def weights_if_taken(weights: FloatArray | None, estimator: Any) -> dict[str, FloatArray]:
    """Return the weights as a parameter of the estimator's fit; warn where it takes none."""
    if weights is None:
        return {}
    if has_fit_parameter(estimator, "sample_weight"):
        return {"sample_weight": weights}
    warnings.warn(
        f"The fit of {type(estimator).__name__} takes no sample_weight: the weights are used for "
        "the recalibrator only, and the estimator counts all rows alike.",
        UserWarning,
        stacklevel=3,
    )
    return {}


def class_scores(estimator: Any, x: Any, classes: AnyArray, kind: Input) -> FloatArray:
    """Return the scores of a fitted classifier for each of these classes, a column each."""
    labels = classes_of(estimator)
    if kind == "logits":
        scores = _logits(estimator, x)
    else:
        probs = np.asarray(estimator.predict_proba(x), np.float64)
        inside = np.clip(probs, 0.0, 1.0)  # what rounding put beyond 0 and 1 is put back
        scores = np.where(np.abs(probs - inside) <= ROUNDING, inside, probs)
    if scores.ndim != 2 or scores.shape[1] != labels.size:
        raise InvalidShapeError(
            f"A classifier must predict one column for each of its {labels.size:,} classes; "
            f"{type(estimator).__name__} gave the shape {scores.shape}."
        )
    place = {label: column for column, label in enumerate(labels.tolist())}
    return scores[:, [place[label] for label in classes.tolist()]]


def classes_of(estimator: Any) -> AnyArray:
    """Return the labels of a fitted classifier's columns."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise InvalidArgumentError(
            f"A fitted classifier must have classes_, the labels of its columns; "
            f"{type(estimator).__name__} has none."
        )
    return np.asarray(classes)


def _logits(estimator: Any, x: Any) -> FloatArray:
    """Return decision scores as logits, two columns for one event: 0 and its score."""
    parameters = estimator.get_params() if hasattr(estimator, "get_params") else {}
    for name, value in parameters.items():
        # With three classes there are as many pairs as classes: the shape would not tell.
        if name.rsplit("__")[-1] == "decision_function_shape" and value == "ovo":
            raise InvalidArgumentError(
                f"Decision scores must belong to classes; {name}='ovo' gives those of pairs of "
                "classes. Use 'ovr'."
            )
    scores = np.asarray(estimator.decision_function(x), np.float64)
    return np.column_stack((np.zeros(len(scores)), scores)) if scores.ndim == 1 else scores


def train_and_test(
    cv: Any, x: Any, y: AnyArray, groups: Any, used: BoolArray
) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the rows with a weight that each fold trains on and tests."""
    if not isinstance(cv, numbers.Integral):
        # A splitter may name rows by position, so it sees all of them.
        for number, fold in enumerate(_splits(cv, x, y, groups), start=1):
            train, test = _parts(fold, number, len(y))
            yield train[used[train]], test[used[test]]
        return
    n_folds, rows = int(cv), np.flatnonzero(used)
    if n_folds < 2:
        raise InvalidArgumentError(
            f'cv must be 2 folds or more, a splitter or "prefit"; got {cv!r:.60}.'
        )
    if n_folds > rows.size:
        raise InvalidArgumentError(
            f"cv must be at most the number of rows with a weight, {rows.size:,}; got {cv!r:.60}. "
            "Use fewer folds, or more rows."
        )
    _, codes = np.unique(y[rows], return_inverse=True)
    fold_of_row = fold_of_rows(codes, n_folds, np.random.default_rng(0))
    for k in range(n_folds):
        yield rows[fold_of_row != k], rows[fold_of_row == k]


def _splits(cv: Any, x: Any, y: AnyArray, groups: Any) -> Iterator[Any]:
    """Return the folds of a splitter, or given folds as they are."""
    try:
        # Text, bytes and classes have a split too, which is another one.
        if not isinstance(cv, str | bytes | type):
            if cv is not None and not hasattr(cv, "split"):
                return iter(cv)
            return iter(check_cv(cv, y, classifier=True).split(x, y, groups))
    except TypeError:
        pass
    raise InvalidArgumentError(
        f'cv must be 2 folds or more, a splitter or "prefit"; got {cv!r:.60}. Write 5 for five '
        "folds, or pass a splitter object, such as StratifiedKFold(5)."
    )


def _parts(fold: Any, number: int, n: int) -> tuple[IntArray, IntArray]:
    """Return the rows that a fold trains on and those that it tests."""
    try:
        train, test = (np.arange(n)[part] for part in fold)
        if train.ndim == test.ndim == 1:
            return train, test
    except (TypeError, ValueError, IndexError):
        pass
    raise InvalidArgumentError(
        f"Each fold of cv must be a pair of arrays, the positions among {n:,} rows to train on and "
        f"to test; fold {number} is {fold!r:.60}. Use a number of folds, or a splitter such as "
        "StratifiedKFold(5)."
    )
