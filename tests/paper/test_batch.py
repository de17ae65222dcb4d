"""Results are kept, skipped and drawn; runs side by side change nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from calibrant.cli import main
from calibrant.paper import STUDIES, run, stand_in
from calibrant.paper.batch import Store, Task, run_all, tasks_for
from calibrant.paper.figures import COLOURS, ON_DARK, draw
from calibrant.paper.study import StudyResult
from conftest import optional

styles = optional("matplotlib.style")

KINDS = ("json", "csv", "png", "svg")


class Silent:
    def update(self, stem, done, total):
        """Ignore it."""


@pytest.fixture
def example():
    return run("example-3-1")


def test_a_result_is_four_files_and_is_found_again(tmp_path, example):
    store = Store(tmp_path)
    store.save(example)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        f"example-3-1.{kind}" for kind in KINDS
    )
    assert store.load("example-3-1") == example
    assert (tmp_path / "example-3-1.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "example-3-1.svg").read_bytes()
    assert (tmp_path / "example-3-1.csv").read_text().splitlines()[0].startswith("quantity,value")


def test_a_run_is_finished_only_with_the_same_settings_seed_and_version(tmp_path, example):
    store, study = Store(tmp_path), STUDIES["example-3-1"]
    store.save(example)
    same = study.identity(None, 0, False)
    assert store.finished("example-3-1", same)
    for changed in ({"seed": 1}, {"calibrant": "0"}, {"settings": {}}, {"digest": "x"}):
        assert not store.finished("example-3-1", same | changed)


def test_missing_figures_are_drawn_again_and_damaged_results_are_run_again(tmp_path, example):
    store = Store(tmp_path)
    store.save(example)
    (tmp_path / "example-3-1.png").unlink()
    (tmp_path / "example-3-1.csv").unlink()
    assert store.finished("example-3-1", example.identity())
    assert (tmp_path / "example-3-1.png").exists()
    assert (tmp_path / "example-3-1.csv").exists()
    (tmp_path / "example-3-1.json").write_text('{"format": "something else"}')
    assert not store.finished("example-3-1", example.identity())


def test_figures_are_the_same_bytes_twice(tmp_path, example):
    for folder in ("a", "b"):
        Store(tmp_path / folder).save(example)
    for kind in ("png", "svg"):
        first, second = ((tmp_path / f / f"example-3-1.{kind}").read_bytes() for f in "ab")
        assert first == second


def test_figures_on_a_dark_ground_have_lines_that_are_seen(example):
    light = draw(example.output.panels)["svg"].decode()
    with styles.context("dark_background"):
        dark = draw(example.output.panels)["svg"].decode()
    assert COLOURS[0] in light
    assert ON_DARK[0] not in light
    assert ON_DARK[0] in dark
    assert COLOURS[0] not in dark


def test_studies_of_data_run_once_for_each_file():
    data = stand_in(100, 3)
    tasks = tasks_for(list(STUDIES.values()), [("a", data), ("b", data)], 0, True)
    assert sum(task.study.name == "lower-bounds" for task in tasks) == 2
    assert sum(task.study.name == "synthetic-n" for task in tasks) == 1
    assert Task(STUDIES["lower-bounds"], data=data).stem == "lower-bounds-stand-in"


@pytest.mark.slow
def test_side_by_side_gives_the_same_numbers():
    tasks = [Task(STUDIES[name], 3, True) for name in ("example-3-1", "synthetic-bins")]
    alone = {result.study: result.output for result in run_all(tasks, 1, Silent())}
    beside = {result.study: result.output for result in run_all(tasks, 2, Silent())}
    assert alone == beside


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
