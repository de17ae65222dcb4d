"""Curves of a report, of a bounded number of bins; and each class, label, threshold or level."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from calibrant import stats
from calibrant._html import Element
from calibrant._svg import Frame, Histogram, Window, beyond_chance, closer_window, diagram, frame_of
from calibrant._types import BoolArray, FloatArray, IntArray, ReadOnlyArrays
from calibrant.bins import Bins
from calibrant.problem import Label
from calibrant.sources.arrays import ArraySource
from calibrant.stats.curves import MOST_BINS_DRAWN, join_bins
from calibrant.stats.estimators import Cells, cells_of
from calibrant.stats.intervals import box_interval, score_interval
from calibrant.table import BinTable

# Of all classes together: 12 bins of each of 1,000 classes are 1.5 MB of a page.
MOST_CELLS = 12_000
# More make the page larger than a mail takes; a curve of fewer bins hides its shape.
MOST_CLASSES = 1000
FEWEST_BINS = 10


@dataclass(frozen=True, eq=False)
class ReportedCurve:
    """What happened beside what was said, with two kinds of limits.

    Attributes
    ----------
    alone : ReliabilityCurve
        Its limits hold in each bin by itself.
    at_once : ReliabilityCurve
        Its limits hold in all bins at once, and where there are classes, in those of all classes.
    frame : Frame
        The part of the axes that is shown, and a histogram of the predictions in it.
    closer : Frame or None
        A closer look at most of the rows, where they crowd in a corner.
    """

    alone: stats.ReliabilityCurve
    at_once: stats.ReliabilityCurve
    frame: Frame
    closer: Frame | None = None

    def __len__(self) -> int:
        return len(self.alone)

    @property
    def beyond_chance(self) -> BoolArray:
        """Bins whose mean prediction lies outside the limits that hold for all bins at once."""
        return beyond_chance(self.at_once)

    @property
    def worst(self) -> int:
        """The bin that adds most to the error; among those beyond chance, if there are any."""
        curve, off = self.alone, self.beyond_chance
        weight = curve.count * (curve.event_rate - curve.mean_prediction) ** 2
        return int(np.argmax(np.where(off, weight, -1.0) if off.any() else weight))

    def picture(self, title: str, words: tuple[str, str], name: str | None = None) -> Element:
        """Return the diagram."""
        return diagram(self.alone, self.at_once, title, words, name, self.frame)

    def seen_through(self, window: Window) -> ReportedCurve:
        """Return the same curve in a larger window, its rows spread over their bins."""
        if window == self.frame.window:
            return self
        frame = frame_of(self.alone, window, self.frame.is_binned)
        return replace(self, frame=frame, closer=None)

    def counted_in(self, rows: ArraySource) -> ReportedCurve:
        """Return the same curve with histograms of the rows themselves, not of its bins."""
        if self.frame.is_binned:
            return self
        closer = self.closer and _counted(self.closer, rows)
        return replace(self, frame=_counted(self.frame, rows), closer=closer)


def curve_of(
    table: BinTable,
    class_label: Label | None,
    confidence_level: float,
    level_at_once: float | None = None,
) -> ReportedCurve:
    """Return the curve of one class, or of the one group of a table.

    `level_at_once` is that of the limits that hold for all bins, where these must allow for other
    classes too; by default the same.
    """
    alone, at_once = (
        stats.reliability_curve(
            table, confidence_level=level, simultaneous=simultaneous, class_label=class_label
        )
        for simultaneous, level in (
            (False, confidence_level),
            (True, level_at_once or confidence_level),
        )
    )
    frame = frame_of(alone, is_binned=table.is_binned_model)
    closer = closer_window(alone, frame.window)
    return ReportedCurve(
        alone, at_once, frame, closer and frame_of(alone, closer, table.is_binned_model)
    )


def _counted(frame: Frame, rows: ArraySource) -> Frame:
    """Count the rows of one event in the columns of the frame's own window."""
    window = frame.window
    edges = np.unique([0.0, *window.columns.tolist(), 1.0])
    table = rows.tabulate(Bins(edges))
    inside = (edges[:-1] >= window.start) & (edges[1:] <= window.end)
    events, count = table.sum_y[0, inside], table.count[0, inside]
    return frame._replace(histogram=Histogram(events, count - events))


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
    alone, weight = cells.one_class_each, np.ones(1)
    low, high = score_interval(alone, weight, level)
    proved, _ = box_interval(alone, weight, 2.0, level)
    low = np.where(proved > 0, np.maximum(low, proved), 0.0)
    return np.minimum(low, errors), np.maximum(high, errors)
