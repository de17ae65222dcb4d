"""Tests of groups: Holm's p-values, evidence against calibration, and whether groups differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

import calibrant as cb
from calibrant import stats
from calibrant.stats.group_tests import holm, log_e_values


def test_holm_adjusts_as_defined():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.2])) == pytest.approx([0.2])
    assert holm(np.array([0.9, 0.8])).tolist() == [1.0, 1.0]


def test_evidence_has_a_mean_of_at_most_one_if_calibrated():
    # all numbers of events of a bin of 6 rows and one of 5, with their probabilities
    total = 0.0
    for a in range(7):
        for b in range(6):
            y = [1] * a + [0] * (6 - a) + [1] * b + [0] * (5 - b)
            p = [0.2] * 6 + [0.7] * 5
            tables = cb.tabulate(y, p, by=["g"] * 11, bins="distinct")
            chance = scipy_stats.binom.pmf(a, 6, 0.2) * scipy_stats.binom.pmf(b, 5, 0.7)
            total += chance * math.exp(log_e_values(tables)[0])
    assert 0.95 < total <= 1.0 + 1e-12  # less than 1 where both bins are joined to one


def test_evidence_of_mixed_bins_has_a_mean_of_at_most_one():
    p, total = np.array([0.1, 0.3, 0.35, 0.6, 0.9]), 0.0
    for events in np.ndindex(*(2,) * 5):
        y = np.array(events)
        tables = cb.tabulate(y, p, by=["g"] * 5, bins="width:2")
        total += np.prod(np.where(y, p, 1 - p)) * math.exp(log_e_values(tables)[0])
    assert 0.8 < total <= 1.0 + 1e-12


def test_what_had_no_probability_is_infinite_evidence():
    tables = cb.tabulate([1, 0], [0.0, 0.5], by=["g", "g"], bins="distinct")
    assert log_e_values(tables)[0] == math.inf
    assert cb.audit(tables).groups[0].pvalue == 0


def test_heterogeneity_is_exact_for_groups_that_are_alike():
    rng = np.random.default_rng(7)
    pvalues = []
    for _ in range(150):
        p = rng.integers(1, 4, size=120) / 4
        y = rng.uniform(size=120) < p**2  # wrong everywhere alike
        tables = cb.tabulate(y, p, by=rng.integers(6, size=120), bins="distinct")
        pvalues.append(stats.heterogeneity_test(tables, rng).pvalue)
    rejected = int((np.array(pvalues) <= 0.1).sum())
    assert scipy_stats.binomtest(rejected, 150, 0.1, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("continuous", [False, True])
def test_heterogeneity_finds_a_group_that_differs(continuous):
    rng = np.random.default_rng(8)
    p = rng.uniform(size=3000) if continuous else rng.integers(1, 6, size=3000) / 6
    group = rng.integers(5, size=3000)
    y = rng.uniform(size=3000) < np.where(group == 2, p**1.6, p)
    test = stats.heterogeneity_test(cb.tabulate(y, p, by=group, bins=8), rng=0)
    assert test.pvalue < 0.005
    assert test.method == f"heterogeneity, {'redrawn' if continuous else 'permuted'}"
    same = rng.uniform(size=3000) < p**1.3
    assert stats.heterogeneity_test(cb.tabulate(same, p, by=group, bins=8), rng=0).pvalue > 0.02


def test_one_group_does_not_differ_from_itself():
    assert stats.heterogeneity_test(cb.tabulate([0, 1, 1], [0.2, 0.5, 0.8], by=np.zeros(3))) is None
    apart = cb.tabulate([0, 1], [0.2, 0.8], by=["a", "b"], bins="distinct")
    assert stats.heterogeneity_test(apart) is None  # no bin has rows of both
