"""calibrant merge."""

from __future__ import annotations

import pytest

import calibrant as cb
from predictions_on_disk import (
    LABEL,
    ONE,
    SCORE,
    run,
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


def test_tables_are_saved_and_merged(tmp_path, csv, capsys):
    one = ("--bins", "width:10", *ONE)
    for name in ("a", "b"):
        assert run(capsys, "measure", csv, *one, "--table", tmp_path / f"{name}.json")[0] == 0
    code, out, _ = run(capsys, "merge", tmp_path / "[ab].json", "-o", tmp_path / "ab.json")
    assert code == 0
    assert f"2 tables, 3,000 rows written to {tmp_path}/ab.json" in out
    merged = cb.BinTable.from_json((tmp_path / "ab.json").read_text())
    table = cb.tabulate(LABEL, SCORE, bins=cb.EqualWidth(10))
    assert merged.count.tolist() == (table + table).count.tolist()
