"""What is said when something is wrong: the file, the column, the row, the option, the exit code."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from calibrant.cli.messages import in_options
from predictions_on_disk import COLUMNS, LABEL, MANY, ONE, SCORE, SUFFIXES, run, write

WATCHDOG = 300
"""Seconds after which a command that hangs fails the test; nothing is measured."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr("calibrant.sources.files.arrow.MOST_ROWS", 499)
    monkeypatch.setattr("calibrant.sources.files.arrow.BLOCK_BYTES", 1 << 15)


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
    ("argv", "words"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("mesure", "x.csv"), "invalid choice: 'mesure'"),
        (("certify", "x.csv"), "--max-error"),
        (("measure", "--y-prob", "score", "x.csv"), "Files come before --y-prob"),
        (("certify", "x.csv", "--max-error", "2"), "expected a number between 0 and 1; got '2'"),
        (("measure", "x.csv", "--bins", "many"), 'must be a number of bins, "auto", "mass:15", "width:15", "hybrid:15", "distinct", or edges'),
        (("measure", "x.csv", "--bins", "0"), "must be a whole number >= 1"),
        (("measure", "x.csv", "--bins", "0,0.5"), "run from 0 to 1"),
        (("measure", "x.csv", "--bins", "0,x,1"), "expected numbers between commas"),
        (("measure", "x.csv", "--norm", "0.5"), "expected l1, l2, max or a number of at least 1"),
        (("measure", "x.csv", "--confidence-level", "95"), "expected a number between 0 and 1"),
        (("measure", "x.csv", "--nom", "l1"), "unrecognized arguments"),
        (("plan", "--n-bins", "10"), "one of the arguments --max-error --rows is required"),
        (("plan", "--n-bins", "-3", "--rows", "10"), "expected a whole number of at least 1"),
        (("completion", "tcsh"), "invalid choice: 'tcsh'"),
        (("compare", "x.csv", *ONE), "Give two files, or one file and --versus"),
        (("fit", "x.csv", *ONE, "--method", "platt", "--bins", "5", "-o", "y"), "--bins is for scaling-binning"),
        (("fit", "x.csv", *ONE, "--bins", "distinct", "-o", "y"), "got 'distinct'"),
        (("apply", "{cal}", "{csv}", "--y-prob", "score", "--suffix", "", "-o", "{folder}/y.csv"), "already has a column 'score'"),
        (("apply", "{cal}", "{csv}", "--y-prob", "score", "-o", "{folder}/y.csv.gz"), "Compressed files are read, not written"),
        (("fit", "{csv}", *MANY, "--method", "vector", "--kind", "marginal", "-o", "y"), "leave --kind out"),
        (("measure", "{csv}", *MANY, "--classes", "cat,dog"), "classes must name every one of the 3 classes"),
    ],
)  # fmt: skip
def test_usage_errors_are_exit_code_four(tmp_path, argv, words, capsys):
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    places = {
        "csv": write(tmp_path / "preds.csv"),
        "cal": tmp_path / "cal.json",
        "folder": tmp_path,
    }
    code, out, err = run(capsys, *(each.format(**places) for each in argv))
    assert (code, out) == (4, "")
    assert words in err


def test_arguments_of_the_library_are_called_as_the_options():
    said = 'Use kind="marginal", bins=5, classes=, or pos_label=. Name them with classes=(no, yes).'
    assert in_options(said) == (
        'Use --kind "marginal", --bins 5, --classes, or --pos-label. Name them with --classes no,yes.'
    )


def test_a_crash_does_not_look_like_a_verdict(capsys, monkeypatch):
    monkeypatch.setattr("calibrant.stats.samples_to_certify", lambda *a, **k: 1 / 0)
    code, _, err = run(capsys, "plan", "--max-error", "0.1", "--n-bins", "3")
    assert code == 70
    assert "ZeroDivisionError" in err
    assert err.endswith("this is a bug in calibrant; please report it with the lines above")


def test_a_warning_is_one_line(capsys, monkeypatch):
    import warnings

    def warn(*_, **__):
        warnings.simplefilter("always")
        warnings.warn("mind\x1b it", stacklevel=1)
        return 5

    monkeypatch.setattr("calibrant.stats.samples_to_certify", warn)
    code, out, err = run(capsys, "plan", "--max-error", "0.1", "--n-bins", "3")
    assert (code, out[:12], err) == (0, "5 rows certi", "calibrant: warning: mind\\x1b it")


def test_every_command_has_help_with_examples(capsys):
    from calibrant.cli.parser import COMMANDS

    for name in COMMANDS:
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert "examples:\n  " in out
        assert "calibrant" in out.split("examples:")[1]


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom calibrant.cli import main\n"
        "try: main(['measure', '--help'])\n"
        "except SystemExit: print(' '.join(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "scipy", "sklearn", "pyarrow", "matplotlib", "numba", "narwhals"}
    assert heavy & set(done.stderr.split()) == set()


def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path):
    cb.Identity().fit(SCORE, LABEL).save(tmp_path / "cal.json")
    rows = {name: np.tile(column, 40) for name, column in COLUMNS.items()}
    file = write(tmp_path / "long.csv", rows)
    argv = [sys.executable, "-m", "calibrant", "apply", str(tmp_path / "cal.json"), file,
            "--y-prob", "score", "-o", "-"]  # fmt: skip
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"id,label,score")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(WATCHDOG) == 141


def test_an_interrupt_ends_the_command_quietly_with_130(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    argv = [sys.executable, "-m", "calibrant", "measure", str(pipe), *ONE]
    # A suite that runs in the background of a shell ignores interrupts, and so would its children.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        command = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, handler)
    with command as process:
        with pipe.open("wb", buffering=0) as stream:
            stream.write(bytes(1 << 22))  # far more than a pipe holds: the command is reading
            process.send_signal(signal.SIGINT)
            assert process.wait(WATCHDOG) == 130
        assert process.stderr.read() == b"calibrant: interrupted\n"


def test_a_pipe_is_read_like_a_file(tmp_path):
    pipe, file = tmp_path / "pipe.jsonl", write(tmp_path / "preds.jsonl")
    os.mkfifo(pipe)
    argv = [sys.executable, "-m", "calibrant", "measure", str(pipe), *ONE, "--json"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pipe.write_bytes(Path(file).read_bytes())
        assert json.loads(process.stdout.read())["n"] == LABEL.size
        assert process.stderr.read() == b""


def test_a_terminal_gets_a_bar_and_a_pipe_none(tmp_path, monkeypatch):
    file = write(tmp_path / "preds.csv")
    leader, follower = pty.openpty()
    code = (
        "import sys\nfrom calibrant.cli import main, output\n"
        "output.REDRAW_SECONDS = 0\nsys.exit(main(sys.argv[1:]))"
    )
    argv = [sys.executable, "-c", code, "measure", file, *ONE, "--json"]
    env = os.environ | {"TERM": "xterm"}
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=follower, env=env, check=True)
    os.close(follower)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    assert json.loads(done.stdout)["n"] == LABEL.size
    assert "choosing bins, pass 1 [####################] 100%  1,500 rows  preds.csv" in drawn
    assert drawn.endswith("\r\033[K")
