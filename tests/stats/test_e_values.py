"""E-values of bins: their mean is at most what errors cost, at any rates."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import spatial, special

from calibrant.stats.e_values import Binning, ClassSums, TiltPenalty, log_e_value


def chances(rates):
    """Return the probabilities of 0, 1, ... events of these rates."""
    return functools.reduce(np.convolve, [[1 - rate, rate] for rate in rates], np.ones(1))


def mean_of_e_value(p, rates, penalty, reach):
    """Return log E exp(log F - C) for one bin of these rows, less the sum of G, exactly."""
    total = []
    for events in range(p.size + 1):
        sums = ClassSums(1.0, *(np.array([x]) for x in (p.size, events, p.sum(), p @ (1 - p))))
        total.append(log_e_value(Binning.of([sums], 1), penalty, reach, -math.inf))
    gaps = rates - p
    spent = penalty.q * np.abs(gaps).sum() if penalty.power == 1 else penalty.value(gaps).sum()
    with np.errstate(divide="ignore"):
        return special.logsumexp(np.array(total) + np.log(chances(rates))) - spent


@pytest.mark.parametrize("target", ["sample", "population"])
@pytest.mark.parametrize("q", [0.3, 2.0, 30.0])
@pytest.mark.parametrize("s", [0.003, 0.2, 0.5, 0.98])
def test_the_mean_of_a_squared_e_value_is_at_most_what_errors_cost_and_nearly_that(s, q, target):
    """The largest mean over all rates is what the enclosure claims, and not much less."""
    penalty, rng = TiltPenalty(2.0, target, q), np.random.default_rng(0)
    p = np.full(20, s)
    rates = np.concatenate([np.linspace(0, 1, 51), np.clip(s + np.linspace(-0.1, 0.1, 51), 0, 1)])
    found = [mean_of_e_value(p, np.full(20, rate), penalty, 0.2) for rate in rates]
    assert -0.15 <= max(found) <= 0
    spread = np.clip(s + np.linspace(-0.9, 0.9, 20) * min(s, 1 - s), 0, 1)
    found = [mean_of_e_value(spread, rng.beta(a, 1, 20), penalty, 0.2) for a in (0.05, 0.5, 3)]
    assert max(found) <= 0


@pytest.mark.parametrize("q", [0.1, 0.7, 5.0])
@pytest.mark.parametrize("s", [0.0, 0.01, 0.4, 1.0])
def test_the_mean_of_an_absolute_e_value_is_at_most_what_errors_cost(s, q):
    p, penalty = np.full(20, s), TiltPenalty(1.0, "sample", q)
    found = [mean_of_e_value(p, np.full(20, rate), penalty, 1.0) for rate in np.linspace(0, 1, 51)]
    rng = np.random.default_rng(0)
    found += [mean_of_e_value(p, rng.beta(a, 1, 20), penalty, 1.0) for a in (0.05, 0.3, 1, 3)]
    found += [mean_of_e_value(p, p, penalty, 1.0)]
    assert max(found) <= 0
    assert found[-1] == pytest.approx(0, abs=1e-5), "calibrated rows are the worst case"


@pytest.mark.parametrize("q", [0.5, 1.0, 3.0, 40.0, 3000.0])
def test_the_penalty_of_the_population_is_the_largest_convex_one(q):
    penalty, e = TiltPenalty(2.0, "population", q), np.linspace(-1, 1, 20_001)
    value = penalty.value(e)
    assert np.all(value <= np.log1p(q * e**2) + 1e-12)
    assert np.all(np.diff(value, 2) >= -1e-12)
    np.testing.assert_allclose(np.gradient(value, e)[1:-1], penalty.slope(e)[1:-1], atol=2e-3 * q)
    points = np.column_stack([e, np.log1p(q * e**2)])
    hull = spatial.ConvexHull(points).vertices
    lower = np.sort(hull[points[hull, 1] <= value[hull] + 1e-6])
    np.testing.assert_allclose(np.interp(e, e[lower], points[lower, 1]), value, atol=1e-4 * q)
