"""The document of a monitor: what is written of it, and what may be read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calibrant._bins_argument import as_bin_rule
from calibrant._documents import check_header, check_names, header, is_whole, read_json, shown
from calibrant._version import __version__
from calibrant.bins import Bins
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.problem import Problem
from calibrant.stats.monitor_records import ROUNDING, MonitoredBatch, MonitorState
from calibrant.table import BinTable

if TYPE_CHECKING:
    from calibrant.monitor import CalibrationMonitor

FORMAT = "calibrant.monitor"
SCHEMA = 1
OPTIONS = (
    "max_error", "reference", "confidence_level", "kind", "classes", "pos_label", "input",
)  # fmt: skip
CONTENTS = ("bins", "problem", "period", "state", "batches")


def document_of(monitor: CalibrationMonitor) -> dict[str, Any]:
    """Return the state of a monitor as plain values that JSON can hold."""
    meaning = monitor._meaning
    bins: Any = monitor._rule if meaning is None else meaning[1]
    if not isinstance(bins, str | int):
        bins = as_bin_rule(bins, 1)
        if not isinstance(bins, Bins):
            raise InvalidArgumentError(
                "A monitor without batches is saved if its bins have a name or edges; got "
                f'{bins!r:.60}. Give bins="mass:10" or the like, or add a batch first.'
            )
        bins = bins.to_dict()
    return {
        **header(FORMAT, SCHEMA),
        "version": __version__,
        "max_error": monitor.max_error,
        "reference": None if monitor.reference is None else monitor.reference.to_dict(),
        "confidence_level": monitor.confidence_level,
        "kind": monitor.kind,
        "classes": None if monitor.classes is None else list(monitor.classes),
        "pos_label": monitor.pos_label,
        "input": monitor.input,
        "bins": bins,
        "problem": None if meaning is None else meaning[0].to_dict(),
        "period": monitor._period,
        "state": None if monitor._state is None else monitor._state.to_dict(),
        "batches": [batch.to_dict() for batch in monitor._batches],
    }


def read_document(text: str | bytes) -> dict[str, Any]:
    """Check the header and the names of a document, and rebuild its reference and bins."""
    document = read_json(text, "A monitor")
    document = check_header(document, FORMAT, SCHEMA, "A monitor", "Start a new one")
    check_names(document, ("format", "schema", "version", *OPTIONS, *CONTENTS), "A monitor")
    if document["reference"] is not None:
        document["reference"] = BinTable.from_dict(document["reference"])
    if not isinstance(document["bins"], str | int):
        document["bins"] = Bins.from_dict(document["bins"])
    return document


def fill(monitor: CalibrationMonitor, document: dict[str, Any]) -> None:
    """Take up the batches and the state of a document, if they can be."""
    problem, bins, batches = document["problem"], document["bins"], document["batches"]
    if problem is not None and isinstance(bins, Bins):
        meaning = Problem.from_dict(problem), bins
        if monitor._meaning not in (None, meaning):
            raise InvalidDocumentError("Not a valid monitor: its bins are not its reference's.")
        monitor._meaning = meaning
    if not isinstance(batches, list) or not is_whole(document["period"], 0):
        raise InvalidDocumentError(
            'Not a valid monitor: "batches" must be a list and "period" a whole number; got '
            f"{shown(batches)} and {shown(document['period'])}."
        )
    monitor._batches = tuple(map(MonitoredBatch.from_dict, batches))
    monitor._period = document["period"]
    own = [batch for batch in monitor._batches if batch.period == monitor._period]
    if document["state"] is not None and monitor._meaning is not None:
        monitor._state = MonitorState.from_dict(
            document["state"], len(monitor._meaning[1]), len(own)
        )
    last = monitor._batches[len(monitor._batches) - len(own) :]
    told = (monitor._state is None) == (not own) and list(last) == own
    if not told or not (monitor._state is None or monitor._state.is_of(last)):
        raise InvalidDocumentError(
            "Not a valid monitor: its state and its batches do not belong together."
        )
    _check_batches(monitor)


def _check_batches(monitor: CalibrationMonitor) -> None:
    """Refuse batches that no monitor of these options has recorded."""
    limit, period, alarm, names = math.log(monitor.threshold), 0, False, set()
    for batch in monitor._batches:
        alarm = alarm and batch.period == period
        # within rounding of the limit either may have been recorded on another processor
        near = abs(batch.log_evidence - limit) < ROUNDING
        alarm = batch.alarm if near and not alarm else alarm or batch.log_evidence >= limit
        if batch.period < period or batch.name in names or batch.alarm != alarm:
            raise InvalidDocumentError(
                f"Not a valid monitor: batch {batch.name!r} is in the wrong place, has the name of "
                f"another, or an alarm that does not follow from its evidence and the limit of "
                f"{monitor.threshold:g}. Documents of monitors are not to be edited; start another."
            )
        period = batch.period
        names.add(batch.name)
