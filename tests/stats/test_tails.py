"""Are worst tails bounded from above, and closely? Against maxima over fine grids of rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from calibrant.stats.binomial_laws import Scale
from calibrant.stats.tails import Penalty, Tail, calibrated_tail


def log_tail_by_force(scales, most, penalty, side, reach=1.0, n_rates=4001):
    """Return log W_B(c), its maxima taken over a grid of rates: from below, and close."""
    w = np.ones(most + 1) if side == "left" else np.r_[1.0, np.zeros(most)]
    angle = np.linspace(0, math.pi, n_rates)
    for scale in scales:
        pi = np.append(np.sin(angle / 2) ** 2, scale.s)
        pi = pi[np.abs(pi - scale.s) <= reach]
        k = np.arange(scale.size + 1)
        law = stats.binom.pmf(k[:, None], scale.size, pi)
        d = scale.of(k.astype(float))
        gain = np.exp(scale.size * penalty(pi - scale.s))
        new = np.empty(most + 1)
        for c in range(most + 1):
            before = np.where(d <= c, w[np.maximum(c - d, 0)], w[0] if side == "right" else 0.0)
            new[c] = np.max(gain * (before @ law))
        w = new
    with np.errstate(divide="ignore"):
        return np.log(w)


def random_scales(rng, power, unit, side):
    scales = []
    for _ in range(rng.integers(1, 5)):
        size, s = int(rng.integers(1, 40)), float(rng.choice([0.0, 1.0, rng.uniform(), 0.01]))
        if power == 2:
            scales.append(Scale.squared(size, s, unit, 0.6 if side == "left" else 0.0))
        else:
            widest = 2.0 if side == "right" and rng.uniform() < 0.3 else math.inf
            scales.append(Scale.absolute(size, s, unit, widest))
    return scales


@pytest.mark.parametrize("bent", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("power", [1, 2])
def test_tails_are_bounded_from_above_and_closely(power, side, bent):
    rng = np.random.default_rng([power, len(side), bent])
    for _ in range(12):
        scales = random_scales(rng, power, float(rng.choice([0.05, 0.3])) * power, side)
        q = rng.uniform(0.05, 0.95) * (1 if side == "left" else -1)
        penalty, most = Penalty(power, q, bent), 25
        bound = Tail.of(scales, most, side).log_bounds(penalty)
        force = log_tail_by_force(scales, most, penalty, side)
        assert np.all(bound >= force)
        seen = force > -30
        close = 0.05 if all(0.05 < scale.s < 0.95 for scale in scales) else 0.4
        assert np.all(bound[seen] - force[seen] < close)
        assert np.all(Tail.of(scales, most, side, coarse=True).log_bounds(penalty) >= force)


@pytest.mark.parametrize("reach", [0.05, 0.2, 0.5])
def test_a_reach_leaves_out_what_lies_beyond_it(reach):
    rng = np.random.default_rng(7)
    penalty = Penalty(2, 0.9 / reach**2, True)
    for _ in range(8):
        scales = random_scales(rng, 2, 0.3, "left")
        bound = Tail.of(scales, 20, "left").log_bounds(penalty, reach)
        force = log_tail_by_force(scales, 20, penalty, "left", reach)
        assert np.all(bound >= force)
        mild = Penalty(2, 0.8, True)  # finite beyond the reach as well
        tail = Tail.of(scales, 20, "left")
        bound = tail.log_bounds(mild, reach)
        assert np.all(bound >= log_tail_by_force(scales, 20, mild, "left", reach))
        assert np.all(bound <= tail.log_bounds(mild) + 1e-12)
    free = Tail.of([Scale.squared(20, 0.5, 0.3, 0.6)], 20, "left")
    assert np.all(np.isinf(free.log_bounds(Penalty(2, 4.1, True))))


def test_right_tails_fall_and_left_tails_grow():
    scales = [Scale.squared(50, s, 0.1, 0.6) for s in (0.1, 0.5, 0.8)]
    left = Tail.of(scales, 80, "left").log_bounds(Penalty(2, 0.8, True))
    right = Tail.of(scales, 80, "right").log_bounds(Penalty(2, -0.8, True))
    assert np.all(np.diff(left) >= -1e-9)
    assert np.all(np.diff(right) <= 1e-9)


def test_bins_of_any_size_have_a_tail():
    for size in (1, 2, 10**4, 10**6, 10**8, 10**10):
        for s in (0.0, 1e-9, 0.5, 1.0):
            unit = max(s * (1 - s), 1 / size) / 20
            scale = Scale.squared(size, s, unit, 0.6)
            bound = Tail.of([scale], 100, "left").log_bounds(Penalty(2, 0.9, True))
            assert np.all(np.isfinite(bound))
            assert bound[-1] < 25


def test_right_tails_are_close_where_labels_hardly_vary():
    # nodes 60 standard deviations from s are far apart, and what a bin is penalised by is small
    bins = [Scale.squared(10**6, s, 0.125, 0.0) for s in (0.005, 0.5, 0.995)]
    for coarse in (False, True):
        log_w = Tail.of(bins, 1200, "right", coarse).log_bounds(Penalty(2, -0.9, True))
        assert log_w[0] == pytest.approx(0, abs=0.1)  # every D is at least 0
        assert log_w[-1] < -60  # 150 in units of 1, each of which costs at least 0.5


def test_no_worst_right_tail_lies_below_that_of_calibrated_bins():
    rng = np.random.default_rng(11)
    for _ in range(20):
        scales = random_scales(rng, int(rng.integers(1, 3)), 0.3, "right")
        tail = Tail.of(scales, 25, "right").log_bounds(Penalty(scales[0].power, -0.7, True))
        laws = [stats.binom.pmf(np.arange(x.size + 1), x.size, x.s) for x in scales]
        d = [x.of(np.arange(x.size + 1.0)) for x in scales]
        for least in (0, 1, 4, 25):
            below = np.ones(1)
            for law, cells in zip(laws, d, strict=True):
                below = np.convolve(below, np.bincount(cells, law))
            found = calibrated_tail(scales, least)
            assert found == pytest.approx(1 - below[:least].sum(), abs=1e-9)
            assert found <= math.exp(tail[least]) + 1e-12
