"""Repair of the confidence in the predicted class; the other classes share what is left."""

from __future__ import annotations

import numpy as np
import pytest
from shared import class_rows
from sklearn.base import clone

from calibrant import calibration_error
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    HistogramBinning,
    PlattScaling,
    ScalingBinning,
    TopLabel,
)


def test_the_top_entry_is_calibrated_and_the_rest_rescaled():
    probs, y = class_rows()
    top = probs.argmax(axis=1)
    fitted = TopLabel(ScalingBinning(bins=6)).fit(probs, y)
    out = fitted.predict_proba(probs)
    labels, confidence = fitted.predict_confidence(probs)
    np.testing.assert_array_equal(labels, top)
    np.testing.assert_array_equal(out[np.arange(y.size), top], confidence)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    alone = ScalingBinning(bins=6).fit(probs.max(axis=1), y == top)
    np.testing.assert_array_equal(confidence, alone.predict_proba(probs.max(axis=1)))
    np.testing.assert_array_equal(fitted.predict(probs), top)


def hard_rows(n, n_classes, seed=0):
    """Return rows of an overconfident model that is often wrong, and of no use at times."""
    probs, y = class_rows(n, n_classes, seed, temperature=0.3)
    useless = np.random.default_rng(seed).uniform(size=n) < 0.2
    return probs, np.where(useless, np.arange(n) % n_classes, y)


TOP_LABEL = [
    TopLabel(ScalingBinning()),
    TopLabel(HistogramBinning()),
    TopLabel(PlattScaling()),
    TopLabel(ScalingBinning(), per_class=True),
]


def assert_top_stays(fitted, probs):
    """Assert that the top entry is the confidence, strictly, and that the others keep order."""
    out = fitted.predict_proba(probs)
    row, top = np.arange(len(probs)), probs.argmax(axis=1)
    confidence = fitted.predict_confidence(probs)[1]
    np.testing.assert_array_equal(out.argmax(axis=1), top)
    np.testing.assert_allclose(out[row, top], confidence, rtol=0, atol=1e-37)
    others = out.copy()
    others[row, top] = -1
    assert (others.max(axis=1).astype(np.float32) < out[row, top].astype(np.float32)).all()
    assert out.min() >= 0
    assert out.sum(axis=1).max() <= 1 + 1e-12
    room = confidence > (1 + 1e-5) / probs.shape[1]
    np.testing.assert_allclose(out[room].sum(axis=1), 1)
    before = probs.astype(float)
    before[row, top] = -1
    order = np.argsort(before, axis=1)
    assert (np.diff(np.take_along_axis(others, order, axis=1), axis=1) >= 0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 10, 100, 1000])
@pytest.mark.parametrize("recalibrator", TOP_LABEL, ids=str)
def test_the_top_class_stays_the_top_class_strictly(recalibrator, n_classes):
    probs, y = hard_rows(2000, n_classes)
    assert_top_stays(clone(recalibrator).fit(probs[:1000], y[:1000]), probs[1000:])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_top_class_of_ties_and_of_short_numbers_stays(dtype):
    probs, y = hard_rows(2000, 10)
    fitted = TopLabel(HistogramBinning(4)).fit(probs, y)
    rows = np.concatenate([probs, np.full((1, 10), 0.1), np.zeros((1, 10)), np.ones((1, 10))])
    assert_top_stays(fitted, rows.astype(dtype))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.1 + 1e-9, 0.11, 0.2, 0.5, 1.0])
def test_the_top_class_stays_however_small_its_confidence(share):
    probs, _ = hard_rows(1000, 10)
    top = probs.argmax(axis=1)
    y = np.where(np.arange(1000) < round(1000 * share), top, (top + 1) % 10)
    fitted = TopLabel(HistogramBinning(1)).fit(probs, y)
    assert set(fitted.predict_confidence(probs)[1]) == {round(1000 * share) / 1000}
    assert_top_stays(fitted, probs)


def test_rows_in_which_no_class_overtakes_keep_their_proportions():
    probs, y = class_rows(500, temperature=2)
    fitted = TopLabel(PlattScaling()).fit(probs, y)
    out, (_, confidence) = fitted.predict_proba(probs), fitted.predict_confidence(probs)
    row, top = np.arange(500), probs.argmax(axis=1)
    plain = probs.copy()
    plain[row, top] = 0
    plain *= ((1 - confidence) / plain.sum(axis=1))[:, None]
    calm = plain.max(axis=1) < confidence * (1 - 1e-5)
    assert calm.mean() > 0.5
    plain[row, top] = confidence
    np.testing.assert_allclose(out[calm], plain[calm], rtol=1e-14)


def test_the_error_of_the_top_entry_is_that_of_the_confidence():
    probs, y = hard_rows(4000, 30)
    fitted = TopLabel(ScalingBinning()).fit(probs[:2000], y[:2000])
    labels, confidence = fitted.predict_confidence(probs[2000:])
    a = calibration_error(y[2000:], fitted.predict_proba(probs[2000:]), kind="top-label")
    b = calibration_error(labels == y[2000:], confidence)
    assert a.value == b.value


def test_the_papers_top_class_stays_the_top_class(cifar10):
    y, probs = cifar10
    for recalibrator in TOP_LABEL:
        assert_top_stays(clone(recalibrator).fit(probs[:5000], y[:5000]), probs[5000:])


def test_a_certain_row_spreads_what_is_left_evenly():
    probs = np.eye(3)[np.arange(30) % 3]
    y = np.where(np.arange(30) < 24, np.arange(30) % 3, 0)
    out = TopLabel(HistogramBinning(1)).fit(probs, y).predict_proba(np.eye(3))
    np.testing.assert_allclose(out.sum(axis=1), 1)
    assert out[0, 1] == out[0, 2]


def test_each_predicted_class_can_have_its_own_recalibrator():
    probs, y = class_rows(4000)
    y = np.where(y == 0, 1, y)
    fitted = TopLabel(HistogramBinning(3), per_class=True).fit(probs, y)
    labels, confidence = fitted.predict_confidence(probs)
    assert set(confidence[labels == 0]) == {0.0}
    own = probs.argmax(axis=1) == 2
    alone = HistogramBinning(3).fit(probs[own].max(axis=1), y[own] == 2)
    np.testing.assert_array_equal(confidence[own], alone.predict_proba(probs[own].max(axis=1)))


def test_a_class_predicted_too_rarely_takes_the_pooled_answer():
    probs, y = class_rows(300)
    fitted = TopLabel(PlattScaling(), per_class=True, min_rows=10_000).fit(probs, y)
    assert fitted.by_class_ == [None] * 4
    pooled = TopLabel(PlattScaling()).fit(probs, y)
    np.testing.assert_array_equal(fitted.predict_proba(probs), pooled.predict_proba(probs))


@pytest.mark.parametrize("rows", ["50", None, -1, 2.5, np.nan, True])
def test_a_number_of_rows_that_means_nothing_is_refused(rows):
    with pytest.raises(InvalidArgumentError, match="min_rows must be a whole number"):
        TopLabel(PlattScaling(), per_class=True, min_rows=rows).fit(*class_rows(60))
