"""Cuts: where sorted values of given masses are parted."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calibrant._cuts import best_partition, edges_at, halfway, quantile_cuts

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n_bins", [1, 2, 5, 40])
def test_parts_end_at_the_value_nearest_to_each_quantile(n_bins):
    mass = RNG.integers(1, 9, size=30).astype(float)
    below = np.concatenate([[0], np.cumsum(mass)])
    targets = below[-1] * np.arange(1, n_bins) / n_bins
    nearest = {int(np.argmin(np.abs(below - target))) for target in targets} - {0, 30}
    assert quantile_cuts(mass, n_bins).tolist() == [end - 1 for end in sorted(nearest)]


def test_an_edge_lies_between_its_neighbours_also_where_floats_are_dense():
    low = np.array([0.0, 0.1, 0.5, 1 - 2.0**-53])
    high = np.nextafter(low, 1)
    for a, b in ((low, high), (low, np.ones(4))):
        edges = halfway(a, b)
        assert np.all((a <= edges) & (edges < b))


def test_no_edge_is_made_at_zero():
    tiny = np.array([0.0, 5e-324, 0.5])
    assert edges_at(tiny, np.array([0, 1])).tolist() == [0.0, 0.25, 1.0]


def test_the_best_partition_is_the_cheapest_of_all():
    cost = np.full((7, 7), np.inf)
    upper = np.triu_indices(7, 1)
    cost[upper] = RNG.uniform(size=upper[0].size)
    for n_parts in range(1, 7):
        ways = [
            (0, *cuts, 6) for k in range(n_parts) for cuts in itertools.combinations(range(1, 6), k)
        ]
        least = min(sum(cost[a, b] for a, b in itertools.pairwise(way)) for way in ways)
        ends = best_partition(cost, n_parts)
        assert sum(cost[a, b] for a, b in itertools.pairwise([0, *ends])) == pytest.approx(least)
