"""Cells add up to tables; grids that find bins give the one edge rule's answer for every value."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import Bins, EqualWidth, tabulate
from calibrant.engines import engine
from calibrant.engines.cells import CellSums, is_even, lookup
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


EDGES = {
    "one bin": [0, 1],
    "equal width": EqualWidth(15).bins.edges,
    "many": EqualWidth(3000).bins.edges,
    "all below a half": [0, 0.01, 0.02, 0.2, 1],
    "tiny": [0, 5e-324, 1e-308, 1e-100, 1e-13, 1],
    "at one": [0, 0.5, 1 - 2e-16, 1 - 1.2e-16, 1],
    "powers of two": [0, 2**-9, 2**-8, 0.25, 0.5, 1],
}


def values_of(edges):
    """Every edge, its neighbours, the cells of any grid, and values everywhere."""
    edges = np.asarray(edges, float)
    rng = np.random.default_rng(0)
    beside = [np.nextafter(edges, 0), np.nextafter(edges, 1)]
    some = [
        edges,
        *beside,
        np.arange(513) / 512,
        rng.uniform(size=2000),
        10 ** -rng.uniform(0, 300, 500),
    ]
    values = np.unique(np.concatenate(some))
    return values[(values >= 0) & (values <= 1)]


@pytest.mark.parametrize("where", EDGES)
def test_a_grid_finds_the_bins_of_the_edge_rule(where):
    bins = Bins(EDGES[where])
    values = values_of(EDGES[where])
    found = lookup((bins,)).cell_index(bins, values)
    np.testing.assert_array_equal(found, 2 * bins.index(values))


@pytest.mark.parametrize("n_bins", [2, 3, 7, 10, 15, 49, 100, 997, 4096])
def test_arithmetic_finds_the_bins_of_one_width(n_bins):
    bins = EqualWidth(n_bins).bins
    table, values = lookup((bins,)), values_of(bins.edges)
    assert table.even == n_bins
    np.testing.assert_array_equal(table.cell_index(bins, values), 2 * bins.index(values))


def test_equal_bins_of_another_origin_do_not_take_the_arithmetic_away():
    fixed = EqualWidth(11).bins
    found = Bins(fixed.edges, "data", "distinct-value")
    assert found == fixed
    assert lookup((found,)).even == 0
    assert lookup((fixed,)).even == 11


def test_a_grid_keeps_the_shape_of_the_values():
    bins = EqualWidth(4).bins
    values = np.array([[0.0, 0.25, 0.3], [1.0, 0.5, 0.75]])
    assert lookup((bins, bins)).cell_index(bins, values).tolist() == [[0, 0, 2], [6, 2, 4]]


def test_columns_of_a_lookup_count_from_their_own_first_bin():
    bins = tuple(EqualWidth(n).bins for n in (2, 5, 3))
    alone = lookup(bins[1:]).columns(slice(0, 2))
    some = lookup(bins).columns(slice(1, 3))
    assert some.n_bins == 5
    assert (some.grids + some.shift[:, None]).tolist() == (
        alone.grids + alone.shift[:, None]
    ).tolist()


NUMBERS = [*range(2, 130), 1000, 1023, 4096, 10_000, 65_537]


def test_arithmetic_finds_even_bins_at_every_edge_and_beside_it(forms):
    for n in NUMBERS:
        bins = EqualWidth(n).bins
        values = values_of(bins.edges)
        assert is_even(bins)
        for form in forms:
            kernels().use_form(form)
            cells = np.ones(values.size, np.int32)
            kernels().even_bins(values, n, cells)
            np.testing.assert_array_equal(cells, 2 * bins.index(values) + 1)


@pytest.mark.parametrize("n", [2, 3, 15, 1000])
def test_bins_that_are_even_but_for_one_bit_are_not_even(n):
    edges = EqualWidth(n).bins.edges
    for where in range(1, n, max(1, n // 5)):
        for towards in (0, 1):
            moved = edges.copy()
            moved[where] = np.nextafter(moved[where], towards)
            assert not is_even(Bins(moved))
    assert not is_even(EqualWidth(1).bins)
