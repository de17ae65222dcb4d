"""Sizes and powers of the tests of calibration are what their page says."""

from __future__ import annotations

import math

import pytest
from blocks import samples_of
from make_test_tables import EXACT, LEVELS, PAGE, study
from pages import END, START, tables_of


def said():
    return tables_of(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_table_and_no_other():
    tables = said()
    assert list(tables) == list(study())
    for title, table in study().items():
        assert list(tables[title]) == list(table)


def test_exact_tests_reject_calibrated_models_no_more_often_than_they_say():
    runs = samples_of(PAGE.read_text(encoding="utf-8"), START, END)[0]
    for method in EXACT:
        for shares in said()["Size"][method].values():
            for share, level in zip(shares, LEVELS, strict=True):
                assert share <= level + 3.5 * math.sqrt(level / runs)


def test_the_default_is_twice_as_powerful_as_the_plain_squared_error():
    table = said()["Power, spread predictions"]
    assert table["exact"]["slope 0.8 1,000"][0] >= 0.6
    assert table["exact"]["slope 0.8 1,000"][0] >= 1.8 * table["l2"]["slope 0.8 1,000"][0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "method", "column"),
    [
        ("Size", "hosmer-lemeshow", "rare 100"),
        ("Size", "exact", "confident 1,000"),
        ("Power, spread predictions", "exact", "slope 0.8 1,000"),
        ("Power, rare predictions", "adaptive", "slope 0.8 100"),
    ],
)
def test_the_page_reports_what_a_fresh_simulation_gives(title, method, column):
    value, runs = said()[title][method][column][0], 300
    fresh = study()[title][method][column].shares(runs, seed=1000)[0]
    assert fresh == pytest.approx(value, abs=4 * math.sqrt(max(value, 0.02) / runs))
