"""Planning: the promised power is reached, and plans agree with each other."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.exceptions import InvalidArgumentError
from calibrant.stats import (
    recommended_bins,
    samples_to_balance,
    samples_to_calibrate,
    samples_to_certify,
    smallest_certifiable_error,
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


# Certificates


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("true_error", [0.0, 0.02])
def test_the_rows_of_a_plan_certify_its_error_and_fewer_do_not(balanced, true_error):
    rest = {"true_error": true_error, "balanced": balanced}
    n = samples_to_certify(0.05, 10, **rest)
    assert smallest_certifiable_error(n, 10, **rest) <= 0.05
    assert smallest_certifiable_error(round(0.98 * n), 10, **rest) > 0.05


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        ({"max_error": 0.03}, {"max_error": 0.05}),
        ({"n_bins": 30}, {"n_bins": 10}),
        ({"power": 0.95}, {"power": 0.8}),
        ({"confidence_level": 0.99}, {"confidence_level": 0.9}),
        ({"true_error": 0.02}, {"true_error": 0.0}),
        ({"n_bins": 10}, {"n_bins": None, "levels": np.geomspace(0.001, 0.05, 10)}),
        ({"looks": 5}, {"looks": 1}),
    ],
)
def test_a_harder_task_needs_more_rows_and_leaves_a_larger_error(harder, easier):
    usual = {"max_error": 0.05, "n_bins": 10}
    more, fewer = (samples_to_certify(**(usual | task)) for task in (harder, easier))
    assert more > fewer
    if "max_error" not in harder:
        usual = {"n": 3000, "n_bins": 10}
        large, small = (smallest_certifiable_error(**(usual | task)) for task in (harder, easier))
        assert large > small


def test_looks_divide_the_error_probability_of_a_plan():
    assert samples_to_certify(0.1, 5, looks=4) == samples_to_certify(
        0.1, 5, confidence_level=1 - 0.05 / 4
    )


def test_an_l2_plan_serves_for_l1():
    assert samples_to_certify(0.1, 5, norm="l1") == samples_to_certify(0.1, 5)


def test_few_rows_certify_nothing():
    assert smallest_certifiable_error(1, 10) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_error": 0.02, "n_bins": 10, "true_error": 0.02}, "true_error < max_error"),
        ({"max_error": 0.02, "n_bins": 10, "true_error": 0.5}, "true_error < max_error"),
        ({"max_error": 1.0, "n_bins": 10}, "max_error=1.0"),
        ({"max_error": 0.02, "n_bins": 0}, "n_bins must be at least 1"),
        ({"max_error": 0.02, "n_bins": 10, "power": 1.0}, "power must lie between"),
        ({"max_error": 0.02, "n_bins": 10, "confidence_level": 95}, "Write 0.95"),
        ({"max_error": 0.02, "n_bins": 10, "norm": "max"}, 'norm="l2" and "l1"'),
        ({"max_error": 0.02, "n_bins": 10, "looks": 0}, "looks must be a whole number"),
        ({"max_error": 1e-8, "n_bins": 2}, "More than 1e15 rows"),
    ],
)
def test_impossible_plans_are_refused_with_the_reason(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        samples_to_certify(**arguments)


def test_other_impossible_requests_are_refused_with_the_reason():
    with pytest.raises(InvalidArgumentError, match="n must be at least 1"):
        smallest_certifiable_error(0, 10)
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
