"""Bytes of files: who owns them, their encoding, and lines without an end."""

from __future__ import annotations

import sys

import pytest

import calibrant as cb
from calibrant.sources.files.streams import arrow_stream
from predictions_on_disk import (
    ONE,
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


def one_line(code, out, err, file):
    """Check that a refusal is one line that names the file."""
    assert (code, out) == (3, ""), err
    assert err.count("\n") == 0
    assert str(file) in err
    return err


def test_a_line_that_is_too_long_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.streams.LARGEST_RECORD", 1 << 21)
    row = b'{"label": 1, "score": 0.5, "x": "%s"}\n'
    (tmp_path / "a.jsonl").write_bytes(row % b"" + row % (b"x" * (3 << 20)))
    (tmp_path / "a.csv").write_bytes(b"label,score\n1,0.5\n1," + b"5" * (3 << 20))
    for name, line in (("a.jsonl", 2), ("a.csv", 3)):
        err = one_line(*run(capsys, "measure", tmp_path / name, *ONE), tmp_path / name)
        assert f"line {line} has more than" in err


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_text_of_powershell_is_refused_by_its_encoding(tmp_path, encoding, suffix):
    tab = "\t" if suffix == "tsv" else ","
    rows = '{"y": 1, "p": 0.5}\n' * 5 if suffix == "jsonl" else f"y{tab}p\n" + f"1{tab}0.5\n" * 5
    path = tmp_path / f"preds.{suffix}"
    path.write_bytes(
        ("\ufeff" if encoding == "utf-16-be" else "").encode(encoding) + rows.encode(encoding)
    )
    with pytest.raises(
        cb.exceptions.InvalidDocumentError, match=r"must be UTF-8, and this is UTF-16.*iconv"
    ):
        cb.tabulate("y", "p", data=path)
