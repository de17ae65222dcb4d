"""Bins chosen query by query, of rows that are never seen at once, are those of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.engines import search as search_module
from calibrant.engines.search import BinSearch, GridCells, Sketch
from calibrant.measure import tabulate
from calibrant.sources.arrays import read_arrays

SHAPES = {
    "uniform": lambda rng, n: rng.uniform(size=n),
    "rounded": lambda rng, n: rng.uniform(size=n).round(2),
    "near 0 and 1": lambda rng, n: rng.beta(0.01, 0.01, size=n),
    "near 0": lambda rng, n: 10.0 ** -rng.uniform(0, 320, size=n),
    "near 1": lambda rng, n: 1 - 10.0 ** -rng.uniform(0, 17, size=n),
    "neighbours": lambda rng, n: 0.5 + 2.0**-53 * rng.integers(0, 50, size=n),
    "float32": lambda rng, n: rng.uniform(size=n).astype(np.float32),
    "negative zero": lambda rng, n: rng.choice([-0.0, 0.0, 0.5, 1.0], size=n),
}


def searched(rule, parts, n_groups=1, save=False, **limits):
    """Return the bins that a search finds in parts, and how many passes it took."""
    search, passes = BinSearch(rule, n_groups, **limits), 0
    while search.queries:
        passes += 1
        sketch = Sketch(search.queries)
        for columns in parts:
            sketch.add(columns)
            if save:
                saved = sketch.to_arrays()
                sketch = Sketch(search.queries)
                sketch.restore(saved)
        search.answer(sketch.n_rows, sketch.cells())
    return search.bins(), passes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", ["auto", cb.EqualMass(37), cb.Distinct(), cb.Hybrid(5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bins_are_those_of_all_rows(shape, rule, weighted, monkeypatch):
    monkeypatch.setattr(search_module, "UNMERGED_CELLS", 100)
    rng = np.random.default_rng(3)
    p, y = SHAPES[shape](rng, 3000), rng.integers(2, size=3000)
    w = rng.integers(1, 4, size=3000).astype(float) if weighted else None
    parts = [
        read_arrays(y[a:b], p[a:b], sample_weight=None if w is None else w[a:b])
        for a, b in ((0, 1), (1, 700), (700, 3000))
    ]
    expected = tabulate(y, p, bins=rule, sample_weight=w).bins
    for save in (False, True):
        bins, passes = searched(rule, parts, save=save, listed_rows=50)
        assert bins == expected
        assert [each.rule for each in bins] == [each.rule for each in expected]
        assert passes <= 8


def test_every_class_has_its_own_bins_in_the_same_passes():
    rng = np.random.default_rng(4)
    probs, labels = rng.dirichlet(np.full(20, 0.1), size=2000), rng.integers(20, size=2000)
    parts = [read_arrays(labels[i::3], probs[i::3], kind="marginal") for i in range(3)]
    bins, passes = searched("auto", parts, n_groups=20)
    assert bins == tabulate(labels, probs, kind="marginal").bins
    assert passes <= 4


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 60),
)
@settings(max_examples=200)
def test_any_values_cut_anywhere_give_the_same_bins(values, n_bins, size):
    p, y = np.array(values), np.zeros(len(values), int)
    parts = [read_arrays(y[a : a + size], p[a : a + size]) for a in range(0, len(p), size)]
    bins, _ = searched(cb.EqualMass(n_bins), parts)
    assert bins == tabulate(y, p, bins=n_bins).bins


def test_a_bad_prediction_is_found_while_bins_are_chosen():
    sketch = Sketch(BinSearch("auto", 1).queries)
    with pytest.raises(cb.exceptions.InvalidProbabilitiesError, match="y_prob\\[1\\] = 1.5"):
        sketch.add(read_arrays([0, 1], [0.2, 1.5]))


def counted_on_an_even_grid(p, query):
    """Answer as a lazy frame does, whose grid is not that of the leading bits."""
    for bits, numbers in query.within:
        p = p[np.isin(np.ceil(p * 2.0**bits), numbers)]
    key = p if query.bits is None else np.ceil(p * 2.0**query.bits)
    number, place = np.unique(key, return_inverse=True)
    low, high = np.full(number.size, np.inf), np.zeros(number.size)
    np.minimum.at(low, place, p)
    np.maximum.at(high, place, p)
    rows = np.bincount(place).astype(float)
    return GridCells(number, rows, rows, low, high)


def expected_bins(p, rule):
    values, mass = np.unique(p, return_counts=True)
    return rule.choose(values, mass.astype(float))


@pytest.mark.parametrize("few", [0, 50, 2000])
@pytest.mark.parametrize("n_bins", [1, 2, 3, 10, 300])
@pytest.mark.parametrize("shape", SHAPES)
def test_four_passes_are_enough_on_any_grid(shape, n_bins, few):
    p = SHAPES[shape](np.random.default_rng(5), 5000).astype(float)
    rule, passes = cb.EqualMass(n_bins), 0
    search = BinSearch(rule, 1, listed_rows=few, step=12, most_passes=4)
    while search.queries:
        passes += 1
        search.answer(p.size, {0: counted_on_an_even_grid(p, search.queries[0])})
    assert search.bins() == (expected_bins(p, rule),)
    assert passes <= 4


def test_groups_of_different_shapes_share_their_passes():
    u = np.random.default_rng(0).random(5000)
    groups = [u, u**8, np.round(u, 2), np.full(5000, 0.3), 1 - 1e-9 * u]
    rule, asked = cb.EqualMass(10), []
    search = BinSearch(rule, len(groups), listed_rows=250, step=12, most_passes=4)
    while search.queries:
        asked.append(set(search.queries))
        cells = {g: counted_on_an_even_grid(groups[g], q) for g, q in search.queries.items()}
        search.answer(5000, cells)
    assert search.bins() == tuple(expected_bins(p, rule) for p in groups)
    assert len(asked) <= 4
    assert asked[0] == {0, 1, 2, 3, 4}
    assert 3 not in asked[1]
