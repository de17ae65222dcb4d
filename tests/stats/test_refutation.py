"""Lower bounds of the error of continuous models: valid for every model, and close to the error."""

from __future__ import annotations

import functools
import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

import calibrant as cb


def table_of(y, p, n_bins=2):
    return cb.tabulate(y, p, bins=cb.EqualWidth(n_bins))


def bound(table, level, norm, target):
    return cb.stats.certify(table, confidence_level=level, norm=norm, target=target).lower_bound


def error(shares, gaps, norm):
    power = {"l1": 1, "l2": 2, "max": 2}[norm]
    return np.sum(shares * np.abs(gaps) ** power, axis=-1) ** (1 / power)


# Exact miss rates by enumeration


@functools.cache
def bounds_of_all_events(p, level, norm):
    """Return the bound for every number of events in either half of [0, 1]."""
    low, high = (sum(x <= 0.5 for x in p), sum(x > 0.5 for x in p))
    p = np.sort(p)
    found = np.zeros((low + 1, high + 1))
    for first, second in np.ndindex(found.shape):
        y = np.concatenate([np.arange(low) < first, np.arange(high) < second])
        found[first, second] = bound(table_of(y, p), level, norm, "sample")
    return found


def chances(rates):
    """Return the probabilities of 0, 1, ... events of these rates."""
    return functools.reduce(np.convolve, [[1 - rate, rate] for rate in rates], np.ones(1))


def miss_rate_of_rows(p, rates, level, norm):
    """Return the exact probability that the bound of these rows exceeds their error."""
    low, upper = bounds_of_all_events(tuple(p), level, norm), p > 0.5
    chance = np.outer(chances(rates[~upper]), chances(rates[upper]))
    return chance[low > error(1 / p.size, rates - p, norm) + 1e-12].sum()


def rates_to_try(p, rng):
    yield p
    yield from (np.clip(p + d, 0, 1) for d in np.linspace(-0.5, 0.5, 41))
    yield from rng.uniform(size=(50, p.size))
    yield from rng.beta(0.2, 0.2, size=(50, p.size))


def worst_miss_rate(p, level, norm, rng, n_steps):
    """Search rates at random, then climb from the worst."""
    found = [(miss_rate_of_rows(p, rates, level, norm), rates) for rates in rates_to_try(p, rng)]
    worst, rates = max(found, key=lambda each: each[0])
    for step in range(n_steps):
        moved = rng.random(p.size) < rng.choice([0.1, 0.5, 1.0])
        shift = rng.normal(size=p.size) if rng.random() < 0.5 else rng.normal()
        other = np.clip(rates + 0.3 * 0.98**step * shift * moved, 0, 1)
        rate = miss_rate_of_rows(p, other, level, norm)
        if rate >= worst:
            worst, rates = rate, other
    return worst


ROWS = {
    "one bin": np.linspace(0.02, 0.45, 9),
    "two bins": np.concatenate([np.linspace(0.01, 0.45, 12), np.linspace(0.55, 0.95, 12)]),
    "rare": np.concatenate([np.geomspace(1e-4, 0.05, 20), np.linspace(0.6, 0.9, 4)]),
    "certain": np.concatenate([np.linspace(0, 0.01, 10), np.linspace(0.99, 1, 10)]),
}


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("level", [0.95, 0.6])
@pytest.mark.parametrize("rows", ROWS)
def test_no_rates_make_the_bound_of_a_few_rows_miss_too_often(rows, level, norm):
    """All events are enumerated; rates may differ within a bin, as those of a model do."""
    worst = worst_miss_rate(ROWS[rows], level, norm, np.random.default_rng(1), 150)
    assert worst <= 1 - level


ATOMS = np.array([0.1, 0.4, 0.7])


