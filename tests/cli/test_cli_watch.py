"""calibrant watch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import calibrant as cb
from predictions_on_disk import run, write

ONE = ("--y-true", "label", "--y-prob", "score")


def day(path, number, shift=0.0, n=1000):
    rng = np.random.default_rng(number)
    p = rng.beta(2, 3, size=n)
    y = (rng.uniform(size=n) < np.clip(p + shift, 0, 1)).astype(int)
    return write(path / f"day-{number}.csv", {"label": y, "score": p})


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "churn.json"


def test_a_batch_is_one_line_and_an_alarm_is_exit_code_1(state, tmp_path, capsys):
    for number in range(3):
        code, out, err = run(
            capsys, "watch", state, day(tmp_path, number), *ONE, "--max-error", "0.02"
        )
        assert (code, err) == (0, "")
        assert re.fullmatch(rf"day-{number}\.csv: n = 1,000, .* evidence [\d.]+: no alarm", out)
    for number in range(3, 10):
        code, out, _ = run(capsys, "watch", state, day(tmp_path, number, 0.1), *ONE)
        if code:
            break
    assert code == 1
    assert re.match(r"ALARM at day-[3-6]\.csv, since about day-3\.csv: with 95% confidence", out)
    assert "\n" not in out
    code, out, _ = run(capsys, "watch", state)
    assert code == 1, "an alarm stays"
    code, out, _ = run(capsys, "watch", state, day(tmp_path, 20), *ONE, "--restart", "--json")
    assert code == 0
    told = json.loads(out)
    assert (told["name"], told["period"], told["alarm"]) == ("day-20.csv", 1, False)


def test_the_same_file_does_not_count_twice(state, tmp_path, capsys):
    first = day(tmp_path, 1)
    assert run(capsys, "watch", state, first, *ONE, "--max-error", "0.02")[0] == 0
    before = state.read_bytes()
    code, out, err = run(capsys, "watch", state, first, *ONE)
    assert (code, out) == (3, "")
    assert "came before, as 'day-1.csv'" in err
    assert "--allow-repeat" in err
    assert state.read_bytes() == before
    assert run(capsys, "watch", state, first, *ONE, "--allow-repeat")[0] == 0
    names = [batch.name for batch in cb.CalibrationMonitor.from_json(state.read_bytes()).batches]
    assert names == ["day-1.csv", "day-1.csv (2)"]


def test_options_must_stay_as_they_were(state, tmp_path, capsys):
    run(capsys, "watch", state, day(tmp_path, 1), *ONE, "--max-error", "0.02")
    again = ("watch", state, day(tmp_path, 2), *ONE)
    assert run(capsys, *again, "--max-error", "0.02")[0] == 0, "the same line, every night"
    for option in (
        ("--max-error", "0.03"), ("--confidence-level", "0.9"), ("--input", "logits"),
        ("--pos-label", "1"),
    ):  # fmt: skip
        code, _, err = run(capsys, "watch", state, day(tmp_path, 3), *ONE, *option)
        assert code == 4
        assert f"{option[0]} must stay as it was" in err


@pytest.mark.parametrize(
    ("began", "same", "other"),
    [
        ("12", ("12", "mass:12"), ("10", "auto", "width:12", "hybrid:12", "0,0.5,1")),
        ("auto", ("auto",), ("10",)),
        ("width:4", ("width:4", "0,0.25,0.5,0.75,1"), ("4", "width:5")),
        ("hybrid:3", ("hybrid:3",), ("hybrid:4", "distinct")),
        ("distinct", ("distinct",), ("20",)),
    ],
)
def test_bins_must_stay_as_they_were(state, tmp_path, began, same, other, capsys):
    """They were once read, and then ignored."""
    p = np.random.default_rng(1).integers(1, 20, size=1000) / 20
    first = write(tmp_path / "day.csv", {"label": np.arange(1000) % 2, "score": p})
    line = ("watch", state, first, *ONE, "--allow-repeat", "--max-error", "0.9", "--bins")
    assert run(capsys, *line, began)[0] == 0
    for bins in same:
        assert run(capsys, *line, bins)[0] == 0
    before = state.read_bytes()
    for bins in other:
        code, _, err = run(capsys, *line, bins)
        assert code == 4
        assert f"--bins must stay as they were when {state} began" in err
        assert f"got {bins}." in err
    assert state.read_bytes() == before


def test_bins_are_those_of_the_reference(state, tmp_path, capsys):
    table = ("--bins", "width:5", "--table")
    assert run(capsys, "measure", day(tmp_path, 99), *ONE, *table, "ref.json")[0] == 0
    line = ("watch", state, day(tmp_path, 1), *ONE, "--reference", "ref.json", "--bins")
    code, _, err = run(capsys, *line, "10")
    assert (code, "--bins must stay" in err) == (4, True)
    assert not state.exists()
    assert run(capsys, *line, "width:5")[0] == 0


def test_a_new_state_needs_a_question_and_rows(state, tmp_path, capsys):
    code, _, err = run(capsys, "watch", state)
    assert code == 4
    assert "does not exist yet" in err
    code, _, err = run(capsys, "watch", state, day(tmp_path, 1), *ONE)
    assert code == 4
    assert "--max-error or --reference" in err, err
    assert not state.exists()


def test_a_reference_is_a_saved_table_and_days_may_be_tables_too(state, tmp_path, capsys):
    held_out = day(tmp_path, 99, n=5000)
    table = ("--bins", "width:5", "--table")
    assert run(capsys, "measure", held_out, *ONE, *table, "ref.json")[0] == 0
    assert run(capsys, "watch", state, day(tmp_path, 1), *ONE, "--reference", "ref.json")[0] == 0
    assert run(capsys, "measure", day(tmp_path, 2), *ONE, *table, "two.json")[0] == 0
    code, out, _ = run(capsys, "watch", state, "two.json", "--reference", "ref.json")
    assert code == 0
    assert out.startswith("two.json: n = 1,000")
    assert run(capsys, "measure", day(tmp_path, 3), *ONE, *table, "other.json")[0] == 0
    code, _, err = run(capsys, "watch", state, day(tmp_path, 4), *ONE, "--reference", "other.json")
    assert code == 4
    assert "is not the table" in err
    again = ("--reference", "other.json", "--restart")
    assert run(capsys, "watch", state, day(tmp_path, 4), *ONE, *again)[0] == 0


def test_bad_rows_leave_the_state_alone(state, tmp_path, capsys):
    run(capsys, "watch", state, day(tmp_path, 1), *ONE, "--max-error", "0.02")
    before = state.read_bytes()
    bad = write(tmp_path / "bad.csv", {"label": np.array([0, 1]), "score": np.array([0.2, 1.7])})
    code, _, _ = run(capsys, "watch", state, bad, *ONE, "--metrics", "m.prom")
    assert code == 3
    assert state.read_bytes() == before
    assert not (tmp_path / "m.prom").exists()
    state.write_bytes(before[: len(before) // 2])
    code, _, err = run(capsys, "watch", state, day(tmp_path, 2), *ONE)
    assert code == 3
    assert "churn.json: A monitor must be valid JSON" in err


def test_metrics_are_text_that_prometheus_reads(state, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1794800000")
    run(
        capsys, "watch", state, day(tmp_path, 1), *ONE, "--max-error", "0.02", "--metrics", "m.prom"
    )
    text = (tmp_path / "m.prom").read_text()
    assert text.endswith("# EOF\n")
    sample = re.compile(r'(calibrant_monitor_\w+)\{monitor="churn"\} (\S+)')
    values, kinds = {}, {}
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE"):
            _, _, name, kinds["last"] = line.split()
        elif not line.startswith("# HELP"):
            name, value = sample.fullmatch(line).groups()
            values[name.removeprefix("calibrant_monitor_")] = float(value)
            assert name.endswith("_total") == (kinds["last"] == "counter")
    assert values["alarm"] == 0
    assert values["rows_total"] == 1000
    assert values["max_error"] == 0.02
    assert values["last_update_timestamp_seconds"] == 1794800000


def test_names_of_states_cannot_break_the_metrics():
    from calibrant.cli.watch import metrics_of

    monitor = cb.CalibrationMonitor(0.02)
    text = metrics_of(monitor, 'a"b\\c\nd')
    assert 'monitor="a\\"b\\\\c?d"' in text
    assert "calibrant_monitor_error" not in text


def test_the_page_says_what_the_monitor_says(state, tmp_path, capsys):
    for number in range(3):
        run(capsys, "watch", state, day(tmp_path, number), *ONE, "--max-error", "0.02")
    run(capsys, "watch", state, day(tmp_path, 3, 0.3), *ONE, "--page", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "With 95% confidence the calibration error has exceeded 2%." in page
    assert "Raised at day-3.csv; it began at about day-3.csv." in page
    assert page.count("<svg ") == 1
    assert "<script" not in page


def test_two_processes_do_not_lose_a_batch(state, tmp_path, capsys):
    pytest.importorskip("fcntl")  # what holds a folder
    run(capsys, "watch", state, day(tmp_path, 0), *ONE, "--max-error", "0.02")
    paths = [day(tmp_path, number) for number in range(1, 5)]
    env = {**os.environ, "PYTHONPATH": str(Path(cb.__file__).parents[1])}

    def work(path):
        command = [sys.executable, "-m", "calibrant", "watch", str(state), str(path), *ONE]
        subprocess.run(command, check=True, capture_output=True, env=env)

    threads = [threading.Thread(target=work, args=(path,)) for path in paths]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cb.CalibrationMonitor.from_json(state.read_bytes()).batches) == 5
