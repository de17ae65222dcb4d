"""Curves of a report have the limits of the library."""

from __future__ import annotations

import report_data

import calibrant
from calibrant import stats
from calibrant.reports.curves import curve_of


def test_a_curve_has_the_limits_of_the_reliability_curve():
    y, p = report_data.event_rows(2000, 1.0, 8)
    table = calibrant.tabulate(y, p, bins=10)
    curve = curve_of(table, None, 0.9)
    alone = stats.reliability_curve(table, confidence_level=0.9, simultaneous=False)
    at_once = stats.reliability_curve(table, confidence_level=0.9, simultaneous=True)
    assert curve.alone.low.tolist() == alone.low.tolist()
    assert curve.at_once.high.tolist() == at_once.high.tolist()
    assert curve.alone.count.tolist() == alone.count.tolist()
