"""Record batches: none is cut, joined or listed short; of tables that are copied nothing is lost."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

import calibrant as cb
from conftest import optional
from predictions_on_disk import (
    LABEL,
    ONE,
    PROBS,
    SCORE,
    N,
    n_of,
    pa,
    refused,
    run,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


def stream_of(batches):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("damage", ["no end", "cut after a batch", "two joined"])
def test_an_arrow_stream_that_does_not_end_where_the_file_ends_is_refused(tmp_path, damage, capsys):
    batches = pa.table({"label": LABEL, "score": SCORE}).to_batches(max_chunksize=500)
    whole = stream_of(batches)
    (tmp_path / "preds.arrow").write_bytes(whole)
    assert n_of(capsys, tmp_path / "preds.arrow", *ONE) == N
    last = len(whole) - len(stream_of(batches[:2]))
    bad = {"no end": whole[:-8], "cut after a batch": whole[: -last - 8], "two joined": whole * 2}
    (tmp_path / "preds.arrow").write_bytes(bad[damage])
    assert "the mark that ends a stream" in refused(
        capsys, "measure", tmp_path / "preds.arrow", *ONE
    )


def test_an_arrow_file_that_lists_fewer_batches_than_it_holds_is_refused(tmp_path, capsys):
    batches = pa.table({"label": LABEL, "score": SCORE}).to_batches(max_chunksize=500)
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    content, bad = sink.getvalue(), []
    for at in range(len(content) - 300, len(content) - 10):
        if content[at : at + 4] == (3).to_bytes(4, "little"):  # perhaps the length of the list
            bad.append(content[:at] + (2).to_bytes(4, "little") + content[at + 4 :])
    (shorter,) = [each for each in bad if n_listed(each) == 2]
    (tmp_path / "preds.arrow").write_bytes(shorter)
    assert "3 batches of rows are there, but 2 are listed" in refused(
        capsys, "measure", tmp_path / "preds.arrow", *ONE
    )


@pytest.mark.parametrize("record_batch_size", [None, 400])
def test_arrow_files_of_polars_are_read(tmp_path, record_batch_size, capsys):
    pl = optional("polars")
    frame = pl.DataFrame({"label": LABEL, "score": SCORE})
    frame.write_ipc(tmp_path / "preds.arrow", record_batch_size=record_batch_size)
    assert n_of(capsys, tmp_path / "preds.arrow", *ONE) == N


def n_listed(content):
    """Return how many batches an Arrow file lists; None if PyArrow cannot read it."""
    try:
        return pa.ipc.open_file(pa.BufferReader(content)).num_record_batches
    except (pa.ArrowException, OSError):
        return None


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
