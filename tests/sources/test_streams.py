"""Files: names, formats and patterns, who owns their bytes, encodings, and lines without an end."""

from __future__ import annotations

import json
import sys

import pytest

import calibrant as cb
from calibrant.exceptions import InvalidInputError
from calibrant.sources.files.streams import arrow_stream, expand, format_of
from conftest import optional
from predictions_on_disk import (
    ONE,
    one_line,
    run,
)


def test_arrow_holds_no_bytes_of_pythons():
    """Its thread may let go of them when there is no interpreter any more, which aborts."""
    block = b"a,b\n" * 1000
    held = sys.getrefcount(block)
    stream = arrow_stream(block)
    assert sys.getrefcount(block) == held
    assert stream.read() == block
    assert arrow_stream(b"").read() == b""


def test_a_line_that_is_too_long_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.streams.LARGEST_RECORD", 1 << 21)
    row = b'{"label": 1, "score": 0.5, "x": "%s"}\n'
    (tmp_path / "a.jsonl").write_bytes(row % b"" + row % (b"x" * (3 << 20)))
    (tmp_path / "a.csv").write_bytes(b"label,score\n1,0.5\n1," + b"5" * (3 << 20))
    for name, line in (("a.jsonl", 2), ("a.csv", 3)):
        err = one_line(*run(capsys, "measure", tmp_path / name, *ONE), tmp_path / name)
        assert f"line {line} has more than" in err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_text_of_another_encoding_is_refused_by_its_name(tmp_path, encoding, suffix):
    tab = "\t" if suffix == "tsv" else ","
    rows = '{"y": 1, "p": 0.5}\n' * 5 if suffix == "jsonl" else f"y{tab}p\n" + f"1{tab}0.5\n" * 5
    path = tmp_path / f"preds.{suffix}"
    path.write_bytes(
        ("\ufeff" if encoding.endswith("-be") else "").encode(encoding) + rows.encode(encoding)
    )
    name = encoding[:6].upper()
    with pytest.raises(
        cb.exceptions.InvalidDocumentError, match=rf"must be UTF-8, and this is {name}.*-f {name}"
    ):
        cb.tabulate("y", "p", data=path)


def test_patterns_stand_for_files_in_order(tmp_path):
    for name in ("b.csv", "a.csv", "[x].csv"):
        (tmp_path / name).touch()
    star = str(tmp_path / "?.csv")
    assert expand([star, str(tmp_path / "a.csv"), "-"]) == [
        str(tmp_path / "a.csv"),
        str(tmp_path / "b.csv"),
        "-",
    ]
    assert expand([str(tmp_path / "[x].csv")]) == [str(tmp_path / "[x].csv")]
    with pytest.raises(InvalidInputError, match="is a folder"):
        expand([str(tmp_path)])
    for nothing in (str(tmp_path / "c*"), ""):
        with pytest.raises(InvalidInputError, match="There is no file"):
            expand([nothing])


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.csv", "csv"), ("a.CSV.gz", "csv"), ("a.b.pq", "parquet"), ("a.ndjson.zst", "jsonl")],
)
def test_the_suffix_names_the_format(name, format_):
    assert format_of(name) == format_


@pytest.mark.parametrize("name", ["a.pkl", "a.pickle", "a", "a.gz", "a.npy"])
def test_other_suffixes_are_refused(name):
    with pytest.raises(InvalidInputError, match="known are .csv"):
        format_of(name)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_a_row_that_is_longer_than_a_block_is_read(tmp_path, suffix, monkeypatch):
    optional("pyarrow")
    from calibrant.sources.files import arrow

    monkeypatch.setattr(arrow, "BLOCK_BYTES", 1 << 12)
    texts = ["a", "b" * 3000, "c" * 100_000, "d" * 2_000_000, "e"] * 3
    path, separator = tmp_path / f"long.{suffix}", "\t" if suffix == "tsv" else ","
    if suffix == "jsonl":
        lines = [json.dumps({"n": i, "text": text}) for i, text in enumerate(texts)]
    else:
        lines = [f"n{separator}text", *(f"{i}{separator}{t}" for i, t in enumerate(texts))]
    path.write_text("\n".join(lines))
    batches = [batch for batch, _ in arrow.record_batches(str(path), suffix, list, "long")]
    assert [int(n) for batch in batches for n in batch.column("n").to_pylist()] == [*range(15)]
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == texts
