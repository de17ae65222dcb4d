"""Saved tables of sums stand in place of rows: measure, certify, report and merge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from predictions_on_disk import MANY, ONE, run, same, write

import calibrant as cb

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
    assert "the rows of a and b are different and independent" in out
    code, _, err = run(capsys, "compare", "whole.json", "rows.json", "--bins", "5")
    assert code == 4
    assert "--bins says how rows are read" in err


def test_tables_of_other_bins_and_damaged_ones_are_bad_input(week, capsys):
    code, _, err = run(capsys, "certify", "whole.json", "rows.json", "--max-error", "0.1")
    assert code == 3
    assert "rows.json: Only tables of the same bins can be added" in err
    text = Path("rows.json").read_text()
    deep = text.replace('"version": 1', '"version": ' + "[" * 100_000)
    for damaged in (text[:-20], text.replace("[0.0", "[NaN", 1), deep, '{"format": "calibrant.table"}',
                    text.replace('"version": 1', '"version": 1e999'),
                    text.replace('"version": 1', '"version": ' + "9" * 100_000)):  # fmt: skip
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
