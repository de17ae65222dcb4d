"""Bins chosen by the compiled engine: uniform-mass edges without a sort of all values.

A rule that cuts at quantiles needs to know the values next to its cuts and the mass below them,
and nothing else. One pass counts the cells of a fine grid; a second lists the values of the cells
that hold a marked quantile and of their neighbours. All cells between those are as good as one
value, so the rule makes the same edges as from all values, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np

from calibrant import _kernels
from calibrant._compiled import native
from calibrant._threads import cores, run
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.columns import Columns
from calibrant.engines.cells import distinct
from calibrant.engines.search import Values

BAD_PROBABILITY, BAD_LABEL = 1, 2

SORTED_ROWS = 1 << 15
"""Fewer values are sorted before two passes would be over."""
RADIX_VALUES, MOST_RADIX_VALUES = 1 << 11, 1 << 24
"""Fewer values are sorted by comparison as fast, in the nearest cache; more leave all caches, and
sorting by their bits takes twice their memory. Affects speed only."""
SORTED_VALUES = 1 << 20
"""Of neighbouring columns that are sorted together: they share lines of memory, 8 MB at a time."""
LEAST_BITS, MOST_BITS = 14, 18
"""Of the number of cells of a grid: fewer cost no less, and more leave the processor's cache."""
LISTED_VALUES = 1 << 13
"""A grid is as fine as lists so many of evenly spread values: sorting them costs about as much as
looking through its cells."""
LISTED_SHARES = 1 / 16, 1 / 4
"""Where a grid puts more of the values next to quantiles the finest one is tried; where that does,
because of ties, sorting all is quicker than picking them. All of these affect speed only."""
SEGMENT_ROWS = 1 << 18
"""Rows whose largest prediction one thread looks for at a time. Affects speed only."""
THREAD_ROWS = 1 << 17
"""Fewer rows of a search do not repay starting a thread."""


