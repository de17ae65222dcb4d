"""What is printed: names that want to do harm only show, and a bar only on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.cli.output import LONGEST_MESSAGE, printable, shortened
from predictions_on_disk import (
    CLASS,
    LABEL,
    ONE,
    PROBS,
    SCORE,
    run,
    write,
)

pytestmark = pytest.mark.usefixtures("small_chunks")

EVIL = {
    "markup": "<script>alert('x')</script>&amp;]]>",
    "formula": "=cmd|' /C calc'!A0",
    "escape sequence": "\x1b[2J\x1b]0;title\x07\x9b31m",
    "control characters": "a\x00b\x08c\rd\ne\tf\x7f",
    "direction": "\u202egpj.exe\u2066\u200f",
    "right to left": "קטגוריה عربى",
    "endless": "x" * 10_000,
    "endless words": "word " * 2_000,
    "surrogate": "\ud800half",
    "quotes": "'; drop table t; --\"",
}


def is_harmless(text):
    """Tell whether a terminal only shows it: no control, format or surrogate characters."""
    bad = [c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]
    return not bad and len(text) < LONGEST_MESSAGE + 1_000


@pytest.mark.parametrize("name", EVIL)
def test_the_name_of_a_missing_column_or_file_does_no_harm(tmp_path, name, capsys):
    file = write(tmp_path / "preds.csv", {"label": LABEL, "score": SCORE})
    for argv in (
        ("measure", file, "--y-true", EVIL[name], "--y-prob", "score"),
        ("measure", file, "--y-true", "label", "--y-prob", EVIL[name]),
        ("measure", file, "--y-true", "label", "--y-prob", "score", "--pos-label", EVIL[name],
         "--classes", "0,1"),
        ("measure", file, "--bins", EVIL[name]),
        ("measure", EVIL[name].replace("\x00", "")),
        (EVIL[name],),
    ):  # fmt: skip
        code, out, err = run(capsys, *argv)
        assert code in (3, 4)
        assert out == ""
        assert is_harmless(err)
        assert "Traceback" not in err


@pytest.mark.parametrize("name", [n for n in EVIL if n != "surrogate"])
def test_columns_and_classes_of_any_name_are_measured_and_shown_harmlessly(tmp_path, name, capsys):
    evil = EVIL[name].replace("\x00", "")
    columns = {evil: np.array([evil, "b", "c"])[CLASS], "p0": PROBS[:, 0], "p1": PROBS[:, 1],
               f"{evil}2": PROBS[:, 2]}  # fmt: skip
    file = write(tmp_path / "preds.parquet", columns)
    options = ("--y-true", evil, "--y-prob", "p0", "p1", f"{evil}2", "--kind", "marginal")
    named = ("--classes", f"{evil},b,c") if "," not in evil else ()
    code, out, _ = run(capsys, "measure", file, *options, *named)
    assert (code, is_harmless(out)) == (0, True)
    assert len(out) < 2_000
    code, out, _ = run(capsys, "measure", file, *options, *named, "--json")
    assert code == 0
    assert evil in json.loads(out)["per_class"]
    assert out.isascii()
    assert out.isprintable()


def test_a_bad_value_in_a_column_of_an_evil_name_is_told_harmlessly(tmp_path, capsys):
    for number, evil in enumerate(EVIL.values()):
        columns = {"label": LABEL, evil: np.where(np.arange(LABEL.size) == 7, 9.0, SCORE)}
        if "\ud800" in evil:
            continue
        file = write(tmp_path / f"{number}.parquet", columns)
        code, _, err = run(capsys, "measure", file, "--y-true", "label", "--y-prob", evil)
        assert (code, is_harmless(err)) == (3, True)
        assert "row 8 = 9" in err


@given(st.text())
@settings(max_examples=300)
def test_what_is_printed_never_moves_the_cursor(text):
    shown = printable(text)
    assert all(is_harmless(line) for line in shown.split("\n"))
    assert printable("plain text, ünïcode") == "plain text, ünïcode"


@given(st.text(), st.integers(10, 50))
def test_shortened_text_keeps_its_beginning_and_end(text, most):
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text or ("..." in short and short[0] == text[0] and short[-1] == text[-1])


def test_a_terminal_gets_a_bar_and_a_pipe_none(tmp_path, monkeypatch):
    file = write(tmp_path / "preds.csv")
    try:
        leader, follower = pty.openpty()
    except OSError:
        pytest.skip("this machine lends no terminals")
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
