"""What a monitor keeps: a line for each batch, the numbers that its bets depend on, its document.

The document has the digest of all that it states. That finds accidents and careless edits. It is
no signature: a deliberate edit can come with a new digest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._digests import digest_of_document
from calibrant._documents import (
    check_entries,
    check_header,
    check_names,
    header,
    is_number,
    is_text,
    is_whole,
    read_json,
    shown,
)
from calibrant._results import Result
from calibrant._types import FloatArray
from calibrant._version import __version__
from calibrant.bins import Bins
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidInputError,
    InvalidWeightsError,
)
from calibrant.problem import EVENT_KINDS
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import score_interval
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
from calibrant.stats.results import calibration_error
from calibrant.table import BinTable

FORMAT = "calibrant.monitor"
SCHEMA = 2
UNSEALED = 1
"""The schema of documents that had no digest yet: all but that is checked."""
OPTIONS = (
    "max_error", "reference", "confidence_level", "kind", "classes", "pos_label", "input",
)  # fmt: skip
CONTENTS = ("bins", "problem", "period", "state", "batches")
MOST_BINS = 200
"""Work and memory of a batch grow with the square: these take 50 ms."""
FEWEST_TO_COMPARE = 100
"""Rows of a batch that is compared with earlier ones: fewer may be the same by chance."""
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

    @classmethod
    def of(cls, table: BinTable, confidence_level: float, **known: Any) -> MonitoredBatch:
        """Return the record of a batch that was counted into a table."""
        error = calibration_error(table).value
        limits = score_interval(cells_of(table), np.ones(1), confidence_level)
        low, high = (min(max(float(limit), 0.0), 1.0) for limit in limits)
        return cls(
            n=table.n,
            events=round(float(table.sum_y.sum())),
            mean_prediction=min(float(table.sum_p.sum()) / table.n, 1.0),
            error=error,
            low=min(low, error),
            high=max(high, error),
            **known,
        )

    @property
    def evidence(self) -> float:
        """The wealth that bets at fair odds had made of 1 by then."""
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
    """The state that bets depend on: all batches since the last restart."""

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
        direction = f"{'more' if sign > 0 else 'less'} frequent than {than}"
        if shape == 0:
            return f"events are {direction}"
        if shape == 1:
            return f"rates are {'more' if sign > 0 else 'less'} extreme than {than}"
        low, high = bins.edges[shape - 2 : shape]
        return f"events are {direction} where predictions lie between {low:.3g} and {high:.3g}"

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


def check_watchable(table: BinTable) -> None:
    """Refuse tables of several events, of too many bins, or of rows that do not count alike."""
    if len(table.bins[0]) > MOST_BINS:
        raise InvalidArgumentError(
            f"A monitor bets on each bin, of which there may be {MOST_BINS}; there are "
            f"{len(table.bins[0]):,}. Count in fewer: bins=10 sees most drifts soonest."
        )
    kind = table.problem.kind
    if kind in EVENT_KINDS:
        raise InvalidArgumentError(
            f'A monitor watches one event; kind is "{kind}", of {table.n_groups:,}. Watch one of '
            "them as a binary problem: whether it happened, with its probability."
        )
    if table.n_groups > 1:
        raise InvalidArgumentError(
            f"A monitor watches one event; this problem has {table.n_groups:,} classes, "
            'kind="marginal". Leave kind= out to watch whether the top label is right, or watch '
            "each class k by itself: y_true == k with its column."
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            "A monitor counts independent rows; this table has sample weights. Leave them out."
        )


def check_new(batches: Sequence[MonitoredBatch], name: str, n: int, digest: str | None) -> None:
    """Refuse a name that is taken, and n rows whose digest, if given, came before."""
    repeated = next((batch for batch in batches if batch.digest == digest), None)
    if repeated is not None and n >= FEWEST_TO_COMPARE:
        raise InvalidInputError(
            f"Every batch counts once; the {n:,} rows of {name!r} came before, as "
            f"{repeated.name!r}. Leave them out, or pass allow_repeat=True if they are others that "
            "happen to be the same."
        )
    if any(batch.name == name for batch in batches):
        raise InvalidArgumentError(
            f"Names of batches must differ; there is already one called {name!r}. Give another "
            f"name, such as {name + ', late labels'!r} for labels that came after the others."
        )


def document_of(stated: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a monitor that states this."""
    document = {**header(FORMAT, SCHEMA), "version": __version__, **stated}
    return {**document, "digest": digest_of_document(document)}


def read_document(text: str | bytes) -> dict[str, Any]:
    """Check the names and the digest of a document, and rebuild its reference and bins."""
    document = read_json(text, "A monitor")
    unsealed = isinstance(document, dict) and document.get("schema") == UNSEALED
    schema, seal = (UNSEALED, ()) if unsealed else (SCHEMA, ("digest",))
    document = check_header(document, FORMAT, schema, "A monitor", "Start a new one")
    check_names(document, ("format", "schema", "version", *OPTIONS, *CONTENTS, *seal), "A monitor")
    stated = None if unsealed else document.pop("digest")
    if not unsealed and stated != (computed := digest_of_document(document)):
        raise InvalidDocumentError(
            "A monitor's document must state what was saved, whose digest is "
            f"{stated!s:.19}...; that of what it states now is {computed:.19}.... It was changed: "
            "take a copy that was not, or start another monitor."
        )
    if document["reference"] is not None:
        document["reference"] = BinTable.from_dict(document["reference"])
    if not isinstance(document["bins"], str | int):
        document["bins"] = Bins.from_dict(document["bins"])
    return document


def recorded(
    document: dict[str, Any], n_bins: int | None, threshold: float
) -> tuple[tuple[MonitoredBatch, ...], int, MonitorState | None]:
    """Return the batches, the period and the state of a document, if they belong together.

    Refuse batches that no monitor with this threshold has recorded.
    """
    if not isinstance(document["batches"], list) or not is_whole(document["period"], 0):
        raise InvalidDocumentError(
            'Not a valid monitor: "batches" must be a list and "period" a whole number; got '
            f"{shown(document['batches'])} and {shown(document['period'])}."
        )
    batches = tuple(map(MonitoredBatch.from_dict, document["batches"]))
    current = [batch for batch in batches if batch.period == document["period"]]
    state = None
    if document["state"] is not None and n_bins is not None:
        state = MonitorState.from_dict(document["state"], n_bins, len(current))
    is_last = list(batches[len(batches) - len(current) :]) == current
    is_theirs = state is not None and state.is_of(current) if current else state is None
    if not (is_last and is_theirs):
        raise InvalidDocumentError(
            "Not a valid monitor: its state and its batches do not belong together."
        )
    limit, period, alarm, names = math.log(threshold), 0, False, set()
    for batch in batches:
        alarm = alarm and batch.period == period
        # within rounding of the limit either may have been recorded on another processor
        near = abs(batch.log_evidence - limit) < ROUNDING
        alarm = batch.alarm if near and not alarm else alarm or batch.log_evidence >= limit
        if batch.period < period or batch.name in names or batch.alarm != alarm:
            raise InvalidDocumentError(
                f"Not a valid monitor: batch {batch.name!r} is in the wrong place, has the name of "
                f"another, or an alarm that does not follow from its evidence and the limit of "
                f"{threshold:g}. Documents of monitors are not to be edited; start another."
            )
        period = batch.period
        names.add(batch.name)
    return batches, document["period"], state
