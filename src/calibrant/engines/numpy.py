"""The reference engine: NumPy, always there.

Rows are read in blocks that fit the processor's cache, so the temporaries do not grow with the
number of rows. Values are checked in the same pass. Block sums are float64 and are added with
compensation (Kahan), so 1e9 rows keep about 1e-13 relative accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.engines import GroupSums
from calibrant.engines.cells import (
    add_compensated,
    distinct,
    lookup,
    merged_levels,
    named_sums,
    table_of,
)
from calibrant.groups import Groups
from calibrant.table import BinTable

BLOCK_ROWS = 1 << 15
BLOCK_GROUPS = 16
"""A block has at most 2^15 values of at most 16 groups: 256 KB a temporary, for the second cache.
Affects speed only."""
FEW_VALUES = 1 << 12
"""Searching the bins of fewer values is faster than building a lookup table. Speed only."""
FEW_CELLS = 1 << 16
"""Sums of all groups of rows that a block may add to; where there are more, rows are sorted by
group first, so that a block meets few groups. Affects speed only."""
PART_ROWS = 1 << 14
"""Rows added up without compensation: at most 2^14 roundings, below 2e-12."""


class NumpyEngine:
    """Counts arrays in memory."""

    def choose(self, columns: Columns, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        groups = range(columns.problem.n_groups)
        return tuple(rule.choose(*distinct(columns.group(g), columns.weights)) for g in groups)

    def count(self, columns: Columns, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        n_bins = max(map(len, bins))
        weighted = columns.weights is not None
        groups = range(0, len(bins), BLOCK_GROUPS)
        few = len(columns) * len(bins) < FEW_VALUES
        tallies = [_Tally(bins[g : g + BLOCK_GROUPS], n_bins, weighted, few) for g in groups]
        step = max(1, BLOCK_ROWS // min(len(bins), BLOCK_GROUPS))
        for start in range(0, len(columns), step):
            block = columns if len(columns) <= step else columns.take(slice(start, start + step))
            for tally, (p, happened) in zip(tallies, _checked(block, columns), strict=True):
                tally.add(p, happened, block.weights)
        sums: FloatArray = tallies[0].sums
        level: FloatArray = tallies[0].level
        if len(tallies) > 1:
            sums = np.concatenate([tally.sums for tally in tallies], axis=1)
            level = np.concatenate([tally.level for tally in tallies])
        shape = (len(bins), n_bins)
        cells = sums.T.reshape(*shape, 2, -1)
        return table_of(columns.problem, bins, cells, level.reshape(shape), weighted)

    def count_by(self, columns: Columns, bins: tuple[Bins, ...], groups: Groups) -> GroupSums:
        """Check and sum the rows of each group."""
        codes, n_codes = groups.codes, len(groups.labels)
        n_bins, weighted = max(map(len, bins)), columns.weights is not None
        n_cells, few = len(bins) * n_bins, len(columns) * len(bins) < FEW_VALUES
        order = None if n_codes * n_cells <= FEW_CELLS else np.argsort(codes, kind="stable")
        sums = np.zeros((6 if weighted else 3, n_codes, 2 * n_cells))
        lost, level = np.zeros_like(sums), np.full((n_codes, n_cells), -1.0)
        step = max(1, BLOCK_ROWS // min(len(bins), BLOCK_GROUPS))
        for start in range(0, len(columns), step):
            rows = slice(start, start + step) if order is None else order[start : start + step]
            block, code = columns.take(rows), codes[rows].astype(np.intp)
            present: slice | IntArray = slice(None)
            if order is not None:
                new = np.concatenate([[False], code[1:] != code[:-1]])
                present, code = code[np.concatenate([[0], np.flatnonzero(new)])], np.cumsum(new)
            first = 0
            for p, happened in _checked(block, columns):
                part = bins[first : first + len(p)]
                tally = _Tally(part, n_bins, weighted, few, n_codes=len(level[present]))
                tally.add(p, happened, block.weights, code)
                cells = slice(first * n_bins, (first + len(p)) * n_bins)
                ends = slice(2 * cells.start, 2 * cells.stop)
                shape = (len(sums), -1, ends.stop - ends.start)
                added = add_compensated(
                    sums[:, present, ends], lost[:, present, ends], tally.sums.reshape(shape)
                )
                sums[:, present, ends], lost[:, present, ends] = added
                noted = tally.level.reshape(-1, cells.stop - cells.start)
                level[present, cells] = merged_levels(level[present, cells], noted)
                first += len(p)
        shape = (n_codes, len(bins), n_bins)
        stacked = np.moveaxis(sums.reshape(len(sums), *shape, 2), 0, -1)
        return groups.labels, named_sums(stacked, level.reshape(shape), weighted)

    def influence_sums(
        self, columns: Columns, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows once more; see `calibrant._influences`."""
        total = InfluenceSums()
        step = max(1, BLOCK_ROWS // min(len(bins), BLOCK_GROUPS))
        for start in range(0, len(columns), step):
            block = columns.take(slice(start, start + step))
            a, m, group = np.zeros(len(block)), np.zeros(len(block)), 0
            for p, happened in _checked(block, columns):
                for prediction, event in zip(p, happened, strict=True):
                    place = bins[group].index(prediction)
                    a += influence.slope[group, place] * (event - prediction)
                    m += influence.offset[group, place]
                    group += 1
            w = np.ones_like(a) if block.weights is None else block.weights / influence.mean_weight
            wa, wm = w * (a - influence.mean_a), w * (m - influence.mean_m)
            terms = (w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4)
            total += InfluenceSums(*(float(term.sum()) for term in terms))
        return total


def _checked(block: Columns, columns: Columns) -> Iterator[tuple[FloatArray, AnyArray]]:
    """Yield (predictions, whether they came true) of 16 groups at a time, groups by rows."""
    codes = block.problem.codes(block.labels)
    if codes is not block.labels and codes.min() < 0:  # else `codes` has checked them
        columns.explain_labels()
    if not block.problem.is_marginal:
        if block.problem.kind == "binary":
            columns.check_probabilities(block.predictions)
            p, happened = block.predictions.astype(np.float64, copy=False), codes
        else:
            p, top = columns.top(block.predictions)
            happened = codes == top
        yield p[None, :], happened[None, :]
        return
    for first in range(0, block.problem.n_groups, BLOCK_GROUPS):
        p = np.ascontiguousarray(block.predictions[:, first : first + BLOCK_GROUPS].T, np.float64)
        columns.check_probabilities(p)
        if block.problem.has_event_columns:
            yield p, codes[:, first : first + len(p)].T
        else:
            yield p, codes == np.arange(first, first + len(p))[:, None]


class _Tally:
    """Running sums of a few groups; cell 2 b + e holds the rows of bin b whose event is e.

    Where rows have codes, those of each are summed apart.
    """

    def __init__(
        self, bins: tuple[Bins, ...], n_bins: int, weighted: bool, few: bool, n_codes: int = 1
    ) -> None:
        self.bins = bins
        shared = not few and all(other is bins[0] for other in bins)
        self.shared = lookup(bins) if shared else None
        self.n_bins = n_bins
        self.sums = np.zeros((6 if weighted else 3, n_codes * 2 * len(bins) * n_bins))
        self.lost = np.zeros_like(self.sums)
        self.level = np.full(n_codes * len(bins) * n_bins, -1.0)

    def add(
        self,
        p: FloatArray,
        happened: AnyArray,
        weights: FloatArray | None,
        codes: IntArray | None = None,
    ) -> None:
        """Add a block of rows, each array groups by rows."""
        cell = self._cells(p)
        cell += happened
        if codes is not None:
            cell += 2 * len(self.bins) * self.n_bins * codes
        for part, start in enumerate(range(PART_ROWS, p.shape[1], PART_ROWS), 1):
            cell[:, start : start + PART_ROWS] += part * self.sums.shape[1]
        terms: list[AnyArray | None] = [None, p, p * p]
        if weights is not None:
            w = np.broadcast_to(weights, p.shape)
            wp, residual = w * p, w * (happened - p)
            terms = [w > 0, wp, wp * p, w, w * w, residual * residual]
        sums = np.empty((-(-p.shape[1] // PART_ROWS), *self.sums.shape))
        size = len(sums) * self.sums.shape[1]
        for i, term in enumerate(terms):
            flat = None if term is None else term.ravel()
            sums[:, i] = np.bincount(cell.ravel(), flat, size).reshape(len(sums), -1)
        for part_sums in sums:
            self.sums, self.lost = add_compensated(self.sums, self.lost, part_sums)
        used = slice(None) if weights is None else weights > 0
        self._note_levels(cell[:, used].ravel(), p[:, used].ravel(), sums[:, 0].sum(axis=0))

    def _cells(self, p: FloatArray) -> IntArray:
        """Return the cell of every prediction whose event does not happen."""
        if self.shared is not None:
            cell = self.shared.cell_index(self.bins[0], p)
        elif len(self.bins) == 1:
            cell = 2 * self.bins[0].index(p)
        else:
            cell = 2 * np.stack([bins.index(row) for bins, row in zip(self.bins, p, strict=True)])
        if len(self.bins) > 1:
            cell += 2 * self.n_bins * np.arange(len(self.bins))[:, None]
        return cell

    def _note_levels(self, cell: IntArray, p: FloatArray, count: FloatArray) -> None:
        """Keep the one prediction of a bin, -1 before the first, NaN after a second."""
        used = count[::2] + count[1::2] > 0
        for part in (slice(0, 512), slice(512, None)):  # the first rows nearly always suffice
            if not np.any(used & ~np.isnan(self.level)):
                return
            where, value = (cell[part] >> 1) % self.level.size, p[part]
            fresh = self.level[where] < 0
            self.level[where[fresh]] = value[fresh]
            self.level[where[value != self.level[where]]] = np.nan
