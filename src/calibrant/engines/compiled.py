"""The NumPy engine's numbers near memory speed: compiled passes, on all cores.

Rows are cut into segments whose size does not depend on the number of threads, and the sums of
segments are added in order with compensation: the result is the same on any number of cores.

Uniform-mass edges need no sort of all values: a rule that cuts at quantiles needs only the values
next to its cuts and the mass below them. One pass counts the cells of a grid; a second lists the
values of the cells that hold a quantile and of their neighbours, and only these are sorted. The
rule makes the same edges from them as from all values, to the last bit. A C loop does that for a
column at a time; of one long column several threads count parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import numpy as np

from calibrant import _kernels
from calibrant._compiled import native
from calibrant._influences import Influence, InfluenceSums
from calibrant._threads import cores, run
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, NearQuantiles
from calibrant.columns import Columns
from calibrant.engines import GroupSums
from calibrant.engines.cells import SUMS_ROUND_BY, Lookup, distinct, lookup, merged_levels
from calibrant.engines.numpy import NumpyEngine
from calibrant.engines.search import Values
from calibrant.exceptions import InvalidInputError
from calibrant.groups import Groups, IntegerGroups
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
"""Classes are counted in runs of this many: shorter pieces of rows, and cells that leave the cache,
both took over twice as long with 8,192 classes. Affects speed only."""
LANES, WEIGHTED_LANES = 4, 8
"""Numbers that the loops keep for a cell: 3 sums, or 6 with weights, and padding."""
EVENTS_TRANSPOSED = 16
"""Columns of events that are made contiguous together: they share lines of memory. Affects speed
only."""
MOST_CELLS = 1 << 28
"""Of all groups of rows: more take gigabytes for every thread, and NumPy counts them."""
BAD_PROBABILITY, BAD_LABEL = 1, 2

SORTED_ROWS = 1 << 12
"""Fewer values are sorted before a grid is laid over them. Affects speed only."""
ALONE_ROWS = 1 << 19
"""Of fewer values one thread finds the quantiles before several would have. Affects speed only."""
COLUMNS_VALUES = 1 << 20
"""Of neighbouring columns that are turned together: they share lines of memory, 8 MB at a time."""
LEAST_BITS, MOST_BITS = 14, 18
"""Of the number of cells of a grid: fewer cost no less, and more leave the processor's cache."""
LISTED_VALUES = 1 << 13
"""A grid is so fine that about this many evenly spread values are listed: sorting them costs about
as much as looking through its cells."""
LISTED_SHARES = 1 / 16, 1 / 4
"""Where a grid puts more of the values next to quantiles the finest one is tried; where that does,
because of ties, one thread finds them in a list. All of these affect speed only."""
SEGMENT_ROWS = 1 << 18
"""Rows whose largest prediction one thread looks for at a time. Affects speed only."""
THREAD_ROWS = 1 << 17
"""Fewer rows of a search do not repay starting a thread."""


