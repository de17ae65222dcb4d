"""Certificates: verdicts, reasons, documents, refusals."""

from __future__ import annotations

import json
from inspect import signature

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant import stats

RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


@pytest.mark.parametrize(
    ("y", "max_error", "verdict", "words"),
    [
        (GOOD, 0.08, "certified", "is at most 0.0"),
        (BAD, 0.05, "refuted", "> 0.05"),
        (GOOD, 0.005, "undecided", "more would do"),
        (BAD, 0.11, "undecided", "no number of rows is sure to certify it"),
    ],
)
def test_there_are_three_verdicts_with_reasons(y, max_error, verdict, words):
    certificate = cb.certify(y, LEVELS, max_error=max_error)
    assert certificate.verdict == verdict
    printed = str(certificate)
    assert max(map(len, printed.splitlines())) < 80
    heading = "The bounds hold if" if verdict == "undecided" else "It holds if"
    statement, assumptions = " ".join(printed.split()).split(f" {heading} - ")
    assert words in statement
    period = "." if ". " in certificate.reason else ""  # one sentence stands without
    assert statement == f"{verdict}: {certificate.reason}{period}"
    assert repr(certificate) == f"<Certificate: {statement}>"
    assert assumptions == " - ".join(certificate.assumptions)


@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
def test_an_undecided_certificate_says_that_a_second_look_must_be_planned(norm):
    unplanned = cb.certify(GOOD, LEVELS, max_error=0.003, norm=norm)
    assert "looks=k at each of k looks, or looks=i*(i+1)" in unplanned.reason
    planned = cb.certify(GOOD, LEVELS, max_error=0.003, norm=norm, looks=5)
    assert "only as planned, at the next of these 5 looks" in planned.reason


def test_without_a_tolerance_there_are_bounds_and_no_verdict():
    certificate = cb.certify(GOOD, LEVELS)
    assert certificate.verdict is None
    assert 0 <= certificate.lower_bound < certificate.upper_bound < 0.1
    assert certificate.n == 4000


def test_a_certificate_is_a_document_that_can_be_checked_again():
    before = cb.certify(GOOD, LEVELS, max_error=0.05)
    after = cb.Certificate.from_json(before.to_json())
    assert after.to_json() == before.to_json()
    check = after.recheck()
    assert check
    assert "agrees" in str(check)
    document = json.loads(before.to_json())
    assert document["version"] == cb.__version__
    assert document["table"]["count"] == before.table.count.tolist()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "valid JSON"),
        ("{}", '"format"'),
        ('{"format": "calibrant.certificate", "schema": 9}', "schema 3, .* the document has 9"),
        ('{"format": "calibrant.certificate", "schema": true}', "the document has True"),
        ('{"format": "calibrant.certificate", "schema": 3}', "needs 'verdict'"),
        ("[" * 100_000, "nests 100,000 deep"),
        ('{"format": 1, "format": "calibrant.certificate"}', "'format' is there twice"),
        ('{"n": NaN}', "NaN is not a number"),
        ('{"n": 1e999}', "beyond the range"),
        (b"\xff\xfe{}", "valid JSON"),
    ],
)
def test_damaged_certificates_are_refused(text, words):
    with pytest.raises(ex.InvalidDocumentError, match=words):
        cb.Certificate.from_json(text)


def test_a_certificate_without_a_field_is_refused():
    document = json.loads(cb.certify(GOOD, LEVELS).to_json())
    del document["method"]
    with pytest.raises(ex.InvalidDocumentError, match="needs 'method'"):
        cb.Certificate.from_json(json.dumps(document))


def test_a_misspelt_option_is_named_with_the_function_that_was_called():
    with pytest.raises(TypeError, match=r"^certify\(\) got an unexpected keyword .*max_erro"):
        stats.certify(cb.tabulate(GOOD, LEVELS, bins="distinct"), max_erro=0.1)
    assert {"max_error", "norm", "levels", "draws"} <= signature(stats.certify).parameters.keys()
