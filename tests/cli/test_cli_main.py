"""What every command keeps: exit codes, streams, and a bug that is no verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import (
    CLASS,
    COLUMNS,
    LABEL,
    ONE,
    PROBS,
    SCORE,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

HERE = {"PYTHONPATH": str(Path(cb.__file__).parents[1])}


CLOSED = [" ".join(c) for n in (1, 2, 3) for c in combinations((">&-", "<&-", "2>&-"), n)]


FULL = [">/dev/full", "2>/dev/full", ">/dev/full 2>/dev/full"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a model that is refuted, and a calibrator."""
    place = tmp_path_factory.mktemp("streams")
    write(place / "refuted.csv", {"label": LABEL, "score": SCORE**3})
    cb.Identity().fit(SCORE, LABEL).save(place / "cal.json")
    return place


def shell(folder, line, **environment):
    """Run a command line in a shell; return its exit code and both outputs."""
    python = f"'{sys.executable}' -m"
    done = subprocess.run(
        line.replace("calibrant", f"{python} calibrant", 1),
        shell=True,
        cwd=folder,
        env=os.environ | HERE | environment,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("streams", [*CLOSED, *FULL])
def test_closed_and_full_streams_never_look_like_a_verdict_or_a_bug(folder, streams):
    """A result that nobody gets is exit code 3; a message that nobody gets changes nothing."""
    heard, told = "2>" not in streams, not streams.startswith(">")
    options = " ".join([*ONE, "--max-error 0.01"])
    for line, code in (
        (f"calibrant certify refuted.csv {options}", 1),
        ("calibrant --version", 0),
        ("calibrant measure missing.csv", 3),
        ("calibrant mesure", 4),
    ):
        got, out, err = shell(folder, f"{line} {streams}")
        assert got == (3 if code < 3 and not told else code)
        assert bool(out) == (told and code < 3)
        assert bool(err) == (heard and got > 2)
        assert b"Traceback" not in err
        if got == 3 and code < 3 and heard:
            assert err.startswith(b"calibrant: standard output: ")
            assert err.count(b"\n") == 1


@pytest.mark.parametrize(
    ("streams", "code"), [(">&-", 3), (">/dev/full", 3), ("2>&-", 0), ("2>/dev/full", 0)]
)
def test_rows_that_cannot_be_written_to_standard_output_are_an_error(folder, streams, code):
    line = "calibrant apply cal.json refuted.csv --y-prob score -o -"
    got, out, err = shell(folder, f"{line} {streams}")
    assert got == code
    assert (out.count(b"\n") == LABEL.size + 1) == (code == 0)
    assert err.count(b"\n") == int(code == 3)


def test_closed_standard_input_is_bad_input(folder):
    code, out, err = shell(folder, "calibrant measure - <&-")
    assert (code, out) == (3, b"")
    assert err == b"calibrant: Standard input is closed. Pipe rows in, or name a file.\n"


def test_an_output_file_never_gets_the_number_of_a_closed_stream(folder):
    """What a library writes to standard output or error would end up in it."""
    code = (
        "import os, sys\nfrom calibrant.cli import main\nfrom calibrant._writing import replaced\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "with replaced('out.bin') as stream: number = stream.fileno()\n"
        "sys.exit(10 + number)"
    )
    (folder / "which_number.py").write_text(code)
    line = f"'{sys.executable}' which_number.py >&- 2>&- <&-"
    done = subprocess.run(line, shell=True, cwd=folder, env=os.environ | HERE)
    assert done.returncode >= 13


ASCII = [
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""},
]


@pytest.mark.slow
@pytest.mark.parametrize("environment", ASCII, ids=["ascii streams", "the C locale"])
def test_an_ascii_terminal_is_shown_escapes(folder, environment):
    names = np.array(["gelb", "grün", "weiß"])
    columns = {"labels": names[CLASS], **{name: PROBS[:, k] for k, name in enumerate("abc")}}
    write(folder / "farben.csv", columns)
    write(folder / "schön.csv", {"label": LABEL, "score": SCORE, "über": SCORE})
    one = " ".join(ONE)
    for line, code, shown in (
        ("calibrant measure farben.csv --y-prob a b c --kind marginal", 3, rb"wei\xdf"),
        (f"calibrant compare schön.csv refuted.csv {one}", 0, b"a = sch\\"),
        (f"calibrant report schön.csv {one} --title schön -o schön.html", 0, b"written to sch\\"),
        ("calibrant measure fehlt-schön.csv", 3, b"There is no file 'fehlt-sch\\"),
        (f"calibrant measure schön.csv {one} --bins schön", 4, b"got 'sch\\"),
        ("calibrant apply cal.json schön.csv --y-prob score -o -", 0, "über".encode()),
    ):
        got, out, err = shell(folder, line, **environment)
        assert (got, b"Traceback" in err) == (code, False)
        assert shown in out + err


def test_a_suffix_that_no_file_can_hold_is_refused(folder):
    line = "calibrant apply cal.json refuted.csv --y-prob score -o out.csv --suffix '\udcff'"
    got, _, err = shell(folder, line)
    assert got == 4
    assert b"expected text of Unicode characters" in err


WATCHDOG = 300
"""Seconds after which a command that hangs fails the test; nothing is measured."""


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


def test_the_module_is_the_command(csv):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "calibrant",
            "certify",
            csv,
            *ONE,
            "--norm",
            "l1",
            "--max-error",
            "0.001",
        ],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout.split(":")[0], done.stderr) == (2, "undecided", "")


@pytest.mark.parametrize("day", ["", "soon", "-1", "99999999999999999", "9" * 5000])
@pytest.mark.parametrize("command", ["report", "measure"])
def test_a_day_that_no_calendar_has_is_refused_in_one_line(tmp_path, command, day):
    file = write(tmp_path / "preds.csv")
    argv = [sys.executable, "-m", "calibrant", command, file, *ONE]
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env=os.environ | {"SOURCE_DATE_EPOCH": day},
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (4, "", 1)
    assert "SOURCE_DATE_EPOCH must be a whole number" in done.stderr
