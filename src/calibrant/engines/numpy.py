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
from calibrant.engines.lookup import lookup
from calibrant.problem import Problem, Rows
from calibrant.table import BinTable, unit_weight_sums

BLOCK_ROWS = 1 << 15
BLOCK_GROUPS = 16
PART_ROWS = 1 << 14
"""Rows added up without compensation."""
SUMS_ROUND_BY = 1e-11
"""Far beyond what sums are wrong by, of any engine that adds few thousand terms at a time."""


class NumpyEngine:
    """Counts arrays in memory."""

    def choose_bins(self, rows: Rows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        groups = range(rows.problem.n_groups)
        return tuple(rule.choose(*distinct(predictions_of(rows, g), rows.weights)) for g in groups)

    def tabulate(self, rows: Rows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        n_bins = max(map(len, bins))
        weighted = rows.weights is not None
        groups = range(0, len(bins), BLOCK_GROUPS)
        tallies = [_Tally(bins[g : g + BLOCK_GROUPS], n_bins, weighted) for g in groups]
        step = max(1, BLOCK_ROWS // min(len(bins), BLOCK_GROUPS))
        for start in range(0, len(rows), step):
            block = rows if len(rows) <= step else rows.take(slice(start, start + step))
            for tally, (p, happened) in zip(tallies, checked_columns(block, rows), strict=True):
                tally.add(p, happened, block.weights)
        sums = np.concatenate([tally.sums for tally in tallies], axis=1)
        level = np.concatenate([tally.level for tally in tallies])
        shape = (len(bins), n_bins)
        sums, level = sums.T.reshape(*shape, 2, -1), level.reshape(shape)
        return table_of(rows.problem, bins, sums, level, rows.weights is not None)

    def influence_sums(
        self, rows: Rows, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows once more; see `calibrant._influences`."""
        from calibrant.engines.influences import influence_sums

        return influence_sums(rows, bins, influence)


def table_of(
    problem: Problem, bins: tuple[Bins, ...], sums: FloatArray, level: FloatArray, weighted: bool
) -> BinTable:
    """Make a table of sums, of shape (groups, bins, event, term), and levels, -1 where unknown.

    Terms are 1, p, p^2 or, with weights, 1, w p, w p^2, w, w^2, w^2 (y - p)^2.
    """
    both, event = sums.sum(axis=2), sums[:, :, 1]
    named = {
        "count": both[..., 0].copy(),
        "sum_y": event[..., 3 if weighted else 0].copy(),
        "sum_p": both[..., 1].copy(),
        "sum_pp": both[..., 2].copy(),
        "sum_py": event[..., 1].copy(),
    }
    if weighted:
        weight_sums = ("sum_w", "sum_ww", "sum_wwuu")
        named |= {name: both[..., 3 + i].copy() for i, name in enumerate(weight_sums)}
    else:
        named |= unit_weight_sums(**named)
    return BinTable(problem, bins, **named, level=np.where(level < 0, np.nan, level))


def levels_of(sums: FloatArray, weighted: bool) -> tuple[FloatArray, bool]:
    """Return the one prediction of each bin as far as sums tell, and whether some do not.

    The sums have shape (2 bins, terms), as for `table_of`. A level is -1 without rows, and NaN
    where predictions certainly differ: their spread is beyond the rounding of sums.
    """
    count, first, second = sums.reshape(-1, 2, sums.shape[1]).sum(axis=1).T[:3]
    weight = sums[:, 3].reshape(-1, 2).sum(axis=1) if weighted else count
    with np.errstate(over="ignore", invalid="ignore"):
        differ = weight * second - first * first > SUMS_ROUND_BY * (first * first)
    level = np.where(differ, np.nan, -1.0)
    if not weighted:
        alone = (count == 1) | ((count > 0) & (first == 0))
        level[alone] = first[alone]
    return level, bool(np.any((count > 0) & (level == -1)))


def checked_columns(block: Rows, rows: Rows) -> Iterator[tuple[FloatArray, AnyArray]]:
    """Yield (predictions, whether they came true) of 16 groups at a time, groups by rows."""
    codes = block.problem.codes(block.labels)
    if codes.min() < 0:
        rows.explain_labels()
    if block.problem.kind != "marginal":
        p, predicted = _single(block.probs, rows)
        happened = codes if block.problem.kind == "binary" else codes == predicted
        yield p[None, :], happened[None, :]
        return
    for first in range(0, block.problem.n_classes, BLOCK_GROUPS):
        p = np.ascontiguousarray(block.probs[:, first : first + BLOCK_GROUPS].T, np.float64)
        _check(p, rows)
        yield p, codes == np.arange(first, first + len(p))[:, None]


def _single(probs: AnyArray, rows: Rows) -> tuple[FloatArray, IntArray | int]:
    """Return the one prediction of each row and the class it speaks of; checked."""
    if rows.are_logits:
        top = probs.argmax(axis=1)
        return _top_softmax(probs, top, rows), top
    _check(probs, rows)
    if rows.problem.kind == "binary":
        return probs.astype(np.float64, copy=False), 1
    top = probs.argmax(axis=1)
    return probs[np.arange(top.size), top].astype(np.float64), top


def _top_softmax(logits: AnyArray, top: IntArray, rows: Rows) -> FloatArray:
    best = logits[np.arange(top.size), top].astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: FloatArray = 1.0 / np.exp(logits - best[:, None]).sum(axis=1)
    if np.isnan(found).any():
        rows.explain_probabilities()
    return found


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
    """Running sums of some groups; cell 2 b + e holds the rows of bin b whose event is e."""

    def __init__(self, bins: tuple[Bins, ...], n_bins: int, weighted: bool) -> None:
        self.bins = bins
        self.shared = lookup(bins) if all(each is bins[0] for each in bins) else None
        self.n_bins = n_bins
        self.sums = np.zeros((6 if weighted else 3, 2 * len(bins) * n_bins))
        self.lost = np.zeros_like(self.sums)
        self.level = np.full(len(bins) * n_bins, -1.0)

    def add(self, p: FloatArray, happened: AnyArray, weights: FloatArray | None) -> None:
        """Add a block of rows, each array groups by rows."""
        cell = self._cells(p)
        cell += happened
        for part, start in enumerate(range(PART_ROWS, p.shape[1], PART_ROWS), 1):
            cell[:, start : start + PART_ROWS] += part * self.sums.shape[1]
        terms: list[AnyArray | None] = [None, p, p * p]
        if weights is not None:
            w = np.broadcast_to(weights, p.shape)
            wp, residual = w * p, w * (happened - p)
            terms = [w > 0, wp, wp * p, w, w * w, residual * residual]
        sums = np.stack([self._sum(cell, term) for term in terms], axis=1)
        for part_sums in sums:
            self._add_compensated(part_sums)
        used = slice(None) if weights is None else weights > 0
        self._note_levels(cell[:, used].ravel(), p[:, used].ravel(), sums[:, 0].sum(axis=0))

    def _cells(self, p: FloatArray) -> IntArray:
        """Return the cell of every prediction whose event does not happen."""
        if self.shared is not None:
            cell = self.shared.twice_index(self.bins[0], p)
        else:
            cell = 2 * np.stack([bins.index(row) for bins, row in zip(self.bins, p, strict=True)])
        if len(self.bins) > 1:
            cell += 2 * self.n_bins * np.arange(len(self.bins))[:, None]
        return cell

    def _sum(self, cell: IntArray, term: AnyArray | None) -> AnyArray:
        """Return the sums of a term in the cells of each part of the rows."""
        n_cells = self.sums.shape[1]
        parts = -(-cell.shape[1] // PART_ROWS)
        flat = None if term is None else term.ravel()
        return np.bincount(cell.ravel(), flat, parts * n_cells).reshape(parts, n_cells)

    def _add_compensated(self, term: FloatArray) -> None:
        term = term - self.lost
        total = self.sums + term
        self.lost = (total - self.sums) - term
        self.sums = total

    def _note_levels(self, cell: IntArray, p: FloatArray, count: FloatArray) -> None:
        """Keep the one prediction of a bin, -1 before the first, NaN after a second."""
        used = count[::2] + count[1::2] > 0
        for some in (slice(0, 512), slice(512, None)):  # the first rows nearly always suffice
            if not np.any(used & ~np.isnan(self.level)):
                return
            where, value = cell[some] % self.sums.shape[1] // 2, p[some]
            fresh = self.level[where] < 0
            self.level[where[fresh]] = value[fresh]
            self.level[where[value != self.level[where]]] = np.nan
