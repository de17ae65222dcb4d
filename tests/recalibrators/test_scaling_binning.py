"""Scaling-binning: a scaler, then bins of its outputs, then their means."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows

from calibrant import Distinct, calibration_error
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    HistogramBinning,
    OneVsRest,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
)


def test_scaling_binning_answers_with_the_mean_of_the_scaler_in_a_bin():
    p, y = binary_rows(1000)
    fitted = ScalingBinning(bins=10).fit(p, y)
    g = PlattScaling().fit(p, y).predict_proba(p)
    index = fitted.bins_.index(g)
    np.testing.assert_array_equal(np.bincount(index), np.full(10, 100))
    for j, level in enumerate(fitted.levels_):
        assert level == pytest.approx(g[index == j].mean(), abs=1e-14)
    np.testing.assert_array_equal(fitted.predict_proba(p), fitted.levels_[index])


@pytest.mark.parametrize("rule", ["mass", "hybrid", "width"])
def test_levels_of_scaling_binning_lie_in_their_own_bins_and_rise(rule):
    p, y = binary_rows(900)
    fitted = ScalingBinning(bins=f"{rule}:12").fit(p, y)
    np.testing.assert_array_equal(fitted.bins_.index(fitted.levels_), np.arange(len(fitted.bins_)))
    assert (np.diff(fitted.levels_) > 0).all()


@pytest.mark.parametrize("y", [[0, 1, 0, 1, 0, 1], [1, 1, 1, 0, 1, 1], [0, 0, 0, 0, 0, 1]])
def test_equal_width_bins_that_the_scaler_never_reaches_are_passed_over(y):
    """A flat scaler maps even 0 and 1 far from the first and the last bin."""
    p = np.array([0.1, 0.2, 0.4, 0.6, 0.8, 0.9])
    fitted = ScalingBinning(bins="width:10").fit(p, y)
    ends = np.array([0.0, 5e-324, 0.5, 1 - 1e-16, 1.0])
    expected = fitted.levels_[fitted.bins_.index(fitted.scaler_.predict_proba(ends))]
    np.testing.assert_array_equal(fitted.predict_proba(ends), expected)


def test_a_scaler_that_is_not_increasing_is_binned_on_its_outputs():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    y = rng.uniform(size=3000) < 4 * p * (1 - p)
    fitted = ScalingBinning(10, QuadraticScaling()).fit(p, y)
    assert fitted.cuts_ is None
    assert fitted.predict_proba([0.5])[0] > fitted.predict_proba([0.05, 0.95]).max()


def test_a_falling_scaler_is_binned_too():
    p, y = binary_rows(900)
    fitted = ScalingBinning(bins=5).fit(p, 1 - y)
    assert (np.diff(fitted.predict_proba(np.linspace(0, 1, 50))) <= 0).all()
    assert fitted.effective_n_bins_ == 5


def test_a_split_uses_each_row_for_one_step():
    p, y = binary_rows(900)
    fitted = ScalingBinning(bins=5, split=(1, 1, 1), random_state=3).fit(p, y)
    np.testing.assert_array_equal(np.bincount(fitted.fold_)[1:], [300, 300, 300])
    first = PlattScaling().fit(p[fitted.fold_ == 1], y[fitted.fold_ == 1])
    np.testing.assert_array_equal(fitted.scaler_.coef_, first.coef_)
    g = first.predict_proba(p)
    third = fitted.fold_ == 3
    index = fitted.bins_.index(g)
    np.testing.assert_array_equal(np.bincount(index[fitted.fold_ == 2]), np.full(5, 60))
    for j in range(5):
        assert fitted.levels_[j] == pytest.approx(g[third & (index == j)].mean(), abs=1e-12)


def test_labels_of_the_second_and_third_part_are_never_used():
    p, y = binary_rows(900)
    fitted = ScalingBinning(bins=5, split=(2, 1, 1), random_state=0).fit(p, y)
    other = np.where(fitted.fold_ == 1, y, 1 - y)
    again = ScalingBinning(bins=5, split=(2, 1, 1), random_state=0).fit(p, other)
    np.testing.assert_array_equal(fitted.levels_, again.levels_)


def test_a_bin_without_rows_of_the_third_part_has_a_defined_answer():
    p, y = binary_rows(40)
    fitted = ScalingBinning(bins=10, split=(4, 4, 1), random_state=0).fit(p, y)
    assert np.isfinite(fitted.levels_).all()
    assert (np.diff(fitted.levels_) >= 0).all()


def squared_marginal_error(labels, probs):
    every = calibration_error(labels, probs, kind="marginal", bins=Distinct(), debias=False)
    return every.value**2


@pytest.mark.filterwarnings("ignore::calibrant.recalibrators.AccuracyWarning")
def test_scaling_binning_beats_histogram_binning_on_the_papers_predictions(cifar10):
    """Appendix E: 1,000 rows with replacement, 100 bins, measured on all 10,000 rows."""
    labels, probs = cifar10
    sums = np.zeros(2)
    for seed in range(40):
        rows = np.random.default_rng(seed).integers(labels.size, size=1000)
        for i, recalibrator in enumerate(
            (ScalingBinning(bins="mass:100"), HistogramBinning(bins="mass:100"))
        ):
            fitted = OneVsRest(recalibrator).fit(probs[rows], labels[rows])
            sums[i] += squared_marginal_error(labels, fitted.predict_proba(probs))
    assert 0.30 <= 1 - sums[0] / sums[1] <= 0.40


@pytest.mark.parametrize("seed", ["0", -1, 1.5, np.random.default_rng(0)])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(InvalidArgumentError, match="random_state must be a whole number"):
        ScalingBinning(split=(1, 1, 1), random_state=seed).fit(*binary_rows(50))
