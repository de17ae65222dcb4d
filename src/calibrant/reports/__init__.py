"""The calibration report: one HTML page that loads nothing, the verdict first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant._bins_argument import is_auto
from calibrant._clock import now
from calibrant._options import check_flag
from calibrant._results import Result, filled
from calibrant._writing import write_whole
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError
from calibrant.problem import Input, Kind, Label
from calibrant.reports.findings import Findings, findings_of, of_rows
from calibrant.reports.page import page
from calibrant.reports.wording import verdict_of
from calibrant.sources import as_log, read
from calibrant.sources.logs.evaluation import EvaluationLog
from calibrant.stats.curves import diagram_of

__all__ = ["Findings", "Report", "report"]


def report(
    y_true: Any,
    y_prob: Any = None,
    *,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    max_error: float | None = None,
    confidence_level: float = 0.95,
    levels: ArrayLike | None = None,
    title: str | None = None,
    command: str | None = None,
    data: Any = None,
    input: Input = "probabilities",
    by: Any = None,
    before: Any = None,
    sample_weight: None = None,
    given_answer: bool | None = None,
) -> Report:
    """Write a calibration report: one self-contained HTML page, the verdict first.

    The page has the reliability diagram with bands, the l2 error with interval and noise floor,
    every class by itself, the Brier decomposition, what recalibration would gain, how many rows a
    certificate needs, the assumptions, and where it all comes from. All rows are held in memory.

    Parameters
    ----------
    y_true, y_prob, kind, classes, pos_label, data, input, by
        As in `calibrant.calibration_error`; with `by`, a section has the `calibrant.audit` of all
        groups and the diagrams of the worst six. Or a `BinTable` alone, or `Tables`, and the page
        says which parts need rows.
    bins : optional
        As in `calibrant.calibration_error`; "auto" takes each distinct output as a bin where
        there are at most 60. The verdict always rests on the distinct outputs.
    max_error : float, optional
        The tolerance to certify; without it the page measures and gives no verdict.
    confidence_level : float
        Of intervals, bands and bounds.
    levels : array-like, optional
        All outputs that the model can give, as in `calibrant.certify`: sharper bounds.
    title : str, optional
        The heading of the page.
    before : optional
        Predictions of the same rows before a repair, given like `y_prob`: the page shows the model
        before and after. The repair must have been fitted on other rows.
    sample_weight : None
        Refused: the bounds of the page count independent rows. `calibrant.calibration_error`,
        `reliability_curve`, `brier_decomposition` and `validate` take weights.
    given_answer : bool, optional
        As in `calibrant.selective_curve`: whether `y_prob` is the confidence in an answer that was
        given, and `y_true` whether that was right.
    command : str, optional
        What made the report, shown at its end; by default the call of this function.

    Returns
    -------
    Report
        With ``.html``, ``.summary``, ``.findings`` and ``.save(path)``.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    calibrant.certify : the verdict.
    calibrant.ReliabilityDisplay : the diagram alone.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> made = report(rng.uniform(size=20_000) < p, p, max_error=0.03)
    >>> print(made.summary.splitlines()[0])
    Certified: The predicted probabilities are off by at most 0.59 percentage points ...
    """
    if sample_weight is not None:
        raise InvalidWeightsError(
            "The bounds of a report count independent rows, so that its rows have no weights; got "
            f"sample_weight of type {type(sample_weight).__name__}. Leave it out, or measure with "
            "calibration_error, reliability_curve, brier_decomposition and validate, which take it."
        )
    for name, text in (("title", title), ("command", command)):
        if not (text is None or isinstance(text, str)):
            raise InvalidArgumentError(
                f"{name} must be text, or None for the usual one; got {text!r:.60}."
            )
    meaning: dict[str, Any] = {
        "kind": kind, "input": input, "classes": classes, "pos_label": pos_label, "data": data
    }  # fmt: skip
    source = read(y_true, y_prob, **meaning, by=by)
    if given_answer is None:
        given_answer = as_log(data) is not None
    check_flag("given_answer", given_answer)
    findings = findings_of(source, bins, max_error, confidence_level, levels, given_answer)
    if before is not None:
        if not source.has_rows:
            raise InvalidArgumentError(
                "before= needs the rows of the report; it has a table in their place. Give the "
                "rows."
            )
        old = read(y_true, before, **meaning)
        if old.problem != source.problem:
            raise InvalidArgumentError(
                "before= must be predictions of the same kind as y_prob; they are "
                f"{old.problem} and {source.problem}. Give as many columns in the same order."
            )
        findings = replace(
            findings, before=of_rows(old.in_memory(), bins, max_error, confidence_level)
        )
    options = {
        "kind": kind,
        "bins": None if is_auto(bins) else bins,
        "input": None if input == "probabilities" else input,
        "max_error": max_error,
        "confidence_level": None if confidence_level == 0.95 else confidence_level,
        "levels": None if levels is None else np.asarray(levels).tolist(),
    }
    if before is not None:
        options["before"] = before if isinstance(before, str) else "..."
    if by is not None:
        options["by"] = [column.name for column in source.by]
    arguments = ["y_true", "y_prob"] if source.has_rows else ["table"]
    arguments += [f"{name}={value!r}" for name, value in options.items() if value is not None]
    about = [data.in_short()] if isinstance(data, EvaluationLog) else []
    html = page(
        findings,
        title or "How far the probabilities can be trusted",
        command or f"calibrant.report({', '.join(arguments)})",
        None if data is None else "; ".join([str(y_true), str(y_prob), *about]),
        now().strftime("%d %B %Y").lstrip("0"),
    )
    return Report(findings, html)


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """A calibration report.

    Attributes
    ----------
    html : str
        The page: one document that loads nothing and can be read without a script.
    findings : Findings
        The numbers on the page.
    """

    findings: Findings
    html: str

    @property
    def summary(self) -> str:
        """The verdict and what it means, in a few lines of plain text."""
        verdict = verdict_of(self.findings)
        return "\n".join([f"{verdict.word.capitalize()}: {verdict.sentence}", *verdict.meaning])

    def __str__(self) -> str:
        return "\n".join(map(filled, self.summary.splitlines()))

    def _summary(self) -> str:
        return self.summary.partition("\n")[0]

    def _picture(self) -> str:
        """Show the diagram below the summary: a page inside a page would lose its own policy."""
        return diagram_of(self.findings.table, self.findings.confidence_level)

    def to_dict(self) -> dict[str, Any]:
        """Return the main numbers as plain values that JSON can hold."""
        return self.findings.to_dict()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file is replaced whole or not at all."""
        write_whole(path, self.html)
