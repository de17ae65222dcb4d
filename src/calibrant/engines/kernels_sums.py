"""The compiled loops of the numba engine that add values up.

A cell is a (bin, event) pair, cell = 2 bin + event. Each has a line of lanes in `parts`: of 1, p
and p^2, or with weights of 1, w p, w p^2, w, w^2 and w^2 (y - p)^2. There are several copies of
the parts, taken in turn, so that equal predictions need not wait for each other. Parts are moved
to their total, with compensation (Kahan), after a few thousand rows at most: neither the number of
rows nor their order costs accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.compiled import compiled

LANES = 4
WEIGHTED_LANES = 8
FULL = 1024


@intrinsic
def add_to_lanes(context: Any, sums: Any, start: Any, x: Any) -> Any:
    """Add 1, x, x^2 and 0 to sums[start : start + 4] as one vector."""

    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, value = arguments
        double, lane = ir.DoubleType(), ir.IntType(32)
        vector = ir.VectorType(double, LANES)
        data = target.make_array(signature.args[0])(target, builder, array).data
        place = builder.bitcast(builder.gep(data, [first]), vector.as_pointer())
        terms = ir.Constant(vector, [1.0, 0.0, 0.0, 0.0])
        terms = builder.insert_element(terms, value, lane(1))
        terms = builder.insert_element(terms, builder.fmul(value, value), lane(2))
        old = builder.load(place)
        old.align = 8
        stored = builder.store(builder.fadd(old, terms), place)
        stored.align = 8
        return target.get_dummy_value()

    return types.void(sums, types.int64, types.float64), build


@compiled
def add(
    values: FloatArray, bins: IntArray, events: IntArray, parts: FloatArray, is_open: AnyArray
) -> Any:
    """Add 1, p and p^2 to the cell of each value; return whether one fell in an open bin."""
    turn, n_cells = parts.shape[0] - 1, parts.shape[1]
    flat = parts.ravel()
    seen = np.uint8(0)
    if turn == 0:
        for i in range(values.shape[0]):
            add_to_lanes(flat, (2 * bins[i] + events[i]) * LANES, values[i])  # type: ignore[call-arg]
            seen |= is_open[np.uint64(bins[i])]
        return seen != 0
    for i in range(values.shape[0]):
        cell = (i & turn) * n_cells + 2 * bins[i] + events[i]
        add_to_lanes(flat, cell * LANES, values[i])  # type: ignore[call-arg]
        seen |= is_open[np.uint64(bins[i])]
    return seen != 0


@compiled
def add_weighted(
    values: FloatArray,
    bins: IntArray,
    events: IntArray,
    weights: FloatArray,
    width: int,
    parts: FloatArray,
) -> None:
    """Add 1, w p, w p^2, w, w^2 and w^2 (y - p)^2; a row has `width` values."""
    for i in range(values.shape[0]):
        w = weights[i // width]
        if w == 0:
            continue
        x, cell = values[i], np.uint64(2 * bins[i] + events[i])
        residual = w * (events[i] - x)
        parts[0, cell, 0] += 1.0
        parts[0, cell, 1] += w * x
        parts[0, cell, 2] += w * x * x
        parts[0, cell, 3] += w
        parts[0, cell, 4] += w * w
        parts[0, cell, 5] += residual * residual


@compiled
def settle(parts: FloatArray, totals: FloatArray, lost: FloatArray) -> None:
    """Move parts, of shape (copies, any number), to their totals."""
    first = parts[0]
    for copy in range(1, parts.shape[0]):
        other = parts[copy]
        for i in range(first.shape[0]):
            first[i] += other[i]
            other[i] = 0.0
    for i in range(first.shape[0]):
        moved = first[i] - lost[i]
        total = totals[i] + moved
        lost[i] = (total - totals[i]) - moved
        totals[i] = total
        first[i] = 0.0


@compiled
def settle_all(parts: FloatArray, totals: FloatArray) -> None:
    """Move every part to its total."""
    settle(parts.reshape(parts.shape[0], -1), totals[0].ravel(), totals[1].ravel())


@compiled
def settle_full(bins: IntArray, events: IntArray, parts: FloatArray, totals: FloatArray) -> None:
    """Move the parts of these cells that hold many rows; for tables too large to go through."""
    for i in range(bins.shape[0]):
        cell = np.uint64(2 * bins[i] + events[i])
        if parts[0, cell, 0] >= FULL:
            settle(parts[:1, cell], totals[0, cell], totals[1, cell])


@compiled
def note_levels(
    values: FloatArray,
    bins: IntArray,
    weights: FloatArray | None,
    width: int,
    level: FloatArray,
    is_open: AnyArray,
) -> None:
    """Keep the one prediction of an open bin: -1 before the first; a second closes it with NaN."""
    for i in range(values.shape[0]):
        if weights is not None and weights[i // width] == 0:
            continue
        x, place = values[i], np.uint64(bins[i])
        if is_open[place] and level[place] != x:
            if level[place] < 0:
                level[place] = x
            else:
                level[place] = np.nan
                is_open[place] = 0
