"""The reference engine: NumPy, always there.

Rows are read in blocks that fit the processor's cache, so the temporaries do not grow with the
number of rows. Values are checked in the same pass. Block sums are float64 and are added with
compensation (Kahan), so 1e9 rows keep about 1e-13 relative accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.problem import Rows
from calibrant.table import BinTable, unit_weight_sums

BLOCK_ROWS = 1 << 14
BLOCK_GROUPS = 16


class NumpyEngine:
    """Counts arrays in memory."""

    def choose_bins(self, rows: Rows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        groups = range(rows.problem.n_groups)
        return tuple(rule.choose(*distinct(predictions_of(rows, g), rows.weights)) for g in groups)

    def tabulate(self, rows: Rows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        n_bins = max(map(len, bins))
        groups = range(0, len(bins), BLOCK_GROUPS)
        tallies = [
            _Tally(bins[g : g + BLOCK_GROUPS], n_bins, rows.weights is not None) for g in groups
        ]
        for start in range(0, len(rows), BLOCK_ROWS):
            block = rows.take(slice(start, start + BLOCK_ROWS))
            for tally, (p, event_group, event_row) in zip(
                tallies, _columns(block, rows), strict=True
            ):
                tally.add(p, event_group, event_row, block.weights)
        sums = {
            name: np.concatenate([tally.total(name) for tally in tallies])
            for name in tallies[0].names
        }
        if rows.weights is None:
            sums |= unit_weight_sums(**sums)
        level = np.concatenate([tally.levels() for tally in tallies])
        return BinTable(rows.problem, bins, **sums, level=level)


def _columns(block: Rows, rows: Rows) -> Iterator[tuple[FloatArray, IntArray, IntArray]]:
    """Yield (predictions, group of each event, row of each event) for 16 groups at a time."""
    codes = block.problem.codes(block.labels)
    if codes.min() < 0:
        rows.explain_labels()
    if block.problem.kind != "marginal":
        p, predicted = _single(block.probs, rows)
        event_row = np.flatnonzero(codes == predicted)
        yield p[None, :], np.zeros_like(event_row), event_row
        return
    for first in range(0, block.problem.n_classes, BLOCK_GROUPS):
        p = np.ascontiguousarray(block.probs[:, first : first + BLOCK_GROUPS].T, np.float64)
        _check(p, rows)
        event_row = np.flatnonzero((codes >= first) & (codes < first + BLOCK_GROUPS))
        yield p, codes[event_row] - first, event_row


def _single(probs: AnyArray, rows: Rows) -> tuple[FloatArray, IntArray | int]:
    """Return the one prediction of each row and the class it speaks of; checked."""
    _check(probs, rows)
    if rows.problem.kind == "binary":
        return probs.astype(np.float64), 1
    top = probs.argmax(axis=1)
    return probs[np.arange(top.size), top].astype(np.float64), top


def _check(probs: AnyArray, rows: Rows) -> None:
    if not (probs.min() >= 0 and probs.max() <= 1):
        rows.explain_probabilities()


def predictions_of(rows: Rows, group: int) -> FloatArray:
    """Return all predictions of one group, checked."""
    if rows.problem.kind != "top-label":
        column = rows.probs if rows.problem.kind == "binary" else rows.probs[:, group]
        _check(column, rows)
        return column.astype(np.float64)
    blocks = range(0, len(rows), BLOCK_ROWS)
    return np.concatenate([_single(rows.probs[i : i + BLOCK_ROWS], rows)[0] for i in blocks])


def distinct(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, sorted, and the mass of each."""
    if weights is None:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.float64)
    values, weights = values[weights > 0], weights[weights > 0]
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place, weights).astype(np.float64)


class _Tally:
    """Running sums of some groups."""

    def __init__(self, bins: tuple[Bins, ...], n_bins: int, weighted: bool) -> None:
        self.bins = bins
        self.shape = (len(bins), n_bins)
        extra = ("sum_w", "sum_ww", "sum_wwuu") if weighted else ()
        self.names = ("count", "sum_y", "sum_p", "sum_pp", "sum_py", *extra)
        self.sums = np.zeros((len(self.names), len(bins) * n_bins))
        self.lost = np.zeros_like(self.sums)
        self.level = np.full(len(bins) * n_bins, -1.0)

    def add(
        self,
        p: FloatArray,
        event_group: IntArray,
        event_row: IntArray,
        weights: FloatArray | None,
    ) -> None:
        cell = self._cells(p)
        event = (event_group, event_row)
        if weights is None:
            sums = self._sums(cell, p, event)
        else:
            sums = self._weighted_sums(cell, p, event, weights)
            used = weights > 0
            cell, p = cell[:, used], p[:, used]
        self._add_compensated(np.stack(sums))
        self._note_levels(cell.ravel(), p.ravel(), sums[0])

    def _cells(self, p: FloatArray) -> IntArray:
        """Return the flat (group, bin) index of every prediction."""
        cell = np.stack([bins.index(row) for bins, row in zip(self.bins, p, strict=True)])
        cell += self.shape[1] * np.arange(self.shape[0])[:, None]
        return cell

    def _sum(self, cell: IntArray, values: FloatArray | None = None) -> FloatArray:
        flat = None if values is None else values.ravel()
        return np.bincount(cell.ravel(), flat, minlength=self.level.size).astype(np.float64)

    def _sums(
        self, cell: IntArray, p: FloatArray, event: tuple[IntArray, IntArray]
    ) -> list[FloatArray]:
        hit = cell[event]
        return [
            self._sum(cell),
            self._sum(hit),
            self._sum(cell, p),
            self._sum(cell, p * p),
            self._sum(hit, p[event]),
        ]

    def _weighted_sums(
        self, cell: IntArray, p: FloatArray, event: tuple[IntArray, IntArray], weights: FloatArray
    ) -> list[FloatArray]:
        w = np.broadcast_to(weights, p.shape)
        u = -p
        u[event] += 1.0
        wp, hit = w * p, cell[event]
        return [
            self._sum(cell[:, weights > 0]),
            self._sum(hit, w[event]),
            self._sum(cell, wp),
            self._sum(cell, wp * p),
            self._sum(hit, wp[event]),
            self._sum(cell, w),
            self._sum(cell, w * w),
            self._sum(cell, (w * u) ** 2),
        ]

    def _add_compensated(self, term: FloatArray) -> None:
        term = term - self.lost
        total = self.sums + term
        self.lost = (total - self.sums) - term
        self.sums = total

    def _note_levels(self, cell: IntArray, p: FloatArray, count: FloatArray) -> None:
        """Keep the one prediction of a cell, -1 before the first, NaN after a second."""
        if not np.any((count > 0) & ~np.isnan(self.level)):
            return
        fresh = self.level[cell] < 0
        self.level[cell[fresh]] = p[fresh]
        self.level[cell[p != self.level[cell]]] = np.nan

    def total(self, name: str) -> FloatArray:
        return np.asarray(self.sums[self.names.index(name)].reshape(self.shape))

    def levels(self) -> FloatArray:
        return np.where(self.level < 0, np.nan, self.level).reshape(self.shape)
