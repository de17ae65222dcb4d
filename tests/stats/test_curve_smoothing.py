"""The loess curve, its noise, limits of what is computed from it, and the smooth ECE."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

import calibrant as cb
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import (
    SPREAD_CAUTION,
    LoessCurve,
    Pooled,
    functional_limits,
    loess_curve,
    loess_weights,
    smooth_ece,
)
from validated import ROW, TABLE, P, Y


def test_the_loess_curve_is_that_of_r():
    # R 4.2.2: predict(loess(y ~ x, control = loess.control(surface = "direct")), data.frame(x = x))
    x = [0.1, 0.2, 0.25, 0.3, 0.45, 0.5, 0.6, 0.62, 0.8, 0.95]
    y = [0, 0, 1, 0, 1, 0, 1, 1, 0, 1]
    curve = cb.reliability_curve(y, x, method="loess")
    assert curve.event_rate == pytest.approx(
        [0, 0.27585713, 0.39028686, 0.49570085, 0.45658879, 0.56159816, 0.81891412, 0.8477198214,
         0.55701407, 0.82566278], abs=1e-8
    )  # fmt: skip


def test_noise_of_clusters_at_the_ends_is_not_taken_for_the_curve():
    """Residuals of the few clusters that an end follows told 0.64 of the variance there."""
    rng, estimates = np.random.default_rng(0), []
    own = np.sort(rng.beta(1, 3, size=100))
    p, cluster = np.repeat(own, 5), np.repeat(np.arange(100), 5)
    for _ in range(60):
        y = np.repeat(rng.uniform(size=100) < own, 5).astype(float)  # rows of a cluster agree
        sample = Sample.of(y, p, None, cluster)
        curve = loess_curve(sample, Pooled.of(sample))
        estimates.append(np.diag(curve.covariance))
    weights = loess_weights(Pooled.of(sample), curve.x[curve.nodes])
    truth = (weights**2 * own * (1 - own)).sum(axis=1)
    ratio = np.mean(estimates, axis=0) / truth
    assert ratio.min() > 0.95
    assert ratio.max() < 1.6


def test_what_noise_lowers_has_a_higher_limit():
    gap = np.full(20, 0.1)
    noise = np.random.default_rng(1).normal(scale=0.02, size=(500, 20))
    _, high, _ = functional_limits(gap, noise, lambda g: g.min(axis=-1, keepdims=True), 0.95)
    least = (gap + noise).min(axis=1)
    assert 0.05 < least.mean() < 0.07
    reach = 1.959964 * SPREAD_CAUTION * least.std()
    assert high == pytest.approx([0.1 + 2 * (0.1 - least.mean()) + reach], rel=1e-6)


def test_noise_at_the_upper_rates_is_that_of_wilsons_limits():
    rate, size = np.array([0.02, 0.5]), np.array([100.0, 200.0])
    upper = [
        binomtest(int(r * n), int(n)).proportion_ci(method="wilson").high
        for r, n in zip(rate, size, strict=True)
    ]
    known = rate * (1 - rate)
    curve = LoessCurve(rate, rate, np.arange(2), np.diag(known / size), size, np.ones(1))
    assert curve.raised(0.95) == pytest.approx([(upper[0] * (1 - upper[0]) / known[0]) ** 0.5, 1])


def test_a_prediction_of_many_rows_stands_for_itself():
    """Every fourth of 256 points has its noise simulated; the 200 rows at 0.5 were none of them.

    In 150 samples of these rows, with 0.7 for 0.5, intervals of E90 and Emax held in 51% then.
    """
    rng = np.random.default_rng(0)
    p = np.concatenate([rng.uniform(0, 0.1, 500), np.full(200, 0.5), rng.uniform(0.8, 1, 500)])
    y = (rng.uniform(size=1200) < np.where(p == 0.5, 0.7, p)).astype(float)
    for method in ("isotonic", "spline", "loess"):
        curve = cb.reliability_curve(y, p, method=method)
        assert curve.count[curve.mean_prediction == 0.5].tolist() == [200]
    sample = Sample.of(y, p)
    points = loess_curve(sample, Pooled.of(sample))
    inner = points.x[points.nodes][1:-1]
    assert points.share[inner == 0.5] == pytest.approx(200 / 1200, rel=0.05)


def test_smooth_ece_is_that_of_relplot():
    # relplot 1.0.3: relplot.smECE(P, Y)
    assert TABLE["smooth_ece"].value == pytest.approx(0.06015365526086404, rel=1e-9)


def test_the_smooth_ece_of_a_certain_model_has_limits_on_both_sides():
    # wide kernels end beyond [0, 1]; what they lose there had lowered the limits
    measure = cb.validate((np.arange(1000) % 4 == 0).astype(int), np.ones(1000))["smooth_ece"]
    assert (measure.low, measure.high) == pytest.approx((0.75 - 0.0295, 0.75 + 0.0295), abs=3e-3)


def test_of_one_prediction_it_is_the_gap_whatever_the_order_and_the_scale_of_weights():
    p, y = np.full(400, 0.3), (np.arange(400) % 2).astype(float)
    assert smooth_ece(Sample.of(y, p)).value == pytest.approx(0.2, abs=1e-3)
    order, weight = np.random.default_rng(0).permutation(200), 1.0 + ROW % 3
    found = [
        smooth_ece(Sample.of(Y[rows].astype(float), P[rows], scale * weight[rows])).value
        for rows, scale in ((ROW, 1.0), (order, 50.0))
    ]
    assert found[0] == pytest.approx(found[1], rel=1e-9)


def test_a_model_that_is_never_wrong_has_none():
    found = smooth_ece(Sample.of(np.array([0.0, 1.0]), np.array([0.0, 1.0])))
    assert found.value == 0
