"""Two tables of different rows: their difference, its interval, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calibrant import Distinct, EqualWidth, compare, compare_tables, tabulate
from calibrant.exceptions import (
    EmptyInputError,
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidWeightsError,
)


def draw(rng, n, slope, levels=10):
    p = (rng.integers(levels, size=n) + 0.5) / levels
    rate = 0.5 + slope * (p - 0.5)
    return rng.uniform(size=n) < rate, p


def true_square(slope, levels=10):
    p = (np.arange(levels) + 0.5) / levels
    return float(np.mean(((slope - 1) * (p - 0.5)) ** 2))


@pytest.mark.parametrize("bins", [Distinct(), EqualWidth(4)])
def test_the_spread_is_that_of_the_rows(bins):
    # Against a model that is right whatever the label, a paired comparison has the same variance.
    rng = np.random.default_rng(0)
    y, p = draw(rng, 3000, 0.5)
    sure = y.astype(float)
    other = tabulate(y, sure, bins=Distinct())
    found = compare_tables(tabulate(y, p, bins=bins), other).squared_error
    paired = compare(y, p, sure, bins=bins).squared_error
    assert (found.a, found.b) == pytest.approx((paired.a, 0.0), abs=1e-12)
    assert found.low == pytest.approx(paired.low, rel=1e-6)
    assert found.high == pytest.approx(paired.high, rel=1e-6)


def test_the_order_of_tables_and_of_rows_does_not_matter():
    rng = np.random.default_rng(1)
    (y, p), (z, q) = draw(rng, 500, 0.8), draw(rng, 700, 1.0)
    a, b = tabulate(y, p, bins=Distinct()), tabulate(z[::-1], q[::-1], bins=EqualWidth(7))
    one, other = compare_tables(a, b), compare_tables(b, a)
    assert one.squared_error.low == pytest.approx(-other.squared_error.high)
    assert (one.n_a, one.n_b) == (500, 700)
    assert "n = 500, 10 distinct-value bins; b: n = 700, 7 equal-width bins" in str(one)


def test_several_classes_have_at_least_the_spread_of_independent_ones():
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(4), size=2000)
    labels = (probs.cumsum(axis=1) < rng.uniform(size=(2000, 1))).sum(axis=1)
    halves = [
        tabulate(labels[half], probs[half], kind="marginal", bins=EqualWidth(5))
        for half in (slice(0, 1000), slice(1000, None))
    ]
    found = compare_tables(*halves).squared_error
    assert found.low < 0 < found.high
    skewed = compare_tables(*halves, class_weight=[1, 0, 0, 0]).squared_error
    single = [
        tabulate(labels[half] == 0, probs[half, 0], bins=EqualWidth(5))
        for half in (slice(0, 1000), slice(1000, None))
    ]
    assert skewed.high == pytest.approx(compare_tables(*single).squared_error.high)


def test_what_cannot_be_compared_is_refused():
    y, p = np.arange(40) % 2, np.linspace(0.05, 0.95, 40)
    table = tabulate(y, p, bins=3)
    with pytest.raises(InvalidWeightsError, match="has sample weights"):
        compare_tables(table, tabulate(y, p, bins=3, sample_weight=p))
    with pytest.raises(EmptyInputError, match="at least 2 rows in each table; got 1"):
        compare_tables(tabulate(y[:1], p[:1], bins=3), table)
    top = tabulate(y, np.column_stack([p, 1 - p, 0 * p]), bins=3)
    with pytest.raises(IncompatibleTablesError, match="binary of 2 classes and top-label of 3"):
        compare_tables(table, top)
    with pytest.raises(IncompatibleTablesError, match="takes two tables"):
        compare_tables(table, p)
    with pytest.raises(InvalidArgumentError):
        compare_tables(table, table, confidence_level=95)


def test_tables_without_any_error_have_an_interval_that_is_not_empty():
    rng = np.random.default_rng(3)
    y, p = draw(rng, 2000, 1.0)
    found = compare_tables(*(tabulate(y, p, bins=Distinct()) for _ in range(2))).squared_error
    assert found.low < found.value == 0 < found.high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "slope_a", "slope_b"),
    [(300, 300, 1.0, 1.0), (300, 3000, 1.0, 0.8), (1000, 1000, 0.7, 0.7), (1000, 500, 0.5, 0.9),
     (300, 300, 0.3, 1.0)],
)  # fmt: skip
def test_the_interval_holds_as_often_as_it_says(n, m, slope_a, slope_b):
    rng, runs, held = np.random.default_rng([n, m]), 1000, 0
    truth = true_square(slope_a) - true_square(slope_b)
    for _ in range(runs):
        tables = (
            tabulate(*draw(rng, size, slope), bins=Distinct())
            for size, slope in ((n, slope_a), (m, slope_b))
        )
        found = compare_tables(*tables).squared_error
        held += found.low <= truth <= found.high
    # 1.5 points below the nominal level is what `compare` promises from 300 rows on
    assert held / runs >= 0.935 - 3 * math.sqrt(0.05 * 0.95 / runs)
