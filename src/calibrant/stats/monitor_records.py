"""What a monitor keeps: a line for each batch, and the numbers that its bets depend on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._documents import check_entries, check_names, is_number, is_text, is_whole, shown
from calibrant._results import Result
from calibrant._types import FloatArray
from calibrant.bins import Bins
from calibrant.exceptions import InvalidDocumentError
from calibrant.stats.monitoring import (
    Batch,
    EProcess,
    Reference,
    Tolerance,
    alternative_of,
    alternative_weights,
    learned_gaps,
    log_e_values,
    remembered,
)

LONGEST_NAME = 200
"""Of a batch: it stands in messages, and in every document."""
ROUNDING = 1e-6
"""Of logarithms of evidence: sums of many terms, which processors add up in other orders."""


@dataclass(frozen=True, repr=False)
class MonitoredBatch(Result):
    """One batch, and where it left the monitor.

    Attributes
    ----------
    name : str
    period : int
        0, and 1 more after each `CalibrationMonitor.restart`.
    n, events : int
        Rows, and events among them.
    mean_prediction : float
    error, low, high : float
        The l2 calibration error of this batch alone, in the monitor's bins, with its interval.
    log_evidence : float
        The natural logarithm of the evidence after this batch.
    alarm : bool
        Whether there was an alarm by then, in this period.
    digest : str
        By which the rows are recognised, should they come again.
    """

    name: str
    period: int
    n: int
    events: int
    mean_prediction: float
    error: float
    low: float
    high: float
    log_evidence: float
    alarm: bool
    digest: str

    @property
    def evidence(self) -> float:
        """What bets at fair odds had made of 1 by then."""
        return math.exp(min(self.log_evidence, 700.0))

    def __str__(self) -> str:  # one line of a log, which is searched line by line
        rate = f"{self.events / self.n:.4f} happened, {self.mean_prediction:.4f} predicted"
        error = f"l2 error {self.error:.4f} [{self.low:.4f}, {self.high:.4f}]"
        alarm = ", alarm" if self.alarm else ""
        evidence = in_words(self.evidence)
        return f"{self.name}: n = {self.n:,}, {rate}, {error}, evidence {evidence}{alarm}"

    @classmethod
    def from_dict(cls, document: Any) -> MonitoredBatch:
        """Rebuild a batch from `to_dict`; raise InvalidDocumentError if that cannot be done."""
        check_names(document, tuple(_ALLOWED), "A batch of a monitor")
        check_entries(document, _ALLOWED, "a batch of a monitor")
        if not (document["events"] <= document["n"] and
                document["low"] <= document["error"] <= document["high"]):  # fmt: skip
            raise InvalidDocumentError(
                "A batch of a monitor has events among its rows, and an error in its interval; "
                f"this one has {shown(document)}."
            )
        return cls(**document)


def in_words(evidence: float) -> str:
    """Write evidence for people.

    >>> [in_words(x) for x in (0.3412, 19.96, 20481.3, 1e40)]
    ['0.341', '20', '20,481', 'over a million']
    """
    if evidence >= 1e6:
        return "over a million"
    return f"{evidence:,.0f}" if evidence >= 100 else f"{evidence:.3g}"


_ALLOWED: dict[str, Callable[[Any], bool]] = {
    "name": lambda x: is_text(x, LONGEST_NAME),
    "period": lambda x: is_whole(x, 0),
    "n": lambda x: is_whole(x, 1),
    "events": lambda x: is_whole(x, 0),
    **dict.fromkeys(("mean_prediction", "error", "low", "high"), lambda x: is_number(x, 0, 1)),
    "log_evidence": is_number,
    "alarm": lambda x: isinstance(x, bool),
    "digest": lambda x: is_text(x, 100),
}


@dataclass(frozen=True, eq=False)
class MonitorState:
    """What bets depend on: all that happened since the last restart."""

    process: EProcess
    past: Batch
    recent: Batch

    @classmethod
    def new(cls, n_bins: int) -> MonitorState:
        """Return the state before the first batch."""
        return cls(EProcess.new(n_bins), Batch.none(n_bins), Batch.none(n_bins))

    def after(self, batch: Batch, hypothesis: Tolerance | Reference) -> MonitorState:
        """Settle the bets on a batch, and learn from it for the next."""
        log_e = log_e_values(batch, hypothesis, learned_gaps(self.recent))
        recent = remembered(self.recent, batch, hypothesis.centre(batch))
        return MonitorState(self.process.after(log_e), self.past + batch, recent)

    @property
    def log_evidence(self) -> float:
        """The natural logarithm of the evidence."""
        return self.process.log_total(alternative_weights(self.past.size.size))

    def is_of(self, batches: Sequence[MonitoredBatch]) -> bool:
        """Tell whether these batches, of one period, have left this state."""
        rows, events = (sum(getattr(batch, x) for batch in batches) for x in ("n", "events"))
        evidence = batches[-1].log_evidence
        return (
            float(self.past.size.sum()) == rows
            and float(self.past.events.sum()) == events
            and abs(self.log_evidence - evidence) <= ROUNDING * max(1.0, abs(evidence))
        )

    @property
    def leader(self) -> int:
        """The alternative with the most evidence."""
        weights = alternative_weights(self.past.size.size)
        return int(np.argmax(self.process.log_wealth + np.log(weights)))

    @property
    def start(self) -> int:
        """The batch from which on that alternative explains the labels best."""
        return int(self.process.start[self.leader])

    def change(self, bins: Bins, than: str) -> str:
        """Return in words how events differ from what was predicted, or from the reference."""
        leader = self.leader
        if leader == alternative_weights(len(bins)).size - 1:
            return f"events are more frequent than {than} in some places, and less in others"
        shape, sign = alternative_of(leader)
        more = f"{'more' if sign > 0 else 'less'} frequent than {than}"
        if shape == 0:
            return f"events are {more}"
        if shape == 1:
            return f"rates are {'more' if sign > 0 else 'less'} extreme than {than}"
        low, high = bins.edges[shape - 2 : shape]
        return f"events are {more} where predictions lie between {low:.3g} and {high:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        parts = {"process": self.process, "past": self.past, "recent": self.recent}
        return {
            name: {k: v if isinstance(v, int) else v.tolist() for k, v in vars(part).items()}
            for name, part in parts.items()
        }

    @classmethod
    def from_dict(cls, document: Any, n_bins: int, n_batches: int) -> MonitorState:
        """Rebuild a state of so many bins and batches; raise InvalidDocumentError otherwise."""
        check_names(document, ("process", "past", "recent"), "The state of a monitor")
        process = document["process"]
        names = ("n_batches", "log_wealth", "log_best", "start")
        check_names(process, names, "The process of a monitor")
        n = EProcess.new(n_bins).start.size
        wealth, best, start = (_numbers(process, name, n) for name in names[1:])
        whole = np.array_equal(start, np.floor(start)) and start.min() >= 0
        if process["n_batches"] != n_batches or not whole or start.max() >= n_batches:
            raise InvalidDocumentError(
                f"The process of a monitor must have seen its {n_batches:,} batches and begun at "
                f"one of them; this one has seen {shown(process['n_batches'])}."
            )
        sums = [_batch(document[name], n_bins) for name in ("past", "recent")]
        return cls(EProcess(n_batches, wealth, best, start.astype(np.intp)), *sums)


def _batch(document: Any, n_bins: int) -> Batch:
    names = ("size", "events", "predicted")
    check_names(document, names, "The sums of a monitor")
    batch = Batch(*(_numbers(document, name, n_bins, 0.0) for name in names))
    if np.any(batch.events > batch.size) or np.any(batch.predicted > batch.size * (1 + 1e-9)):
        raise InvalidDocumentError("The sums of a monitor have more events than rows.")
    return batch


def _numbers(document: dict[str, Any], name: str, n: int, least: float = -math.inf) -> FloatArray:
    values = document[name]
    if not (isinstance(values, list) and len(values) == n and
            all(is_number(x, least) for x in values)):  # fmt: skip
        raise InvalidDocumentError(f'The state of a monitor needs {n:,} numbers as "{name}".')
    return np.array(values, np.float64)
