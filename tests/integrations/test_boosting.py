"""LightGBM, XGBoost and CatBoost inside RecalibratedClassifier, and their raw scores."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from sklearn.datasets import make_classification

from calibrant import RecalibratedClassifier, ScalingBinning, calibration_error, calibration_scorer

X, Y = make_classification(900, n_informative=5, flip_y=0.1, random_state=0)
X3, Y3 = make_classification(600, n_informative=5, n_classes=3, random_state=1)
HELD_OUT = [(X[600:750], Y[600:750])]


def lightgbm(**options):
    package = pytest.importorskip("lightgbm")
    return package.LGBMClassifier(n_estimators=20, random_state=0, n_jobs=1, verbose=-1, **options)


def xgboost(**options):
    package = pytest.importorskip("xgboost")
    return package.XGBClassifier(n_estimators=20, random_state=0, n_jobs=1, **options)


def catboost(**options):
    package = pytest.importorskip("catboost")
    settings = {"iterations": 20, "random_seed": 0, "thread_count": 1, "verbose": False}
    return package.CatBoostClassifier(**settings, allow_writing_files=False, **options)


BOOSTERS = [lightgbm, xgboost, catboost]


@pytest.mark.parametrize("booster", BOOSTERS)
def test_a_booster_is_recalibrated_scored_and_pickled(booster, tmp_path):
    model = RecalibratedClassifier(booster(), ScalingBinning(bins=5), cv=3)
    model.fit(X[:600], Y[:600], sample_weight=1.0 + (np.arange(600) % 2))
    assert calibration_scorer()(model, X[600:], Y[600:]) <= 0
    assert model.certify(X[600:], Y[600:], max_error=0.3).verdict in ("certified", "undecided")
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.predict_proba(X[600:]), model.predict_proba(X[600:]))


@pytest.mark.parametrize("booster", BOOSTERS)
def test_several_classes_sum_to_one(booster):
    model = RecalibratedClassifier(booster(), cv=2).fit(X3[:400], Y3[:400])
    probs = model.predict_proba(X3[400:])
    assert probs.shape == (200, 3)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)


def test_lightgbm_stops_early_in_every_fit():
    package = pytest.importorskip("lightgbm")
    booster = lightgbm().set_params(n_estimators=400)
    model = RecalibratedClassifier(booster, cv=2)
    stopping = [package.early_stopping(5, verbose=False)]
    (held_out,) = HELD_OUT
    model.fit(X[:600], Y[:600], eval_X=held_out[0], eval_y=held_out[1], callbacks=stopping)
    assert 0 < model.estimator_.best_iteration_ < 400


def test_xgboost_stops_early_in_every_fit():
    booster = xgboost().set_params(n_estimators=400, early_stopping_rounds=5)
    model = RecalibratedClassifier(booster, cv=2)
    model.fit(X[:600], Y[:600], eval_set=HELD_OUT, verbose=False)
    assert model.estimator_.best_iteration < 399


def test_catboost_stops_early_in_every_fit():
    booster = catboost().set_params(iterations=400)
    model = RecalibratedClassifier(booster, cv=2)
    model.fit(X[:600], Y[:600], eval_set=HELD_OUT, early_stopping_rounds=5)
    assert model.estimator_.tree_count_ < 400


def test_raw_scores_are_logits():
    package = pytest.importorskip("xgboost")
    models = {
        "lightgbm": lambda: lightgbm().fit(X, Y).predict(X, raw_score=True),
        "xgboost": lambda: (
            xgboost().fit(X, Y).get_booster().predict(package.DMatrix(X), output_margin=True)
        ),
        "catboost": lambda: catboost().fit(X, Y).predict(X, prediction_type="RawFormulaVal"),
    }
    probs = {"lightgbm": lightgbm, "xgboost": xgboost, "catboost": catboost}
    for name, raw in models.items():
        said = probs[name]().fit(X, Y).predict_proba(X)[:, 1]
        by_logits = calibration_error(Y, raw(), input="logits", bins="width:10").value
        assert by_logits == pytest.approx(
            calibration_error(Y, said, bins="width:10").value, abs=1e-5
        )
