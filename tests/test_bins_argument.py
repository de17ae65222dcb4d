"""The argument bins=: said in one way, and read alike by every function."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant._bins_argument import as_bin_rule, auto_n_bins, bins_one_by_one
from calibrant.exceptions import InvalidArgumentError, InvalidBinsError


def test_auto_is_a_rule_of_n():
    assert [auto_n_bins(n) for n in (1, 19, 20, 100, 10_000, 10**8)] == [1, 1, 2, 5, 32, 1268]
    assert as_bin_rule("auto", 10_000) == EqualMass(32)
    assert as_bin_rule(7, 100) == as_bin_rule(np.int64(7), 100) == EqualMass(7)


@pytest.mark.parametrize(
    ("bins", "rule"),
    [
        (15, EqualMass(15)),
        ("15", EqualMass(15)),
        ("mass:15", EqualMass(15)),
        ("hybrid:20", Hybrid(20)),
        (Hybrid(20, 2.0), Hybrid(20, 2.0)),
        ("distinct", Distinct()),
        ("width:4", EqualWidth(4).bins),
        (EqualWidth(4), EqualWidth(4).bins),
        ([0, 0.25, 0.5, 0.75, 1], EqualWidth(4).bins),
        ((0, 0.25, 0.5, 0.75, 1), EqualWidth(4).bins),
        (np.array([0, 0.25, 0.5, 0.75, 1]), EqualWidth(4).bins),
        (EqualWidth(4).bins, EqualWidth(4).bins),
    ],
    ids=str,
)
def test_bins_are_said_in_one_way(bins, rule):
    assert as_bin_rule(bins, 100) == rule


@pytest.mark.parametrize(
    "bins", ["width:4", "mass:3", "hybrid:3", "distinct", [0, 0.3, 1]], ids=str
)
def test_every_function_reads_bins_alike(bins):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 9, size=500) / 9
    y = rng.uniform(size=500) < p
    table = calibrant.tabulate(y, p, bins=as_bin_rule(bins, 500))
    assert calibrant.calibration_error(y, p, bins=bins).table == table
    assert calibrant.certify(y, p, bins=bins).table == table
    expected = calibrant.reliability_curve(y, p, bins=table.bins[0])
    assert np.array_equal(
        calibrant.reliability_curve(y, p, bins=bins).event_rate, expected.event_rate
    )
    assert calibrant.calibration_test(y, p, bins=bins, rng=0) == calibrant.calibration_test(
        y, p, bins=table.bins[0], rng=0
    )
    other = calibrant.compare(y, p, p**2, bins=bins)
    assert other.squared_error.a == pytest.approx(
        calibrant.calibration_error(y, p, bins=bins).squared
    )
    assert calibrant.ReliabilityDisplay.from_predictions(y, p, bins=bins, draw=False)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("many", 'bins must be a number of bins, "auto", "mass:15".*got \'many\''),
        ("depth:15", "bins must be .* got 'depth:15'"),
        (":15", "bins must be .* got ':15'"),
        ("", "bins must be .* got ''"),
        ("width", 'must say how many; got "width". Add a number, as in "width:15"'),
        ("width:", "bins must be .* got 'width:'"),
        ("width:1.5", "got 'width:1.5'"),
        ("width:-1", "got 'width:-1'"),
        ("mass:" + "9" * 5000, "bins must be"),
        ("width:0", "whole number >= 1; got 0"),
        ("mass:1000001", "at most 1,000,000; got 1,000,001"),
        ("hybrid:1001", "at most 1,000; got 1,001"),
        (0, "whole number >= 1; got 0"),
        (-3, "whole number >= 1"),
        (2.5, "bins must be .* got 2.5"),
        (np.float64(0.5), "bins must be"),
        (np.array(15.0), "bins must be"),
        (True, "bins must be"),
        (None, "bins must be"),
        (EqualMass, "bins must be"),
        ([15], "at least 2 numbers"),
        ([], "at least 2 numbers"),
        ([0.1, 0.5], "run from 0 to 1"),
        (["a", "b"], "must be numbers"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_bins_that_mean_nothing_are_refused(bad, message):
    with pytest.raises(InvalidArgumentError, match=message):
        as_bin_rule(bad, 100)


def test_bins_of_one_table_are_those_of_the_next_with_as_many_columns():
    own = (Bins([0, 0.5, 1]), Bins([0, 0.2, 1]))
    assert bins_one_by_one(own, 2) == bins_one_by_one(list(own), 2) == own
    assert bins_one_by_one((own,), 2) == own, "those of the one group"
    for other in (15, "width:4", [0, 0.5, 1], np.array([0, 0.5, 1]), own[0], (), []):
        assert bins_one_by_one(other, 2) is None


@pytest.mark.parametrize(
    ("bins", "message"),
    [
        ([Bins([0, 1])], "one Bins for each column of predictions that is counted; got 1 for 2"),
        ([Bins([0, 1]), 15], "one Bins for each column"),
        (((Bins([0, 1]),), (Bins([0, 1]),)), "got the bins of 2 groups"),
    ],
    ids=["too few", "a number among them", "two groups"],
)
def test_bins_one_by_one_that_fit_no_table_are_refused(bins, message):
    with pytest.raises(InvalidBinsError, match=message):
        bins_one_by_one(bins, 2)
