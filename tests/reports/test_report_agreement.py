"""Interval, verdict, groups and classes: what they say agrees, or a sentence says why not."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import report_data

from calibrant import Bins, report
from calibrant.cli import main

DIFFERS = re.compile(r"^The [\d.]+% interval (lies|holds) .*$", re.MULTILINE)
AGREEING = {("certified", "within"), ("refuted", "beyond"), ("undecided", "across")}


@pytest.fixture(autouse=True)
def quick_plans(monkeypatch):
    """Plan for one limit instead of three: each takes a second."""
    monkeypatch.setattr("calibrant.reports.findings.TOLERANCES", (0.3,))


def outputs(n, error, seed, steps=10):
    """Return labels and outputs on a grid, nine by default, that say too much by `error`."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, steps, size=n) / steps
    return rng.uniform(size=n) < p - error, p


def said_about_the_interval(made):
    """Return what the report says about interval and verdict, and whether these agree."""
    proof, (low, high) = made.findings.certificate, made.findings.interval
    limit = proof.max_error
    side = "beyond" if low > limit else "within" if high <= limit else "across"
    found = DIFFERS.search(made.summary)
    assert (found is None) == ((proof.verdict, side) in AGREEING)
    if found is not None:
        assert f"<li>{found[0]}</li>" in made.html
    return proof.verdict, side, found and found[0]


def test_an_interval_beyond_the_limit_of_an_undecided_verdict_is_explained():
    rows = outputs(3000, 0.06, 1)
    found = report(*rows, max_error=0.3).findings
    limit = (found.certificate.lower_bound + found.interval.low) / 2
    made = report(*rows, max_error=limit)
    assert said_about_the_interval(made) == (
        "undecided",
        "beyond",
        "The 95% interval lies beyond the limit, but that proves nothing: it is two-sided and "
        "approximate, and the verdict rests on an exact bound.",
    )


def test_an_interval_within_the_limit_of_an_undecided_verdict_is_explained():
    rows = outputs(3000, 0.0, 2, steps=50)  # an exact bound pays more for many outputs
    found = report(*rows, max_error=0.3).findings
    limit = (found.certificate.upper_bound + found.interval.high) / 2
    assert said_about_the_interval(report(*rows, max_error=limit)) == (
        "undecided",
        "within",
        "The 95% interval lies within the limit, but that proves nothing: it is two-sided and "
        "approximate, and the verdict rests on an exact bound.",
    )


def test_the_command_prints_the_sentence_as_json_too(tmp_path, capsys):
    y, p = outputs(3000, 0.06, 1)
    np.savez(tmp_path / "rows.npz", y=y, p=p)
    columns = ("--y-true", "y", "--y-prob", "p", "--max-error", "0.045")
    main(["report", str(tmp_path / "rows.npz"), *columns, "--json", "-o", str(tmp_path / "a.html")])
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "undecided"
    assert found["error"]["confidence_interval"][0] > found["max_error"]
    assert any(DIFFERS.search(line) for line in found["summary"])


def test_groups_that_hide_errors_are_named_as_the_reason():
    made = report(*report_data.event_rows(500, 1.0, 1), max_error=0.3)
    verdict, side, sentence = said_about_the_interval(made)
    assert (verdict, side) == ("undecided", "within")
    assert sentence.endswith(
        "it is about groups of similar predictions, inside which errors can cancel."
    )


def test_bins_that_differ_are_named_as_the_reason():
    rng = np.random.default_rng(3)
    p = rng.integers(1, 10, size=4000) / 10
    y = rng.uniform(size=4000) < 0.5  # off at both ends, right on average
    made = report(y, p, bins=Bins([0.0, 1.0]), max_error=0.1)
    assert said_about_the_interval(made) == (
        "refuted",
        "within",
        "The 95% interval lies within the limit: it is about 1 bin, and the verdict about "
        "9 distinct-value bins.",
    )