@functools.cache
def bounds_of_all_samples(n, level, norm):
    """Return, for n rows of three predictions, every count of (prediction, label) and the bound."""
    counts = np.array([c for c in itertools.product(range(n + 1), repeat=6) if sum(c) == n])
    low = []
    for count in counts:
        p, y = np.repeat(np.tile(ATOMS, 2), count), np.repeat([0, 0, 0, 1, 1, 1], count)
        # 0.01 apart, so that no bin holds one prediction only
        p = p + 0.01 * np.arange(n) / n
        low.append(bound(table_of(y, p), level, norm, "population"))
    return counts, np.array(low)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_no_population_makes_the_bound_miss_too_often(norm):
    """Predictions are drawn, too; a few that are hardly ever seen may be very wrong."""
    level, n = 0.6, 4
    counts, low = bounds_of_all_samples(n, level, norm)
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(3000):
        mass, rates = rng.dirichlet(np.full(3, 0.5)), rng.beta(0.5, 0.5, size=3)
        if rng.random() < 0.5:
            rates = np.clip(ATOMS + rng.normal(size=3) * 0.1, 0, 1)
        chance = np.concatenate([mass * (1 - rates), mass * rates])
        missed = low > error(mass, np.abs(rates - ATOMS) + 0.01, norm)
        worst = max(worst, stats.multinomial.pmf(counts[missed], n, chance).sum())
    assert (low > 0).any()
    assert worst <= 1 - level


# What it proves, and how it says so


def rare_events(rng, n=40_000):
    """Return events that are 1.4 times as frequent as predicted, 0.045 instead of 0.032."""
    p = rng.beta(0.42, 12.7, size=n)
    rates = np.minimum(1.406 * p, 1)
    return rng.uniform(size=n) < rates, p, math.sqrt(np.mean((rates - p) ** 2))


def test_rare_events_are_refuted_where_one_binning_proves_nothing():
    y, p, truth = rare_events(np.random.default_rng(0))
    for target in ("population", "sample"):
        low = cb.certify(y, p, target=target).lower_bound
        assert 0.0135 < low < truth
    assert 0.0135 < float(cb.prequential_lower_bound(y, p, norm="l2")) < truth
    assert 0.008 < cb.certify(y, p, norm="l1").lower_bound < 0.013


def test_the_bound_is_near_the_lower_end_of_the_approximate_interval():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = rng.uniform(size=20_000) < p**1.2
    low = cb.calibration_error(y, p).confidence_interval().low
    assert 0.9 * low < cb.certify(y, p).lower_bound < low


def test_errors_that_change_their_sign_are_found_in_many_bins():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = rng.uniform(size=20_000) < np.clip(p + 0.1 * np.sin(30 * p), 0, 1)
    assert cb.certify(y, p).lower_bound > 0.05
    assert cb.certify(y, p, bins=1).lower_bound < 0.01
    assert cb.certify(y, p, norm="l1").lower_bound > 0.03


P = np.random.default_rng(5).uniform(size=3000)
WRONG = np.random.default_rng(6).uniform(size=3000) < P**2


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize(
    ("target", "words"),
    [("population", "error in the population"), ("sample", "error on inputs like these rows")],
)
def test_the_sentence_says_what_it_is_about(norm, target, words):
    certificate = cb.certify(WRONG, P, norm=norm, target=target, max_error=0.05)
    assert certificate.verdict == "refuted"
    assert certificate.target == target
    assert words in str(certificate)
    assert certificate.method == "likelihood ratios, averaged over 1, 2, 4, 8, 16 and 20 bins"
    again = cb.Certificate.from_json(certificate.to_json())
    assert again.recheck()
    assert cb.recheck(again, WRONG, P).scope == "rows"


