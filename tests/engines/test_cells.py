"""Cells add up to tables."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import Bins, tabulate
from calibrant.engines import engine
from calibrant.engines.cells import CellSums
from calibrant.engines.numpy import NumpyEngine
from calibrant.problem import Problem
from calibrant.sources.arrays import read_arrays
from conftest import kernels

BINS = Bins([0, 0.5, 1])


def cells(p, y):
    """Return one cell for each distinct prediction."""
    p, y = np.array(p), np.array(y, float)
    sums = {"count": np.ones(p.size), "sum_y": y, "sum_p": p, "sum_pp": p * p, "sum_py": p * y}
    return CellSums.of_parts(np.zeros(p.size, int), p, p, p, sums)


def test_rows_with_and_without_the_event_become_one_cell():
    found = cells([0.25, 0.75, 0.25], [1, 0, 0])
    assert found.number.tolist() == [0.25, 0.75]
    assert found.sums["sum_y"].tolist() == [1, 0]
    assert found.sums["sum_py"].tolist() == [0.25, 0]
    assert found.n == 3


def test_the_table_is_that_of_the_rows():
    p, y = [0.0, 0.25, 0.5, 0.5, 0.75, 1.0], [0, 1, 1, 0, 1, 1]
    found = CellSums.joined([cells(p[:3], y[:3]), cells(p[3:], y[3:])])
    assert found.table(Problem("binary"), (BINS,)) == tabulate(y, p, bins=BINS)


def test_a_cell_with_predictions_on_both_sides_of_an_edge_is_cut():
    whole = np.array([0, 0]), np.array([0.0, 1.0])
    sums = {"count": np.ones(2), "sum_p": np.ones(2), "sum_pp": np.ones(2)}
    found = CellSums(*whole, np.array([0.1, 0.5]), np.array([0.5, 0.6]), sums)
    assert found.cut_by((BINS,)).tolist() == [False, True]


@pytest.mark.parametrize("name", ["numpy", "compiled"])
def test_equal_predictions_are_one_level_however_small_their_squares_are(name):
    if name == "compiled":
        kernels()
    count = (engine() if name == "compiled" else NumpyEngine()).count
    rng = np.random.default_rng(0)
    for exponent in range(-165, -130):
        for p, *weights in rng.random((100, 3)):
            p *= 10.0**exponent
            columns = read_arrays([0, 1], [p, p], sample_weight=weights)
            assert count(columns, (BINS,)).level[0, 0] == p
