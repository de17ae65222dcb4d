"""Making a report: from predictions and labels to a page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calibrant._clock import now
from calibrant.bins import BinsLike, is_auto
from calibrant.exceptions import InvalidArgumentError
from calibrant.measure import read_data
from calibrant.problem import Kind, Label, Rows
from calibrant.report.findings import findings_of, findings_of_table
from calibrant.report.page import page
from calibrant.report.result import Report
from calibrant.table import BinTable


def report(
    y_true: Any,
    y_prob: Any,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    max_error: float | None = None,
    confidence_level: float = 0.95,
    title: str | None = None,
    command: str | None = None,
    data: Any = None,
) -> Report:
    """Write a calibration report: one self-contained HTML page, the verdict first.

    The page has the reliability diagram with bands, the l2 error with interval and noise floor,
    every class by itself, the Brier decomposition, what recalibration would gain, how many rows a
    certificate needs, the assumptions, and where it all comes from. All rows are held in memory.

    Parameters
    ----------
    y_true, y_prob, kind, classes, pos_label, data
        As in `calibrant.calibration_error`.
    bins : optional
        As in `calibrant.calibration_error`; "auto" takes each distinct output as a bin where
        there are at most 60. The verdict always rests on the distinct outputs.
    max_error : float, optional
        The tolerance to certify; without it the page measures and gives no verdict.
    confidence_level : float
        Of intervals, bands and bounds.
    title : str, optional
        The heading of the page.
    command : str, optional
        What made the report, shown at its end; by default the call of this function.

    Returns
    -------
    Report
        With ``.html``, ``.summary``, ``.findings`` and ``.save(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> made = report(rng.uniform(size=20_000) < p, p, max_error=0.03)
    >>> print(made.summary.splitlines()[0])
    Certified: The predicted probabilities are off by at most 0.59 percentage points ...
    """
    _check_text("title", title)
    _check_text("command", command)
    rows = read_data(y_true, y_prob, kind, classes, pos_label, None, data)
    rows = Rows(rows.problem, rows.labels, rows.probs, None)
    findings = findings_of(rows, bins, max_error, confidence_level)
    options = {
        "kind": kind,
        "bins": None if is_auto(bins) else bins,
        "max_error": max_error,
        "confidence_level": None if confidence_level == 0.95 else confidence_level,
    }
    written = ", ".join(f"{name}={value!r}" for name, value in options.items() if value is not None)
    return Report(
        findings,
        page(
            findings,
            title or "How far the probabilities can be trusted",
            command or f"calibrant.report.report(y_true, y_prob, {written})".replace(", )", ")"),
            None if data is None else f"{y_true!s}; {y_prob!s}",
            _today(),
        ),
    )


def report_of_table(
    table: BinTable,
    *,
    max_error: float | None = None,
    confidence_level: float = 0.95,
    title: str | None = None,
    command: str = "calibrant.report.making.report_of_table(table)",
) -> Report:
    """Write the report of a table of sums; the page says which parts need rows.

    The parameters are those of `report`.
    """
    findings = findings_of_table(table, max_error, confidence_level)
    heading = title or "How far the probabilities can be trusted"
    return Report(findings, page(findings, heading, command, None, _today()))


def _check_text(name: str, value: Any) -> None:
    if not (value is None or isinstance(value, str)):
        raise InvalidArgumentError(
            f"{name} must be text, or None for the usual one; got {value!r:.60}."
        )


def _today() -> str:
    return now().strftime("%d %B %Y").lstrip("0")
