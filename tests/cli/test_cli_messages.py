"""What is said when something is wrong: the file, the column, the row, the option, the exit code."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.cli.output import in_options
from predictions_on_disk import COLUMNS, LABEL, MANY, ONE, SCORE, SUFFIXES, run, write

pytestmark = pytest.mark.usefixtures("small_chunks")


def with_one(column, row, value):
    """Return the columns with one other value."""
    changed = COLUMNS[column].astype(type(value) if isinstance(value, str) else float)
    changed[row] = value
    return COLUMNS | {column: changed}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("bins", ["auto", "width:5"])
@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("score", 1.7, "must lie in [0, 1]"),
        ("score", float("nan"), "must not be missing"),
        ("label", 3.0, "Labels of a binary problem must be 0 and 1"),
    ],
)
def test_a_bad_value_is_named_with_file_column_and_row(
    tmp_path, suffix, bins, column, value, words, capsys
):
    file = write(tmp_path / f"preds{suffix}", with_one(column, 1233, value))
    code, out, err = run(capsys, "measure", file, *ONE, "--bins", bins)
    assert (code, out) == (3, "")
    assert err.startswith(f"calibrant: {file}, rows ")
    assert words in err
    assert f"column '{column}', row 1,234 = " in err


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_bad_weight_is_named_with_its_row_of_the_file(tmp_path, suffix, capsys):
    """Not with its row of a chunk: chunks are of 499 rows here."""
    weights = np.ones(LABEL.size)
    weights[1233] = -1
    file = write(tmp_path / f"preds{suffix}", COLUMNS | {"w": weights})
    code, _, err = run(capsys, "measure", file, *ONE, "--sample-weight", "w")
    assert (code, "(first: row 1,234 = -1)" in err) == (3, True)


@pytest.mark.parametrize("command", ["measure", "fit", "compare", "apply", "certify"])
def test_text_among_numbers_is_named_with_its_row(tmp_path, command, capsys):
    file = write(tmp_path / "preds.csv", with_one("score", 1233, "0.5?"))
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    out = tmp_path / "out.csv"
    rest = {
        "measure": (file, *ONE),
        "certify": (file, *ONE, "--max-error", "0.1"),
        "fit": (file, *ONE, "-o", out),
        "compare": (file, *ONE, "--versus", "squared"),
        "apply": (tmp_path / "cal.json", file, "--y-prob", "score", "-o", out),
    }
    code, _, err = run(capsys, command, *rest[command])
    assert code == 3
    assert err == f"calibrant: {file}, column 'score', row 1,234 is '0.5?': expected numbers."
    assert not out.exists()


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".jsonl"])
def test_a_pattern_stands_for_predictions_only(tmp_path, suffix, capsys):
    file = write(tmp_path / f"preds{suffix}")
    code, _, err = run(capsys, "measure", file, "--y-true", "lab*", "--y-prob", "score")
    assert code == 3
    assert "has no column 'lab*'; perhaps 'label' is meant" in err
    code, _, err = run(capsys, "measure", file, *ONE, "--sample-weight", "scor?")
    assert code == 3
    assert "has no column 'scor?'; perhaps 'score' is meant" in err


def test_a_bad_prediction_of_several_is_named_by_its_own_column(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", with_one("prob_1", 700, -0.5))
    _, _, err = run(capsys, "measure", file, *MANY)
    assert "column 'prob_1', row 701 = -0.5" in err


def test_labels_that_are_no_numbers_where_numbers_are_named_are_refused(tmp_path, capsys):
    file = write(tmp_path / "preds.csv", with_one("label", 1233, "x"))
    code, _, err = run(capsys, "measure", file, *ONE, "--pos-label", "1")
    assert code == 3
    assert "column 'label', row 1,234 is 'x': expected a number" in err


BAD_FILES = {
    "empty.csv": (b"", "line 1: the file is empty"),
    "header.csv": (b"label,score\n", "there are no rows"),
    "ragged.csv": (b"label,score\n1,0.5\n1,0.5,7\n", "row 2: expected 2 columns, got 3"),
    "twice.csv": (b"label,score,score\n1,0.5,0.5\n", "the name 'score' stands for several"),
    "latin.csv": (b"label,score\n\xff\xfe,0.5\n", "column 'label', row 1: CSV conv"),
    "broken.jsonl": (b'{"label": 1, "score": 0.5}\n{"label": 1,\n', "row 2 is not an object"),
    "list.jsonl": (b'[{"label": 1, "score": 0.5}]\n', "row 1 is not an object such as"),
    "fields.jsonl": (b'{"label": 1}\n', "has no column 'score'; its columns are 'label'"),
    "no.parquet": (b"PAR1 this is not", "cannot be read: "),
    "no.arrow": (b"ARROW1 this is not it either", "cannot be read: "),
    "no.npz": (b"PK this is not", "cannot be read as .npz"),
    "model.pkl": (b"\x80\x04.", "ends in '.pkl'; known are .csv"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_exit_code_three_and_named(tmp_path, name, capsys):
    content, words = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    code, out, err = run(capsys, "measure", tmp_path / name, *ONE)
    assert (code, out) == (3, "")
    assert name in err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("measure", "missing.csv"), "There is no file 'missing.csv'."),
        (("measure", "{csv}"), "has no column 'labels'; perhaps 'label' is meant."),
        (("measure", "{csv}", "--y-true", "score", "--y-prob", "score"), "both read from column 'score'"),
        (("measure", "{csv}", "--y-true", "score", "--y-prob", "label", "--bins", "width:3"), "Swap the two arguments"),
        (("measure", "{csv}", "--y-true", "animal", "--y-prob", "score"), "Name the event with --pos-label, or both labels with --classes no,yes."),
        (("measure", "{csv}", *ONE, "--table", "{folder}/none/out.json"), "none/out.json: No such file or directory"),
        (("measure", "{csv}", *ONE, "--kind", "marginal"), "For the probability of one event use --kind \"binary\"."),
        (("recheck", "{csv}"), "preds.csv: A certificate must be valid JSON"),
        (("recheck", "none.json"), "none.json: No such file or directory"),
        (("merge", "{csv}", "-o", "x.json"), "preds.csv: A table must be valid JSON"),
        (("apply", "{csv}", "{csv}", "--y-prob", "score", "-o", "x.csv"), "preds.csv: "),
        (("compare", "{csv}", "{short}", *ONE), "they have 1,500 and 10"),
        (("compare", "{csv}", "{shuffled}", *ONE), "the same rows in the same order"),
    ],
)  # fmt: skip
def test_bad_input_is_exit_code_three(tmp_path, argv, words, capsys):
    places = {
        "csv": write(tmp_path / "preds.csv"),
        "short": write(tmp_path / "short.csv", rows=slice(0, 10)),
        "shuffled": write(tmp_path / "shuffled.csv", rows=slice(None, None, -1)),
        "folder": tmp_path,
    }
    code, out, err = run(capsys, *(each.format(**places) for each in argv))
    assert (code, out) == (3, "")
    assert words in err
    assert err.count("\n") == 0


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("before= needs the rows of the report.", "--before needs the rows of the report."),
        ("got draws=3 without cluster=.", "got --draws 3 without --cluster."),
        ("with looks=k at each of k looks", "with --looks k at each of k looks"),
        ("in its own bin, bins=Distinct().", "in its own bin, --bins distinct."),
        ('needs input="probabilities".', "needs --input probabilities."),
        ("independent, pass cluster=False.", "independent, pass cluster=False."),
    ],
)
def test_options_of_every_command_are_called_as_they_are_typed(said, told):
    assert in_options(said) == told


def test_arguments_of_the_library_are_called_as_the_options():
    said = 'Use kind="marginal", bins=5, classes=, or pos_label=. Name them with classes=(no, yes), or by=.'
    assert in_options(said) == (
        'Use --kind "marginal", --bins 5, --classes, or --pos-label. Name them with --classes no,yes, or --by.'
    )