def choose_bins(rows: Columns, rule: BinRule) -> tuple[Bins, ...]:
    """Let the rule choose bins for each group from its distinct predictions."""
    if not rows.problem.is_marginal:
        return (rule.choose(*_seen_by(rule, _single(rows), rows)),)
    width = max(1, min(16, SORTED_VALUES // len(rows)))
    starts = range(0, rows.problem.n_groups, width)
    chosen = run([partial(_choose_columns, rows, rule, slice(k, k + width)) for k in starts])
    return tuple(bins for part in chosen for bins in part)


def _choose_columns(rows: Columns, rule: BinRule, part: slice) -> list[Bins]:
    """Choose the bins of a few neighbouring columns, which share lines of memory."""
    table = native(rows.predictions[:, part])
    columns = np.empty(table.shape[::-1], table.dtype)
    refuse(rows, _kernels.transpose(table, columns))
    if type(rule) is not EqualMass or rows.weights is not None:
        return [rule.choose(*distinct(c.astype(np.float64), rows.weights)) for c in columns]
    _sort(columns, rows)
    return [rule.choose(*_of_sorted(column, rule.n_bins)) for column in columns]


def _single(rows: Columns) -> AnyArray:
    """Return the one prediction of each row; those of one column are not yet checked."""
    if rows.problem.kind == "binary":
        return native(rows.predictions)
    single = rows.predictions.dtype.kind == "f" and rows.predictions.dtype.itemsize <= 4
    out = np.empty(len(rows), np.float32 if single and not rows.are_logits else np.float64)
    parts = list(segments(len(rows)))
    for status in run(
        [partial(_top_values, rows.predictions[part], rows.are_logits, out[part]) for part in parts]
    ):
        refuse(rows, status)
    return out


def _top_values(probs: AnyArray, logits: bool, out: AnyArray) -> int:
    return _kernels.top_values(native(probs), logits, out)


def _seen_by(rule: BinRule, values: AnyArray, rows: Columns) -> Values:
    """Return distinct values and masses: all, or those that decide where the rule cuts."""
    if type(rule) is EqualMass and rows.weights is None:
        if values.size >= SORTED_ROWS:
            return _of_many(values, rule.n_bins, rows)
        return _of_sorted(_ordered(values, rows), rule.n_bins)
    if not (values.min() >= 0 and values.max() <= 1):
        rows.explain_predictions()
    return distinct(values.astype(np.float64), rows.weights)


def _ordered(values: AnyArray, rows: Columns) -> AnyArray:
    """Return predictions in order, or say which are none."""
    ordered = values.reshape(1, -1).copy()
    _sort(ordered, rows)
    return np.asarray(ordered[0])


def _sort(values: AnyArray, rows: Columns) -> None:
    """Sort each line of predictions in place, or say which are none."""
    if RADIX_VALUES <= values.shape[1] <= MOST_RADIX_VALUES:
        refuse(rows, _kernels.sort_rows(values))
        return
    values.sort(axis=1)
    if not (values[:, 0].min() >= 0 and values[:, -1].max() <= 1):  # NaN comes last
        rows.explain_predictions()


def _of_sorted(ordered: AnyArray, n_bins: int) -> Values:
    """Return values and masses from which `EqualMass(n_bins)` makes the edges of sorted values."""
    values, mass = np.empty((2, 3 * n_bins))
    n = _kernels.near_quantiles(ordered, n_bins, values, mass)
    return values[:n], mass[:n]


def _of_many(values: AnyArray, n_bins: int, rows: Columns) -> Values:
    """Return the same for values in any order, without sorting them all."""
    spread = int(math.log2(3 * n_bins * values.size / LISTED_VALUES))
    for bits, share in zip((spread, MOST_BITS), LISTED_SHARES, strict=True):
        found = _of_grid(values, n_bins, rows, min(max(bits, LEAST_BITS), MOST_BITS), share)
        if found is not None:
            return found
    return _of_sorted(_ordered(values, rows), n_bins)


def _of_grid(values: AnyArray, n_bins: int, rows: Columns, bits: int, most: float) -> Values | None:
    """Return the same from a grid; None if more than a share of the values is next to quantiles."""
    size = min(max(-(-values.size // cores()), THREAD_ROWS), 1 << 31)
    parts = [values[part] for part in segments(values.size, size)]
    counts = np.zeros((len(parts), (1 << bits) + 1), np.uint32)
    for status in run(
        [partial(_kernels.count_cells, *pair) for pair in zip(parts, counts, strict=True)]
    ):
        refuse(rows, status)
    total = counts.sum(axis=0, dtype=np.intp)
    marked = _near_quantiles(total, n_bins)
    sizes = counts[:, marked].sum(axis=1)
    if sizes.sum() > most * values.size:
        return None
    listed = distinct(_picked(parts, marked, sizes), None)
    pairs = zip(listed, _between(total, marked), strict=True)
    near, mass = (np.concatenate(pair) for pair in pairs)
    order = np.argsort(near)
    return near[order], mass[order]


def _between(counts: IntArray, marked: BoolArray) -> Values:
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


def _picked(parts: list[AnyArray], marked: BoolArray, sizes: IntArray) -> FloatArray:
    """Return the values in the marked cells, of which each part has so many."""
    ends = np.cumsum(sizes)
    out = np.full(ends[-1], np.nan)  # not found again if somebody changes the values meanwhile
    places = [out[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    pairs = zip(parts, places, strict=True)
    for _ in run([partial(_kernels.pick_cells, part, marked, to) for part, to in pairs]):
        pass
    return out


class OtherGroupsError(ValueError):
    """A row is in none of the groups that are counted."""


def refuse(rows: Columns, status: int) -> None:
    """Raise the exception that belongs to the status of a compiled loop, unless it is fine."""
    if status == BAD_LABEL:
        rows.explain_labels()
    if status == BAD_PROBABILITY:
        rows.explain_predictions()
    if status:
        raise OtherGroupsError("The codes of groups were changed while they were read.")


def segments(n: int, size: int = SEGMENT_ROWS) -> Iterator[slice]:
    """Cut n rows into slices of this size."""
    return (slice(i, i + size) for i in range(0, n, size))
