"""Bins chosen where the data live: one search, a few queries, exact edges.

A rule that cuts at quantiles needs only the values next to its cuts and the mass below them. So the
cells of a grid are counted with their mass, minimum and maximum. A cell that holds a quantile and
more than one distinct value is open; open cells are counted on a finer grid or, once few rows are
left in them, listed value by value. The rule then sees fewer values than there are, with masses
that add up to the same sums wherever it can cut, so it makes the same edges.

`BinSearch` asks for all groups at once. The owner of the rows answers: a lazy frame by one
group-by, chunks of rows by a `Sketch`. Values in memory are as quickly sorted, and skip all this.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from calibrant._bins_argument import auto_n_bins
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.columns import Columns

Values = tuple[FloatArray, FloatArray]
"""Sorted distinct values and the mass of each."""

Within = tuple[int, AnyArray]
"""Some cells of the grid of 2^bits: (bits, their numbers)."""

ALL_BITS = 62
"""Those of a float64 in [0, 1]: neither the sign nor the first of the exponent is ever set."""
AUTO_BITS, AUTO_BITS_OF_MANY, MANY_GROUPS, AUTO_BINS = 14, 12, 100, 500
"""Of the first grid for "auto", when the rows, and so the bins, are not yet counted: 16 cells a bin
for a billion rows, and less memory where there are many groups. Affects speed only, never edges."""
LISTED_ROWS = 1 << 18
"""When no more rows are left in open cells of all groups, they are listed. Affects speed only."""
SKETCH_BYTES = 1 << 25
"""Memory for the cells of one pass over chunks: it sets how much finer the next grid is. Affects
speed and memory only, never edges."""
UNMERGED_CELLS = 1 << 18
"""New cells are merged once they outnumber this and the merged ones, as a merge sorts all cells.
Affects speed and memory only."""


class GridCells(NamedTuple):
    """Number, mass, rows, minimum and maximum of the cells of one group that hold something."""

    number: AnyArray
    mass: FloatArray
    rows: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, values: FloatArray, mass: FloatArray, bits: int) -> GridCells:
        """Return the cells of sorted values in the grid of their leading bits."""
        number = cell_number(values, bits)
        first = _starts(number)
        last = np.append(first[1:], number.size) - 1 if first.size else first
        rows = (last - first + 1).astype(np.float64)
        return cls(number[first], _sums(mass, first), rows, values[first], values[last])

    @classmethod
    def merged(cls, parts: list[GridCells]) -> GridCells:
        """Add up the cells of the same number."""
        number, mass, rows, low, high = (
            np.concatenate(fields) for fields in zip(*parts, strict=True)
        )
        order = np.argsort(number, kind="stable")
        first = _starts(number[order])
        low = np.minimum.reduceat(low[order], first) if first.size else low
        high = np.maximum.reduceat(high[order], first) if first.size else high
        mass, rows = _sums(mass[order], first), _sums(rows[order], first)
        return cls(number[order][first], mass, rows, low, high)

    def take(self, index: AnyArray) -> GridCells:
        """Return the cells at these positions."""
        return GridCells(*(field[index] for field in self))

    def joined(self, other: GridCells) -> GridCells:
        """Return both, in the order of their values."""
        return GridCells(*map(np.concatenate, zip(self, other, strict=True))).ordered()

    def ordered(self) -> GridCells:
        """Return the cells in the order of their values."""
        return self.take(np.argsort(self.low))

    def values(self) -> Values:
        """Represent each cell by its minimum, with all its mass, and its maximum if that differs.

        This is exact for cells without a cut; for open ones it would lose the values between.
        """
        several = self.low < self.high
        shown_ends = np.column_stack([np.ones_like(several), several])
        mass = np.column_stack([self.mass, np.zeros_like(self.mass)])
        return np.column_stack([self.low, self.high])[shown_ends], mass[shown_ends]


@dataclass(frozen=True)
class Query:
    """A query for one group: count the cells of 2^bits, or list the values if bits is None.

    Only rows that lie in one of the given cells of every grid in `within` are asked for: of a grid
    whose cells are nested in those of a coarser one, the last suffices.
    """

    bits: int | None
    within: tuple[Within, ...] = ()


class BinSearch:
    """Chooses the bins of every group, query after query.

    While there are `queries`, one for each group that is not yet settled, find the cells that they
    ask for, all groups in one pass, and give them to `answer`. The bins are those that the rule
    makes of all rows at once.

    Parameters
    ----------
    rule : BinRule or "auto"
        `EqualMass` and "auto" need a few numbers a bin; any other rule is shown every distinct
        prediction, which must fit in memory.
    n_groups : int
    listed_rows : int
        How many rows may be listed in the last pass, all groups together.
    step : int, optional
        How many bits finer each grid is than the one before; by default what memory allows.
    most_passes : int
        The last one lists whatever is left.
    extra_bits : int
        Of the first grid: a larger answer, that often saves a pass.

    Examples
    --------
    >>> from calibrant.sources.arrays import read_arrays
    >>> chunks = [read_arrays([0, 1], [0.2, 0.9]), read_arrays([1, 1], [0.4, 0.6])]
    >>> search = BinSearch(EqualMass(2), n_groups=1)
    >>> while search.queries:
    ...     sketch = Sketch(search.queries)
    ...     for columns in chunks:
    ...         sketch.add(columns)
    ...     search.answer(sketch.n_rows, sketch.cells())
    >>> search.bins()[0].edges
    array([0. , 0.5, 1. ])
    """

    def __init__(
        self,
        rule: BinRule | Literal["auto"],
        n_groups: int,
        *,
        listed_rows: int = LISTED_ROWS,
        step: int | None = None,
        most_passes: int = ALL_BITS,
        extra_bits: int = 0,
    ) -> None:
        self.rule, self.n_rows = rule, 0
        self._values: dict[int, Values] = {}
        few, most_open = listed_rows / n_groups, AUTO_BINS
        n_bins: int | Callable[[], int] = self._auto_n_bins
        first = AUTO_BITS if n_groups <= MANY_GROUPS else AUTO_BITS_OF_MANY
        if isinstance(rule, EqualMass):
            n_bins = most_open = rule.n_bins
            first = int(np.clip(np.ceil(np.log2(32 * n_bins)), 10, 16))  # about 32 cells a bin
        if step is None:  # an open cell takes 5 numbers of 8 bytes
            open_cells = SKETCH_BYTES / 40 / (n_groups * most_open)
            step = int(np.clip(np.log2(open_cells), 4, 12))
        quantiles = isinstance(rule, str) or type(rule) is EqualMass
        self._searches = [
            _quantiles(n_bins, few, first + extra_bits, step, most_passes)
            if quantiles
            else _all_values()
            for _ in range(n_groups)
        ]
        self.queries = {group: next(search) for group, search in enumerate(self._searches)}

    def answer(self, n_rows: int, cells: Mapping[int, GridCells]) -> None:
        """Take the cells of every group with a query, and prepare the next queries."""
        self.n_rows = n_rows
        queries: dict[int, Query] = {}
        for group in self.queries:
            try:
                queries[group] = self._searches[group].send(cells[group])
            except StopIteration as end:
                self._values[group] = end.value
        self.queries = queries

    def bins(self) -> tuple[Bins, ...]:
        """Return the bins of each group."""
        rule = EqualMass(self._auto_n_bins()) if isinstance(self.rule, str) else self.rule
        return tuple(rule.choose(*self._values[group]) for group in range(len(self._searches)))

    def _auto_n_bins(self) -> int:
        return auto_n_bins(self.n_rows)


def _all_values() -> Generator[Query, GridCells, Values]:
    cells = yield Query(None)
    cells = cells.ordered()
    return cells.low, cells.mass


def _quantiles(
    n_bins: int | Callable[[], int], few: float, bits: int, step: int, most_passes: int
) -> Generator[Query, GridCells, Values]:
    """Ask pass after pass, and return values from which `EqualMass` makes the edges of all values.

    A callable `n_bins` is asked after the first pass, when the rows have been counted.
    """
    cells = (yield Query(bits)).ordered()
    n_bins = n_bins if isinstance(n_bins, int) else n_bins()
    within: tuple[Within, ...] = ()
    for done in range(1, most_passes):
        is_open = _open(cells, n_bins)
        if not is_open.any():
            return cells.values()
        within = (*within, (bits, cells.number[is_open]))
        if done == most_passes - 1 or cells.rows[is_open].sum() <= few:
            break
        bits += step
        finer = yield Query(bits, within)
        cells = cells.take(~is_open).joined(finer)
    listed = yield Query(None, within)
    settled = cells.take(~is_open).values()
    values, mass = (
        np.concatenate(pair) for pair in zip(settled, (listed.low, listed.mass), strict=True)
    )
    order = np.argsort(values)
    return values[order], mass[order]


def _open(cells: GridCells, n_bins: int) -> BoolArray:
    """Mark the cells that hold a quantile and more than one distinct value."""
    above = np.cumsum(cells.mass)
    targets = above[-1] * np.arange(1, n_bins) / n_bins
    holding = np.minimum(np.searchsorted(above, targets, side="left"), above.size - 1)
    marked = np.zeros(above.size, np.bool_)
    marked[holding] = True
    return marked & (cells.low < cells.high)


class Sketch:
    """The answer to queries from rows that come in chunks, in bounded memory.

    The grid is that of the leading bits of a float64, which is in the order of the values, nested,
    and as fine beside 0 as beside 1: predictions of many classes crowd near 0.
    """

    def __init__(self, queries: Mapping[int, Query]) -> None:
        self.n_rows = 0
        self._buffers = {group: _CellBuffer(query) for group, query in queries.items()}

    def add(self, columns: Columns) -> None:
        """Check the predictions of these rows and count them."""
        self.n_rows += len(columns)
        for group, buffer in self._buffers.items():
            buffer.add(columns.group(group), columns.weights)

    def cells(self) -> dict[int, GridCells]:
        """Return the cells of every group."""
        return {group: buffer.merged() for group, buffer in self._buffers.items()}

    def n_cells(self) -> int:
        """Return how many cells, or distinct predictions, a group has at most."""
        return max(cells.number.size for cells in self.cells().values())

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the state as arrays, to be saved."""
        arrays: dict[str, AnyArray] = {"n_rows": np.array([self.n_rows])}
        for group, cells in self.cells().items():
            arrays |= {f"{group}.{name}": array for name, array in cells._asdict().items()}
        return arrays

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        """Take up the state that `to_arrays` gave."""
        self.n_rows = int(arrays["n_rows"][0])
        for group, buffer in self._buffers.items():
            fields = (arrays[f"{group}.{name}"] for name in GridCells._fields)
            buffer.parts, buffer.waiting = [GridCells(*fields)], 0


