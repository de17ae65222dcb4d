"""Bounds of the squared error, and of several classes on the inputs at hand."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cb
from calibrant import BinTable, certify
from calibrant.stats.bounds import (
    ETA,
    SMALLEST,
    UpperTest,
    lower_bound,
    upper_bound,
)
from calibrant.stats.questions import Evidence, Setting

TEN = (np.arange(10) + 0.5) / 10
FREE = Setting("population", 0.05)
KNOWN = Setting("population", 0.05, 1 / 20)
SAMPLE = Setting("sample", 0.05)
SETTINGS = pytest.mark.parametrize(
    "setting", [FREE, KNOWN, SAMPLE], ids=["free", "known", "sample"]
)
CLOSE = (7, 12, 28, 31, 49, 51, 68, 71, 83, 97)
FARTHER = (10, 20, 30, 40, 45, 55, 60, 70, 80, 90)


def evidence(events, size=100, s=TEN, weight=None, n=None) -> Evidence:
    """Return the evidence of one class, or of several with weights."""
    s = np.asarray(s, float)
    size = np.broadcast_to(np.asarray(size, float), s.shape).copy()
    weight = np.ones(s.size) if weight is None else np.asarray(weight, float)
    rows = int(size.sum()) if n is None else n
    return Evidence(rows, size, np.asarray(events) / size, s, weight, s.size)


def plug_in(table: Evidence) -> float:
    return math.sqrt(table.squared(0.0))


# Values


@pytest.mark.parametrize(
    ("events", "sample", "known", "free"),
    [(CLOSE, 0.04738, 0.04807, 0.0623), (FARTHER, 0.0650, 0.0665, 0.0812)],
)
def test_the_bounds_have_the_values_of_the_specification(events, sample, known, free):
    table = evidence(events)
    assert upper_bound(table, SAMPLE) == pytest.approx(sample, abs=2e-4)
    assert upper_bound(table, KNOWN) == pytest.approx(known, abs=2e-4)
    assert upper_bound(table, FREE) <= free + 2e-4


@pytest.mark.parametrize(("events", "least"), [(CLOSE, 0.0544), (FARTHER, 0.0719)])
def test_nothing_known_of_the_masses_costs_little(events, least):
    # `least` is the best that any (lam, q) gave in a search over both by brute force.
    assert least <= upper_bound(evidence(events), FREE) <= 1.03 * least


def test_the_statistic_is_the_plug_in_square_less_a_share_of_its_bias():
    assert evidence(CLOSE).squared(0.0) == pytest.approx(0.00103, abs=1e-12)
    assert evidence(CLOSE).squared(1.0) == pytest.approx(-0.00066667, abs=1e-8)
    assert evidence(FARTHER).squared(1.0) == pytest.approx(0.00008586, abs=1e-8)


def test_a_statistic_given_by_its_value_has_the_bound_of_the_table():
    table = evidence(FARTHER)
    assert upper_bound(table, KNOWN, table.squared(ETA)) == upper_bound(table, KNOWN)


# Order


@SETTINGS
def test_more_rows_with_the_same_rates_lower_the_upper_and_raise_the_lower_bound(setting):
    tables = [evidence(np.array([2, 1, 4, 5, 6, 4, 5, 6, 6, 7]) * k, 10 * k) for k in (1, 10, 100)]
    uppers = [upper_bound(table, setting) for table in tables]
    lowers = [lower_bound(table, setting) for table in tables]
    assert uppers[0] > uppers[1] > uppers[2] > plug_in(tables[0])
    assert lowers[0] <= lowers[1] < lowers[2] < plug_in(tables[0])


@SETTINGS
def test_more_confidence_widens_both_bounds(setting):
    table = evidence(np.clip(np.array(CLOSE) + 15, 0, 100))
    settings = [replace(setting, delta=delta) for delta in (0.2, 0.05, 0.001)]
    uppers = [upper_bound(table, each) for each in settings]
    lowers = [lower_bound(table, each) for each in settings]
    assert uppers == sorted(uppers)
    assert lowers == sorted(lowers, reverse=True)
    assert len(set(uppers)) == len(set(lowers)) == 3


@pytest.mark.parametrize("seed", range(4))
def test_the_less_is_asked_and_the_more_is_known_the_lower_the_upper_bound(seed):
    rng = np.random.default_rng(seed)
    table = evidence(rng.binomial(100, np.clip(TEN + rng.normal(0, 0.05, 10), 0, 1)))
    sample, known, free = (upper_bound(table, each) for each in (SAMPLE, KNOWN, FREE))
    assert sample <= known * 1.001
    assert known <= free * 1.001


@SETTINGS
@pytest.mark.parametrize("seed", range(3))
def test_the_lower_bound_lies_below_the_plug_in_error_and_that_below_the_upper(setting, seed):
    rng = np.random.default_rng(seed)
    for size, shift in ((3, 0.2), (100, 0.0), (100, 0.2), (10_000, 0.1)):
        table = evidence(rng.binomial(size, np.clip(TEN + shift, 0, 1)), size)
        low, high = lower_bound(table, setting), upper_bound(table, setting)
        assert 0 <= low <= plug_in(table)
        assert low < high <= 1


@SETTINGS
def test_bounds_do_not_change_when_events_are_called_non_events(setting):
    rng = np.random.default_rng(3)
    s, size = np.array([0.0, 0.01, 0.2, 0.5, 0.6, 1.0]), np.array([1, 40, 90, 3, 200, 7])
    events = rng.binomial(size, 0.5 * s + 0.2)
    table = evidence(events, size, s)
    mirrored = evidence((size - events)[::-1], size[::-1], 1 - s[::-1])
    assert upper_bound(mirrored, setting) == pytest.approx(upper_bound(table, setting), rel=1e-3)
    assert lower_bound(mirrored, setting) == pytest.approx(lower_bound(table, setting), rel=1e-6)


# Extreme tables


@SETTINGS
def test_a_hundred_million_rows_are_bounded_to_a_fraction_of_a_thousandth(setting):
    size = 10**7
    rng = np.random.default_rng(0)
    table = evidence(rng.binomial(size, TEN), size)
    assert plug_in(table) < upper_bound(table, setting) < 8e-4
    assert lower_bound(table, setting) == 0.0
    wrong = evidence(rng.binomial(size, TEN + 0.01), size)
    assert 0.0095 < lower_bound(wrong, setting) < 0.01 < upper_bound(wrong, setting) < 0.0105


@SETTINGS
def test_bins_of_one_row_say_little_but_nothing_false(setting):
    s = np.linspace(0.05, 0.95, 30)
    table = evidence(np.arange(30) % 2, 1, s)
    assert 0.3 < upper_bound(table, setting) <= 1
    assert lower_bound(table, setting) < 0.3


@SETTINGS
@pytest.mark.parametrize("s", [0.0, 1.0])
def test_outputs_of_zero_and_one_are_bounded(setting, s):
    agreed = evidence([200 * s], 200, [s])
    assert 0 < upper_bound(agreed, setting) < 0.25
    assert lower_bound(agreed, setting) == 0.0
    disagreed = evidence([200 * (1 - s)], 200, [s])
    assert upper_bound(disagreed, setting) == 1.0
    assert lower_bound(disagreed, setting) > 0.75


@SETTINGS
def test_a_single_row_proves_nothing(setting):
    table = evidence([1], 1, [0.5])
    assert upper_bound(table, setting) == 1.0
    assert lower_bound(table, setting) == 0.0


def test_labels_that_agree_too_well_reject_every_error():
    s = np.tile([0.25, 0.5, 0.75], 7)
    table = evidence(100 * s, 100, s)
    for setting in (SAMPLE, FREE):
        assert upper_bound(table, setting) <= SMALLEST
        assert lower_bound(table, setting) == 0.0


def test_agreement_of_one_bin_is_luck_and_leaves_room():
    for size in (10, 100, 1000):
        table = evidence([size / 2], size, [0.5])
        assert 0.2 / math.sqrt(size) < upper_bound(table, SAMPLE) < 2 / math.sqrt(size)


def test_the_bound_never_falls_when_the_statistic_rises():
    table = evidence(CLOSE)
    for setting in (FREE, KNOWN, SAMPLE):
        found = [upper_bound(table, setting, t) for t in np.linspace(-0.002, 0.05, 6)]
        assert np.all(np.diff(found) >= 0)
        assert found[0] < found[-1]


# Masses inferred from the counts


def test_inferred_masses_do_not_tune_the_tests():
    # Their proof averages over the counts, so nothing that tunes them may depend on these.
    table = evidence(CLOSE)
    for lo, hi in ((0.05, 0.055), (0.1, 0.11), (0.5, 0.55)):
        tests = [
            UpperTest.tuned(table, Setting("population", 0.05, mass, 1 / 20), lo, hi)
            for mass in (0.0, 1e-4, 0.08, np.linspace(0.01, 0.1, 10))
        ]
        assert len({(test.lam, test.q) for test in tests}) == 1


def test_less_mass_inferred_never_sharpens_a_bound():
    wrong = evidence(np.clip(np.array(CLOSE) + 15, 0, 100))
    settings = [Setting("population", 0.05, mass, 1 / 20) for mass in (0.08, 0.04, 0.02, 0.005)]
    uppers = [upper_bound(evidence(CLOSE), each) for each in settings]
    lowers = [lower_bound(wrong, each) for each in settings]
    assert uppers == sorted(uppers)
    assert lowers == sorted(lowers, reverse=True)
    assert uppers[0] < uppers[-1] < 1


def test_inferred_masses_far_from_even_sharpen_the_bound_all_the_same():
    s, size = np.array([0.02, 0.2, 0.5, 0.8, 0.98]), np.array([6000, 2000, 1000, 800, 200])
    table = evidence(np.array([130, 386, 513, 630, 197]), size, s)
    inferred = Setting("population", 0.05, 0.7 * size / 10_000, 1 / 10)
    assert upper_bound(table, inferred) < 0.95 * upper_bound(table, FREE)


# Several classes


@SETTINGS
def test_two_mirrored_classes_have_the_bounds_of_one(setting):
    events = np.array(FARTHER)
    one = evidence(events)
    both = evidence(
        np.concatenate([events, 100 - events]),
        s=np.concatenate([TEN, 1 - TEN]),
        weight=np.full(20, 0.5),
        n=1000,
    )
    both = replace(both, n_planned=10)
    # A bin of a class with weight 1/2 may be wrong by sqrt(2) more, so less is known of it.
    alike = replace(setting, least_mass=2 * setting.least_mass)
    assert both.squared(0.3) == pytest.approx(one.squared(0.3), rel=1e-12)
    assert upper_bound(both, alike) == pytest.approx(upper_bound(one, setting), rel=0.01)
    assert upper_bound(both, alike) >= 0.999 * upper_bound(one, setting)
    assert lower_bound(both, alike) == pytest.approx(lower_bound(one, setting), abs=1e-3)


def test_a_class_of_little_weight_matters_little():
    events = np.concatenate([CLOSE, FARTHER])
    s = np.concatenate([TEN, TEN])
    bounds = []
    for weight in (0.001, 0.1, 0.5):
        weights = np.repeat([1 - weight, weight], 10)
        table = replace(evidence(events, s=s, weight=weights, n=1000), n_planned=10)
        bounds.append(upper_bound(table, FREE))
    assert bounds[0] < bounds[1] < bounds[2]
    assert bounds[0] == pytest.approx(upper_bound(evidence(CLOSE), FREE), rel=0.05)


# Several classes on the inputs at hand: rows of a bin have event rates of their own


def test_rows_with_event_rates_of_their_own_have_a_smaller_lower_bound():
    one_rate = evidence([600, 900], size=10_000, s=[0.02, 0.05])
    mixed = lower_bound(replace(one_rate, is_mixed=True), SAMPLE)
    assert 0.02 < mixed < lower_bound(one_rate, SAMPLE) < 0.04


@pytest.mark.parametrize("n", [10**10, 10**12, 10**15])
def test_honest_labels_of_very_many_rows_do_not_agree_too_well(n):
    levels = (np.arange(10) + 0.5) / 10
    off = 0.7 * np.sqrt(n / 10 * levels * (1 - levels)) * np.where(np.arange(10) % 2, -1, 1)
    events = np.rint(n / 10 * levels + off)  # a little closer than usual
    table = BinTable.from_counts(levels, np.full(10, n // 10), events)
    certificate = certify(table, max_error=0.01)
    assert certificate.verdict == "certified"
    assert not certificate.agrees_too_well
    assert certificate.upper_bound < 30 / np.sqrt(n)


def rows_of(n, k, seed=0, curve=1.0):
    """Return labels and rounded probabilities of a model whose logits are `curve` times right."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, k))
    probs = np.round(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), 1)
    probs += (1 - probs.sum(axis=1, keepdims=True)) / k
    probs = np.round(np.clip(probs, 0, 1), 2)
    truth = probs**curve / (probs**curve).sum(axis=1, keepdims=True)
    y = (rng.uniform(size=n)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    return np.minimum(y, k - 1), probs


def sample(y, probs, **options):
    return cb.certify(y, probs, kind="marginal", target="sample", **options)


@pytest.mark.parametrize(("norm", "power"), [("l1", 1), ("l2", 2)])
def test_the_bound_is_the_plug_in_error_and_a_radius_by_the_two_largest_weights(norm, power):
    y, probs = rows_of(2000, 4)
    weights = {0: 0.5, 1: 0.2, 2: 0.2, 3: 0.1}
    found = sample(y, probs, norm=norm, class_weight=weights)
    plug_in = cb.calibration_error(
        y, probs, kind="marginal", norm=norm, bins=cb.Distinct(), debias=False, class_weight=weights
    ).value
    radius = math.sqrt(math.log(20) / 4000) * 0.7 ** (1 / power)
    assert found.upper_bound == pytest.approx(plug_in + radius)
    assert found.lower_bound <= plug_in
    assert found.recheck()
    assert any("inputs like these" in each for each in found.assumptions)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_more_classes_lower_the_bound_of_these_inputs(norm):
    found = []
    for k in (3, 10, 50):
        y = np.random.default_rng(k).integers(k, size=5000)
        found.append(sample(y, np.full((5000, k), 1 / k), norm=norm))
    bounds = [each.upper_bound for each in found]
    assert bounds[0] > bounds[1] > bounds[2]
    assert bounds[2] < found[2].trivial_error


def test_a_wrong_model_is_refuted_on_its_inputs():
    y, probs = rows_of(4000, 3, curve=3.0)
    found = sample(y, probs, max_error=0.03)
    assert found.verdict == "refuted"
    assert found.upper_bound > found.lower_bound


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(2))
def test_no_event_rates_make_the_bounds_fail_more_often_than_promised(norm, seed):
    # All labels of four rows with fixed inputs, at a level that leaves room for misses.
    rng, level = np.random.default_rng(seed), 0.5
    outputs = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    which = np.array([0, 0, 1, 1])
    probs, power = outputs[which], {"l1": 1, "l2": 2}[norm]
    labels = list(itertools.product(range(3), repeat=4))
    found = [
        sample(np.array(y), probs, norm=norm, confidence_level=level, classes=[0, 1, 2])
        for y in labels
    ]
    upper = np.array([each.upper_bound for each in found])
    lower = np.array([each.lower_bound for each in found])

    def error(rates):
        total = 0.0
        for k in range(3):
            for s in np.unique(probs[:, k]):
                same = probs[:, k] == s
                total += same.sum() / 4 * abs(rates[same, k].mean() - s) ** power / 3
        return total ** (1 / power)

    worst = 0.0
    for step in range(150):
        sharp = 10 ** rng.uniform(-2, 0.5)
        rates = rng.dirichlet(np.full(3, sharp), size=4)
        if step % 3 == 0:
            rates = np.tile(rates[:1], (4, 1))
        chance = np.array([np.prod(rates[np.arange(4), y]) for y in labels])
        t = error(rates)
        worst = max(worst, chance @ (upper < t - 1e-12), chance @ (lower > t + 1e-12))
    assert worst <= 1 - level
