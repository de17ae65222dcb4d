"""What a monitor keeps: states that learn and know their batches, and its document."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant._digests import digest_of_document
from calibrant.bins import Bins
from calibrant.stats.monitor_records import MonitoredBatch, MonitorState
from calibrant.stats.monitoring import Batch, Tolerance
from monitored import watched

BINS = Bins([0.0, 0.25, 0.5, 0.75, 1.0])
MEAN = np.array([0.15, 0.4, 0.6, 0.85])
SIZE = np.full(4, 500.0)
LINE = MonitoredBatch("Monday", 0, 2000, 1000, 0.5, 0.01, 0.0, 0.02, 0.5, False, "abc")


def after(rates, days=4):
    """Return the state after days of which every bin had exactly this rate of events."""
    state = MonitorState.new(4)
    for _ in range(days):
        batch = Batch(SIZE, np.round(SIZE * rates), SIZE * MEAN)
        state = state.after(batch, Tolerance(0.01, state.past))
    return state


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (MEAN + 0.1, "events are more frequent than predicted"),
        (MEAN - 0.1, "events are less frequent than predicted"),
        (0.5 + 0.5 * (MEAN - 0.5), "rates are less extreme than predicted"),
        (
            MEAN + 0.15 * (MEAN == 0.4),
            "events are more frequent than predicted where predictions lie",
        ),
    ],
)
def test_a_state_says_in_words_what_changed(rates, words):
    assert after(rates).change(BINS, "predicted").startswith(words)


def test_evidence_falls_where_nothing_is_wrong_and_rises_where_much_is():
    assert after(MEAN).log_evidence < 0 < 3 < after(MEAN + 0.1).log_evidence


def test_a_change_begins_where_it_explains_the_labels_best():
    state = after(MEAN, days=3)
    for _ in range(2):
        batch = Batch(SIZE, np.round(SIZE * (MEAN + 0.1)), SIZE * MEAN)
        state = state.after(batch, Tolerance(0.01, state.past))
    assert state.start == 3


def test_a_state_knows_the_batches_that_have_left_it():
    state = after(MEAN, days=1)
    events = int(state.past.events.sum())
    own = replace(LINE, events=events, log_evidence=state.log_evidence)
    assert state.is_of([own])
    for other in (
        replace(own, n=1999),
        replace(own, events=events - 1),
        replace(own, log_evidence=own.log_evidence + 0.01),
    ):
        assert not state.is_of([other])


def test_states_and_batches_are_what_their_documents_say():
    state = after(MEAN + 0.1)
    document = json.loads(json.dumps(state.to_dict(), allow_nan=False))
    again = MonitorState.from_dict(document, 4, 4)
    assert again.to_dict() == state.to_dict()
    assert again.log_evidence == state.log_evidence
    with pytest.raises(ex.InvalidDocumentError, match="must have seen its 3 batches"):
        MonitorState.from_dict(document, 4, 3)
    with pytest.raises(ex.InvalidDocumentError, match="needs 61 numbers"):
        MonitorState.from_dict(
            document | {"process": document["process"] | {"log_best": [0.0]}}, 4, 4
        )
    assert MonitoredBatch.from_dict(LINE.to_dict()) == LINE
    for wrong in ({"events": 2001}, {"low": 0.5}, {"n": 0}, {"digest": 3}):
        with pytest.raises(ex.InvalidDocumentError):
            MonitoredBatch.from_dict(LINE.to_dict() | wrong)


def test_a_batch_is_one_line_and_its_evidence_a_float():
    assert str(LINE).startswith("Monday: n = 2,000, 0.5000 happened, 0.5000 predicted")
    assert "\n" not in str(LINE)
    assert str(replace(LINE, alarm=True)).endswith(", alarm")
    assert math.isfinite(replace(LINE, log_evidence=1e6).evidence)


def test_a_monitor_without_batches_is_saved_if_its_bins_have_a_name():
    for bins in ("mass:7", 7, "auto", [0, 0.25, 1], cb.EqualWidth(3)):
        fresh = cb.CalibrationMonitor.from_json(cb.CalibrationMonitor(0.1, bins=bins).to_json())
        fresh.update([0, 1], [0.2, 0.3])
        assert len(fresh.batches) == 1
    with pytest.raises(ex.InvalidArgumentError, match="saved if its bins have a name or edges"):
        cb.CalibrationMonitor(0.1, bins=cb.EqualMass(3)).to_json()


def _changed(document, place, value):
    """Change a document, and give it the digest of what it then states, as an adversary would."""
    *outer, last = place
    part = document
    for name in outer:
        part = part[name]
    part[last] = value
    _seal(document)


def _seal(document):
    document["digest"] = digest_of_document({k: v for k, v in document.items() if k != "digest"})


def _unsealed(document):
    """Return the document as versions wrote it before there was a digest."""
    return {k: v for k, v in document.items() if k != "digest"} | {"schema": 1}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), 1), (("schema",), 3), (("max_error",), "x"), (("max_error",), None), (("bins",), 3.5),
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
    for damaged in (document, _unsealed(document) if place != ("schema",) else document):
        with pytest.raises(ex.InvalidDocumentError, match="^(?!A monitor's document must state)"):
            cb.CalibrationMonitor.from_json(json.dumps(damaged))


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


@pytest.mark.parametrize("referred", [False, True])
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("max_error",), 0.5), (("confidence_level",), 0.9), (("bins", "edges", 1), 0.1234),
        (("version",), "0.0.9"), (("batches", 0, "error"), 0.011), (("kind",), "binary"),
        (("batches", 1, "digest"), "abc"), (("state", "recent", "events", 0), 1.5),
        (("state", "process", "start", 3), 0), (("problem", "classes"), ["no", "yes"]),
        (("digest",), "sha256:" + "0" * 64), (("digest",), None), (("digest",), 7),
    ],
)  # fmt: skip
def test_a_document_that_was_edited_is_refused_though_nothing_else_contradicts_it(
    place, value, referred
):
    reference = cb.tabulate([0, 1] * 500, np.arange(1000) / 1000, bins=10)
    options = {"reference": reference} if referred else {"max_error": 0.02}
    document = json.loads(watched(cb.CalibrationMonitor(**options), 2).to_json())
    digest = document["digest"]
    _changed(document, place, value)
    document["digest"] = value if place == ("digest",) else digest
    with pytest.raises(ex.InvalidDocumentError, match="must state what was saved.*take a copy"):
        cb.CalibrationMonitor.from_json(json.dumps(document))


def test_a_document_says_the_same_in_another_order_and_layout():
    monitor = watched(cb.CalibrationMonitor(0.02), 2)
    document = dict(reversed(json.loads(monitor.to_json()).items()))
    again = cb.CalibrationMonitor.from_json(json.dumps(document, indent=7))
    assert again.to_json() == monitor.to_json()


def test_a_document_from_before_there_was_a_digest_is_read_and_gets_one():
    monitor = watched(cb.CalibrationMonitor(0.02), 2)
    again = cb.CalibrationMonitor.from_json(json.dumps(_unsealed(monitor.to_dict())))
    assert again.to_json() == monitor.to_json()
    assert again.to_dict()["schema"] == 2