def test_a_table_of_few_bins_says_how_many_took_part():
    table = cb.tabulate(WRONG, P, bins=cb.EqualWidth(3))
    assert cb.stats.certify(table).method.endswith("averaged over 1, 2 and 3 bins")
    table = cb.tabulate(WRONG, P, bins=1)
    assert cb.stats.certify(table).method.endswith("averaged over 1 bin")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("lower_bound", 0.17, "lower_bound is 0.17 in the document"),
        ("target", "sample", "lower_bound is"),
        ("method", "bets and likelihood ratios", "method is 'bets and likelihood ratios'"),
        ("norm", "l1", "lower_bound is"),
    ],
)
def test_a_document_that_claims_more_than_its_table_proves_is_not_believed(field, value, words):
    document = cb.certify(WRONG, P, max_error=0.05).to_dict() | {field: value}
    check = cb.Certificate.from_json(json.dumps(document)).recheck()
    assert not check
    assert words in str(check)


def test_the_largest_error_is_no_smaller_than_the_mean_one():
    lows = [cb.certify(WRONG, P, norm=norm, target="sample").lower_bound for norm in ("l2", "max")]
    assert lows[0] == lows[1] > 0.1


def test_classes_are_refuted_together():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.full(4, 0.5), size=4000)
    labels = (probs.cumsum(axis=1) < rng.uniform(size=(4000, 1))).sum(axis=1)
    sharp = probs**2 / (probs**2).sum(axis=1, keepdims=True)
    for norm in ("l1", "l2"):
        for target in ("population", "sample"):
            options = {"kind": "marginal", "norm": norm, "target": target}
            certificate = cb.certify(labels, sharp, **options)
            error = cb.calibration_error(labels, sharp, kind="marginal", norm=norm)
            assert 0.5 * float(error) < certificate.lower_bound < float(error)
            assert certificate.recheck()
            assert cb.certify(labels, probs, **options).lower_bound == 0
    one = cb.certify(labels, sharp, kind="marginal", class_weight=[0, 1, 0, 0])
    alone = cb.certify(labels == 1, sharp[:, 1])
    assert one.lower_bound == pytest.approx(alone.lower_bound, rel=1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_labels_turned_around_give_the_same_bound(norm, target):
    options = {"bins": cb.EqualWidth(16), "norm": norm, "target": target}
    low = cb.certify(WRONG, P, **options).lower_bound
    assert cb.certify(~WRONG, 1 - P, **options).lower_bound == pytest.approx(low, rel=1e-3)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_extreme_tables_have_a_bound_between_zero_and_one(norm, target):
    def low(y, p):
        table = cb.tabulate(np.array(y), np.array(p), bins=cb.EqualWidth(2))
        return cb.stats.certify(table, norm=norm, target=target).lower_bound

    assert low([0, 1], [0.2, 0.3]) == 0
    tiny = np.linspace(0, 1e-300, 500)
    assert low(np.zeros(500, int), tiny) == 0
    assert 0.5 < low(np.ones(500, int), tiny) <= 1
    assert 0.5 < low(np.zeros(500, int), 1 - np.linspace(0, 1e-9, 500)) <= 1
    certain = np.concatenate([tiny, 1 - np.linspace(0, 1e-9, 500)])
    assert low(np.repeat([0, 1], 500), certain) == 0
    assert 0.5 < low(np.repeat([1, 0], 500), certain) <= 1


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_a_billion_rows_cost_no_more_than_their_table(norm, target):
    """Rows counted a million times over; the error is nearly known."""
    table = functools.reduce(lambda t, _: t + t, range(20), cb.tabulate(WRONG, P))
    low = cb.stats.certify(table, norm=norm, target=target).lower_bound
    error = float(cb.stats.calibration_error(table, norm=norm))
    assert error * (1 - 1e-3) < low < error


def test_a_prediction_of_minus_zero_is_one_of_zero():
    y, p = np.array([0, 1, 0, 0, 1, 0] * 5), np.array([0.0, 0.9, 0.3, 0.0, 0.7, 1e-320] * 5)
    other = np.where(p == 0, -0.0, p)
    for norm in ("l1", "l2"):
        found = cb.prequential_lower_bound(y, other, norm=norm)
        assert found.value == cb.prequential_lower_bound(y, p, norm=norm).value
