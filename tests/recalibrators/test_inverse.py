"""Inverse maps: exact to one float64 on either side, at edges and between them."""

from __future__ import annotations

import numpy as np
import pytest
from shared import ON_LOGITS, ONE_SCORE, SHIFT_OF_LOGITS, SHIFTS, binary_rows, class_rows
from sklearn.base import clone

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError

P, Y = binary_rows(900)
Z = np.log(P / (1 - P))
ALL = [*ONE_SCORE, *SHIFTS, cb.Identity(), *ON_LOGITS, SHIFT_OF_LOGITS]
RISING = [r for r in ALL if not isinstance(r, cb.HistogramBinning | cb.QuadraticScaling)]


@pytest.mark.parametrize("recalibrator", RISING, ids=str)
def test_one_float_before_the_least_score_the_answer_is_below(recalibrator):
    scores = Z if recalibrator.input == "logits" else P
    fitted = clone(recalibrator).fit(scores, Y)
    answers = fitted.predict_proba(scores)
    levels = np.concatenate(
        [np.unique(answers)[::40], np.linspace(answers.min(), answers.max(), 17)]
    )
    least, greatest = fitted.inverse(levels), fitted.inverse(levels, side="greatest")
    inner = np.isfinite(least) & (least > (-1e299 if fitted.input == "logits" else 0))
    assert inner.sum() > 10
    # Answers are rounded, and may fall by the last bit where the map rises.
    slack = 4e-16 * (1 + levels)
    assert (fitted.predict_proba(least[inner]) >= (levels - slack)[inner]).all()
    before = np.nextafter(least[inner], -np.inf)
    assert (fitted.predict_proba(before) <= (levels + slack)[inner]).all()
    there = np.isfinite(greatest)
    assert (fitted.predict_proba(greatest[there]) <= (levels + slack)[there]).all()
    assert (np.diff(least[np.argsort(levels)]) >= 0).all()


def test_steps_have_the_interval_of_scores_with_one_answer():
    binned = cb.HistogramBinning(bins=[0, 0.25, 0.75, 1]).fit(
        [0.1, 0.2, 0.4, 0.6, 0.9], [0, 0, 1, 0, 1]
    )
    assert binned.levels_.tolist() == [0, 0.5, 1]
    above = np.nextafter(0.25, 1)
    assert binned.inverse([0, 0.3, 0.5, 1]).tolist() == [0, above, above, np.nextafter(0.75, 1)]
    assert binned.inverse([0, 0.3, 0.5, 1], "greatest").tolist() == [0.25, 0.25, 0.75, 1]


def test_what_no_score_reaches_is_nan():
    binned = cb.HistogramBinning(bins=[0, 0.5, 1]).fit([0.1, 0.2, 0.6, 0.9], [0, 1, 1, 1])
    least = binned.inverse([0.1, 0.5, 1.0])
    assert least.tolist() == [0, 0, np.nextafter(0.5, 1)]
    greatest = binned.inverse([0.1, 0.5, 1.0], "greatest")
    assert np.isnan(greatest[0])
    assert greatest[1:].tolist() == [0.5, 1]
    low = cb.IsotonicCalibration("step").fit([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 0])
    assert np.isnan(low.inverse([0.02])).all()


def test_smooth_maps_have_the_closed_form():
    platt = cb.PlattScaling().fit(P, Y)
    p = np.array([0.9, 0.02, 0.5])
    eta = (np.log(p / (1 - p)) - platt.intercept_) / platt.slope_
    np.testing.assert_allclose(platt.inverse(p), 1 / (1 + np.exp(-eta)), rtol=1e-13)
    shift = cb.PriorShift(target_mean=0.02).fit(P)
    undone = cb.PriorShift(offset=-shift.offset_).fit(P)
    np.testing.assert_allclose(shift.inverse(p), undone.predict_proba(p), rtol=1e-13)
    assert cb.Identity().fit(P, Y).inverse(P).tolist() == P.tolist()


def test_logits_that_all_would_do_are_infinite():
    shift = cb.PriorShift(offset=1.0, input="logits").fit(Z)
    assert shift.inverse([0.0, 0.5]).tolist() == [-np.inf, pytest.approx(-1)]
    assert shift.inverse([1.0], "greatest").tolist() == [np.inf]


def test_maps_that_fall_are_refused():
    falling = cb.PlattScaling().fit(P, 1 - Y)
    uneven = cb.HistogramBinning(bins=[0, 0.3, 0.6, 1]).fit([0.1, 0.2, 0.4, 0.9], [0, 1, 0, 1])
    curved = cb.QuadraticScaling().fit(P, Y)  # rises over the rows, and falls near 0 or 1
    for fitted in (falling, uneven, curved):
        with pytest.raises(InvalidArgumentError, match="never falls"):
            fitted.inverse([0.5])
    probs, y = class_rows(200)
    for several in (cb.VectorScaling(), cb.TemperatureScaling(), cb.OneVsRest(cb.PlattScaling())):
        with pytest.raises(CalibrantError, match="columns"):
            several.fit(probs, y).inverse([0.5])
    assert cb.OneVsRest(cb.PlattScaling()).fit(probs, y).recalibrators_[0].inverse([0.5]).size == 1


@pytest.mark.parametrize("p", [0.02, [1.2], [np.nan], ["2%"], [[0.1]], None])
def test_only_lists_of_probabilities_are_inverted(p):
    with pytest.raises(CalibrantError):
        cb.PlattScaling().fit(P, Y).inverse(p)
    assert cb.PlattScaling().fit(P, Y).inverse([]).size == 0
    with pytest.raises(InvalidArgumentError, match="side must be"):
        cb.PlattScaling().fit(P, Y).inverse([0.5], side="both")


def test_a_single_number_is_told_to_be_a_list():
    shift = cb.PriorShift(offset=0.5).fit(P)
    with pytest.raises(CalibrantError, match=r"a list of probabilities.*such as \[0.02\]"):
        shift.inverse(0.02)
