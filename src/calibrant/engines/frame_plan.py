"""Lazy plans of narwhals expressions: check, find the cell of a grid, group, sum.

Everything is elementary (arithmetic, comparisons, when-then, sum, minimum, maximum, count), so
every lazy engine can run it. A pass groups by the cell of a prediction and by what happened, so
that events need no sums of their own. Rows with a bad value get a negative key and are counted
by the same group-by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import nw
from calibrant._types import FloatArray
from calibrant.engines.frame_columns import (
    FrameColumns,
    all_of,
    balanced,
    exact_number,
    stepped,
)
from calibrant.engines.search import Query
from calibrant.table import WEIGHT_SUMS

LINEAR_BITS = 18
"""Grids of at most 2^18 cells are even; larger ones are finer towards 0 and 1."""
STEEP_AT_ZERO = range(16, 144, 16)
STEEP_AT_ONE = range(16, 64, 16)
STEEP_SHARE = 2.0**-11
"""Orders of magnitude, as powers of two, at which fine grids are steep, and the share of the cells
that they take there: down to 2^-128 beside 0, and to 2^-48 beside 1, where floats end at 2^-53. A
poor choice costs a pass more, never an edge."""


@dataclass(frozen=True)
class Grid:
    """Cells of [0, 1]: ``(i - 1, i] / scale``, or beyond `LINEAR_BITS` finer near 0 and 1."""

    scale: float

    @classmethod
    def of_bits(cls, bits: int) -> Grid:
        """Return the grid of 2^bits cells; multiplying by a power of two is exact."""
        return cls(float(1 << bits))

    @property
    def is_even(self) -> bool:
        """Whether all cells have the same width."""
        return self.scale <= 1 << LINEAR_BITS

    @property
    def largest(self) -> float:
        """The number of the last cell."""
        steep = STEEP_SHARE * (len(STEEP_AT_ZERO) + len(STEEP_AT_ONE))
        return self.scale * (1.0 if self.is_even else 1.0 + steep)

    def number(self, p: Any) -> Any:
        """Return the cell of p, which rises with p."""
        return ((p if self.is_even else _stretched(p)) * self.scale).ceil()


@dataclass(frozen=True)
class Pass:
    """The cells by which one group of predictions is grouped in a pass.

    Attributes
    ----------
    grid : Grid or None
        None means by value.
    within : list of (Grid, numbers)
        Only rows that lie in one of these cells of each grid.
    edges : ndarray
        Cells are parted once more at these values.
    """

    grid: Grid | None
    within: tuple[tuple[Grid, FloatArray], ...] = ()
    edges: FloatArray = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, query: Query) -> Pass:
        """Return the pass that a query asks for."""
        within = tuple((Grid.of_bits(bits), numbers) for bits, numbers in query.within)
        return cls(None if query.bits is None else Grid.of_bits(query.bits), within)

    @property
    def largest_key(self) -> float:
        """The largest number of a cell, parts of cells and what happened included."""
        cells = 1.0 if self.grid is None else self.grid.largest + 1
        return 2 * cells * (self.edges.size + 1)


def _stretched(p: Any) -> Any:
    """Return a rising function of p that is steep near 0 and 1, on a scale of orders of magnitude.

    p itself, plus small parts of ``p / (p + c)`` for many c, less those of ``q / (q + c)`` for
    q = 1 - p. Written so that every operation rises or falls with p also when it is rounded, and
    none divides by zero.
    """

    def share(x: Any, c: float) -> Any:
        return nw.lit(STEEP_SHARE) / (nw.lit(c) / (x + 1e-300) + 1.0)

    q = nw.lit(1.0) - p
    rising = [share(p, 2.0**-k) for k in STEEP_AT_ZERO]
    falling = [share(q, 2.0**-k) for k in STEEP_AT_ONE]
    return p + balanced(rising) - balanced(falling) + STEEP_SHARE * len(falling)


INFLUENCE_SUMS = tuple(field.name for field in fields(InfluenceSums))
FOLDED = 1 << 31
"""Integers less far from 0 tell groups apart within the key; this one stands for a missing value.
Polars groups by one number in three quarters of the time that it takes by two columns."""
EVENT_SUMS = ["sum_y", "sum_py"]
"""What is summed where the key tells the group but not what happened. With 1,000 groups, Polars
adds two sums sooner than it finds its way in a table of keys that is twice as large."""
LARGEST_FOLDED = 1 << 20
"""Numbers of cells beside which those of groups are exact as floats."""


def plan_sums(
    columns: FrameColumns, passes: dict[int, Pass], by: bool = False, quick: bool = False
) -> Any:
    """Return one lazy plan that makes a pass over each of these groups.

    With `by`, rows are also grouped by the columns of groups. A `quick` plan does not say
    what is wrong with bad rows, only that there are some, by a key of -1.
    """
    folded = all(pass_.grid is not None for pass_ in passes.values())
    keys = ["key"] if folded else ["key", "side"]
    largest = max(pass_.largest_key for pass_ in passes.values())
    size = key_size(columns, passes) if by and quick else None
    sizes: Any = (7, nw.Int8), (15, nw.Int16), (31, nw.Int32), (63, nw.Int64)
    # engines group by small integers faster
    dtype = next(t for bits, t in sizes if largest < 2.0**bits) if folded else nw.Float64
    parts = [
        _keyed(columns, group, x, folded, dtype, by, quick, size) for group, x in passes.items()
    ]
    keys += columns.group_names if by and size is None else []
    if len(parts) > 1:
        keys.append("group")
        parts = [p.with_columns(group=nw.lit(g)) for g, p in zip(passes, parts, strict=True)]
    whole = parts[0] if len(parts) == 1 else nw.concat(parts, how="vertical")
    p = nw.col("p")
    extent = [nw.len().alias("count"), p.min().alias("low"), p.max().alias("high")]
    sums = ["sum_pp"] if columns.weights is None else ["sum_p", "sum_pp", *WEIGHT_SUMS]
    sums += [] if size is None else EVENT_SUMS
    plain = [p.sum().alias("sum_p")]
    if columns.weights is not None:
        plain = [nw.col("sum_w").max().alias("heaviest")]
    return whole.group_by(*keys).agg(*extent, *plain, *(nw.col(name).sum() for name in sums))


def key_size(columns: FrameColumns, passes: dict[int, Pass]) -> int | None:
    """Return how many keys a group has where its number is a part of the key, else None.

    It is a power of two, so that integers too large wrap around and leave the key itself intact.
    """
    largest = max(pass_.largest_key for pass_ in passes.values())
    folded = all(pass_.grid is not None for pass_ in passes.values())
    if not (folded and largest < LARGEST_FOLDED and columns.has_one_small_group):
        return None
    return 1 << int(largest + 1).bit_length()


def plan_influences(
    columns: FrameColumns, edges: Sequence[FloatArray], influence: Influence
) -> Any:
    """Return one lazy plan that sums what each row adds to a marginal error."""
    number, first, second = exact_number(columns.frame), [], []
    frame, probs = columns.probabilities()
    for k, p in enumerate(probs):
        inner = edges[k][1:-1]
        slope = stepped(p, inner, influence.slope[k], number)
        first.append(slope * (columns.happened(k)[0] - p))
        second.append(stepped(p, inner, influence.offset[k], number))
    w = nw.lit(1.0)
    if columns.weights is not None:
        w = columns.weight() / number(influence.mean_weight)
    rows = frame.select(a=balanced(first), m=balanced(second), w=w)
    a, m, w = nw.col("a"), nw.col("m"), nw.col("w")
    parts = {"wa": w * (a - number(influence.mean_a)), "wm": w * (m - number(influence.mean_m))}
    rows = rows.select("w", **parts)
    wa, wm = nw.col("wa"), nw.col("wm")
    square = (wa - wm) * (wa - wm)
    terms = (w, wa, wa * wa, wa * wm, wm * wm, square * square)
    summed = rows.select(**dict(zip(INFLUENCE_SUMS, terms, strict=True)))
    return summed.select(*(nw.col(name).sum() for name in INFLUENCE_SUMS))


def _keyed(
    columns: FrameColumns,
    group: int,
    pass_: Pass,
    folded: bool,
    dtype: Any,
    by: bool,
    quick: bool,
    size: int | None,
) -> Any:
    """Return p, the key and what is summed: one projection, which engines run fastest.

    A folded key tells what happened too, or, with a `size`, the group; only cells, which are
    whole numbers, have room. A key with a group is larger by 1: a remainder of 0 means bad rows.
    """
    rows, p, y, faults = columns.read(group)
    for grid, numbers in pass_.within:
        rows = rows.filter(grid.number(p).is_in(numbers.tolist()))
    place = p if pass_.grid is None else pass_.grid.number(p)
    if pass_.edges.size:
        number = exact_number(columns.frame)
        above = [nw.when(p > number(e)).then(1.0).otherwise(0.0) for e in pass_.edges]
        place = place * float(pass_.edges.size + 1) + balanced(above)
    key = place * 2.0 + y if folded and size is None else place
    if size is not None:
        label = nw.col(columns.by[0].name).cast(nw.Int64)
        near = label.is_null() | label.is_between(1 - FOLDED, FOLDED - 1)
        key = _or_bad([*faults, (near, -1)], key + 1.0, 0.0).cast(nw.Int64)
        key = label.fill_null(FOLDED) * size + key
        events = y.cast(nw.Float64)
        return rows.select(p=p, key=key, sum_pp=p * p, sum_y=events, sum_py=p * events)
    key = (_or_bad(faults, key, -1.0) if quick else _unless(faults, key)).cast(dtype)
    terms = {"p": p, "key": key}
    if not folded:
        terms["side"] = y.cast(nw.Float64)
    if by:
        labels = map(columns.group, columns.by)
        terms |= dict(zip(columns.group_names, labels, strict=True))
    if columns.weights is None:
        return rows.select(**terms, sum_pp=p * p)
    w = columns.weight()
    square = w * w
    terms |= {"sum_p": w * p, "sum_pp": w * p * p, "sum_w": w, "sum_ww": square}
    return rows.select(**terms, sum_wwuu=square * (y - p) * (y - p))


def _or_bad(faults: list[tuple[Any, int]], key: Any, bad: float) -> Any:
    """Return the key where all checks hold, else one number for any fault."""
    return nw.when(all_of(fine for fine, _ in faults)).then(key).otherwise(nw.lit(bad))


def _unless(faults: list[tuple[Any, int]], key: Any) -> Any:
    """Return the key where all checks hold, else the code of the last that does not.

    The one test of all checks comes first, so that engines which evaluate branches only where
    they are taken pay for the search of the fault in bad rows alone.
    """
    fault = nw.lit(float(faults[0][1]))
    for fine, code in faults[1:]:
        fault = nw.when(fine).then(fault).otherwise(nw.lit(float(code)))
    return nw.when(all_of(fine for fine, _ in faults)).then(key).otherwise(fault)
