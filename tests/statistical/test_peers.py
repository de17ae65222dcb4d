"""The rival bounds are what their authors state: values by hand, by SciPy, and by simulation."""

from __future__ import annotations

import numpy as np
import peers
import pytest
from scipy import optimize, special, stats
from simulate import calibrated, grid, mild, strong

SIZES, EVENTS = np.array([5, 4, 6]), np.array([2, 1, 5])
LEVELS = np.array([0.2, 0.5, 0.9])
DELTA = 0.05


def tables(model, n, runs, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(n, model.masses, size=runs)
    return sizes, rng.binomial(sizes, model.rates)


@pytest.mark.parametrize(("k", "n"), [(0, 7), (3, 7), (7, 7), (1, 1)])
def test_limits_of_one_bin_are_clopper_and_pearson_s(k, n):
    two_sided = stats.binomtest(k, n).proportion_ci(0.9, method="exact")
    assert peers.lower_limits(n, k, 0.05) == pytest.approx(two_sided.low, abs=1e-12)
    assert peers.upper_limits(n, k, 0.05) == pytest.approx(two_sided.high, abs=1e-12)


def test_a_bin_without_rows_has_no_limits():
    assert (peers.lower_limits(0, 0, 0.05), peers.upper_limits(0, 0, 0.05)) == (0, 1)


def test_the_clopper_pearson_bound_is_the_weighted_sum_of_the_gaps():
    gaps = peers.gap_limits(SIZES, EVENTS, LEVELS, DELTA)
    expected = np.sqrt(SIZES @ gaps**2 / 15)
    assert peers.clopper_pearson(SIZES, EVENTS, LEVELS, DELTA) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_masses_are_filled_as_a_linear_program_would(seed):
    sizes, events = tables(mild(6), 40, 1, seed)
    levels = mild(6).levels
    gaps = peers.gap_limits(sizes[0], events[0], levels, DELTA / 2)
    limits = peers.upper_limits(40, sizes[0], DELTA / 2 / 6)
    best = optimize.linprog(
        -(gaps**2),
        A_eq=np.ones((1, 6)),
        b_eq=[1],
        bounds=list(zip(np.zeros(6), limits, strict=True)),
    )
    found = peers.masses_and_clopper_pearson(sizes, events, levels, DELTA)
    assert found[0] ** 2 == pytest.approx(-best.fun, rel=1e-9)


def test_the_maximum_bound_is_hoeffding_s_in_the_worst_bin():
    radius = np.sqrt(np.log(6 / DELTA) / (2 * 100))
    found = peers.hoeffding_maximum(np.full(3, 100), np.array([20, 50, 80]), LEVELS, DELTA)
    assert found == pytest.approx(0.1 + radius)
    empty = peers.hoeffding_maximum(np.array([100, 0, 100]), np.array([20, 0, 80]), LEVELS, DELTA)
    assert empty == 0.5, "an output that was never seen can be off by that much"


def test_the_limit_of_sun_et_al_has_the_stated_values():
    square = peers.sun_2024(SIZES, EVENTS, LEVELS, DELTA) ** 2
    assert square == pytest.approx(special.ndtri(0.95) * 0.0423168433, rel=1e-8)
    events = np.array([10, 20, 30, 40, 45, 55, 60, 70, 80, 90])
    found = peers.sun_2024(np.full(10, 100), events, grid(10), 0.025)
    assert found == pytest.approx(0.049048, abs=1e-6)


def test_the_debiased_square_has_the_stated_value():
    assert peers.debiased_square(SIZES, EVENTS, LEVELS) == pytest.approx(-0.016)


def square_of_rows(bins, outcomes, axis=-1):
    """Return the debiased square of rows, for `scipy.stats.bootstrap`."""

    def one(bins, outcomes):
        sizes = np.bincount(bins.astype(int), minlength=3)
        return peers.debiased_square(sizes, np.bincount(bins.astype(int), outcomes, 3), LEVELS)

    return np.apply_along_axis(
        lambda row: one(*np.split(row, 2)), -1, np.concatenate((bins, outcomes), axis=-1)
    )


def test_the_bootstraps_agree_with_scipy_s_on_rows():
    sizes, events = np.array([30, 40, 50]), np.array([10, 24, 35])
    bins = np.repeat(np.arange(3), sizes)
    outcomes = np.concatenate([np.arange(n) < k for n, k in zip(sizes, events, strict=True)])
    rows = (bins.astype(float), outcomes.astype(float))
    for method, ours in (("percentile", peers.bootstrap_percentile), ("BCa", peers.bootstrap_bca)):
        theirs = stats.bootstrap(
            rows, square_of_rows, paired=True, n_resamples=4000, alternative="less",
            confidence_level=0.95, method=method, random_state=np.random.default_rng(1),
        )  # fmt: skip
        found = ours(sizes, events, LEVELS, DELTA, resamples=4000)
        assert found**2 == pytest.approx(theirs.confidence_interval.high, rel=0.05), method


@pytest.mark.parametrize("bound", peers.PEERS.values())
def test_many_tables_at_once_are_as_one_by_one(bound):
    model = mild(5)
    sizes, events = tables(model, 60, 3)
    together = bound(sizes, events, model.levels, DELTA)
    assert together.shape == (3,)
    assert np.all(np.isfinite(together) & (together >= 0))
    if "bootstrap" not in bound.__name__:  # their random numbers depend on the shape
        alone = [bound(*one, model.levels, DELTA) for one in zip(sizes, events, strict=True)]
        np.testing.assert_allclose(together, alone)


@pytest.mark.parametrize("bound", peers.PEERS.values())
def test_the_same_table_has_the_same_bound(bound):
    assert bound(SIZES, EVENTS, LEVELS, DELTA) == bound(SIZES, EVENTS, LEVELS, DELTA)


@pytest.mark.parametrize("name", peers.PROVED)
@pytest.mark.parametrize("make", [mild, strong])
@pytest.mark.parametrize(("n", "n_bins"), [(60, 10), (1000, 10), (1000, 50)])
def test_what_is_proved_for_the_population_holds(name, make, n, n_bins):
    model = make(n_bins)
    bounds = peers.PEERS[name](*tables(model, n, 400), model.levels, DELTA)
    assert np.mean(bounds < model.error(2.0)) <= DELTA


def test_a_calibrated_model_has_bounds_that_fall_with_the_rows():
    for name, bound in peers.PEERS.items():
        means = [
            bound(*tables(calibrated(10), n, 50), grid(10), DELTA).mean() for n in (300, 10_000)
        ]
        assert means[1] < means[0] / 3, name
