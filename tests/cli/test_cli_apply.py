"""calibrant apply: every other column is kept."""

from __future__ import annotations

import csv as csv_module
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.sources.files.arrow import table_writer
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    SCORE,
    SUFFIXES,
    pa,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")


@pytest.mark.parametrize("before", SUFFIXES)
@pytest.mark.parametrize("after", [".csv", ".tsv", ".parquet", ".jsonl", ".arrow"])
def test_apply_keeps_every_other_column_in_any_pair_of_formats(tmp_path, before, after, capsys):
    file = write(tmp_path / f"preds{before}")
    saved, out = tmp_path / "cal.json", tmp_path / f"out{after}"
    cb.ScalingBinning(bins=5).fit(COLUMNS["raw"], LABEL).save(saved)
    code, said, err = run(capsys, "apply", saved, file, "--y-prob", "raw", "-o", out)
    assert (code, said, err) == (0, "", f"calibrant: 1,500 rows written to {out}")
    kept = read(out)
    assert list(kept) == [*COLUMNS, "raw_calibrated"]
    assert kept["animal"] == COLUMNS["animal"].tolist()
    assert kept["score"] == pytest.approx(SCORE.tolist(), rel=1e-15)
    assert len(set(kept["raw_calibrated"])) == 5
    is_text = ".csv" in file or ".tsv" in file
    assert kept["id"][7] == (7 if is_text and after not in (".csv", ".tsv") else "00007")


def test_a_pattern_that_stands_for_several_files_is_refused(tmp_path, capsys):
    """Only the first of them would be repaired."""
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    for name in ("part-1.csv", "part-2.csv"):
        write(tmp_path / name)
    pattern, out = str(tmp_path / "part-*.csv"), tmp_path / "out.csv"
    code, _, err = run(
        capsys, "apply", tmp_path / "cal.json", pattern, "--y-prob", "score", "-o", out
    )
    assert (code, out.exists()) == (4, False)
    assert f"{pattern!r} stands for 2 files; name one." in err


def read(path):
    """Read a table back by other means."""
    import pyarrow.csv as pa_csv

    if path.suffix in (".csv", ".tsv"):
        parse = pa_csv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",")
        convert = pa_csv.ConvertOptions(column_types={"id": pa.string()})
        return pa_csv.read_csv(path, parse_options=parse, convert_options=convert).to_pydict()
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return {name: [row[name] for row in rows] for name in rows[0]}
    read_table = pa.parquet.read_table if path.suffix == ".parquet" else pa.feather.read_table
    return read_table(path).to_pydict()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
def test_text_formats_are_copied_as_they_stand(tmp_path, suffix, capsys):
    """Leading zeros, dates, big numbers, blanks and odd fields survive."""
    saved, out = tmp_path / "cal.json", tmp_path / f"out{suffix}"
    cb.Identity().fit(SCORE, LABEL).save(saved)
    odd = ["007", "2020-01-01", "12345678901234567890", "", "NA", "=1+1", 'a "b", c', "1e5"]
    columns = {"p": np.full(8, 0.5), "odd": np.array(odd)}
    before = write(tmp_path / f"in{suffix}", columns)
    assert run(capsys, "apply", saved, before, "--y-prob", "p", "--replace", "-o", out)[0] == 0
    if suffix == ".jsonl":
        assert [json.loads(line)["odd"] for line in out.read_text().splitlines()] == odd
    else:
        import csv as csv_module

        rows = csv_module.reader(
            out.read_text().splitlines(), delimiter="\t" if suffix == ".tsv" else ","
        )
        assert [row[1] for row in rows] == ["odd", *odd]


FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b"]


@pytest.mark.parametrize("escaped", [False, True])
def test_own_cells_are_copied_unless_escaping_is_asked_for(tmp_path, escaped, capsys):
    file = write(tmp_path / "in.parquet", {"=p": np.full(8, 0.5), "text": np.array(FORMULAS)})
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    options = ("--y-prob", "=p", "-o", tmp_path / "out.csv")
    more = ("--escape-formulas",) if escaped else ()
    assert run(capsys, "apply", tmp_path / "cal.json", file, *options, *more)[0] == 0
    with (tmp_path / "out.csv").open(newline="") as stream:
        head, *rows = csv_module.reader(stream)
    quoted = ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "plain", "a=b"]
    assert [row[1] for row in rows] == (quoted if escaped else FORMULAS)
    assert head == ["'=p" if escaped else "=p", "text", "'=p_calibrated"]


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1), st.sampled_from(["csv", "tsv"]))
@settings(max_examples=200)
def test_any_text_in_a_csv_is_read_back_as_it_was(rows, format_):
    stream = io.BytesIO()
    batch = pa.RecordBatch.from_pydict({"a": [a for a, _ in rows], "b": [b for _, b in rows]})
    with table_writer(stream, format_, batch.schema) as writer:
        writer.write(batch)
    text = io.StringIO(stream.getvalue().decode(), newline="")
    delimiter = "," if format_ == "csv" else "\t"
    assert [*csv_module.reader(text, delimiter=delimiter)] == [["a", "b"], *map(list, rows)]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl"])
def test_other_formats_know_no_formulas_and_keep_values(tmp_path, suffix, capsys):
    file = write(tmp_path / f"in{suffix}", {"p": np.full(8, 0.5), "text": np.array(FORMULAS)})
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    out = tmp_path / f"out{suffix}"
    assert run(capsys, "apply", tmp_path / "cal.json", file, "--y-prob", "p", "-o", out)[0] == 0
    if suffix == ".jsonl":
        texts = [json.loads(line)["text"] for line in out.read_text().splitlines()]
    else:
        read = pa.parquet.read_table if suffix == ".parquet" else pa.feather.read_table
        texts = read(out).column("text").to_pylist()
    assert texts == FORMULAS


@pytest.mark.parametrize("after", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("site", [["01", "02", "3"], [1, 2, 3]])
def test_groups_that_were_text_in_a_fit_are_text_in_every_output(tmp_path, after, site, capsys):
    """Columns get types from CSV to Parquet; digits that are names of groups stay what they are."""
    sites = np.array(site)[np.arange(LABEL.size) % 3]
    saved, out = tmp_path / "cal.json", tmp_path / f"out{after}"
    rows = write(tmp_path / "rows.csv", COLUMNS | {"site": sites})
    fitted = cb.ByGroup(cb.PlattScaling()).fit(SCORE, LABEL, by={"site": sites})
    fitted.save(saved)
    code, _, err = run(capsys, "apply", saved, rows, "--y-prob", "score", "-o", out)
    if after == ".csv" and sites.dtype.kind == "i":
        assert (code, "were numbers in the fit" in err) == (3, True)
        return
    assert code == 0
    expected = fitted.predict_proba(SCORE, by={"site": sites})
    np.testing.assert_allclose(np.array(read(out)["score_calibrated"], float), expected, rtol=1e-12)


@pytest.mark.parametrize("after", [".parquet", ".arrow"])
def test_an_output_that_fails_half_way_is_one_line_and_no_file(tmp_path, after):
    """PyArrow wrote a traceback of its own when it found the stream closed."""
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    lines = ["score", *(["0.5"] * 140_000), "1.5"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    argv = [sys.executable, "-m", "calibrant", "apply", "cal.json", "rows.csv", "--y-prob", "score"]
    done = subprocess.run(
        [*argv, "-o", f"out{after}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "row 140,001 = 1.5" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cal.json", "rows.csv"]
