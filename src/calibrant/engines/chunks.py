"""Bins for rows that come in chunks and can be read again: a few passes in bounded memory.

Each pass counts cells of a grid, with the least and the greatest prediction in each; see
`calibrant.engines.refine`. The grid here is that of the leading bits of a float64, which is in the
order of the values and as fine beside 0 as beside 1: predictions of many classes crowd near 0.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, Literal

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, auto_n_bins
from calibrant.engines.numpy import predictions_of
from calibrant.engines.refine import Ask, Cells, Values, quantile_search
from calibrant.problem import Rows

ALL_BITS = 62
"""Those of a float64 in [0, 1]: neither the sign nor the first of the exponent is ever set."""

FIELDS = ("number", "mass", "rows", "low", "high")
LISTED_ROWS = 1 << 18
CELL_BYTES = 8 * len(FIELDS)
MEMORY = 1 << 25
UNMERGED = 1 << 18


class BinSearch:
    """Chooses the bins of every group, pass after pass.

    While `asks` is not empty, make a `sketch`, add all rows to it, and give it to `answer`. The
    bins are those that the rule makes of all rows at once.

    Parameters
    ----------
    rule : BinRule or "auto"
        `EqualMass` and "auto" need a few numbers a bin; any other rule is shown every distinct
        prediction, which must fit in memory.
    n_groups : int

    Examples
    --------
    >>> from calibrant.problem import read_rows
    >>> chunks = [read_rows([0, 1], [0.2, 0.9]), read_rows([1, 1], [0.4, 0.6])]
    >>> search = BinSearch(EqualMass(2), n_groups=1)
    >>> while search.asks:
    ...     sketch = search.sketch()
    ...     for rows in chunks:
    ...         sketch.add(rows)
    ...     search.answer(sketch)
    >>> search.bins()[0].edges
    array([0. , 0.5, 1. ])
    """

    def __init__(self, rule: BinRule | Literal["auto"], n_groups: int) -> None:
        self.rule, self.n_rows = rule, 0
        self._values: list[Values | None] = [None] * n_groups
        self._searches = [self._search(n_groups) for _ in range(n_groups)]
        self._asks: list[Ask | None] = [next(search) for search in self._searches]

    @property
    def asks(self) -> bool:
        """Whether another pass is needed."""
        return any(ask is not None for ask in self._asks)

    def sketch(self) -> Sketch:
        """Return an empty sketch for the next pass."""
        return Sketch(self._asks)

    def answer(self, sketch: Sketch) -> None:
        """Take what a pass has found."""
        self.n_rows = sketch.n_rows
        for group, search in enumerate(self._searches):
            ask = self._asks[group]
            if ask is None:
                continue
            try:
                self._asks[group] = search.send(sketch.answer(group))
            except StopIteration as found:
                self._asks[group], self._values[group] = None, found.value

    def bins(self) -> tuple[Bins, ...]:
        """Return the bins of each group."""
        rule = EqualMass(auto_n_bins(self.n_rows)) if self.rule == "auto" else self.rule
        return tuple(rule.choose(*values) for values in self._values if values is not None)

    def _search(self, n_groups: int) -> Generator[Ask, Any, Values]:
        few = LISTED_ROWS / n_groups
        if self.rule == "auto":
            bits, n_bins = (14 if n_groups <= 100 else 12), 500
            return quantile_search(
                lambda: auto_n_bins(self.n_rows), few, bits, _step(n_groups * n_bins), ALL_BITS
            )
        if type(self.rule) is EqualMass:
            n = self.rule.n_bins
            return quantile_search(n, few, None, _step(n_groups * n), ALL_BITS)
        return _all_values()


def _step(n_open: int) -> int:
    """Return by how many bits a grid may be refined in so many cells."""
    return int(np.clip(np.log2(MEMORY / CELL_BYTES / n_open), 4, 12))


def _all_values() -> Generator[Ask, Any, Values]:
    values: Values = yield Ask(None)
    return values


class Sketch:
    """What one pass asks of the rows, group by group, and what it has found so far."""

    def __init__(self, asks: list[Ask | None]) -> None:
        self.n_rows = 0
        self._asks = asks
        self._cells = [_Pile(ask) for ask in asks]

    def add(self, rows: Rows) -> None:
        """Check the predictions of these rows and count them."""
        self.n_rows += len(rows)
        for group, ask in enumerate(self._asks):
            if ask is not None:
                self._cells[group].add(predictions_of(rows, group), rows.weights)

    def n_cells(self) -> int:
        """Return how many cells, or distinct predictions, are held."""
        return max(pile.merged().number.size for pile in self._cells)

    def answer(self, group: int) -> Cells | Values:
        """Return what was asked of a group."""
        cells, ask = self._cells[group].merged(), self._asks[group]
        return (cells.low, cells.mass) if ask is None or ask.bits is None else cells

    def to_arrays(self) -> dict[str, AnyArray]:
        """Return the state as arrays, to be saved."""
        arrays: dict[str, AnyArray] = {"n_rows": np.array([self.n_rows])}
        for group, pile in enumerate(self._cells):
            cells = pile.merged()
            arrays |= {f"{group}.{name}": getattr(cells, name) for name in FIELDS}
        return arrays

    def restore(self, arrays: Mapping[str, AnyArray]) -> None:
        """Take up the state that `to_arrays` gave."""
        self.n_rows = int(arrays["n_rows"][0])
        for group, pile in enumerate(self._cells):
            pile.restore(Cells(*(arrays[f"{group}.{name}"] for name in FIELDS)))


class _Pile:
    """The cells of one group; those of new rows are put on top and merged now and then."""

    def __init__(self, ask: Ask | None) -> None:
        self._ask = ask or Ask(None)
        self._bits = ALL_BITS if self._ask.bits is None else min(self._ask.bits, ALL_BITS)
        self._parts = [_cells_of(np.empty(0), np.empty(0), self._bits)]
        self._waiting = 0

    def restore(self, cells: Cells) -> None:
        self._parts, self._waiting = [cells], 0

    def add(self, values: FloatArray, weights: FloatArray | None) -> None:
        mass = np.ones(values.size) if weights is None else weights
        values, mass = self._wanted(values + 0.0, mass)  # -0.0 becomes 0.0
        order = np.argsort(values)
        cells = _cells_of(values[order], mass[order], self._bits)
        self._parts.append(cells)
        self._waiting += cells.number.size
        if self._waiting > max(UNMERGED, self._parts[0].number.size):
            self.merged()

    def _wanted(self, values: FloatArray, mass: FloatArray) -> tuple[FloatArray, FloatArray]:
        kept = mass > 0
        if self._ask.within is not None:
            bits, numbers = self._ask.within
            kept &= np.isin(_cell(values, bits), numbers)
        return values[kept], mass[kept]

    def merged(self) -> Cells:
        if len(self._parts) > 1:
            self._parts, self._waiting = [_merged(self._parts)], 0
        return self._parts[0]


def _cell(values: FloatArray, bits: int) -> IntArray:
    """Return the leading bits of each value."""
    return np.asarray(values.view(np.int64) >> (ALL_BITS - min(bits, ALL_BITS)))


def _cells_of(values: FloatArray, mass: FloatArray, bits: int) -> Cells:
    """Return the cells of sorted values."""
    number = _cell(values, bits)
    first = _starts(number)
    last = np.append(first[1:], number.size) - 1 if first.size else first
    rows = (last - first + 1).astype(np.float64)
    return Cells(number[first], _sums(mass, first), rows, values[first], values[last])  # type: ignore[arg-type]


def _merged(parts: list[Cells]) -> Cells:
    number, mass, rows, low, high = (
        np.concatenate([getattr(part, name) for part in parts]) for name in FIELDS
    )
    order = np.argsort(number, kind="stable")
    first = _starts(number[order])
    low = np.minimum.reduceat(low[order], first) if first.size else low
    high = np.maximum.reduceat(high[order], first) if first.size else high
    mass, rows = _sums(mass[order], first), _sums(rows[order], first)
    return Cells(number[order][first], mass, rows, low, high)


def _starts(number: AnyArray) -> IntArray:
    """Return where each run of equal numbers starts."""
    return np.flatnonzero(np.concatenate(([True] * (number.size > 0), number[1:] != number[:-1])))


def _sums(values: FloatArray, first: IntArray) -> FloatArray:
    return np.asarray(np.add.reduceat(values, first) if first.size else values)
