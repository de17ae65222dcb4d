"""JUnit XML: a verdict is a test result."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibrant.cli.verdicts import Case, document
from predictions_on_disk import LABEL, SCORE, run, write

CASES = {
    "certified": ((0.2, "l2"), 0, None),
    "refuted": ((0.0001, "max"), 1, "failure"),
    "undecided": ((0.01, "l1"), 2, "failure"),
}


@pytest.mark.parametrize("verdict", CASES)
def test_a_verdict_is_a_test_result(tmp_path, verdict, capsys):
    (max_error, norm), code, outcome = CASES[verdict]
    scores = SCORE**2 if verdict == "refuted" else SCORE
    file = write(tmp_path / "preds.csv", {"label": LABEL, "score": scores})
    options = ("--y-true", "label", "--y-prob", "score", "--norm", norm, "--max-error", max_error)
    got, out, _ = run(capsys, "certify", file, *options, "--junit", tmp_path / "gate.xml")
    assert got == code
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()[0]
    case = suite[0]
    assert (suite.get("tests"), suite.get("errors")) == ("1", "0")
    assert suite.get("failures") == str(int(outcome is not None))
    assert case.get("name") == f"certify {file}"
    assert case[0].tag == (outcome or "system-out")
    assert case[0].get("type") == (verdict if outcome else None)
    assert case[0].text == out


@pytest.mark.parametrize("command", ["measure", "certify"])
def test_bad_input_is_an_error_of_the_test_and_the_exit_code_stays(tmp_path, command, capsys):
    more = ("--max-error", "0.1") if command == "certify" else ()
    got, _, err = run(capsys, command, "none.csv", *more, "--junit", tmp_path / "gate.xml")
    assert got == 3
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
    assert suite[0][0].get("type") == "bad input"
    assert err == f"calibrant: {suite[0][0].text}"


def test_a_result_of_an_earlier_run_does_not_outlive_one_that_lacks_memory(
    tmp_path, monkeypatch, capsys
):
    file = write(tmp_path / "preds.csv", {"labels": LABEL, "probs": SCORE})
    line = ("certify", file, "--max-error", "0.2", "--junit", tmp_path / "gate.xml")
    assert run(capsys, *line)[0] == 0

    def fails(*_, **__):
        raise MemoryError

    monkeypatch.setattr("calibrant.verify.certify", fails)
    assert run(capsys, *line)[0] == 3
    assert ElementTree.parse(tmp_path / "gate.xml").getroot()[0].get("errors") == "1"


def test_measuring_passes_as_a_test(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", {"labels": LABEL, "probs": SCORE})
    got, out, _ = run(capsys, "measure", file, "--junit", tmp_path / "gate.xml")
    case = ElementTree.parse(tmp_path / "gate.xml").getroot()[0][0]
    assert (got, case[0].tag, case[0].text.strip()) == (0, "system-out", out)


@given(st.text(), st.text(), st.sampled_from([None, "failure", "error"]))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_gives_valid_xml(name, message, outcome):
    made = Case(name, "type", message, outcome) if outcome else Case(name, None, message)
    case = ElementTree.fromstring(document([made], 0.1).encode())[0][0]
    assert case.get("classname") == "calibrant"
    assert [part.tag for part in case] == [outcome or "system-out"]
