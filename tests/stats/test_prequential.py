"""Proofs of miscalibration: bounds below the true error, and not far below."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError, LengthMismatchError
from calibrant.stats.prequential import betting_bound, prequential_lower_bound

TEN_P = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
TEN_Y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], float)


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
    with pytest.raises(InvalidArgumentError, match='method "mixture", "betting"'):
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
