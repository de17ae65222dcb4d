"""Bounds of the l1 error: stated values, coverage, rigour of the maxima, extreme tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats import bounds_l1
from calibrant.stats.bounds_l1 import (
    TOLERANCE,
    HalfObjective,
    log_moment,
    one_line_upper_bound_l1,
    upper_bound_l1,
)
from calibrant.stats.questions import Evidence, Setting

TEN = (np.arange(10) + 0.5) / 10
POPULATION, SAMPLE = Setting("population", 0.05), Setting("sample", 0.05)
CLOSE = (7, 12, 28, 31, 49, 51, 68, 71, 83, 97)
FARTHER = (10, 20, 30, 40, 45, 55, 60, 70, 80, 90)


def evidence(events, size=100, s=TEN, weight=None, n=None) -> Evidence:
    """Return the evidence of one class, or of several with weights; empty bins are left out."""
    s = np.asarray(s, float)
    size = np.broadcast_to(np.asarray(size, float), s.shape)
    weight = np.ones(s.size) if weight is None else np.asarray(weight, float)
    rows = int(size.sum()) if n is None else n
    seen = size > 0
    columns = (size[seen], np.asarray(events)[seen] / size[seen], s[seen], weight[seen])
    return Evidence(rows, *columns, s.size)


def plug_in(table: Evidence) -> float:
    return float(np.sum(table.weight * table.mass * np.abs(table.rate - table.s)))


# Values


@pytest.mark.parametrize(("events", "stated"), [(CLOSE, 0.069702), (FARTHER, 0.078702)])
def test_the_one_line_bound_has_the_values_of_the_specification(events, stated):
    table = evidence(events)
    assert one_line_upper_bound_l1(table, SAMPLE) == pytest.approx(stated, abs=5e-7)
    twice = one_line_upper_bound_l1(table, POPULATION) - plug_in(table)
    assert twice == pytest.approx(math.sqrt(2 * math.log(20) / 1000))
    assert twice == pytest.approx(2 * (stated - plug_in(table)), abs=1e-6)


def test_the_one_line_bound_of_several_classes_has_the_constant_of_one():
    events = np.concatenate([FARTHER, 100 - np.array(FARTHER)])
    s = np.concatenate([TEN, 1 - TEN])
    both = evidence(events, s=s, weight=np.full(20, 0.5), n=1000)
    one = evidence(FARTHER)
    for setting in (SAMPLE, POPULATION):
        expected = one_line_upper_bound_l1(one, setting)
        assert one_line_upper_bound_l1(both, setting) == pytest.approx(expected)


def test_the_one_line_bound_is_at_most_one():
    assert one_line_upper_bound_l1(evidence([1], 1, [0.0]), POPULATION) == 1.0


def test_the_one_line_bound_is_the_plug_in_error_and_a_radius():
    rng = np.random.default_rng(41)
    levels = rng.integers(1, 10, size=4000) / 10
    labels, scores = rng.uniform(size=4000) < levels, rng.uniform(size=4000)
    table = cb.tabulate(labels, levels, bins=cb.Distinct())
    plug_in = cb.stats.calibration_error(table, norm="l1", debias=False).value
    radius = np.sqrt(np.log(20) / (2 * 4000))
    assert cb.stats.one_line_ece_bound(table, target="sample") == pytest.approx(plug_in + radius)
    assert cb.stats.one_line_ece_bound(table) == pytest.approx(plug_in + 2 * radius)
    assert cb.certify(labels, levels, norm="l1").upper_bound < cb.stats.one_line_ece_bound(table)
    with pytest.raises(ex.NoSuchEstimatorError, match="no upper bound exists"):
        cb.stats.one_line_ece_bound(cb.tabulate(labels, scores, bins=5))


def best_of_all_pairs(table: Evidence, delta: float) -> float:
    """Return the smallest bound that any pair (g, r) on a grid gives, which no test may choose."""
    found = []
    for r in np.geomspace(0.05, 0.5, 12):
        for share in 1 - np.geomspace(0.003, 0.8, 10):
            g = np.full(table.s.size, r / share)
            peaks = HalfObjective.of(table.size, table.s, g, r).highest(TOLERANCE).sum()
            cost = (g * table.size * np.abs(table.rate - table.s)).sum() + peaks - math.log(delta)
            found.append(-math.expm1(-max(cost, 0.0) / table.n) / r)
    return min(found)


@pytest.mark.parametrize("events", [CLOSE, FARTHER, (25, 30, 38, 42, 47, 53, 58, 62, 70, 75)])
def test_the_bound_is_about_the_best_that_any_choice_of_its_numbers_gives(events):
    table = evidence(events)
    best = best_of_all_pairs(table, 0.05)
    assert 0.98 * best < upper_bound_l1(table, POPULATION) < 1.02 * best


@pytest.mark.parametrize("delta", [0.3, 0.05, 0.001])
def test_the_exact_bound_beats_the_one_line_bound(delta):
    for events in (CLOSE, FARTHER):
        table, setting = evidence(events), Setting("sample", delta)
        assert upper_bound_l1(table, setting) < 0.9 * one_line_upper_bound_l1(table, setting)


# Coverage and tightness


def models(n_bins: int):
    """Return outputs and rates: calibrated, mild, strong, sparse (one bin off by 0.5), rare."""
    s = (np.arange(n_bins) + 0.5) / n_bins
    sparse = s.copy()
    sparse[n_bins // 2] -= 0.5
    return {
        "calibrated": (s, s),
        "mild": (s, special.expit(0.8 * special.logit(s))),
        "strong": (s, special.expit(0.45 * special.logit(s))),
        "sparse": (s, np.clip(sparse, 0.0, 1.0)),
        "rare": (0.05 * s, 0.075 * s + 0.005),
    }


def simulate(n, n_bins, model, runs=50, seed=0):
    """Return bounds, the population's error and the samples' errors."""
    rng = np.random.default_rng(seed)
    s, pi = models(n_bins)[model]
    sizes = rng.multinomial(n, np.full(n_bins, 1 / n_bins), size=runs)
    events = rng.binomial(sizes, pi)
    tables = [evidence(k, size, s) for k, size in zip(events, sizes, strict=True)]
    bounds = np.array([upper_bound_l1(table, POPULATION) for table in tables])
    return bounds, np.abs(pi - s).mean(), sizes @ np.abs(pi - s) / n


@pytest.mark.slow
@pytest.mark.parametrize("model", ["calibrated", "mild", "strong", "sparse", "rare"])
@pytest.mark.parametrize(("n", "n_bins"), [(300, 10), (1000, 10), (300, 100)])
def test_both_errors_are_covered_with_at_least_the_nominal_probability(n, n_bins, model):
    bounds, population, samples = simulate(n, n_bins, model)
    # three standard deviations of a coverage of 0.95 in 50 runs
    assert np.mean(bounds >= population) >= 0.95 - 0.093
    assert np.mean(bounds >= samples) >= 0.95 - 0.093


@pytest.mark.slow
def test_a_single_bin_at_the_edge_of_rejection_is_covered():
    """One bin with little noise beside its error: here the Chernoff bound is at its tightest."""
    rng = np.random.default_rng(1)
    for s, pi, size in ((0.1, 0.2, 300), (0.5, 0.55, 300), (0.0, 0.02, 200), (0.02, 0.0, 200)):
        counts, times = np.unique(rng.binomial(size, pi, 2000), return_counts=True)
        bounds = [upper_bound_l1(evidence([k], size, [s]), SAMPLE) for k in counts]
        missed = times[np.array(bounds) < abs(pi - s)].sum() / times.sum()
        assert missed <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize(
    ("n", "n_bins", "model", "expected"),
    [
        (1000, 10, "calibrated", 0.0551),
        (10_000, 10, "calibrated", 0.0172),
        (10_000, 100, "calibrated", 0.0277),
        (1000, 10, "strong", 0.153),
        (10_000, 10, "strong", 0.1245),
        (10_000, 100, "strong", 0.1249),
    ],
)
def test_the_bound_of_the_mean_plug_in_error_is_as_tight_as_stated(n, n_bins, model, expected):
    s, pi = models(n_bins)[model]
    size = n // n_bins
    k = np.arange(size + 1)
    mass = stats.binom.pmf(k, size, pi[:, None])
    distance = (mass * np.abs(k / size - s[:, None])).sum(axis=1)
    table = evidence(size * (s + distance), size, s)
    assert upper_bound_l1(table, POPULATION) == pytest.approx(expected, rel=0.01)


# Order


@pytest.mark.parametrize("setting", [POPULATION, SAMPLE])
def test_more_rows_with_the_same_rates_lower_the_bound(setting):
    events = np.array([2, 1, 4, 5, 6, 4, 5, 6, 6, 7])
    bounds = [upper_bound_l1(evidence(events * k, 10 * k), setting) for k in (1, 10, 100, 10_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] > plug_in(evidence(events, 10))


def test_more_confidence_raises_the_bound():
    table = evidence(FARTHER)
    bounds = [upper_bound_l1(table, Setting("sample", d)) for d in (0.5, 0.2, 0.05, 0.01, 1e-6)]
    assert bounds == sorted(bounds)
    assert bounds[0] > plug_in(table)


def test_the_bound_is_the_same_for_both_targets_and_any_masses():
    known = Setting("population", 0.05, 1 / 20)
    bounds = {upper_bound_l1(evidence(FARTHER), each) for each in (POPULATION, SAMPLE, known)}
    assert len(bounds) == 1


def test_the_bound_does_not_change_when_events_are_called_non_events():
    rng = np.random.default_rng(3)
    s, size = np.array([0.0, 0.01, 0.2, 0.5, 0.6, 1.0]), np.array([1, 40, 90, 3, 200, 7])
    events = rng.binomial(size, 0.5 * s + 0.2)
    mirrored = evidence((size - events)[::-1], size[::-1], 1 - s[::-1])
    expected = upper_bound_l1(evidence(events, size, s), SAMPLE)
    assert upper_bound_l1(mirrored, SAMPLE) == pytest.approx(expected, rel=1e-3)


# Extreme tables


def test_a_billion_rows_are_bounded_to_a_fraction_of_a_thousandth():
    size = 10**8
    rng = np.random.default_rng(0)
    table = evidence(rng.binomial(size, TEN), size)
    assert plug_in(table) < upper_bound_l1(table, POPULATION) < 1e-4
    wrong = evidence(rng.binomial(size, TEN + 0.01), size)
    assert 0.01 < upper_bound_l1(wrong, POPULATION) < 0.0101


@pytest.mark.parametrize("s", [0.0, 1.0])
def test_outputs_of_zero_and_one_are_bounded(s):
    assert 3 / 200 < upper_bound_l1(evidence([200 * s], 200, [s]), SAMPLE) < 0.03
    assert upper_bound_l1(evidence([200 * (1 - s)], 200, [s]), SAMPLE) == 1.0


def test_a_single_row_proves_little():
    assert upper_bound_l1(evidence([1], 1, [0.5]), SAMPLE) >= 0.5
    assert upper_bound_l1(evidence([0], 1, [0.0]), SAMPLE) == 1.0


def test_bins_of_one_row_say_little_but_nothing_false():
    table = evidence(np.arange(30) % 2, 1, np.linspace(0.05, 0.95, 30))
    assert 0.3 < upper_bound_l1(table, POPULATION) <= 1


def test_one_heavy_bin_beside_many_light_ones():
    size = np.array([10**6] + [3] * 20)
    s = np.append(0.3, np.linspace(0.05, 0.95, 20))
    table = evidence(np.rint(size * s), size, s)
    assert 0 < upper_bound_l1(table, POPULATION) < 0.003


def test_labels_that_agree_too_well_leave_next_to_nothing():
    s = np.tile([0.25, 0.5, 0.75], 30)
    assert upper_bound_l1(evidence(100 * s, 100, s), SAMPLE) < 0.003
    assert upper_bound_l1(evidence([50, 20], 100, [0.5, 0.2]), SAMPLE) > 0.02


# Several classes


def test_two_mirrored_classes_have_the_bound_of_one():
    s, events = np.concatenate([TEN, 1 - TEN]), np.array(FARTHER)
    both = evidence(np.append(events, 100 - events), s=s, weight=np.full(20, 0.5), n=1000)
    expected = upper_bound_l1(evidence(events), POPULATION)
    assert upper_bound_l1(both, POPULATION) == pytest.approx(expected, rel=1e-3)


def test_a_class_of_little_weight_matters_little():
    events, s = np.concatenate([CLOSE, CLOSE[::-1]]), np.concatenate([TEN, TEN])
    bounds = []
    for weight in (0.0, 0.001, 0.1, 0.5):
        weights = np.repeat([1 - weight, weight], 10)
        table = evidence(events, s=s, weight=weights, n=1000)
        bounds.append(upper_bound_l1(table, POPULATION))
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(upper_bound_l1(evidence(CLOSE), POPULATION), rel=1e-3)


def test_the_numbers_of_a_class_do_not_depend_on_the_counts_of_another():
    s, weight = np.concatenate([TEN, TEN]), np.full(20, 0.5)
    first = np.full(10, 100.0)
    g = []
    for second in (first, np.array([910.0] + [10.0] * 9)):
        table = evidence(np.zeros(20), np.append(first, second), s, weight, n=1000)
        g.append(bounds_l1.choose_g(table, 0.1, 5.0))
    np.testing.assert_array_equal(g[0][:10], g[1][:10])
    assert np.all(g[0][10:] != g[1][10:])


# Moments and their maxima


def brute_force(pi, size, s, g):
    """Return log E exp(-g |K - N s|) as the plain sum; pi may be an array."""
    k, pi = np.arange(size + 1), np.atleast_1d(pi)[:, None]
    choose = special.gammaln(size + 1) - special.gammaln(k + 1) - special.gammaln(size - k + 1)
    log_mass = choose + special.xlogy(k, pi) + special.xlog1py(size - k, -pi)
    return special.logsumexp(log_mass - g * np.abs(k - size * s), axis=1)


def outputs(rng, runs):
    ends = rng.choice([0.0, 1.0, 0.5, 1e-9, 1 / 3], runs)
    skewed = rng.uniform(size=runs) ** rng.choice([1, 6], runs)
    return np.where(rng.uniform(size=runs) < 0.3, ends, skewed)


@pytest.mark.parametrize("size", [1, 2, 3, 10, 100, 1000, 20_000])
def test_log_moment_is_the_sum_and_never_below_it(size):
    rng = np.random.default_rng(size)
    runs = 150
    s = outputs(rng, runs)
    deviation = np.sqrt(np.maximum(s * (1 - s), 1 / size) / size)
    g = np.minimum(10 ** rng.uniform(-2, 1.3, runs) / (size * deviation), 20)
    near = np.clip(s + 3 * rng.normal(size=runs) * deviation, 0, 1)
    pi = np.where(rng.uniform(size=runs) < 0.7, near, outputs(rng, runs))
    found = log_moment(pi, np.full(runs, float(size)), s, g)
    exact = [brute_force(p, size, *rest)[0] for p, *rest in zip(pi, s, g, strict=True)]
    assert np.min(found - exact) > 0
    assert np.max(found - exact) < 1e-4


def test_log_moment_of_a_huge_bin_is_that_of_a_normal_variable():
    size, s = np.full(4, 1e10), np.array([0.5, 0.5, 0.3, 0.3])
    y, deviation = np.array([0.0, 1.0, 0.0, 1.0]), np.sqrt(s * (1 - s) / size)
    normal = np.logaddexp(special.log_ndtr(y - 1) - y, special.log_ndtr(-y - 1) + y) + 0.5
    found = log_moment(s + y * deviation, size, s, 1 / (size * deviation))
    np.testing.assert_allclose(found, normal, atol=1e-4)


def true_maximum(size, s, g, r):
    """Search a grid of pi that is fine near s, 0 and 1, then finer ones around its best point."""
    small = np.geomspace(1e-9, 1, 80) / size
    near = s + np.sqrt(max(s * (1 - s), 1 / size) / size) * np.linspace(-12, 12, 301)
    pi = np.concatenate([np.linspace(0, 1, 301), near, small, 1 - small])
    pi, best = np.unique(np.clip(pi, 0, 1)), -np.inf
    for _ in range(4):
        value = brute_force(pi, size, s, g) - size * np.log1p(-r * np.abs(pi - s))
        i = int(value.argmax())
        best = max(best, float(value[i]))
        pi = np.linspace(pi[max(i - 1, 0)], pi[min(i + 1, pi.size - 1)], 201)
    return best


@pytest.mark.slow
def test_the_highest_point_is_never_below_the_maximum_and_above_by_at_most_the_tolerance():
    rng = np.random.default_rng(5)
    runs = 150
    size, s = rng.choice([1, 2, 3, 7, 30, 100, 400], runs), outputs(rng, runs)
    excess = []
    for each_size, each_s in zip(size, s, strict=True):
        r = float(min(10 ** rng.uniform(-2.5, 0), 0.9))
        g = -math.log1p(-r) / rng.uniform(0.1, 1)
        halves = HalfObjective.of(
            np.array([float(each_size)]), np.array([each_s]), np.array([g]), r
        )
        highest = [halves.highest(tolerance)[0] for tolerance in (TOLERANCE, 0.05, math.inf)]
        excess.append(np.array(highest) - true_maximum(each_size, each_s, g, r))
    assert np.min(excess) > -1e-9
    assert np.max(excess, axis=0)[0] < TOLERANCE + 1e-4
    assert np.max(excess, axis=0)[1] < 0.05 + 1e-4


def test_the_number_of_points_does_not_grow_with_the_rows(monkeypatch):
    points = []

    def counting(pi, *rest):
        points[-1] += pi.size
        return log_moment(pi, *rest)

    monkeypatch.setattr(bounds_l1, "log_moment", counting)
    for size in (10**2, 10**4, 10**6, 10**8, 10**10):
        points.append(0)
        table = evidence(np.rint(size * TEN + 0.8 * np.sqrt(size * TEN * (1 - TEN))), size)
        hi = 2 / math.sqrt(table.n)
        bounds_l1.largest_accepted(table, 0.05, hi / 1.1, hi, None)
    assert max(points) <= 2 * min(points)


def test_a_range_that_is_rejected_at_once_needs_no_moment(monkeypatch):
    monkeypatch.setattr(bounds_l1, "log_moment", None)
    assert bounds_l1.largest_accepted(evidence(CLOSE), 0.05, 0.9, 1.0, None) < 0.9
