"""JSON lines: columns are known by name, and every line is an object or refused."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import calibrant as cb
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    MANY,
    ONE,
    SCORE,
    N,
    n_of,
    one_line,
    refused,
    run,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

PROB_NAMES = ("prob_0", "prob_1", "prob_2")


def json_lines(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def many_rows():
    return [
        {"animal": COLUMNS["animal"][i], **{name: COLUMNS[name][i] for name in PROB_NAMES}}
        for i in range(N)
    ]


def turned(row):
    return dict(reversed(row.items()))


def test_json_lines_in_another_order_are_measured_by_name(tmp_path, capsys):
    rows = many_rows()
    plain = json_lines(tmp_path / "plain.jsonl", rows)
    swapped = json_lines(tmp_path / "swapped.jsonl", [*rows[:500], *map(turned, rows[500:])])
    assert run(capsys, "measure", swapped, *MANY) == run(capsys, "measure", plain, *MANY)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv"])
def test_json_lines_in_another_order_are_repaired_by_name(tmp_path, calibrators, suffix, capsys):
    rows = many_rows()
    texts = []
    for name, changed in (("plain", rows), ("swapped", [*rows[:500], *map(turned, rows[500:])])):
        file = json_lines(tmp_path / f"{name}.jsonl", changed)
        out = tmp_path / f"{name}-out{suffix}"
        argv = ("apply", calibrators[1], file, "--y-prob", "prob_*", "-o", out)
        code, _, err = run(capsys, *argv)
        assert code == 0, err
        if suffix == ".jsonl":
            texts.append([json.loads(line) for line in out.read_text().splitlines()])
        else:
            texts.append(out.read_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("command", ["measure", "apply", "apply to csv"])
def test_a_class_that_comes_up_later_is_refused(tmp_path, calibrators, command, capsys):
    rows = many_rows()
    rows[1200]["prob_9"] = 0.5
    file = json_lines(tmp_path / "preds.jsonl", rows)
    argv = ("measure", file, *MANY)
    if command != "measure":
        out = tmp_path / ("out.csv" if "csv" in command else "out.jsonl")
        argv = ("apply", calibrators[1], file, "--y-prob", "prob_*", "-o", out)
    assert "'prob_9'" in refused(capsys, *argv)


def test_a_class_that_is_missing_later_is_refused(tmp_path, capsys):
    rows = many_rows()
    for row in rows[700:]:
        del row["prob_1"]
    err = refused(capsys, "measure", json_lines(tmp_path / "preds.jsonl", rows), *MANY)
    assert "column 'prob_1', row 701 = nan" in err


def test_a_column_that_later_blocks_of_json_lines_lack_is_empty_there(
    tmp_path, calibrators, capsys
):
    rows = [{"score": 0.5, "comment": "first"}, *({"score": 0.25} for _ in range(1499))]
    file, out = json_lines(tmp_path / "preds.jsonl", rows), tmp_path / "out.csv"
    code, _, err = run(capsys, "apply", calibrators[0], file, "--y-prob", "score", "-o", out)
    assert code == 0, err
    lines = out.read_text().splitlines()
    assert (len(lines), lines[1], lines[-1]) == (1501, "0.5,first,0.5", "0.25,,0.25")


def test_text_among_numbers_of_json_lines_is_named_with_its_row(tmp_path, calibrator, capsys):
    rows = [{"label": int(y), "score": float(p)} for y, p in zip(LABEL, SCORE, strict=True)]
    rows[1233]["score"] = "many"
    file = tmp_path / "preds.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    out = tmp_path / "out"
    for argv in (
        ("measure", file, *ONE),
        ("apply", calibrator, file, "--y-prob", "score", "-o", f"{out}.jsonl"),
        ("apply", calibrator, file, "--y-prob", "score", "-o", f"{out}.csv"),
    ):
        err = one_line(*run(capsys, *argv), file)
        assert "column 'score', row 1,234 is 'many'" in err


JSON_LINES = {
    "null": (b"null\n", "row 1 is not an object"),
    "null later": (b'{"label": 1, "score": 0.5}\n\nnull\n', "row 2 is not an object"),
    "a deep cell": (b'{"label": 1, "score": 0.5, "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
                    "row 1 is not an object"),
    "a deep cell of objects": (b'{"label": 1, "x": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
                               "nested"),
    "half of a deep cell": (b'{"label": 1, "score": ' + b"[" * 100_000, "row 1 is not an object"),
    "two objects a line": (b'{"label": 1, "score": 0.5} {"label": 1, "score": 0.5}\n',
                           "row 1 is not an object"),
    "an object of two lines": (b'{"label": 1,\n"score": 0.5}\n', "row 1 is not an object"),
    "a name twice": (b'{"label": 1, "score": 0.5, "score": 0.6}\n', "'score' stands there twice"),
    "an endless number": (b'{"label": 1, "score": 1' + b"0" * 5_000 + b"}\n", "preds.jsonl"),
    "changing types": (b'{"label": 1, "score": 0.5}\n{"label": 1, "score": [1]}\n', "row 2 is [1]"),
}  # fmt: skip


@pytest.mark.parametrize("case", JSON_LINES)
def test_json_that_is_no_line_of_objects_is_refused_with_its_row(tmp_path, case):
    content, words = JSON_LINES[case]
    file = tmp_path / "preds.jsonl"
    file.write_bytes(content)
    argv = [sys.executable, "-m", "calibrant", "measure", str(file), *ONE]
    done = subprocess.run(argv, capture_output=True, text=True)  # a crash must not end the tests
    assert words in one_line(done.returncode, done.stdout, done.stderr.strip(), file)


def test_columns_that_nobody_asked_for_do_not_matter(tmp_path, capsys):
    odd = ["1", '"a"', "[1, [2, {}]]", '{"b": null}', '"' + "[" * 500 + '"', "null", "1e400"]
    lines = [
        f'{{"label": {y}, "score": {p}, "odd": {odd[i % 7]}}}'
        for i, (y, p) in enumerate(zip(LABEL, SCORE, strict=True))
    ]
    (tmp_path / "preds.jsonl").write_text("\n".join(lines))
    code, out, err = run(capsys, "measure", tmp_path / "preds.jsonl", *ONE, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["n"] == N


def test_blank_lines_are_a_file_without_rows(tmp_path, capsys):
    blank, rows = tmp_path / "blank.jsonl", tmp_path / "rows.jsonl"
    blank.write_text("\n\n")
    json_lines(rows, [{"label": 1, "score": 0.5}] * 3)
    assert n_of(capsys, blank, rows, *ONE) == 3
    assert "there are no rows" in refused(capsys, "measure", blank, *ONE)
    json_lines(blank, [{}])
    assert "no column 'label'; its columns are none" in refused(capsys, "measure", blank, *ONE)


@pytest.mark.parametrize("ids", [[2**63 + 1, 2**63 + 3, 7], [2**64 - 1, 2**64 - 3, 0]])
def test_identifiers_of_64_bits_stay_apart(tmp_path, ids):
    """PyArrow makes floats of them, and neighbours one number."""
    rows = [{"y": i % 2, "p": 0.25, "id": ids[i % 3]} for i in range(300)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    tables = cb.tabulate("y", "p", data=path, by="id", bins=1)
    assert {key: table.n for key, table in tables.items()} == dict.fromkeys(sorted(ids), 100)
    assert cb.calibration_error("y", "p", data=path, cluster="id", bins=1).n_clusters == 3


def test_integers_of_more_than_64_bits_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"y": 0, "p": 0.5, "id": 1}\n{"y": 1, "p": 0.5, "id": 18446744073709551616}\n')
    with pytest.raises(cb.exceptions.InvalidDocumentError, match="column .id., row 2"):
        cb.tabulate("y", "p", data=path, by="id", bins=1)
