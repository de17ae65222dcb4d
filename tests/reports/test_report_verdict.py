"""The model before and after its repair on one page."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
import report_data

import calibrant
from calibrant import report
from calibrant.cli import main
from calibrant.exceptions import InvalidArgumentError, InvalidInputError


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch):
    """Plan for one limit instead of three: each takes a second."""
    monkeypatch.setattr("calibrant.reports.findings.TOLERANCES", (0.3,))


@cache
def states():
    """Return labels, and predictions of nine outputs before and after the repair."""
    rng = np.random.default_rng(0)
    after = rng.integers(1, 10, size=4000) / 10
    return rng.uniform(size=4000) < after, after**3, after


def test_before_and_after_are_what_reports_of_each_would_say():
    y, before, after = states()
    made = report(y, after, before=before, max_error=0.08)
    alone = report(y, before, max_error=0.08).findings
    assert made.findings.certificate.verdict == "certified"
    assert made.findings.before.certificate.verdict == "refuted"
    assert made.findings.before.error.value == alone.error.value
    assert made.findings.before.certificate.to_dict() == alone.certificate.to_dict()
    assert made.findings.before.gain is None  # only what is left to gain is worth a word
    assert made.to_dict()["before"]["verdict"] == "refuted"
    assert "Before the repair it was off by about" in made.summary


def test_the_first_screen_has_both_diagrams_on_the_same_axes():
    y, before, after = states()
    made = report(y, after, before=before, max_error=0.08)
    card = made.html.split('id="verdict"')[1].split("</section>")[0]
    assert "before: refuted" in card
    assert card.count(" →\N{NO-BREAK SPACE}") == 3
    first, last = re.findall(r'class="end tick tick-5">([^<]+)<', card)
    assert first == last
    ids = re.findall(r'<section id="([a-z]+)"', made.html)
    assert ids[:3] == ["verdict", "changed", "diagram"]


def test_several_classes_have_numbers_before_and_after_without_diagrams():
    labels, sharp = report_data.class_rows(800, 4, 1.5, 5)
    soft = sharp**0.66
    soft /= soft.sum(axis=1, keepdims=True)
    made = report(labels, soft, before=sharp, kind="marginal")
    card = made.html.split('id="verdict"')[1].split("</section>")[0]
    assert 'class="diagram"' not in card
    assert "What the repair changed" in made.html


def test_columns_of_a_frame_are_named_as_those_of_the_predictions():
    y, before, after = states()
    frame = {"y": y.astype(int), "raw": before, "repaired": after}
    made = report("y", "repaired", data=frame, before="raw")
    assert made.findings.before.error.value == report(y, before).findings.error.value
    assert "before=&#x27;raw&#x27;" in made.html


def test_the_command_takes_the_columns_of_before(tmp_path, capsys):
    y, before, after = states()
    np.savez(tmp_path / "rows.npz", y=y, raw=before, repaired=after)
    page = tmp_path / "a.html"
    columns = ("--y-true", "y", "--y-prob", "repaired", "--before", "raw")
    assert main(["report", str(tmp_path / "rows.npz"), *columns, "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "What the repair changed" in text
    assert "--before raw" in text
    assert "Before the repair" in capsys.readouterr().out


def test_predictions_of_other_rows_or_of_another_kind_are_refused():
    y, before, after = states()
    with pytest.raises(InvalidInputError):
        report(y, after, before=before[:-1])
    with pytest.raises(InvalidArgumentError, match="before= must be predictions of the same kind"):
        report([0, 1, 0], np.eye(3), before=[0.2, 0.3, 0.4])
    table = calibrant.tabulate(y, after, bins="distinct")
    with pytest.raises(InvalidArgumentError, match="before= needs the rows"):
        report(table, before=before)
