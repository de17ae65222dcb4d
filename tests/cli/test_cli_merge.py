"""calibrant merge."""

from __future__ import annotations

import pytest

import calibrant as cb
from predictions_on_disk import (
    LABEL,
    ONE,
    SCORE,
    run,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


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


def test_a_pattern_never_stands_for_the_sum_itself(tmp_path, csv, capsys):
    """The same line, run again, would add all rows to those that it added before."""
    one = ("--bins", "width:10", *ONE)
    for name in ("day-1", "day-2"):
        assert run(capsys, "measure", csv, *one, "--table", tmp_path / f"{name}.json")[0] == 0
    days, total = tmp_path / "day-*.json", tmp_path / "day-all.json"
    assert run(capsys, "merge", days, "-o", total)[0] == 0
    before = total.read_bytes()
    for line in (("merge", days, "-o", total), ("measure", days, "--table", total)):
        code, _, err = run(capsys, *line)
        assert code == 3
        assert f"{total}, where the sum goes, is one of those" in err
        assert total.read_bytes() == before
    day = tmp_path / "day-1.json"
    assert run(capsys, "merge", total, day, "-o", total)[0] == 0, "named, it is added to"
    assert cb.BinTable.from_json(total.read_bytes()).n == 3 * LABEL.size