def test_labels_that_agree_too_well_are_named_as_the_reason():
    p = np.repeat(np.arange(1, 40) / 40, 4000)
    y = np.concatenate([np.arange(4000) % 40 < k for k in range(1, 40)])
    verdict, side, sentence = said_about_the_interval(report(y, p, max_error=0.02))
    assert (verdict, side) == ("undecided", "within")
    assert sentence.endswith("it takes these labels at their word.")


@pytest.mark.parametrize("level", [0.3, 0.95])
@pytest.mark.parametrize("error", [0.0, 0.05])
def test_whatever_the_limit_a_difference_has_its_sentence(level, error):
    rows = outputs(1500, error, 4)
    seen = {
        said_about_the_interval(report(*rows, max_error=limit, confidence_level=level))[:2]
        for limit in (0.01, 0.03, 0.05, 0.08, 0.2)
    }
    assert len(seen) > 1


def happened(levels, rates, rows):
    """Return labels and predictions: each level said `rows` times, at the given event rate."""
    y = np.concatenate([np.arange(rows) < round(rate * rows) for rate in rates])
    return y, np.repeat(levels, rows)


def test_a_report_that_finds_a_group_beyond_chance_does_not_say_that_nothing_was_found():
    levels = np.arange(1, 50) / 50
    rates = levels.copy()
    rates[25] += 0.2
    made = report(*happened(levels, rates, 100))
    assert made.findings.interval.low == 0
    assert made.findings.curve.beyond_chance.sum() == 1
    assert "No error can be told from chance" not in made.summary
    assert (
        "All groups together stay within what chance allows, but not every single one: in 100"
        in (made.summary)
    )


def test_an_error_of_no_single_group_is_one_of_all_groups_together():
    levels = np.arange(10, 50) / 60
    made = report(*happened(levels, levels + 0.04, 200))
    assert made.findings.interval.low > 0
    assert not made.findings.curve.beyond_chance.any()
    assert "leave the range that chance allows, but all groups together do." in made.summary


def test_an_error_of_no_single_class_is_one_of_all_classes_together():
    labels, probs = report_data.class_rows(20_000, 12, 1.0, 11)
    probs = 0.93 * probs + 0.07 / 12  # a little too timid in every class
    made = report(labels, probs, kind="marginal", bins=40)
    n = int(made.findings.classes.beyond_chance.sum())
    assert made.findings.interval.low > 0
    told = "None of the 12 classes is off by more than chance allows, but all together are."
    assert (told in made.summary) == (n == 0)


@pytest.mark.parametrize("sharper", [1.0, 1.04, 1.1, 1.4])
def test_a_class_is_beyond_chance_exactly_where_its_interval_excludes_zero(sharper):
    labels, probs = report_data.class_rows(3000, 10, sharper, 9)
    made = report(labels, probs, kind="marginal")
    classes = made.findings.classes
    shown = re.findall(
        r"<td>([\d.e+-]+) to [\d.e+-]+</td>(?:<td>[^<]*</td>){2}<td>(yes|no)", made.html
    )
    assert len(shown) == 10
    assert [answer == "yes" for _, answer in shown] == [float(low) > 0 for low, _ in shown]
    assert (classes.beyond_chance == (classes.low > 0)).all()
    assert (classes.low <= classes.error).all()
    assert (classes.error <= classes.high).all()
    n = int(classes.beyond_chance.sum())
    count = re.search(r"(\S+) (?:of|of the) 10 class", made.summary)[1]
    assert count == ("None" if n == 0 else str(n))


def test_filled_points_of_a_class_are_those_that_put_it_beyond_chance():
    labels, probs = report_data.class_rows(4000, 6, 1.2, 10)
    classes = report(labels, probs, kind="marginal").findings.classes
    assert not classes.joined
    filled = [bool(picture.beyond_chance.any()) for picture in classes.curves]
    assert filled == classes.beyond_chance.tolist()
    assert any(filled)
