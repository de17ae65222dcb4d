"""RecalibratedClassifier: any splitter, any classifier, weights, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import (
    KFold,
    PredefinedSplit,
    TimeSeriesSplit,
)
from sklearn.naive_bayes import GaussianNB
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


def test_a_recalibrator_of_logits_reads_the_decision_function():
    declared = RecalibratedClassifier(LogisticRegression(), PlattScaling(input="logits"), cv=3)
    plain = RecalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3)
    a, b = (model.fit(X[FIT], Y[FIT]).predict_proba(X[FRESH]) for model in (declared, plain))
    np.testing.assert_allclose(a, b, atol=1e-6)
    assert (declared.input_, plain.input_) == ("logits", "probabilities")
    with pytest.raises(InvalidArgumentError, match="decision_function"):
        RecalibratedClassifier(GaussianNB(), PlattScaling(input="logits")).fit(X, Y)


@pytest.mark.parametrize("container", [sparse.csr_matrix, sparse.coo_array, pd.DataFrame, list])
@pytest.mark.parametrize("cv", [3, TimeSeriesSplit(3)], ids=["folds", "time"])
def test_features_come_in_any_container(container, cv):
    x = container(X[FIT].tolist()) if container is list else container(X[FIT])
    model = RecalibratedClassifier(LogisticRegression(), cv=cv)
    expected = RecalibratedClassifier(LogisticRegression(), cv=cv).fit(X[FIT], Y[FIT])
    np.testing.assert_allclose(
        model.fit(x, Y[FIT]).predict_proba(x), expected.predict_proba(X[FIT]), atol=1e-4
    )


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


@pytest.mark.parametrize("cv", [3, "prefit"])
def test_labels_that_the_classifier_does_not_know_are_named(cv):
    model = RecalibratedClassifier(GaussianNB().fit(X[FIT], Y[FIT]), cv=cv).fit(X[FIT], Y[FIT])
    with pytest.raises(InvalidLabelsError, match=r"not know the label 7; 1 of 1,000"):
        model.certify(X[FRESH], np.r_[7, Y[FRESH][1:]])


def test_missing_labels_and_labels_of_two_types_are_refused():
    for first in (None, 3):
        labels = np.array([first, *np.where(Y[1:1000], "yes", "no")], object)
        with pytest.raises(InvalidLabelsError, match=r"of one type.*y holds .*, str"):
            RecalibratedClassifier(GaussianNB()).fit(X[FIT], labels)