class _CellBuffer:
    """The cells of one group; those of new rows are collected and merged in bulk."""

    def __init__(self, query: Query) -> None:
        self.bits = ALL_BITS if query.bits is None else min(query.bits, ALL_BITS)
        self.within = query.within[-1] if query.within else None
        self.parts = [GridCells.of(np.empty(0), np.empty(0), self.bits)]
        self.waiting = 0

    def add(self, values: FloatArray, weights: FloatArray | None) -> None:
        values = values + 0.0  # -0.0 becomes 0.0
        mass = np.ones(values.size) if weights is None else weights
        used = mass > 0
        if self.within is not None:
            bits, numbers = self.within
            used &= np.isin(cell_number(values, bits), numbers)
        values, mass = values[used], mass[used]
        order = np.argsort(values)
        cells = GridCells.of(values[order], mass[order], self.bits)
        self.parts.append(cells)
        self.waiting += cells.number.size
        if self.waiting > max(UNMERGED_CELLS, self.parts[0].number.size):
            self.merged()

    def merged(self) -> GridCells:
        if len(self.parts) > 1:
            self.parts, self.waiting = [GridCells.merged(self.parts)], 0
        return self.parts[0]


def cell_number(values: FloatArray, bits: int) -> IntArray:
    """Return the leading bits of each value."""
    return np.asarray(values.view(np.int64) >> (ALL_BITS - min(bits, ALL_BITS)))


def _starts(number: AnyArray) -> IntArray:
    """Return where each run of equal numbers starts."""
    return np.flatnonzero(np.concatenate(([True] * (number.size > 0), number[1:] != number[:-1])))


def _sums(values: FloatArray, first: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, first) if first.size else values)
