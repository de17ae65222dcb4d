"""Bins chosen pass by pass are those of all rows at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.engines import chunks
from calibrant.engines.chunks import BinSearch
from calibrant.measure import tabulate
from calibrant.problem import read_rows

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


def searched(rule, parts, n_groups=1, save=False):
    """Return the bins that a search finds in parts, and how many passes it took."""
    search, passes = BinSearch(rule, n_groups), 0
    while search.asks:
        passes += 1
        sketch = search.sketch()
        for rows in parts:
            sketch.add(rows)
            if save:
                saved = sketch.to_arrays()
                sketch = search.sketch()
                sketch.restore(saved)
        search.answer(sketch)
    return search.bins(), passes


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rule", ["auto", cb.EqualMass(37), cb.Distinct(), cb.Hybrid(5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_bins_are_those_of_all_rows(shape, rule, weighted, monkeypatch):
    monkeypatch.setattr(chunks, "LISTED_ROWS", 50)
    monkeypatch.setattr(chunks, "UNMERGED", 100)
    rng = np.random.default_rng(3)
    p, y = SHAPES[shape](rng, 3000), rng.integers(2, size=3000)
    w = rng.integers(1, 4, size=3000).astype(float) if weighted else None
    parts = [
        read_rows(y[a:b], p[a:b], sample_weight=None if w is None else w[a:b])
        for a, b in ((0, 1), (1, 700), (700, 3000))
    ]
    expected = tabulate(y, p, bins=rule, sample_weight=w).bins
    for save in (False, True):
        bins, passes = searched(rule, parts, save=save)
        assert bins == expected
        assert [each.rule for each in bins] == [each.rule for each in expected]
        assert passes <= 8


def test_every_class_has_its_own_bins_in_the_same_passes():
    rng = np.random.default_rng(4)
    probs, labels = rng.dirichlet(np.full(20, 0.1), size=2000), rng.integers(20, size=2000)
    parts = [read_rows(labels[i::3], probs[i::3], kind="marginal") for i in range(3)]
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
    parts = [read_rows(y[a : a + size], p[a : a + size]) for a in range(0, len(p), size)]
    bins, _ = searched(cb.EqualMass(n_bins), parts)
    assert bins == tabulate(y, p, bins=n_bins).bins


def test_a_bad_prediction_is_found_while_bins_are_chosen():
    search = BinSearch("auto", 1)
    with pytest.raises(cb.exceptions.InvalidProbabilitiesError, match="y_prob\\[1\\] = 1.5"):
        search.sketch().add(read_rows([0, 1], [0.2, 1.5]))
