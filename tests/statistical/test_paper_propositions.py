"""Section 3 of Kumar, Liang and Ma (2019): what bins hide, and that they only ever hide."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import Bins, Distinct, EqualWidth, calibration_error

EPSILON = 0.01
NORMS = [1.0, 1.5, 2.0, 3.0, 7.0, math.inf]


def norm_of(power: float):
    return "max" if math.isinf(power) else power


def error(y, p, bins, power: float) -> float:
    return calibration_error(y, p, bins=bins, norm=norm_of(power), debias=False).value


# Example 3.1


def pieces_of(bins: Bins):
    """The parts of the bins inside [0.5 - epsilon, 0.5 + epsilon]."""
    low = np.maximum(bins.edges[:-1], 0.5 - EPSILON)
    high = np.minimum(bins.edges[1:], 0.5 + EPSILON)
    return [(a, b) for a, b in zip(low, high, strict=True) if a < b]


def hidden(bins: Bins, rows_per_width: float = 1e5):
    """Build the proof's distribution on a grid: in each piece 1 comes first, then 0.

    A piece has mean prediction p, and Y = 1 on its first p share, so the bin looks calibrated,
    while every single prediction near 0.5 stands for a certain event or a certain non-event.
    """
    parts = []
    for a, b in pieces_of(bins):
        m = max(2, round(rows_per_width * (b - a)))
        f = a + (b - a) * (np.arange(m) + 0.5) / m
        parts.append((f, np.arange(m) < round(f.mean() * m)))
    f, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return f, y


ROUND_BINS = Bins([0.0, 0.492, 0.5, 0.506, 1.0])


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_bins_see_no_error_where_the_true_error_is_at_least_049(power):
    # Piece means 0.491, 0.496, 0.503, 0.508 times whole hundreds of rows are nearly whole counts.
    f, y = hidden(ROUND_BINS, rows_per_width=5e6)
    assert error(y, f, ROUND_BINS, power) < 1e-4
    assert error(y, f, Distinct(), power) >= 0.49


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_the_binned_error_is_exactly_zero_where_the_counts_divide(power):
    # 1,000 rows in each piece: 491, 496, 503 and 508 events.
    parts = [hidden_piece(a, b, 1000) for a, b in pieces_of(ROUND_BINS)]
    f, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    assert error(y, f, ROUND_BINS, power) < 1e-12
    assert error(y, f, Distinct(), power) >= 0.49


def hidden_piece(a: float, b: float, m: int):
    f = a + (b - a) * (np.arange(m) + 0.5) / m
    return f, np.arange(m) < round(f.mean() * m)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_bins_twice_as_fine_uncover_the_error(power):
    f, y = hidden(ROUND_BINS)
    turns = [a + (b - a) * (a + b) / 2 for a, b in pieces_of(ROUND_BINS)]
    finer = Bins(np.unique(np.concatenate([ROUND_BINS.edges, turns])))
    assert error(y, f, finer, power) > 0.48
    assert error(y, f, EqualWidth(1000), power) > 0.3


def test_a_sample_of_the_example_looks_calibrated_and_says_that_it_is_only_a_lower_bound():
    rng = np.random.default_rng(31)
    f = rng.uniform(0.5 - EPSILON, 0.5 + EPSILON, size=20_000)
    y = np.zeros(f.size, bool)
    for a, b in pieces_of(ROUND_BINS):
        y |= (f > a) & (f <= a + (b - a) * (a + b) / 2)
    result = calibration_error(y, f, bins=ROUND_BINS)
    assert result.confidence_interval().low == 0.0
    assert result.value < 0.02
    assert result.is_lower_bound
    assert calibration_error(y, f, bins=EqualWidth(5000)).value > 0.48


inner_edges = st.lists(st.floats(0.001, 0.999), max_size=8, unique=True)


@given(edges=inner_edges)
@settings(max_examples=40)
def test_any_bins_can_be_fooled(edges):
    # Rounding to whole counts leaves at most half a row a piece.
    bins = Bins([0.0, *sorted(edges), 1.0])
    f, y = hidden(bins)
    assert error(y, f, bins, 1.0) <= (0.5 * len(pieces_of(bins)) + 1e-6) / f.size
    assert error(y, f, Distinct(), 1.0) >= 0.49


# Proposition 3.2

rows = st.lists(
    st.tuples(
        st.booleans(), st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]))
    ),
    min_size=1,
    max_size=60,
)
nested_edges = st.lists(
    st.tuples(st.floats(0.001, 0.999), st.booleans()), max_size=10, unique_by=lambda edge: edge[0]
)


@pytest.mark.parametrize("power", NORMS)
@given(rows=rows, edges=nested_edges)
@settings(max_examples=60)
def test_coarser_bins_never_show_more_error(power, rows, edges):
    # The maximum obeys too: the gap of a union is a weighted mean of the gaps of its parts.
    y, p = (np.array(column) for column in zip(*rows, strict=True))
    finer = Bins([0.0, *sorted(edge for edge, _ in edges), 1.0])
    coarser = Bins([0.0, *sorted(edge for edge, kept in edges if kept), 1.0])
    coarse, fine = error(y, p, coarser, power), error(y, p, finer, power)
    assert coarse <= fine + 1e-12
    assert fine <= error(y, p, Distinct(), power) + 1e-12


@given(rows=rows, edges=nested_edges)
@settings(max_examples=30)
def test_bins_that_mix_predictions_say_that_they_give_a_lower_bound(rows, edges):
    y, p = (np.array(column) for column in zip(*rows, strict=True))
    bins = Bins([0.0, *sorted(edge for edge, _ in edges), 1.0])
    result = calibration_error(y, p, bins=bins, debias=False)
    mixed = any(np.unique(p[bins.index(p) == j]).size > 1 for j in range(len(bins)))
    assert result.is_lower_bound == mixed
