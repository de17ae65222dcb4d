"""Smooth ECE: the numbers of relplot, and limits on both sides."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.stats.samples import Sample
from calibrant.stats.smooth_ece import smooth_ece
from validated import ROW, TABLE, P, Y


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
