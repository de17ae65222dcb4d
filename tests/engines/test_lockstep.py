"""Groups that refine together find the edges that each would find alone, in the same passes."""

from __future__ import annotations

import numpy as np

from calibrant import EqualMass
from calibrant.engines.counted import Counted
from calibrant.engines.lockstep import quantile_values


def cell_numbers(grid, p):
    """Stand in for an engine: any finer cells that rise with p will do."""
    return np.ceil(p * grid.scale)


def counted_by_numpy(groups, passes):
    found = []
    for g, each in passes.items():
        p = groups[g]
        for grid, numbers in each.within:
            p = p[np.isin(cell_numbers(grid, p), numbers)]
        key = p if each.grid is None else cell_numbers(each.grid, p)
        ones = np.ones(p.size)
        sums = {"count": ones, "sum_p": p, "sum_pp": p * p}
        group = np.full(p.size, g)
        found.append(Counted.of_sides(group, key, np.zeros(p.size), p, p, sums))
    return Counted.joined(found)


def test_groups_of_different_shapes_share_their_passes():
    u = np.random.default_rng(0).random(5000)
    groups = [u, u**8, np.round(u, 2), np.full(5000, 0.3), 1 - 1e-9 * u]
    made = []

    def count(passes):
        made.append(set(passes))
        return counted_by_numpy(groups, passes)

    seen, cells = quantile_values(len(groups), 10, 50, count)
    rule = EqualMass(10)
    chosen = tuple(rule.choose(*values) for values in seen)
    for bins, p in zip(chosen, groups, strict=True):
        values, mass = np.unique(p, return_counts=True)
        assert bins == rule.choose(values, mass.astype(float))
    assert len(made) <= 4
    assert made[0] == {0, 1, 2, 3, 4}
    assert 3 not in made[1]
    assert not cells.cut_by(chosen).any()
    assert np.bincount(cells.group, cells.sums["count"]).tolist() == [5000] * 5
