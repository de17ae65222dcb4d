"""Everything a report says, as numbers: computed once, before anything is written."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from calibrant import stats
from calibrant._digests import Digests
from calibrant._json import plain
from calibrant.bins import BinsLike, is_auto
from calibrant.exceptions import UnresolvedWarning
from calibrant.measure import reader_of, tabulate_rows
from calibrant.problem import Rows
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.reports.classes import ClassFindings, class_findings
from calibrant.reports.gain import Gain, gain_of
from calibrant.reports.pictures import MOST_BINS, Picture, joined, picture_of
from calibrant.reports.plan import Plan, plan_of
from calibrant.stats.results import ReadAgain
from calibrant.table import BinTable
from calibrant.verify import digest_of_rows, tabulate_outputs

MOST_OUTPUTS_SHOWN = 60


@dataclass(frozen=True, eq=False)
class Findings:
    """The numbers of a report.

    Attributes
    ----------
    error : CalibrationErrorResult
        The l2 calibration error, and `interval` its interval.
    certificate : Certificate
        What the rows prove; its verdict is None without `max_error`.
    picture : Picture or None
        The reliability diagram of a binary or top-label problem.
    classes : ClassFindings or None
        Each class by itself, for predictions of several classes.
    brier : ScoreDecomposition
        Corrected for bias.
    gain : Gain or None
        None without rows to try a recalibrator on: the report of a table.
    plan : Plan
    fingerprint : Fingerprint or None
        None without rows.
    """

    error: stats.CalibrationErrorResult
    interval: stats.ConfidenceInterval
    certificate: stats.Certificate
    picture: Picture | None
    classes: ClassFindings | None
    brier: stats.ScoreDecomposition
    gain: Gain | None
    plan: Plan
    fingerprint: Fingerprint | None

    @property
    def table(self) -> BinTable:
        """The table that the error was measured in."""
        return self.error.table

    @property
    def pictures(self) -> list[Picture]:
        """All reliability diagrams: of the whole where there is one, then of each class."""
        first = [] if self.picture is None else [self.picture]
        return [*first, *(self.classes.pictures if self.classes else ())]

    @property
    def confidence_level(self) -> float:
        """The level of the interval, of the bands and of the certificate."""
        return self.interval.confidence_level

    def to_dict(self) -> dict[str, Any]:
        """Return the main numbers as plain values that JSON can hold."""
        certificate = self.certificate
        gain, gain_error = (None, None) if self.gain is None else self.gain.amount
        mark = None if self.fingerprint is None else f"{self.fingerprint.checksum:016x}"
        numbers = {
            "error": self.error.to_dict(self.confidence_level),
            "verdict": certificate.verdict,
            "max_error": certificate.max_error,
            "lower_bound": certificate.lower_bound,
            "upper_bound": certificate.upper_bound,
            "brier": self.brier.to_dict(),
            "recalibration_gain": gain,
            "recalibration_gain_standard_error": gain_error,
            "rows_to_certify": {f"{error:g}": rows for error, rows in self.plan.needed},
            "fingerprint": mark,
        }
        return dict(plain(numbers))


def findings_of(
    rows: Rows, bins: BinsLike, max_error: float | None, confidence_level: float
) -> Findings:
    """Compute all numbers of a report on these rows."""
    outputs = tabulate_outputs(rows)
    certificate = stats.certify(
        outputs,
        max_error=max_error,
        confidence_level=confidence_level,
        digests=Digests(digest_of_rows(rows)),
    )
    table = _measured(rows, bins, outputs)
    codes = rows.codes()
    classes = _each_class(rows, bins, table, confidence_level)
    findings = _of_table(table, certificate, classes, reader_of(rows, table))
    return replace(
        findings,
        gain=gain_of(rows.probs, codes),
        fingerprint=Fingerprint.of(rows.probs, codes),
    )


def findings_of_table(
    table: BinTable, max_error: float | None, confidence_level: float
) -> Findings:
    """Compute the numbers of a report that need no rows."""
    certificate = stats.certify(table, max_error=max_error, confidence_level=confidence_level)
    marginal = table.problem.kind == "marginal"
    classes = class_findings(table, confidence_level) if marginal else None
    return _of_table(table, certificate, classes)


def _of_table(
    table: BinTable,
    certificate: stats.Certificate,
    classes: ClassFindings | None,
    read_again: ReadAgain | None = None,
) -> Findings:
    level = certificate.confidence_level
    error = stats.calibration_error(table, read_again=read_again)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnresolvedWarning)  # the page says it instead
        interval = error.confidence_interval(level)
    single = table.n_groups == 1
    return Findings(
        error=error,
        interval=interval,
        certificate=certificate,
        picture=picture_of(joined(table, MOST_BINS), None, level) if single else None,
        classes=classes,
        brier=stats.brier_decomposition(table, debias=True),
        gain=None,
        plan=plan_of(certificate),
        fingerprint=None,
    )


def _measured(rows: Rows, bins: BinsLike, outputs: BinTable) -> BinTable:
    """Return the table to measure in; by default the outputs themselves, if they are few."""
    if not is_auto(bins):
        return tabulate_rows(rows, bins)
    few = outputs.is_binned_model and outputs.count.shape[1] <= MOST_OUTPUTS_SHOWN
    return outputs if few or not outputs.is_binned_model else tabulate_rows(rows, bins)


def _each_class(
    rows: Rows, bins: BinsLike, table: BinTable, confidence_level: float
) -> ClassFindings | None:
    if rows.problem.kind == "binary":
        return None
    if rows.problem.kind == "top-label":
        rows = replace(rows, problem=replace(rows.problem, kind="marginal"))
        table = _measured(rows, bins, tabulate_outputs(rows))
    return class_findings(table, confidence_level)
