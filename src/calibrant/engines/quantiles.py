"""Bins chosen by the compiled engine: uniform-mass edges without a sort of all values.

A rule that cuts at quantiles needs to know the values next to its cuts and the mass below them,
and nothing else. One pass counts the cells of a grid; a second lists the values of the cells that
hold a quantile and of their neighbours, and only these are sorted. The rule makes the same edges
from them as from all values, to the last bit. A C loop does that for a column at a time; of one
long column several threads count parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from calibrant import _kernels
from calibrant._compiled import native
from calibrant._threads import cores, run
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, NearQuantiles
from calibrant.columns import Columns
from calibrant.engines.cells import distinct
from calibrant.engines.search import Values

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
"""A grid is as fine as lists so many of evenly spread values: sorting them costs about as much as
looking through its cells."""
LISTED_SHARES = 1 / 16, 1 / 4
"""Where a grid puts more of the values next to quantiles the finest one is tried; where that does,
because of ties, one thread finds them in a list. All of these affect speed only."""
SEGMENT_ROWS = 1 << 18
"""Rows whose largest prediction one thread looks for at a time. Affects speed only."""
THREAD_ROWS = 1 << 17
"""Fewer rows of a search do not repay starting a thread."""


def choose_bins(rows: Columns, rule: BinRule) -> tuple[Bins, ...]:
    """Let the rule choose bins for each group from its distinct predictions."""
    if not rows.problem.is_marginal:
        return (_choose_single(_single(rows), rule, rows),)
    width = max(1, min(16, COLUMNS_VALUES // len(rows)))
    starts = range(0, rows.problem.n_groups, width)
    chosen = run([partial(_choose_columns, rows, rule, slice(k, k + width)) for k in starts])
    return tuple(bins for part in chosen for bins in part)


def _choose_columns(rows: Columns, rule: BinRule, part: slice) -> Sequence[Bins]:
    """Choose the bins of a few neighbouring columns, which share lines of memory."""
    table = native(rows.predictions[:, part])
    columns = np.empty(table.shape[::-1], table.dtype)
    refuse(rows, _kernels.transpose(table, columns))
    if type(rule) is not EqualMass or rows.weights is not None:
        return [rule.choose(*distinct(c.astype(np.float64), rows.weights)) for c in columns]
    return _of_lines(columns, rule, rows)


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


def _choose_single(values: AnyArray, rule: BinRule, rows: Columns) -> Bins:
    """Let the rule choose from all distinct values, or from those that decide where it cuts."""
    if type(rule) is EqualMass and rows.weights is None and values.size < 1 << 32:
        found = _of_many(values, rule.n_bins, rows) if values.size >= ALONE_ROWS else None
        if found is not None:
            return rule.choose(*found)
        return _of_lines(np.ascontiguousarray(values)[None], rule, rows)[0]
    if not (values.min() >= 0 and values.max() <= 1):
        rows.explain_predictions()
    return rule.choose(*distinct(values.astype(np.float64), rows.weights))


def _of_lines(lines: AnyArray, rule: EqualMass, rows: Columns) -> tuple[Bins, ...]:
    """Return the bins of each line of values, in whatever order they are."""
    if lines.shape[1] < SORTED_ROWS:
        lines = np.sort(lines, axis=1)
    near = np.full((len(lines), 5, rule.n_bins - 1), np.nan)
    refuse(rows, _kernels.near_quantiles(lines, near))
    return rule.choose_near(NearQuantiles(*near.transpose(1, 0, 2)), lines.shape[1])


def _of_many(values: AnyArray, n_bins: int, rows: Columns) -> Values | None:
    """Return what `_of_grid` does for the coarsest grid that serves, if one does."""
    spread = int(math.log2(3 * n_bins * values.size / LISTED_VALUES))
    for bits, share in zip((spread, MOST_BITS), LISTED_SHARES, strict=True):
        found = _of_grid(values, n_bins, rows, min(max(bits, LEAST_BITS), MOST_BITS), share)
        if found is not None:
            return found
    return None


def _of_grid(values: AnyArray, n_bins: int, rows: Columns, bits: int, most: float) -> Values | None:
    """Return values and masses from which `EqualMass(n_bins)` makes the edges of all values.

    None if a grid of `bits` puts more than the share `most` of the values next to quantiles.
    """
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
