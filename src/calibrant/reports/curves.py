"""Reliability curves of a report, of a bounded number of bins."""

from __future__ import annotations

from dataclasses import dataclass

from calibrant import _svg, stats
from calibrant._types import BoolArray
from calibrant.problem import Label
from calibrant.table import BinTable

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
