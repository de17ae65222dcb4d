"""Edges, the edge rule, and the rules that choose bins."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.bins import NearQuantiles
from calibrant.exceptions import InvalidArgumentError, InvalidBinsError, InvalidDocumentError

# No edge fits between 0 and the smallest float, so these two alone cannot be told apart.
unit = st.floats(0, 1, allow_subnormal=False)
predictions = hnp.arrays(np.float64, st.integers(1, 60), elements=unit)


def distinct(values):
    values, counts = np.unique(values, return_counts=True)
    return values, counts.astype(float)


def near_quantiles(values, n_bins):
    """Return the five arrays of one group, by brute force."""
    values, counts = distinct(values)
    up_to = np.cumsum(counts)
    targets = up_to[-1] * np.arange(1, n_bins) / n_bins
    holding = np.searchsorted(up_to, targets)
    beside = np.pad(values, 1, constant_values=np.inf)
    arrays = (beside[holding], values[holding], beside[holding + 2])
    return [*arrays, (up_to - counts)[holding], up_to[holding]]


@given(
    table=hnp.arrays(np.float64, (3, 40), elements=st.sampled_from([0, 5e-324, 0.1, 0.2, 0.9, 1])),
    n_bins=st.sampled_from([1, 2, 3, 15]),
)
def test_values_next_to_quantiles_make_the_bins_of_all_values(table, n_bins):
    rule = EqualMass(n_bins)
    near = NearQuantiles(*np.stack([near_quantiles(row, n_bins) for row in table], axis=1))
    for found, row in zip(rule.choose_near(near, 40), table, strict=True):
        assert found.to_dict() == rule.choose(*distinct(row)).to_dict()
        with pytest.raises(ValueError, match="read-only"):
            found.edges[0] = 0.5


def test_the_edge_rule_is_the_papers():
    bins = EqualWidth(4).bins
    below, above = np.nextafter(0.25, 0), np.nextafter(0.25, 1)
    assert bins.index([0.0, below, 0.25, above, 0.5, 0.75, 1.0]).tolist() == [0, 0, 0, 1, 1, 2, 3]


def test_equal_width_edges_are_correctly_rounded_fractions():
    assert EqualWidth(10).bins.edges.tolist() == [i / 10 for i in range(11)]
    assert EqualWidth(10).bins.index(0.3) == 2
    assert EqualWidth(10).bins.index(np.float32(0.3)) == 3, "float32(0.3) lies above 0.3"


@given(values=predictions, n_bins=st.sampled_from([1, 2, 7, 127, 128, 129, 500]))
def test_few_and_many_bins_follow_the_same_rule(values, n_bins):
    edges = EqualWidth(n_bins).bins.edges
    expected = [max(0, next(i for i in range(n_bins) if v <= edges[i + 1])) for v in values]
    assert EqualWidth(n_bins).bins.index(values).tolist() == expected


@given(values=predictions, n_bins=st.integers(1, 20))
def test_equal_mass_bins_are_as_equal_as_ties_allow(values, n_bins):
    values, counts = distinct(values)
    bins = EqualMass(n_bins).choose(values, counts)
    assert len(bins) <= n_bins
    inside = np.bincount(bins.index(values), counts, minlength=len(bins))
    assert inside.min() > 0
    cumulated, n = np.cumsum(counts), counts.sum()
    ends = np.cumsum(inside)[:-1]
    candidates = np.append(cumulated, 0)
    for j in range(1, n_bins):
        target = n * j / n_bins
        best = np.abs(candidates - target).min()
        reachable = np.append(ends, [0, n])
        assert np.abs(reachable - target).min() == pytest.approx(best)


def test_equal_mass_bins_without_ties_hold_the_same_number_each():
    values = np.random.default_rng(0).uniform(size=1200)
    bins = EqualMass(8).choose(*distinct(values))
    assert np.bincount(bins.index(values)).tolist() == [150] * 8


def test_edges_lie_half_way_between_their_neighbours():
    assert EqualMass(2).choose(*distinct([0.1, 0.2, 0.6, 0.7])).edges.tolist() == [0, 0.4, 1]


def test_ties_that_leave_fewer_bins_are_said():
    bins = EqualMass(10).choose(*distinct([0.0] * 60 + [0.5] * 20 + [1.0] * 20))
    assert (len(bins), bins.requested) == (3, 10)
    assert str(bins) == "3 of 10 uniform-mass bins"


@given(values=predictions)
def test_distinct_bins_hold_one_value_each(values):
    values, counts = distinct(values)
    bins = Distinct().choose(values, counts)
    assert bins.index(values).tolist() == list(range(values.size))


def test_neighbouring_floats_get_bins_of_their_own():
    values = np.array([0.5, np.nextafter(0.5, 1), np.nextafter(np.nextafter(0.5, 1), 1), 1.0])
    values = np.insert(values, 3, np.nextafter(1, 0))
    bins = Distinct().choose(values, np.ones(5))
    assert bins.index(values).tolist() == [0, 1, 2, 3, 4]


def test_bins_are_data_or_fixed():
    values = distinct([0.1, 0.4, 0.8])
    assert EqualWidth(3).bins.origin == Bins([0, 0.5, 1]).origin == "fixed"
    assert {rule.choose(*values).origin for rule in (EqualMass(2), Distinct(), Hybrid(2))} == {
        "data"
    }


def within_variance(bins, values, counts):
    index = bins.index(values)
    weight = np.bincount(index, counts)
    mean = np.bincount(index, counts * values) / weight
    return np.sum(counts * (values - mean[index]) ** 2)


@example(values=np.array([0.75, 0.25, 1.0, 1.0, 0.0, 0.0, 0.0]), n_bins=3)
@given(values=hnp.arrays(np.float64, st.integers(4, 12), elements=unit), n_bins=st.integers(1, 4))
def test_hybrid_bins_have_the_least_variance_of_all_allowed_bins(values, n_bins):
    values, counts = distinct(values)
    rule = Hybrid(n_bins, balance=2.0)
    bins = rule.choose(values, counts)
    lightest = counts.sum() / (2.0 * n_bins) * (1 - 1e-9)
    allowed = []
    for k in range(n_bins):
        for cuts in itertools.combinations(range(1, values.size), k):
            parts = np.split(np.arange(values.size), cuts)
            if all(counts[part].sum() >= lightest for part in parts):
                allowed.append(
                    sum(
                        np.sum(counts[part] * (values[part] - np.average(values[part], weights=counts[part])) ** 2)
                        for part in parts
                    )
                )  # fmt: skip
    assert within_variance(bins, values, counts) <= min(allowed) + 1e-12
    assert np.bincount(bins.index(values), counts).min() >= lightest


@pytest.mark.parametrize(("a", "b", "gain"), [(6, 0.8, 2.2), (0.3, 4, 2.5)])
def test_hybrid_bins_lose_less_sharpness_than_uniform_mass_bins(a, b, gain):
    values, counts = distinct(np.random.default_rng(1).beta(a, b, size=5000))
    losses = [
        within_variance(rule.choose(values, counts), values, counts)
        for rule in (EqualMass(10), Hybrid(10))
    ]
    assert losses[0] / losses[1] > gain


def test_hybrid_bins_keep_every_bin_heavy():
    values, counts = distinct(np.random.default_rng(1).beta(0.3, 4, size=5000))
    inside = np.bincount(Hybrid(10).choose(values, counts).index(values), counts)
    assert inside.size == 10
    assert inside.min() >= 5000 / 30


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([0.5], "at least 2"),
        ([[0, 1]], "1-D"),
        ([0, np.nan, 1], "finite"),
        ([0.1, 1], "run from 0 to 1; got 0.1 to 1"),
        ([0, 0.9], "run from 0 to 1"),
        ([0, 0.5, 0.5, 1], r"edges\[1\] = 0.5"),
        ([0, 0.7, 0.5, 1], "rise strictly"),
        (["0", "0.5", "1"], "numbers that rise"),
        ([0, 0.5 + 0j, 1], "numbers that rise"),
        (np.array([0, 1], "m8[s]"), "numbers that rise"),
    ],
)
def test_edges_that_do_not_partition_are_refused(edges, message):
    with pytest.raises(InvalidBinsError, match=message):
        Bins(edges)


@pytest.mark.parametrize("make", [EqualMass, EqualWidth, Hybrid])
@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True])
def test_numbers_of_bins_must_be_whole_and_positive(make, bad):
    with pytest.raises(InvalidArgumentError, match="whole number >= 1"):
        make(bad)


def test_a_balance_below_one_is_refused():
    with pytest.raises(InvalidArgumentError, match="balance must be at least 1"):
        Hybrid(5, balance=0.5)


def test_edges_cannot_be_changed_afterwards():
    source = np.array([0, 0.5, 1.0])
    bins = Bins(source)
    source[1] = 0.7
    assert bins.edges[1] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        bins.edges[1] = 0.2


def test_equal_bins_have_one_hash_and_one_document():
    one, other = Bins([0.0, 0.5, 1.0]), Bins([-0.0, 0.5, 1.0])
    assert one == other
    assert hash(one) == hash(other)
    assert str(one.to_dict()) == str(other.to_dict())


def test_bins_survive_the_round_trip_and_compare_by_edges():
    bins = EqualWidth(7).bins
    assert Bins.from_dict(bins.to_dict()) == bins
    assert hash(Bins(bins.edges)) == hash(bins)
    assert Bins([0, 0.5, 1]) != Bins([0, 0.6, 1])


def saved(**changes):
    return {"edges": [0, 0.5, 1], "origin": "fixed", "rule": "given", "requested": 2} | changes


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        saved(edges=[0, 2]),
        saved(edges=["0", "1"]),
        saved(edges=[False, True]),
        saved(edges="01"),
        saved(edges=[0, 10**400, 1]),
        saved(edges=[0, float("nan"), 1]),
        saved(origin="nowhere"),
        saved(origin=["fixed"]),
        saved(rule=3),
        saved(rule="two\nlines"),
        saved(rule="long" * 100),
        saved(requested=2.0),
        saved(requested=True),
        saved(requested=0),
        saved(more=1),
    ],
    ids=str,
)
def test_damaged_bins_are_refused(document):
    with pytest.raises(InvalidDocumentError, match="bins"):
        Bins.from_dict(document)


def test_the_repr_is_one_line_however_many_edges_there_are():
    assert repr(Bins([0, 0.25, 1])) == "<Bins: 2 bins, edges 0, 0.25, 1>"
    many = Bins(np.linspace(0, 1, 1001))
    assert repr(many) == "<Bins: 1,000 bins, edges 0, 0.001, 0.002, ..., 0.998, 0.999, 1>"
