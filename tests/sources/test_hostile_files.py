"""Whatever a data file holds: no crash, no exit 70, one line that names the file."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

from predictions_on_disk import LABEL, ONE, SCORE, N, one_line, pa, run

TYPES = {
    "lists of one": [[0.5]],
    "ragged lists": [[0.5, 0.5]] * 20 + [[0.5]],
    "missing lists": [[0.5, 0.5], None],
    "empty lists": [[]],
    "lists of text": [["a", "b"]],
    "lists of lists": [[[0.5]]],
    "objects": [{"a": 0.5}],
    "dates": [datetime.date(2020, 1, 1)],
    "moments": [datetime.datetime(2020, 1, 1)],
    "bytes": [b"\xff\xfe"],
    "text": ["many"],
    "nothing": [None],
    "huge numbers": [2**62],
}
ROLES = ("label", "score", "weight")


def in_columns(role, values):
    columns = {"label": LABEL, "score": SCORE, "weight": np.ones(N)}
    return pa.table(columns | {role: (values * N)[:N]})


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_columns_of_any_type_are_read_or_refused(tmp_path, kind, role, suffix, calibrator, capsys):
    import pyarrow.feather as pa_feather
    import pyarrow.parquet as pa_parquet

    table, file = in_columns(role, TYPES[kind]), tmp_path / f"preds{suffix}"
    if suffix == ".parquet":
        pa_parquet.write_table(table, file)
    elif suffix == ".arrow":
        pa_feather.write_feather(table, file)
    else:
        file.write_text("\n".join(json.dumps(row, default=str) for row in table.to_pylist()))
    code, out, err = run(capsys, "measure", file, *ONE, "--sample-weight", "weight")
    if code != 0:
        one_line(code, out, err, file)
    for name in ("out.csv", "out.jsonl"):
        argv = ("apply", calibrator, file, "--y-prob", "score", "-o", tmp_path / name)
        code, out, err = run(capsys, *argv)
        assert code in (0, 3), err
        assert code == 3 or role != "score" or kind == "lists of one"


def test_bytes_that_are_no_text_are_named_with_their_row(tmp_path, capsys):
    csv, lines = tmp_path / "preds.csv", tmp_path / "preds.jsonl"
    csv.write_bytes(b"label,score\n" + b"1,0.5\n" * 700 + b"\xff,0.5\n" + b"1,0.5\n" * 9)
    assert "column 'label', row 701" in one_line(*run(capsys, "measure", csv, *ONE), csv)
    row = b'{"label": "a", "score": 0.5}\n'
    lines.write_bytes(row * 700 + row.replace(b'a"', b'\xff"') + row * 9)
    assert "row 701" in one_line(*run(capsys, "measure", lines, *ONE), lines)


def test_a_wide_csv_is_read(tmp_path, capsys):
    """Seconds; it was minutes when names were compared with one another."""
    wide = 30_000
    names = ",".join(f"c{k}" for k in range(wide))
    row = ",0.25" * wide
    content = f"label,score,{names}\n" + f"1,0.5{row}\n0,0.5{row}\n" * 3
    (tmp_path / "wide.csv").write_text(content)
    code, out, err = run(capsys, "measure", tmp_path / "wide.csv", *ONE, "--json")
    assert code == 0, err
    assert json.loads(out)["n"] == 6
    code, _, err = run(capsys, "measure", tmp_path / "wide.csv", "--y-prob", "scores")
    assert (code, "has no column" in err) == (3, True)
