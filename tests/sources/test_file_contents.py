"""Files that lose rows, swap columns or crash a reader: every row is counted once, or exit 3."""

from __future__ import annotations

import json
import os
import zipfile
from decimal import Decimal

import numpy as np
import pytest

import calibrant as cb
from conftest import optional
from predictions_on_disk import (
    COLUMNS,
    LABEL,
    MANY,
    ONE,
    SCORE,
    SUFFIXES,
    N,
    lines_to,
    n_of,
    pa,
    refused,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

CSV = ["label,score,note", *(f"{y},{p},fine" for y, p in zip(LABEL, SCORE, strict=True))]
PROB_NAMES = ("prob_0", "prob_1", "prob_2")


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow", ".npz"])
def test_a_file_that_is_cut_is_refused(tmp_path, suffix, capsys):
    content = (tmp_path / "x").parent / f"preds{suffix}"
    write(content)
    whole = content.read_bytes()
    for size in (1, 10, len(whole) // 2, len(whole) - 100, len(whole) - 9, len(whole) - 1):
        content.write_bytes(whole[:size])
        assert "preds" in refused(capsys, "measure", content, *ONE)


@pytest.mark.parametrize(("suffix", "empty"), [(".csv", None), (".parquet", ""), (".jsonl", "")])
def test_empty_text_is_a_group_of_its_own_where_files_tell_it_from_none(tmp_path, suffix, empty):
    pl = optional("polars")
    frame = pl.DataFrame({"y": [0, 1, 1], "p": [0.2, 0.4, 0.6], "site": ["a", "", None]})
    path = tmp_path / f"preds{suffix}"
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[
        suffix
    ](path)
    tables = cb.tabulate("y", "p", data=path, by="site", bins=2)
    assert set(tables) == {"a", empty, None}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_class_columns_in_another_order_are_selected_by_name(tmp_path, suffix, capsys):
    def measured(*order):
        columns = {"animal": COLUMNS["animal"]} | {name: COLUMNS[name] for name in order}
        write(tmp_path / f"b{suffix}", columns)
        files = (tmp_path / f"a{suffix}", tmp_path / f"b{suffix}")
        code, out, err = run(capsys, "measure", *files, *MANY, "--json")
        assert code == 0, err
        return json.loads(out)["value"]

    write(tmp_path / f"a{suffix}")
    assert measured("prob_2", "prob_0", "prob_1") == measured(*PROB_NAMES)


@pytest.mark.parametrize("command", ["fit", "report", "compare"])
def test_other_commands_select_columns_by_name_too(tmp_path, command, capsys):
    write(tmp_path / "a.csv")
    write(tmp_path / "same.csv")
    turned = {"animal": COLUMNS["animal"]} | {n: COLUMNS[n] for n in reversed(PROB_NAMES)}
    write(tmp_path / "turned.csv", turned)

    def done(second):
        more = {
            "fit": ("--method", "temperature", "-o", tmp_path / "out"),
            "report": ("-o", tmp_path / "out.html"),
            "compare": ("--json",),
        }
        files = (tmp_path / "a.csv", tmp_path / second)
        code, out, err = run(capsys, command, *files, *MANY, *more[command])
        assert code == 0, err
        if command == "fit":
            return json.loads((tmp_path / "out").read_text())
        return out.replace(second, "")

    assert done("turned.csv") == done("same.csv")


def two_of_one_name(path):
    """Write a table whose column score is there twice."""
    import pyarrow.parquet as pa_parquet

    arrays = [pa.array(LABEL), pa.array(SCORE), pa.array(SCORE / 2)]
    batch = pa.RecordBatch.from_arrays(arrays, ["label", "score", "score"])
    if path.suffix == ".csv":
        lines_to(
            path,
            ["label,score,score", *(f"{y},{p},{p / 2}" for y, p in zip(LABEL, SCORE, strict=True))],
        )
    elif path.suffix == ".jsonl":
        lines_to(
            path,
            [
                f'{{"label": {y}, "score": {p}, "score": {p / 2}}}'
                for y, p in zip(LABEL, SCORE, strict=True)
            ],
        )
    elif path.suffix == ".parquet":
        pa_parquet.write_table(pa.Table.from_batches([batch]), path)
    elif path.suffix == ".arrow":
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
    else:
        np.savez(path, label=LABEL, score=SCORE)
        with zipfile.ZipFile(path, "a") as archive, archive.open("score", "w") as member:
            np.save(member, SCORE / 2)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".arrow", ".npz"])
def test_two_columns_of_one_name_are_refused(tmp_path, suffix, calibrators, capsys):
    file = tmp_path / f"preds{suffix}"
    two_of_one_name(file)
    out = tmp_path / "out.csv"
    assert "'score'" in refused(capsys, "measure", file, *ONE)
    assert "'score'" in refused(
        capsys, "apply", calibrators[0], file, "--y-prob", "score", "-o", out
    )
    assert not out.exists()


def test_two_columns_of_one_name_do_not_matter_where_nobody_wants_them(tmp_path, capsys):
    lines = [f"{line},1,2" for line in ["label,score,note", *CSV[1:]]]
    lines[0] = "label,score,note,,"
    assert n_of(capsys, lines_to(tmp_path / "preds.csv", lines), *ONE) == N


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_may_have_a_name_that_is_not_utf_8(tmp_path, suffix, capsys):
    plain = write(tmp_path / f"preds{suffix}")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + suffix.encode())
    os.rename(plain, odd)
    assert n_of(capsys, odd, *ONE) == N


def test_lists_of_decimals_are_the_floats_that_they_read_as(tmp_path):
    pyarrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    rows = pyarrow.array(
        [[Decimal("0.3"), Decimal("0.7")]], pyarrow.list_(pyarrow.decimal128(9, 2))
    )
    parquet.write_table(pyarrow.table({"y": [1], "p": rows}), tmp_path / "rows.parquet")
    table = cb.tabulate("y", "p", data=tmp_path / "rows.parquet", bins="width:10")
    assert table.sum_p.sum() == 0.7
