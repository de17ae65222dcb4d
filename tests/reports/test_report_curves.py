"""Curves of a report: the limits of the library, in a bounded number of bins."""

from __future__ import annotations

import pytest
import report_data

import calibrant
from calibrant import stats
from calibrant.reports.curves import curve_of, joined


def test_joining_bins_keeps_every_sum_and_the_outer_edges():
    y, p = report_data.event_rows(5000, 1.0, 7)
    table = calibrant.tabulate(y, p, bins=50)
    few = joined(table, 12)
    assert few.count.shape == (1, 12)
    for name in ("count", "sum_y", "sum_p", "sum_pp", "sum_py", "sum_w"):
        assert getattr(few, name).sum() == pytest.approx(getattr(table, name).sum())
    again = calibrant.tabulate(y, p, bins=few.bins[0])
    assert few.count.tolist() == again.count.tolist()
    assert few.sum_wwuu == pytest.approx(again.sum_wwuu)
    assert joined(table, 50) is table


def test_a_curve_has_the_limits_of_the_reliability_curve():
    y, p = report_data.event_rows(2000, 1.0, 8)
    table = calibrant.tabulate(y, p, bins=10)
    curve = curve_of(table, None, 0.9)
    alone = stats.reliability_curve(table, confidence_level=0.9, simultaneous=False)
    at_once = stats.reliability_curve(table, confidence_level=0.9, simultaneous=True)
    assert curve.alone.low.tolist() == alone.low.tolist()
    assert curve.at_once.high.tolist() == at_once.high.tolist()
    assert curve.alone.count.tolist() == alone.count.tolist()
