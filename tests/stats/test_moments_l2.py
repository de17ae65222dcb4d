"""Exponential moments: bounded from above, by how much at most, at a cost flat in the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from calibrant.stats import bounds, moments_l2
from calibrant.stats.moments_l2 import TOLERANCE, BinObjective, log_moment
from calibrant.stats.questions import Evidence, Setting

NEAR_ENDS = [0.0, 1.0, 1e-12, 1e-6, 1 - 1e-9]


def brute_force(pi, size, a, c):
    """Return log E exp(-a (K/N - c)^2) as the plain sum; pi may be an array."""
    k = np.arange(size + 1)
    log_terms = stats.binom.logpmf(k, size, np.atleast_1d(pi)[:, None]) - a * (k / size - c) ** 2
    return special.logsumexp(log_terms, axis=1)


def moments(pi, size, a, c):
    return log_moment(*(np.atleast_1d(np.asarray(x, float)) for x in (pi, size, a, c)))


def excess_over_brute_force(size, pi, a, c):
    each = np.broadcast_arrays(pi, float(size), a, c)
    found = moments(*each)
    exact = np.array([brute_force(p, size, *rest)[0] for p, *rest in zip(pi, a, c, strict=True)])
    return found - exact


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 1000])
def test_log_moment_is_the_sum_and_never_below_it(size):
    rng = np.random.default_rng(size)
    runs = 150
    pi = np.where(rng.uniform(size=runs) < 0.6, rng.uniform(size=runs), rng.choice(NEAR_ENDS, runs))
    a = size * 10 ** rng.uniform(-4, 1.6, size=runs)
    c = rng.uniform(size=runs)
    excess = excess_over_brute_force(size, pi, a, c)
    assert excess.min() > 0
    assert excess.max() < 1e-6


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_log_moment_keeps_its_precision_in_the_far_tail(size):
    # All labels disagree with c, and the parabola weighs as much as certificates ever make it.
    pi, c = np.array([1e-9, 1e-3, 0.05, 0.999]), np.array([0.999, 0.9, 1.0, 0.001])
    excess = excess_over_brute_force(size, pi, np.full(4, 40.0 * size), c)
    assert excess.min() > 0
    assert excess.max() < 1e-6


@pytest.mark.slow
def test_log_moment_of_a_million_rows_is_the_sum_up_to_rounding():
    size, pi, c = 10**6, np.array([0.3, 0.31, 0.002, 0.5]), np.array([0.3, 0.3, 0.0021, 0.502])
    excess = excess_over_brute_force(size, pi, size * np.array([1.0, 0.01, 3.0, 38.0]), c)
    assert excess.min() > -1e-9
    assert excess.max() < 1e-6


def test_log_moment_of_certain_labels_is_the_parabola():
    np.testing.assert_allclose(moments(0.0, 7, 5.0, 0.3), -5 * 0.3**2, atol=1e-8)
    np.testing.assert_allclose(moments(1.0, 7, 5.0, 0.3), -5 * 0.7**2, atol=1e-8)


# The highest point of the objective


def evidence(rng, size, balanced: bool) -> Evidence:
    n_bins = size.size
    s = np.sort(rng.beta(*rng.choice([0.3, 1.0, 3.0], 2), size=n_bins))
    s[rng.uniform(size=n_bins) < 0.1] = rng.choice([0.0, 1.0])
    rest = (s, s, np.ones(n_bins), n_bins)
    return Evidence(int(size.sum()), size.astype(float), *rest)


def objective_of_a_certificate(rng, monkeypatch, n_bins=6, largest=200):
    """Return the objective that a test of a random error needs, with their reach and highest points."""
    seen = []
    real = BinObjective.highest

    def spy(objective, reach, tolerance):
        seen.append((objective, reach))
        return real(objective, reach, tolerance)

    monkeypatch.setattr(BinObjective, "highest", spy)
    balanced = bool(rng.integers(2))
    hi = float(10 ** rng.uniform(-2, 0))
    known = Setting("population", 0.05, 0.3 / n_bins if balanced else 0.0)
    setting = known if rng.integers(3) else Setting("sample", 0.05)
    size = rng.integers(1, largest, n_bins)
    test = bounds.UpperTest.tuned(evidence(rng, size, balanced), setting, hi / 1.1, hi)
    test.peaks(TOLERANCE)
    monkeypatch.undo()
    return *seen[0], real(*seen[0])


def gain(objective: BinObjective, j: int, pi):
    u = objective.q * (pi - objective.s[j]) ** 2
    return objective.size[j] * (-np.log1p(-u) if objective.bend else u)


def true_maximum(objective: BinObjective, j: int, reach: float) -> float:
    """Search a grid of pi, then finer and finer ones around its best point."""
    low, high = max(objective.s[j] - reach, 0.0), min(objective.s[j] + reach, 1.0)
    size, best = int(objective.size[j]), -np.inf
    for _ in range(5):
        pi = np.linspace(low, high, 401)
        value = brute_force(pi, size, objective.a[j], objective.c[j]) + gain(objective, j, pi)
        i = int(value.argmax())
        best = max(best, float(value[i]))
        low, high = pi[max(i - 2, 0)], pi[min(i + 2, 400)]
    return best


@pytest.mark.slow
def test_the_highest_point_is_never_below_the_maximum_and_above_by_at_most_the_tolerance(
    monkeypatch,
):
    rng = np.random.default_rng(5)
    excess = []
    for _ in range(25):
        objective, reach, highest = objective_of_a_certificate(rng, monkeypatch)
        maxima = [true_maximum(objective, j, each) for j, each in enumerate(np.full(6, reach))]
        excess.append(highest - maxima)
    assert np.min(excess) > 0
    assert np.max(excess) < TOLERANCE + 1e-7


def test_a_coarse_highest_point_is_above_by_at_most_its_own_tolerance(monkeypatch):
    rng = np.random.default_rng(6)
    for tolerance in (0.01, 1.0, 50.0):
        objective, reach, fine = objective_of_a_certificate(
            rng, monkeypatch, n_bins=20, largest=2000
        )
        coarse = objective.highest(reach, tolerance)
        assert np.all(fine - TOLERANCE - 1e-8 <= coarse)
        assert np.all(coarse <= fine + tolerance)


STEEP = [(1.5, 0), (0.95, 1), (0.3, 1)]


@pytest.mark.parametrize(("q", "bend"), STEEP)
def test_a_gain_that_outweighs_the_moment_has_a_highest_point_all_the_same(q, bend):
    one = np.ones(1)
    objective = BinObjective(20 * one, 10 * one, 0.4 * one, 0.4 * one, q, bend)
    best = true_maximum(objective, 0, 1.0)
    assert 0 < objective.highest(1.0)[0] - best < TOLERANCE + 1e-7


@pytest.mark.parametrize(("q", "bend"), STEEP[:2])
def test_the_highest_point_within_reach_is_lower_than_without_limit(q, bend):
    one = np.ones(1)
    objective = BinObjective(20 * one, 10 * one, 0.4 * one, 0.4 * one, q, bend)
    assert objective.highest(0.1)[0] < objective.highest(0.2)[0] < objective.highest(1.0)[0]
    assert objective.highest(0.1)[0] - true_maximum(objective, 0, 0.1) < TOLERANCE + 1e-7


@pytest.mark.parametrize("bend", [0, 1])
def test_the_slope_of_the_gain_is_its_derivative(bend):
    rng = np.random.default_rng(0)
    pi, s = rng.uniform(0.01, 0.99, (2, 50))
    objective = BinObjective(np.full(50, 7.0), np.ones(50), s, s, 0.8, bend)

    def rest(w):
        return objective.gain(special.expit(w)) - 7 * np.logaddexp(0, w)

    w = special.logit(pi)
    np.testing.assert_allclose(
        objective.slope(pi), (rest(w + 1e-6) - rest(w - 1e-6)) / 2e-6, rtol=1e-6, atol=1e-6
    )


def points_needed(monkeypatch, rows_a_bin: int, t: float) -> int:
    """Return at how many points a test of the error t evaluates moments; at most 50,000."""
    points = [0]
    real = moments_l2.log_quadrature

    def counting(pi, size, a, centre):
        points[0] += pi.size
        return real(pi, size, a, centre) if points[0] < 50_000 else np.zeros(pi.size)

    monkeypatch.setattr(moments_l2, "log_quadrature", counting)
    monkeypatch.setattr(moments_l2, "MOST_ROUNDS", 6)
    s = (np.arange(10) + 0.5) / 10
    rest = (s, s, np.ones(10), 10)
    table = Evidence(10 * rows_a_bin, np.full(10, float(rows_a_bin)), *rest)
    test = bounds.UpperTest.tuned(table, Setting("population", 0.05, 0.05), t / 1.1, t)
    test.peaks(TOLERANCE)
    monkeypatch.undo()
    return min(points[0], 50_000)


ROWS_A_BIN = [10**2, 10**3, 10**4, 10**6, 10**8, 10**10]


def test_the_number_of_points_does_not_grow_with_the_rows(monkeypatch):
    points = [points_needed(monkeypatch, rows, 2 / math.sqrt(10 * rows)) for rows in ROWS_A_BIN]
    assert max(points) <= 1.5 * min(points)
    assert max(points) < 10 * 100


def test_the_number_of_points_does_not_grow_for_a_model_that_is_off(monkeypatch):
    points = [points_needed(monkeypatch, rows, 0.02) for rows in ROWS_A_BIN]
    assert max(points) < 10 * 1000


def test_parabolas_alone_bound_the_maxima_from_above():
    for bend, q in ((0, 0.9), (1, 0.5)):
        size = np.array([1.0, 7.0, 300.0, 1e6])
        s = np.array([0.0, 0.3, 0.5, 0.99])
        objective = moments_l2.BinObjective(size, 4 * size, s, s, q, bend)
        rough, close = objective.roughly_highest(1.0), objective.highest(1.0)
        assert np.all(rough >= close - TOLERANCE)
        assert np.all(np.isfinite(rough))
