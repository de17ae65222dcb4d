"""The laws of bins: probabilities of blocks of events, never too small."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from calibrant.stats.binomial_laws import Blocks, Scale, outside, probability_of_blocks
from calibrant.stats.tails import Penalty, Tail


def test_blocks_of_events_bound_the_law_from_above():
    # 6,000 rows: blocks of one event, and of several as 60,000 rows would have
    for side, q in (("left", 0.5), ("right", -0.5)):
        bounds = []
        for block in (1, 3):
            scale = Scale.squared(6000, 0.3, 0.05, 0.6)
            scale = Scale(6000, 0.3, 2, scale.centre, scale.factor, block)
            bounds.append(Tail.of([scale] * 2, 60, side).log_bounds(Penalty(2, q, True)))
        fine, coarse = bounds
        # another statistic, so not the same bound: but next to it
        np.testing.assert_allclose(fine, coarse, atol=0.15)


@pytest.mark.parametrize("size", [1, 7, 400, 50_000])
@pytest.mark.parametrize("s", [1e-6, 0.02, 0.5, 0.999])
def test_blocks_have_the_probability_of_their_events(size, s):
    scale = Scale.squared(size, s, 0.5, 0.6)
    start = scale.starts(scale.of(np.arange(size + 1.0)).max())
    last = np.minimum(start + scale.block - 1, size)
    exact = stats.binom.cdf(last, size, s) - stats.binom.cdf(start - 1, size, s)
    np.testing.assert_allclose(probability_of_blocks(start, scale), exact, atol=1e-12)


@pytest.mark.parametrize(("size", "s"), [(5, 0.3), (300, 0.01), (40_000, 0.4)])
def test_a_law_tilted_to_another_rate_is_never_too_small(size, s):
    scale = Scale.absolute(size, s, 1.0)
    start = scale.starts(int(5 * np.sqrt(size * s)) + 5)
    w, weight, log_scale = Blocks().of(scale, start, 0.3)
    last = np.minimum(start + scale.block - 1, size)[:, None]
    pi = special.expit(w)
    exact = stats.binom.cdf(last, size, pi) - stats.binom.cdf(start[:, None] - 1, size, pi)
    # linear between the ends of a block, so the mass in it is exact but for what tilting bends
    assert np.all(weight * np.exp(log_scale) >= exact * (1 - 1e-9) - 1e-12)


def test_what_lies_outside_is_both_tails():
    w = special.logit(np.array([0.1, 0.5]))
    tails = stats.binom.cdf(2, 20, [0.1, 0.5]) + stats.binom.sf(9, 20, [0.1, 0.5])
    np.testing.assert_allclose(outside(3, 9, 20, w), tails)
    assert not outside(0, 20, 20, w).any()
