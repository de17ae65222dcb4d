"""What bounds see of a table, and what they know before it."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import EqualWidth, tabulate
from calibrant._bins_argument import auto_n_bins
from calibrant.stats.evidence import Evidence, Setting, evidence_of


def test_bins_that_are_fixed_say_how_many_outputs_to_plan_for():
    p = np.repeat([0.25, 0.75], 500)
    fixed = evidence_of(tabulate(p > 0.5, p, bins=EqualWidth(10)), np.ones(1))
    chosen = evidence_of(tabulate(p > 0.5, p, bins=10), np.ones(1))
    assert (fixed.n_planned, chosen.n_planned) == (10, auto_n_bins(1000))


def test_empty_bins_and_classes_without_weight_are_left_out():
    probs = np.array([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]] * 10)
    table = tabulate([2, 0] * 10, probs, kind="marginal", bins=EqualWidth(10))
    evidence = evidence_of(table, np.array([0.5, 0.0, 0.5]))
    assert evidence.size.tolist() == [10, 10, 10, 10]
    assert evidence.weight.tolist() == [0.5] * 4
    np.testing.assert_allclose(evidence.s, [0.1, 0.5, 0.2, 0.6])


def test_a_bin_can_be_off_by_no_more_than_its_least_mass_allows():
    one = np.ones(2)
    evidence = Evidence(100, 50 * one, 0.5 * one, 0.5 * one, one, 2)
    assert Setting("population", 0.05).largest_squares(evidence, 0.1).tolist() == [1, 1]
    known = Setting("population", 0.05, 0.1).largest_squares(evidence, 0.1)
    assert known.tolist() == pytest.approx([0.1, 0.1])
    sample = Setting("sample", 0.05).largest_squares(evidence, 0.1)
    assert sample.tolist() == pytest.approx([0.02, 0.02])
