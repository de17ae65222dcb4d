"""Maxima of many functions at once are never too small, and not much too large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from calibrant.stats.branch_and_bound import Intervals, highest


@dataclass(frozen=True, eq=False)
class Waves:
    """Functions sin(speed x) - x on [0, 10], whose slopes are at most speed + 1."""

    speed: np.ndarray

    def take(self, index):
        return Waves(self.speed[index])

    def known(self, points):
        return np.sin(self.speed * points) - points


class Steps(Intervals[Waves]):
    calls = 0

    def bounds(self):
        Steps.calls += 1
        return self.values() + (self.owners.speed + 1) * (self.right - self.left) / 2

    def split(self):
        share = np.arange(5) / 4
        points = self.left[:, None] + (self.right - self.left)[:, None] * share
        return self.between(self.objective, self.index, points)


SPEED = np.array([0.5, 3.0, 20.0, 7.0])


def cover(speed=SPEED):
    waves = Waves(speed)
    points = np.tile(np.linspace(0, 10, 6), (speed.size, 1))
    return waves.known(np.zeros(speed.size)), Steps.between(waves, np.arange(speed.size), points)


def true_maxima(speed=SPEED):
    x = np.linspace(0, 10, 1_000_001)
    return np.array([np.max(np.sin(v * x) - x) for v in speed])


@pytest.mark.parametrize("tolerance", [0.5, 1e-3, 1e-6])
def test_the_bound_is_never_too_small_and_within_the_tolerance(tolerance):
    bound = highest(*cover(), tolerance)
    assert np.all(bound >= true_maxima() - 1e-12)
    assert np.all(bound <= true_maxima() + tolerance + 1e-9)


@pytest.mark.parametrize("limit", [{"most_rounds": 3}, {"most_intervals": 2}])
def test_what_is_left_at_a_limit_counts_with_its_bound(limit):
    bound = highest(*cover(), 1e-9, **limit)
    assert np.all(bound >= true_maxima())
    assert bound.max() > true_maxima().max() + 1e-9


def test_functions_of_the_same_number_modulo_share_a_maximum():
    speed = np.array([3.0, 20.0, 7.0, 0.5])
    best, steps = cover(speed)
    bound = highest(np.maximum(best[:2], best[2:]), steps, 1e-6)
    expected = true_maxima(speed).reshape(2, 2).max(axis=0)
    np.testing.assert_allclose(bound, expected, atol=1e-5)


def test_a_tolerance_that_is_met_at_once_splits_nothing():
    Steps.calls = 0
    highest(*cover(), 1e9)
    assert Steps.calls == 1


def test_what_was_passed_as_the_best_so_far_is_not_changed():
    best, steps = cover()
    kept = best.copy()
    highest(best, steps, 1e-3)
    assert np.array_equal(best, kept)
