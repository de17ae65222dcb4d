"""The NumPy engine: how rows are cut into blocks changes no count, and no sum beyond rounding."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import EqualMass, EqualWidth
from calibrant.engines import numpy as numpy_engine
from calibrant.engines.numpy import NumpyEngine
from calibrant.groups import GroupColumn, Groups
from calibrant.sources.arrays import read_arrays

N, N_CLASSES = 700, 5
CODES = np.random.default_rng(2).integers(3, size=N)
SMALL = {
    "rows": {"BLOCK_ROWS": 64},
    "one row": {"BLOCK_ROWS": 1},
    "groups": {"BLOCK_GROUPS": 2},
    "rows and groups": {"BLOCK_ROWS": 64, "BLOCK_GROUPS": 3},
    "parts": {"PART_ROWS": 50},
    "lookups": {"FEW_VALUES": 0},
    "sorted by group": {"FEW_CELLS": 0, "BLOCK_ROWS": 64},
}


def rows_of(kind, weighted):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(N_CLASSES), size=N).round(2).clip(0, 1)
    y = rng.integers(N_CLASSES, size=N)
    weights = rng.integers(4, size=N) / 2 if weighted else None
    if kind == "binary":
        return read_arrays(y == 0, p[:, 0], sample_weight=weights)
    return read_arrays(y, p, kind=kind, sample_weight=weights)


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_small_blocks_give_the_table_of_large_ones(monkeypatch, kind, weighted, small):
    rows = rows_of(kind, weighted)
    bins = NumpyEngine().choose(rows, EqualMass(6))
    whole = NumpyEngine().count(rows, bins)
    groups = Groups.of((GroupColumn("site"),), [CODES.astype(str)])
    _, by_group = NumpyEngine().count_by(rows, bins, groups)
    for name, value in SMALL[small].items():
        monkeypatch.setattr(numpy_engine, name, value)
    table = NumpyEngine().count(rows, bins)
    _, again = NumpyEngine().count_by(rows, bins, groups)
    assert NumpyEngine().choose(rows, EqualMass(6)) == bins
    np.testing.assert_array_equal(table.count, whole.count)
    np.testing.assert_array_equal(table.level, whole.level)
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu"):
        np.testing.assert_allclose(getattr(table, name), getattr(whole, name), rtol=1e-13)
    assert again.keys() == by_group.keys()
    for name, sums in by_group.items():
        np.testing.assert_allclose(again[name], sums, rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_groups_have_the_sums_of_their_own_rows(kind, weighted):
    rows = rows_of(kind, weighted)
    bins = (EqualWidth(4).bins,) * rows.problem.n_groups
    labels, sums = NumpyEngine().count_by(
        rows, bins, Groups.of((GroupColumn("site"),), [CODES.astype(str)])
    )
    for place, (label,) in enumerate(labels):
        own = NumpyEngine().count(rows.take(np.flatnonzero(CODES.astype(str) == label)), bins)
        np.testing.assert_array_equal(sums["count"][place], own.count)
        np.testing.assert_allclose(sums["sum_y"][place], own.sum_y, rtol=1e-13)
        np.testing.assert_allclose(sums["sum_pp"][place], own.sum_pp, rtol=1e-13)
