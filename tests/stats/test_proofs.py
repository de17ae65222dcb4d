"""Which bounds a table gets: by its norm, its classes, and what is known of its outputs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import calibrant as cb
from calibrant import BinTable, certify, samples_to_certify
from calibrant import exceptions as ex
from calibrant.stats.proofs import bound_by_sample, prefers_sample
from calibrant.stats.questions import Evidence

RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


def test_a_continuous_model_can_be_refuted_but_never_certified():
    refuted = cb.certify(RNG.uniform(size=4000) < SCORES**2, SCORES, max_error=0.05)
    assert refuted.verdict == "refuted"
    assert refuted.upper_bound == 1.0
    calibrated = cb.certify(RNG.uniform(size=4000) < SCORES, SCORES, max_error=0.9)
    assert calibrated.verdict == "undecided"
    assert "can be refuted, never certified" in calibrated.reason
    assert any("Proposition 3.2" in each for each in calibrated.assumptions)


@pytest.mark.parametrize("bins", [cb.EqualWidth(5), cb.EqualMass(5)])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_bins_that_mix_predictions_never_certify(bins, norm):
    certificate = cb.certify(SCORES > 2, SCORES, max_error=0.99, bins=bins, norm=norm)
    assert certificate.verdict != "certified"


@pytest.mark.parametrize("bins", [5, cb.EqualWidth(5)])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_a_continuous_model_is_judged_on_the_target_that_was_asked_for(bins, target):
    assert cb.certify(GOOD, SCORES, bins=bins, target=target).target == target


def test_norms_are_ordered():
    bounds = [cb.certify(BAD, LEVELS, norm=norm).upper_bound for norm in ("l1", "l2", "max")]
    assert bounds == sorted(bounds)


def test_knowing_outputs_and_masses_sharpens_the_bound_of_confident_models():
    rng, outputs = np.random.default_rng(5), np.array([0.002, 0.004, 0.01, 0.99, 0.998])
    p = rng.choice(outputs, p=[0.3, 0.1, 0.05, 0.1, 0.45], size=50_000)
    y = rng.uniform(size=p.size) < p
    free = cb.certify(y, p).upper_bound
    declared = cb.certify(y, p, levels=outputs).upper_bound
    known = cb.certify(y, p, levels=outputs, min_bin_mass=0.05).upper_bound
    sample = cb.certify(y, p, target="sample").upper_bound
    assert max(sample, known, declared) < 0.5 * free
    assert free < 0.0095  # no bound without masses can lie below sqrt(3 / n) = 0.0077 for sure


def test_three_classes_are_bounded_one_by_one():
    rng = np.random.default_rng(6)
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])[
        rng.integers(3, size=5000)
    ]
    y = (rng.uniform(size=(5000, 1)) > np.cumsum(probs, axis=1)).sum(axis=1)
    found = cb.certify(y, probs, kind="marginal")
    assert "class by class" in found.method
    alone = [
        cb.certify(y == k, probs[:, k], confidence_level=1 - 0.05 / 3).upper_bound for k in range(3)
    ]
    assert found.upper_bound == pytest.approx(np.sqrt(np.mean(np.square(alone))))


def test_learned_masses_assume_that_all_outputs_are_in_the_table():
    learned = cb.certify(GOOD, LEVELS, min_bin_mass="learned")
    assert any("no outputs besides" in each for each in learned.assumptions)
    empty = cb.certify(GOOD, LEVELS, min_bin_mass="learned", bins=cb.EqualWidth(100))
    free = cb.certify(GOOD, LEVELS, bins=cb.EqualWidth(100))
    assert free.upper_bound < empty.upper_bound < 1.4 * free.upper_bound, "an empty bin: no gain"


def test_top_label_and_marginal_are_certified():
    probs = np.round(RNG.dirichlet(np.ones(3), size=4000), 1)
    y = (probs.cumsum(axis=1) / probs.sum(axis=1)[:, None] < RNG.uniform(size=(4000, 1))).sum(
        axis=1
    )
    for kind in ("top-label", "marginal"):
        assert cb.certify(y, probs, kind=kind, max_error=0.1).verdict == "certified"
        assert cb.certify((y + 1) % 3, probs, kind=kind, max_error=0.1).verdict == "refuted"
    one = cb.certify(y, probs, kind="marginal", class_weight={0: 1})
    alone = cb.certify(y == 0, probs[:, 0])
    assert one.upper_bound == pytest.approx(alone.upper_bound, abs=1e-4)


def test_tables_of_parts_are_certified_together():
    bins = cb.EqualWidth(10)
    parts = [cb.tabulate(GOOD[i::4], LEVELS[i::4], bins=bins) for i in range(4)]
    whole = cb.certify(GOOD, LEVELS, bins=bins, max_error=0.08)
    assert cb.stats.certify(sum(parts), max_error=0.08).upper_bound == pytest.approx(
        whole.upper_bound
    )


@pytest.mark.parametrize("max_error", [0.05, None])
@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
def test_labels_that_agree_too_well_do_not_pass(norm, max_error):
    levels = np.arange(1, 10) / 10
    p = np.repeat(levels, 100)
    y = np.concatenate([np.arange(100) < round(100 * level) for level in levels])
    certificate = cb.certify(y, p, max_error=max_error, norm=norm)
    assert certificate.agrees_too_well
    assert certificate.verdict == (None if max_error is None else "undecided")
    assert "were not used before" in certificate.reason
    assert cb.Certificate.from_json(certificate.to_json()).recheck()


def test_rare_events_of_which_none_happened_do_not_agree_too_well():
    """No bin expected a whole event; that none happened is no agreement but a lower rate."""
    p = np.repeat(np.arange(1, 51) / 10_000, 100)
    certificate = cb.certify(np.zeros(p.size), p, norm="max", target="sample")
    assert not certificate.agrees_too_well


def test_the_largest_error_of_the_sample_is_for_one_class_at_a_time():
    probs = np.column_stack([1 - LEVELS, LEVELS])
    with pytest.raises(ex.NoSuchEstimatorError, match="one class at a time"):
        cb.certify(GOOD.astype(int), probs, kind="marginal", target="sample", norm="max")


RARE = np.geomspace(1e-4, 1e-2, 10)


def evidence(n: int, size: np.ndarray, events: np.ndarray, s: np.ndarray) -> Evidence:
    seen = size > 0
    size, events, own = size[seen], events[seen], s[seen]
    return Evidence(n, size, events / size, own, np.ones(own.size), s.size, s)


@pytest.mark.parametrize("s", [(0.01, 0.02), (0.05, 0.9)])
@pytest.mark.parametrize("delta", [0.05, 0.3])
def test_it_fails_no_more_often_than_it_may_at_any_rates_and_masses(s, delta):
    """All tables of nine rows, each with its probability under many models."""
    n, s = 9, np.array(s)
    bounds = {}
    for first in range(n + 1):
        size = np.array([first, n - first], float)
        for events in itertools.product(range(first + 1), range(n - first + 1)):
            found = evidence(n, size, np.array(events, float), s)
            bounds[first, *events] = bound_by_sample(found, 2, delta)
    worst = 0.0
    for mass, a, b in itertools.product(
        np.linspace(0.02, 0.98, 25), np.linspace(0, 1, 21), np.linspace(0, 1, 21)
    ):
        t = math.sqrt(mass * (a - s[0]) ** 2 + (1 - mass) * (b - s[1]) ** 2)
        missed = 0.0
        of_first = stats.binom.pmf(np.arange(n + 1), n, mass)
        failed = [key for key, bound in bounds.items() if bound < t]
        for first, k, m in failed:
            missed += (
                of_first[first]
                * math.comb(first, k) * a**k * (1 - a) ** (first - k)
                * math.comb(n - first, m) * b**m * (1 - b) ** (n - first - m)
            )  # fmt: skip
        worst = max(worst, missed)
    assert worst <= delta


def test_an_output_that_nobody_has_seen_may_be_off_by_1():
    found = evidence(300, np.array([300.0, 0.0]), np.array([3.0, 0.0]), np.array([0.01, 0.02]))
    assert bound_by_sample(found, 2, 0.05) == 1.0


def draws(levels, masses, n, runs, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(runs):
        p = levels[rng.choice(levels.size, n, p=masses)]
        yield rng.random(n) < p, p


@pytest.mark.parametrize("levels", [RARE, np.linspace(1e-4, 1e-2, 10)], ids=["powers", "even"])
def test_rare_levels_that_are_known_have_half_the_bound(levels):
    masses = np.full(10, 0.1)
    known = np.mean(
        [certify(y, p, levels=levels).upper_bound for y, p in draws(levels, masses, 1000, 30)]
    )
    unknown = np.mean([certify(y, p).upper_bound for y, p in draws(levels, masses, 1000, 8)])
    assert known < 0.026
    assert known < 0.6 * unknown


def test_uneven_masses_do_not_make_known_levels_worse_than_unknown_ones():
    masses = np.array([0.3, 0.2, 0.1, 0.1, 0.08, 0.07, 0.06, 0.04, 0.03, 0.02])
    pairs = [
        (certify(y, p, levels=RARE).upper_bound, certify(y, p).upper_bound)
        for y, p in draws(RARE, masses, 1000, 15)
    ]
    known, unknown = np.mean(pairs, axis=0)
    assert known < 0.9 * unknown


@pytest.mark.parametrize(
    ("n", "levels", "wanted"),
    [
        (1_000, RARE, True),
        (300, RARE, True),
        (5_000, np.geomspace(1e-3, 0.1, 50), False),
        (5_000, np.array([0.002, 0.02, 0.5, 0.98, 0.998]), False),
        (5, RARE, False),
    ],
)
def test_which_bound_is_taken_is_known_before_the_rows(n, levels, wanted):
    assert prefers_sample(n, tuple(levels), 0.05) is wanted


def test_a_plan_for_rare_levels_is_kept():
    n = samples_to_certify(0.02, levels=RARE)
    masses = np.full(10, 0.1)
    won = [certify(y, p, levels=RARE).upper_bound <= 0.02 for y, p in draws(RARE, masses, n, 40)]
    assert stats.binomtest(sum(won), len(won), 0.9).pvalue > 0.001 or np.mean(won) > 0.9


@pytest.mark.slow
def test_it_holds_where_one_output_is_off():
    """A rare output is worst: its mass is known least."""
    masses = np.array([0.3, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.03, 0.02])
    rng, n, missed = np.random.default_rng(3), 1000, 0
    for _ in range(150):
        rates = RARE.copy()
        rates[9] = 0.2
        j = rng.choice(10, n, p=masses)
        y = rng.random(n) < rates[j]
        t = math.sqrt(masses[9] * (0.2 - RARE[9]) ** 2)
        missed += certify(y, RARE[j], levels=RARE).upper_bound < t
    assert missed <= stats.binom.ppf(0.999, 150, 0.05)


@pytest.mark.parametrize("learns", [None, "learned"])
@pytest.mark.parametrize("n", [100, 300])
def test_a_level_without_rows_may_be_off_by_all_it_can(learns, n):
    # one output is calibrated; the other has 2 rows in n, all of them events, and is seldom seen
    levels, mass = [0.001, 0.5], 2 / n
    error = math.sqrt(mass) * (1 - levels[0])
    missed = 0.0
    for k in range(n // 2, n):
        table = BinTable.from_counts([0.5], [n], [k])
        certificate = certify(table, levels=levels, min_bin_mass=learns)
        if certificate.upper_bound >= error:
            break
        missed += stats.binom.pmf(k, n, 0.5) * (1 if 2 * k == n else 2)
    assert (1 - mass) ** n * missed <= 0.05


@pytest.mark.parametrize("levels", [[0.5], [0.4, 0.6], [0.001, 0.05], np.linspace(0.05, 0.95, 10)])
@pytest.mark.parametrize("n", [300, 3_000])
def test_an_absolute_error_is_no_larger_than_a_squared_one_where_outputs_are_known(levels, n):
    levels = np.asarray(levels)
    count = np.full(levels.size, n // levels.size)
    spread = np.sqrt(count * levels * (1 - levels)) * np.where(np.arange(levels.size) % 2, 1, -1)
    table = BinTable.from_counts(levels, count, np.rint(count * levels + spread))
    squared = certify(table, target="sample").upper_bound
    unknown = certify(table, norm="l1").upper_bound
    for known in ({"target": "sample"}, {"levels": levels}):
        bound = certify(table, norm="l1", **known).upper_bound
        assert bound <= min(1.2 * squared, 1.05 * unknown)
