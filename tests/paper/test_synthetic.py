"""Scores that were drawn: histogram binning pays for bins, and rows halve its error."""

from __future__ import annotations

import numpy as np
import pytest
from small_studies import small

from calibrant.paper import run
from calibrant.paper.synthetic import Synthetic


def test_a_study_of_its_own_does_not_depend_on_global_random_state():
    np.random.seed(0)  # noqa: NPY002
    first = small("synthetic-n")
    np.random.seed(1)  # noqa: NPY002
    assert small("synthetic-n").rows == first.rows


def test_settings_may_be_given_whole():
    result = run("synthetic-bins", Synthetic(n=(300,), bins=(5, 20), repeats=3, cells=2000))
    assert result.settings["n"] == [300]


@pytest.mark.slow
def test_histogram_binning_pays_for_bins_and_scaling_binning_does_not():
    result = run("synthetic-bins", repeats=150, bins=(5, 20), seed=4)
    histogram = result.finding("histogram").estimate
    change = result.finding("scaling-binning").estimate
    assert 3.2 < histogram.value < 4.4
    assert abs(change.value) < 0.15


@pytest.mark.slow
def test_twice_the_rows_halve_the_squared_error():
    result = run("synthetic-n", repeats=150, n=(1000, 2000), cells=20_000, seed=5)
    for name in ("histogram", "scaling-binning"):
        assert 1.5 < result.finding(name).estimate.value < 2.6
