"""What docs/coverage.md says of validations and curves is what was simulated, and is promised."""

from __future__ import annotations

import re

import make_curve_tables
import make_validation_tables as tables
import pytest
from blocks import samples_of

PAGE = tables.PAGE.read_text(encoding="utf-8")
ALWAYS = {"mean_prediction", "observed_rate", "oe_ratio", "in_the_large", "intercept", "slope"}
ALWAYS |= {"c_statistic"}
"""Measures whose intervals need no number of events."""


def rows_between(start, end):
    lines = PAGE.split(start)[1].split(end)[0].strip().splitlines()
    rows = [line.split("|")[1:-1] for line in lines if line.startswith("| ")]
    return {row[0].strip(): row[1:] for row in rows[1:]}


def least(nominal, runs):
    """1.5 points under nominal, and what chance may add."""
    return nominal - 0.015 - 3 * (nominal * (1 - nominal) / runs) ** 0.5


def samples_of_row(row, said):
    """Return the samples of a row, some of which may have more than others."""
    (runs,) = re.findall(r"([\d,]+) samples a cell", said)
    more = re.search(r"and ([\d,]+) without weights and clusters below ([\d,]+) rows", said)
    rows = re.search(r"([\d,]+) rows", row)[1]
    plain = not row.endswith(("weights", "clusters"))
    if more and plain and number(rows) < number(more[2]):
        runs = more[1]
    return number(runs)


def number(text):
    return int(text.replace(",", ""))


def test_rows_have_as_many_samples_as_the_page_says():
    said = "200 samples a cell, and 400 without weights and clusters below 3,000 rows."
    assert samples_of_row("calibrated, 2,000 rows, 499 events", said) == 400
    assert samples_of_row("calibrated, 3,000 rows, 91 events", said) == 200
    assert samples_of_row("too high, 1,000 rows, 167 events, weights", said) == 200
    assert samples_of_row("calibrated, 60 rows, 15 events", "2,000 samples a cell.") == 2_000


@pytest.mark.parametrize("row", rows_between(tables.START, tables.END))
def test_intervals_of_a_validation_cover_where_no_note_says_otherwise(row):
    *shares, noted = map(float, rows_between(tables.START, tables.END)[row])
    runs = samples_of_row(row, PAGE.split(tables.START)[1].split(tables.END)[0])
    for name, share in zip(tables.NAMES, shares, strict=True):
        if name in ALWAYS or noted < 0.5:
            assert share >= least(0.95, runs), name


@pytest.mark.parametrize("row", rows_between(make_curve_tables.START, make_curve_tables.END))
def test_bands_of_curves_hold(row):
    cells = rows_between(make_curve_tables.START, make_curve_tables.END)[row]
    (runs,) = samples_of(PAGE, make_curve_tables.START, make_curve_tables.END)
    runs = min(runs, make_curve_tables.RARE_RUNS) if row.endswith("3%") else runs
    for method, cell in zip(make_curve_tables.METHODS, cells, strict=True):
        everywhere, somewhere = map(float, cell.split(" / "))
        assert everywhere >= least(0.95, runs), method
        assert somewhere >= least(0.95, runs), method


SIZES = rows_between(make_curve_tables.TEST_START, make_curve_tables.TEST_END)


@pytest.mark.parametrize("row", [row for row in SIZES if row.startswith("calibrated")])
def test_tests_of_curves_reject_calibrated_models_as_often_as_they_say(row):
    (runs,) = samples_of(PAGE, make_curve_tables.TEST_START, make_curve_tables.TEST_END)
    for method, share in zip(make_curve_tables.METHODS[1:], SIZES[row], strict=True):
        assert float(share) <= 0.05 + 0.015 + 3 * (0.05 * 0.95 / runs) ** 0.5, method


def test_a_small_share_of_the_simulation_agrees():
    *shares, noted = tables.coverage("too extreme", "25%", 300, runs=12, seed=1000)
    assert noted == 0
    assert min(shares) >= 0.66
    *shares, _ = tables.coverage("too extreme", "25%", 1000, "weights and clusters", 12, 1000)
    assert min(shares) >= 0.66
    for method in make_curve_tables.METHODS:
        runs = 3 if method == "isotonic" else 10
        held, _ = make_curve_tables.shares(method, "calibrated", "25%", 100, runs, seed=1000)
        assert held >= 0.6, method
    (rejected,) = make_curve_tables.rejections("spline", "calibrated", "3%", 3000, 20, seed=1000)
    assert rejected <= 0.25  # more than 5 of 20: 3e-4
