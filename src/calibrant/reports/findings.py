"""Everything a report says, as numbers: computed once, before anything is written."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant import stats
from calibrant._bins_argument import is_auto
from calibrant._digests import Digests
from calibrant._json import plain
from calibrant._types import AnyArray, IntArray
from calibrant.bins import BinsLike
from calibrant.exceptions import UnresolvedWarning
from calibrant.recalibrators import Identity, TemperatureScaling, VectorScaling
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.recalibrators.selection import RecalibratorScores, recalibrator_scores
from calibrant.reports.curves import ClassFindings, ReportedCurve, class_findings, curve_of
from calibrant.reports.key_numbers import KeyNumbers, key_numbers, with_rows
from calibrant.sources import Source
from calibrant.sources.arrays import ArraySource
from calibrant.stats.curves import MOST_BINS_DRAWN, join_bins
from calibrant.stats.selective import confidence_bins
from calibrant.table import BinTable
from calibrant.verify import tabulate_groups, tabulate_outputs

# A point for each output is read at a glance up to here; beyond, they are binned.
MOST_OUTPUTS_SHOWN = 60

# Cross-validation: fewer rows leave folds without an event, and a page is made in seconds.
FOLDS = 5
FEWEST_ROWS = 50
MOST_ROWS = 50_000
MOST_VALUES = 2_000_000
MOST_CLASSES_TO_SCALE = 100

# Plans: the limits that readers ask for, and the outputs that a model would be binned into.
POWER = 0.9
TOLERANCES = (0.05, 0.02, 0.01)
MOST_OUTPUTS_PLANNED = 30
PLANNED_OUTPUTS = 10


@dataclass(frozen=True, eq=False)
class Gain:
    """Cross-validated log losses of recalibrators, or why there are none.

    Attributes
    ----------
    scores : RecalibratorScores or None
    n_used, n : int
        How many rows were used, out of how many.
    """

    scores: RecalibratorScores | None
    n_used: int
    n: int

    @property
    def amount(self) -> tuple[float, float]:
        """By how much the log loss would fall at best, and the standard error of that."""
        if self.scores is None:
            return 0.0, 0.0
        return float(self.scores.excess[0]), float(self.scores.standard_error[0])

    @property
    def is_worthwhile(self) -> bool:
        """Whether a recalibrator beats leaving things alone by more than a standard error."""
        return self.scores is not None and self.scores.chosen > 0


@dataclass(frozen=True)
class Plan:
    """Rows that certify a tolerance, if the model is calibrated.

    Attributes
    ----------
    n_outputs : int
        For how many distinct outputs the plan was made.
    is_own : bool
        Whether the model has that many; otherwise it would have to be binned first.
    needed : list of (tolerance, rows)
        Rows that are enough with a probability of 90%.
    n : int
        The rows at hand.
    smallest : float
        The smallest tolerance that as many rows would certify, with the same probability.
    """

    n_outputs: int
    is_own: bool
    needed: list[tuple[float, int]]
    n: int
    smallest: float


@dataclass(frozen=True, eq=False)
class Findings:
    """The numbers of a report.

    Attributes
    ----------
    error : CalibrationErrorResult
        The l2 calibration error, and `interval` its interval.
    certificate : Certificate
        What the rows prove; its verdict is None without `max_error`.
    curve : ReportedCurve or None
        The reliability curve of a binary or top-label problem.
    classes : ClassFindings or None
        Each class by itself, for predictions of several classes.
    brier : ScoreDecomposition
        Corrected for bias.
    gain : Gain or None
        None without rows to try a recalibrator on: the report of a table.
    plan : Plan
    fingerprint : Fingerprint or None
        None without rows.
    selective : SelectiveCurve or None
        Accuracy above thresholds of confidence; None without rows, and of a marginal problem.
    audit : Audit or None
        Every group of rows, where ``by=`` tells them apart.
    key_numbers : KeyNumbers or None
        Events, O/E, slope and AUC; None of a marginal problem.
    before : Findings or None
        The same rows with the predictions of before a repair.
    """

    error: stats.CalibrationErrorResult
    interval: stats.ConfidenceInterval
    certificate: stats.Certificate
    curve: ReportedCurve | None
    classes: ClassFindings | None
    brier: stats.ScoreDecomposition
    gain: Gain | None
    plan: Plan
    fingerprint: Fingerprint | None
    selective: stats.SelectiveCurve | None = None
    audit: stats.Audit | None = None
    key_numbers: KeyNumbers | None = None
    before: Findings | None = None

    @property
    def table(self) -> BinTable:
        """The table that the error was measured in."""
        return self.error.table

    @property
    def curves(self) -> list[ReportedCurve]:
        """All reliability curves: of the whole where there is one, then of each class."""
        first = [] if self.curve is None else [self.curve]
        return [*first, *(self.classes.curves if self.classes else ())]

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
            "key_numbers": None if self.key_numbers is None else asdict(self.key_numbers),
            "recalibration_gain": gain,
            "recalibration_gain_standard_error": gain_error,
            "rows_to_certify": {f"{error:g}": rows for error, rows in self.plan.needed},
            "fingerprint": mark,
        }
        if self.audit is not None:
            numbers["audit"] = self.audit.to_dict()
        if self.before is not None:
            numbers["before"] = self.before.to_dict()
        return dict(plain(numbers))


def findings_of(
    source: Source,
    bins: BinsLike,
    max_error: float | None,
    confidence_level: float,
    levels: ArrayLike | None = None,
    given_answer: bool = False,
) -> Findings:
    """Compute all numbers of a report; of a table, those that need no rows."""
    if not source.has_rows:
        table = source.tabulate(bins)
        certificate = stats.certify(
            table, max_error=max_error, confidence_level=confidence_level, levels=levels
        )
        marginal = table.problem.is_marginal
        classes = class_findings(table, confidence_level) if marginal else None
        findings = _of_table(table, certificate, classes)
        return replace(findings, audit=_audit(source, max_error, confidence_level))
    rows = source.in_memory()
    findings = of_rows(rows, bins, max_error, confidence_level, levels)
    findings = replace(findings, audit=_audit(rows, max_error, confidence_level))
    if rows.problem.has_event_columns:  # no recalibrator takes several events of a row at once
        return findings
    columns, selective = rows.columns(), None
    probs, codes = columns.probabilities(), columns.codes()
    if not rows.problem.is_marginal:
        kind = "top-label" if given_answer else rows.problem.kind
        selective = stats.selective_curve(
            rows.tabulate(confidence_bins(kind)),
            confidence_level=confidence_level,
            given_answer=given_answer,
        )
    mark = Fingerprint.of(probs, codes)
    return replace(findings, gain=gain_of(probs, codes), fingerprint=mark, selective=selective)


def of_rows(
    rows: ArraySource,
    bins: BinsLike,
    max_error: float | None,
    confidence_level: float,
    levels: ArrayLike | None = None,
) -> Findings:
    """Compute what a model is judged by, without what might be done about it."""
    outputs = tabulate_outputs(rows)
    certificate = stats.certify(
        outputs,
        max_error=max_error,
        confidence_level=confidence_level,
        levels=levels,
        digests=Digests(rows.digest()),
    )
    table, classes = _measured(rows, bins, outputs), None
    if rows.problem.kind != "binary":
        class_table = table
        if rows.problem.kind == "top-label":
            every = ArraySource(rows.columns().as_marginal())
            class_table = _measured(every, bins, tabulate_outputs(every))
        classes = class_findings(class_table, confidence_level)
    findings = _of_table(table, certificate, classes, rows)
    if findings.curve is None or findings.key_numbers is None:
        return findings
    columns = rows.columns()
    numbers = with_rows(
        findings.key_numbers, columns.probabilities(), columns.codes(), confidence_level
    )
    return replace(findings, curve=findings.curve.counted_in(rows), key_numbers=numbers)


def _audit(source: Source, max_error: float | None, level: float) -> stats.Audit | None:
    if not source.by:
        return None
    tables = tabulate_groups(source, None)
    return stats.audit(tables, max_error=max_error, confidence_level=level)


def _of_table(
    table: BinTable,
    certificate: stats.Certificate,
    classes: ClassFindings | None,
    source: ArraySource | None = None,
) -> Findings:
    level = certificate.confidence_level
    error = stats.calibration_error(table, source=source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnresolvedWarning)  # the page says it instead
        interval = error.confidence_interval(level)
    single = table.n_groups == 1
    return Findings(
        error=error,
        interval=interval,
        certificate=certificate,
        curve=curve_of(join_bins(table, MOST_BINS_DRAWN), None, level) if single else None,
        classes=classes,
        brier=stats.brier_decomposition(table, debias=True),
        gain=None,
        plan=plan_of(certificate),
        fingerprint=None,
        key_numbers=key_numbers(table, level),
    )


def _measured(source: ArraySource, bins: BinsLike, outputs: BinTable) -> BinTable:
    """Return the table to measure in; by default the outputs themselves, if they are few."""
    if not is_auto(bins):
        return source.tabulate(bins)
    few = outputs.is_binned_model and outputs.count.shape[1] <= MOST_OUTPUTS_SHOWN
    return outputs if few or not outputs.is_binned_model else source.tabulate(bins)


def gain_of(probs: AnyArray, codes: IntArray) -> Gain:
    """Compare recalibrators on these rows, or on a random part of them where there are many.

    For one event all default candidates are tried, for several classes temperature and vector
    scaling, and beyond 100 classes temperature alone: a page is made in seconds.
    """
    n = len(codes)
    if n < FEWEST_ROWS:
        return Gain(None, n, n)
    width = probs.shape[1] if probs.ndim == 2 else 1
    used = min(n, MOST_ROWS, max(MOST_VALUES // width, FEWEST_ROWS))
    if used < n:
        part = np.sort(np.random.default_rng(0).choice(n, used, replace=False))
        probs, codes = probs[part], codes[part]
    vector = [VectorScaling()] if width <= MOST_CLASSES_TO_SCALE else []
    candidates = None if width == 1 else [Identity(), TemperatureScaling(), *vector]
    return Gain(recalibrator_scores(codes, probs, candidates, cv=FOLDS), used, n)


def plan_of(certificate: stats.Certificate) -> Plan:
    """Plan for the outputs of the model if they are declared or few, else for ten bins of them."""
    table = certificate.table
    outputs = int((table.count > 0).sum(axis=1).max())
    levels = None if certificate.levels is None else tuple(certificate.levels)
    is_own = levels is not None or (table.is_binned_model and outputs <= MOST_OUTPUTS_PLANNED)
    n_outputs = len(levels) if levels is not None else outputs if is_own else PLANNED_OUTPUTS
    model: dict[str, Any] = {
        "n_bins": None if levels is not None else n_outputs,
        "levels": levels,
        "confidence_level": certificate.confidence_level,
        "power": POWER,
    }
    own_limit = [] if certificate.max_error is None else [certificate.max_error]
    return Plan(
        n_outputs=n_outputs,
        is_own=is_own,
        needed=[
            (limit, _rows_needed(limit, **model))
            for limit in sorted({*TOLERANCES, *own_limit}, reverse=True)
        ],
        n=table.n,
        smallest=stats.smallest_certifiable_error(table.n, **model),
    )


_rows_needed = cache(stats.samples_to_certify)
"""Plans take a second, and reports ask for the same ones."""
