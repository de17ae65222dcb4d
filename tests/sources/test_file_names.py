"""Names of files, formats and columns."""

from __future__ import annotations

import json

import pytest

from calibrant.exceptions import InvalidInputError
from calibrant.sources.files.names import expand, format_of, match_columns
from conftest import optional


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


def test_a_name_is_itself_before_it_is_a_pattern():
    names = ["p[0]", "p0", "p1"]
    assert match_columns(names, ["p[0]"], "f") == ["p[0]"]
    assert match_columns(names, ["p?", "p1"], "f") == ["p0", "p1"]
    with pytest.raises(InvalidInputError, match="f has no column 'q'; its columns are 'p\\[0\\]'"):
        match_columns(names, ["q"], "f")


def test_a_column_that_is_named_twice_is_a_slip():
    """Taken once, two columns of classes would be one, of an event that nobody named."""
    with pytest.raises(InvalidInputError, match="named once; 'no' is named twice"):
        match_columns(["no", "yes"], ["no", "no"], "f")


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
