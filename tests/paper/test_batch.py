"""Results are kept, skipped and drawn; runs side by side change nothing."""

from __future__ import annotations

import pytest

from calibrant.paper import STUDIES, run, stand_in
from calibrant.paper.batch import Store, Task, run_all, tasks_for

KINDS = ("json", "csv", "png", "svg")


def silent(stem, done, total):
    """Tell nobody."""


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


def test_studies_of_data_run_once_for_each_file():
    data = stand_in(100, 3)
    tasks = tasks_for(list(STUDIES.values()), [("a", data), ("b", data)], 0, True)
    assert sum(task.study.name == "lower-bounds" for task in tasks) == 2
    assert sum(task.study.name == "synthetic-n" for task in tasks) == 1
    assert Task(STUDIES["lower-bounds"], data=data).stem == "lower-bounds-stand-in"


@pytest.mark.slow
def test_side_by_side_gives_the_same_numbers():
    tasks = [Task(STUDIES[name], 3, True) for name in ("example-3-1", "synthetic-bins")]
    alone = {result.study: result.output for result in run_all(tasks, 1, silent)}
    beside = {result.study: result.output for result in run_all(tasks, 2, silent)}
    assert alone == beside
