"""What commands read: files, standard input, saved tables and logits, as few times as can be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    MANY,
    ONE,
    SCORE,
    N,
    run,
    same,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

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


def test_scaling_binning_of_logits_is_certified_on_logits(tmp_path, logits, capsys):
    saved, half = tmp_path / "cal.json", LABEL.size // 2
    columns = {"label": LABEL, "odds": ODDS}
    old = write(tmp_path / "old.csv", columns, slice(0, half))
    new = write(tmp_path / "new.csv", columns, slice(half, None))
    assert run(capsys, "fit", old, *LOGITS, "--bins", "5", "-o", saved)[0] == 0
    fitted = cb.ScalingBinning(bins=5, scaler=cb.PlattScaling(input="logits"))
    expected = fitted.fit(ODDS[:half], LABEL[:half]).certify(
        ODDS[half:], LABEL[half:], max_error=0.3
    )
    argv = ("certify", new, *LOGITS[:-2], "--calibrator", saved, "--max-error", "0.3", "--json")
    code, out, _ = run(capsys, *argv)
    assert code == 0
    assert json.loads(out)["upper_bound"] == expected.upper_bound


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


DISTINCT = ("--bins", "distinct")


@pytest.fixture
def week(tmp_path, monkeypatch, capsys):
    """Write a file of rows, its table, and the tables of its halves, in fixed bins."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "rows.csv")
    write(tmp_path / "day1.csv", rows=slice(0, 700))
    write(tmp_path / "day2.csv", rows=slice(700, None))
    run(capsys, "measure", "rows.csv", *ONE, *DISTINCT, "--table", "whole.json")
    for name in ("rows", "day1", "day2"):
        options = (*ONE, "--bins", "width:11", "--table", f"{name}.json")
        assert run(capsys, "measure", f"{name}.csv", *options)[0] == 0
    return tmp_path


def test_a_table_is_measured_as_its_rows_are(week, capsys):
    for options in ((), ("--norm", "l1"), ("--norm", "max", "--plug-in"), ("--json",)):
        rows = run(capsys, "measure", "rows.csv", *ONE, *DISTINCT, *options)
        assert run(capsys, "measure", "whole.json", *options) == rows
        assert rows[0] == 0


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_is_known_however_it_is_laid_out(week, indent, encoding, capsys):
    """Other programs sort its names, spread it over lines, or begin it with a mark."""
    expected = run(capsys, "measure", "whole.json")
    document = json.loads(Path("whole.json").read_text())
    text = json.dumps(document, sort_keys=True, indent=indent)
    Path("other.json").write_text(text, encoding=encoding)
    assert run(capsys, "measure", "other.json") == expected


@pytest.mark.parametrize(("max_error", "code"), [("0.2", 0), ("0.001", 2)])
def test_a_table_is_certified_as_its_rows_are(week, max_error, code, capsys):
    rows = run(capsys, "certify", "rows.csv", *ONE, "--max-error", max_error)
    table = run(capsys, "certify", "whole.json", "--max-error", max_error, "-o", "c.json")
    assert table == rows
    assert table[0] == code
    assert run(capsys, "recheck", "c.json")[0] == 0


def test_several_tables_are_added(week, capsys):
    whole = json.loads(run(capsys, "measure", "rows.json", "--json")[1])
    added = json.loads(run(capsys, "measure", "day?.json", "--json")[1])
    assert same(added, whole)
    code, out, err = run(capsys, "merge", "day1.json", "day2.json", "-o", "sum.json", "--json")
    assert (code, err) == (0, "")
    assert same(json.loads(out), {**whole, "tables": 2})
    assert cb.BinTable.from_json(Path("sum.json").read_bytes()).n == whole["n"]


@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_a_table_is_reported_without_what_needs_rows(week, kind, capsys):
    options = ONE if kind == "binary" else (*MANY, "--kind", kind)
    assert run(capsys, "measure", "rows.csv", *options, "--bins", "9", "--table", "t.json")[0] == 0
    code, out, err = run(capsys, "report", "t.json", "--max-error", "0.001", "--json")
    numbers = json.loads(out)
    assert (code, err) == ({"certified": 0, "refuted": 1, "undecided": 2}[numbers["verdict"]], "")
    assert (numbers["fingerprint"], numbers["recalibration_gain"]) == (None, None)
    page = Path("report.html").read_text(encoding="utf-8")
    assert "has no rows to try a recalibrator" in page
    assert "which rows were counted cannot be told" in page
    assert "calibrant report t.json" in page


@pytest.mark.parametrize("command", ["measure", "certify", "report"])
@pytest.mark.parametrize(
    ("flag", "value"),
    [("--bins", "5"), ("--y-true", "label"), ("--y-prob", "score"), ("--kind", "binary"),
     ("--classes", "0,1"), ("--pos-label", "1"), ("--format", "jsonl")],
)  # fmt: skip
def test_options_about_rows_are_refused_beside_a_table(week, command, flag, value, capsys):
    more = ("--max-error", "0.1") if command == "certify" else ()
    code, out, err = run(capsys, command, "whole.json", *more, flag, value)
    assert (code, out) == (4, "")
    assert f"{flag} says how rows are read, and whole.json is a table of sums" in err


def test_tables_and_rows_do_not_mix(week, capsys):
    code, _, err = run(capsys, "measure", "whole.json", "rows.csv")
    assert code == 3
    assert "whole.json is a table of sums and rows.csv is not" in err
    code, _, err = run(capsys, "compare", "whole.json", "rows.csv")
    assert code == 3
    assert "A table of sums is compared with another table; got 1 of 2 files" in err


