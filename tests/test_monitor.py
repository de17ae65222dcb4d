"""CalibrationMonitor: alarms, what they say, and a state that survives everything."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from monitored import day, watched

SHAPES = {
    "more events": (lambda p: np.minimum(p + 0.07, 1), "events are more frequent than predicted"),
    "fewer events": (lambda p: np.maximum(p - 0.07, 0), "events are less frequent than predicted"),
    "overconfident": (lambda p: 0.4 + 0.6 * (p - 0.4), "rates are less extreme than predicted"),
    "underconfident": (
        lambda p: np.clip(0.4 + 1.5 * (p - 0.4), 0, 1), "rates are more extreme than predicted"
    ),
    "one bin": (lambda p: np.where((p > 0.5) & (p < 0.6), p - 0.2, p), "where predictions lie"),
    "zigzag": (lambda p: np.clip(p + 0.1 * np.sign(np.sin(30 * p)), 0, 1), "events are"),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("max_error", [0.0, 0.02])
def test_a_drift_of_any_shape_raises_an_alarm_that_says_when_and_what(shape, max_error):
    rate, words = SHAPES[shape]
    monitor = watched(cb.CalibrationMonitor(max_error, bins="width:10"), 20)
    assert not monitor.alarm
    assert (monitor.since, monitor.alarm_at, monitor.change) == (None, None, None)
    assert str(monitor).startswith("no alarm: evidence ")
    watched(monitor, 20, rate, start=20)
    assert monitor.alarm
    began = int(monitor.since.removeprefix("day "))
    assert 18 <= began <= 23
    assert began <= int(monitor.alarm_at.removeprefix("day ")) <= 32
    assert words in monitor.change
    assert str(monitor).startswith(f"ALARM at {monitor.alarm_at}, since about {monitor.since}")


def test_a_change_from_the_reference_is_seen_though_the_reference_is_off_itself():
    rng = np.random.default_rng(5)

    def crooked(p):
        return 0.3 + 0.5 * p

    reference = cb.tabulate(*day(rng, 50_000, crooked), bins=10)
    monitor = watched(cb.CalibrationMonitor(reference=reference), 15, crooked)
    assert not monitor.alarm
    watched(monitor, 10, lambda p: crooked(p) - 0.07, start=15)
    assert monitor.alarm
    assert "than in the reference" in monitor.change


def test_predictions_may_move_within_bins_without_an_alarm():
    rng = np.random.default_rng(6)
    reference = cb.tabulate(*day(rng, 20_000), bins="width:10")
    monitor = cb.CalibrationMonitor(reference=reference)
    for _ in range(10):
        p = rng.beta(6, 2, size=1000)
        monitor.update((rng.uniform(size=1000) < p).astype(int), p)
    assert monitor.evidence < 2


def test_tables_frames_files_and_logits_are_read_like_rows(tmp_path):
    rng = np.random.default_rng(1)
    days = [day(rng) for _ in range(3)]
    bins = cb.EqualWidth(8)
    by_rows = cb.CalibrationMonitor(0.01, bins=bins)
    others = {name: cb.CalibrationMonitor(0.01, bins=bins) for name in ("table", "csv", "frame")}
    others["logits"] = cb.CalibrationMonitor(0.01, bins=bins, input="logits")
    pandas = pytest.importorskip("pandas")
    for number, (y, p) in enumerate(days):
        frame = pandas.DataFrame({"y": y, "p": p})
        frame.to_csv(tmp_path / f"{number}.csv", index=False)
        by_rows.update(y, p)
        others["table"].update(cb.tabulate(y, p, bins=bins))
        others["csv"].update("y", "p", data=tmp_path / f"{number}.csv")
        others["frame"].update("y", "p", data=frame)
        others["logits"].update(y, np.log(p / (1 - p)))
    for other in others.values():
        assert other.evidence == pytest.approx(by_rows.evidence, rel=1e-9)


def test_labels_of_text_and_top_labels_are_watched():
    rng = np.random.default_rng(2)
    monitor = cb.CalibrationMonitor(0.02, pos_label="yes")
    y, p = day(rng)
    monitor.update(np.array(["no", "yes"])[y], p)
    assert monitor.batches[0].events == y.sum()
    probs = rng.dirichlet(np.ones(3), size=500)
    top = cb.CalibrationMonitor(0.5)
    top.update(rng.integers(3, size=500), probs)
    assert top.batches[0].n == 500


def test_the_same_rows_do_not_count_twice():
    rng = np.random.default_rng(3)
    monitor = cb.CalibrationMonitor(0.02)
    y, p = day(rng)
    monitor.update(y, p, name="Monday")
    with pytest.raises(ex.InvalidInputError, match="1,000 rows of 'Tuesday' came before, as 'Mon"):
        monitor.update(y[::-1], p[::-1], name="Tuesday")
    assert len(monitor.batches) == 1
    monitor.update(y, p, name="Tuesday", allow_repeat=True)
    table = cb.tabulate(*day(rng), bins="width:4")
    other = cb.CalibrationMonitor(0.02)
    other.update(table)
    with pytest.raises(ex.InvalidInputError, match="came before"):
        other.update(table)


def test_few_rows_may_be_the_same_by_chance():
    monitor = cb.CalibrationMonitor(0.02, bins="width:2")
    for _ in range(3):
        monitor.update([0], [0.01])
    assert [batch.name for batch in monitor.batches] == ["batch 1", "batch 2", "batch 3"]


def test_names_differ():
    monitor = cb.CalibrationMonitor(0.02, bins="width:2")
    monitor.update([0], [0.01], name="Monday")
    with pytest.raises(ex.InvalidArgumentError, match="already one called 'Monday'.*late labels"):
        monitor.update([1], [0.3], name="Monday")


@pytest.mark.parametrize("mode", ["max_error", "reference"])
def test_a_monitor_goes_on_from_its_document_as_if_nothing_had_happened(mode):
    rng = np.random.default_rng(4)
    options = {"max_error": 0.02}
    if mode == "reference":
        options = {"reference": cb.tabulate(*day(rng, 5000), bins=6)}
    whole = watched(cb.CalibrationMonitor(**options), 8)
    parts = watched(cb.CalibrationMonitor(**options), 4)
    rate = SHAPES["more events"][0]
    for way in (
        lambda m: cb.CalibrationMonitor.from_json(m.to_json()),
        lambda m: pickle.loads(pickle.dumps(m)),
        copy.deepcopy,
    ):
        resumed = watched(way(parts), 8, rate, start=4)
        direct = watched(copy.deepcopy(parts), 8, rate, start=4)
        assert resumed.to_json() == direct.to_json()
        assert str(resumed) == str(direct)
    assert len(whole.to_json()) < 40_000


def test_after_a_restart_earlier_evidence_no_longer_counts():
    monitor = watched(cb.CalibrationMonitor(0.02), 5, SHAPES["more events"][0])
    assert monitor.alarm
    monitor.restart()
    assert not monitor.alarm
    assert (monitor.evidence, monitor.since) == (1.0, None)
    monitor = cb.CalibrationMonitor.from_json(monitor.to_json())
    watched(monitor, 5, start=5)
    assert not monitor.alarm
    assert [batch.period for batch in monitor.batches] == [0] * 5 + [1] * 5
    watched(monitor, 5, SHAPES["fewer events"][0], start=10)
    assert monitor.since in ("day 9", "day 10", "day 11")


def test_a_restart_may_bring_another_reference():
    rng = np.random.default_rng(8)
    old, new = (cb.tabulate(*day(rng, 3000), bins=bins) for bins in (5, 8))
    monitor = watched(cb.CalibrationMonitor(reference=old), 2)
    monitor.restart(reference=new)
    watched(monitor, 2, start=2)
    assert monitor.reference is new
    again = cb.CalibrationMonitor.from_json(monitor.to_json())
    assert again.to_json() == monitor.to_json()
    with pytest.raises(ex.InvalidArgumentError, match="only one with a reference="):
        cb.CalibrationMonitor(0.1).restart(reference=new)


def test_what_is_refused_changes_nothing():
    monitor = watched(cb.CalibrationMonitor(0.02), 2)
    before = monitor.to_json()
    for bad in (
        lambda: monitor.update([0, 1], [0.2, np.nan]),
        lambda: monitor.update([0, 2], [0.2, 0.3]),
        lambda: monitor.update([], []),
        lambda: monitor.update([0, 1], np.ones((2, 3)) / 3),
        lambda: monitor.update(cb.tabulate([0, 1], [0.2, 0.3], bins="width:3")),
        lambda: monitor.update([0, 1], [0.2, 0.3], name="a\nb"),
        lambda: monitor.update([0, 1], [0.2, 0.3], allow_repeat="no"),
    ):
        with pytest.raises(ex.CalibrantError):
            bad()
    assert monitor.to_json() == before


def test_questions_that_make_no_sense_are_refused():
    table = cb.tabulate([0, 1], [0.2, 0.3], bins="width:3")
    for options in ({}, {"max_error": 0.1, "reference": table}):
        with pytest.raises(ex.InvalidArgumentError, match="max_error= or reference=, and not both"):
            cb.CalibrationMonitor(**options)
    for wrong in (-0.1, 1.0, math.nan, "2%"):
        with pytest.raises(ex.InvalidArgumentError, match="max_error must be at least 0"):
            cb.CalibrationMonitor(wrong)
    marginal = cb.tabulate([0, 1], np.ones((2, 3)) / 3, kind="marginal", bins="width:3")
    with pytest.raises(ex.InvalidArgumentError, match="watches one event; .* 3 classes"):
        cb.CalibrationMonitor(reference=marginal)
    with pytest.raises(ex.InvalidArgumentError, match="may be 200; there are 201"):
        cb.CalibrationMonitor(0.1, bins="width:201").update([0, 1], [0.2, 0.3])
    groups = cb.tabulate([0, 1], [0.2, 0.3], bins="width:3", by=["a", "b"])
    with pytest.raises(ex.InvalidArgumentError, match="tables of 2 groups"):
        cb.CalibrationMonitor(0.1).update(groups)
    weighted = cb.tabulate([0, 1], [0.2, 0.3], bins="width:3", sample_weight=[1, 2])
    with pytest.raises(ex.InvalidWeightsError, match="sample weights"):
        cb.CalibrationMonitor(0.1).update(weighted)


def test_hard_cases_end_in_numbers():
    monitor = cb.CalibrationMonitor(0.0, bins="width:4")
    monitor.update(np.zeros(500, int), np.zeros(500))
    assert monitor.evidence < 1.5
    monitor.update(np.array([1] + [0] * 499), np.zeros(500))  # an event that could not be
    assert monitor.alarm
    one = cb.CalibrationMonitor(0.3)
    one.update([1], np.array([0.5], np.float16))
    assert 0 < one.evidence < 3
    huge = cb.CalibrationMonitor(0.0, bins="width:2")
    table = cb.tabulate([1] * 100, [0.1] * 100, bins="width:2")
    for _ in range(20):
        table = table + table
    huge.update(table)
    assert math.isfinite(huge.evidence)
    json.loads(huge.to_json())


def test_threads_may_update_one_monitor():
    rng = np.random.default_rng(9)
    days = [day(rng, 200) for _ in range(24)]
    monitor = cb.CalibrationMonitor(0.05, bins="width:5")
    monitor.update(*days[0])

    def work(part):
        for y, p in part:
            monitor.update(y, p)

    threads = [threading.Thread(target=work, args=(days[i::4][1:],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(monitor.batches) == 21
    assert len({batch.name for batch in monitor.batches}) == 21


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a kill that cannot be caught")
def test_the_saved_state_survives_a_kill(tmp_path):
    path = tmp_path / "state.json"
    watched(cb.CalibrationMonitor(0.02), 2).save(path)
    code = (
        "import sys, calibrant as cb\n"
        "m = cb.CalibrationMonitor.from_json(open(sys.argv[1], 'rb').read())\n"
        "print('ready', flush=True)\n"
        "while True: m.save(sys.argv[1])\n"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
        child.stdout.readline()
        child.stdout.close()
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert len(cb.CalibrationMonitor.from_json(path.read_bytes()).batches) == 2


def test_assumptions_are_listed():
    table = cb.tabulate([0, 1, 1], [0.2, 0.3, 0.4], bins="width:2")
    assert any("arrived" in x for x in cb.CalibrationMonitor(0.1).assumptions)
    assert any("within a bin" in x for x in cb.CalibrationMonitor(reference=table).assumptions)
