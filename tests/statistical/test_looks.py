"""Certifying a growing sample until it passes: exact probabilities of a wrong certificate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calibrant as cb

OUTPUT, TOLERANCE, RATE = 0.5, 0.1, 0.6 + 1e-9
"""One output whose error is just above what is tolerated."""


def most_events(n: int, looks: int, target: str) -> int:
    """Return the largest number of events, at or above n / 2, with which n rows are certified."""
    low, high = n // 2 - 1, n
    while high - low > 1:
        events = (low + high) // 2
        y = np.arange(n) < events
        table = cb.tabulate(y, np.full(n, OUTPUT), bins=cb.Distinct())
        certificate = cb.stats.certify(table, looks=looks, target=target)
        low, high = (events, high) if certificate.upper_bound <= TOLERANCE else (low, events)
    return low


def ever_certified(rows: list[int], looks: list[int], target: str) -> float:
    """Return the probability that one of these looks certifies, going on until one does."""
    chance, n, passed = np.ones(1), 0, 0.0  # of each number of events, not certified so far
    for total, k in zip(rows, looks, strict=True):
        step = stats.binom.pmf(np.arange(total - n + 1), total - n, RATE)
        chance, n = np.convolve(chance, step), total
        most = most_events(n, k, target)
        certified = slice(n - most, most + 1)
        passed += chance[certified].sum()
        chance[certified] = 0
    return float(passed)


ROWS = [100, 200, 400, 800, 1600]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sample", "population"])
def test_planned_looks_certify_a_wrong_model_with_at_most_the_error_probability(target):
    assert ever_certified(ROWS, [len(ROWS)] * len(ROWS), target) <= 0.05
    unlimited = [i * (i + 1) for i in range(1, len(ROWS) + 1)]
    assert ever_certified(ROWS, unlimited, target) <= 0.05


@pytest.mark.slow
def test_looking_until_it_passes_is_wrong_more_often_than_one_look():
    once = max(ever_certified([n], [1], "sample") for n in ROWS)
    again = ever_certified(ROWS, [1] * len(ROWS), "sample")
    assert once <= 0.05 < again
