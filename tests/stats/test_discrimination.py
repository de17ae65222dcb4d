"""The C statistic: pairs of rows, and the intervals of DeLong and Newcombe."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit

from calibrant.stats.discrimination import c_limits, c_statistic
from calibrant.stats.samples import Sample
from validated import TABLE, P, Y


def test_delongs_interval_is_that_of_proc_on_the_log_odds_scale():
    # pROC: auc(roc(y, p)), var(roc(y, p))
    area = 0.8167830752
    reach = 1.9719565 * math.sqrt(0.000850432733) / (area * (1 - area))
    assert TABLE["c_statistic"].high == pytest.approx(expit(logit(area) + reach), abs=5e-4)


def test_it_is_the_share_of_pairs_in_which_the_event_ranks_higher():
    rng = np.random.default_rng(1)
    p, y, w = rng.uniform(size=60).round(1), rng.integers(2, size=60), rng.uniform(size=60)
    above = np.subtract.outer(p[y == 1], p[y == 0])
    pairs = np.outer(w[y == 1], w[y == 0])
    expected = (pairs * ((above > 0) + (above == 0) / 2)).sum() / pairs.sum()
    area, influence = c_statistic(Sample.of(y.astype(float), p, w))
    assert area == pytest.approx(expected)
    assert w @ influence == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("right", [True, False])
def test_perfect_ranks_have_an_interval_that_is_not_a_point(right):
    y = np.repeat([0.0, 1.0], 6)
    sample = Sample.of(y, np.arange(12) / 12 if right else 1 - np.arange(12) / 12)
    area, influence = c_statistic(sample)
    low, high, method = c_limits(sample, area, influence, 0.95)
    assert (area, method) == (float(right), "Newcombe")
    assert high - low > 0.3
    assert low <= area <= high


def test_turning_predictions_round_turns_the_interval_round():
    limits = []
    for p in (P, 1 - P):
        sample = Sample.of(Y.astype(float), p)
        limits.append(c_limits(sample, *c_statistic(sample), 0.9))
    assert limits[0][:2] == pytest.approx((1 - limits[1][1], 1 - limits[1][0]))
    assert limits[0][2] == limits[1][2] == "DeLong"
