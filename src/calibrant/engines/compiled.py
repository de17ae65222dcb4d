"""The NumPy engine's numbers near memory speed: one compiled pass, on all cores.

Rows are cut into segments whose size does not depend on the number of threads, and the sums of
segments are added in order with compensation: the result is the same on any number of cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from calibrant import _kernels
from calibrant._compiled import native
from calibrant._influences import Influence, InfluenceSums
from calibrant._threads import run
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.engines.cells import (
    SUMS_ROUND_BY,
    merged_levels,
)
from calibrant.engines.lookup import Lookup, lookup
from calibrant.engines.numpy import NumpyEngine
from calibrant.engines.quantiles import OtherGroupsError, choose_bins, refuse
from calibrant.exceptions import InvalidInputError
from calibrant.groups import GroupLabel, Groups, IntegerGroups
from calibrant.problem import Problem
from calibrant.table import ARRAYS, UNWEIGHTED, BinTable, unit_squares

SEGMENTS = 32
SMALL_SEGMENT, LARGE_SEGMENT = 1 << 17, 1 << 20
ROWS_OF_A_CELL = 64
"""Rows are cut into 32 segments, enough for the cores of a machine to end at about the same time,
of at least 2^17 values, which one thread reads in 0.2 ms, before another would have been started;
of at most 2^20 rows; and of 64 rows for each cell, so that adding up segments costs little beside
reading them. Affects speed only; sums do not depend on the number of threads because none of these
does."""
RUN_COLUMNS = 1024
"""Classes whose cells are counted together: all the rows of these, then of the next."""
LANES, WEIGHTED_LANES = 4, 8
"""Numbers that the loops keep for a cell: 3 sums, or 6 with weights, and padding."""
EVENTS_TRANSPOSED = 16
"""Columns of events that are made contiguous together: they share lines of memory. Affects speed
only."""
MOST_CELLS = 1 << 28
"""Of all groups of rows: more take gigabytes for every thread, and NumPy counts them."""


class CompiledEngine:
    """Counts arrays in memory, on CALIBRANT_NUM_THREADS cores, or all."""

    def choose(self, rows: Columns, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        return choose_bins(rows, rule)

    def count(self, rows: Columns, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        arrays = _count(rows, bins)[:, 0]
        return BinTable(rows.problem, bins, **_named(arrays))

    def count_by(
        self, rows: Columns, bins: tuple[Bins, ...], groups: Groups
    ) -> tuple[Sequence[tuple[GroupLabel, ...]], dict[str, FloatArray]]:
        """Check and sum the rows of each group.

        Integers are taken as codes as they stand, within limits that a few of them tell, and only
        where some row lies beyond are all read first.
        """
        if isinstance(groups, IntegerGroups) and (numbers := groups.likely):
            with suppress(OtherGroupsError):
                codes = _Codes(groups.column, len(numbers), numbers.start)
                return [(number,) for number in numbers], _named(_count(rows, bins, codes))
        codes = _Codes(groups.codes, len(groups.labels))
        if 2 * codes.n * len(bins) * max(map(len, bins)) > MOST_CELLS:
            return NumpyEngine().count_by(rows, bins, groups)
        return groups.labels, _named(_count(rows, bins, codes))

    def influence_sums(
        self, rows: Columns, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows of a marginal table once more; see `calibrant._influences`."""
        if rows.problem.has_event_columns:  # the loop takes one label a row
            return NumpyEngine().influence_sums(rows, bins, influence)
        tables = lookup(bins).arguments
        slope = np.ascontiguousarray(influence.slope).ravel()
        offset = np.ascontiguousarray(influence.offset).ravel()
        means = (influence.mean_a, influence.mean_m, influence.mean_weight)

        def read(part: slice) -> InfluenceSums:
            probs, labels, sums = native(rows.predictions[part]), _labels(rows, part), np.zeros(6)
            weights = None if rows.weights is None else rows.weights[part]
            refuse(
                rows,
                _kernels.sum_influences(probs, labels, weights, tables, slope, offset, means, sums),
            )
            return InfluenceSums(*sums.tolist())

        parts = _segments(rows, 2 * slope.size // len(bins))
        return sum(run([partial(read, part) for part in parts]), InfluenceSums())


def _named(arrays: FloatArray) -> dict[str, FloatArray]:
    """Return the arrays of a table by name, none of which is written any more."""
    arrays.setflags(write=False)
    names = ARRAYS if len(arrays) == len(ARRAYS) else UNWEIGHTED
    return dict(zip(names, arrays, strict=True))


@dataclass(frozen=True, eq=False)
class _Codes:
    """The group of each row: one of n numbers from the least on."""

    values: IntArray
    n: int
    least: int = 0


def _count(rows: Columns, bins: tuple[Bins, ...], codes: _Codes | None = None) -> FloatArray:
    """Return the arrays of a table, without those of weights where there are none.

    They have the shape (arrays, codes, groups, bins).
    """
    if rows.problem.has_event_columns:
        return _count_events(rows, bins, codes)
    tables = lookup(bins)
    if len(bins) <= RUN_COLUMNS:
        return _Pass(rows, slice(0, len(bins)), tables, codes).count()
    runs = [slice(k, k + RUN_COLUMNS) for k in range(0, len(bins), RUN_COLUMNS)]
    passes = [_Pass(rows, part, tables.columns(part), codes) for part in runs]
    return np.concatenate([own.count() for own in passes], axis=2)


def _count_events(rows: Columns, bins: tuple[Bins, ...], codes: _Codes | None) -> FloatArray:
    """Count columns of events one by one, each as a binary problem; return arrays as `_count`."""
    n_arrays = len(UNWEIGHTED if rows.weights is None else ARRAYS)
    arrays = np.zeros((n_arrays, 1 if codes is None else codes.n, len(bins), max(map(len, bins))))
    arrays[-1] = np.nan
    if rows.problem.kind == "quantile" and codes is None and rows.weights is None:
        # a column has one prediction: nothing but events is left to add up
        events = rows.labels.sum(axis=0, dtype=np.float64)
        others = len(rows) - events
        for k, tau in enumerate(rows.predictions[0]):
            square = tau * tau
            sums = (
                len(rows),
                events[k],
                others[k] * tau + events[k] * tau,
                others[k] * square + events[k] * square,
                events[k] * tau,
            )
            arrays[:, 0, k, int(bins[k].index(tau))] = (
                *sums,
                unit_squares(sums[1], sums[3], sums[4]),
                tau,
            )
        return arrays
    for first in range(0, len(bins), EVENTS_TRANSPOSED):
        part = slice(first, first + EVENTS_TRANSPOSED)
        events, probs = (
            np.ascontiguousarray(table[:, part].T) for table in (rows.labels, rows.predictions)
        )
        for k, (happened, p) in enumerate(zip(events, probs, strict=True), first):
            alone = Columns(Problem("binary"), happened, p, rows.weights)
            try:
                own = _count(alone, bins[k : k + 1], codes)
            except InvalidInputError:
                rows.check()  # which names the column, too
                raise
            arrays[:, :, k, : len(bins[k])] = own[:, :, 0]
    return arrays


def _segments(rows: Columns, n_cells: int) -> list[slice]:
    """Cut rows into shares that do not depend on the number of threads.

    `n_cells` is the number of cells of a column.
    """
    n, width = len(rows), 1 if rows.predictions.ndim == 1 else rows.predictions.shape[1]
    share = min(-(-n // SEGMENTS), LARGE_SEGMENT)
    step = max(SMALL_SEGMENT // width, ROWS_OF_A_CELL * n_cells, share)
    if n <= step:
        return [slice(0, n)]
    step = -(-n // -(-n // step))  # as many segments, of one length: threads end together
    return [slice(i, i + step) for i in range(0, n, step)]


@dataclass(eq=False)
class _Pass:
    """A pass over all rows of a run of columns, or over the one prediction of each row.

    Rows may have codes of groups, whose cells are kept apart.
    """

    rows: Columns
    columns: slice
    tables: Lookup
    codes: _Codes | None

    @property
    def n_codes(self) -> int:
        """The number of groups of rows whose cells are kept apart."""
        return 1 if self.codes is None else self.codes.n

    def count(self) -> FloatArray:
        """Return the arrays of a table, as `_count` does."""
        n_columns, n_bins = self.tables.shift.size, self.tables.n_bins
        shape, weighted = (self.n_codes, n_columns, n_bins), self.rows.weights is not None
        segments = _segments(self.rows, 2 * self.n_codes * n_bins)
        if len(segments) == 1:
            sums = self._read(segments[0], None)
        else:
            sums = _total(run([partial(self._read, segment, None) for segment in segments]))
        arrays = np.empty((len(ARRAYS if weighted else UNWEIGHTED), len(sums) // 2))
        if _kernels.table_of(sums, weighted, SUMS_ROUND_BY, arrays):
            # where sums do not tell the one prediction of a bin, rows are read again
            level = arrays[-1]
            again = [partial(self._noted, segment, level) for segment in segments]
            for noted in run(again):
                level = merged_levels(level, noted)
            arrays[-1] = np.where(level < 0, np.nan, level)
        return arrays.reshape(-1, *shape)

    def _noted(self, segment: slice, level: FloatArray) -> FloatArray:
        """Return the levels of a segment, where they are not yet clear."""
        noted = level.copy()
        self._read(segment, noted)
        return noted

    def _read(self, segment: slice, level: FloatArray | None) -> FloatArray:
        """Check the values of a segment and return their sums; or note levels."""
        rows, tables, problem = self.rows, self.tables, self.rows.problem
        weights = None if rows.weights is None else rows.weights[segment]
        by_class = problem.kind == "marginal"
        count = _kernels.count_classes if by_class else _kernels.count_column
        n_cells = 2 * self.n_codes * tables.shift.size * tables.n_bins
        sums = np.zeros((n_cells, LANES if weights is None else WEIGHTED_LANES))
        status = count(
            native(
                rows.predictions[segment, self.columns] if by_class else rows.predictions[segment]
            ),
            _labels(rows, segment),
            weights,
            None if self.codes is None else self.codes.values[segment],
            0 if self.codes is None else self.codes.least % (1 << 64),
            self.n_codes,
            problem.n_classes,
            self.columns.start,
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
    lost: FloatArray | None = None
    for term in terms:
        lost = np.zeros_like(total) if lost is None else lost
        _kernels.add_compensated(total, lost, term)
    return total
