"""Estimators of other libraries stand in wrappers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from calibrant import RecalibratedClassifier
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
)
from calibrant.recalibrators import OneVsRest, ScalingBinning, TopLabel


class Share:
    """Answers with the share of events, and is nobody's estimator."""

    def __init__(self, answer=None):
        self.answer = answer

    def fit(self, x, y):
        self.share = y.mean()
        return self

    def predict_proba(self, x):
        return np.full(len(x), self.share) if self.answer is None else self.answer(len(x))


def test_one_versus_rest_takes_a_classifier_of_scikit_learn():
    probs, y = class_rows(600)
    w = np.random.default_rng(0).exponential(size=600)
    line = LogisticRegression(C=np.inf, tol=1e-10)
    fitted = OneVsRest(line).fit(probs, y, w)
    for k in range(4):
        expected = clone(line).fit(probs[:, [k]], y == k, w).predict_proba(probs[:, [k]])[:, 1]
        np.testing.assert_allclose(fitted.predict_proba(probs)[:, k], expected, atol=1e-5)
    assert fitted.score(probs, y) > -0.7
    certificate = fitted.certify(*class_rows(600, seed=1))
    assert certificate.table.problem.kind == "marginal"


def test_the_top_label_takes_anything_with_fit_and_predict_proba():
    probs, y = class_rows(600)
    fitted = TopLabel(Share()).fit(probs, y)
    top, confidence = fitted.predict_confidence(probs)
    np.testing.assert_array_equal(top, probs.argmax(axis=1))
    np.testing.assert_allclose(confidence, (top == y).mean())


def test_a_classifier_is_recalibrated_by_another():
    x, y = load_iris(return_X_y=True)
    for rows in (y < 3, y < 2):
        model = RecalibratedClassifier(GaussianNB(), LogisticRegression(), cv=3)
        model = clone(model).fit(x[rows], y[rows])
        out = pickle.loads(pickle.dumps(model)).predict_proba(x[rows])
        np.testing.assert_allclose(out.sum(axis=1), 1)
        assert model.score(x[rows], y[rows]) > 0.9


def test_what_it_cannot_do_is_refused(tmp_path):
    probs, y = class_rows(200)
    fitted = OneVsRest(LogisticRegression()).fit(probs, y)
    with pytest.raises(InvalidArgumentError, match="Only calibrant's own recalibrators"):
        fitted.save(tmp_path / "a.json")
    with pytest.raises(InvalidLabelsError, match="with and without the event"):
        OneVsRest(LogisticRegression()).fit(probs, np.zeros(200, int))
    with pytest.raises(InvalidArgumentError, match="scaler must be a recalibrator"):
        ScalingBinning(scaler=LogisticRegression()).fit(*binary_rows(50))
    for nothing in (LogisticRegression, "platt", 3, None):
        with pytest.raises(InvalidArgumentError, match="recalibrator must be"):
            OneVsRest(nothing).fit(probs, y)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (lambda n: np.full(n, 1.5), InvalidProbabilitiesError),
        (lambda n: np.full(n, np.nan), InvalidProbabilitiesError),
        (lambda n: np.ones((n, 3)), InvalidShapeError),
        (lambda n: np.ones(n + 1), InvalidShapeError),
    ],
    ids=["above 1", "NaN", "three columns", "too many"],
)
def test_answers_that_are_no_probabilities_are_refused(answer, error):
    with pytest.raises(error, match="Share"):
        OneVsRest(Share(answer)).fit(*class_rows(100))
