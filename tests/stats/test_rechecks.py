"""Rechecks of documents: what was edited is noticed, and what another version wrote is understood."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.verdicts import EARLIER_WORDING

RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


def test_levels_that_are_forged_are_noticed():
    document = json.loads(cb.certify(GOOD, LEVELS, levels=np.arange(1, 10) / 10).to_json())
    document["levels"] = [0.1, 0.9]
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()
    document["levels"] = None
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()


def tampered(**changes):
    document = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())
    for path, value in changes.items():
        target = document
        *parents, last = path.split("__")
        for parent in parents:
            target = target[parent]
        target[last] = value
    return cb.Certificate.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "certified"}, "verdict is 'certified' in the document and 'refuted'"),
        ({"upper_bound": 0.01}, "upper_bound is 0.01"),
        ({"lower_bound": 0.0}, "lower_bound is 0.0"),
        ({"max_error": 0.5}, "verdict is 'refuted' in the document and 'certified'"),
        ({"confidence_level": 0.5}, "bound is"),
        ({"assumptions": []}, "assumptions"),
        ({"norm": "l9"}, "cannot be computed"),
        ({"confidence_level": 1.0}, "cannot be computed"),
        ({"reason": "certified by me"}, "reason is 'certified by me' in the document"),
        ({"n": 4001}, "n is 4001 in the document and 4000 from its table"),
        ({"norm": "l1"}, "bound is"),
        ({"norm": "2"}, "cannot be computed"),
        ({"target": "sample"}, "bound is"),
        ({"min_bin_mass": 1 / 18}, "assumptions is"),
        ({"min_bin_mass": 0.5}, "cannot be computed"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"assumptions": ["None at all."]}, "assumptions"),
        ({"class_weights": [0.5]}, "class_weights is [0.5]"),
        ({"class_weights": []}, "class_weights is []"),
        ({"confidence_level": 1e-320}, "cannot be computed"),
    ],
)
def test_tampering_is_noticed(changes, words):
    check = tampered(**changes).recheck()
    assert not check
    assert words in str(check)


BOUNDS = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "certified"},
        {"verdict": "undecided"},
        {"upper_bound": BOUNDS["upper_bound"] - 1e-4},
        {"lower_bound": BOUNDS["lower_bound"] + 1e-4},
        {"max_error": 0.06},
        {"confidence_level": 0.96},
        {"n": 4001},
        {"looks": 2},
        {"norm": "l1"},
        {"min_bin_mass": 1 / 18},
        {"levels": [0.5]},
        {"class_weights": [0.5]},
        {"assumptions": BOUNDS["assumptions"][1:]},
        {"assumptions": [*BOUNDS["assumptions"][:-1], "None at all."]},
        {"reason": BOUNDS["reason"].replace("at least", "surely at least")},
        {"reason": BOUNDS["reason"].replace("95%", "99%")},
        {"reason": BOUNDS["reason"] + ". It is 0.001"},
    ],
    ids=str,
)
def test_a_document_of_another_version_may_claim_no_more_than_its_table_proves(changes):
    assert not tampered(version="0.0.9", **changes).recheck()


def test_a_certificate_of_a_version_that_proved_less_stays_valid():
    said = round(BOUNDS["lower_bound"], 4)
    looser = {
        "upper_bound": BOUNDS["upper_bound"] + 0.01,
        "lower_bound": said - 0.01,
        "reason": BOUNDS["reason"].replace(f"{said:.4f}", f"{said - 0.01:.4f}"),
        "method": "an older theorem",
    }
    assert not tampered(**looser).recheck(), "this version has not proved less"
    check = tampered(version="0.0.9", **looser).recheck()
    assert check
    printed = " ".join(str(check).split())
    assert f"this version proves {BOUNDS['upper_bound']!r}" in printed
    assert "worded otherwise by this version: reason, method" in printed


def test_a_verdict_of_another_version_follows_from_its_own_bounds():
    undecided = {"lower_bound": 0.04, "verdict": "undecided", "version": "0.0.9"}
    upper = f"{BOUNDS['upper_bound']:.4f}"
    reason = (
        f"the binary error lies between 0.0400 and {upper}, each with 95% confidence (n = 4,000, "
        "9 distinct-value bins): more rows are needed to tell it from 0.05; advice of that time"
    )
    check = tampered(**undecided, reason=reason).recheck()
    assert check, str(check)
    assert "verdict is 'undecided' in the document; this version proves 'refuted'" in str(check)
    assert not tampered(**undecided, reason=reason.replace("0.0400", "0.0300")).recheck()
    assert not tampered(**{**undecided, "lower_bound": 0.06}, reason=reason).recheck()


def test_a_sentence_is_accepted_in_an_earlier_wording_only_where_it_is_known(monkeypatch):
    first = "Rows are drawn independently from the population of the statement."
    texts = [first, *BOUNDS["assumptions"][1:]]
    assert not tampered(version="0.0.9", assumptions=texts).recheck()
    wording = ((first, BOUNDS["assumptions"][0]),)
    monkeypatch.setattr("calibrant.stats.verdicts.EARLIER_WORDING", wording)
    check = tampered(version="0.0.9", assumptions=texts).recheck()
    assert check
    assert check.certificate.assumptions == BOUNDS["assumptions"]
    assert "worded otherwise by this version: assumptions" in str(check)
    assert not tampered(assumptions=texts).recheck(), "this version never wrote that"


def test_known_wordings_hold_no_number():
    assert not re.search(r"\d", "".join(map("".join, EARLIER_WORDING)))


def test_a_tampered_table_is_noticed():
    document = json.loads(cb.certify(BAD, LEVELS, max_error=0.05).to_json())
    table = document["table"]
    table["sum_y"] = table["sum_p"]
    table["sum_py"] = table["sum_pp"]
    with pytest.raises(ex.InvalidDocumentError, match="event counts must be whole"):
        cb.Certificate.from_json(json.dumps(document))
    table["sum_y"] = [[float(round(x)) for x in table["sum_p"][0]]]
    table["sum_py"] = [[p * y for p, y in zip(table["level"][0], table["sum_y"][0], strict=True)]]
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": "perfect"},
        {"verdict": ["certified"]},
        {"reason": 3},
        {"upper_bound": "0.01"},
        {"upper_bound": True},
        {"lower_bound": -1},
        {"n": 4000.0},
        {"n": True},
        {"n": 10**30},
        {"confidence_level": "high"},
        {"max_error": [0.05]},
        {"norm": 2},
        {"target": "everything"},
        {"min_bin_mass": "guessed"},
        {"min_bin_mass": 7},
        {"looks": 0},
        {"looks": True},
        {"looks": 1.5},
        {"looks": "two"},
        {"assumptions": "none"},
        {"assumptions": [1]},
        {"class_weights": ["1"]},
        {"version": {}},
        {"version": "x"},
        {"digests": None},
        {"digests__rows": "sha256:" + "0" * 64},
        {"digests__rows": 5},
        {"digests": {}},
        {"signed_by": "a notary"},
    ],
    ids=str,
)
def test_entries_that_a_certificate_cannot_have_are_refused(changes):
    with pytest.raises(ex.InvalidDocumentError):
        tampered(**changes)
