"""Choosing by cross-validation, and the report on ranking and resolution."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.metrics import roc_auc_score

from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    best_recalibrator,
    recalibrator_scores,
    resolution_report,
)


def test_a_miscalibrated_model_gets_a_recalibrator_that_helps():
    p, y = binary_rows(3000, power=2)
    best = best_recalibrator(y, p)
    assert isinstance(best, PlattScaling | BetaScaling)
    assert best.fingerprint_ is not None
    fresh, happened = binary_rows(3000, seed=1, power=2)
    assert best.score(fresh, happened) > Identity().fit(p, y).score(fresh, happened) + 0.02


def test_an_overconfident_model_of_several_classes_gets_one_temperature():
    probs, y = class_rows(3000)
    best = best_recalibrator(y, probs)
    assert isinstance(best, TemperatureScaling)
    assert best.temperature_ == pytest.approx(2, rel=0.1)


def test_a_model_far_from_any_family_gets_isotonic_calibration():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = rng.uniform(size=p.size) < np.where(p < 0.5, 0.1, 0.9)
    assert isinstance(best_recalibrator(y, p), IsotonicCalibration)


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 5000])
def test_a_calibrated_model_is_left_alone_at_the_stated_rate(n):
    """About 95%; see `best_recalibrator`."""
    alone = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        p = rng.beta(1.2, 0.8, size=n)
        best = best_recalibrator(rng.uniform(size=n) < p, p)
        alone += isinstance(best, Identity)
    assert alone >= 88


def test_the_scores_are_those_of_rows_not_fitted_on():
    p, y = binary_rows(600)
    candidates = [Identity(), PlattScaling(), HistogramBinning(200)]
    scores = recalibrator_scores(y, p, candidates, scoring="brier")
    assert scores.loss[0] == pytest.approx(np.mean((p - y) ** 2))
    assert scores.loss[2] > scores.loss[1]
    assert scores.excess.min() == 0
    assert "<- chosen" in str(scores)
    again = recalibrator_scores(y, p, candidates, scoring="brier")
    np.testing.assert_array_equal(scores.loss, again.loss)


def test_weights_and_names_are_used_in_choosing():
    p, y = binary_rows(1500, power=2)
    w = (np.arange(1500) < 1000).astype(float)
    names = np.array(["no", "yes"])[y]
    best = best_recalibrator(names, p, sample_weight=w, classes=["no", "yes"])
    assert list(best.classes_) == ["no", "yes"]
    scores = recalibrator_scores(y, p, [Identity()], sample_weight=w, scoring="brier")
    assert scores.loss[0] == pytest.approx(np.mean((p[:1000] - y[:1000]) ** 2))


def test_options_of_choosing_are_checked():
    p, y = binary_rows(50)
    for options in ({"cv": 1}, {"cv": 51}, {"scoring": "accuracy"}, {"candidates": []}):
        with pytest.raises(InvalidArgumentError):
            best_recalibrator(y, p, **options)


def test_the_report_gives_auc_outputs_and_brier_score():
    p, y = binary_rows(2000)
    fitted = ScalingBinning(n_bins=10).fit(p[:1000], y[:1000])
    report = resolution_report(fitted, p[1000:], y[1000:])
    out = fitted.predict_proba(p[1000:])
    assert report.auc_before == pytest.approx(roc_auc_score(y[1000:], p[1000:]))
    assert report.auc_after == pytest.approx(roc_auc_score(y[1000:], out))
    assert report.auc_after < report.auc_before
    assert (report.outputs_before, report.outputs_after) == (1000, 10)
    assert report.brier_after == pytest.approx(np.mean((out - y[1000:]) ** 2))
    assert 0 < report.coarseness_cost < 0.01
    assert "AUC" in str(report)


def test_scaling_costs_no_resolution():
    p, y = binary_rows(500)
    report = resolution_report(PlattScaling().fit(p, y), p, y)
    assert report.auc_before == report.auc_after
    assert report.coarseness_cost == 0


def test_logits_are_reported_as_their_probabilities():
    rng = np.random.default_rng(0)
    z = rng.normal(size=500)
    y = rng.uniform(size=500) < 1 / (1 + np.exp(-2 * z))
    report = resolution_report(PlattScaling(input="logits").fit(z, y), z, y)
    assert 0 < report.brier_after < report.brier_before < 0.25


def test_one_label_has_no_auc():
    p, _ = binary_rows(50)
    report = resolution_report(HistogramBinning(3).fit(p, np.ones(50)), p, np.ones(50))
    assert np.isnan(report.auc_before)


def test_the_report_is_about_one_score():
    probs, y = class_rows(200)
    with pytest.raises(InvalidArgumentError, match="one score"):
        resolution_report(TopLabel(PlattScaling()).fit(probs, y), probs, y)
