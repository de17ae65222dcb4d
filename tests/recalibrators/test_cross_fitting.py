"""Classifiers of other libraries, fold by fold: who trains on what, and what each says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from calibrant import calibration_error
from calibrant.exceptions import InvalidArgumentError, InvalidLabelsError
from calibrant.recalibrators import PlattScaling, RecalibratedClassifier, TemperatureScaling

X, Y = make_classification(2000, 20, random_state=0)
FIT, FRESH = slice(0, 1000), slice(1000, None)
IRIS = load_iris(return_X_y=True)


def fitted_on(cv):
    return RecalibratedClassifier(GaussianNB(), PlattScaling(), cv).fit(X[FIT], Y[FIT])


SPLITTERS = {
    "time series": (TimeSeriesSplit(3), 750),
    "shuffle": (ShuffleSplit(3, test_size=0.2, random_state=0), None),
    "repeated": (RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), 1000),
    "stratified": (StratifiedKFold(4), 1000),
    "predefined": (PredefinedSplit(np.repeat([-1, 0, 1], [400, 300, 300])), 600),
    "pairs": ([(np.arange(500), np.arange(500, 1000))], 500),
    "masks": ([(np.arange(1000) < 500, np.arange(1000) >= 500)], 500),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_only_rows_that_a_fold_tests_are_fitted_on(name):
    cv, n_tested = SPLITTERS[name]
    model = fitted_on(cv)
    plain = GaussianNB().fit(X[FIT], Y[FIT])
    error = calibration_error(Y[FRESH], model.predict_proba(X[FRESH])[:, 1]).value
    assert error < 0.06 < calibration_error(Y[FRESH], plain.predict_proba(X[FRESH])[:, 1]).value
    assert model.n_tested_ + model.n_untested_ == 1000
    assert n_tested is None or model.n_tested_ == n_tested
    assert model.recalibrator_.fingerprint_.n == model.n_tested_


def test_groups_reach_the_splitter():
    groups = np.arange(1000) // 10
    model = RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5))
    model.fit(X[FIT], Y[FIT], groups=groups)
    assert model.n_untested_ == 0
    with pytest.raises(ValueError, match="groups"):
        RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5)).fit(X[FIT], Y[FIT])


@pytest.mark.parametrize(
    ("cv", "labels", "message"),
    [
        (TimeSeriesSplit(3), np.repeat([0, 1], [60, 40]), "training rows of fold 1 must hold"),
        (KFold(2), np.repeat([0, 1], 50), r"training rows of fold 1 must hold.*first: 0"),
        (5, np.repeat(["a", "b", "c"], [50, 49, 1]), r"training rows of fold . .*first: 'c'"),
        (LeaveOneOut(), np.repeat([0, 1], [99, 1]), "training rows of fold 100 must hold"),
        ([(np.arange(50), np.arange(50, 60))], np.r_[np.arange(50) % 2, [1] * 50], "10 rows that"),
        ([(np.arange(50), np.arange(0))], np.arange(100) % 2, "The 0 rows that the folds test"),
    ],
)
def test_folds_without_a_class_are_refused(cv, labels, message):
    with pytest.raises(InvalidLabelsError, match=message):
        RecalibratedClassifier(GaussianNB(), cv=cv).fit(X[:100], labels)


def test_folds_that_test_their_own_training_rows_are_refused():
    with pytest.raises(InvalidArgumentError, match="fold 1 of cv shares 10"):
        fitted_on([(np.arange(100), np.arange(90, 200))])
    for cv in (1, 0, -3, True):
        with pytest.raises(InvalidArgumentError, match="2 folds or more"):
            fitted_on(cv)


def test_weights_that_the_estimator_does_not_take_are_used_for_the_recalibrator_with_a_warning():
    w = np.random.default_rng(0).exponential(size=1000)
    model = RecalibratedClassifier(KNeighborsClassifier(), cv=StratifiedKFold(3))
    with pytest.warns(UserWarning, match="KNeighborsClassifier takes no sample_weight") as caught:
        model.fit(X[FIT], Y[FIT], sample_weight=w)
    assert [one.filename for one in caught] == [__file__]
    plain = RecalibratedClassifier(KNeighborsClassifier(), cv=StratifiedKFold(3))
    assert (plain.fit(X[FIT], Y[FIT]).recalibrator_.coef_ != model.recalibrator_.coef_).all()


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_no_warning_where_weights_are_taken_or_nothing_is_fitted(cv):
    estimator = LogisticRegression() if cv == 3 else KNeighborsClassifier().fit(X[FRESH], Y[FRESH])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RecalibratedClassifier(estimator, cv=cv).fit(X[FIT], Y[FIT], np.ones(1000))
    assert model.n_tested_ == 1000


def test_decision_scores_of_pairs_of_classes_are_refused():
    with pytest.raises(InvalidArgumentError, match="Use 'ovr'"):
        RecalibratedClassifier(SVC(decision_function_shape="ovo")).fit(*IRIS)


class Backwards(ClassifierMixin, BaseEstimator):
    """A classifier whose classes are in falling order."""

    def __init__(self, method="predict_proba"):
        self.method = method

    def fit(self, X, y):
        self.inner_ = LogisticRegression(max_iter=1000).fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def __getattr__(self, name):
        if name == vars(self).get("method"):
            return lambda x: self.said(name, x)
        raise AttributeError(name)

    def said(self, method, x):
        if method == "predict_proba":
            return self.inner_.predict_proba(x)[:, ::-1]
        scores = self.inner_.decision_function(x)
        return -scores if scores.ndim == 1 else scores[:, ::-1]


@pytest.mark.parametrize("method", ["predict_proba", "decision_function"])
@pytest.mark.parametrize("data", [(X[FIT], Y[FIT]), IRIS], ids=["two classes", "three classes"])
def test_the_order_of_the_estimators_classes_does_not_matter(method, data):
    x, y = data
    recalibrator = TemperatureScaling(input="probabilities")
    plain = LogisticRegression(max_iter=1000)
    expected = RecalibratedClassifier(plain, recalibrator, cv=3).fit(x, y)
    model = RecalibratedClassifier(Backwards(method), recalibrator, cv=3).fit(x, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    np.testing.assert_allclose(model.predict_proba(x), expected.predict_proba(x), atol=1e-6)
    prefit = RecalibratedClassifier(Backwards(method).fit(x, y), recalibrator, cv="prefit")
    prefit.fit(x, y)
    np.testing.assert_array_equal(prefit.classes_, np.unique(y)[::-1])
    assert prefit.score(x, y) > 0.8


class Percent(GaussianNB):
    """A classifier that predicts percentages."""

    def predict_proba(self, X):
        return 100 * super().predict_proba(X)


def test_predictions_that_are_no_probabilities_are_refused_and_not_clipped():
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        RecalibratedClassifier(Percent()).fit(X[FIT], Y[FIT])
