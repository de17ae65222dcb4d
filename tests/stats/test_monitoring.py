"""Bets on batches are fair under their hypothesis: their mean is at most 1, whatever the shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from calibrant.stats.monitoring import (
    Batch,
    EProcess,
    Reference,
    Tolerance,
    alternative_weights,
    learned_gaps,
    log_e_values,
    remembered,
    share_begun,
)

RNG = np.random.default_rng(3)


def all_batches(size, s, pi):
    """Yield every batch of labels that can come, with its probability; one bin or two."""
    counts = [np.arange(n + 1) for n in size]
    for events in np.array(np.meshgrid(*counts)).reshape(len(size), -1).T:
        chance = np.prod(stats.binom.pmf(events, size, pi))
        yield chance, Batch(np.array(size, float), events.astype(float), np.array(size) * s)


def mean_e_values(hypothesis, learned, size, s, pi):
    """Return the exact mean of every alternative's e-value."""
    chances, batches = zip(*all_batches(size, s, pi), strict=True)
    values = np.exp([log_e_values(batch, hypothesis, learned) for batch in batches])
    return np.array(chances) @ values


def past_of(s, sizes=(700.0, 300.0)):
    sizes = np.array(sizes[: len(s)])
    return Batch(sizes, sizes * s, sizes * s)


@pytest.mark.parametrize("s", [(0.3, 0.7), (0.01, 0.2), (0.0, 0.5), (1.0, 0.9)])
@pytest.mark.parametrize("learned", [(0.0, 0.0), (0.1, -0.05), (-0.3, 0.4)])
def test_under_perfect_calibration_every_bet_is_exactly_fair(s, learned):
    s = np.array(s)
    means = mean_e_values(Tolerance(0.0, past_of(s)), np.array(learned), (9, 6), s, s)
    assert means.max() <= 1 + 1e-9
    if s.min() > 0 and s.max() < 1:
        assert means == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("max_error", [0.01, 0.05, 0.2])
@pytest.mark.parametrize("has_past", [False, True])
def test_within_the_tolerance_no_bet_gains_in_the_mean(max_error, has_past):
    """The masses are random too: rows fall into the bins with probability 1/2 each."""
    s, n = np.array([0.3, 0.6]), 6
    past = past_of(s) if has_past else Batch.none(2)
    hypothesis, learned = Tolerance(max_error, past), np.array([0.2, -0.3]) * has_past
    for angle in np.linspace(0, 2 * math.pi, 7):
        gap = math.sqrt(2) * max_error * np.array([math.cos(angle), math.sin(angle)])
        pi = s + gap  # of mean square max_error ** 2
        total = 0.0
        for first in range(n + 1):
            size = (first, n - first)
            total += stats.binom.pmf(first, n, 0.5) * mean_e_values(
                hypothesis, learned, size, s, pi
            )
        assert np.max(total) <= 1 + 1e-9


def test_beyond_the_tolerance_bets_grow():
    s = np.array([0.3, 0.6])
    size = np.array([5000.0, 5000.0])
    batch = Batch(size, size * (s + 0.06), size * s)
    logs = log_e_values(batch, Tolerance(0.03, past_of(s)), np.zeros(2))
    assert logs.max() > 3
    within = Batch(size, size * (s + 0.02), size * s)
    assert log_e_values(within, Tolerance(0.03, past_of(s)), np.zeros(2))[:-1].max() < 0


def test_no_bet_against_a_reference_gains_inside_its_confidence_set():
    size0, x = np.array([400.0, 100.0]), np.array([0.3, 0.62])
    reference = Reference(Batch(size0, size0 * x, size0 * 0.5), 0.05)
    for sign in [(1, 1), (1, -1), (-1, 1), (0, 1)]:

        def distance(t, sign=sign):
            rate = x + t * np.array(sign)
            return size0 @ (special.rel_entr(x, rate) + special.rel_entr(1 - x, 1 - rate))

        low, high = 0.0, 0.25
        for _ in range(50):  # the farthest rates in this direction
            middle = (low + high) / 2
            low, high = (middle, high) if distance(middle) <= reference.radius else (low, middle)
        for t in (0, low / 2, low):
            pi = x + t * np.array(sign)
            means = mean_e_values(
                reference, np.array([0.2, -0.2]), (7, 5), np.array([0.5, 0.5]), pi
            )
            assert means.max() <= 1 + 1e-9


def test_the_noise_of_a_reference_is_within_its_radius():
    sizes = np.array([30, 300, 5, 1000])
    rates = np.array([0.02, 0.5, 0.9, 0.2])
    radius = Reference(Batch(sizes.astype(float), sizes * rates, sizes * rates), 0.05).radius
    x = RNG.binomial(sizes, rates, size=(20_000, 4)) / sizes
    spread = (special.rel_entr(x, rates) + special.rel_entr(1 - x, 1 - rates)) @ sizes
    assert np.mean(spread > radius) <= 0.01


def test_bins_that_the_reference_does_not_know_are_not_bet_on():
    reference = Reference(
        Batch(np.array([1000.0, 0.0]), np.array([500.0, 0.0]), np.array([500.0, 0.0])), 0.05
    )
    batch = Batch(np.array([0.0, 1000.0]), np.array([0.0, 1000.0]), np.array([0.0, 500.0]))
    assert log_e_values(batch, reference, np.zeros(2)).max() <= 0


def test_weights_of_alternatives_and_of_starts_add_up_to_one():
    assert [alternative_weights(n).sum() for n in (1, 7, 100)] == pytest.approx([1, 1, 1])
    assert share_begun(10**12) == pytest.approx(1, abs=1e-5)
    steps = np.diff([share_begun(k) for k in range(50)])
    assert (steps > 0).all()


def test_the_process_is_the_average_over_starts_and_alternatives():
    logs = RNG.normal(size=(6, alternative_weights(2).size))
    process = EProcess.new(2)
    for row in logs:
        process = process.after(row)
    weights = alternative_weights(2)
    begun = np.diff([share_begun(k) for k in range(7)])
    byhand = 1 - share_begun(6)
    for k in range(6):
        byhand += begun[k] * float(weights @ np.exp(logs[k:].sum(axis=0)))
    assert process.log_total(weights) == pytest.approx(math.log(byhand), rel=1e-12)
    sums = np.array([logs[k:].sum(axis=0) for k in range(6)])
    assert np.array_equal(process.start, sums.argmax(axis=0))


def test_what_was_learned_fades_and_shrinks():
    batch = Batch(np.array([100.0]), np.array([60.0]), np.array([50.0]))
    recent = remembered(Batch.none(1), batch, np.array([0.5]))
    assert learned_gaps(recent) == pytest.approx([10 / 150])
    empty = Batch.none(1)
    for _ in range(100):
        recent = remembered(recent, empty, np.array([0.5]))
    assert abs(learned_gaps(recent)[0]) < 1e-5
