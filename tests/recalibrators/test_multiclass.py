"""Several classes: one against the rest, the top label, shapes and absent classes."""

from __future__ import annotations

import numpy as np
import pytest
from shared import SEVERAL, binary_rows, class_rows
from sklearn.base import clone

from calibrant import certify
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidShapeError,
    LogitsError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.recalibrators import (
    AccuracyWarning,
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


def sharp_rows(n, n_classes, seed=0):
    """Return rows of a good, overconfident model."""
    rng = np.random.default_rng(seed)
    z = 8 * rng.normal(size=(n, n_classes))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    e = np.exp((z - z.max(axis=1, keepdims=True)) / 0.6)
    return e / e.sum(axis=1, keepdims=True), y


def accuracy_lost(fitted, probs, y):
    return (probs.argmax(axis=1) == y).mean() - (fitted.predict(probs) == y).mean()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("n_classes", [3, 10, 100])
def test_default_bins_do_not_cost_accuracy(n_classes, normalize):
    probs, y = sharp_rows(6000, n_classes)
    for inner in (ScalingBinning(), ScalingBinning(bins=10)):
        fitted = OneVsRest(inner, normalize=normalize).fit(probs[:3000], y[:3000])
        assert accuracy_lost(fitted, probs[3000:], y[3000:]) < 0.02
        assert "less accurate" not in fitted.fit_result_.flags


def test_default_bins_do_not_cost_accuracy_on_the_papers_rows(cifar10):
    y, probs = cifar10
    fitted = OneVsRest(ScalingBinning()).fit(probs[:5000], y[:5000])
    assert accuracy_lost(fitted, probs[5000:], y[5000:]) < 0.005
    with pytest.warns(AccuracyWarning, match=r"in 90.5% of the fitting rows.* 93.1% before"):
        OneVsRest(ScalingBinning(bins="mass:24")).fit(probs[:5000], y[:5000])


def test_outputs_too_coarse_to_choose_a_class_are_a_warning():
    probs, y = sharp_rows(2000, 30)
    with pytest.warns(AccuracyWarning, match="or take TopLabel"):
        fitted = OneVsRest(ScalingBinning(bins="mass:17")).fit(probs, y)
    assert "less accurate" in fitted.fit_result_.flags
    assert fitted.accuracy_before_ == pytest.approx((probs.argmax(axis=1) == y).mean())
    assert fitted.accuracy_after_ == pytest.approx((fitted.predict(probs) == y).mean())
    assert fitted.accuracy_after_ < fitted.accuracy_before_ - 0.05


def test_a_loss_that_chance_explains_is_no_warning():
    probs, y = sharp_rows(60, 10)
    fitted = OneVsRest(HistogramBinning(bins="mass:3")).fit(probs[:12], y[:12])
    assert fitted.accuracy_before_ >= fitted.accuracy_after_ >= 0


def test_accuracy_counts_the_weights():
    probs, y = sharp_rows(500, 4)
    w = np.random.default_rng(0).integers(0, 4, 500)
    a = OneVsRest(PlattScaling()).fit(probs, y, sample_weight=w)
    b = OneVsRest(PlattScaling()).fit(np.repeat(probs, w, axis=0), np.repeat(y, w))
    assert a.accuracy_before_ == pytest.approx(b.accuracy_before_)
    assert a.accuracy_after_ == pytest.approx(b.accuracy_after_)


def test_ties_between_classes_go_to_the_more_probable_one():
    probs = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]] * 20)
    fitted = OneVsRest(HistogramBinning(1)).fit(probs, np.arange(60) % 3)
    fresh = np.array([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]])
    assert (fitted.predict_proba(fresh) == 1 / 3).all()
    np.testing.assert_array_equal(fitted.predict(fresh), [2, 1])


def test_default_bins_can_still_be_certified():
    probs, y = sharp_rows(4000, 5)
    fitted = OneVsRest(ScalingBinning(bins=6)).fit(probs[:2000], y[:2000])
    out = fitted.predict_proba(probs[2000:])
    assert max(np.unique(out[:, k]).size for k in range(5)) <= 6
    own = fitted.certify(probs[2000:], y[2000:])
    assert own.upper_bound == certify(y[2000:], out, kind="marginal").upper_bound < 1


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
        OneVsRest(ScalingBinning(bins=5)),
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
    for recalibrator in (PlattScaling(), ScalingBinning(bins=4), TemperatureScaling()):
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
    with pytest.raises(InvalidArgumentError, match="a recalibrator of one score"):
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
