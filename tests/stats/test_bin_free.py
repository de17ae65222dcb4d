"""Errors without bins: values by hand and by linear programming, bounds that hold, and proofs."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import optimize, sparse, special

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError, LengthMismatchError
from calibrant.stats.bin_free import (
    betting_bound,
    bin_free_bounds,
    prequential_lower_bound,
    smooth_calibration_error,
)
from calibrant.stats.samples import Atoms, cumulative_differences, kuiper

TEN_P = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
TEN_Y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], float)


def smooth_error_by_linear_programming(atoms):
    residual = (atoms.events - atoms.count * atoms.p) / atoms.n
    m = residual.size
    if m == 1:
        return abs(float(residual[0]))
    steps = sparse.diags_array([-np.ones(m), np.ones(m - 1)], offsets=[0, 1], shape=(m - 1, m))
    gaps = np.diff(atoms.p)
    found = optimize.linprog(
        -residual,
        A_ub=sparse.vstack([steps, -steps]),
        b_ub=np.concatenate([gaps, gaps]),
        bounds=(-1, 1),
    )
    return -found.fun


def test_errors_of_ten_rows():
    bounds = bin_free_bounds(TEN_Y, TEN_P)
    assert bounds.cumulative.value == pytest.approx(0.055, abs=1e-12)
    assert bounds.cutoff.value == pytest.approx(0.09, abs=1e-12)
    assert bounds.smooth.value == pytest.approx(0.0355, abs=1e-12)


def test_the_smooth_error_is_the_optimum_of_its_linear_program():
    rng = np.random.default_rng(0)
    for i in range(200):
        p = rng.uniform(size=int(rng.integers(1, 80))) ** rng.uniform(0.2, 3)
        p = np.round(p, 1) if i % 3 == 0 else p
        p = np.round(p) if i % 7 == 0 else p
        y = (rng.uniform(size=p.size) < p ** rng.uniform(0.2, 5)).astype(float)
        expected = smooth_error_by_linear_programming(Atoms.of(y, p))
        assert smooth_calibration_error(Atoms.of(y, p)) == pytest.approx(expected, abs=1e-7)


def test_the_smooth_error_does_not_exceed_the_mean_absolute_gap():
    assert smooth_calibration_error(Atoms.of(np.ones(4), np.zeros(4))) == 1
    assert smooth_calibration_error(Atoms.of(np.zeros(4), np.ones(4))) == 1
    assert smooth_calibration_error(Atoms.of(np.array([0.0, 1.0]), np.array([0.0, 1.0]))) == 0
    crossed = smooth_calibration_error(Atoms.of(np.array([1.0, 0.0]), np.array([0.0, 1.0])))
    assert crossed == pytest.approx(0.5)


def test_rows_of_equal_predictions_are_pooled_whatever_their_order():
    rng = np.random.default_rng(1)
    p = rng.integers(0, 5, size=300) / 4
    y = (rng.uniform(size=300) < 0.5).astype(float)
    order = rng.permutation(300)
    assert bin_free_bounds(y, p) == bin_free_bounds(y[order], p[order])
    assert cumulative_differences(Atoms.of(y, p)).size == 5


def test_half_lines_are_intervals_and_no_error_exceeds_the_next():
    rng = np.random.default_rng(2)
    for _ in range(50):
        p = rng.uniform(size=60)
        y = (rng.uniform(size=60) < p**2).astype(float)
        bounds = bin_free_bounds(y, p)
        assert bounds.cumulative.value <= bounds.cutoff.value + 1e-15
        assert bounds.cutoff.value <= 2 * bounds.cumulative.value + 1e-15
        assert bounds.smooth.value <= 2 * bounds.cumulative.value + 1e-15


def test_bounds_are_estimates_and_multiples_of_the_radius():
    bounds = bin_free_bounds(TEN_Y, TEN_P, 0.9)
    radius = math.sqrt(math.log(20) / 20)
    assert bounds.radius == pytest.approx(radius)
    assert bounds.cumulative.high == pytest.approx(0.055 + radius)
    assert bounds.cutoff.high == pytest.approx(0.09 + 2 * radius)
    assert bounds.smooth.high == pytest.approx(0.0355 + 1.8 * radius)
    assert bounds.cumulative.low == 0
    assert json.loads(json.dumps(bounds.to_dict()))["cutoff"]["low"] == 0
    assert "no bins" in str(bounds)


@pytest.mark.parametrize("level", [0, 1, 95])
def test_levels_are_fractions(level):
    with pytest.raises(InvalidArgumentError, match="confidence_level"):
        bin_free_bounds(TEN_Y, TEN_P, level)
    with pytest.raises(InvalidArgumentError, match="confidence_level"):
        cb.stats.prequential_lower_bound(TEN_Y, TEN_P, confidence_level=level)


@pytest.mark.parametrize("slope", [1.0, 0.5])
@pytest.mark.parametrize("n", [30, 1000])
def test_bin_free_bounds_hold_together_given_the_predictions(n, slope):
    rng, runs, misses = np.random.default_rng(n), 400, 0
    p = np.sort(rng.uniform(size=n))
    pi = special.expit(slope * special.logit(p))
    truth = Atoms(p, np.ones(n), pi)
    s = cumulative_differences(truth)
    exact = (np.abs(s).max(), float(kuiper(s)), smooth_calibration_error(truth))
    for _ in range(runs):
        bounds = bin_free_bounds((rng.uniform(size=n) < pi).astype(float), p, 0.8)
        found = (bounds.cumulative, bounds.cutoff, bounds.smooth)
        misses += any(not b.low <= e <= b.high for b, e in zip(found, exact, strict=True))
    assert misses / runs <= 0.2


def test_a_prequential_bound_is_reproducible_and_prints():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=2000)
    y = (rng.uniform(size=2000) < p**2).astype(float)
    a, b = (prequential_lower_bound(y, p, norm="l1") for _ in range(2))
    assert a == b
    assert float(a) == a.value > 0.05
    assert a.n_tested == 1800
    assert "l1 calibration error in the population at least" in str(a)
    assert json.loads(json.dumps(a.to_dict()))["method"] == "mixture"
    betting = {
        norm: prequential_lower_bound(y, p, norm=norm, method="betting").value
        for norm in ("l1", "l2")
    }
    assert betting["l1"] == betting["l2"]
    assert betting["l2"] < prequential_lower_bound(y, p, norm="l2").value < 0.1826
    assert (
        betting["l1"]
        < prequential_lower_bound(y, p, method="normal", norm="l1").value
        < 1 / 6 + 0.03
    )


def test_a_mixture_finds_what_bets_and_bins_find_for_a_small_share_of_their_bounds():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=5000)
    y = (rng.uniform(size=5000) < p**1.5).astype(float)
    bets = prequential_lower_bound(y, p, method="betting", norm="l1").value
    assert 0.97 * bets < prequential_lower_bound(y, p, norm="l1").value <= bets
    bins = cb.certify(y, p).lower_bound
    assert 0.97 * bins < prequential_lower_bound(y, p, norm="l2").value < 1.03 * bins


def test_the_order_of_the_rows_does_not_matter_much():
    """Rows sorted by label or prediction are shuffled first."""
    rng = np.random.default_rng(0)
    p = rng.uniform(size=3000)
    y = (rng.uniform(size=3000) < p).astype(float)
    for order in (np.argsort(y), np.argsort(p), np.lexsort((p, y))):
        assert prequential_lower_bound(y[order], p[order], norm="l1").value < 0.01


@pytest.mark.parametrize("method", ["mixture", "betting", "normal"])
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_a_handful_of_rows_prove_nothing(method, n):
    y, p = np.tile([0.0, 1.0], 5)[:n], np.tile([0.3, 0.6], 5)[:n]
    assert prequential_lower_bound(y, p, method=method, norm="l1").value <= 0.7
    assert prequential_lower_bound(y, p, norm="l2").value == 0


def test_certain_and_wrong_predictions_are_refuted():
    y, p = np.zeros(500), np.ones(500)
    assert prequential_lower_bound(y, p, norm="l1").value > 0.9
    assert prequential_lower_bound(y, p, norm="l2").value > 0.9


def test_the_betting_bound_is_below_the_mean_and_rises_with_rows():
    rng = np.random.default_rng(3)
    x = rng.choice([-0.5, 0.5], p=[0.3, 0.7], size=20_000)
    bounds = [betting_bound(x[:n], 0.05) for n in (100, 1000, 20_000)]
    assert bounds == sorted(bounds)
    assert 0.18 < bounds[-1] < 0.2
    assert betting_bound(-np.abs(x), 0.05) == 0


def test_options_and_shapes_of_the_prequential_bound_are_checked():
    with pytest.raises(InvalidArgumentError, match='norm must be "l1" or "l2"'):
        prequential_lower_bound(TEN_Y, TEN_P, norm="max")
    with pytest.raises(
        InvalidArgumentError, match='method must be "mixture", "betting" or "normal"'
    ):
        prequential_lower_bound(TEN_Y, TEN_P, method="bootstrap", norm="l1")
    with pytest.raises(LengthMismatchError):
        prequential_lower_bound(TEN_Y, TEN_P[:3], norm="l1")


def l1_error(slope):
    grid = (np.arange(100_000) + 0.5) / 100_000
    return float(np.abs(special.expit(slope * special.logit(grid)) - grid).mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slope", "n", "runs", "betting", "normal"),
    [
        (1.0, 1000, 150, (0, 0.001), (0, 0.001)),
        (0.85, 1000, 150, (0.0005, 0.003), (0.001, 0.005)),
        (0.7, 1000, 150, (0.011, 0.018), (0.016, 0.024)),
        (0.45, 1000, 150, (0.068, 0.078), (0.074, 0.086)),
        (0.7, 10_000, 30, (0.039, 0.044), (0.041, 0.046)),
    ],
)
def test_the_prequential_bound_is_below_the_true_error_and_not_far(slope, n, runs, betting, normal):
    rng, truth = np.random.default_rng(int(100 * slope)), l1_error(slope)
    found = {"betting": [], "normal": []}
    for run in range(runs):
        p = rng.uniform(size=n)
        y = (rng.uniform(size=n) < special.expit(slope * special.logit(p))).astype(float)
        for method, values in found.items():
            values.append(prequential_lower_bound(y, p, method=method, rng=run, norm="l1").value)
    slack = 3 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean(np.array(found["betting"]) <= truth) >= 0.95 - slack / 3
    assert np.mean(np.array(found["normal"]) <= truth) >= 0.95 - slack
    assert betting[0] <= np.mean(found["betting"]) <= betting[1]
    assert normal[0] <= np.mean(found["normal"]) <= normal[1]
