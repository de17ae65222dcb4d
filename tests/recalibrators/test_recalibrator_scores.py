"""Scores: what rows and cells of a table say of one event, what a loss makes of them, and a fit."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.metrics import roc_auc_score

from calibrant import tabulate
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    HistogramBinning,
    PlattScaling,
    ScalingBinning,
    TopLabel,
    resolution_report,
)
from calibrant.recalibrators.scores import Scores, identity_loss, mean_loss


def test_losses_of_rows_of_a_table_and_of_distinct_scores_are_one_number():
    p, y = binary_rows(900)
    p = p.round(2).clip(0.01, 0.99)
    rows = Scores.of_rows(p, y == 1)
    table = Scores.of_table(tabulate(y, p, bins="distinct"))
    expected = {
        "log": -np.log(np.where(y == 1, p, 1 - p)).mean(),
        "squared": ((p - y) ** 2).mean(),
    }
    for loss, value in expected.items():
        for scores in (rows, rows.distinct(), table, table.with_one_label()):
            assert identity_loss(scores, loss) == pytest.approx(value, rel=1e-12)
            logits = scores.replace_values(np.log(scores.values / (1 - scores.values)))
            assert mean_loss(logits.values, logits, loss) == pytest.approx(value, rel=1e-10)


def test_scores_of_both_labels_stand_twice_and_others_once():
    scores = Scores(np.array([0.1, 0.2, 0.3]), np.array([0.0, 2.0, 5.0]), np.full(3, 5.0), 15.0)
    parted = scores.with_one_label()
    assert parted.values.tolist() == [0.2, 0.3, 0.1, 0.2]
    assert parted.events.tolist() == [2.0, 5.0, 0.0, 0.0]
    assert parted.weights.tolist() == [2.0, 5.0, 5.0, 3.0]
    assert parted.with_one_label() is parted


def test_a_threshold_divides_events_with_a_tie_at_it_and_no_further():
    p = np.array([0.1, 0.3, 0.3, 0.8])
    assert Scores.of_rows(p, np.array([False, False, True, True])).is_separated
    assert Scores.of_rows(p, np.array([True, True, False, False])).is_separated
    assert not Scores.of_rows(p, np.array([True, False, False, True])).is_separated


@pytest.mark.parametrize("n", [5000, 100_000])
def test_scores_are_added_up_only_where_many_rows_share_one(n):
    rng = np.random.default_rng(0)
    for n_distinct, shorter in ((20, True), (n // 60, True), (n // 4, False), (10**9, False)):
        p = rng.integers(n_distinct, size=n) / n_distinct
        scores = Scores.of_rows(p, rng.random(n) < p)
        compressed = scores.compressed()
        assert (compressed is not scores) is shorter
        assert compressed.event_rate == pytest.approx(scores.event_rate, rel=1e-12)


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
    for several in (TopLabel(PlattScaling()).fit(probs, y), PlattScaling, "platt"):
        with pytest.raises(InvalidArgumentError, match="one score"):
            resolution_report(several, probs, y)
