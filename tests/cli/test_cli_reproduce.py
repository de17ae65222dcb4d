"""calibrant reproduce: what runs, what is skipped, and what an interrupt leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from calibrant.cli import main
from calibrant.paper import stand_in
from calibrant.paper.study import StudyResult

KINDS = ("json", "csv", "png", "svg")


def test_the_command_lists_runs_skips_and_forces(tmp_path, capsys):
    out = str(tmp_path / "results")
    assert main(["reproduce", "--list"]) == 0
    assert "calibrators-marginal" in capsys.readouterr().out
    command = ["reproduce", "example-3-1", "proposition-3-2", "--jobs", "1", "-o", out]
    assert main(command) == 0
    first = capsys.readouterr()
    assert "agree" in first.out
    assert "2 of 2: proposition-3-2" in first.err
    stamp = (tmp_path / "results" / "example-3-1.json").stat().st_mtime_ns
    assert main(command) == 0
    assert "2 of 2 done already" in capsys.readouterr().out
    assert (tmp_path / "results" / "example-3-1.json").stat().st_mtime_ns == stamp
    assert main(["reproduce", "example-3-1", "-o", out, "--force"]) == 0
    assert (tmp_path / "results" / "example-3-1.json").stat().st_mtime_ns != stamp


def test_the_command_says_what_is_missing_or_rough(tmp_path, capsys):
    assert main(["reproduce", "lower-bounds", "-o", str(tmp_path)]) == 3
    assert "--probs" in capsys.readouterr().err
    assert main(["reproduce", "nonsense", "-o", str(tmp_path)]) == 4
    assert "synthetic-noisy" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["reproduce", "--seed", "x"])
    assert left.value.code == 4


def test_the_command_reads_predictions_and_says_that_quick_is_rough(tmp_path, capsys):
    data = stand_in(600, 3, seed=2)
    np.savez(tmp_path / "mine.npz", probs=data.probs, labels=data.labels)
    out = tmp_path / "results"
    command = [
        "reproduce",
        "calibrators-top-label",
        "--quick",
        "--probs",
        str(tmp_path / "mine.npz"),
    ]
    assert main([*command, "-o", str(out)]) == 0
    assert "rough" in capsys.readouterr().out
    assert "ran quickly" in (out / "index.html").read_text(encoding="utf-8")
    assert (out / "calibrators-top-label-mine.json").exists()
    assert main([*command, *command[-2:], "-o", str(out)]) == 3
    assert "two of these files" in capsys.readouterr().err


def test_the_command_and_the_page_say_in_how_many_splits_a_claim_holds(tmp_path, capsys, cifar10):
    labels, probs = cifar10
    np.savez(tmp_path / "cifar10.npz", probs=probs, labels=labels)
    command = ["reproduce", "lower-bounds", "--quick", "--probs", str(tmp_path / "cifar10.npz")]
    assert main([*command, "-o", str(tmp_path / "results")]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "l2 error grows" in line)
    assert line.split()[:4] == ["agree", "3", "of", "3"]
    page = (tmp_path / "results" / "index.html").read_text(encoding="utf-8")
    assert "agree, in 3 of 3 splits" in page


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_keeps_what_is_finished(tmp_path, jobs):
    command = [
        *(sys.executable, "-m", "calibrant", "reproduce", "example-3-1", "synthetic-n"),
        *("--jobs", jobs, "-o", str(tmp_path)),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert b"1 of 2: example-3-1" in process.stderr.readline()  # it is saved; the other takes long
    os.kill(process.pid, signal.SIGINT)
    process.communicate()
    assert process.returncode == 130
    finished = tmp_path / "example-3-1.json"
    assert StudyResult.from_json(finished.read_bytes()).study == "example-3-1"
    assert "example-3-1" in (tmp_path / "index.html").read_text(encoding="utf-8")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {*(f"example-3-1.{kind}" for kind in KINDS), "index.html"}