class CompiledEngine:
    """Counts arrays in memory, on CALIBRANT_NUM_THREADS cores, or all."""

    def choose(self, rows: Columns, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        if not rows.problem.is_marginal:
            return (_choose_single(_row_predictions(rows), rule, rows),)
        width = max(1, min(16, COLUMNS_VALUES // len(rows)))
        parts = _slices(rows.problem.n_groups, width)
        chosen = run([partial(_choose_columns, rows, rule, part) for part in parts])
        return tuple(bins for part in chosen for bins in part)

    def count(self, rows: Columns, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        return BinTable(rows.problem, bins, **_arrays_by_name(_count(rows, bins, _Codes())[:, 0]))

    def count_by(self, rows: Columns, bins: tuple[Bins, ...], groups: Groups) -> GroupSums:
        """Check and sum the rows of each group.

        Integers are taken as codes as they stand, within limits that a few of them tell, and only
        where some row lies beyond are all read first.
        """
        if isinstance(groups, IntegerGroups) and (numbers := groups.likely):
            with suppress(_OtherGroupsError):
                codes = _Codes(groups.column, len(numbers), numbers.start)
                return [(number,) for number in numbers], _arrays_by_name(_count(rows, bins, codes))
        codes = _Codes(groups.codes, len(groups.labels))
        if 2 * codes.n * len(bins) * max(map(len, bins)) > MOST_CELLS:
            return NumpyEngine().count_by(rows, bins, groups)
        return groups.labels, _arrays_by_name(_count(rows, bins, codes))

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

        def sums_of(part: slice) -> InfluenceSums:
            probs, labels, sums = native(rows.predictions[part]), _labels(rows, part), np.zeros(6)
            weights = None if rows.weights is None else rows.weights[part]
            state = _kernels.sum_influences(
                probs, labels, weights, tables, slope, offset, means, sums
            )
            _refuse(rows, state)
            return InfluenceSums(*sums.tolist())

        parts = _segments(rows, 2 * slope.size // len(bins))
        return sum(run([partial(sums_of, part) for part in parts]), InfluenceSums())


def _arrays_by_name(arrays: FloatArray) -> dict[str, FloatArray]:
    """Return the arrays of a table by name, read-only."""
    arrays.setflags(write=False)
    names = ARRAYS if len(arrays) == len(ARRAYS) else UNWEIGHTED
    return dict(zip(names, arrays, strict=True))


class _Codes(NamedTuple):
    """The group of each row: one of n numbers from the least on. Without them, all are in one."""

    values: IntArray | None = None
    n: int = 1
    least: int = 0


def _count(rows: Columns, bins: tuple[Bins, ...], codes: _Codes) -> FloatArray:
    """Return the arrays of a table, without those of weights where there are none.

    They have the shape (arrays, codes, groups, bins).
    """
    if rows.problem.has_event_columns:
        return _count_events(rows, bins, codes)
    tables = lookup(bins)
    if len(bins) <= RUN_COLUMNS:
        return _count_run(rows, slice(0, len(bins)), tables, codes)
    runs = _slices(len(bins), RUN_COLUMNS)
    counted = [_count_run(rows, part, tables.columns(part), codes) for part in runs]
    return np.concatenate(counted, axis=2)


def _count_events(rows: Columns, bins: tuple[Bins, ...], codes: _Codes) -> FloatArray:
    """Count columns of events one by one, each as a binary problem; return arrays as `_count`."""
    n_arrays = len(UNWEIGHTED if rows.weights is None else ARRAYS)
    arrays = np.zeros((n_arrays, codes.n, len(bins), max(map(len, bins))))
    arrays[-1] = np.nan
    if rows.problem.kind == "quantile" and codes.values is None and rows.weights is None:
        # a column has one prediction: nothing but events is left to add up
        events, tau = rows.labels.sum(axis=0, dtype=np.float64), rows.predictions[0]
        others, square = len(rows) - events, tau * tau
        sum_pp, sum_py = others * square + events * square, events * tau
        squares = unit_squares(events, sum_pp, sum_py)
        sums = (np.full(len(bins), len(rows)), events, others * tau + sum_py, sum_pp, sum_py)
        place = [int(x.index(level)) for x, level in zip(bins, tau, strict=True)]
        arrays[:, 0, np.arange(len(bins)), place] = (*sums, squares, tau)
        return arrays
    for part in _slices(len(bins), EVENTS_TRANSPOSED):
        events, probs = (
            np.ascontiguousarray(table[:, part].T) for table in (rows.labels, rows.predictions)
        )
        for k, (happened, p) in enumerate(zip(events, probs, strict=True), part.start):
            alone = Columns(Problem("binary"), happened, p, rows.weights)
            try:
                group_sums = _count(alone, bins[k : k + 1], codes)
            except InvalidInputError:
                rows.check()  # which names the column, too
                raise
            arrays[:, :, k, : len(bins[k])] = group_sums[:, :, 0]
    return arrays


def _segments(rows: Columns, n_cells: int) -> list[slice]:
    """Cut rows into shares that do not depend on the number of threads.

    `n_cells` is the number of cells of a column.
    """
    n, width = len(rows), 1 if rows.predictions.ndim == 1 else rows.predictions.shape[1]
    share = min(-(-n // SEGMENTS), LARGE_SEGMENT)
    step = max(SMALL_SEGMENT // width, ROWS_OF_A_CELL * n_cells, share)
    # as many segments, of one length: threads end together
    return list(_slices(n, -(-n // -(-n // step))))


def _count_run(rows: Columns, columns: slice, tables: Lookup, codes: _Codes) -> FloatArray:
    """Count all rows of a run of columns, or the one prediction of each row, as `_count` does."""
    n_columns, n_bins = tables.shift.size, tables.n_bins
    parts, weighted = _segments(rows, 2 * codes.n * n_bins), rows.weights is not None
    read = partial(_read, rows, columns, tables, codes)
    if len(parts) == 1:
        sums = read(parts[0])
    else:
        terms = run([partial(read, part) for part in parts])
        sums = next(terms)
        lost = np.zeros_like(sums)
        for term in terms:
            _kernels.add_compensated(sums, lost, term)
    arrays = np.empty((len(ARRAYS if weighted else UNWEIGHTED), len(sums) // 2))
    if _kernels.table_of(sums, weighted, SUMS_ROUND_BY, arrays):
        # where sums do not determine the one prediction of a bin, rows are read again
        level = arrays[-1]
        for noted in run([partial(read, part, level) for part in parts]):
            level = merged_levels(level, noted)
        arrays[-1] = np.where(level < 0, np.nan, level)
    return arrays.reshape(-1, codes.n, n_columns, n_bins)


def _read(
    rows: Columns,
    columns: slice,
    tables: Lookup,
    codes: _Codes,
    segment: slice,
    level: FloatArray | None = None,
) -> FloatArray:
    """Check the values of a segment and return their sums; or levels, where they were unclear."""
    problem, by_class = rows.problem, rows.problem.kind == "marginal"
    weights = None if rows.weights is None else rows.weights[segment]
    count = _kernels.count_classes if by_class else _kernels.count_column
    n_cells = 2 * codes.n * tables.shift.size * tables.n_bins
    sums = np.zeros((n_cells, LANES if weights is None else WEIGHTED_LANES))
    noted = None if level is None else level.copy()
    status = count(
        native(rows.predictions[segment, columns] if by_class else rows.predictions[segment]),
        _labels(rows, segment),
        weights,
        None if codes.values is None else codes.values[segment],
        codes.least % (1 << 64),  # the loop takes 64 bits without a sign
        codes.n,
        problem.n_classes,
        columns.start,
        rows.are_logits,
        tables.arguments,
        sums,
        noted,
    )
    _refuse(rows, status)
    return sums if noted is None else noted


def _labels(rows: Columns, segment: slice) -> AnyArray:
    """Return labels whose value is the class index, where they are one."""
    labels, problem = rows.labels[segment], rows.problem
    if labels.dtype.kind not in "biuf" or problem.classes or problem.pos_label is not None:
        return problem.codes(labels)
    if labels.dtype.kind == "b":
        return labels.view(np.uint8)
    exotic = labels.dtype.itemsize in (2, 16) and labels.dtype.kind == "f"
    return labels.astype(np.float64) if exotic or not labels.dtype.isnative else labels


def _choose_columns(rows: Columns, rule: BinRule, part: slice) -> Sequence[Bins]:
    """Choose the bins of a few neighbouring columns, which share lines of memory."""
    table = native(rows.predictions[:, part])
    columns = np.empty(table.shape[::-1], table.dtype)
    _refuse(rows, _kernels.transpose(table, columns))
    if type(rule) is not EqualMass or rows.weights is not None:
        return [rule.choose(*distinct(c.astype(np.float64), rows.weights)) for c in columns]
    return _bins_of_lines(columns, rule, rows)


def _row_predictions(rows: Columns) -> AnyArray:
    """Return the one prediction of each row; those of one column are not yet checked."""
    if rows.problem.kind == "binary":
        return native(rows.predictions)
    single = rows.predictions.dtype.kind == "f" and rows.predictions.dtype.itemsize <= 4
    out = np.empty(len(rows), np.float32 if single and not rows.are_logits else np.float64)

    def read(part: slice) -> int:
        return _kernels.top_values(native(rows.predictions[part]), rows.are_logits, out[part])

    for status in run([partial(read, part) for part in _slices(len(rows), SEGMENT_ROWS)]):
        _refuse(rows, status)
    return out


def _choose_single(values: AnyArray, rule: BinRule, rows: Columns) -> Bins:
    """Let the rule choose from all distinct values, or from those that decide where it cuts."""
    if type(rule) is not EqualMass or rows.weights is not None or values.size >= 1 << 32:
        rows.check_probabilities(values)
        return rule.choose(*distinct(values.astype(np.float64), rows.weights))
    if values.size >= ALONE_ROWS:
        spread = int(math.log2(3 * rule.n_bins * values.size / LISTED_VALUES))
        coarse = min(max(spread, LEAST_BITS), MOST_BITS)
        for bits, share in zip((coarse, MOST_BITS), LISTED_SHARES, strict=True):
            if (neighbours := _by_grid(values, rule.n_bins, rows, bits, share)) is not None:
                return rule.choose(*neighbours)
    return _bins_of_lines(np.ascontiguousarray(values)[None], rule, rows)[0]


def _bins_of_lines(lines: AnyArray, rule: EqualMass, rows: Columns) -> tuple[Bins, ...]:
    """Return the bins of each line of values, in whatever order they are."""
    if lines.shape[1] < SORTED_ROWS:
        lines = np.sort(lines, axis=1)
    near = np.full((len(lines), 5, rule.n_bins - 1), np.nan)
    _refuse(rows, _kernels.near_quantiles(lines, near))
    return rule.choose_near(NearQuantiles(*near.transpose(1, 0, 2)), lines.shape[1])


def _by_grid(values: AnyArray, n_bins: int, rows: Columns, bits: int, most: float) -> Values | None:
    """Return values and masses from which `EqualMass(n_bins)` makes the edges of all values.

    None if a grid of `bits` puts more than the share `most` of the values next to quantiles.
    """
    size = min(max(-(-values.size // cores()), THREAD_ROWS), 1 << 31)  # counts have 32 bits
    parts = [values[part] for part in _slices(values.size, size)]
    counts = np.zeros((len(parts), (1 << bits) + 1), np.uint32)
    jobs = [partial(_kernels.count_cells, *pair) for pair in zip(parts, counts, strict=True)]
    for status in run(jobs):
        _refuse(rows, status)
    total = counts.sum(axis=0, dtype=np.intp)
    marked = _near_quantiles(total, n_bins)
    sizes = counts[:, marked].sum(axis=1)
    if sizes.sum() > most * values.size:
        return None
    ends = np.cumsum(sizes)
    listed = np.full(ends[-1], np.nan)  # NaN, if another thread changes the values meanwhile
    pairs = zip(parts, np.split(listed, ends[:-1]), strict=True)
    for _ in run([partial(_kernels.pick_cells, segment, marked, to) for segment, to in pairs]):
        pass
    both = zip(distinct(listed, None), _masses_between(total, marked), strict=True)
    near, mass = (np.concatenate(pair) for pair in both)
    order = np.argsort(near)
    return near[order], mass[order]


def _masses_between(counts: IntArray, marked: BoolArray) -> Values:
    """Return a value and the mass of the cells before, between and after the marked ones."""
    places = np.flatnonzero(marked)
    up_to = np.concatenate([[0], np.cumsum(counts)])
    first, end = np.append(0, places + 1), np.append(places, counts.size)
    mass = (up_to[end] - up_to[first]).astype(np.float64)
    used = np.flatnonzero(mass)
    return (first[used] + 0.5) / (counts.size - 1), mass[used]


def _near_quantiles(counts: IntArray, n_bins: int) -> BoolArray:
    """Mark the cells that hold a quantile, and the next on either side that hold anything."""
    used = np.flatnonzero(counts)
    above = np.cumsum(counts[used]).astype(np.float64)
    targets = above[-1] * np.arange(1, n_bins) / n_bins
    holding = np.searchsorted(above, targets, side="left")
    near = np.clip(holding[:, None] + [-1, 0, 1], 0, used.size - 1)
    marked = np.zeros(counts.size, np.bool_)
    marked[used[near]] = True
    return marked


class _OtherGroupsError(ValueError):
    """A row is in none of the groups that are counted."""


def _refuse(rows: Columns, status: int) -> None:
    """Raise the exception that belongs to the status of a compiled loop, unless it is fine."""
    if status == BAD_LABEL:
        rows.explain_labels()
    if status == BAD_PROBABILITY:
        rows.explain_predictions()
    if status:
        raise _OtherGroupsError("The codes of groups were changed while they were read.")


def _slices(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into slices of this size."""
    return (slice(i, i + size) for i in range(0, n, size))
