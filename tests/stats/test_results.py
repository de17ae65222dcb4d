"""Results say what they are."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

RNG = np.random.default_rng(21)
P = RNG.uniform(size=2000)
Y = RNG.uniform(size=2000) < P**1.3
LEVELS = np.round(P, 1)
WORSE = RNG.uniform(size=2000) < P**3


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
    assert "20% of the rows alone in their bin" in str(result)
    assert "100% of the rows alone in their bin" in str(cb.calibration_error([1], [0.5]))
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
    for name, value in alone.to_dict().items():
        expected = value if isinstance(value, str | None) else pytest.approx(value, rel=1e-12)
        assert one.to_dict()[name] == expected, name
    with pytest.raises(ex.InvalidArgumentError, match="class_label must be one of"):
        cb.reliability_curve(y, probs, kind="marginal", bins=5)
    with pytest.raises(ex.InvalidArgumentError, match="class_label applies to"):
        cb.reliability_curve(Y, P, class_label=1)


@pytest.fixture(scope="module")
def result():
    return cb.calibration_error(Y, P, bins=10)


@pytest.mark.parametrize("spec", [".3f", ".1%", "e", ">12.4f", "g"])
def test_formats_are_those_of_the_number(result, spec):
    assert f"{result:{spec}}" == f"{result.value:{spec}}"


def test_no_format_is_the_whole_line(result):
    assert f"{result}" == str(result)
    with pytest.raises(ValueError, match="format code"):
        f"{result:d}"


def test_rounding_is_that_of_the_number(result):
    assert round(result, 3) == round(result.value, 3)
    assert round(result) == 0
    assert isinstance(round(result), int)
    assert math.isclose(result, result.value)


@pytest.mark.parametrize("convert", [float, np.float64, np.float32, Fraction])
def test_results_compare_with_numbers_on_either_side(result, convert):
    below, above = convert(result.value - 0.01), convert(result.value + 0.01)
    assert below < result < above
    assert below <= result <= above
    assert above > result > below
    assert above >= result >= below
    assert result not in (below, above)
    assert [result < below, result > above, result <= below, result >= above] == [False] * 4


def test_a_result_equals_its_value_and_hashes_like_it(result):
    assert result == result.value == result
    assert result.value == result
    assert {result.value: "found"}[result] == "found"
    assert result.value <= result <= result.value
    assert result != result.value + 0.1


def test_nothing_is_larger_smaller_or_equal_to_nan(result):
    nan = float("nan")
    assert [result < nan, result <= nan, result > nan, result >= nan, result == nan] == [False] * 5


def test_results_of_one_norm_compare_by_value(result):
    worse = cb.calibration_error(WORSE, P, bins=10)
    assert result < worse
    assert result <= worse
    assert worse > result
    assert worse >= result
    assert sorted([worse, result]) == [result, worse]
    assert max([result, worse], key=float) is worse
    assert cb.calibration_error(Y, P, bins=10) == result


def test_results_of_different_norms_are_neither_equal_nor_ordered():
    y, p = [0, 1], [0.5, 0.5]
    a, b = (cb.calibration_error(y, p, norm=norm, debias=False) for norm in ("l1", "l2"))
    assert a.value == b.value
    assert a != b
    with pytest.raises(ex.InvalidArgumentError, match=r"same norm .* l1 and l2\. Measure both"):
        a < b  # noqa: B015


@pytest.mark.parametrize("other", ["0.1", None, [0.1], 0.1j])
def test_what_is_no_number_does_not_compare(result, other):
    assert other != result
    with pytest.raises(TypeError):
        result < other  # noqa: B015


def test_arrays_compare_element_by_element(result):
    assert (np.array([0.0, 1.0]) > result).tolist() == [False, True]


def test_a_lower_bound_formats_and_rounds_too():
    bound = cb.prequential_lower_bound(Y.astype(float), P)
    assert (f"{bound:.3f}", f"{bound}") == (f"{bound.value:.3f}", str(bound))
    assert round(bound, 3) == round(bound.value, 3)
    assert 0 < bound < 1


def test_a_notebook_shows_a_small_table(result):
    shown = result._repr_html_()
    low, high = result.confidence_interval()
    assert shown.startswith("<table><tr><th>binary l2 error</th>")
    assert f"<td>{result.value:.4f}</td>" in shown
    assert f"<td>{low:.4f} to {high:.4f}</td>" in shown
    assert "lower bound: bins mix different predictions" in shown


def test_a_notebook_runs_nothing_that_a_name_contains():
    hostile = cb.Bins([0.0, 0.5, 1.0], rule="<script>alert(1)</script>")
    shown = cb.calibration_error(Y, P, bins=hostile)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
