"""Several classes: one against the rest, the top label, shapes and absent classes."""

from __future__ import annotations

import numpy as np
import pytest
from shared import SEVERAL, binary_rows, class_rows
from sklearn.base import clone

from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidShapeError,
    LogitsError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
)


def test_one_versus_rest_is_a_recalibrator_for_every_column():
    probs, y = class_rows()
    fitted = OneVsRest(BetaScaling()).fit(probs, y)
    out = fitted.predict_proba(probs)
    for k in range(4):
        alone = BetaScaling().fit(probs[:, k], y == k).predict_proba(probs[:, k])
        np.testing.assert_array_equal(out[:, k], alone)


def test_normalizing_makes_rows_add_up_and_outputs_infinitely_many():
    probs, y = class_rows()
    plain = OneVsRest(HistogramBinning(5)).fit(probs, y).predict_proba(probs)
    whole = OneVsRest(HistogramBinning(5), normalize=True).fit(probs, y).predict_proba(probs)
    np.testing.assert_allclose(whole.sum(axis=1), 1)
    np.testing.assert_allclose(whole, plain / plain.sum(axis=1, keepdims=True))
    assert np.unique(plain[:, 0]).size <= 5 < np.unique(whole[:, 0]).size


def test_rows_that_are_zero_everywhere_become_even():
    probs = np.array([[0.9, 0.05, 0.05]] * 20 + [[0.1, 0.8, 0.1]] * 20)
    fitted = OneVsRest(HistogramBinning(2), normalize=True).fit(probs, [0] * 20 + [1] * 20)
    out = fitted.predict_proba([[0.1, 0.05, 0.05]])
    np.testing.assert_allclose(out.sum(axis=1), 1)


def test_the_top_entry_is_calibrated_and_the_rest_rescaled():
    probs, y = class_rows()
    top = probs.argmax(axis=1)
    fitted = TopLabel(ScalingBinning(n_bins=6)).fit(probs, y)
    out = fitted.predict_proba(probs)
    labels, confidence = fitted.predict_confidence(probs)
    np.testing.assert_array_equal(labels, top)
    np.testing.assert_array_equal(out[np.arange(y.size), top], confidence)
    np.testing.assert_allclose(out.sum(axis=1), 1)
    alone = ScalingBinning(n_bins=6).fit(probs.max(axis=1), y == top)
    np.testing.assert_array_equal(confidence, alone.predict_proba(probs.max(axis=1)))
    others = np.delete(np.arange(4), top[0])
    np.testing.assert_allclose(
        out[0, others] / out[0, others].sum(), probs[0, others] / probs[0, others].sum()
    )
    np.testing.assert_array_equal(fitted.predict(probs), top)


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


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_absent_classes_have_a_defined_answer(recalibrator):
    probs, y = class_rows(400, n_classes=5)
    out = clone(recalibrator).fit(probs, np.minimum(y, 2)).predict_proba(probs)
    assert out.shape == (400, 5)
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    "recalibrator",
    [
        TemperatureScaling(),
        VectorScaling(),
        OneVsRest(ScalingBinning(n_bins=5)),
        TopLabel(PlattScaling(), per_class=True),
    ],
    ids=str,
)
def test_a_thousand_classes_work(recalibrator):
    probs, y = class_rows(1200, n_classes=1000)
    fitted = clone(recalibrator).fit(probs[:600].astype(np.float32), y[:600])
    out = fitted.predict_proba(probs[600:])
    assert out.shape == (600, 1000)
    assert ((out >= 0) & (out <= 1)).all()


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_classes_have_names(recalibrator):
    probs, y = class_rows(400)
    names = np.array(["ant", "bee", "cat", "dog"])
    a = clone(recalibrator).fit(probs, y)
    b = clone(recalibrator).fit(probs, names[y], classes=names)
    np.testing.assert_array_equal(a.predict_proba(probs), b.predict_proba(probs))
    np.testing.assert_array_equal(names[a.predict(probs)], b.predict(probs))


def test_shapes_are_kept():
    p, y = binary_rows(200)
    for recalibrator in (PlattScaling(), ScalingBinning(n_bins=4), TemperatureScaling()):
        one = clone(recalibrator).fit(p, y).predict_proba(p)
        column = clone(recalibrator).fit(p[:, None], y).predict_proba(p[:, None])
        two = np.column_stack((1 - p, p))
        both = clone(recalibrator).fit(two, y).predict_proba(two)
        assert one.shape == (200,)
        assert column.shape == (200, 1)
        assert both.shape == (200, 2)
        np.testing.assert_allclose(column[:, 0], one, atol=1e-12)
        np.testing.assert_allclose(both[:, 1], one, atol=1e-9)
        np.testing.assert_allclose(both.sum(axis=1), 1)


@pytest.mark.parametrize("recalibrator", SEVERAL, ids=str)
def test_a_recalibrator_can_be_fitted_again_on_other_classes(recalibrator):
    fitted = clone(recalibrator).fit(*class_rows(200))
    probs, y = class_rows(200, n_classes=3)
    again = fitted.fit(probs, y).predict_proba(probs)
    np.testing.assert_array_equal(again, clone(recalibrator).fit(probs, y).predict_proba(probs))


def test_messages_say_what_to_do():
    probs, y = class_rows(100)
    p, b = binary_rows(100)
    with pytest.raises(InvalidShapeError, match="wrap it in OneVsRest or TopLabel"):
        PlattScaling().fit(probs, y)
    with pytest.raises(InvalidShapeError, match="one column for each class"):
        OneVsRest(PlattScaling()).fit(p, b)
    with pytest.raises(InvalidShapeError, match="4 classes; y_prob has 3 columns"):
        OneVsRest(PlattScaling()).fit(probs, y).predict_proba(probs[:, :3])
    with pytest.raises(SwappedArgumentsError, match=r"order of fit is \(y_prob, y_true\)"):
        PlattScaling().fit(b, p)
    with pytest.raises(LogitsError, match="logits"):
        PlattScaling().fit(6 * p - 3, b)
    with pytest.raises(NotFiniteError):
        PlattScaling(input="logits").fit(np.where(p > 0.5, np.inf, p), b)
    with pytest.raises(NotFiniteError):
        PlattScaling().fit(p, b).predict_proba([np.nan])
    with pytest.raises(InvalidLabelsError):
        PlattScaling().fit(p, b + 1)
    with pytest.raises(InvalidArgumentError, match="one of one score"):
        OneVsRest(VectorScaling()).fit(probs, y)
    with pytest.raises(InvalidArgumentError, match="passes probabilities on"):
        OneVsRest(PlattScaling(input="logits")).fit(probs, y)


def test_two_columns_of_logits_are_read_as_their_difference():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(300, 2))
    y = rng.uniform(size=300) < 1 / (1 + np.exp(z[:, 0] - z[:, 1]))
    a = PlattScaling(input="logits").fit(z, y)
    b = PlattScaling(input="logits").fit(z[:, 1] - z[:, 0], y)
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.predict_proba(z).shape == (300, 2)
