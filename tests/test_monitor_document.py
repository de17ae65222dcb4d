"""The document of a monitor: what is written of it, and what is not believed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from monitored import watched


def test_a_monitor_without_batches_is_saved_if_its_bins_have_a_name():
    for bins in ("mass:7", 7, "auto", [0, 0.25, 1], cb.EqualWidth(3)):
        fresh = cb.CalibrationMonitor.from_json(cb.CalibrationMonitor(0.1, bins=bins).to_json())
        fresh.update([0, 1], [0.2, 0.3])
        assert len(fresh.batches) == 1
    with pytest.raises(ex.InvalidArgumentError, match="saved if its bins have a name or edges"):
        cb.CalibrationMonitor(0.1, bins=cb.EqualMass(3)).to_json()


def _changed(document, place, value):
    *outer, last = place
    for name in outer:
        document = document[name]
    document[last] = value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), 2), (("max_error",), "x"), (("max_error",), None), (("bins",), 3.5),
        (("bins",), {}), (("problem",), 3), (("period",), -1), (("period",), 1), (("state",), None),
        (("state", "process", "n_batches"), 9), (("state", "process", "log_wealth"), [1]),
        (("state", "process", "start", 0), 7), (("state", "process", "start", 0), 0.5),
        (("state", "past", "size", 0), -1), (("state", "recent", "events", 0), 1e9),
        (("batches",), {}), (("batches", 0, "n"), 0), (("batches", 0, "error"), None),
        (("batches", 0, "alarm"), 1), (("batches", 0, "name"), "\n"), (("input",), "odds"),
        (("kind",), "other"), (("confidence_level",), 95), (("batches", 1), 4),
        (("batches", 1, "alarm"), True), (("batches", 1, "log_evidence"), 9.0),
        (("batches", 1, "n"), 10**6), (("batches", 0, "events"), 10**6), (("batches", 0, "events"), 0),
        (("batches", 0, "period"), 1), (("batches", 1, "low"), 1.0),
    ],
)  # fmt: skip
def test_a_damaged_document_is_refused(place, value):
    document = json.loads(watched(cb.CalibrationMonitor(0.02), 2).to_json())
    _changed(document, place, value)
    with pytest.raises(ex.InvalidDocumentError):
        cb.CalibrationMonitor.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("batches", 0, "name"), "day 2"), (("batches", 2, "alarm"), False),
        (("state", "past", "size"), [0.0] * 10),
    ],
)  # fmt: skip
def test_a_document_whose_parts_contradict_each_other_is_refused(place, value):
    monitor, p = cb.CalibrationMonitor(0.02), np.linspace(0.01, 0.99, 500)
    for day in (1, 2, 3):
        monitor.update(p > 0.3 + day / 100, p, name=f"day {day}")
    assert [batch.alarm for batch in monitor.batches] == [True] * 3
    document = json.loads(monitor.to_json())
    cb.CalibrationMonitor.from_json(json.dumps(document))
    _changed(document, place, value)
    with pytest.raises(ex.InvalidDocumentError):
        cb.CalibrationMonitor.from_json(json.dumps(document))


def test_a_document_cut_in_half_is_refused():
    text = watched(cb.CalibrationMonitor(0.02), 2).to_json()
    for stop in (0, 10, len(text) // 2, len(text) - 1):
        with pytest.raises(ex.InvalidDocumentError):
            cb.CalibrationMonitor.from_json(text[:stop])
