"""CSV: every line of a file is a row, part of a cell, or refused."""

from __future__ import annotations

import pytest

from predictions_on_disk import (
    LABEL,
    ONE,
    SCORE,
    N,
    lines_to,
    n_of,
    refused,
    run,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

CSV = ["label,score,note", *(f"{y},{p},fine" for y, p in zip(LABEL, SCORE, strict=True))]


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
