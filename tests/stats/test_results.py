"""Results say what they are."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

RNG = np.random.default_rng(21)
P = RNG.uniform(size=2000)
Y = RNG.uniform(size=2000) < P**1.3
LEVELS = np.round(P, 1)


def test_a_continuous_model_prints_a_lower_bound():
    result = cb.calibration_error(Y, P)
    assert result.is_lower_bound
    low, high = result.confidence_interval()
    assert str(result) == (
        f"binary l2 = {result.value:.4f} [{low:.4f}, {high:.4f}] at 95%\n"
        "  lower bound: bins mix different predictions\n"
        "  17 uniform-mass bins, n = 2,000\n"
        f"  a perfect model would score {result.noise_floor:.4f}"
    )
    assert repr(result) == (
        f"<CalibrationErrorResult: binary l2 = {result.value:.4f}, a lower bound, "
        "17 uniform-mass bins, n = 2,000>"
    )


def test_a_binned_model_prints_no_lower_bound():
    result = cb.calibration_error(Y, LEVELS, bins=cb.Distinct())
    assert not result.is_lower_bound
    assert "lower bound" not in str(result)
    assert "11 distinct-value bins" in str(result)


def test_ties_that_leave_fewer_bins_are_printed():
    assert "11 of 50 uniform-mass bins" in str(cb.calibration_error(Y, LEVELS, bins=50))


def test_rows_alone_in_their_bin_make_a_debiased_error_a_lower_bound():
    y, p = [0, 1, 1, 0, 1], [0.2, 0.2, 0.5, 0.9, 0.9]
    result = cb.calibration_error(y, p, bins=cb.Distinct())
    assert result.unresolved_mass == pytest.approx(0.2)
    assert result.is_lower_bound
    assert "some rows are alone in their bin" in str(result)
    assert "0.2 of the rows alone in their bin" in str(result)
    assert not cb.calibration_error(y, p, bins=cb.Distinct(), debias=False).is_lower_bound


def test_an_interval_over_many_lonely_rows_warns():
    result = cb.calibration_error(Y[:50], P[:50], bins=cb.Distinct())
    with pytest.warns(ex.UnresolvedWarning, match="100% of the rows sit alone"):
        result.confidence_interval()
    assert "[" in str(result), "printing does not warn"


def test_results_become_json():
    result = cb.calibration_error(Y, P, norm="l1")
    document = json.loads(result.to_json())
    low, high = result.confidence_interval()
    assert document["value"] == result.value == float(result)
    assert document["confidence_interval"] == [low, high]
    assert (document["norm"], document["n"], document["squared"]) == ("l1", 2000, None)
    assert document["is_lower_bound"] is True


def test_marginal_results_have_every_class():
    probs = RNG.dirichlet(np.ones(3), size=500)
    y = np.array(["a", "b", "c"])[RNG.integers(3, size=500)]
    result = cb.calibration_error(y, probs, kind="marginal", classes=["a", "b", "c"])
    alone = cb.calibration_error(y == "b", probs[:, 1], bins=result.table.bins[1])
    assert result.per_class["b"] == pytest.approx(alone.value, abs=1e-12)
    assert json.loads(result.to_json())["per_class"]["b"] == result.per_class["b"]
    worst = cb.calibration_error(y, probs, kind="marginal", classes=["a", "b", "c"], norm="max")
    assert worst.value == max(worst.per_class.values())


def test_class_weights_pick_and_average_classes():
    probs = RNG.dirichlet(np.ones(3), size=500)
    y = RNG.integers(3, size=500)

    def error(weight):
        return cb.calibration_error(y, probs, kind="marginal", class_weight=weight, bins=10)

    squares = [error({k: 1}).squared for k in range(3)]
    assert error(None).squared == pytest.approx(np.mean(squares))
    assert error([1, 2, 5]).squared == pytest.approx(np.dot(squares, [1, 2, 5]) / 8)
    assert error({0: 3, 2: 1}).squared == pytest.approx((3 * squares[0] + squares[2]) / 4)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ({"x": 1}, "names 'x'"),
        ([1, 2], "one value for each of the 3 classes"),
        ([1, -1, 1], "not negative"),
        ([0, 0, 0], "not all zero"),
        ([1, np.nan, 1], "finite"),
    ],
)
def test_bad_class_weights_are_refused(weight, message):
    with pytest.raises(ex.InvalidWeightsError, match=message):
        cb.calibration_error(Y, np.full((2000, 3), 0.3), kind="marginal", class_weight=weight)


@pytest.mark.parametrize("norm", ["l0", "ece", 0.5, -1, True, float("nan")])
def test_unknown_norms_are_refused(norm):
    with pytest.raises(ex.InvalidArgumentError, match="norm must be"):
        cb.calibration_error(Y, P, norm=norm)


@pytest.mark.parametrize("norm", ["max", 3, 1.5])
def test_debiasing_that_does_not_exist_is_refused(norm):
    with pytest.raises(ex.NoSuchEstimatorError, match="No debiased estimator is known"):
        cb.calibration_error(Y, P, norm=norm, debias=True)


@pytest.mark.parametrize("level", [95, 0, 1, -0.5, float("nan")])
def test_levels_are_fractions(level):
    with pytest.raises(ex.InvalidArgumentError, match="between 0 and 1.*Write 0.95 for 95 percent"):
        cb.calibration_error(Y, P).confidence_interval(level)


@pytest.mark.parametrize(
    ("norm", "method", "error"),
    [
        ("l1", "score", ex.NoSuchEstimatorError),
        ("l2", "normal", ex.NoSuchEstimatorError),
        ("l2", "wald", ex.InvalidArgumentError),
    ],
)
def test_intervals_that_do_not_exist_are_refused(norm, method, error):
    with pytest.raises(error, match="method"):
        cb.calibration_error(Y, P, norm=norm).confidence_interval(method=method)


def test_an_unknown_target_is_refused():
    with pytest.raises(ex.InvalidArgumentError, match="target must be"):
        cb.calibration_error(Y, P).confidence_interval(target="both")


def test_every_measure_also_takes_a_table():
    table = cb.tabulate(Y, P, bins=10)
    assert cb.stats.calibration_error(table).value == cb.calibration_error(Y, P, bins=10).value
    assert cb.stats.brier_decomposition(table) == cb.brier_decomposition(Y, P, bins=10)
    a, b = cb.stats.reliability_curve(table), cb.reliability_curve(Y, P, bins=10)
    assert a.to_dict() == b.to_dict()


def test_a_reliability_curve_has_limits_that_do_not_collapse():
    curve = cb.reliability_curve(
        [0, 0, 1, 1], [0.1, 0.2, 0.8, 0.9], bins=cb.EqualWidth(2), simultaneous=False
    )
    assert curve.low.tolist() == pytest.approx([0, 0.15811388])
    assert curve.high.tolist() == pytest.approx([0.84188612, 1])
    assert len(str(curve).splitlines()) == len(curve) + 1 == 3


def test_simultaneous_limits_are_wider():
    each = cb.reliability_curve(Y, P, bins=10, simultaneous=False)
    joint = cb.reliability_curve(Y, P, bins=10)
    assert np.all(joint.high - joint.low > each.high - each.low)
    assert joint.is_simultaneous


def test_a_reliability_curve_leaves_out_empty_bins_and_keeps_their_neighbours_edges():
    curve = cb.reliability_curve([0, 1], [0.1, 0.9], bins=cb.EqualWidth(4))
    assert (curve.left.tolist(), curve.right.tolist()) == ([0, 0.75], [0.25, 1])


def test_the_curve_of_one_class_is_that_of_its_binary_problem():
    probs = RNG.dirichlet(np.ones(3), size=500)
    y = RNG.integers(3, size=500)
    one = cb.reliability_curve(y, probs, kind="marginal", class_label=2, bins=5)
    alone = cb.reliability_curve(y == 2, probs[:, 2], bins=5)
    assert one.to_dict() == alone.to_dict()
    with pytest.raises(ex.InvalidArgumentError, match="class_label must be one of"):
        cb.reliability_curve(y, probs, kind="marginal", bins=5)
    with pytest.raises(ex.InvalidArgumentError, match="class_label applies to"):
        cb.reliability_curve(Y, P, class_label=1)
