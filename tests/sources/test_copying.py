"""Tables copied with all their columns: nothing is hidden, renamed or split."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    PROBS,
    SCORE,
    pa,
    refused,
    run,
)


@pytest.fixture
def calibrators(tmp_path):
    """Save a calibrator of one column and one of three, which leave all as it is."""
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "one.json")
    cb.Identity().fit(PROBS, COLUMNS["animal"], classes=("cat", "dog", "eel")).save(
        tmp_path / "many.json"
    )
    return tmp_path / "one.json", tmp_path / "many.json"


def test_columns_of_an_array_do_not_hide_another_array(tmp_path, calibrators, capsys):
    np.savez(tmp_path / "preds.npz", probs=PROBS, probs_1=SCORE)
    argv = ("apply", calibrators[0], tmp_path / "preds.npz", "--y-prob", "probs_1")
    assert "'probs_1'" in refused(capsys, *argv, "-o", tmp_path / "out.csv")


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_lists_stay_in_their_cell_of_a_csv(tmp_path, suffix, calibrators, capsys):
    import pyarrow.feather as pa_feather

    pa_feather.write_feather(
        pa.table({"score": [0.5, 0.7], "tags": [["a\tb", "c"], None]}), tmp_path / "in.arrow"
    )
    out = tmp_path / f"out{suffix}"
    argv = ("apply", calibrators[0], tmp_path / "in.arrow", "--y-prob", "score", "-o", out)
    assert run(capsys, *argv)[0] == 0
    with out.open(newline="") as stream:
        rows = list(csv.reader(stream, delimiter="," if suffix == ".csv" else "\t"))
    assert rows == [
        ["score", "tags", "score_calibrated"],
        ["0.5", "['a\\tb', 'c']", "0.5"],
        ["0.7", "", "0.7"],
    ]


def test_an_array_named_like_a_pattern_is_one_array(tmp_path, capsys):
    np.savez(tmp_path / "in.npz", **{"*": LABEL, "score": SCORE, "note": LABEL})
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    out = tmp_path / "out.csv"
    argv = ("apply", tmp_path / "cal.json", tmp_path / "in.npz", "--y-prob", "score", "-o", out)
    assert run(capsys, *argv)[0] == 0
    assert out.read_text().splitlines()[0] == "*,score,note,score_calibrated"
