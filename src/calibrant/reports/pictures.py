"""The numbers behind a reliability diagram, a bounded number of bins for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant import stats
from calibrant._read_only import ReadOnlyArrays
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.problem import Label
from calibrant.table import SUMS, WEIGHT_SUMS, BinTable

MOST_BINS = 200
MOST_CELLS = 12_000
LIMITS = (*(float(f"{digit}e-{power}") for power in range(6, 0, -1) for digit in (1, 2, 5)), 1.0)


@dataclass(frozen=True, eq=False)
class Picture(ReadOnlyArrays):
    """What happened beside what was said, with limits for each bin and for all bins at once.

    Numbers have four significant digits, as the page publishes them, so that the script draws
    from them exactly what was drawn here.
    """

    count: FloatArray
    said: FloatArray
    happened: FloatArray
    low: FloatArray
    high: FloatArray
    low_all: FloatArray
    high_all: FloatArray
    left: FloatArray
    right: FloatArray

    def __len__(self) -> int:
        return self.count.size

    @property
    def limit(self) -> float:
        """Where the axes end: the least round number that no mean lies beyond."""
        top = float(max(self.said.max(), self.happened.max()))
        return next(limit for limit in LIMITS if limit >= top or limit == 1.0)

    @property
    def beyond_chance(self) -> BoolArray:
        """Bins whose mean prediction lies outside the limits that hold for all bins at once."""
        return (self.said < self.low_all) | (self.said > self.high_all)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        columns = {name: [_plain(x) for x in values] for name, values in vars(self).items()}
        return {**columns, "limit": self.limit}


def picture_of(
    table: BinTable,
    class_label: Label | None,
    confidence_level: float,
    level_at_once: float | None = None,
) -> Picture:
    """Return the numbers of one class, or of the one group of a table.

    `level_at_once` is that of the limits that hold for all bins, where these must allow for other
    classes too; by default the same.
    """
    one, all_ = (
        stats.reliability_curve(
            table, confidence_level=level, simultaneous=simultaneous, class_label=class_label
        )
        for simultaneous, level in (
            (False, confidence_level),
            (True, level_at_once or confidence_level),
        )
    )
    return Picture(
        one.count,
        *map(_rounded, (one.mean_prediction, one.event_rate, one.low, one.high)),
        *map(_rounded, (all_.low, all_.high, one.left, one.right)),
    )


def joined(table: BinTable, most_bins: int) -> BinTable:
    """Join neighbouring bins of each group until at most this many are left."""
    if max(map(len, table.bins)) <= most_bins:
        return table
    starts = [_starts(len(bins), most_bins) for bins in table.bins]
    bins = tuple(_joined_bins(*each) for each in zip(table.bins, starts, strict=True))
    sums = {
        name: _joined_sums(getattr(table, name), table.bins, starts, most_bins)
        for name in (*SUMS, *WEIGHT_SUMS)
    }
    level = np.full(sums["count"].shape, np.nan)
    return BinTable(table.problem, bins, **sums, level=level)


def _starts(n_bins: int, most: int) -> IntArray:
    return np.unique(np.arange(min(n_bins, most)) * n_bins // min(n_bins, most))


def _joined_bins(bins: Bins, starts: IntArray) -> Bins:
    return Bins(np.append(bins.edges[starts], 1.0), bins.origin, bins.rule)


def _joined_sums(
    values: FloatArray, bins: tuple[Bins, ...], starts: list[IntArray], most: int
) -> FloatArray:
    out = np.zeros((len(bins), most))
    for group, (each, start) in enumerate(zip(bins, starts, strict=True)):
        out[group, : start.size] = np.add.reduceat(values[group, : len(each)], start)
    return out


def _rounded(values: FloatArray) -> FloatArray:
    """Round to four significant digits."""
    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-12)))
    digits = np.clip(3 - size, 0, 15).astype(int)
    return np.array([round(x, d) for x, d in zip(values.tolist(), digits.tolist(), strict=True)])


def _plain(value: float) -> float | int:
    return int(value) if value == int(value) else float(value)
