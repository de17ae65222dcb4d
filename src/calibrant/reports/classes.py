"""Each class, label, threshold or level by itself: its error and what chance allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant import stats
from calibrant._types import BoolArray, FloatArray, IntArray, ReadOnlyArrays
from calibrant.problem import Label
from calibrant.reports.curves import MOST_CELLS, ReportedCurve, curve_of
from calibrant.stats.curves import MOST_BINS_DRAWN, join_bins
from calibrant.stats.estimators import Cells, cells_of
from calibrant.stats.intervals import box_interval, score_interval
from calibrant.table import BinTable

# More make the page larger than a mail takes; a curve of fewer bins hides its shape.
MOST_CLASSES = 1000
FEWEST_BINS = 10


@dataclass(frozen=True, eq=False)
class ClassFindings(ReadOnlyArrays):
    """The numbers of each class, or label, threshold or level, in falling order of error.

    Attributes
    ----------
    labels : list
    position : ndarray
        The column of the class, from 0.
    event_rate, mean_prediction : ndarray
    error, low, high : ndarray
        The debiased l2 error, and its interval; all intervals hold at once.
    beyond_chance : ndarray
        Whether the interval excludes 0. It does only if some bin leaves its exact limits, which
        hold for all bins of all classes at once.
    curves : list of ReportedCurve
    n_classes : int
        How many there are, shown or not.
    part, parts : str
        What one and several of them are called.
    joined : bool
        Whether curves join neighbouring bins.
    """

    labels: list[Label]
    position: IntArray
    event_rate: FloatArray
    mean_prediction: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    beyond_chance: BoolArray
    curves: list[ReportedCurve]
    n_classes: int
    part: str
    parts: str
    joined: bool

    def __len__(self) -> int:
        return len(self.labels)


def class_findings(table: BinTable, confidence_level: float) -> ClassFindings:
    """Measure every class of a marginal table."""
    cells = cells_of(table)
    errors = np.array(list((stats.calibration_error(table).per_class or {}).values()))
    # Bonferroni over the classes, and over the two intervals that are joined below.
    level = 1 - (1 - confidence_level) / (2 * table.n_groups)
    low, high = _intervals(cells, errors, level)
    order = np.lexsort((-low, -errors))[:MOST_CLASSES]
    labels = [table.problem.group_names[i] for i in order]
    most = min(max(MOST_CELLS // len(labels), FEWEST_BINS), MOST_BINS_DRAWN)
    drawn = join_bins(table, most)
    return ClassFindings(
        labels=labels,
        position=order,
        event_rate=(cells.mass * cells.rate).sum(axis=-1)[order],
        mean_prediction=(cells.mass * cells.mean).sum(axis=-1)[order],
        error=errors[order],
        low=low[order],
        high=high[order],
        beyond_chance=low[order] > 0,
        curves=[curve_of(drawn, label, confidence_level, level) for label in labels],
        n_classes=table.n_groups,
        part=table.problem.part,
        parts=table.problem.parts,
        joined=drawn is not table,
    )


def _intervals(cells: Cells, errors: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return an interval for the error of each class that excludes 0 only where that is proved.

    The score interval is narrow, but its tails are approximate, and a thousand classes look far
    into them. So its lower end counts only where the exact box excludes 0 as well; then the
    larger of the two lower ends does.
    """
    alone, one = cells.one_class_each, np.ones(1)
    low, high = score_interval(alone, one, level)
    proved, _ = box_interval(alone, one, 2.0, level)
    low = np.where(proved > 0, np.maximum(low, proved), 0.0)
    return np.minimum(low, errors), np.maximum(high, errors)
