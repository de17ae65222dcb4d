"""Bounds of the largest error: values by hand, and miss rates by enumeration of all small tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import calibrant as cb

DELTA = 0.05


def certificate(size, events, s, **options) -> cb.Certificate:
    """Certify a table with these counts."""
    p = np.repeat(s, size)
    y = np.concatenate([np.arange(n) < k for n, k in zip(size, events, strict=True)])
    return cb.certify(y, p, norm="max", **options)


def test_the_upper_bound_is_the_farthest_one_sided_limit_of_any_bin():
    found = certificate([40, 60], [10, 27], [0.3, 0.5])
    low = [stats.beta.ppf(DELTA, k, n - k + 1) for n, k in ((40, 10), (60, 27))]
    high = [stats.beta.ppf(1 - DELTA, k + 1, n - k) for n, k in ((40, 10), (60, 27))]
    expected = max(0.3 - low[0], high[0] - 0.3, 0.5 - low[1], high[1] - 0.5)
    assert found.upper_bound == pytest.approx(expected, rel=1e-9)
    assert found.method == "Clopper-Pearson limits"


def test_more_bins_cost_no_more_than_the_worst_of_them():
    alone = certificate([50], [30], [0.5]).upper_bound
    among = certificate([50, 10_000, 10_000], [30, 1000, 8000], [0.5, 0.1, 0.8]).upper_bound
    assert among == pytest.approx(alone, rel=1e-12)


def test_the_lower_bound_is_where_an_exact_two_sided_test_stops_rejecting():
    bound = certificate([100], [30], [0.5]).lower_bound
    far = stats.binom(100, 0.5 - bound)
    assert far.cdf(30) + far.sf(69) == pytest.approx(DELTA, rel=1e-6)


def test_a_single_row_proves_nothing():
    found = certificate([1], [1], [0.5])
    assert found.lower_bound == 0.0
    assert found.upper_bound == pytest.approx(0.5)


@pytest.mark.parametrize("s", [0.0, 1.0])
def test_outputs_of_zero_and_one_are_refuted_by_rows_that_disagree(s):
    found = certificate([200], [round(200 * (1 - s))], [s], max_error=0.5)
    assert found.verdict == "refuted"
    assert found.upper_bound == 1.0
    agreed = certificate([200], [round(200 * s)], [s])
    assert agreed.lower_bound == 0.0
    assert agreed.upper_bound == pytest.approx(1 - DELTA ** (1 / 200))


@pytest.mark.parametrize(
    ("n", "n_bins", "most"), [(1000, 10, 0.165), (10_000, 100, 0.210)], ids=str
)
def test_a_calibrated_model_is_bounded_about_as_closely_as_its_worst_bin_allows(n, n_bins, most):
    rng, s = np.random.default_rng(3), (np.arange(n_bins) + 0.5) / n_bins
    bounds = []
    for _ in range(15):
        p = rng.choice(s, size=n)
        bounds.append(cb.certify(rng.uniform(size=n) < p, p, norm="max").upper_bound)
    assert np.mean(bounds) <= most


# Exact miss rates: every table with these counts, and the rates that make the bounds fail most


@pytest.mark.parametrize(
    ("size", "s"),
    [
        ((9,), (0.5,)),
        ((9,), (0.0,)),
        ((6, 6), (0.2, 0.8)),
        ((7, 5), (0.5, 0.5 + 1e-9)),
        ((2, 10), (0.1, 0.35)),
        ((3, 3, 3), (0.1, 0.5, 0.9)),
    ],
    ids=str,
)
def test_no_rates_make_either_bound_fail_more_often_than_promised(size, s):
    tables = list(itertools.product(*(range(n + 1) for n in size)))
    found = [certificate(size, events, s) for events in tables]
    upper = np.array([each.upper_bound for each in found])
    lower = np.array([each.lower_bound for each in found])

    def misses(rates):
        law = [stats.binom.pmf(np.arange(n + 1), n, pi) for n, pi in zip(size, rates, strict=True)]
        chance = np.array([math.prod(p[k] for p, k in zip(law, t, strict=True)) for t in tables])
        error = np.abs(np.subtract(rates, s)).max()
        return chance @ (upper < error), chance @ (lower > error)

    # Bounds fail at jumps: where an error is just above an upper, or just below a lower bound.
    jumps = (np.unique(upper) + 1e-9, np.unique(lower) - 1e-9)
    rng = np.random.default_rng(sum(size))
    for side in range(2):
        best, worst = rng.uniform(size=len(s)), 0.0
        for step in range(250):  # a random search that moves less and less
            rates = best + rng.normal(0, 0.5 * 0.98**step, len(s)) * (step % 10 > 0)
            if step % 3 == 0:
                j = rng.integers(len(s))
                rates[j] = s[j] + rng.choice([-1, 1]) * rng.choice(jumps[side])
            rates = np.clip(rates, 0, 1)
            if misses(rates)[side] > worst:
                best, worst = rates, misses(rates)[side]
        assert worst <= DELTA * (1 + 1e-9)
        assert worst > 0.005, "the search found nothing"


# Several classes, and outputs without rows


def three_classes(n):
    rng = np.random.default_rng(5)
    outputs = np.array([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]])
    which = rng.integers(2, size=n)
    y = (rng.uniform(size=n)[:, None] > outputs[which].cumsum(axis=1)).sum(axis=1)
    return y, outputs[which]


def test_classes_need_no_correction_either():
    y, probs = three_classes(2000)
    together = cb.certify(y, probs, kind="marginal", norm="max")
    # one twentieth of the error probability is kept for outputs that were not seen
    level = 1 - 0.95 * DELTA
    alone = [
        cb.certify(y == k, probs[:, k], norm="max", confidence_level=level).upper_bound
        for k in range(3)
    ]
    assert together.upper_bound == pytest.approx(max(alone), rel=1e-9)
    assert any("outputs with a probability below 0.00299" in a for a in together.assumptions)


def test_declared_masses_let_the_bound_speak_of_outputs_without_rows():
    y, probs = three_classes(2000)
    for options, silent in (
        ({}, True),
        ({"min_bin_mass": 0.1}, False),
        ({"min_bin_mass": 0.0001}, True),
        ({"target": "sample"}, True),
    ):
        found = cb.certify(y == 0, probs[:, 0], norm="max", **options)
        assert any("no row has" in each for each in found.assumptions) == silent
        assert found.recheck()


def test_bins_that_mix_predictions_bound_the_maximum_from_below_only():
    p = np.linspace(0, 1, 500)
    found = cb.certify(p > 0.3, p, norm="max", bins=5)
    squared = cb.certify(p > 0.3, p, norm="l2", bins=5, target="sample")
    assert found.upper_bound == 1.0
    assert found.lower_bound == squared.lower_bound > 0.2
