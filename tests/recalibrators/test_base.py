"""scikit-learn citizens: clone, parameters, pipelines, searches, routing, pickling, checks."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest
import sklearn
from shared import ON_LOGITS, ONE_SCORE, SEVERAL, binary_rows, class_rows
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from calibrant import certify, recalibrators
from calibrant.exceptions import InvalidLabelsError
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    OneVsRest,
    PlattScaling,
    RecalibratedClassifier,
    Recalibrator,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VennAbers,
)

ALL = [*ONE_SCORE, *ON_LOGITS, *SEVERAL]


def rows_for(recalibrator, n=300):
    return class_rows(n) if recalibrator in SEVERAL else binary_rows(n)


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_clones_and_parameters(recalibrator):
    copy = clone(recalibrator)
    assert copy is not recalibrator
    assert str(copy.get_params()) == str(recalibrator.get_params())
    assert str(copy.set_params(**recalibrator.get_params(deep=False))) == str(recalibrator)
    assert is_classifier(copy)


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_the_constructor_only_stores_and_fit_leaves_parameters_alone(recalibrator):
    fresh = clone(recalibrator)
    before = str(fresh.get_params())
    assert not [name for name in vars(fresh) if name.endswith("_")]
    assert fresh.fit(*rows_for(recalibrator)) is fresh
    assert str(fresh.get_params()) == before


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_pickling_keeps_the_answers(recalibrator):
    rows = rows_for(recalibrator)
    fitted = clone(recalibrator).fit(*rows)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(rows[0]), fitted.predict_proba(rows[0]))


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_what_is_not_fitted_says_so(recalibrator):
    probs, _ = rows_for(recalibrator)
    for method in ("predict_proba", "predict"):
        with pytest.raises(NotFittedError):
            getattr(clone(recalibrator), method)(probs)


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_the_order_of_rows_does_not_matter(recalibrator):
    if getattr(recalibrator, "split", None):
        pytest.skip("other rows are drawn")
    probs, y = rows_for(recalibrator)
    order = np.random.default_rng(0).permutation(len(y))
    a = clone(recalibrator).fit(probs, y).predict_proba(probs)
    b = clone(recalibrator).fit(probs[order], y[order]).predict_proba(probs)
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_recalibrator_ends_a_pipeline():
    p, y = binary_rows(300)
    percent = make_pipeline(FunctionTransformer(lambda x: x / 100), PlattScaling())
    np.testing.assert_allclose(
        percent.fit(100 * p, y).predict_proba(100 * p), PlattScaling().fit(p, y).predict_proba(p)
    )


def test_grid_search_chooses_by_a_proper_score():
    p, y = binary_rows(600)
    search = GridSearchCV(
        ScalingBinning(scaler=PlattScaling()), {"bins": [1, 10], "scaler__loss": ["log", "squared"]}
    )
    search.fit(p, y)
    assert search.best_params_["bins"] == 10
    assert search.best_score_ == pytest.approx(-0.15, abs=0.05)
    two = np.column_stack((1 - p, p))
    scores = cross_val_score(BetaScaling(), two, y, scoring="neg_log_loss")
    assert (scores > -0.6).all()


def test_the_score_is_the_negative_brier_score():
    p, y = binary_rows(300)
    fitted = PlattScaling().fit(p, y)
    assert fitted.score(p, y) == pytest.approx(-brier_score_loss(y, fitted.predict_proba(p)))
    probs, labels = class_rows(200)
    several = TemperatureScaling().fit(probs, labels)
    expected = -((several.predict_proba(probs) - np.eye(4)[labels]) ** 2).sum(axis=1).mean()
    assert several.score(probs, labels) == pytest.approx(expected)


def test_sample_weights_are_routed():
    p, y = binary_rows(400)
    w = np.random.default_rng(0).exponential(size=400)
    with sklearn.config_context(enable_metadata_routing=True):
        step = (
            PlattScaling().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        )
        pipeline = make_pipeline(FunctionTransformer(), step).fit(p, y, sample_weight=w)
        search = GridSearchCV(step, {"loss": ["log"]}).fit(p, y, sample_weight=w)
    expected = PlattScaling().fit(p, y, w).coef_
    np.testing.assert_array_equal(pipeline[-1].coef_, expected)
    np.testing.assert_array_equal(search.best_estimator_.coef_, expected)


FEATURES = (
    "feeds features, where a recalibrator takes probabilities in one column or one for each class"
)
LABELS = "feeds labels by name or counted from another number; names are declared with classes="
COLUMNS = "wants the number of features kept, but one column and two mean the same event"
NOT_APPLICABLE = {
    "check_all_zero_sample_weights_error": FEATURES,
    "check_classifier_data_not_an_array": FEATURES,
    "check_classifiers_classes": LABELS,
    "check_classifiers_regression_target": FEATURES,
    "check_classifiers_train": LABELS,
    "check_complex_data": FEATURES,
    "check_dict_unchanged": FEATURES,
    "check_dont_overwrite_parameters": FEATURES,
    "check_dtype_object": FEATURES,
    "check_estimators_dtypes": FEATURES,
    "check_estimators_empty_data_messages": FEATURES,
    "check_estimators_fit_returns_self": FEATURES,
    "check_estimators_nan_inf": FEATURES,
    "check_estimators_overwrite_params": FEATURES,
    "check_estimators_pickle": FEATURES,
    "check_f_contiguous_array_estimator": FEATURES,
    "check_fit2d_1feature": FEATURES,
    "check_fit2d_1sample": FEATURES,
    "check_fit2d_predict1d": FEATURES,
    "check_fit_check_is_fitted": FEATURES,
    "check_fit_idempotent": FEATURES,
    "check_fit_score_takes_y": FEATURES,
    "check_methods_sample_order_invariance": FEATURES,
    "check_methods_subset_invariance": FEATURES,
    "check_n_features_in": COLUMNS,
    "check_n_features_in_after_fitting": COLUMNS,
    "check_pipeline_consistency": FEATURES,
    "check_positive_only_tag_during_fit": FEATURES,
    "check_readonly_memmap_input": FEATURES,
    "check_sample_weight_equivalence_on_dense_data": FEATURES,
    "check_sample_weights_list": FEATURES,
    "check_sample_weights_not_an_array": FEATURES,
    "check_sample_weights_not_overwritten": FEATURES,
    "check_sample_weights_pandas_series": FEATURES,
    "check_sample_weights_shape": FEATURES,
    "check_supervised_y_2d": FEATURES,
}
FOLDS = "repeated rows fall into other folds than weighted ones"


def expected_failures(estimator):
    """Name the checks that cannot pass, each with the reason."""
    if isinstance(estimator, RecalibratedClassifier):
        names = ("dense", "sparse")
        return {f"check_sample_weight_equivalence_on_{name}_data": FOLDS for name in names}
    return NOT_APPLICABLE


@parametrize_with_checks(
    [
        RecalibratedClassifier(LogisticRegression(), PlattScaling(), cv=3),
        RecalibratedClassifier(GaussianNB(), TopLabel(HistogramBinning(3)), cv=3),
        PlattScaling(),
        HistogramBinning(),
        ScalingBinning(),
        IsotonicCalibration(),
        VennAbers(),
    ],
    expected_failed_checks=expected_failures,
)
def test_the_estimator_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


DATA = {"binary": load_breast_cancer(return_X_y=True), "three classes": load_iris(return_X_y=True)}
MODELS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(n_estimators=20, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=15, random_state=0),
    "bayes": GaussianNB(),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "recalibrator",
    [PlattScaling(), TemperatureScaling(), ScalingBinning(bins=5), TopLabel(HistogramBinning(4))],
    ids=str,
)
def test_classifiers_are_recalibrated(data, model, recalibrator):
    x, y = DATA[data]
    names = np.array(["one", "two", "three"])[y]
    fitted = RecalibratedClassifier(MODELS[model], recalibrator, cv=3).fit(x[::2], names[::2])
    probs = fitted.predict_proba(x[1::2])
    np.testing.assert_allclose(probs.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_, np.unique(names))
    assert fitted.score(x[1::2], names[1::2]) > 0.85
    assert log_loss(names[1::2], np.clip(probs, 1e-9, 1)) < 1.0


def test_naive_bayes_gets_a_much_lower_loss():
    x, y = DATA["binary"]
    plain = GaussianNB().fit(x[::2], y[::2]).predict_proba(x[1::2])
    better = RecalibratedClassifier(GaussianNB(), PlattScaling()).fit(x[::2], y[::2])
    assert log_loss(y[1::2], better.predict_proba(x[1::2])) < 0.6 * log_loss(y[1::2], plain)


def test_a_fitted_classifier_is_recalibrated_on_other_rows():
    x, y = DATA["binary"]
    model = GaussianNB().fit(x[:200], y[:200])
    fitted = RecalibratedClassifier(model, BetaScaling(), cv="prefit").fit(x[200:400], y[200:400])
    assert fitted.estimator_ is model
    probs = model.predict_proba(x[200:400])[:, 1]
    expected = BetaScaling().fit(probs, y[200:400])
    np.testing.assert_array_equal(fitted.recalibrator_.coef_, expected.coef_)
    with pytest.raises(NotFittedError):
        RecalibratedClassifier(GaussianNB(), cv="prefit").fit(x, y)
    with pytest.raises(ValueError, match="does not know the label 7"):
        RecalibratedClassifier(model, cv="prefit").fit(x, np.where(y == 0, 7, y))


def test_a_class_of_two_rows_is_spread_over_the_folds():
    x, y = DATA["three classes"]
    rare = np.concatenate((np.flatnonzero(y < 2), [120, 140]))
    for recalibrator in (PlattScaling(), TemperatureScaling(), TopLabel(PlattScaling())):
        fitted = RecalibratedClassifier(GaussianNB(), recalibrator, cv=5).fit(x[rare], y[rare])
        probs = fitted.predict_proba(x)
        assert probs.shape == (150, 3)
        np.testing.assert_allclose(probs.sum(axis=1), 1)


def test_a_recalibrated_classifier_takes_weights_and_is_searched_and_pickled():
    x, y = DATA["binary"]
    w = np.random.default_rng(0).exponential(size=y.size)
    model = RecalibratedClassifier(GaussianNB(), HistogramBinning())
    search = GridSearchCV(
        model, {"recalibrator__bins": [2, 5], "cv": [2, 3]}, scoring="neg_log_loss", cv=2
    )
    search.fit(x, y)
    fitted = clone(model).fit(x, y, sample_weight=w)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert fitted.n_features_in_ == 30
    assert clone(model).fit(x, y).predict_proba(x).shape == fitted.predict_proba(x).shape


def test_the_default_is_platt_scaling_of_logistic_regression():
    x, y = DATA["binary"]
    fitted = RecalibratedClassifier(make_pipeline(StandardScaler(), LogisticRegression())).fit(x, y)
    assert isinstance(fitted.recalibrator_, PlattScaling)
    assert isinstance(
        RecalibratedClassifier(GaussianNB()).fit(*DATA["three classes"]).recalibrator_, OneVsRest
    )
    assert isinstance(Identity().fit(*binary_rows(50)), Identity)
    assert IsotonicCalibration().fit(*binary_rows(50)).score(*binary_rows(50)) > -0.3


@pytest.mark.parametrize("recalibrator", ALL, ids=str)
def test_labels_that_are_not_given_are_not_taken_for_zeros(recalibrator):
    probs, labels = rows_for(recalibrator, 100)
    with pytest.raises(InvalidLabelsError, match="target y is None"):
        clone(recalibrator).fit(probs, None)
    fitted = clone(recalibrator).fit(probs, labels)
    with pytest.raises(InvalidLabelsError, match="target y is None"):
        fitted.score(probs, None)
    with pytest.raises(InvalidLabelsError, match="target y is None"):
        fitted.certify(probs, None)


def test_certify_spells_out_the_options_of_the_function():
    """Rows are arrays of one group here; the fit named their event and knows its input."""
    function = inspect.signature(certify).parameters
    method = inspect.signature(PlattScaling.certify).parameters
    elsewhere = {"pos_label", "data", "input", "by", "shared_bins", "cluster", "draws"}
    assert set(function) - set(method) == elsewhere & set(function)
    assert set(method) - set(function) == {"self"}
    shared = set(method) & set(function) - {"y_true", "y_prob"}
    assert {name: method[name].default for name in shared} == {
        name: function[name].default for name in shared
    }


def test_between_a_recalibrator_and_the_base_is_only_what_maps_of_one_form_share():
    for recalibrator in (*ONE_SCORE, *SEVERAL):
        own, *above = type(recalibrator).__mro__
        between = above[: above.index(Recalibrator)]
        assert len(between) <= 2, own
        assert not {shared.__name__ for shared in between} & set(recalibrators.__all__), own


def test_the_input_is_declared_by_every_recalibrator():
    assert {r.input for r in (*ONE_SCORE, *SEVERAL)} == {"probabilities"}
    assert ScalingBinning(scaler=PlattScaling(input="logits")).input == "logits"
