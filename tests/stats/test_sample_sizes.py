"""Numbers of rows and bins for recalibrators: bins are balanced and errors reached as promised."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.exceptions import InvalidArgumentError
from calibrant.stats import (
    histogram_binning_bound,
    recommended_bins,
    samples_to_balance,
    samples_to_calibrate,
)

# Well-balanced bins


@pytest.mark.parametrize(("n_bins", "rows_a_bin"), [(10, 18), (30, 24), (100, 30)])
def test_rows_a_bin_that_make_bins_well_balanced(n_bins, rows_a_bin):
    assert samples_to_balance(n_bins) == rows_a_bin * n_bins


def test_one_bin_is_always_balanced():
    assert samples_to_balance(1) == 1


def test_better_balance_and_more_confidence_need_more_rows():
    assert samples_to_balance(10, balance=1.5) > samples_to_balance(10) > samples_to_balance(5)
    assert samples_to_balance(10, confidence_level=0.99) > samples_to_balance(10)


@pytest.mark.parametrize(("n_bins", "rows_a_bin"), [(10, 18), (100, 30)])
def test_uniform_mass_bins_of_that_many_rows_are_balanced_as_often_as_promised(n_bins, rows_a_bin):
    rng = np.random.default_rng(1)
    gaps = rng.exponential(size=(2000, n_bins * rows_a_bin + 1))
    ends = np.cumsum(gaps, axis=1) / gaps.sum(axis=1, keepdims=True)
    inner = ends[:, rows_a_bin - 1 :: rows_a_bin][:, : n_bins - 1]
    mass = np.diff(inner, axis=1, prepend=0, append=1)
    fine = (mass.min(axis=1) >= 0.5 / n_bins) & (mass.max(axis=1) <= 2 / n_bins)
    assert fine.mean() >= 0.95


def test_impossible_requests_are_refused_with_the_reason():
    with pytest.raises(InvalidArgumentError, match="balance must exceed 1"):
        samples_to_balance(10, balance=1.0)
    with pytest.raises(InvalidArgumentError, match="max_error must lie between"):
        samples_to_calibrate(0.0)
    with pytest.raises(InvalidArgumentError, match="method must be"):
        samples_to_calibrate(0.1, method="isotonic")
    with pytest.raises(InvalidArgumentError, match="n must be at least 1"):
        recommended_bins(0)
    with pytest.raises(InvalidArgumentError, match="purpose must be"):
        recommended_bins(100, purpose="beauty")


# Recalibration


@pytest.mark.parametrize(("max_error", "n_bins"), [(0.05, 10), (0.02, 10), (0.05, 100)])
def test_histogram_binning_with_that_many_rows_reaches_the_error(max_error, n_bins):
    n = samples_to_calibrate(max_error, n_bins=n_bins, method="histogram-binning")
    rng = np.random.default_rng(2)
    for rates in (np.full(n_bins, 0.5), (np.arange(n_bins) + 0.5) / n_bins):
        size = np.full(n_bins, n // n_bins)
        learned = rng.binomial(size, rates, (4000, n_bins)) / size
        error = np.sqrt(np.mean((learned - rates) ** 2, axis=1))
        assert np.mean(error <= max_error) >= 0.95


@pytest.mark.parametrize("max_error", [0.05, 0.02])
def test_scaling_binning_with_that_many_rows_reaches_the_error(max_error):
    # Two parameters of a logistic curve, fitted by one Newton step from the truth, as maximum
    # likelihood is in large samples.
    n = samples_to_calibrate(max_error, n_bins=10)
    rng = np.random.default_rng(3)
    runs = 300
    x = rng.normal(0, 1.5, size=(runs, n))
    p = 1 / (1 + np.exp(-x))
    y = rng.uniform(size=x.shape) < p
    design = np.stack([np.ones_like(x), x], axis=-1)
    information = np.einsum("rni,rnj,rn->rij", design, design, p * (1 - p), optimize=True)
    gradient = np.einsum("rni,rn->ri", design, y - p, optimize=True)
    step = np.linalg.solve(information, gradient[..., None])[..., 0]
    at = np.linspace(-6, 6, 401)
    mass = np.exp(-((at / 1.5) ** 2) / 2)
    change = 1 / (1 + np.exp(-(at + step @ np.stack([np.ones_like(at), at])))) - 1 / (
        1 + np.exp(-at)
    )
    error = np.sqrt(change**2 @ mass / mass.sum())
    assert np.mean(error <= max_error) >= 0.95


def test_histogram_binning_needs_rows_in_proportion_to_bins_and_scaling_binning_does_not():
    histogram = [
        samples_to_calibrate(0.01, n_bins=b, method="histogram-binning") for b in (10, 100)
    ]
    scaling = [samples_to_calibrate(0.01, n_bins=b) for b in (10, 100)]
    assert histogram[1] > 4 * histogram[0]
    assert scaling[1] < 1.3 * scaling[0]
    assert scaling[1] < histogram[1] / 10


def test_recommended_bins_grow_more_slowly_than_the_rows():
    assert [recommended_bins(n) for n in (1, 1_000, 10_000, 100_000)] == [1, 13, 32, 80]
    histogram = [recommended_bins(n, purpose="histogram-binning") for n in (1, 1_000, 10_000)]
    assert histogram == [2, 10, 22]


@pytest.mark.parametrize("n", [0, 2.5, True, "100", float("nan"), float("inf"), 10**16])
def test_a_bound_needs_a_number_of_rows(n):
    with pytest.raises(InvalidArgumentError, match="n must be at least 1, a whole number"):
        histogram_binning_bound(n, 10)
