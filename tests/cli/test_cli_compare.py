"""calibrant compare."""

from __future__ import annotations

import json

import pytest

import calibrant as cb
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    ONE,
    SCORE,
    run,
    same,
    write,
)


@pytest.fixture
def csv(tmp_path):
    return write(tmp_path / "preds.csv")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make every file several chunks."""
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 16)


def test_compare_reads_two_files_or_two_columns(tmp_path, csv, capsys):
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"]).to_dict()
    other = write(tmp_path / "b.parquet", {"label": LABEL, "score": COLUMNS["squared"]})
    code, out, _ = run(capsys, "compare", csv, other, *ONE, "--json")
    assert code == 0
    assert same(json.loads(out), expected)
    code, out, _ = run(capsys, "compare", csv, *ONE, "--versus", "squared")
    assert code == 0
    assert out.startswith(f"a = {csv}, score\nb = {csv}, squared\n")
    assert out.count("a is better") == 3


def test_both_models_may_be_columns_of_standard_input(csv, capsys, monkeypatch):
    with open(csv, encoding="utf-8") as stream:
        monkeypatch.setattr("sys.stdin", stream)
        code, out, err = run(capsys, "compare", "-", *ONE, "--versus", "squared", "--json")
    assert (code, err) == (0, "")
    assert same(json.loads(out), cb.compare(LABEL, SCORE, COLUMNS["squared"]).to_dict())


def test_models_in_other_columns_are_refused(tmp_path, capsys):
    names = {f"prob_{k}": COLUMNS[f"prob_{k}"] for k in range(3)}
    a = write(tmp_path / "a.csv", {"class": CLASS} | names)
    b = write(tmp_path / "b.csv", {"class": CLASS} | names | {"prob_3": SCORE})
    code, _, err = run(capsys, "compare", a, b, "--y-true", "class", "--y-prob", "prob_*")
    assert code == 3
    assert "b.csv has a column 'prob_3', which the rows before have not" in err
