"""The numbers of a diagram, all computed by `calibrant.stats` before anything is drawn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

from calibrant import stats
from calibrant._options import is_integer
from calibrant._results import shown_chance
from calibrant._types import FloatArray, ReadOnlyArrays
from calibrant.display.axes import Histogram
from calibrant.exceptions import InvalidArgumentError, UnresolvedWarning
from calibrant.groups import shown_key
from calibrant.problem import Kind, Label
from calibrant.stats.curves import consistency_limits, group_of
from calibrant.stats.isotonic_curves import IsotonicCurve, isotonic_curve
from calibrant.stats.results import UNRESOLVED_LIMIT
from calibrant.table import BinTable
from calibrant.tables import Tables


@dataclass(frozen=True, eq=False)
class DisplayedCurve(ReadOnlyArrays):
    """The numbers of one curve in a display.

    Attributes
    ----------
    name : str or None
    kind : {"binary", "top-label", "marginal"}
    class_label : label or None
        The class of a marginal problem.
    curve : ReliabilityCurve
        Event rates beside predictions, with their limits: of each occupied bin, or a smooth curve.
    binned : ReliabilityCurve
        That of bins.
    histogram : Histogram
        How often each prediction was made.
    consistency : (low, high)
        Where event rates of bins would lie if predictions were calibrated, at the same level.
    error : CalibrationErrorResult
        The l2 calibration error in these bins; of a marginal problem, that of the class.
    interval : ConfidenceInterval
        Of that error, at the level of the curve.
    isotonic : IsotonicCurve or None
    """

    name: str | None
    kind: Kind
    class_label: Label | None
    curve: stats.ReliabilityCurve
    binned: stats.ReliabilityCurve
    histogram: Histogram
    consistency: tuple[FloatArray, FloatArray]
    error: stats.CalibrationErrorResult
    interval: stats.ConfidenceInterval
    isotonic: IsotonicCurve | None = None

    @property
    def error_line(self) -> str:
        """The error with its interval, in one short line; "≥" marks a lower bound."""
        sign = "≥" if self.error.is_lower_bound else "="
        low, high = self.interval
        return f"l2 error {sign} {self.error.value:.3f} [{low:.3f}, {high:.3f}]"

    @property
    def alone_line(self) -> str:
        """What must be said where many rows sit alone in their bin, else nothing."""
        alone = self.error.unresolved_mass
        return f"{alone:.0%} of the rows alone in their bin" if alone > UNRESOLVED_LIMIT else ""

    @property
    def pvalue_line(self) -> str:
        """The p-value of a smooth curve, in one short line."""
        curve = self.curve
        return "" if curve.pvalue is None else f"{curve.method}, {shown_chance(curve.pvalue, 2)}"

    @property
    def isotonic_line(self) -> str:
        """The isotonic decomposition of the Brier score, in one short line."""
        if self.isotonic is None:
            return ""
        parts = self.isotonic.brier
        return (
            f"isotonic: MCB {parts.miscalibration:.3f} DSC {parts.discrimination:.3f} "
            f"UNC {parts.uncertainty:.3f}"
        )


class Limits(NamedTuple):
    """Of which class limits are, at what level, and whether of all bins at once."""

    class_label: Label | None
    confidence_level: float
    simultaneous: bool


def displayed_curve(
    table: BinTable,
    name: Any,
    limits: Limits,
    *,
    distinct: BinTable | None = None,
    fine: BinTable | None = None,
    smooth: stats.ReliabilityCurve | None = None,
) -> DisplayedCurve:
    """Compute all numbers of one curve.

    `distinct` is the table to fit an isotonic curve to, `fine` that of a finer histogram, `smooth`
    a curve to draw in place of bins.
    """
    if not isinstance(table, BinTable):
        raise InvalidArgumentError(
            "A diagram is drawn of a table, such as tabulate makes, or of a dict of tables; got "
            f"{table!r:.60}."
        )
    class_label, how = limits.class_label, limits._asdict()
    binned = stats.reliability_curve(table, **how)
    weight = None if class_label is None else {class_label: 1.0}
    error = stats.calibration_error(table, class_weight=weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnresolvedWarning)  # `error_line` says it instead
        interval = error.confidence_interval(limits.confidence_level)
    return DisplayedCurve(
        name=None if name is None else str(name),
        kind=table.problem.kind,
        class_label=class_label,
        curve=binned if smooth is None else smooth,
        binned=binned,
        histogram=Histogram.of(fine or table, group_of(table.problem, class_label)),
        consistency=consistency_limits(table, **how),
        error=error,
        interval=interval,
        isotonic=None if distinct is None else isotonic_curve(distinct, class_label=class_label),
    )


def worst_panels(table: BinTable | Tables, n_max: int) -> list[tuple[BinTable, str, Label | None]]:
    """Return table, name and class of the panels of the largest debiased l2 error, worst first."""
    if not is_integer(n_max) or n_max < 1:
        raise InvalidArgumentError(f"n_max must be at least 1, a whole number; got {n_max!r:.60}.")
    if isinstance(table, Tables):
        if table.problem.n_groups > 1:
            raise InvalidArgumentError(
                "A panel of a group has one curve; this problem is of "
                f'kind="{table.problem.kind}", '
                f"which has one for each {table.problem.part}. Draw one event, or the "
                f"{table.problem.parts} of one group: ReliabilityDisplay.grid(tables[key])."
            )
        order = stats.group_errors(table).places()[:n_max].tolist()
        return [(table.at(place), shown_key(table.labels[place]), None) for place in order]
    per_class = stats.calibration_error(table).per_class
    if per_class is None:
        raise InvalidArgumentError(
            'A grid has one panel for each class of kind="marginal", or label, threshold or level; '
            f'this table is of kind "{table.problem.kind}". Draw it with '
            "ReliabilityDisplay.from_table."
        )
    worst = sorted(per_class, key=lambda label: -per_class[label])[:n_max]
    return [(table, str(label), label) for label in worst]
