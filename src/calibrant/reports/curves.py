"""Reliability curves of a report, of a bounded number of bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant import _svg, stats
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.problem import Label
from calibrant.table import SUMS, WEIGHT_SUMS, BinTable

# More points than these overlap on a screen.
MOST_BINS = 200
# Of all classes together: 12 bins of each of 1,000 classes are 1.5 MB of a page.
MOST_CELLS = 12_000


@dataclass(frozen=True, eq=False)
class ReportedCurve:
    """What happened beside what was said, with two kinds of limits.

    Attributes
    ----------
    alone : ReliabilityCurve
        Its limits hold in each bin by itself.
    at_once : ReliabilityCurve
        Its limits hold in all bins at once, and where there are classes, in those of all classes.
    """

    alone: stats.ReliabilityCurve
    at_once: stats.ReliabilityCurve

    def __len__(self) -> int:
        return len(self.alone)

    @property
    def beyond_chance(self) -> BoolArray:
        """Bins whose mean prediction lies outside the limits that hold for all bins at once."""
        return _svg.beyond_chance(self.at_once)


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
    return ReportedCurve(alone, at_once)


def joined(table: BinTable, most_bins: int) -> BinTable:
    """Join neighbouring bins of each group until at most this many are left."""
    if max(map(len, table.bins)) <= most_bins:
        return table
    starts = [_starts(len(bins), most_bins) for bins in table.bins]
    bins = tuple(
        Bins(np.append(old.edges[start], 1.0), old.origin, old.rule)
        for old, start in zip(table.bins, starts, strict=True)
    )

    def sums(values: FloatArray) -> FloatArray:
        out = np.zeros((len(starts), most_bins))
        for group, (old, start) in enumerate(zip(table.bins, starts, strict=True)):
            out[group, : start.size] = np.add.reduceat(values[group, : len(old)], start)
        return out

    columns = {name: sums(getattr(table, name)) for name in (*SUMS, *WEIGHT_SUMS)}
    level = np.full(columns["count"].shape, np.nan)
    return BinTable(table.problem, bins, **columns, level=level)


def _starts(n_bins: int, most: int) -> IntArray:
    return np.unique(np.arange(min(n_bins, most)) * n_bins // min(n_bins, most))
