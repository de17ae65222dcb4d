"""RecalibratedClassifier: any splitter, any classifier, weights, and what it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import calibrant
from calibrant import calibration_error
from calibrant.exceptions import InvalidArgumentError, InvalidLabelsError, InvalidWeightsError
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    RecalibratedClassifier,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
)

X, Y = make_classification(2000, 20, random_state=0)
FIT, FRESH = slice(0, 1000), slice(1000, None)
IRIS = load_iris(return_X_y=True)


def fitted_on(cv, recalibrator=None):
    model = RecalibratedClassifier(GaussianNB(), recalibrator or PlattScaling(), cv)
    return model.fit(X[FIT], Y[FIT])


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


def test_the_fit_is_that_of_the_predictions_made_for_tested_rows():
    cv = TimeSeriesSplit(3)
    probs, labels = [], []
    for train, test in cv.split(X[FIT]):
        probs.append(GaussianNB().fit(X[train], Y[train]).predict_proba(X[test]))
        labels.append(Y[test])
    expected = PlattScaling().fit(np.concatenate(probs), np.concatenate(labels))
    np.testing.assert_array_equal(fitted_on(cv).recalibrator_.coef_, expected.coef_)


def test_a_row_that_several_folds_test_counts_once():
    once = KFold(4, shuffle=True, random_state=0).split(X[FIT])
    first = list(once)
    later = list(KFold(3).split(X[FIT]))
    np.testing.assert_array_equal(
        fitted_on(first + later).recalibrator_.coef_, fitted_on(first).recalibrator_.coef_
    )


def test_groups_reach_the_splitter():
    groups = np.arange(1000) // 10
    model = RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5))
    model.fit(X[FIT], Y[FIT], groups=groups)
    assert model.n_untested_ == 0
    with pytest.raises(ValueError, match="groups"):
        RecalibratedClassifier(GaussianNB(), cv=GroupKFold(5)).fit(X[FIT], Y[FIT])


def test_weights_count_as_repeated_rows_where_the_folds_are_the_same():
    w, fold = np.arange(1000) % 4, np.arange(1000) % 3
    twice = np.repeat(np.arange(1000), w)
    weighted = RecalibratedClassifier(GaussianNB(), cv=PredefinedSplit(fold))
    repeated = RecalibratedClassifier(GaussianNB(), cv=PredefinedSplit(fold[twice]))
    weighted.fit(X[FIT], Y[FIT], sample_weight=w)
    repeated.fit(X[FIT][twice], Y[FIT][twice])
    np.testing.assert_allclose(
        weighted.predict_proba(X[FRESH]), repeated.predict_proba(X[FRESH]), rtol=1e-7
    )


def test_rows_of_weight_zero_are_left_out_under_any_splitter():
    w = np.repeat([0.0, 1.0], 500)
    predefined = PredefinedSplit(np.arange(1000) % 2)
    model = RecalibratedClassifier(GaussianNB(), cv=predefined).fit(X[FIT], Y[FIT], w)
    kept = PredefinedSplit(np.arange(500) % 2)
    other = RecalibratedClassifier(GaussianNB(), cv=kept).fit(X[500:1000], Y[500:1000])
    np.testing.assert_allclose(model.recalibrator_.coef_, other.recalibrator_.coef_, rtol=1e-9)
    assert (model.n_tested_, model.n_untested_) == (500, 0)


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


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1.0])
def test_weights_that_are_no_weights_are_refused(wrong):
    w = np.ones(1000)
    w[7] = wrong
    with pytest.raises(InvalidWeightsError, match=r"first: sample_weight\[7\]"):
        RecalibratedClassifier(GaussianNB()).fit(X[FIT], Y[FIT], w)


SCORES_ONLY = {
    "linear svc": LinearSVC(),
    "svc": SVC(),
    "ridge": RidgeClassifier(),
    "steep": make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
    "pipeline": make_pipeline(StandardScaler(), LinearSVC()),
}


@pytest.mark.parametrize("estimator", SCORES_ONLY.values(), ids=SCORES_ONLY)
@pytest.mark.parametrize(
    "recalibrator",
    [
        None,
        TemperatureScaling(),
        ScalingBinning(bins=5),
        VectorScaling(),
        PlattScaling("squared"),
    ],
    ids=str,
)
def test_decision_scores_of_one_event_are_logits(estimator, recalibrator):
    model = RecalibratedClassifier(estimator, recalibrator, cv=3).fit(X[FIT], Y[FIT])
    probs = model.predict_proba(X[FRESH])
    assert model.input_ == "logits"
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    assert calibration_error(Y[FRESH], probs).value < 0.15
    assert model.score(X[FRESH], Y[FRESH]) > 0.7
    assert recalibrator is None or getattr(recalibrator, "input", "") != "logits"


@pytest.mark.parametrize("estimator", SCORES_ONLY.values(), ids=SCORES_ONLY)
@pytest.mark.parametrize("recalibrator", [None, TemperatureScaling(), MatrixScaling()], ids=str)
def test_decision_scores_of_several_classes_are_logits(estimator, recalibrator):
    x, y = IRIS
    names = np.array(["one", "two", "three"])[y]
    model = RecalibratedClassifier(estimator, recalibrator, cv=3).fit(x[::2], names[::2])
    probs = model.predict_proba(x[1::2])
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    assert model.score(x[1::2], names[1::2]) > 0.6
    assert recalibrator is not None or isinstance(model.recalibrator_, VectorScaling)


@pytest.mark.parametrize(
    ("recalibrator", "data", "advice"),
    [
        (HistogramBinning(), (X, Y), "PlattScaling"),
        (IsotonicCalibration(), (X, Y), "PlattScaling"),
        (BetaScaling(), (X, Y), "PlattScaling"),
        (ScalingBinning(scaler=BetaScaling()), (X, Y), "PlattScaling"),
        (Identity(), (X, Y), "PlattScaling"),
        (PlattScaling(), IRIS, "VectorScaling"),
        (OneVsRest(PlattScaling()), IRIS, "VectorScaling"),
        (TopLabel(PlattScaling()), IRIS, "VectorScaling"),
    ],
    ids=str,
)
def test_recalibrators_that_read_no_logits_are_refused_for_decision_scores(
    recalibrator, data, advice
):
    with pytest.raises(InvalidArgumentError, match=advice):
        RecalibratedClassifier(LinearSVC(), recalibrator).fit(*data)


def test_decision_scores_of_pairs_of_classes_are_refused():
    with pytest.raises(InvalidArgumentError, match="Use 'ovr'"):
        RecalibratedClassifier(SVC(decision_function_shape="ovo")).fit(*IRIS)


def test_a_recalibrator_of_logits_reads_the_decision_function():
    declared = RecalibratedClassifier(LogisticRegression(), PlattScaling(input="logits"), cv=3)
    plain = RecalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3)
    a, b = (model.fit(X[FIT], Y[FIT]).predict_proba(X[FRESH]) for model in (declared, plain))
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert (declared.input_, plain.input_) == ("logits", "probabilities")
    with pytest.raises(InvalidArgumentError, match="decision_function"):
        RecalibratedClassifier(GaussianNB(), PlattScaling(input="logits")).fit(X, Y)


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


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.coo_array, pd.DataFrame, list])
@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(3)], ids=["folds", "time"])
def test_features_come_in_any_container(container, cv):
    x = container(X[FIT].tolist()) if container is list else container(X[FIT])
    model = RecalibratedClassifier(LogisticRegression(), cv=cv)
    expected = RecalibratedClassifier(LogisticRegression(), cv=cv).fit(X[FIT], Y[FIT])
    np.testing.assert_allclose(
        model.fit(x, Y[FIT]).predict_proba(x), expected.predict_proba(X[FIT]), atol=1e-4
    )


class Percent(GaussianNB):
    """A classifier that predicts percentages."""

    def predict_proba(self, X):
        return 100 * super().predict_proba(X)


def test_predictions_that_are_no_probabilities_are_refused_and_not_clipped():
    with pytest.raises(ValueError, match=r"must lie in \[0, 1\]"):
        RecalibratedClassifier(Percent()).fit(X[FIT], Y[FIT])


def test_a_forest_without_decision_function_still_works():
    model = RecalibratedClassifier(RandomForestClassifier(10, random_state=0), cv=2)
    assert model.fit(X[FIT], Y[FIT]).input_ == "probabilities"


class Recording(GaussianNB):
    """A classifier that remembers what its fit was given."""

    def fit(self, X, y, sample_weight=None, row_ids=None, eval_set=None):
        self.n_fitted_, self.row_ids_, self.eval_set_ = len(y), row_ids, eval_set
        return super().fit(X, y, sample_weight)


def test_parameters_of_fit_reach_the_estimator_and_those_of_rows_are_split():
    ids, held_out = np.arange(Y[FIT].size), [(X[:5], Y[:5])]
    model = RecalibratedClassifier(Recording(), cv=3)
    model.fit(X[FIT], Y[FIT], row_ids=ids, eval_set=held_out)
    assert model.estimator_.row_ids_.tolist() == ids.tolist()
    assert model.estimator_.eval_set_ is held_out
    weights = (ids % 4 > 0).astype(float)
    model.fit(X[FIT], Y[FIT], sample_weight=weights, row_ids=ids)
    assert model.estimator_.row_ids_.tolist() == ids[weights > 0].tolist()
    plain = RecalibratedClassifier(GaussianNB(), cv=3).fit(X[FIT], Y[FIT], sample_weight=weights)
    np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))


def test_a_prefit_estimator_takes_no_parameters_of_fit():
    fitted = Recording().fit(X[FIT], Y[FIT])
    with pytest.raises(ValueError, match='With cv="prefit" the estimator is not fitted'):
        RecalibratedClassifier(fitted, cv="prefit").fit(X[FIT], Y[FIT], eval_set=[])


def test_weights_reach_the_last_step_of_a_pipeline_by_its_own_parameter():
    weights = 1.0 + (np.arange(Y[FIT].size) % 3)
    pipe = make_pipeline(StandardScaler(), GaussianNB())
    model = RecalibratedClassifier(pipe, cv=3)
    model.fit(X[FIT], Y[FIT], gaussiannb__sample_weight=weights)
    expected = make_pipeline(StandardScaler(), GaussianNB())
    expected.fit(X[FIT], Y[FIT], gaussiannb__sample_weight=weights)
    np.testing.assert_array_equal(model.estimator_.predict_proba(X), expected.predict_proba(X))


def test_names_of_features_are_those_of_the_estimator():
    frame = pd.DataFrame(X[FIT], columns=[f"f{i}" for i in range(X.shape[1])])
    model = RecalibratedClassifier(GaussianNB(), cv=2).fit(frame, Y[FIT])
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert not hasattr(
        RecalibratedClassifier(GaussianNB(), cv=2).fit(X[FIT], Y[FIT]), "feature_names_in_"
    )


def test_fresh_rows_are_certified_and_those_of_the_fit_refused(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, size=3000)
    x = rng.normal(loc=y, size=(1, 3000)).T
    model = RecalibratedClassifier(GaussianNB(), calibrant.ScalingBinning(bins=5), cv=3)
    model.fit(x[:1500], y[:1500])
    certificate = model.certify(x[1500:], y[1500:], max_error=0.2)
    assert certificate.verdict == "certified"
    direct = model.recalibrator_.certify(
        model.estimator_.predict_proba(x[1500:]), y[1500:], max_error=0.2
    )
    assert direct.upper_bound == certificate.upper_bound
    with pytest.raises(ValueError, match="the very rows it was fitted on"):
        model.certify(x[:1500], y[:1500], max_error=0.2)
    with pytest.warns(calibrant.recalibrators.OverlapWarning):
        model.certify(x[500:2500], y[500:2500])
    model.save(tmp_path / "repair.json")
    repair = calibrant.load(tmp_path / "repair.json")
    said = model.estimator_.predict_proba(x[1500:])
    np.testing.assert_array_equal(repair.predict_proba(said), model.predict_proba(x[1500:]))
