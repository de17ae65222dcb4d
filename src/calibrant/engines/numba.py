"""The NumPy engine's numbers near memory speed: one compiled pass, on all cores.

Rows are cut into segments whose size does not depend on the number of threads, and the sums of
segments are added in order with compensation: the result is the same on any number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numba
import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.engines import kernels
from calibrant.engines.kernels_quantiles import count_cells, pick_cells, top_values
from calibrant.engines.numpy import distinct
from calibrant.engines.refine import (
    Cells,
    Values,
    Within,
    values_near_quantiles,
    values_of_sorted,
)
from calibrant.problem import Rows
from calibrant.table import BinTable, unit_weight_sums

SEGMENT_ROWS = 1 << 18
SEGMENT_COLUMNS = 128
SORTED_COLUMNS = 16
SORTED_ROWS = 1 << 18

T = TypeVar("T")


class NumbaEngine:
    """Counts arrays in memory, with compiled loops on NUMBA_NUM_THREADS cores, or all."""

    def choose_bins(self, rows: Rows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        if rows.problem.kind != "marginal":
            return (rule.choose(*_seen_by(rule, _single(rows), rows)),)
        starts = range(0, rows.problem.n_classes, SORTED_COLUMNS)
        chosen = _run([partial(_choose_columns, rows, rule, k) for k in starts])
        return tuple(bins for some in chosen for bins in some)

    def tabulate(self, rows: Rows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        plan = _Plan(rows, max(map(len, bins)), *lookup(bins))
        pieces = plan.pieces()
        states = _run([partial(plan.count, *piece) for piece in pieces])
        _refuse(rows, [status for status, _, _ in states])
        starts = range(0, len(states), plan.n_segments)
        runs = [states[i : i + plan.n_segments] for i in starts]
        sums = np.concatenate([_add_up([state[1] for state in run]) for run in runs])
        level = np.concatenate([_common([state[2] for state in run]) for run in runs])
        shape = (len(bins), plan.n_bins)
        named = _named(sums.reshape(*shape, 2, -1))
        return BinTable(
            rows.problem, bins, **named, level=np.where(level < 0, np.nan, level).reshape(shape)
        )


def lookup(bins: Sequence[Bins]) -> tuple[FloatArray, AnyArray, FloatArray]:
    """Return inner edges, how many of them lie below each cell of a grid, and the grid's scale.

    The grid covers the edges with cells of the width of a power of two, so a value's cell is
    certain; the few edges inside that cell are compared with the value itself. One row serves
    all groups that share bins.
    """
    shared = all(each is bins[0] or each == bins[0] for each in bins)
    rows = bins[:1] if shared else bins
    n_bins = max(map(len, rows))
    bits = int(np.clip(np.ceil(np.log2(32 * n_bins)), 8, 16 if shared else 12))
    edges = np.full((len(rows), n_bins), np.inf)
    for row, each in zip(edges, rows, strict=True):
        row[: len(each) - 1] = each.edges[1:-1]
    largest = np.array([each.edges[-2] if len(each) > 1 else 1.0 for each in rows])
    scale = 2.0 ** (bits - np.clip(np.ceil(np.log2(largest)), -500, 0))
    places = np.arange((1 << bits) + 2) / scale[:, None]
    found = [np.searchsorted(row, place) for row, place in zip(edges, places, strict=True)]
    return edges, np.stack(found).astype(np.int32), scale


@dataclass(frozen=True)
class _Plan:
    """How the rows are cut into pieces and what is needed to count one."""

    rows: Rows
    n_bins: int
    edges: FloatArray
    grid: AnyArray
    scale: FloatArray

    @property
    def segment_rows(self) -> int:
        """Rows of a segment: many more than its table has cells."""
        return max(SEGMENT_ROWS, 64 * self.n_bins * self.rows.problem.n_groups)

    @property
    def n_segments(self) -> int:
        return -(-len(self.rows) // self.segment_rows)

    def pieces(self) -> list[tuple[slice, slice]]:
        """Return (rows, columns) of every piece; all the rows of some columns, then the next."""
        step = self.segment_rows
        segments = [slice(i, i + step) for i in range(0, len(self.rows), step)]
        starts = range(0, self.rows.problem.n_groups, SEGMENT_COLUMNS)
        columns = [slice(k, k + SEGMENT_COLUMNS) for k in starts]
        return [(segment, some) for some in columns for segment in segments]

    def count(self, segment: slice, columns: slice) -> tuple[int, FloatArray, FloatArray]:
        """Return (status, sums per cell, level per bin) of one piece."""
        rows = self.rows
        weights = None if rows.weights is None else rows.weights[segment]
        n_groups = len(range(rows.problem.n_groups)[columns])
        sums = np.zeros((3, 2 * n_groups * self.n_bins, 3 if weights is None else 6))
        level = np.full(n_groups * self.n_bins, -1.0)
        kind, n_classes = rows.problem.kind, rows.problem.n_classes
        own = slice(None) if len(self.grid) == 1 else columns
        table = rows.probs[:, None] if kind == "binary" else rows.probs
        status = kernels.count(
            _native(table[segment, columns] if kind == "marginal" else table[segment]),
            _labels(rows, segment),
            weights,
            (1, 2) if kind == "binary" else (columns.start, n_classes),
            kind == "top-label",
            self.edges[own],
            self.grid[own],
            self.scale[own],
            bool(np.diff(self.grid[own]).max() <= 1),
            sums,
            level,
        )
        return status, sums[1] - sums[2], level


def _native(values: AnyArray) -> AnyArray:
    """Return values in a type that the compiled loops read, each exactly as it was."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)


