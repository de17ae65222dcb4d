"""The NumPy engine's numbers near memory speed: one compiled pass, on all cores.

Rows are cut into segments whose size does not depend on the number of threads, and the sums of
segments are added in order with compensation: the result is the same on any number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np

from calibrant import _kernels
from calibrant._influences import Influence, InfluenceSums
from calibrant._threads import run
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.engines.cells import add_compensated, levels_of, merged_levels, table_of
from calibrant.engines.lookup import Lookup, lookup
from calibrant.engines.quantiles import choose_bins, native, refuse
from calibrant.table import BinTable

SEGMENTS = 32
SMALL_SEGMENT, LARGE_SEGMENT = 1 << 16, 1 << 20
SEGMENT_COLUMNS = 1024
"""Rows are cut into 32 segments, enough for the cores of a machine to end at about the same time,
of 2^16 to 2^20 rows, long enough that starting one costs nothing. Affects speed only; sums do not
depend on the number of threads because none of these does."""

LANES, WEIGHTED_LANES = 4, 8
"""Numbers that the loops keep for a cell: 3 sums, or 6 with weights, and padding."""

Piece = tuple[slice, slice, Lookup]
"""A segment of the rows of a run of columns, and the tables of those columns."""


class CompiledEngine:
    """Counts arrays in memory, on CALIBRANT_NUM_THREADS cores, or all."""

    def choose(self, rows: Columns, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        return choose_bins(rows, rule)

    def count(self, rows: Columns, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        plan = _Plan(rows, lookup(bins))
        parts = run([partial(plan.count, piece) for piece in plan.pieces()])
        runs = range(0, len(bins), SEGMENT_COLUMNS)
        sums = np.concatenate([_total(islice(parts, plan.n_segments)) for _ in runs])
        level = plan.levels(sums)
        shape = (len(bins), plan.tables.n_bins)
        return table_of(
            rows.problem,
            bins,
            sums.reshape(*shape, 2, -1),
            level.reshape(shape),
            rows.weights is not None,
        )

    def count_by(
        self, rows: Columns, bins: tuple[Bins, ...], codes: IntArray, n_codes: int
    ) -> dict[str, FloatArray]:
        """Check and sum the rows of each code."""
        from calibrant.engines.numpy import NumpyEngine

        return NumpyEngine().count_by(rows, bins, codes, n_codes)

    def influence_sums(
        self, rows: Columns, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows of a marginal table once more; see `calibrant._influences`."""
        plan = _Plan(rows, lookup(bins))
        step = plan.segment_rows
        segments = [slice(i, i + step) for i in range(0, len(rows), step)]
        parts = run([partial(plan.influences, segment, influence) for segment in segments])
        return sum(parts, InfluenceSums())


@dataclass(frozen=True)
class _Plan:
    """How the rows are cut into pieces and what is needed to count one."""

    rows: Columns
    tables: Lookup

    @property
    def segment_rows(self) -> int:
        """Rows of a segment: a share of all that does not depend on the number of threads.

        It has many more values than its table has cells.
        """
        share = -(-len(self.rows) // SEGMENTS)
        smallest = max(SMALL_SEGMENT // self.rows.problem.n_groups, 256 * self.tables.n_bins)
        return max(smallest, min(share, LARGE_SEGMENT))

    @property
    def n_segments(self) -> int:
        return -(-len(self.rows) // self.segment_rows)

    def pieces(self) -> list[Piece]:
        """Return (rows, columns, tables) of every piece; all the rows of some columns first."""
        step = self.segment_rows
        segments = [slice(i, i + step) for i in range(0, len(self.rows), step)]
        starts = range(0, self.rows.problem.n_groups, SEGMENT_COLUMNS)
        columns = [slice(k, k + SEGMENT_COLUMNS) for k in starts]
        tables = [self.tables.columns(part) for part in columns]
        return [
            (segment, part, own)
            for part, own in zip(columns, tables, strict=True)
            for segment in segments
        ]

    def count(self, piece: Piece) -> FloatArray:
        """Return the sums of one piece."""
        return self._read(piece, None)

    def influences(self, segment: slice, influence: Influence) -> InfluenceSums:
        """Return the sums of the influences of some rows, all columns of them."""
        rows, sums = self.rows, np.zeros(6)
        status = _kernels.sum_influences(
            native(rows.predictions[segment]),
            _labels(rows, segment),
            None if rows.weights is None else rows.weights[segment],
            self.tables.arguments,
            np.ascontiguousarray(influence.slope).ravel(),
            np.ascontiguousarray(influence.offset).ravel(),
            (influence.mean_a, influence.mean_m, influence.mean_weight),
            sums,
        )
        refuse(rows, status)
        return InfluenceSums(*sums.tolist())

    def levels(self, sums: FloatArray) -> FloatArray:
        """Return the one prediction of each bin; where sums do not tell it, read rows again."""
        level, unclear = levels_of(sums, self.rows.weights is not None)
        if unclear:
            pieces, before = self.pieces(), level.copy()
            levels = run([partial(self._noted, piece, before) for piece in pieces])
            for (_, columns, _), noted in zip(pieces, levels, strict=True):
                own = self._own(level, columns)
                own[:] = merged_levels(own, noted)
        return level

    def _own(self, level: FloatArray, columns: slice) -> FloatArray:
        return level[columns.start * self.tables.n_bins : columns.stop * self.tables.n_bins]

    def _noted(self, piece: Piece, level: FloatArray) -> FloatArray:
        """Return the levels of one piece, where they are not yet clear."""
        noted = self._own(level, piece[1]).copy()
        self._read(piece, noted)
        return noted

    def _read(self, piece: Piece, level: FloatArray | None) -> FloatArray:
        """Check the values of a piece and return their sums; or note levels."""
        (segment, columns, tables), rows = piece, self.rows
        weights = None if rows.weights is None else rows.weights[segment]
        by_class = rows.problem.kind == "marginal"
        count = _kernels.count_classes if by_class else _kernels.count_column
        n_cells = 2 * (tables.scales.size if by_class else 1) * tables.n_bins
        sums = np.zeros((n_cells, LANES if weights is None else WEIGHTED_LANES))
        status = count(
            native(rows.predictions[segment, columns] if by_class else rows.predictions[segment]),
            _labels(rows, segment),
            weights,
            None,
            1,
            rows.problem.n_classes,
            columns.start,
            rows.are_logits,
            tables.arguments,
            sums,
            level,
        )
        refuse(rows, status)
        return sums


def _labels(rows: Columns, segment: slice) -> AnyArray:
    """Return labels whose value is the class index, where they are one."""
    labels, problem = rows.labels[segment], rows.problem
    if labels.dtype.kind not in "biuf" or problem.classes or problem.pos_label is not None:
        return problem.codes(labels)
    if labels.dtype.kind == "b":
        return labels.view(np.uint8)
    exotic = labels.dtype.itemsize in (2, 16) and labels.dtype.kind == "f"
    return labels.astype(np.float64) if exotic or not labels.dtype.isnative else labels


def _total(terms: Iterator[FloatArray]) -> FloatArray:
    """Add the sums of segments in order, with compensation."""
    total = next(terms)
    lost = np.zeros_like(total)
    for term in terms:
        total, lost = add_compensated(total, lost, term)
    return total
