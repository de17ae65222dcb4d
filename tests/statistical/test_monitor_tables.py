"""False alarms and delays of monitors are what their page says, and what was promised."""

from __future__ import annotations

import math

import numpy as np
import pytest
from make_monitor_tables import (
    DRIFTS,
    PAGE,
    RUNS,
    SPREAD,
    THEIRS,
    Ours,
    calibrated,
    days,
    mean_delay,
    study,
    years_with_alarm,
)
from pages import tables_of

import calibrant as cb

EXACT, TOLERANT = "CalibrationMonitor(max_error=0)", "CalibrationMonitor(max_error=0.01)"


def said():
    return tables_of(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_every_table_and_no_other():
    tables = said()
    assert list(tables) == list(study())
    for title, table in study().items():
        assert list(tables[title]) == list(table)


def test_no_more_years_have_a_false_alarm_than_promised_where_repeated_tests_lie():
    table = said()["Years with a false alarm"]
    limit = 0.05 + 3 * math.sqrt(0.05 / RUNS["years"])
    for name, row in table.items():
        shares = [share for cell in row.values() for share in cell]
        if name.startswith("CalibrationMonitor"):
            assert max(shares) <= limit
    assert table["test of the day, every day"]["calibrated"] == [1.0]
    assert table["test of all rows so far, every day"]["calibrated"][0] > 0.3


def test_a_drift_in_log_odds_is_seen_nearly_as_soon_as_by_a_monitor_of_nothing_else():
    tables = said()
    first = tables["Days to an alarm, drift from the first day on"]
    later = tables["Days to an alarm, drift from day 31 on"]
    for drift in DRIFTS:
        column = f"shift {drift}"
        assert first[EXACT][column][0] <= 1.3 * first[THEIRS][column][0]
        assert later[EXACT][column][0] <= 1.3 * later[THEIRS][column][0]


def test_other_shapes_are_seen_where_a_monitor_of_log_odds_and_bonferroni_are_slow():
    table = said()["Days to an alarm, drift from day 31 on"]
    for shape in ("slope", "one bin"):
        for drift in DRIFTS[:2]:
            column = f"{shape} {drift}"
            slow = min(table[THEIRS][column][0], table["test of the day, Bonferroni"][column][0])
            assert table[EXACT][column][0] < slow


@pytest.mark.parametrize("options", [{"max_error": 0.0}, {"max_error": 0.01}, {"reference": 2000}])
def test_the_simulated_monitor_is_the_public_one(options):
    rng = np.random.default_rng(5)
    if "reference" in options:
        y, p = (np.concatenate(x) for x in zip(*_first(rng, 2), strict=True))
        options = {"reference": cb.tabulate(y, p, bins=10)}
    public, lean = cb.CalibrationMonitor(**options), Ours(**options)
    for y, p in _first(rng, 6):
        assert lean.look(y, p) == public.update(y, p).alarm
        assert lean.log_evidence == pytest.approx(public.batches[-1].log_evidence, rel=1e-9)


def _first(rng, n):
    stream = days(rng, calibrated, SPREAD)
    return [next(stream) for _ in range(n)]


@pytest.mark.slow
def test_the_page_reports_what_a_fresh_simulation_gives():
    assert years_with_alarm(EXACT, calibrated, SPREAD, 10) <= 0.2
    for name, column in ((EXACT, "slope 0.05"), (TOLERANT, "shift 0.05")):
        shape, drift = column.rsplit(" ", 1)
        told = said()["Days to an alarm, drift from day 31 on"][name][column][0]
        assert mean_delay(name, shape, float(drift), 30, 10) == pytest.approx(told, rel=0.5, abs=1)
