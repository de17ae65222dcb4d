"""The compiled loops of the numba engine that read rows.

Each reads a segment of rows once, in blocks that stay in the processor's nearest cache: it
checks the values, finds their bins and adds them up. Loops hold no lock of the interpreter, so
plain threads run them side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.compiled import compiled, find_bins, find_bins_of_columns, top_of
from calibrant.engines.kernels_sums import (
    add,
    add_weighted,
    note_levels,
    settle_all,
    settle_full,
)

FINE, BAD_PROBABILITY, BAD_LABEL = 0, 1, 2
BLOCK_VALUES = 2048
ROWS_OF_A_PART = 4096
SMALL_TABLE = 512
"""Cells that have several copies, and of which all parts are moved at once."""


@compiled
def read_labels(labels: AnyArray, n_classes: int, codes: IntArray) -> Any:
    """Write labels as whole numbers, and return whether all are class numbers."""
    fine: Any = True
    for i in range(codes.shape[0]):
        y = labels[i]
        code = np.int64(y)
        fine &= (code >= 0) & (code < n_classes) & (code == y)
        codes[i] = code
    return fine


@compiled
def read_column(probs: AnyArray, values: FloatArray) -> Any:
    """Write predictions as float64, and return whether all lie in [0, 1]."""
    fine: Any = True
    for i in range(values.shape[0]):
        x = np.float64(probs[i])
        fine &= (x >= 0) & (x <= 1)
        values[i] = x
    return fine


@compiled
def read_top(probs: AnyArray, codes: IntArray, values: FloatArray) -> bool:
    """Write the largest prediction of each row, and in codes whether its class came true."""
    for i in range(values.shape[0]):
        top = top_of(probs, i)
        if top < 0:
            return False
        values[i] = probs[i, top]
        codes[i] = np.int64(codes[i] == top)
    return True


@compiled
def read_table(probs: AnyArray, values: FloatArray) -> Any:
    """Write the predictions of rows one after the other; return whether all lie in [0, 1]."""
    fine: Any = True
    width = probs.shape[1]
    for i in range(probs.shape[0]):
        start = np.uint64(i * width)
        for k in range(width):
            x = np.float64(probs[i, k])
            fine &= (x >= 0) & (x <= 1)
            values[start + np.uint64(k)] = x
    return fine


@compiled
def mark_events(codes: IntArray, first: int, width: int, events: IntArray) -> None:
    """Write 1 for the class that came true and 0 for the others, of classes first, first + 1 ..."""
    events[:] = 0
    for i in range(codes.shape[0]):
        event = codes[i] - first
        if 0 <= event < width:
            events[np.uint64(i * width + event)] = 1


@compiled
def tally(
    values: FloatArray,
    bins: IntArray,
    events: IntArray,
    weights: FloatArray | None,
    width: int,
    parts: FloatArray,
    level: FloatArray,
    is_open: AnyArray,
) -> None:
    """Add up a block of values, whose rows have `width` each."""
    if weights is None:
        if add(values, bins, events, parts, is_open):
            note_levels(values, bins, None, width, level, is_open)
    else:
        add_weighted(values, bins, events, weights, width, parts)
        note_levels(values, bins, weights, width, level, is_open)


@compiled
def count_column(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    n_classes: int,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    steps: int,
    parts: FloatArray,
    totals: FloatArray,
    level: FloatArray,
    is_open: AnyArray,
) -> int:
    """Check and add up the one column, or the largest value, of each row."""
    values, bins, codes = _buffers(BLOCK_VALUES)
    since, small = 0, parts.shape[1] <= SMALL_TABLE
    for start in range(0, probs.shape[0], BLOCK_VALUES):
        end = min(start + BLOCK_VALUES, probs.shape[0])
        x, b, y = values[: end - start], bins[: end - start], codes[: end - start]
        if not read_labels(labels[start:end], n_classes, y):
            return BAD_LABEL
        if probs.ndim == 1:
            fine = read_column(probs[start:end], x)
        else:
            fine = read_top(probs[start:end], y, x)
        if not fine:
            return BAD_PROBABILITY
        find_bins(x, edges, grids[0], scales[0], steps, b)
        tally(x, b, y, None if weights is None else weights[start:end], 1, parts, level, is_open)
        since += end - start
        if not small:
            settle_full(b, y, parts, totals)
        elif since >= ROWS_OF_A_PART:
            settle_all(parts, totals)
            since = 0
    settle_all(parts, totals)
    return FINE


@compiled
def _buffers(size: int) -> tuple[FloatArray, IntArray, IntArray]:
    return np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)


@compiled
def count_table(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    n_classes: int,
    first: int,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    shift: IntArray,
    steps: int,
    parts: FloatArray,
    totals: FloatArray,
    level: FloatArray,
    is_open: AnyArray,
) -> int:
    """Check and add up the columns of each row; column k is class first + k.

    shift[k] takes the number of an edge to that of a bin among those of all columns.
    """
    width = probs.shape[1]
    step = max(1, BLOCK_VALUES // width)
    values, bins, events = _buffers(step * width)
    codes = np.empty(step, np.int64)
    column = np.arange(step * width) % width
    starts = column * (grids.shape[1] if grids.shape[0] > 1 else 0)
    scales, shift = scales[column], shift[column]
    since = 0
    for start in range(0, probs.shape[0], step):
        end = min(start + step, probs.shape[0])
        size = (end - start) * width
        x, b, y = values[:size], bins[:size], events[:size]
        if not read_labels(labels[start:end], n_classes, codes[: end - start]):
            return BAD_LABEL
        if not read_table(probs[start:end], x):
            return BAD_PROBABILITY
        mark_events(codes[: end - start], first, width, y)
        if grids.shape[0] == 1:
            find_bins(x, edges, grids[0], scales[0], steps, b)
            for i in range(size):
                b[i] += shift[i]
        else:
            find_bins_of_columns(x, edges, grids, scales, starts, shift, steps, b)
        tally(
            x, b, y, None if weights is None else weights[start:end], width, parts, level, is_open
        )
        since += end - start
        if since >= ROWS_OF_A_PART:
            settle_all(parts, totals)
            since = 0
    settle_all(parts, totals)
    return FINE
