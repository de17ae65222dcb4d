"""The reference page is what the parser says, and completion scripts are asked as shells ask."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from calibrant.cli.parser import new_parser
from calibrant.cli.reference import commands_of, refreshed
from calibrant.problem import Kind
from predictions_on_disk import run

NAMES = [command.name for command in commands_of(new_parser())]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "command-line.md"


def test_the_reference_page_is_current():
    page = PAGE.read_text(encoding="utf-8")
    assert page == refreshed(page), "run: python -m calibrant.cli.reference docs/command-line.md"
    for name in NAMES:
        assert f"### calibrant {name}\n" in page


def test_every_command_is_in_the_help_once():
    assert len({*NAMES}) == len(NAMES) == 16


def script(shell, capsys):
    code, out, _ = run(capsys, "completion", shell)
    assert code == 0
    return out


QUESTIONS = [
    (["me"], ["measure", "merge"]),
    (["fit", "--met"], ["--method"]),
    (["fit", "--method", "scal"], ["scaling-binning"]),
    (["measure", "--kind", ""], [*get_args(Kind)]),
    (["completion", ""], ["bash", "zsh", "fish"]),
    (["certify", "--max"], ["--max-error"]),
]


@pytest.mark.parametrize(("words", "expected"), QUESTIONS)
def test_bash_completes(words, expected, capsys):
    line = " ".join(f"'{word}'" for word in ["calibrant", *words])
    code = (
        f"{script('bash', capsys)}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}\n"
        '_calibrant; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == expected
    assert done.stderr == ""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell, capsys, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script(shell, capsys))
    done = subprocess.run([shell, "-n", file], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    if shell == "fish":
        for words, expected in QUESTIONS:
            ask = f'source {file}; complete -C "calibrant {" ".join(words)}"'
            done = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True)
            assert sorted(line.split("\t")[0] for line in done.stdout.splitlines()) == sorted(
                expected
            )
