"""The compiled loops of the numba engine that read rows.

Each reads a segment of rows once, in blocks that stay in the processor's nearest cache: it
checks the values, finds their bins and adds them up. Loops hold no lock of the interpreter, so
plain threads run them side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.compiled import (
    add_bins,
    add_bins_of_columns,
    add_even_bins,
    compiled,
    top_of,
    top_of_logits,
)
from calibrant.engines.kernels_sums import (
    add,
    add_weighted,
    copies_in_turn,
    note_levels,
    settle_all,
    settle_full,
)

FINE, BAD_PROBABILITY, BAD_LABEL = 0, 1, 2
BLOCK_ROWS, BLOCK_VALUES = 512, 2048
TILE_COLUMNS = 256
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
def read_pairs(
    labels: AnyArray, probs: AnyArray, n_classes: int, codes: IntArray, values: FloatArray
) -> Any:
    """Convert labels and predictions in one loop, and return whether all are valid."""
    fine: Any = True
    for i in range(values.shape[0]):
        y, x = labels[i], np.float64(probs[i])
        code = np.int64(y)
        fine &= (code >= 0) & (code < n_classes) & (code == y) & (x >= 0) & (x <= 1)
        codes[i] = code
        values[i] = x
    return fine


@compiled
def read_top(probs: AnyArray, logits: bool, codes: IntArray, values: FloatArray) -> bool:
    """Write the largest prediction of each row, and in codes whether its class came true."""
    terms, powers = np.empty(probs.shape[1]), np.empty(probs.shape[1], np.int64)
    for i in range(values.shape[0]):
        if logits:
            top, value = top_of_logits(probs[i], terms, powers)
        else:
            top = top_of(probs, i)
            value = np.float64(probs[i, top]) if top >= 0 else np.nan
        if np.isnan(value):
            return False
        values[i] = value
        codes[i] = np.int64(codes[i] == top)
    return True


@compiled
def mark_events(codes: IntArray, first: int, shift: IntArray, cells: IntArray) -> None:
    """Write 2 shift for every class of every row, and one more for the class that came true."""
    width = shift.shape[0]
    for i in range(codes.shape[0]):
        line = cells[i * width : (i + 1) * width]
        for k in range(width):
            line[k] = 2 * shift[k]
        event = codes[i] - first
        if 0 <= event < width:
            line[np.uint64(event)] += 1


@compiled
def count_column(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    n_classes: int,
    logits: bool,
    even: int,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    steps: int,
    parts: FloatArray,
    totals: FloatArray,
    level: FloatArray | None,
) -> int:
    """Check and add up the one column, or the largest value, of each row; or note their levels."""
    values, places, codes = _buffers(BLOCK_ROWS)
    starts = copies_in_turn(BLOCK_ROWS, parts)
    since, small = 0, parts.shape[1] <= SMALL_TABLE
    for start in range(0, probs.shape[0], BLOCK_ROWS):
        end = min(start + BLOCK_ROWS, probs.shape[0])
        x, cells = values[: end - start], codes[: end - start]
        if probs.ndim == 1:
            if not read_pairs(labels[start:end], probs[start:end], n_classes, cells, x):
                fine = read_labels(labels[start:end], n_classes, cells)
                return BAD_PROBABILITY if fine else BAD_LABEL
        else:
            if not read_labels(labels[start:end], n_classes, cells):
                return BAD_LABEL
            if not read_top(probs[start:end], logits, cells, x):
                return BAD_PROBABILITY
        if even:
            add_even_bins(x, even, cells)
        else:
            add_bins(x, edges, grids[0], scales[0], steps, places, cells)
        w = None if weights is None else weights[start:end]
        if level is not None:
            note_levels(x, cells, w, 1, level)
            continue
        if w is not None:
            add_weighted(x, cells, w, 1, parts)
        else:
            add(x, cells, starts, places, parts, probs[end:], labels[end:])
        since += end - start
        if not small:
            settle_full(cells, parts, totals)
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
    even: int,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    shift: IntArray,
    steps: int,
    parts: FloatArray,
    totals: FloatArray,
    level: FloatArray | None,
) -> int:
    """Check and add up the columns of each row, or note levels; column k is class first + k.

    shift[k] takes the number of an edge to that of a bin among those of all columns. Some rows
    of some columns are a block, so that the cells of a block stay in the nearest cache as well.
    """
    n_rows, n_columns = probs.shape
    tile = min(n_columns, TILE_COLUMNS)
    step = max(1, BLOCK_VALUES // tile)
    values, places, cells = _buffers(step * tile)
    codes, starts = np.empty(step, np.int64), copies_in_turn(step * tile, parts)
    since = 0
    for start in range(0, n_rows, step):
        end = min(start + step, n_rows)
        if not read_labels(labels[start:end], n_classes, codes[: end - start]):
            return BAD_LABEL
        w = None if weights is None else weights[start:end]
        for left in range(0, n_columns, tile):
            right = min(left + tile, n_columns)
            width = right - left
            x, c = values[: (end - start) * width], cells[: (end - start) * width]
            mark_events(codes[: end - start], first + left, shift[left:right], c)
            for i in range(end - start):
                p, q = i * width, (i + 1) * width
                if not read_column(probs[start + i][left:right], x[p:q]):
                    return BAD_PROBABILITY
                if grids.shape[0] > 1:
                    add_bins_of_columns(
                        x[p:q], edges, grids[left:right], scales[left:right], steps, places, c[p:q]
                    )
            if even:
                add_even_bins(x, even, c)
            elif grids.shape[0] == 1:
                add_bins(x, edges, grids[0], scales[0], steps, places, c)
            if level is not None:
                note_levels(x, c, w, width, level)
            elif w is not None:
                add_weighted(x, c, w, width, parts)
            else:
                ahead = probs[end + left * step // n_columns :]
                add(x, c, starts, places, parts, ahead, labels[end:])
        since += end - start
        if since >= ROWS_OF_A_PART:
            settle_all(parts, totals)
            since = 0
    settle_all(parts, totals)
    return FINE
