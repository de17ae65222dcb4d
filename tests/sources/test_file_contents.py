"""Files that lose rows, swap columns or crash a reader: every row is counted once, or exit 3."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pytest

import calibrant as cb
from calibrant.sources.files.streams import arrow_stream
from conftest import optional
from predictions_on_disk import COLUMNS, LABEL, MANY, ONE, PROBS, SCORE, SUFFIXES, N, pa, run, write

CSV = ["label,score,note", *(f"{y},{p},fine" for y, p in zip(LABEL, SCORE, strict=True))]
PROB_NAMES = ("prob_0", "prob_1", "prob_2")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 13)


@pytest.fixture
def calibrators(tmp_path):
    """Save a calibrator of one column and one of three, which leave all as it is."""
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "one.json")
    cb.Identity().fit(PROBS, COLUMNS["animal"], classes=("cat", "dog", "eel")).save(
        tmp_path / "many.json"
    )
    return tmp_path / "one.json", tmp_path / "many.json"


def refused(capsys, *argv):
    """Return the one line with which a command refuses its input."""
    code, out, err = run(capsys, *argv)
    assert (code, out) == (3, ""), err
    assert err.count("\n") == 0
    return err


def n_of(capsys, *argv):
    code, out, err = run(capsys, "measure", *argv, "--json")
    assert code == 0, err
    return json.loads(out)["n"]


def lines_to(path, lines, end="\n"):
    path.write_text(end.join(lines) + end, newline="")
    return str(path)


# quotes


@pytest.mark.parametrize("line", [1, 7, 700, N])
@pytest.mark.parametrize("command", [("measure",), ("certify", "--max-error", "0.5")])
def test_a_quote_that_never_closes_is_refused_with_its_line(tmp_path, line, command, capsys):
    lines = [*CSV]
    lines[line] = lines[line].replace("fine", '"fine')
    file = lines_to(tmp_path / "preds.csv", lines)
    err = refused(capsys, command[0], file, *ONE, *command[1:])
    assert f"preds.csv, line {line + 1:,}: the quote that opens here never closes" in err


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ((7, "fine", '"fine'), (900, "fine", '"fine')),
        ((7, "fine", '"fine'), (900, "fine", 'fine"')),
        ((7, "fine", '"fine'), (8, "fine", 'fine"')),
        ((7, "fine", '"one, two'), (900, "fine", 'fine"')),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quote_that_closes_many_rows_later_is_refused(tmp_path, first, last, end, capsys):
    lines = [*CSV]
    for line, old, new in (first, last):
        lines[line] = lines[line].replace(old, new)
    file = lines_to(tmp_path / "preds.csv", lines, end)
    err = refused(capsys, "measure", file, *ONE)
    assert f"line 8: the quote that opens here closes only in line {last[0] + 1:,}" in err


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_quoted_cells_of_several_lines_and_blank_lines_lose_no_row(tmp_path, end, capsys):
    notes = ["fine", f'"two{end}lines"', '"say ""hi"""', '5" screen', f'"{end}{end}"', '"a, b"']
    lines = [line.replace("fine", notes[i % 6]) for i, line in enumerate(CSV)]
    plain = n_of(capsys, lines_to(tmp_path / "plain.csv", CSV, end), *ONE)
    file = lines_to(tmp_path / "preds.csv", [*lines[:40], "", "", *lines[40:], ""], end)
    assert n_of(capsys, file, *ONE) == plain == N
    first = [",".join([note, *line.split(",")[:2]]) for note, line in
             zip(["note", *notes * N], ["label,score", *CSV[1:]], strict=False)]  # fmt: skip
    assert n_of(capsys, lines_to(tmp_path / "first.csv", first, end), *ONE) == N


def test_a_cell_of_several_lines_that_is_longer_than_a_block_is_read(tmp_path, capsys):
    lines = [*CSV]
    lines[30] = lines[30].replace("fine", '"' + "long text\n" * 10_000 + '"')
    assert n_of(capsys, lines_to(tmp_path / "preds.csv", lines), *ONE) == N


def test_rows_of_a_csv_are_counted_from_one(tmp_path, capsys):
    lines = [*CSV]
    lines[1234] += ",more"
    err = refused(capsys, "measure", lines_to(tmp_path / "preds.csv", lines), *ONE)
    assert err.endswith("preds.csv, row 1,234: expected 3 columns, got 4.")


@pytest.mark.parametrize("blank", [0, 3, 1499])
def test_a_blank_line_of_one_column_is_a_missing_value(tmp_path, calibrators, blank, capsys):
    scores = [str(score) for score in SCORE]
    file = lines_to(tmp_path / "in.csv", ["score", *scores[:blank], "", *scores[blank:]])
    argv = ("apply", calibrators[0], file, "--y-prob", "score", "-o", tmp_path / "out.csv")
    assert f"row {blank + 1:,}" in refused(capsys, *argv)
    lines_to(tmp_path / "in.csv", ["score", *scores, "", ""])
    assert run(capsys, *argv)[0] == 0
    assert len((tmp_path / "out.csv").read_text().splitlines()) == N + 1


# files that end early


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow", ".npz"])
def test_a_file_that_is_cut_is_refused(tmp_path, suffix, capsys):
    content = (tmp_path / "x").parent / f"preds{suffix}"
    write(content)
    whole = content.read_bytes()
    for size in (1, 10, len(whole) // 2, len(whole) - 100, len(whole) - 9, len(whole) - 1):
        content.write_bytes(whole[:size])
        assert "preds" in refused(capsys, "measure", content, *ONE)


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


def n_listed(content):
    """Return how many batches an Arrow file lists; None if PyArrow cannot read it."""
    try:
        return pa.ipc.open_file(pa.BufferReader(content)).num_record_batches
    except (pa.ArrowException, OSError):
        return None


# names and order


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


# one file, one column, once


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


def test_columns_of_an_array_do_not_hide_another_array(tmp_path, calibrators, capsys):
    np.savez(tmp_path / "preds.npz", probs=PROBS, probs_1=SCORE)
    argv = ("apply", calibrators[0], tmp_path / "preds.npz", "--y-prob", "probs_1")
    assert "'probs_1'" in refused(capsys, *argv, "-o", tmp_path / "out.csv")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_may_have_a_name_that_is_not_utf_8(tmp_path, suffix, capsys):
    plain = write(tmp_path / f"preds{suffix}")
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff" + suffix.encode())
    os.rename(plain, odd)
    assert n_of(capsys, odd, *ONE) == N


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


def test_arrow_holds_no_bytes_of_pythons():
    """Its thread may let go of them when there is no interpreter any more, which aborts."""
    block = b"a,b\n" * 1000
    held = sys.getrefcount(block)
    stream = arrow_stream(block)
    assert sys.getrefcount(block) == held
    assert stream.read() == block
    assert arrow_stream(b"").read() == b""


def test_lists_of_decimals_are_the_floats_that_they_read_as(tmp_path):
    pyarrow, parquet = optional("pyarrow"), optional("pyarrow.parquet")
    rows = pyarrow.array(
        [[Decimal("0.3"), Decimal("0.7")]], pyarrow.list_(pyarrow.decimal128(9, 2))
    )
    parquet.write_table(pyarrow.table({"y": [1], "p": rows}), tmp_path / "rows.parquet")
    table = cb.tabulate("y", "p", data=tmp_path / "rows.parquet", bins="width:10")
    assert table.sum_p.sum() == 0.7
