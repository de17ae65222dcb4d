"""Certificates beside what a model that knows nothing would score."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import report
from calibrant.cli import main

RNG = np.random.default_rng(12)
RARE = np.where(RNG.uniform(size=3000) < 0.5, 0.001, 0.004)
RARE_Y = RNG.uniform(size=3000) < RARE
COMMON = np.where(RNG.uniform(size=3000) < 0.5, 0.3, 0.6)
COMMON_Y = RNG.uniform(size=3000) < COMMON


def many_classes(n=3000, k=50):
    y = RNG.integers(k, size=n)
    return y, np.full((n, k), 1 / k)


def test_the_trivial_error_is_that_of_always_answering_the_commoner_outcome():
    assert cb.certify(RARE_Y, RARE).trivial_error == pytest.approx(RARE_Y.mean())
    assert cb.certify(~RARE_Y, 1 - RARE).trivial_error == pytest.approx(RARE_Y.mean())
    rates = np.array([0.5, 0.3, 0.2])
    y = np.repeat([0, 1, 2], [500, 300, 200])
    probs = np.tile(rates, (1000, 1))
    for norm, expected in (
        ("l1", rates.mean()),
        ("l2", np.sqrt((rates**2).mean())),
        ("max", 0.5),
    ):
        found = cb.certify(y, probs, kind="marginal", norm=norm)
        assert found.trivial_error == pytest.approx(expected)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_tolerance_that_a_trivial_model_meets_is_called_little(norm):
    found = cb.certify(RARE_Y, RARE, max_error=0.2, norm=norm)
    assert found.verdict == "certified"
    assert f"off by {RARE_Y.mean():.4f} on these rows, within the 0.2" in found.reason
    assert "Ask for a max_error far below that" in found.reason


def test_a_bound_above_the_trivial_error_is_called_little():
    y, probs = many_classes()
    found = cb.certify(y, probs, kind="marginal")
    assert found.upper_bound > found.trivial_error
    assert "This says little" in found.reason
    assert "off by 0.02" in found.reason


def test_bounds_that_say_something_are_left_alone():
    for found in (
        cb.certify(COMMON_Y, COMMON, max_error=0.1),
        cb.certify(COMMON_Y, COMMON),
        cb.certify(COMMON_Y, 1 - COMMON, max_error=0.05),
        cb.certify(RARE_Y, np.full(3000, 0.5), max_error=0.1),
    ):
        assert "little" not in found.reason


def test_rechecks_know_the_words():
    found = cb.certify(RARE_Y, RARE, max_error=0.2)
    assert cb.Certificate.from_json(found.to_json()).recheck()
    document = json.loads(found.to_json())
    document["reason"] = document["reason"].split(". This asks")[0]
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()


def test_the_command_line_prints_the_trivial_error(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    rows = "\n".join(f"{int(y)},{p}" for y, p in zip(RARE_Y, RARE, strict=True))
    path.write_text(f"label,score\n{rows}\n")
    assert (
        main(["certify", str(path), "--y-true", "label", "--y-prob", "score", "--max-error", "0.2"])
        == 0
    )
    printed = " ".join(capsys.readouterr().out.split())
    assert f"always answering the commoner of 0 and 1 is off by {RARE_Y.mean():.4f}." in printed


def test_the_report_says_that_a_limit_is_met_by_a_trivial_model():
    page = report(RARE_Y, RARE, max_error=0.2)
    assert "That says little" in page.html
    assert "That says little" in page.summary
    assert "That says little" not in report(COMMON_Y, COMMON, max_error=0.1).html
