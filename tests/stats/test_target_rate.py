"""The base rate of a population without labels: its interval, and the test of label shift."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.target_rate import label_shift_pvalue, rate_interval

S = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9])
PI = S + np.array([0.02, -0.02, 0.03, -0.03, 0.03, -0.04, 0.02, -0.03])
MASS = np.array([0.2, 0.2, 0.15, 0.15, 0.1, 0.1, 0.05, 0.05])
OF_EVENTS, OF_OTHERS = MASS * PI / (MASS @ PI), MASS * (1 - PI) / (MASS @ (1 - PI))


def draw(rng, n, rate=None):
    """Return labels and outputs of the source, or of a target with another base rate."""
    y = rng.uniform(size=n) < (MASS @ PI if rate is None else rate)
    events, others = (rng.choice(8, size=n, p=p) for p in (OF_EVENTS, OF_OTHERS))
    return y.astype(int), S[np.where(y, events, others)]


def table_of(y, p):
    return cb.tabulate(y, p, bins="distinct")


def counts_of(p):
    return table_of(np.zeros(p.size, int), p).count[0]


def test_an_estimated_rate_has_an_interval_that_covers_and_a_test_of_its_size():
    rng, covered, pvalues = np.random.default_rng(3), 0, []
    for _ in range(300):
        table, target = table_of(*draw(rng, 3000)), counts_of(draw(rng, 3000, 0.12)[1])
        low, high = rate_interval(table, target, 0.1)
        covered += low <= 0.12 <= high
        pvalues.append(label_shift_pvalue(table, target))
    assert 0.85 <= covered / 300 <= 0.95
    assert np.mean(np.array(pvalues) < 0.1) <= 0.17
    assert np.mean(np.array(pvalues) < 0.01) <= 0.03


def test_a_shift_of_something_else_is_refused_and_says_how_it_was_tested():
    rng = np.random.default_rng(5)
    y, p = draw(rng, 3000)
    other = S[rng.choice(8, size=3000, p=[0.05, 0.05, 0.05, 0.05, 0.35, 0.35, 0.05, 0.05])]
    with pytest.raises(ex.InvalidInputError, match=r"base rate only; .*chi-square test, p = "):
        cb.certify_label_shift(y, p, target_prob=other)


@pytest.mark.parametrize("missing", [range(1, 7), range(4), range(3, 8)])
def test_a_target_without_some_of_the_outputs_is_no_label_shift(missing):
    rng = np.random.default_rng(8)
    y, p = draw(rng, 3000)
    mass = np.where(np.isin(np.arange(8), missing), 0.0, 1.0)
    other = S[rng.choice(8, size=3000, p=mass / mass.sum())]
    with pytest.raises(ex.InvalidInputError, match=r"base rate only; .*chi-square test, p = "):
        cb.certify_label_shift(y, p, target_prob=other)


def test_two_outputs_contradict_only_rates_beyond_0_and_1():
    rng = np.random.default_rng(9)
    p = rng.choice([0.3, 0.6], size=6000)
    y = rng.uniform(size=6000) < p
    moved = cb.certify_label_shift(y, p, target_prob=rng.choice([0.3, 0.6], size=6000))
    assert moved.pvalue == pytest.approx(1, abs=0.01)
    with pytest.raises(ex.InvalidInputError, match="base rate only"):
        cb.certify_label_shift(y, p, target_prob=np.full(6000, 0.6))


def test_one_output_is_not_said_to_be_tested():
    rng = np.random.default_rng(10)
    p = np.where(rng.uniform(size=3000) < 0.001, 0.9, 0.3)
    y = rng.uniform(size=3000) < p
    result = cb.certify_label_shift(y, p, target_prob=p[:1000])
    assert result.pvalue is None
    assert any("not tested: nearly all rows" in line for line in result.assumptions)
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_size_of_the_test_holds_where_many_outputs_are_rare():
    rng, pvalues = np.random.default_rng(11), []
    s = np.arange(1, 40) / 40
    mass = 0.8 ** np.arange(39)
    for _ in range(400):
        p, q = (s[rng.choice(39, size=n, p=mass / mass.sum())] for n in (2000, 300))
        table = table_of(rng.uniform(size=2000) < p, p)
        target = (table.level[0][:, None] == q).sum(axis=1).astype(float)
        pvalues.append(label_shift_pvalue(table, target))
    assert np.mean(np.array(pvalues) < 0.1) <= 0.15
    assert np.mean(np.array(pvalues) < 0.01) <= 0.03
