"""Bounds from exact tails at any number of rows, and how little work they take."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant._bins_argument import auto_n_bins
from calibrant.stats import tail_bounds
from calibrant.stats.moments_l2 import BinObjective
from calibrant.stats.questions import Evidence, Setting
from calibrant.stats.tail_bounds import TailTests, sharp_lower_bound, sharp_upper_bound
from calibrant.stats.tail_tuning import Plan, Squared, ends_of
from calibrant.stats.tails import Tail

S = np.array([0.005, 0.1, 0.3, 0.5, 0.7, 0.9, 0.995])


def evidence(n, off, noise=0.0):
    """Return bins of n rows whose event rates are off, and vary by so many standard deviations."""
    size = np.full(S.size, float(n // S.size))
    signs = np.where(np.arange(S.size) % 2, -1.0, 1.0)
    rate = S + signs * (off + noise * np.sqrt(S * (1 - S) / size))
    rate = np.clip(np.where(rate > 1, 2 * S - rate, rate), 0.0, 1.0)
    return Evidence(int(size.sum()), size, np.rint(rate * size) / size, S, np.ones(7), 7, S)


@pytest.mark.parametrize(("n", "off", "least"), [(10**5, 0.05, 0.04), (10**8, 0.004, 0.0037)])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_models_far_off_are_bounded_from_below_however_little_labels_vary(n, off, least, target):
    # bins whose labels hardly vary are 60 standard deviations wide and more
    assert least < sharp_lower_bound(evidence(n, off), Setting(target, 0.05), Squared) < off


def test_no_tails_are_prepared_for_lower_bounds_of_rows_that_look_calibrated(monkeypatch):
    monkeypatch.setattr(Tail, "of", None)
    for target in ("population", "sample"):
        assert sharp_lower_bound(evidence(10**6, 0, 0.8), Setting(target, 0.05), Squared) == 0.0


def test_ranges_are_searched_not_tried_one_by_one(monkeypatch):
    looked = []
    real = TailTests.log_bounds

    def counting(tests, tail, tested):
        looked.append(tested)
        return real(tests, tail, tested)

    monkeypatch.setattr(tail_bounds.TailTests, "log_bounds", counting)
    bound = sharp_upper_bound(evidence(10**6, 0, 0.9), Setting("population", 0.05), Squared)
    assert len(looked) <= 12
    lasts = [tested for tested in looked if tested.lo <= bound <= tested.hi]
    assert lasts  # the bound is that of a range that was looked at


@pytest.mark.parametrize("target", ["population", "sample"])
def test_a_floor_leaves_bounds_above_it_as_they_are(target):
    table, setting = evidence(2_000, 0.02, 0.5), Setting(target, 0.05)
    whole = sharp_upper_bound(table, setting, Squared)
    for floor in (0.3 * whole, 0.999 * whole):
        assert sharp_upper_bound(table, setting, Squared, floor=floor) == whole
    for floor in (1.001 * whole, 20 * whole, 1.0):
        assert sharp_upper_bound(table, setting, Squared, floor=floor) <= floor


@pytest.mark.parametrize("n", [700, 7_000])
def test_errors_far_above_are_rejected_at_first_sight(n, monkeypatch):
    monkeypatch.setattr(BinObjective, "highest", None)
    table, setting = evidence(n, 0, 0.8), Setting("population", 0.0005)
    far = ends_of(Squared.usual(Plan.of(table, setting)))[1]
    assert far < 0.9
    assert Squared.exponential_upper(table, setting, (far, 1.0)) is None


def test_below_a_floor_nothing_is_tested(monkeypatch):
    looked = []
    real = TailTests.log_bounds
    monkeypatch.setattr(
        TailTests, "log_bounds", lambda *given: looked.append(given[2]) or real(*given)
    )
    table, setting = evidence(2_000, 0.02, 0.5), Setting("population", 0.05)
    whole = sharp_upper_bound(table, setting, Squared)
    n_looked = len(looked)
    sharp_upper_bound(table, setting, Squared, floor=1.5 * whole)
    assert len(looked) - n_looked < n_looked
    assert all(tested.hi > 1.5 * whole for tested in looked[n_looked:])


def with_and_without(table, mass):
    """Return the upper bounds where a least mass is declared, and where none is."""
    settings = (Setting("population", 0.05, mass), Setting("population", 0.05))
    return [sharp_upper_bound(table, setting, Squared) for setting in settings]


def spread(n, size, s, rng, declares):
    """Return rows of a calibrated model, with its outputs declared or not."""
    used = size > 0
    rate = rng.binomial(size[used], s[used]) / size[used]
    levels, n_planned = (s, s.size) if declares else (None, auto_n_bins(n))
    return Evidence(n, size[used] * 1.0, rate, s[used], np.ones(used.sum()), n_planned, levels)


@pytest.mark.parametrize("declares", [False, True], ids=["outputs unknown", "outputs declared"])
@pytest.mark.parametrize(
    ("n", "n_bins"), [(60, 3), (100, 5), (300, 2), (300, 10), (1_000, 10), (1_000, 20)]
)
def test_a_declared_mass_does_not_make_a_bound_larger(n, n_bins, declares):
    rng, s = np.random.default_rng([n, n_bins]), (np.arange(n_bins) + 0.5) / n_bins
    for share in (1.0, 0.5, 0.2):
        mass = share / n_bins
        even = spread(n, np.full(n_bins, n // n_bins), s, rng, declares)
        declared, free = with_and_without(even, mass)
        assert declared <= free * 1.001, share
        # counts, and outputs, that nobody planned for: 1.3% was the most that a larger grid found
        masses = mass + (1 - share) * rng.dirichlet(np.ones(n_bins))
        outputs = s if declares else np.sort(rng.uniform(size=n_bins))
        other = spread(n, rng.multinomial(n, masses), outputs, rng, declares)
        declared, free = with_and_without(other, mass)
        assert declared <= free * 1.015, share


@pytest.mark.parametrize(
    ("n", "n_bins", "levels", "gain"),
    [(300, 3, None, 0.1), (1_000, 5, [0.001, 0.003, 0.01, 0.03, 0.1], 0.2)],
)
def test_a_declared_mass_makes_bounds_smaller_where_outputs_are_few_or_labels_vary_little(
    n, n_bins, levels, gain
):
    s = (np.arange(n_bins) + 0.5) / n_bins if levels is None else np.array(levels)
    rng = np.random.default_rng(3)
    table = spread(n, np.full(n_bins, n // n_bins), s, rng, levels is not None)
    declared, free = with_and_without(table, 0.5 / n_bins)
    assert declared < (1 - gain) * free


def test_tests_with_declared_masses_do_not_depend_on_the_counts():
    rng, s, setting = (
        np.random.default_rng(4),
        (np.arange(5) + 0.5) / 5,
        Setting("population", 0.05, 0.1),
    )
    tables = [spread(200, np.array(x), s, rng, False) for x in ([40] * 5, [20, 20, 20, 20, 120])]
    chosen = [
        [(x.lo, x.hi, x.penalty) for x in tests.ranges]
        for tests in (
            TailTests.of(table, setting, Plan.of(table, setting), Squared, "left")
            for table in tables
        )
    ]
    assert chosen[0] == chosen[1]


@pytest.mark.parametrize("mass", [1.0, 0.4, 1e-6])
def test_any_mass_may_be_declared(mass):
    s = np.array([0.3]) if mass == 1 else np.array([0.3, 0.6])
    table = spread(100, np.full(s.size, 100 // s.size), s, np.random.default_rng(5), False)
    declared, free = with_and_without(table, mass)
    assert 0 < declared <= free * 1.001
