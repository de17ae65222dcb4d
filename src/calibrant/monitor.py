"""CalibrationMonitor: watch the labels of a deployed model, batch by batch."""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Sequence
from typing import Any

from calibrant._bins_argument import as_bin_rule
from calibrant._digests import digest_of_document
from calibrant._documents import is_text
from calibrant._options import check_flag, is_real
from calibrant._results import filled
from calibrant._writing import write_whole
from calibrant.bins import Bins, BinsLike
from calibrant.exceptions import (
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidDocumentError,
)
from calibrant.problem import (
    Input,
    Kind,
    Label,
    Problem,
    check_input,
    check_kind,
    read_classes,
    read_label,
)
from calibrant.sources import read
from calibrant.stats.intervals import check_level
from calibrant.stats.monitor_records import (
    LONGEST_NAME,
    OPTIONS,
    MonitoredBatch,
    MonitorState,
    check_new,
    check_watchable,
    document_of,
    in_words,
    read_document,
    recorded,
)
from calibrant.stats.monitoring import REFERENCE_SHARE, Batch, Reference, Tolerance
from calibrant.table import BinTable
from calibrant.tables import Tables


class CalibrationMonitor:
    """Watch a deployed model: an alarm when its calibration error is too large, or has changed.

    Look as often as you like, for as long as you like: if nothing is wrong, the probability that
    there is *ever* an alarm is at most ``1 - confidence_level``. The evidence is a product of bets
    on the labels, each fixed before its batch (an e-process; the proof is in
    `calibrant.stats.monitoring`). Bets are on a shift and a slope of all log-odds, on each bin, and
    on what earlier batches have shown, so that a drift of any shape is seen. The state has a few
    numbers per bin and one line per batch; no rows are kept.

    Parameters
    ----------
    max_error : float
        An alarm says that the l2 calibration error has exceeded this. 0 asks for perfect
        calibration.
    reference : BinTable
        Instead of `max_error`: an alarm says that event rates are no longer those of this table,
        which held-out rows were counted into, ``tabulate(y, p, bins=10)``. Its own noise is
        allowed for: a small reference sees large changes only.
    confidence_level : float
    bins : optional
        As in `calibration_error`; chosen from the predictions of the first batch and kept, so that
        of few rows there are few, which see less: then give edges, or "width:10". With a reference
        they are its bins.
    kind, classes, pos_label, input
        As in `calibration_error`; binary and top-label problems.

    See Also
    --------
    certify : one statement about rows that are all there.
    compare_tables : did the error change between two tables?

    References
    ----------
    Ramdas, Grunwald, Vovk, Shafer (2023), Game-theoretic statistics and safe anytime-valid
    inference, Statistical Science 38.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> monitor = CalibrationMonitor(max_error=0.02)
    >>> for day in range(1, 41):
    ...     p = rng.uniform(size=1000)
    ...     rate = p if day <= 30 else p**1.3
    ...     _ = monitor.update(rng.uniform(size=1000) < rate, p, name=f"day {day}")
    >>> monitor.alarm, monitor.alarm_at, monitor.since
    (True, 'day 33', 'day 31')
    """

    def __init__(
        self,
        max_error: float | None = None,
        reference: BinTable | None = None,
        *,
        confidence_level: float = 0.95,
        bins: BinsLike = "mass:10",
        kind: Kind | None = None,
        classes: Sequence[Label] | None = None,
        pos_label: Label | None = None,
        input: Input = "probabilities",
    ) -> None:
        if (max_error is None) == (reference is None):
            raise InvalidArgumentError(
                "A monitor needs max_error= or reference=, and not both: has the error exceeded a "
                f"limit, or has it changed? Got {'neither' if max_error is None else 'both'}."
            )
        if max_error is not None and not (is_real(max_error) and 0 <= max_error < 1):
            raise InvalidArgumentError(
                f"max_error must be at least 0 and less than 1; got {max_error!r:.60}. Write 0.02 "
                "for two points."
            )
        check_level(confidence_level)
        check_input(input)
        if kind is not None:
            check_kind(kind)
        self.max_error = None if max_error is None else float(max_error)
        self.confidence_level = float(confidence_level)
        self.kind, self.input = kind, input
        self.classes = read_classes(classes)
        self.pos_label = None if pos_label is None else read_label("pos_label", pos_label)
        self.reference = reference
        self._rule = bins
        as_bin_rule(bins, 1)
        self._meaning: tuple[Problem, Bins] | None = None
        if reference is not None:
            self._set_reference(reference)
        self._batches: tuple[MonitoredBatch, ...] = ()
        self._period = 0
        self._state: MonitorState | None = None
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def update(
        self,
        y_true: Any,
        y_prob: Any = None,
        *,
        name: str | None = None,
        data: Any = None,
        allow_repeat: bool = False,
    ) -> MonitoredBatch:
        """Add a batch and return its result; a refused batch changes nothing.

        Parameters
        ----------
        y_true, y_prob, data
            As in `calibration_error`. A table in the monitor's bins may stand in place of both.
        name : str, optional
            For messages and `since`, such as the day; by default "batch 1", "batch 2", ...
        allow_repeat : bool
            A batch of at least 100 rows that came before is refused, unless this is true. Rows are
            compared with rows, in any order, and tables and lazy frames with their like.

        Notes
        -----
        Labels may come late: batches count in the order of their arrival, and `since` speaks of
        that order. A batch is whatever arrived together, such as all labels of the night, of
        whichever day. Whether a label has arrived must not depend on what it says: if events are
        known at once and the others only after a month, wait for the month.
        """
        check_flag("allow_repeat", allow_repeat)
        if not (name is None or is_text(name, LONGEST_NAME)):
            raise InvalidArgumentError(
                f"name must be printable text of at most {LONGEST_NAME} characters; "
                f"got {name!r:.60}."
            )
        if isinstance(y_true, Tables):
            raise InvalidArgumentError(
                f"A monitor watches one table; these are tables of {len(y_true):,} groups. Watch "
                "each group by a monitor of its own, update(tables[key]), or their sum."
            )
        if isinstance(y_true, BinTable) and y_prob is None and data is None:
            source = read(y_true)
        else:
            meaning = (self.kind, self.input, self.classes, self.pos_label)
            source = read(y_true, y_prob, *meaning, data=data)
        source.keep_digest()
        with self._lock:
            if self._meaning is None:
                table = source.tabulate(self._rule if source.has_rows else "auto")
            else:
                problem, bins = self._meaning
                if source.problem != problem:
                    raise IncompatibleTablesError(
                        f"Every batch must pose the same problem, {problem}; this one is "
                        f"{source.problem}. Start another monitor for it."
                    )
                table = source.count((bins,))
            check_watchable(table)
            digest = source.digest() or digest_of_document(table.to_dict())
            name = f"batch {len(self._batches) + 1}" if name is None else name
            check_new(self._batches, name, table.n, None if allow_repeat else digest)
            return self._bet(table, name, digest)

    def _bet(self, table: BinTable, name: str, digest: str) -> MonitoredBatch:
        """Settle the bets on a batch, and learn from it for the next."""
        before = self._state or MonitorState.new(len(table.bins[0]))
        hypothesis: Tolerance | Reference = Tolerance(self.max_error or 0.0, before.past)
        if self.reference is not None:
            hypothesis = Reference(Batch.of(self.reference), 1 - self.confidence_level)
        state = before.after(Batch.of(table), hypothesis)
        record = MonitoredBatch.of(
            table,
            self.confidence_level,
            name=name,
            period=self._period,
            log_evidence=state.log_evidence,
            alarm=self.alarm or state.log_evidence >= math.log(self.threshold),
            digest=digest,
        )
        self._meaning = table.problem, table.bins[0]
        self._state = state
        self._batches = (*self._batches, record)
        return record

    def _set_reference(self, reference: BinTable) -> None:
        if not isinstance(reference, BinTable) or reference.n == 0:
            raise InvalidArgumentError(
                "reference must be a BinTable with rows, such as tabulate(y_true, y_prob, "
                f"bins=10) gives; got {reference!r:.60}."
            )
        check_watchable(reference)
        self.reference, self._meaning = reference, (reference.problem, reference.bins[0])

    @property
    def threshold(self) -> float:
        """The evidence at which there is an alarm."""
        share = 1.0 if self.reference is None else 1 - REFERENCE_SHARE
        return 1 / (share * (1 - self.confidence_level))

    @property
    def evidence(self) -> float:
        """The evidence now: what bets at fair odds have made of 1."""
        batches = self._current_batches()
        return batches[-1].evidence if batches else 1.0

    @property
    def batches(self) -> tuple[MonitoredBatch, ...]:
        """All batches in the order of their arrival, those before a restart included."""
        return self._batches

    @property
    def alarm(self) -> bool:
        """Whether there was an alarm since the last restart."""
        batches = self._current_batches()
        return bool(batches) and batches[-1].alarm

    @property
    def alarm_at(self) -> str | None:
        """The name of the batch that raised the alarm."""
        return next((batch.name for batch in self._current_batches() if batch.alarm), None)

    @property
    def since(self) -> str | None:
        """The name of the batch from which on the change explains the labels best.

        It is an estimate, and there is none before an alarm.
        """
        if not self.alarm or self._state is None:
            return None
        return self._current_batches()[self._state.start].name

    @property
    def change(self) -> str | None:
        """A description of the change; None before an alarm."""
        if not self.alarm or self._meaning is None or self._state is None:
            return None
        than = "predicted" if self.reference is None else "in the reference"
        return self._state.change(self._meaning[1], than)

    @property
    def assumptions(self) -> list[str]:
        """What must be true for the promise to hold."""
        made = [
            "rows of a batch are independent, given earlier batches",
            "labels were not used to make the predictions",
            "whether a label has arrived does not depend on what it says",
            "each restart begins a new promise",
        ]
        if self.reference is not None:
            made.insert(1, "rows of the reference are independent of each other and held out")
            if not self.reference.is_binned_model:
                made.append(
                    "within a bin, event rates differ from predictions by the same amount, or "
                    "predictions spread as they do in the reference"
                )
        return made

    def restart(self, reference: BinTable | None = None) -> None:
        """Begin anew after a repair: earlier evidence no longer counts, the record stays.

        The promise is for each period by itself. A new reference may be given in place of the old.
        """
        with self._lock:
            if reference is not None:
                if self.reference is None:
                    raise InvalidArgumentError(
                        "This monitor watches max_error=; only one with a reference= can be given "
                        "another. Leave it out, or start another monitor."
                    )
                self._set_reference(reference)
            self._state, self._period = None, self._period + 1

    def _current_batches(self) -> tuple[MonitoredBatch, ...]:
        """Return the batches of this period."""
        n = 0 if self._state is None else self._state.process.n_batches
        return self._batches[len(self._batches) - n :]

    def __str__(self) -> str:
        return filled(self._summary())

    def __repr__(self) -> str:
        return f"<CalibrationMonitor: {self._summary()}>"

    def _summary(self) -> str:
        current = self._current_batches()
        batches = "1 batch" if len(current) == 1 else f"{len(current):,} batches"
        rows = f"{batches}, {sum(batch.n for batch in current):,} rows"
        says = (
            f"the l2 error has exceeded {self.max_error:g}" if self.max_error is not None
            else "event rates are no longer those of the reference"
        )  # fmt: skip
        if not self.alarm:
            evidence = f"evidence {in_words(self.evidence)}, and {self.threshold:.3g} would show"
            return f"no alarm: {evidence} that {says} ({rows})"
        level = f"with {100 * self.confidence_level:g}% confidence {says}"
        return (
            f"ALARM at {self.alarm_at}, since about {self.since}: {level}; {self.change} ({rows})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain values that JSON can hold, with a digest of all of them."""
        with self._lock:
            bins: Any = self._rule if self._meaning is None else self._meaning[1]
            if not isinstance(bins, str | int):
                bins = as_bin_rule(bins, 1)
                if not isinstance(bins, Bins):
                    raise InvalidArgumentError(
                        "A monitor without batches is saved if its bins have a name or edges; got "
                        f'{bins!r:.60}. Give bins="mass:10" or the like, or add a batch first.'
                    )
                bins = bins.to_dict()
            stated = {
                **{name: getattr(self, name) for name in OPTIONS},
                "reference": None if self.reference is None else self.reference.to_dict(),
                "classes": None if self.classes is None else list(self.classes),
                "bins": bins,
                "problem": None if self._meaning is None else self._meaning[0].to_dict(),
                "period": self._period,
                "state": None if self._state is None else self._state.to_dict(),
                "batches": [batch.to_dict() for batch in self._batches],
            }
        return document_of(stated)

    def to_json(self) -> str:
        """Return the state as JSON, from which `from_json` goes on as if nothing had happened."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to a file, whole or not at all, whatever interrupts."""
        write_whole(path, self.to_json())

    @classmethod
    def from_json(cls, text: str | bytes) -> CalibrationMonitor:
        """Rebuild a monitor from `to_json`; a document that was changed since is refused."""
        document = read_document(text)
        try:
            monitor = cls(**{name: document[name] for name in (*OPTIONS, "bins")})
        except InvalidArgumentError as error:
            raise InvalidDocumentError(f"Not a valid monitor: {error!s:.300}") from error
        problem, bins = document["problem"], document["bins"]
        if problem is not None and isinstance(bins, Bins):
            meaning = Problem.from_dict(problem), bins
            if monitor._meaning not in (None, meaning):
                raise InvalidDocumentError("Not a valid monitor: its bins are not its reference's.")
            monitor._meaning = meaning
        n_bins = None if monitor._meaning is None else len(monitor._meaning[1])
        record = recorded(document, n_bins, monitor.threshold)
        monitor._batches, monitor._period, monitor._state = record
        return monitor
