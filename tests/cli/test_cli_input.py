"""What commands read: logits, and every file as few times as can be."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import COLUMNS, LABEL, ONE, SCORE, run, same, write

ODDS = np.log(0.01 + SCORE) - np.log(1.01 - SCORE)
LOGITS = ("--y-true", "label", "--y-prob", "odds", "--input", "logits")


@pytest.fixture
def logits(tmp_path):
    return write(tmp_path / "logits.parquet", COLUMNS | {"odds": ODDS, "steep": 2 * ODDS})


def test_measure_and_certify_take_logits(tmp_path, logits, capsys):
    code, out, _ = run(capsys, "measure", logits, *LOGITS, "--json")
    assert code == 0
    assert same(json.loads(out), cb.calibration_error(LABEL, ODDS, input="logits").to_dict())
    certificate = tmp_path / "certificate.json"
    argv = ("certify", logits, *LOGITS, "--max-error", "0.2", "-o", certificate)
    assert run(capsys, *argv)[0] == 0
    saved = cb.Certificate.from_json(certificate.read_text())
    assert saved.upper_bound == cb.certify(LABEL, ODDS, input="logits").upper_bound
    assert run(capsys, "recheck", certificate, "--data", logits, *LOGITS)[0] == 0
    code, out, _ = run(capsys, "recheck", certificate, "--data", logits, *LOGITS[:-2])
    assert code == 3


def test_report_and_compare_take_logits(tmp_path, logits, capsys):
    argv = ("report", logits, *LOGITS, "-o", tmp_path / "r.html", "--json")
    code, out, _ = run(capsys, *argv)
    assert code == 0
    expected = cb.report(LABEL, ODDS, input="logits").findings.to_dict()
    assert same(json.loads(out)["error"], json.loads(json.dumps(expected))["error"])
    assert "--input logits" in (tmp_path / "r.html").read_text()
    code, out, _ = run(capsys, "compare", logits, *LOGITS, "--versus", "steep", "--json")
    assert code == 0
    assert same(
        json.loads(out),
        json.loads(json.dumps(cb.compare(LABEL, ODDS, 2 * ODDS, input="logits").to_dict())),
    )


def test_a_calibrator_of_logits_is_applied_to_logits(tmp_path, logits, capsys):
    saved = tmp_path / "cal.json"
    argv = ("fit", logits, *LOGITS, "--method", "temperature", "-o", saved)
    assert run(capsys, *argv)[0] == 0
    expected = cb.TemperatureScaling(input="logits").fit(ODDS, LABEL).predict_proba(ODDS)
    out = tmp_path / "out.npz"
    for option in ((), ("--input", "logits")):
        out = tmp_path / "out.jsonl"
        assert run(capsys, "apply", saved, logits, "--y-prob", "odds", *option, "-o", out)[0] == 0
        rows = [json.loads(line)["odds_calibrated"] for line in out.read_text().splitlines()]
        np.testing.assert_allclose(rows, expected, rtol=1e-12)
    for command in (("apply", saved, logits), ("certify", logits, "--calibrator", saved)):
        options = ("--y-prob", "odds", "--input", "probabilities", "-o", tmp_path / "x.csv")
        more = ("--y-true", "label", "--max-error", "0.1") if command[0] == "certify" else ()
        code, _, err = run(capsys, *command, *options, *more)
        assert code == 4
        assert "was fitted on logits; got --input probabilities" in err


def test_a_method_without_logits_says_so(tmp_path, logits, capsys):
    code, _, err = run(capsys, "fit", logits, *LOGITS, "--method", "isotonic", "-o", tmp_path / "x")
    assert code == 4
    assert "isotonic reads probabilities" in err


def test_no_input_beside_a_table(tmp_path, logits, capsys):
    table = tmp_path / "t.json"
    assert run(capsys, "measure", logits, *LOGITS, "--table", table)[0] == 0
    code, _, err = run(capsys, "measure", table, "--input", "logits")
    assert code == 4
    assert "--input says how rows are read" in err


PASSES = {
    ("measure", "--bins", "width:10"): ["reading", "counting"],
    ("measure", "--bins", "distinct"): ["reading", "choosing bins, pass 1", "counting"],
    ("certify", "--max-error", "0.1"): ["reading", "choosing bins, pass 1", "counting"],
    ("report",): ["reading", "reading"],
    ("fit", "-o", "cal.json"): ["reading", "reading"],
}
"""The first reading is that of the first rows, which fix the columns and the problem."""


@pytest.mark.parametrize("argv", PASSES, ids=" ".join)
def test_files_are_read_as_few_times_as_can_be(tmp_path, argv, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = write(tmp_path / "preds.csv")
    from calibrant.cli.resume import Progress

    passes = []
    monkeypatch.setattr(Progress, "begin", lambda self, what, files: passes.append(what))
    assert run(capsys, argv[0], file, *ONE, *argv[1:])[0] in (0, 1, 2)
    assert passes == PASSES[argv]
