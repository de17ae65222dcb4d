"""What recalibrating does to ranking and resolution."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.metrics import roc_auc_score

from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    HistogramBinning,
    PlattScaling,
    ScalingBinning,
    TopLabel,
    resolution_report,
)


def test_the_report_gives_auc_outputs_and_brier_score():
    p, y = binary_rows(2000)
    fitted = ScalingBinning(bins=10).fit(p[:1000], y[:1000])
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
