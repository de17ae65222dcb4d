"""What a monitor keeps: states that learn, say what changed, and know their own batches."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from calibrant.bins import Bins
from calibrant.exceptions import InvalidDocumentError
from calibrant.stats.monitor_records import MonitoredBatch, MonitorState
from calibrant.stats.monitoring import Batch, Tolerance

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
    with pytest.raises(InvalidDocumentError, match="must have seen its 3 batches"):
        MonitorState.from_dict(document, 4, 3)
    with pytest.raises(InvalidDocumentError, match="needs 61 numbers"):
        MonitorState.from_dict(
            document | {"process": document["process"] | {"log_best": [0.0]}}, 4, 4
        )
    assert MonitoredBatch.from_dict(LINE.to_dict()) == LINE
    for wrong in ({"events": 2001}, {"low": 0.5}, {"n": 0}, {"digest": 3}):
        with pytest.raises(InvalidDocumentError):
            MonitoredBatch.from_dict(LINE.to_dict() | wrong)


def test_a_batch_is_one_line_and_its_evidence_a_float():
    assert str(LINE).startswith("Monday: n = 2,000, 0.5000 happened, 0.5000 predicted")
    assert "\n" not in str(LINE)
    assert str(replace(LINE, alarm=True)).endswith(", alarm")
    assert math.isfinite(replace(LINE, log_evidence=1e6).evidence)
