"""Example 3.1 and Proposition 3.2: what bins do not see."""

from __future__ import annotations

import pytest

from calibrant.paper import run


def test_the_hidden_error_of_example_3_1_grows_to_a_half_and_bins_see_nothing():
    for n_bins in (1, 10, 15):
        result = run("example-3-1", n_bins=n_bins, spread=0.001)
        assert result.finding("error").estimate.value > 0.499
        assert result.finding("binned").estimate.value < 1e-12


def test_the_bins_of_proposition_3_2_are_nested_and_approach_the_error():
    rows = run("proposition-3-2").rows
    for truth in {row["truth"] for row in rows}:
        own = [row for row in rows if row["truth"] == truth]
        assert own[-1]["binned_error"] == pytest.approx(own[-1]["error"], rel=1e-3)
