"""RecalibratedClassifier: a classifier of features and its recalibrator in one estimator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, check_array, get_tags, indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
)

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.columns import check_heaviest
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
)
from calibrant.problem import Input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.certifying import check_fresh
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.recalibrators.foreign import (
    as_recalibrator,
    check_estimator,
    class_scores,
    classes_of,
    fitted,
    is_foreign,
    train_and_test,
    weights_if_taken,
)
from calibrant.recalibrators.matrix import VectorScaling
from calibrant.recalibrators.multiclass import OneVsRest
from calibrant.recalibrators.scaling import PlattScaling
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.temperature import Identity
from calibrant.sources.arrays import read_weights
from calibrant.stats import Certificate


class RecalibratedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a classifier, recalibrate it on predictions for rows it has not seen, and keep both.

    With folds, rows are predicted by a classifier that was fitted without them, one recalibrator
    is fitted on these predictions, and the classifier is fitted again on all rows. Any splitter
    will do. Rows that no fold tests, such as the first ones of a `TimeSeriesSplit`, are left out
    of the recalibrator's fit. A row that several folds test counts once, with the prediction of
    the first of them: an average would be that of an ensemble, which `estimator_` is not. Every
    class must be among the training rows of each fold and among the tested rows.

    Parameters
    ----------
    estimator : classifier with predict_proba or decision_function
        `LogisticRegression` unless given.
    recalibrator : recalibrator
        `PlattScaling` unless given; anything with `fit` and `predict_proba` will do, and gets the
        scores as its one feature. One for a single score is applied to the second class of
        two; for more classes it is wrapped in ``OneVsRest(recalibrator, normalize=True)``. One
        with ``input="logits"`` reads the estimator's `decision_function`. An estimator that has
        nothing else is read that way too, by a copy with ``input="logits"``; then the default
        for more than two classes is `VectorScaling`, and a recalibrator that reads
        probabilities only is refused.
    cv : int, splitter or "prefit"
        The folds, no more than rows; "prefit" takes a fitted estimator and uses all rows for the
        recalibrator.

    Attributes
    ----------
    classes_ : ndarray
    estimator_ : the fitted classifier.
    recalibrator_ : the fitted recalibrator.
    input_ : {"probabilities", "logits"}
        What the recalibrator reads: `predict_proba` or `decision_function`.
    n_tested_, n_untested_ : int
        The rows that the recalibrator was fitted on, and those that no fold tests.
    fingerprint_ : Fingerprint or None
        By which `certify` knows the rows of the fit again; None of a prefit classifier.

    Notes
    -----
    A weight of 2 counts a row twice wherever rows are counted. A row that stands in the data
    twice is two rows to a splitter, which may put them into different folds; so the two fits
    differ a little, unless the folds are the same. scikit-learn's `check_estimator` compares
    these fits, in ``check_sample_weight_equivalence_on_dense_data`` and its sparse twin, which
    are expected to fail for that reason.

    See Also
    --------
    best_recalibrator : chooses the repair.
    sklearn.calibration.CalibratedClassifierCV : keeps one classifier and one repair for each fold.

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
    input_: Input
    n_tested_: int
    n_untested_: int
    fingerprint_: Fingerprint | None

    def __init__(
        self,
        estimator: Any = None,
        recalibrator: Recalibrator | None = None,
        cv: int | Literal["prefit"] | Any = 5,
    ) -> None:
        self.estimator = estimator
        self.recalibrator = recalibrator
        self.cv = cv

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Fit both and return self.

        Parameters
        ----------
        X, y
            Features and labels.
        sample_weight : array_like of shape (n,), optional
            For the recalibrator, and for the estimator where its `fit` takes them; if not, a
            warning says so. Rows of weight 0 are left out.
        groups : array_like of shape (n,), optional
            For splitters that keep groups together, such as `GroupKFold`.
        **fit_params
            For the estimator's `fit`: what has a value for each row is split with the rows, all
            else, such as an `eval_set` for early stopping, is passed on to every fit as it is.
        """
        X, y, weights, used = self._checked(X, y, sample_weight)  # noqa: N806
        prefit = isinstance(self.cv, str) and self.cv == "prefit"
        check_estimator(self.estimator, prefit)
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if prefit and fit_params:
            raise InvalidArgumentError(
                'With cv="prefit" the estimator is not fitted, so it takes no parameters of fit; '
                f"got {', '.join(fit_params)}. Fit it with them first."
            )
        if prefit:
            check_is_fitted(estimator)
            self.estimator_, self.classes_ = estimator, classes_of(estimator)
            self.recalibrator_, self.input_ = self._fresh_recalibrator(estimator)
            tested = np.flatnonzero(used)
            scores = self._scores(estimator, _safe_indexing(X, tested))
            self.fingerprint_ = None
        else:
            self.classes_ = np.unique(y[used])
            if self.classes_.size < 2:
                raise InvalidLabelsError(
                    "A classifier needs rows of two classes or more; y has "
                    f"{self.classes_.size} class."
                )
            self.recalibrator_, self.input_ = self._fresh_recalibrator(estimator)
            parameters = {**fit_params, **weights_if_taken(weights, estimator)}
            folds = train_and_test(self.cv, X, y, groups, used)
            tested, scores = self._cross_predict(estimator, X, y, parameters, folds)
            rows = np.flatnonzero(used)
            self.estimator_ = fitted(estimator, X, y, parameters, rows)
            fit_scores = self._scores(self.estimator_, _safe_indexing(X, rows))
            self.fingerprint_ = Fingerprint.of(fit_scores, self._codes(y[rows]))
        self.n_tested_, self.n_untested_ = tested.size, int(used.sum()) - tested.size
        of_tested = None if weights is None else weights[tested]
        self.recalibrator_.fit(scores, self._codes(y[tested]), sample_weight=of_tested)
        return self

    def predict_proba(self, X: Any) -> FloatArray:  # noqa: N803
        """Return recalibrated probabilities, one column for each class."""
        check_is_fitted(self, "recalibrator_")
        return self.recalibrator_.predict_proba(self._scores(self.estimator_, X))

    def predict(self, X: Any) -> AnyArray:  # noqa: N803
        """Return the most probable class of each row."""
        check_is_fitted(self, "recalibrator_")
        codes = self.recalibrator_.predict(self._scores(self.estimator_, X))
        return np.asarray(self.classes_[codes])

    def certify(self, X: Any, y: Any, **options: Any) -> Certificate:  # noqa: N803
        """Predict fresh rows and certify the probabilities, as `Recalibrator.certify` does.

        The very rows of `fit` are refused, and many of them among others are an `OverlapWarning`:
        they shaped the classifier and its repair. Of a prefit classifier only the rows that fitted
        the repair are known again.

        Parameters
        ----------
        X, y
            Features and labels of rows that were not fitted on.
        **options
            `max_error` and all others of `calibrant.recalibrators.Recalibrator.certify`.

        Returns
        -------
        Certificate

        Raises
        ------
        InvalidInputError
            For the rows of `fit`.
        """
        check_is_fitted(self, "recalibrator_")
        scores, codes = self._scores(self.estimator_, X), self._codes(column_or_1d(y))
        if self.fingerprint_ is not None:
            check_fresh(self.fingerprint_, Fingerprint.of(scores, codes), "classifier")
        return self.recalibrator_.certify(scores, codes, **options)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the repair alone, as readable JSON for `calibrant.load`.

        The classifier is saved by its own means; joblib keeps both together.
        """
        check_is_fitted(self, "recalibrator_")
        self.recalibrator_.save(path)

    @property
    def feature_names_in_(self) -> AnyArray:
        """The names of the features, where the classifier was fitted on a frame that has them."""
        check_is_fitted(self, "estimator_")
        return np.asarray(self.estimator_.feature_names_in_)

    @property
    def n_features_in_(self) -> int:
        """The number of features the classifier was fitted on."""
        check_is_fitted(self, "estimator_")
        return int(self.estimator_.n_features_in_)

    def _checked(
        self, x: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, AnyArray, FloatArray | None, BoolArray]:
        """Check that rows and labels fit together, and tell which rows have a weight."""
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        x, y = indexable(x if hasattr(x, "shape") else np.asarray(x), y)
        labels = y.tolist() if y.dtype.kind == "O" else []
        if type(None) in map(type, labels) or len({isinstance(label, str) for label in labels}) > 1:
            types = ", ".join(sorted({type(label).__name__ for label in labels}))
            raise InvalidLabelsError(
                f"Labels must be of one type, and none may be missing; y holds {types}. "
                "Drop the rows without a label, or convert all labels to text."
            )
        check_classification_targets(y)
        weights = read_weights(sample_weight, len(y))
        if weights is None:
            return x, y, None, np.ones(y.shape, bool)
        check_heaviest(weights.max())
        return x, y, weights, weights > 0

    def _codes(self, y: AnyArray) -> IntArray:
        table = {label: code for code, label in enumerate(self.classes_.tolist())}
        codes = np.array([table.get(label, -1) for label in y.tolist()], np.intp)
        if codes.min() < 0:
            unknown = y[codes < 0].tolist()
            raise InvalidLabelsError(
                f"The classifier does not know the label {unknown[0]!r:.40}; {len(unknown):,} of "
                f"{len(y):,} labels are not among those of its fit, {[*table]!r:.60}. Write them "
                "as in the fit, or leave these rows out."
            )
        return codes

    def _fresh_recalibrator(self, estimator: Any) -> tuple[Recalibrator, Input]:
        """Return a copy that reads the output of the estimator, and what that is."""
        several = self.classes_.size > 2
        has_probabilities = hasattr(estimator, "predict_proba")
        has_scores = hasattr(estimator, "decision_function")
        inner: Recalibrator = PlattScaling()
        if self.recalibrator is not None:
            if not (is_foreign(self.recalibrator) or isinstance(self.recalibrator, Recalibrator)):
                raise InvalidArgumentError(
                    "recalibrator must be one of calibrant's, such as PlattScaling(), or have fit "
                    f"and predict_proba; got {self.recalibrator!r:.60}."
                )
            inner = as_recalibrator(self.recalibrator)
            inner._check_parameters()
        declared = inner.input
        if not (has_scores or (has_probabilities and declared == "probabilities")):
            needed = "decision_function, for a recalibrator of logits"
            if declared == "probabilities":
                needed = "predict_proba or decision_function"
            raise InvalidArgumentError(
                f"The estimator needs {needed}; {type(estimator).__name__} has none. Use another "
                "estimator or a recalibrator of probabilities."
            )
        if not has_probabilities or declared == "logits":
            if self.recalibrator is None and several:
                inner = VectorScaling()
            return _reading_logits(inner, type(estimator).__name__, several), "logits"
        if several and inner._reads == "one event":
            inner = OneVsRest(inner, normalize=True)
        return inner, "probabilities"

    def _cross_predict(
        self,
        estimator: Any,
        x: Any,
        y: AnyArray,
        parameters: dict[str, Any],
        folds: Iterator[tuple[IntArray, IntArray]],
    ) -> tuple[IntArray, FloatArray]:
        """Return the rows that folds test, and the scores of each by a fit without it."""
        scores, tested = np.zeros((len(y), self.classes_.size)), np.zeros(len(y), bool)
        for number, (train, test) in enumerate(folds, start=1):
            if np.intersect1d(train, test).size:
                raise InvalidArgumentError(
                    f"A fold must not test rows it trains on; fold {number} of cv shares "
                    f"{np.intersect1d(train, test).size:,}. Use a splitter that keeps them apart."
                )
            test = test[~tested[test]]
            if test.size == 0:
                continue
            self._need_all_classes(y[train], f"The training rows of fold {number}")
            fold = fitted(estimator, x, y, parameters, train)
            scores[test] = self._scores(fold, _safe_indexing(x, test))
            tested[test] = True
        index = np.flatnonzero(tested)
        self._need_all_classes(y[index], f"The {index.size:,} rows that the folds test")
        return index, scores[index]

    def _need_all_classes(self, y: AnyArray, subject: str) -> None:
        missing = np.setdiff1d(self.classes_, y)
        if missing.size:
            raise InvalidLabelsError(
                f"{subject} must hold every one of the {self.classes_.size:,} classes; "
                f"{missing.size:,} of them are missing (first: {missing.tolist()[0]!r}). A class "
                "needs two rows or more: use fewer or stratified folds, or leave rare classes out."
            )

    def _scores(self, estimator: Any, x: Any) -> FloatArray:
        """Return the input of the recalibrator: a column for every class, in our order."""
        return class_scores(estimator, x, self.classes_, self.input_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = LogisticRegression() if self.estimator is None else self.estimator
        tags.input_tags = get_tags(inner).input_tags
        return tags


def _reading_logits(recalibrator: Recalibrator, estimator: str, several: bool) -> Recalibrator:
    """Return the recalibrator with its input declared as logits, or refuse."""
    if not (several and recalibrator._reads == "one event"):
        if isinstance(recalibrator, ScalingBinning):
            scaler = PlattScaling() if recalibrator.scaler is None else recalibrator.scaler
            if "input" in scaler.get_params():
                scaler = clone(scaler).set_params(input="logits")
                recalibrator.set_params(scaler=scaler)
                return recalibrator
        # Identity would take margins for log-odds as they are, which was not declared.
        elif "input" in recalibrator.get_params(deep=False) and (
            recalibrator.input == "logits" or not isinstance(recalibrator, Identity)
        ):
            recalibrator.set_params(input="logits")
            return recalibrator
    advice = "VectorScaling() or TemperatureScaling()"
    if not several:
        advice = "PlattScaling() or ScalingBinning()"
    raise InvalidArgumentError(
        f"The scores of {estimator}.decision_function are logits{' of several classes' * several}; "
        f"{recalibrator._name} does not read those. Use {advice}, which do, or an "
        "estimator with predict_proba."
    )
