"""calibrant compare."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    ONE,
    SCORE,
    N,
    run,
    same,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


def test_compare_reads_two_files_or_two_columns(tmp_path, csv, capsys):
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"]).to_dict()
    other = write(tmp_path / "b.parquet", {"label": LABEL, "score": COLUMNS["squared"]})
    code, out, _ = run(capsys, "compare", csv, other, *ONE, "--json")
    assert code == 0
    assert same(json.loads(out), expected)
    code, out, _ = run(capsys, "compare", csv, *ONE, "--versus", "squared")
    assert code == 0
    assert out.startswith(f"a = {csv}, score\nb = {csv}, squared\n")
    assert [line.split()[-1] for line in out.splitlines()[3:6]] == ["a", "a", "a"]


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


def test_rows_are_matched_by_a_key_in_any_order(tmp_path, capsys):
    order = np.random.default_rng(1).permutation(N)
    a = write(tmp_path / "a.csv", COLUMNS)
    b = write(tmp_path / "b.csv", COLUMNS | {"score": COLUMNS["squared"]}, order[:1400])
    code, out, err = run(capsys, "compare", a, b, *ONE, "--key", "id", "--json")
    kept = np.sort(order[:1400])
    expected = cb.compare(LABEL[kept], SCORE[kept], COLUMNS["squared"][kept])
    assert code == 0
    assert same(json.loads(out), expected.to_dict())
    assert f"100 of 1,500 rows of {a} have no match" in err
    assert str(b) not in err


def test_keys_must_tell_rows_apart(tmp_path, capsys):
    a = write(tmp_path / "a.csv", COLUMNS)
    code, _, message = run(capsys, "compare", a, *ONE, "--versus", "squared", "--key", "id")
    assert code == 4
    assert "two files" in message
    b = write(tmp_path / "b.csv", COLUMNS)
    code, _, message = run(capsys, "compare", a, b, *ONE, "--key", "animal")
    assert code == 3
    assert "must have another value in every row" in message
    c = write(tmp_path / "c.csv", COLUMNS | {"id": np.arange(N).astype(str)})
    code, _, message = run(capsys, "compare", a, c, *ONE, "--key", "id")
    assert code == 3
    assert "share 0 values" in message


def test_model_b_may_have_labels_of_its_own(tmp_path, capsys):
    file = write(tmp_path / "a.csv", COLUMNS | {"other": 1 - LABEL})
    options = ("--versus", "squared", "--y-true-b", "other")
    code, out, _ = run(capsys, "compare", file, *ONE, *options, "--json")
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"], y_true_b=1 - LABEL)
    assert code == 0
    assert same(json.loads(out), expected.to_dict())


def test_rows_of_a_cluster_are_compared_as_one(tmp_path, capsys):
    day = (np.arange(N) // 10).astype(str)
    file = write(tmp_path / "a.csv", COLUMNS | {"day": day})
    options = ("--versus", "squared", "--cluster", "day")
    code, out, _ = run(capsys, "compare", file, *ONE, *options, "--json")
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"], cluster=day)
    assert code == 0
    assert same(json.loads(out), expected.to_dict())
    code, out, _ = run(capsys, "measure", file, *ONE, "--cluster", "day")
    assert code == 0
    assert "clusters" in out


def test_both_files_must_put_the_same_rows_into_one_cluster(tmp_path, capsys):
    """Those of the first were taken, whatever the second said of its rows."""
    patient = np.arange(N) // 3
    a = write(tmp_path / "a.csv", COLUMNS | {"patient": patient})
    b = write(tmp_path / "b.parquet", COLUMNS | {"patient": patient, "score": COLUMNS["squared"]})
    line = ("compare", a, b, *ONE, "--cluster", "patient", "--json")
    code, out, _ = run(capsys, *line)
    expected = cb.compare(LABEL, SCORE, COLUMNS["squared"], cluster=patient)
    assert (code, same(json.loads(out), expected.to_dict())) == (0, True)
    write(tmp_path / "b.parquet", COLUMNS | {"patient": np.roll(patient, 1)})
    code, out, err = run(capsys, *line)
    assert (code, out) == (3, "")
    assert "differ in which rows column 'patient' puts into one cluster" in err
