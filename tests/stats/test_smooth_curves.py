"""Curves without bins: what they fit, what their bands and tests promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.samples import Sample
from calibrant.stats.smooth_curves import smooth_reliability_curve

RNG = np.random.default_rng(3)
P = RNG.beta(1, 3, size=400)
Y = (RNG.uniform(size=400) < P**1.3).astype(int)
METHODS = ("isotonic", "spline", "loess")


@pytest.mark.parametrize("method", METHODS)
def test_curves_hold_their_estimate_and_every_row(method):
    curve = cb.reliability_curve(Y, P, method=method)
    assert curve.method == method
    assert curve.count.sum() == 400
    assert np.all(np.diff(curve.mean_prediction) > 0)
    assert np.all((curve.low <= curve.event_rate) & (curve.event_rate <= curve.high))
    assert np.all((curve.low >= 0) & (curve.high <= 1))
    assert 0 < curve.pvalue <= 1
    assert "p = " in str(curve)
    assert len(str(curve).splitlines()) == 14


def test_a_curve_of_many_rows_fits_into_a_terminal():
    curve = cb.reliability_curve(np.tile(Y, 50), np.tile(P, 50), method="isotonic")
    lines = str(curve).splitlines()
    assert "n = 20,000" in lines[-2]
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize("method", METHODS)
def test_simultaneous_bands_are_wider_and_so_are_surer_ones(method):
    def width(**options):
        curve = cb.reliability_curve(Y, P, method=method, **options)
        return float((curve.high - curve.low).mean())

    assert width(simultaneous=False) < width() < width(confidence_level=0.999)


def test_the_isotonic_curve_is_that_of_corp():
    curve = cb.reliability_curve(Y, P, method="isotonic")
    table = cb.tabulate(Y, P, bins="distinct")
    corp = cb.stats.isotonic_curve(table)
    expected = np.interp(curve.mean_prediction, corp.prediction, corp.event_rate)
    assert curve.event_rate == pytest.approx(expected)
    assert np.all(np.diff(curve.event_rate) >= 0)


def test_a_straight_spline_is_firths_logistic_fit():
    """Two knots, for fewer than 20 events: intercept and slope of `validate`."""
    p = np.linspace(0.05, 0.95, 30)
    y = np.tile([0, 0, 1], 10)
    curve, table = cb.reliability_curve(y, p, method="spline"), cb.validate(y, p)
    score = table["intercept"].value + table["slope"].value * logit(curve.mean_prediction)
    assert curve.event_rate == pytest.approx(expit(score), abs=1e-5)


HARD = {
    "one row": ([1], [0.3]),
    "no events": ([0] * 30, np.linspace(0.01, 0.2, 30)),
    "separated": ([0] * 20 + [1] * 20, np.linspace(0.01, 0.99, 40)),
    "one prediction": ([0, 1] * 20, [0.5] * 40),
    "two predictions": ([0, 1, 0, 1] * 20, [0.4, 0.6] * 40),
    "some certain": ([0, 1, 0, 1] * 20, [0.0, 1.0, 0.3, 0.6] * 20),
    "float16": (Y, P.astype(np.float16)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", HARD)
def test_hard_cases_have_a_band_that_is_not_a_line(case, method):
    curve = cb.reliability_curve(*HARD[case], method=method)
    assert np.isfinite([curve.event_rate, curve.low, curve.high]).all()
    assert np.all(curve.high - curve.low > 0)
    assert 0 <= curve.pvalue <= 1


def test_isotonic_limits_of_equal_predictions_are_those_of_clopper_and_pearson():
    # 0.2, added up, is not 0.2 times as much: the mean of equal predictions must be exact
    curve = cb.reliability_curve([1] * 30 + [0] * 170, [0.2] * 200, method="isotonic")
    assert curve.mean_prediction.tolist() == [0.2]
    low, high = clopper_pearson(np.array(30.0), np.array(200.0), np.array(0.05))
    assert [curve.low[0], curve.high[0]] == pytest.approx([float(low), float(high)], rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_few_outputs_have_limits_on_both_sides(method):
    p = np.repeat([0.1, 0.3, 0.7], 700)
    y = np.arange(2100) % 10 < 10 * p
    curve = cb.reliability_curve(y, p, method=method)
    assert np.all(curve.high - curve.low < 0.15)


def test_certain_predictions_alone_have_no_spline():
    with pytest.raises(
        ex.InvalidArgumentError, match=r"all 4 predictions are 0 or 1\. Use method="
    ):
        cb.reliability_curve([0, 1, 0, 1], [0, 1, 0, 1.0], method="spline")


def test_weights_of_whole_numbers_give_the_curve_of_repeated_rows():
    times = 1 + np.arange(400) % 3
    for method in ("spline", "loess"):
        weighted = cb.reliability_curve(Y, P, method=method, sample_weight=times)
        repeated = cb.reliability_curve(np.repeat(Y, times), np.repeat(P, times), method=method)
        at = np.linspace(0.05, 0.6, 20)
        curves = [np.interp(at, c.mean_prediction, c.event_rate) for c in (weighted, repeated)]
        assert curves[0] == pytest.approx(curves[1], abs=0.02)
    with pytest.raises(ex.InvalidWeightsError, match='Leave them out, or use method="loess"'):
        cb.reliability_curve(Y, P, method="isotonic", sample_weight=times)


def test_rows_tables_classes_and_frames_are_read_like_anywhere():
    expected = cb.reliability_curve(Y, P, method="loess").event_rate
    table = cb.tabulate(Y, P, bins="distinct")
    assert cb.reliability_curve(table, method="loess").event_rate == pytest.approx(expected)
    frame = pd.DataFrame({"y": Y, "p": P})
    found = cb.reliability_curve("y", "p", data=frame, method="loess")
    assert found.event_rate == pytest.approx(expected)
    two = np.stack([1 - P, P], axis=1)
    one = cb.reliability_curve(Y, two, kind="marginal", class_label=1, method="loess")
    assert one.event_rate == pytest.approx(expected)


def test_what_has_no_such_curve_is_refused():
    with pytest.raises(ex.InvalidArgumentError, match=r'method must be "bins", .* got .belt'):
        cb.reliability_curve(Y, P, method="belt")
    with pytest.raises(ex.InvalidArgumentError, match="rows of one group at a time"):
        cb.reliability_curve(Y, P, method="loess", by=Y)
    with pytest.raises(ex.InvalidArgumentError, match="bin for each distinct prediction"):
        cb.reliability_curve(cb.tabulate(Y, P, bins=5), method="loess")
    with pytest.raises(ex.InvalidArgumentError, match='bins= are those of method="bins"'):
        cb.reliability_curve(Y, P, bins=5, method="loess")


@pytest.mark.parametrize("method", ["isotonic", "spline", "loess"])
def test_the_p_value_does_not_depend_on_the_order_of_rows_and_is_the_same_each_time(method):
    rng = np.random.default_rng(4)
    p = rng.beta(1, 3, 200).round(2).clip(0.01, 0.99)
    y = rng.uniform(size=200) < p**1.3
    order = rng.permutation(200)
    found = [
        cb.reliability_curve(*rows, method=method).pvalue
        for rows in ((y, p), (y, p), (y[order], p[order]))
    ]
    assert found[0] == found[1] == pytest.approx(found[2], rel=1e-6)
    assert 0 < found[0] < 1


@pytest.mark.parametrize("extra", ["weights", "clusters", "many"])
def test_the_test_of_a_spline_sees_a_model_that_is_off_and_passes_one_that_is_not(extra):
    rng = np.random.default_rng(6)
    n = 30_000 if extra == "many" else 2000
    p, u = rng.uniform(0.02, 0.98, n), rng.uniform(size=n)
    weight = rng.gamma(2, size=n) if extra == "weights" else None
    cluster = np.arange(n) // 4 if extra == "clusters" else None

    def pvalue(rate):
        sample = Sample.of((u < rate).astype(float), p, weight, cluster)
        return smooth_reliability_curve(sample, "spline", 0.95, True).pvalue

    assert pvalue(p) > 0.01
    assert pvalue(p**1.5) < 1e-6


def test_what_a_calibrated_model_rules_out_has_a_p_value_of_nothing():
    rng = np.random.default_rng(7)
    p = np.append(rng.uniform(size=200), 0.0)
    y = np.append(rng.uniform(size=200) < p[:-1], True)
    assert cb.reliability_curve(y, p, method="spline").pvalue == 0
    assert cb.reliability_curve(y[:-1], p[:-1], method="spline").pvalue > 0


def test_clusters_too_few_for_a_test_prove_nothing():
    rng = np.random.default_rng(8)
    p = rng.uniform(size=400)
    y = (rng.uniform(size=400) < p**3).astype(float)
    sample = Sample.of(y, p, None, np.arange(400) // 100)
    assert smooth_reliability_curve(sample, "spline", 0.95, True).pvalue == 1
