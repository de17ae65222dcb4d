"""Standard streams that are closed, full or poor in characters: no verdict is made up or lost."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import CLASS, LABEL, ONE, PROBS, SCORE, write

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
