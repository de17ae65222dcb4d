"""The numbers of a curve are those of stats."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import many_classes, rows

from calibrant import Distinct, EqualWidth, stats, tabulate
from calibrant.display import ReliabilityDisplay
from calibrant.stats import consistency_limits, isotonic_curve

pytestmark = pytest.mark.usefixtures("closed_figures")


@pytest.mark.parametrize("simultaneous", [True, False])
@pytest.mark.parametrize("bins", ["auto", 1, 7, EqualWidth(10), Distinct()])
def test_the_numbers_are_those_of_stats(bins, simultaneous):
    y, p = rows(300)
    how = {"confidence_level": 0.9, "simultaneous": simultaneous}
    display = ReliabilityDisplay.from_predictions(y, p, bins=bins, draw=False, **how)
    table = tabulate(y, p, bins=bins)
    curve = stats.reliability_curve(table, **how)
    shown = display.curves[0]
    for name in ("count", "mean_prediction", "event_rate", "low", "high", "left", "right"):
        np.testing.assert_array_equal(getattr(shown.curve, name), getattr(curve, name))
    np.testing.assert_array_equal(shown.consistency, consistency_limits(table, **how))
    error = stats.calibration_error(table)
    assert shown.error.value == error.value
    if error.unresolved_mass == 0:
        assert shown.interval == error.confidence_interval(0.9)


def test_the_isotonic_numbers_are_those_of_distinct_predictions():
    y, p = rows(400)
    shown = ReliabilityDisplay.from_predictions(y, p, isotonic=True, draw=False).curves[0]
    expected = isotonic_curve(tabulate(y, p, bins=Distinct()))
    np.testing.assert_array_equal(shown.isotonic.event_rate, expected.event_rate)
    assert shown.isotonic.brier == expected.brier
    assert shown.isotonic.is_exact


def test_a_table_gives_the_isotonic_curve_of_its_own_bins():
    table = tabulate(*rows(), bins=10)
    shown = ReliabilityDisplay.from_table(table, isotonic=True, draw=False).curves[0]
    assert len(shown.isotonic) == 10
    assert not shown.isotonic.is_exact


def test_bars_do_not_collapse_where_all_rows_agree():
    y, p = np.repeat([0, 1], 50), np.repeat([0.02, 0.98], 50)
    curve = ReliabilityDisplay.from_predictions(y, p, bins=Distinct(), draw=False).curves[0].curve
    assert curve.high[0] > 0.05
    assert curve.low[1] < 0.95


def test_the_error_line_marks_lower_bounds_and_rows_alone_in_their_bin():
    y, p = rows()
    bound = ReliabilityDisplay.from_predictions(y, p, draw=False).curves[0]
    exact = ReliabilityDisplay.from_predictions(y, p.round(1), bins=Distinct(), draw=False)
    alone = ReliabilityDisplay.from_predictions(y, p, bins=Distinct(), draw=False)
    assert bound.error_line.startswith("l2 error ≥ 0.0")
    assert exact.curves[0].error_line.startswith("l2 error = 0.0")
    assert alone.curves[0].alone_line == "100% of the rows alone in their bin"
    assert bound.alone_line == ""


def test_a_pvalue_below_the_smallest_number_is_not_zero():
    p = np.linspace(0.05, 0.95, 3000)
    display = ReliabilityDisplay.from_predictions(
        np.zeros(3000), p, method="spline", draw=False
    ).curves[0]
    assert display.curve.pvalue == 0
    assert display.pvalue_line == "spline, p < 1e-300"
    assert "p < 1e-300 if calibrated" in str(display.curve)


def test_one_class_of_a_marginal_problem_has_its_own_curve_and_error():
    y, probs = many_classes()
    how = {"kind": "marginal", "class_label": 3, "isotonic": True, "draw": False}
    shown = ReliabilityDisplay.from_predictions(y, probs, **how).curves[0]
    table = tabulate(y == 3, probs[:, 3])
    binary = stats.reliability_curve(table, simultaneous=True)
    np.testing.assert_allclose(shown.curve.event_rate, binary.event_rate)
    assert shown.error.value == pytest.approx(stats.calibration_error(table).value)
    assert shown.isotonic.brier.value == pytest.approx(np.mean(((y == 3) - probs[:, 3]) ** 2))