@pytest.mark.parametrize(
    "line",
    ["measure {}", "certify {} --max-error 0.1", "report {}", "validate {}", "fit {} -o x.json",
     "apply calibrator.json {} -o x.csv", "compare rows.csv {}", "measure rows.csv {}",
     "recheck certificate.json --data {}", "watch new.json {} --max-error 0.1"],
)  # fmt: skip
def test_a_document_in_place_of_rows_is_named_for_what_it_is(week, line, capsys):
    certificate = cb.certify(LABEL, np.round(SCORE, 1), max_error=0.1)
    Path("certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    cb.HistogramBinning().fit(SCORE, LABEL).save("calibrator.json")
    monitor = cb.CalibrationMonitor(max_error=0.1)
    monitor.update(LABEL, SCORE)
    Path("monitor.json").write_text(monitor.to_json(), encoding="utf-8")
    names = {"certificate": "certificate", "calibrator": "recalibrator", "monitor": "monitor"}
    for name, kind in names.items():
        code, out, err = run(capsys, *line.format(f"{name}.json").split())
        assert (code, out) == (3, "")
        assert f"Rows of predictions are needed, and {name}.json is a saved {kind}." in err


def test_tables_are_compared_as_different_rows(week, capsys):
    code, out, err = run(capsys, "compare", "whole.json", "rows.json", "--json")
    assert (code, err) == (0, "")
    numbers = json.loads(out)
    tables = [
        cb.BinTable.from_json(Path(name).read_bytes()) for name in ("whole.json", "rows.json")
    ]
    assert numbers == cb.compare_tables(*tables).to_dict()
    code, out, _ = run(capsys, "compare", "whole.json", "rows.json")
    assert code == 0
    assert "a = whole.json" in out
    assert "The rows of a and b are different and independent" in out
    code, _, err = run(capsys, "compare", "whole.json", "rows.json", "--bins", "5")
    assert code == 4
    assert "--bins says how rows are read" in err


def test_tables_of_other_bins_and_damaged_ones_are_bad_input(week, capsys):
    code, _, err = run(capsys, "certify", "whole.json", "rows.json", "--max-error", "0.1")
    assert code == 3
    assert "rows.json: Only tables of the same bins can be added" in err
    text = Path("rows.json").read_text()
    deep = text.replace('"schema": 1', '"schema": ' + "[" * 100_000)
    for damaged in (text[:-20], text.replace("[0.0", "[NaN", 1), deep, '{"format": "calibrant.table"}',
                    text.replace('"schema": 1', '"schema": 1e999'),
                    text.replace('"schema": 1', '"schema": ' + "9" * 100_000)):  # fmt: skip
        Path("bad.json").write_text(damaged)
        for argv in (
            ("measure", "bad.json"),
            ("certify", "bad.json", "--max-error", "0.1"),
            ("merge", "bad.json", "-o", "sum.json"),
            ("recheck", "bad.json"),
            ("apply", "bad.json", "rows.csv", "--y-prob", "score", "-o", "out.csv"),
        ):
            code, out, err = run(capsys, *argv)
            assert (code, out) == (3, "")
            assert err.startswith("calibrant: bad.json: ")
            assert "\n" not in err


def test_json_lines_with_a_column_named_format_are_still_rows(tmp_path, capsys):
    lines = [json.dumps({"format": "a", "labels": i % 2, "probs": 0.5}) for i in range(20)]
    (tmp_path / "rows.json").write_text("\n".join(lines))
    code, out, _ = run(capsys, "measure", tmp_path / "rows.json", "--json")
    assert (code, json.loads(out)["n"]) == (0, 20)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl", ".arrow", ".npz"])
def test_standard_input_may_have_any_format(tmp_path, suffix, capsys, monkeypatch):
    with open(write(tmp_path / f"preds{suffix}"), encoding="latin-1") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        format_ = () if suffix == ".csv" else ("--format", suffix[1:])
        code, out, err = run(capsys, "measure", "-", *ONE, *format_, "--json")
    assert (code, err) == (0, "")
    assert same(json.loads(out), cb.calibration_error(LABEL, SCORE).to_dict())


def test_a_pipe_is_read_like_a_file(tmp_path):
    pipe, file = tmp_path / "pipe.jsonl", write(tmp_path / "preds.jsonl")
    os.mkfifo(pipe)
    argv = [sys.executable, "-m", "calibrant", "measure", str(pipe), *ONE, "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pipe.write_bytes(Path(file).read_bytes())
        assert json.loads(process.stdout.read())["n"] == LABEL.size
        assert process.stderr.read() == b""


def n_of(capsys, *argv):
    code, out, err = run(capsys, "measure", *argv, "--json")
    assert code == 0, err
    return json.loads(out)["n"]


def test_a_file_that_is_named_twice_is_counted_once(tmp_path, capsys, monkeypatch):
    file = write(tmp_path / "preds.csv")
    (tmp_path / "link.csv").symlink_to(file)
    os.link(file, tmp_path / "hard.csv")
    monkeypatch.chdir(tmp_path)
    names = (file, "preds.csv", "./preds.csv", f"../{tmp_path.name}/preds.csv", "link.csv", "*.csv")
    assert n_of(capsys, *names, "hard.csv", *ONE) == N


def test_a_file_that_is_standard_input_as_well_is_counted_once(tmp_path):
    file = write(tmp_path / "preds.csv")
    argv = [sys.executable, "-m", "calibrant", "measure", file, "-", *ONE, "--json"]
    with open(file, "rb") as stream:
        done = subprocess.run(argv, stdin=stream, capture_output=True, check=True)
    assert json.loads(done.stdout)["n"] == N
