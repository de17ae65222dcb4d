"""What exact tails are tuned to: any choice is valid, but for outputs that cannot be seen."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from calibrant.stats.questions import Evidence, Setting, largest_power
from calibrant.stats.tail_tuning import (
    Absolute,
    Plan,
    Range,
    Squared,
    ends_of,
    ranges_of,
    scope_of,
)
from calibrant.stats.tails import Penalty


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("usual", [1e-4, 0.03, 0.4])
def test_ranges_leave_no_gap(usual, side):
    ranges = ranges_of(usual, side)
    ascending = ranges[::-1] if side == "left" else ranges
    assert all(a[1] == b[0] for a, b in pairwise(ascending))
    least, most = ends_of(usual)
    assert (ascending[0][0], ascending[-1][1]) == (0.0 if side == "right" else least, most)


@pytest.mark.parametrize("error", [Squared, Absolute])
@pytest.mark.parametrize("levels", [[0.5], [0.001, 0.5], [0.3, 0.4], [1e-9, 1.0]])
@pytest.mark.parametrize("mass", [0.0, 0.1])
@pytest.mark.parametrize("t", [1e-4, 0.02, 0.3, 1.0])
def test_the_population_is_tested_with_a_q_that_suits_every_error_within_reach(
    error, levels, mass, t
):
    levels = np.array(levels)
    plan = Plan(1000, levels.size, 0.05, mass, levels, np.full(levels.size, 1 / levels.size))
    reach = largest_power(scope_of(t), np.array(mass), error.power) ** (1 / error.power)
    farthest = np.minimum(reach, np.maximum(levels, 1 - levels)).max()
    assert 0 < plan.largest_q(t, error, True) * farthest**error.power < 1


@pytest.mark.parametrize("n", [10**4, 10**10])
@pytest.mark.parametrize("error", [Squared, Absolute])
def test_outputs_that_are_known_do_not_limit_q_where_labels_vary_as_usual(error, n):
    plan = Plan(n, 1, 0.05, 0.0, np.array([0.5]), np.ones(1))
    usual = error.usual(plan)
    assert plan.largest_q(usual, error, True) >= 0.9 * error.tuned(plan, usual, "left")[0]


def test_errors_that_no_output_can_have_are_rejected_without_a_warning():
    plan = Plan.of(
        Evidence(10, np.array([10.0]), *np.array([[0.5], [0.5], [1.0]]), 1, np.array([0.5])),
        Setting("population", 0.05),
    )
    beyond = Range(0.9, 1.0, Penalty(2, 1.6, True), 1.0, 1.0)
    assert beyond.log_limit(plan, "left") == np.inf
