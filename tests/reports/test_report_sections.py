"""The sections of a report: the error and its bounds, and where all came from."""

from __future__ import annotations

import numpy as np
import pytest
import report_data

import calibrant
from calibrant import report
from calibrant.exceptions import InvalidArgumentError


def test_versions_the_command_and_the_day_are_named(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    made = report([0, 1] * 30, [0.3, 0.6] * 30, command="calibrant report a.csv", kind="binary")
    assert "14 November 2023" in made.html
    for expected in (calibrant.__version__, np.__version__, "calibrant report a.csv"):
        assert expected in made.html
    assert f"{made.findings.fingerprint.checksum:016x}" in made.html


@pytest.mark.parametrize(
    "day", ["soon", "-1", " 5", "1.5", "²", "253402300800", "9" * 20, "9" * 5000]
)
def test_a_day_that_no_calendar_has_is_refused(monkeypatch, day):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
    with pytest.raises(InvalidArgumentError, match="SOURCE_DATE_EPOCH must be a whole number"):
        report([0, 1] * 30, [0.3, 0.6] * 30)


@pytest.mark.parametrize(("day", "words"), [("0", "1 January 1970"), ("253402300799", "9999")])
def test_the_first_and_the_last_day_of_the_calendar_are_days(monkeypatch, day, words):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", day)
    assert words in report([0, 1] * 30, [0.3, 0.6] * 30).html


def test_without_a_command_the_call_is_named():
    made = report([0, 1] * 30, [0.3, 0.6] * 30, max_error=0.2)
    assert "calibrant.report(y_true, y_prob, max_error=0.2)" in made.html


def test_the_numbers_of_the_findings_are_on_the_page():
    made = report_data.certified()
    parts = made.findings.brier
    for value in (parts.value, parts.miscalibration, parts.discrimination, parts.uncertainty):
        assert f">{value:.4f}<" in made.html
    for limit, rows in made.findings.plan.needed:
        assert f"<td>{rows:,}</td>" in made.html, limit
    for sentence in made.findings.certificate.assumptions:
        assert sentence in made.html


def test_bounds_stand_beside_the_interval_and_a_sentence_says_why_they_differ():
    for made in (report_data.refuted(), report_data.certified(), report_data.marginal()):
        part = made.html.split('id="error"')[1].split("</section>")[0]
        assert 'class="proved"' in part
        assert (
            "two-sided and an approximation for many rows; a bound is one-sided and exact" in part
        )
    proof = report_data.certified().findings.certificate
    part = report_data.certified().html.split('id="error"')[1]
    assert f"at most {100 * proof.upper_bound:.2f}, each with 95% confidence" in part
