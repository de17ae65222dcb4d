"""calibration_scorer in scikit-learn's searches and cross-validation."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import calibrant
from calibrant import calibration_error, calibration_scorer
from calibrant.exceptions import InvalidArgumentError

X, Y = make_classification(600, n_informative=4, n_redundant=8, flip_y=0.1, random_state=0)
NAMES = np.array(["no", "yes"])[Y]
X3, Y3 = make_classification(400, n_informative=4, n_classes=3, random_state=1)


@pytest.mark.parametrize(("norm", "bins"), [("l2", "auto"), ("l1", 15), ("max", "width:10")])
def test_the_score_is_minus_the_error(norm, bins):
    model = GaussianNB().fit(X, NAMES)
    expected = calibration_error(Y, model.predict_proba(X)[:, 1], norm=norm, bins=bins)
    assert calibration_scorer(norm, bins=bins)(model, X, NAMES) == -expected.value


def test_classes_that_a_fold_lacks_and_names_of_any_order_are_understood():
    model = GaussianNB().fit(X3, np.array(["c", "a", "b"])[Y3])
    some = Y3 != 2
    probs = model.predict_proba(X3[some])
    expected = calibration_error(
        np.array(["c", "a", "b"])[Y3[some]], probs, classes=["a", "b", "c"], kind="marginal"
    )
    scorer = calibration_scorer(kind="marginal")
    assert scorer(model, X3[some], np.array(["c", "a", "b"])[Y3[some]]) == -expected.value


def test_cross_validation_takes_it_alone_and_beside_others():
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    alone = cross_val_score(pipe, X, Y, scoring=calibration_scorer(), cv=3)
    scoring = {"calibration": calibration_scorer(), "brier": "neg_brier_score"}
    both = cross_validate(pipe, X, Y, scoring=scoring, cv=3)
    assert both["test_calibration"].tolist() == alone.tolist()
    assert (alone <= 0).all()


def test_a_search_chooses_by_it():
    grid = {"estimator": [GaussianNB(), LogisticRegression()]}
    model = calibrant.RecalibratedClassifier(GaussianNB(), cv=2)
    found = GridSearchCV(model, grid, scoring=calibration_scorer(squared=True), cv=2).fit(X, Y)
    scores = found.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert found.best_score_ == scores.max()


def test_squared_scores_tell_models_apart_below_the_noise():
    model = LogisticRegression().fit(X, Y)
    error = calibration_error(Y, model.predict_proba(X)[:, 1])
    assert calibration_scorer(squared=True)(model, X, Y) == -error.squared
    with pytest.raises(InvalidArgumentError, match="squared=True is about the l2 error"):
        calibration_scorer("l1", squared=True)


def test_weights_of_rows_are_used():
    model = GaussianNB().fit(X, Y)
    weights = np.where(np.arange(len(Y)) < 300, 1.0, 0.0)
    half = calibration_scorer(bins="width:5")(model, X[:300], Y[:300])
    assert calibration_scorer(bins="width:5")(model, X, Y, sample_weight=weights) == pytest.approx(
        half
    )


def test_what_has_no_probabilities_is_refused_and_a_scorer_pickles():
    scorer = calibration_scorer("l1", bins=10)
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    with pytest.raises(InvalidArgumentError, match="LinearSVC has none"):
        scorer(LinearSVC().fit(X, Y), X, Y)
