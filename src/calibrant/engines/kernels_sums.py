"""The compiled loops of the numba engine that add values up.

A cell is a (bin, event) pair, cell = 2 bin + event. Each has a line of lanes in `parts`: of 1, p
and p^2, or with weights of 1, w p, w p^2, w, w^2 and w^2 (y - p)^2. There are several copies of
the parts, taken in turn, so that equal predictions need not wait for each other. Parts are moved
to their total, with compensation (Kahan), after a few thousand rows at most: neither the number of
rows nor their order costs accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
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


def inlined(function: Callable[..., Any]) -> Any:
    """Make a function that writes its instructions into the loop that calls it."""
    return intrinsic(function)


@inlined
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


@inlined
def fetch_early(context: Any, array: Any, index: Any) -> Any:
    """Ask for the memory at this index of an array; an address that is not there does no harm."""

    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        name, module = "llvm.prefetch.p0i8", builder.module
        fetch = module.globals.get(name) or ir.Function(module, kind, name)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        builder.call(fetch, [place, number(0), number(3), number(1)])
        return target.get_dummy_value()

    return types.void(array, types.int64), build


@compiled
def copies_in_turn(size: int, parts: FloatArray) -> IntArray:
    """Return where in the parts the copy of each value of a block begins."""
    starts = np.empty(size, np.int64)
    for i in range(size):
        starts[i] = (i % parts.shape[0]) * parts.shape[1] * LANES
    return starts


@compiled
def add(
    values: FloatArray,
    cells: IntArray,
    starts: IntArray,
    places: IntArray,
    parts: FloatArray,
    next_probs: AnyArray,
    next_labels: AnyArray,
) -> None:
    """Add 1, p and p^2 to the cell of each value, while the next block is on its way."""
    flat, size = parts.ravel(), values.shape[0]
    for i in range(size):
        places[i] = starts[i] + LANES * cells[i]
    for start in range(0, size - 7, 8):
        fetch_early(next_probs, start)
        fetch_early(next_labels, start)
        for i in range(start, start + 8):
            add_to_lanes(flat, places[i], values[i])
    for i in range(size - size % 8, size):
        add_to_lanes(flat, places[i], values[i])


@compiled
def add_weighted(
    values: FloatArray, cells: IntArray, weights: FloatArray, width: int, parts: FloatArray
) -> None:
    """Add 1, w p, w p^2, w, w^2 and w^2 (y - p)^2; a row has `width` values."""
    for i in range(values.shape[0]):
        w = weights[i // width]
        if w == 0:
            continue
        x, cell = values[i], np.uint64(cells[i])
        residual = w * ((cells[i] & 1) - x)
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
def settle_full(cells: IntArray, parts: FloatArray, totals: FloatArray) -> None:
    """Flush the full cells among these, where flushing the whole table per block is too slow."""
    for i in range(cells.shape[0]):
        cell = np.uint64(cells[i])
        if parts[0, cell, 0] >= FULL:
            settle(parts[:1, cell], totals[0, cell], totals[1, cell])


@compiled
def note_levels(
    values: FloatArray, cells: IntArray, weights: FloatArray | None, width: int, level: FloatArray
) -> None:
    """Keep the one prediction of a bin: -1 before the first; a second makes it NaN for good."""
    for i in range(values.shape[0]):
        if weights is not None and weights[i // width] == 0:
            continue
        place = np.uint64(cells[i] >> 1)
        known = level[place]
        if (known < values[i]) | (known > values[i]):
            level[place] = values[i] if known < 0 else np.nan
