"""Estimates of means and ratios, and the range of several splits."""

from __future__ import annotations

import pytest
from small_studies import splits

from calibrant.paper.uncertainty import (
    Estimate,
    about,
    across,
    exactly,
    mean,
    over_repeats,
    ratio,
)


def test_splits_are_merged_into_their_median_and_range():
    finding = splits(*range(21))
    assert finding.estimate == across(range(21))
    assert [one.value for one in finding.splits] == list(range(21))
    assert splits(3.0).estimate == about(3.0, 0.01), "one split keeps its own interval"


def test_a_ratio_of_means_covers_the_truth_about_as_often_as_it_says():
    import numpy as np

    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(300):
        a, b = rng.gamma(2.0, size=200), rng.gamma(4.0, size=200)
        found = ratio(b, a)
        hits += found.low <= 2.0 <= found.high
    assert 0.84 <= hits / 300 <= 0.95


def test_small_estimates_are_what_they_say():
    import numpy as np

    assert exactly(2.0) == Estimate(2.0, 0.0, 2.0, 2.0)
    assert mean(np.arange(5.0)).value == 2.0
    assert across(range(21)) == Estimate(10.0, pytest.approx(38.5**0.5), 1.0, 19.0)
    found = over_repeats(lambda i: float(i.mean()), 50, np.random.default_rng(0))
    assert found.low < found.value == 24.5 < found.high