def _labels(rows: Rows, segment: slice) -> AnyArray:
    """Return labels whose value is the class index, where they are one."""
    labels, problem = rows.labels[segment], rows.problem
    if labels.dtype.kind not in "biuf" or problem.classes or problem.pos_label is not None:
        return problem.codes(labels)
    if labels.dtype.kind == "b":
        return labels.view(np.uint8)
    exotic = labels.dtype.itemsize in (2, 16) and labels.dtype.kind == "f"
    return labels.astype(np.float64) if exotic or not labels.dtype.isnative else labels


def _threads() -> int:
    return int(vars(numba.config)["NUMBA_NUM_THREADS"])


def _run(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Return what the jobs return, in their order, from as many threads as there are cores."""
    threads = min(_threads(), len(jobs))
    if threads == 1:
        return [job() for job in jobs]
    with ThreadPoolExecutor(threads) as pool:
        return [future.result() for future in [pool.submit(job) for job in jobs]]


def _refuse(rows: Rows, statuses: Sequence[int]) -> None:
    if kernels.BAD_LABEL in statuses:
        rows.explain_labels()
    if kernels.BAD_PROBABILITY in statuses:
        rows.explain_probabilities()


def _add_up(terms: Sequence[FloatArray]) -> FloatArray:
    """Add arrays in order, with compensation."""
    total, lost = np.zeros_like(terms[0]), np.zeros_like(terms[0])
    for term in terms:
        part = term - lost
        new = total + part
        total, lost = new, (new - total) - part
    return total


def _common(levels: Sequence[FloatArray]) -> FloatArray:
    """Return the level that all agree on, -1 where none has one, NaN where they differ."""
    known = levels[0]
    for level in levels[1:]:
        same = np.where(known == level, known, np.nan)
        known = np.where(known == -1, level, np.where(level == -1, known, same))
    return known


def _named(sums: FloatArray) -> dict[str, FloatArray]:
    """Name the sums, of shape (groups, bins, event, term)."""
    both, event = sums.sum(axis=2), sums[:, :, 1]
    named = {
        "count": both[..., 0].copy(),
        "sum_y": event[..., 0 if sums.shape[-1] == 3 else 3].copy(),
        "sum_p": both[..., 1].copy(),
        "sum_pp": both[..., 2].copy(),
        "sum_py": event[..., 1].copy(),
    }
    if sums.shape[-1] == 3:
        return named | unit_weight_sums(**named)
    weight_sums = ("sum_w", "sum_ww", "sum_wwuu")
    return named | {name: both[..., 3 + i].copy() for i, name in enumerate(weight_sums)}


def _single(rows: Rows) -> AnyArray:
    """Return the one prediction of each row; those of one column are not yet checked."""
    if rows.problem.kind == "binary":
        return _native(rows.probs)
    wide = np.dtype(np.float32 if rows.probs.dtype.itemsize <= 4 else np.float64)
    out = np.empty(len(rows), wide if rows.probs.dtype.kind == "f" else np.float64)
    jobs = [
        partial(_top_values, rows.probs[segment], out[segment]) for segment in _segments(len(rows))
    ]
    _refuse(rows, _run(jobs))
    return out


def _top_values(probs: AnyArray, out: AnyArray) -> int:
    return top_values(_native(probs), out)


def _segments(n: int, size: int = SEGMENT_ROWS) -> Iterator[slice]:
    return (slice(i, i + size) for i in range(0, n, size))


def _choose_columns(rows: Rows, rule: BinRule, first: int) -> list[Bins]:
    """Choose the bins of a few neighbouring columns, which share lines of memory."""
    columns = np.array(rows.probs[:, first : first + SORTED_COLUMNS].T, order="C")
    return [rule.choose(*_seen_by(rule, _native(column), rows, True)) for column in columns]


def _seen_by(rule: BinRule, values: AnyArray, rows: Rows, sort: bool = False) -> Values:
    """Return distinct values and masses: all, or those that decide where the rule cuts."""
    if type(rule) is EqualMass and rows.weights is None:
        if not sort and values.size >= SORTED_ROWS:
            return _values_near_quantiles(values, rule.n_bins, rows)
        ordered = np.sort(values)
        if not (ordered[0] >= 0 and ordered[-1] <= 1):
            rows.explain_probabilities()
        return values_of_sorted(ordered, rule.n_bins)
    if not (values.min() >= 0 and values.max() <= 1):
        rows.explain_probabilities()
    return distinct(values.astype(np.float64), rows.weights)


def _values_near_quantiles(values: AnyArray, n_bins: int, rows: Rows) -> Values:
    def count(bits: int, within: Within | None) -> Cells:
        share = -(-values.size // _threads())
        jobs = [partial(_cells, values[part], bits) for part in _segments(values.size, share)]
        statuses, parts = zip(*_run(jobs), strict=True)
        _refuse(rows, statuses)
        number, low, high = np.moveaxis(np.stack(parts), 2, 0)
        total = number.sum(axis=0)
        some = np.flatnonzero(total)
        low, high = low.min(axis=0)[some], high.max(axis=0)[some]
        return Cells(some.astype(np.float64), total[some], total[some], low, high)

    def listed(within: Within) -> Values:
        wanted = np.zeros((1 << within[0]) + 1, np.bool_)
        wanted[within[1].astype(np.intp)] = True
        jobs = [partial(_picked, values[part], wanted) for part in _segments(values.size)]
        return distinct(np.concatenate(_run(jobs)), None)

    def sort() -> Values:
        return values_of_sorted(np.sort(values), n_bins)

    return values_near_quantiles(n_bins, count, listed, values.size / 4, sort)


def _cells(values: AnyArray, bits: int) -> tuple[int, FloatArray]:
    cells = np.tile([0.0, np.inf, -np.inf], ((1 << bits) + 1, 1))
    return count_cells(values, cells), cells


def _picked(values: AnyArray, wanted: BoolArray) -> FloatArray:
    out = np.empty(values.size)
    return out[: pick_cells(values, wanted, out)].copy()
