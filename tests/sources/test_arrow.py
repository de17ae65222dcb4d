"""Arrow files and streams: none that is cut, joined or listed short is taken for whole."""

from __future__ import annotations

import io

import pytest

from conftest import optional
from predictions_on_disk import (
    LABEL,
    ONE,
    SCORE,
    N,
    n_of,
    pa,
    refused,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 13)


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
