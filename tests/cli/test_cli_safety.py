"""Names that want to do harm: on the terminal, in CSV, in JUnit XML."""

from __future__ import annotations

import csv as csv_module
import io
import json
import os
import subprocess
import sys
import unicodedata
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.cli.junit import document
from calibrant.cli.output import LONGEST_MESSAGE, printable, shortened
from calibrant.sources.files.tables import table_writer
from predictions_on_disk import CLASS, LABEL, ONE, PROBS, SCORE, pa, run, write

EVIL = {
    "markup": "<script>alert('x')</script>&amp;]]>",
    "formula": "=cmd|' /C calc'!A0",
    "escape sequence": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "control characters": "a\x00b\x08c\rd\ne\tf\x7f",
    "direction": "\u202egpj.exe\u2066\u200f",
    "right to left": "קטגוריה عربى",
    "endless": "x" * 10_000,
    "endless words": "word " * 2_000,
    "surrogate": "\ud800half",
    "quotes": "'; drop table t; --\"",
}


def is_harmless(text):
    """Tell whether a terminal only shows it: no control, format or surrogate characters."""
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    return not bad and len(text) < LONGEST_MESSAGE + 1_000


@pytest.mark.parametrize("name", EVIL)
def test_the_name_of_a_missing_column_or_file_does_no_harm(tmp_path, name, capsys):
    file = write(tmp_path / "preds.csv", {"label": LABEL, "score": SCORE})
    for argv in (
        ("measure", file, "--y-true", EVIL[name], "--y-prob", "score"),
        ("measure", file, "--y-true", "label", "--y-prob", EVIL[name]),
        ("measure", file, "--y-true", "label", "--y-prob", "score", "--pos-label", EVIL[name],
         "--classes", "0,1"),
        ("measure", file, "--bins", EVIL[name]),
        ("measure", EVIL[name].replace("\x00", "")),
        (EVIL[name],),
    ):  # fmt: skip
        code, out, err = run(capsys, *argv)
        assert code in (3, 4)
        assert out == ""
        assert is_harmless(err)
        assert "Traceback" not in err


@pytest.mark.parametrize("name", [n for n in EVIL if n != "surrogate"])
def test_columns_and_classes_of_any_name_are_measured_and_shown_harmlessly(tmp_path, name, capsys):
    evil = EVIL[name].replace("\x00", "")
    columns = {evil: np.array([evil, "b", "c"])[CLASS], "p0": PROBS[:, 0], "p1": PROBS[:, 1],
               f"{evil}2": PROBS[:, 2]}  # fmt: skip
    file = write(tmp_path / "preds.parquet", columns)
    options = ("--y-true", evil, "--y-prob", "p0", "p1", f"{evil}2", "--kind", "marginal")
    named = ("--classes", f"{evil},b,c") if "," not in evil else ()
    code, out, _ = run(capsys, "measure", file, *options, *named)
    assert (code, is_harmless(out)) == (0, True)
    assert len(out) < 2_000
    code, out, _ = run(capsys, "measure", file, *options, *named, "--json")
    assert code == 0
    assert evil in json.loads(out)["per_class"]
    assert out.isascii()
    assert out.isprintable()


def test_a_bad_value_in_a_column_of_an_evil_name_is_told_harmlessly(tmp_path, capsys):
    for number, evil in enumerate(EVIL.values()):
        columns = {"label": LABEL, evil: np.where(np.arange(LABEL.size) == 7, 9.0, SCORE)}
        if "\ud800" in evil:
            continue
        file = write(tmp_path / f"{number}.parquet", columns)
        code, _, err = run(capsys, "measure", file, "--y-true", "label", "--y-prob", evil)
        assert (code, is_harmless(err)) == (3, True)
        assert "row 8 = 9" in err


@given(st.text())
@settings(max_examples=300)
def test_what_is_printed_never_moves_the_cursor(text):
    shown = printable(text)
    assert all(is_harmless(line) for line in shown.split("\n"))
    assert printable("plain text, ünïcode") == "plain text, ünïcode"


@given(st.text(), st.integers(10, 50))
def test_shortened_text_keeps_its_beginning_and_end(text, most):
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text or ("..." in short and short[0] == text[0] and short[-1] == text[-1])


FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b"]


@pytest.mark.parametrize("escaped", [False, True])
def test_own_cells_are_copied_unless_escaping_is_asked_for(tmp_path, escaped, capsys):
    file = write(tmp_path / "in.parquet", {"=p": np.full(8, 0.5), "text": np.array(FORMULAS)})
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    options = ("--y-prob", "=p", "-o", tmp_path / "out.csv")
    more = ("--escape-formulas",) if escaped else ()
    assert run(capsys, "apply", tmp_path / "cal.json", file, *options, *more)[0] == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        head, *rows = csv_module.reader(stream)
    quoted = ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "plain", "a=b"]
    assert [row[1] for row in rows] == (quoted if escaped else FORMULAS)
    assert head == ["'=p" if escaped else "=p", "text", "'=p_calibrated"]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1), st.sampled_from(["csv", "tsv"]))
@settings(max_examples=200)
def test_any_text_in_a_csv_is_read_back_as_it_was(rows, format_):
    stream = io.BytesIO()
    batch = pa.RecordBatch.from_pydict({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    with table_writer(stream, format_, batch.schema) as writer:
        writer.write(batch)
    text = io.StringIO(stream.getvalue().decode(), newline="")
    delimiter = "," if format_ == "csv" else "\t"
    assert [*csv_module.reader(text, delimiter=delimiter)] == [["a", "b"], *map(list, rows)]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_other_formats_know_no_formulas_and_keep_values(tmp_path, suffix, capsys):
    file = write(tmp_path / f"in{suffix}", {"p": np.full(8, 0.5), "text": np.array(FORMULAS)})
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    out = tmp_path / f"out{suffix}"
    assert run(capsys, "apply", tmp_path / "cal.json", file, "--y-prob", "p", "-o", out)[0] == 0
    if suffix == ".jsonl":
        texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    else:
        read = pa.parquet.read_table if suffix == ".parquet" else pa.feather.read_table
        texts = read(out).column("text").to_pylist()
    assert texts == FORMULAS


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


def test_measuring_passes_as_a_test(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", {"labels": LABEL, "probs": SCORE})
    got, out, _ = run(capsys, "measure", file, "--junit", tmp_path / "gate.xml")
    case = ElementTree.parse(tmp_path / "gate.xml").getroot()[0][0]
    assert (got, case[0].tag, case[0].text.strip()) == (0, "system-out", out)


@given(st.text(), st.text(), st.sampled_from([None, "failure", "error"]))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_gives_valid_xml(name, message, outcome):
    case = ElementTree.fromstring(document(name, outcome, "type", message, 0.1).encode())[0][0]
    assert case.get("classname") == "calibrant"
    assert len(case) == 1


@pytest.mark.parametrize("day", ["", "soon", "-1", "99999999999999999", "9" * 5000])
@pytest.mark.parametrize("command", ["report", "measure"])
def test_a_day_that_no_calendar_has_is_refused_in_one_line(tmp_path, command, day):
    file = write(tmp_path / "preds.csv")
    argv = [sys.executable, "-m", "calibrant", command, file, *ONE]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": day},
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "SOURCE_DATE_EPOCH must be a whole number" in done.stderr
