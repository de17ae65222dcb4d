"""calibrant compare."""

from __future__ import annotations

import json

import pytest

import calibrant as cb
from predictions_on_disk import (
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
