"""Spline calibration: R's fit, straight ends, and as few knots as do."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows
from sklearn.base import clone

import calibrant as cb
from calibrant.exceptions import InvalidArgumentError

P, Y = binary_rows(600)


def test_the_fit_is_that_of_r():
    """R 4.2.2, rms 6.5.0: lrm(y ~ rcs(qlogis(p), knots), eps = 1e-14, tol = 1e-14) on the 400 rows
    of default_rng(0): p = beta(1.2, 0.8, 2000)[:400], y = uniform(2000)[:400] < p^1.5."""
    rng = np.random.default_rng(0)
    p = rng.beta(1.2, 0.8, 2000)
    y = (rng.uniform(size=2000) < p**1.5).astype(int)
    spline = cb.SplineCalibration(knots=5).fit(p[:400], y[:400])
    np.testing.assert_allclose(spline.knots_, KNOTS, rtol=1e-7)
    np.testing.assert_allclose(spline.predict_proba([0.05, 0.3, 0.6, 0.95]), OF_R, rtol=1e-7)


KNOTS = [-1.14839502, -0.17783295, 0.46127415, 1.03588044, 2.11452981]
OF_R = [0.0212198766787, 0.1633809725488, 0.4271314161424, 0.9839863751500]


def test_two_knots_are_platt_scaling():
    line, platt = cb.SplineCalibration(knots=2).fit(P, Y), cb.PlattScaling().fit(P, Y)
    np.testing.assert_allclose(line.predict_proba(P), platt.predict_proba(P), rtol=1e-9)


def test_a_map_that_bends_gets_knots_and_a_line_gets_none():
    rng = np.random.default_rng(0)
    z = rng.normal(scale=3, size=4000)
    p = 1 / (1 + np.exp(-z))
    bent = 1 / (1 + np.exp(-np.where(z < 0, z / 4, z)))
    chosen = cb.SplineCalibration().fit(p, rng.uniform(size=4000) < bent)
    assert chosen.knots_.size > 2
    assert np.abs(chosen.predict_proba(p) - bent).mean() < 0.012
    platt = cb.PlattScaling().fit(p, rng.uniform(size=4000) < bent)
    assert np.abs(platt.predict_proba(p) - bent).mean() > 0.03
    assert cb.SplineCalibration().fit(p, rng.uniform(size=4000) < p).knots_.size <= 3


def test_beyond_the_knots_log_odds_are_straight_and_never_fall():
    spline = cb.SplineCalibration(knots=5, input="logits").fit(np.log(P / (1 - P)), Y)
    z = np.array([8.0, 10.0, 12.0])
    answers = spline.predict_proba(z)
    odds = np.log(answers / (1 - answers))
    assert odds[2] - odds[1] == pytest.approx(odds[1] - odds[0], rel=1e-6)
    assert spline.predict_proba([-1e300, 1e300]).tolist() == [0.0, 1.0]
    auto = cb.SplineCalibration().fit(P, Y)
    assert (np.diff(auto.predict_proba(np.linspace(0, 1, 999))) >= 0).all()
    assert auto.inverse([0.3]).size == 1


@pytest.mark.parametrize(
    ("p", "y"),
    [
        ([0.2, 0.7], [0, 1]),
        ([0.5] * 9, [0, 1, 0] * 3),
        ([0.1, 0.9] * 20, [0, 1] * 20),
        (np.linspace(0, 1, 50), np.linspace(0, 1, 50) > 0.5),
        (np.linspace(0, 1, 50), np.zeros(50)),
        (np.round(P, 1), Y),
        (np.float16(P), Y),
    ],
)
@pytest.mark.parametrize("knots", ["auto", 5])
def test_hard_rows_have_finite_answers(p, y, knots):
    fitted = cb.SplineCalibration(knots=knots).fit(p, np.asarray(y, int))
    out = fitted.predict_proba(np.linspace(0, 1, 101))
    assert ((out >= 0) & (out <= 1)).all()


def test_weights_are_repeated_rows():
    w = np.random.default_rng(0).integers(0, 3, size=600)
    weighted = cb.SplineCalibration(knots=4).fit(P, Y, sample_weight=w)
    repeated = cb.SplineCalibration(knots=4).fit(np.repeat(P, w), np.repeat(Y, w))
    np.testing.assert_allclose(weighted.predict_proba(P), repeated.predict_proba(P), atol=2e-3)


def test_scaling_binning_takes_a_spline():
    binned = cb.ScalingBinning(5, cb.SplineCalibration()).fit(P, Y)
    assert binned.levels_.size == 5
    assert clone(binned).scaler.knots == "auto"


@pytest.mark.parametrize("knots", [1, 21, 2.5, "many", None, True])
def test_only_numbers_of_knots_are_taken(knots):
    with pytest.raises(InvalidArgumentError, match="knots must be"):
        cb.SplineCalibration(knots=knots).fit(P, Y)
