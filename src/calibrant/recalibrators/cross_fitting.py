"""Classifiers of other libraries, fitted fold by fold: who trains on what, and what each says."""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Input
from calibrant.recalibrators.class_rows import fold_of_rows

ROUNDING = 1e-6
"""How far beyond [0, 1] a classifier may predict: float32 rows do by about 1e-7."""


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
    own = _check_method_params(x, parameters, index)
    return clone(estimator).fit(_safe_indexing(x, index), y[index], **own)


def weights_if_taken(weights: FloatArray | None, estimator: Any) -> dict[str, FloatArray]:
    """Return the weights as a parameter of the estimator's fit; warn where it takes none."""
    if weights is None or has_fit_parameter(estimator, "sample_weight"):
        return {} if weights is None else {"sample_weight": weights}
    warnings.warn(
        f"The fit of {type(estimator).__name__} takes no sample_weight: the weights are used for "
        "the recalibrator only, and the estimator counts all rows alike.",
        UserWarning,
        stacklevel=3,
    )
    return {}


def class_scores(estimator: Any, x: Any, classes: AnyArray, kind: Input) -> FloatArray:
    """Return what a fitted classifier says of each of these classes, a column each."""
    known = classes_of(estimator)
    own = _logits(estimator, x) if kind == "logits" else _probabilities(estimator, x)
    if own.ndim != 2 or own.shape[1] != known.size:
        raise InvalidShapeError(
            f"A classifier must predict one column for each of its {known.size:,} classes; "
            f"{type(estimator).__name__} gave the shape {own.shape}."
        )
    place = {label: column for column, label in enumerate(known.tolist())}
    return own[:, [place[label] for label in classes.tolist()]]


def classes_of(estimator: Any) -> AnyArray:
    """Return the labels of a fitted classifier's columns."""
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise InvalidArgumentError(
            f"A fitted classifier must have classes_, the labels of its columns; "
            f"{type(estimator).__name__} has none."
        )
    return np.asarray(classes)


def _probabilities(estimator: Any, x: Any) -> FloatArray:
    """Return predicted probabilities; what rounding put beyond 0 and 1 is put back."""
    probs = np.asarray(estimator.predict_proba(x), np.float64)
    inside = np.clip(probs, 0.0, 1.0)
    return np.where(np.abs(probs - inside) <= ROUNDING, inside, probs)


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
    if isinstance(cv, numbers.Integral):
        yield from _even_folds(int(cv), y, np.flatnonzero(used))
        return
    # A splitter may name rows by position, so it sees all of them.
    for number, fold in enumerate(_splits(cv, x, y, groups), start=1):
        train, test = _parts(fold, number, len(y))
        yield train[used[train]], test[used[test]]


def _even_folds(cv: int, y: AnyArray, used: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    if cv < 2:
        raise InvalidArgumentError(
            f'cv must be 2 folds or more, a splitter or "prefit"; got {cv!r:.60}.'
        )
    if cv > used.size:
        raise InvalidArgumentError(
            f"cv must be at most the number of rows with a weight, {used.size:,}; got {cv!r:.60}. "
            "Use fewer folds, or more rows."
        )
    _, codes = np.unique(y[used], return_inverse=True)
    fold = fold_of_rows(codes, cv, np.random.default_rng(0))
    for k in range(cv):
        yield used[fold != k], used[fold == k]


def _splits(cv: Any, x: Any, y: AnyArray, groups: Any) -> Iterator[Any]:
    """Return the folds of a splitter, or those that came as they are."""
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
