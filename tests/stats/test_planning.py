"""Planning: the promised power is reached, and plans agree with each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from calibrant.exceptions import InvalidArgumentError
from calibrant.stats import certify, samples_to_certify, smallest_certifiable_error
from calibrant.table import BinTable

# Certificates


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("true_error", [0.0, 0.02])
def test_the_rows_of_a_plan_certify_its_error_and_fewer_do_not(balanced, true_error):
    rest = {"true_error": true_error, "balanced": balanced}
    n = samples_to_certify(0.05, 10, **rest)
    assert smallest_certifiable_error(n, 10, **rest) <= 0.05
    assert smallest_certifiable_error(round(0.98 * n), 10, **rest) > 0.05


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        ({"max_error": 0.03}, {"max_error": 0.05}),
        ({"n_bins": 30}, {"n_bins": 10}),
        ({"power": 0.95}, {"power": 0.8}),
        ({"confidence_level": 0.99}, {"confidence_level": 0.9}),
        ({"true_error": 0.02}, {"true_error": 0.0}),
        ({"n_bins": 10}, {"n_bins": None, "levels": np.geomspace(0.001, 0.05, 10)}),
        ({"looks": 5}, {"looks": 1}),
    ],
)
def test_a_harder_task_needs_more_rows_and_leaves_a_larger_error(harder, easier):
    usual = {"max_error": 0.05, "n_bins": 10}
    more, fewer = (samples_to_certify(**(usual | task)) for task in (harder, easier))
    assert more > fewer
    if "max_error" not in harder:
        usual = {"n": 3000, "n_bins": 10}
        large, small = (smallest_certifiable_error(**(usual | task)) for task in (harder, easier))
        assert large > small


def test_looks_divide_the_error_probability_of_a_plan():
    assert samples_to_certify(0.1, 5, looks=4) == samples_to_certify(
        0.1, 5, confidence_level=1 - 0.05 / 4
    )


def test_an_l2_plan_serves_for_l1():
    assert samples_to_certify(0.1, 5, norm="l1") == samples_to_certify(0.1, 5)


def test_plans_of_outputs_without_noise_reckon_with_uneven_counts():
    n = samples_to_certify(0.3, levels=[0, 1])
    halves = BinTable.from_counts([0, 1], [n // 2, n - n // 2], [0, n - n // 2])
    # uneven counts have larger bounds, and nine samples in ten must pass with theirs
    assert certify(halves, levels=[0, 1]).upper_bound < 0.98 * 0.3
    assert smallest_certifiable_error(n, levels=[0, 1]) > certify(halves, levels=[0, 1]).upper_bound
    assert n == samples_to_certify(0.3, levels=[0, 1])  # the same tables each time
    assert smallest_certifiable_error(n, levels=[0, 1]) <= 0.3


def test_plans_of_few_events_know_balanced_masses_and_many_outputs():
    rare = np.linspace(0.0, 0.002, 40)
    bounds = [smallest_certifiable_error(500, levels=rare, balanced=x) for x in (False, True)]
    assert 0 < bounds[1] < bounds[0] < 1


def test_few_rows_certify_nothing():
    assert smallest_certifiable_error(1, 10) == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_error": 0.02, "n_bins": 10, "true_error": 0.02}, "true_error < max_error"),
        ({"max_error": 0.02, "n_bins": 10, "true_error": 0.5}, "true_error < max_error"),
        ({"max_error": 1.0, "n_bins": 10}, "max_error=1.0"),
        ({"max_error": 0.02, "n_bins": 0}, "n_bins must be at least 1"),
        ({"max_error": 0.02, "n_bins": 10, "power": 1.0}, "power must lie between"),
        ({"max_error": 0.02, "n_bins": 10, "confidence_level": 95}, "Write 0.95"),
        ({"max_error": 0.02, "n_bins": 10, "norm": "l3"}, 'norm="l2", "l1" and "max"'),
        ({"max_error": 0.02, "n_bins": 10, "looks": 0}, "looks must be a whole number"),
        ({"max_error": 1e-8, "n_bins": 2}, "More than 1e15 rows"),
    ],
)
def test_impossible_plans_are_refused_with_the_reason(arguments, message):
    with pytest.raises(InvalidArgumentError, match=message):
        samples_to_certify(**arguments)


def test_other_impossible_plans_are_refused_with_the_reason():
    with pytest.raises(InvalidArgumentError, match="n must be at least 1"):
        smallest_certifiable_error(0, 10)


@pytest.mark.parametrize(
    ("max_error", "outputs", "true_error"),
    [(0.1, 10, 0.0), (0.15, 10, 0.05), (0.1, [0.01, 0.02, 0.04, 0.08, 0.16], 0.0)],
)
def test_plans_of_the_maximum_have_the_power_that_they_promise(max_error, outputs, true_error):
    levels = outputs if isinstance(outputs, list) else None
    n_bins = None if levels else outputs
    n = samples_to_certify(max_error, n_bins, levels=levels, true_error=true_error, norm="max")
    s = np.array(levels or (np.arange(n_bins) + 0.5) / n_bins)
    rng = np.random.default_rng(len(s))
    power = []
    for rows in (n, n // 2):
        size = rng.multinomial(rows, np.full(s.size, 1 / s.size), size=1000)
        events = rng.binomial(size, s + np.where(s <= 0.5, true_error, -true_error))
        limits = stats.beta(events + 1, np.maximum(size - events, 1e-9)).ppf(0.95)
        lower = stats.beta(np.maximum(events, 1e-9), size - events + 1).ppf(0.05)
        bounds = np.maximum(limits - s, s - lower).max(axis=1)
        power.append(np.mean(bounds <= max_error))
    assert 0.87 < power[0] < 0.95
    assert power[1] < 0.6
    smallest = smallest_certifiable_error(
        n, n_bins, levels=levels, true_error=true_error, norm="max"
    )
    assert 0.97 * max_error < smallest <= max_error


def test_plans_of_the_maximum_reach_from_one_row_to_as_many_as_can_be_planned():
    assert smallest_certifiable_error(1, 10, norm="max") >= 0.9
    few, many = (smallest_certifiable_error(n, 10, norm="max") for n in (9 * 10**6, 11 * 10**6))
    assert few == pytest.approx(many * math.sqrt(11 / 9), rel=0.01)  # two formulas, one answer
    assert samples_to_certify(1e-4, 10, norm="max") > 10**9
    more = samples_to_certify(0.1, 10, norm="max", looks=2)
    assert more > samples_to_certify(0.1, 10, norm="max")


@pytest.mark.parametrize(
    ("outputs", "norm", "true_error"),
    [({"n_bins": 10}, "l2", 0.8), ({"levels": [0.5]}, "l1", 0.51), ({"n_bins": 2}, "max", 0.76)],
)
def test_an_error_that_no_such_model_has_is_not_planned_for(outputs, norm, true_error):
    for plan, first in ((samples_to_certify, 0.99), (smallest_certifiable_error, 100)):
        with pytest.raises(InvalidArgumentError, match="that a model with these outputs can have"):
            plan(first, **outputs, norm=norm, true_error=true_error)
        plan(first, **outputs, norm=norm, true_error=0.5)
