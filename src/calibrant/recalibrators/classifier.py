"""RecalibratedClassifier: a classifier and its recalibrator, for people who hold features."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.utils import check_array, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, has_fit_parameter

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidLabelsError, InvalidWeightsError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.multiclass import OneVsRest, TopLabel
from calibrant.recalibrators.scaling import PlattScaling
from calibrant.recalibrators.temperature import TemperatureScaling


class RecalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier, recalibrate it on predictions for rows it has not seen, and keep both.

    With folds, every row is predicted by a classifier fitted on the other folds, one
    recalibrator is fitted on all these predictions, and the classifier is fitted again on all
    rows. Classes that are missing in a fold are predicted with probability 0 there.

    Parameters
    ----------
    estimator : classifier with predict_proba
        `LogisticRegression` unless given.
    recalibrator : recalibrator
        `PlattScaling` unless given. One for a single score is applied to the second class of
        two; for more classes it is wrapped in ``OneVsRest(recalibrator, normalize=True)``.
    cv : int, splitter or "prefit"
        The folds; "prefit" takes a fitted estimator and uses all rows for the recalibrator.

    Attributes
    ----------
    classes_ : ndarray
    estimator_ : the fitted classifier.
    recalibrator_ : the fitted recalibrator.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> x, y = load_iris(return_X_y=True)
    >>> model = RecalibratedClassifier(GaussianNB(), PlattScaling()).fit(x, y)
    >>> model.predict_proba(x[:1]).argmax(), round(model.score(x, y), 2)
    (np.int64(0), 0.96)
    """

    classes_: AnyArray

    def __init__(
        self,
        estimator: Any = None,
        recalibrator: Recalibrator | None = None,
        cv: int | Literal["prefit"] | Any = 5,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Fit both and return self."""
        X, y, weights = self._checked(X, y, sample_weight)  # noqa: N806
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if self.cv == "prefit":
            check_is_fitted(estimator)
            self.estimator_, self.classes_ = estimator, np.asarray(estimator.classes_)
            probs = _aligned(estimator, X, self.classes_)
        else:
            self.classes_ = np.unique(y)
            self._need_two_classes()
            probs = self._cross_predict(estimator, X, y, weights)
            self.estimator_ = _fitted(estimator, X, y, weights)
        self.recalibrator_ = self._fresh_recalibrator()
        self.recalibrator_.fit(probs, self._codes(y), sample_weight=weights)
        return self

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return recalibrated probabilities, one column for each class."""
        check_is_fitted(self, "recalibrator_")
        return self.recalibrator_.predict_proba(_aligned(self.estimator_, X, self.classes_))

    def predict(self, X: Any) -> AnyArray:  # noqa: N803
        """Return the most probable class of each row."""
        check_is_fitted(self, "recalibrator_")
        probs = _aligned(self.estimator_, X, self.classes_)
        if isinstance(self.recalibrator_, TopLabel):
            return np.asarray(self.classes_[probs.argmax(axis=1)])
        return np.asarray(self.classes_[self.recalibrator_.predict_proba(probs).argmax(axis=1)])

    @property
    def n_features_in_(self) -> int:
        """The number of features the classifier was fitted on."""
        check_is_fitted(self, "estimator_")
        return int(self.estimator_.n_features_in_)

    def _checked(
        self, x: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, AnyArray, FloatArray | None]:
        """Check that rows and labels fit together; rows of weight zero are left out."""
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        x, y = indexable(x if hasattr(x, "shape") else np.asarray(x), y)
        check_classification_targets(y)
        if sample_weight is None:
            return x, y, None
        weights = np.asarray(sample_weight, np.float64)
        if weights.shape != y.shape or not weights.any():
            raise InvalidWeightsError(
                f"sample_weight must have shape {y.shape} and not be zero on every row; got shape "
                f"{weights.shape}."
            )
        used = np.flatnonzero(weights)
        return _rows(x, used), y[used], weights[used]

    def _need_two_classes(self) -> None:
        if self.classes_.size < 2:
            raise InvalidLabelsError(
                f"A classifier needs rows of two classes or more; y has {self.classes_.size} class."
            )

    def _codes(self, y: AnyArray) -> IntArray:
        table = {label: code for code, label in enumerate(self.classes_.tolist())}
        codes = np.array([table.get(label, -1) for label in y.tolist()], np.intp)
        if codes.min() < 0:
            unknown = y[codes < 0].tolist()[0]
            raise InvalidLabelsError(f"The prefit estimator does not know the label {unknown!r}.")
        return codes

    def _fresh_recalibrator(self) -> Recalibrator:
        inner = PlattScaling() if self.recalibrator is None else clone(self.recalibrator)
        single = isinstance(inner, BinaryRecalibrator) and not isinstance(inner, TemperatureScaling)
        return OneVsRest(inner, normalize=True) if single and self.classes_.size > 2 else inner

    def _cross_predict(
        self, estimator: Any, x: Any, y: AnyArray, weights: FloatArray | None
    ) -> FloatArray:
        """Return predictions for every row by a classifier that has not seen it."""
        probs = np.zeros((len(y), self.classes_.size))
        for train, test in _folds(self.cv, x, y):
            w = None if weights is None else weights[train]
            fold = _fitted(estimator, _rows(x, train), y[train], w)
            probs[test] = _aligned(fold, _rows(x, test), self.classes_)
        return probs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = LogisticRegression() if self.estimator is None else self.estimator
        tags.input_tags = get_tags(inner).input_tags
        return tags


def _folds(cv: Any, x: Any, y: AnyArray) -> Any:
    """Return the folds; every class is spread evenly, and rare ones are missing in some."""
    if not isinstance(cv, int):
        return check_cv(cv, y, classifier=True).split(x, y)
    n = min(cv, len(y))
    if n < 2:
        raise InvalidLabelsError(f"{cv} folds of {len(y)} rows leave nothing to fit: n_samples=1.")
    order = np.random.default_rng(0).permutation(len(y))
    _, codes = np.unique(y, return_inverse=True)
    order = order[np.argsort(codes[order], kind="stable")]
    fold = np.empty(len(y), np.intp)
    fold[order] = np.arange(len(y)) % n
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n)]


def _rows(x: Any, index: IntArray) -> Any:
    return x.iloc[index] if hasattr(x, "iloc") else x[index]


def _fitted(estimator: Any, x: Any, y: AnyArray, weights: FloatArray | None) -> Any:
    fresh = clone(estimator)
    if weights is not None and has_fit_parameter(fresh, "sample_weight"):
        return fresh.fit(x, y, sample_weight=weights)
    return fresh.fit(x, y)


def _aligned(estimator: Any, x: Any, classes: AnyArray) -> FloatArray:
    """Return predictions with a column for every class; 0 for those the estimator has not seen."""
    own = np.asarray(estimator.predict_proba(x))
    probs = np.zeros((len(own), classes.size))
    probs[:, np.searchsorted(classes, estimator.classes_)] = own
    return np.clip(probs, 0.0, 1.0)
