"""The compiled loops of the numba engine.

Each loop reads a segment of rows once: it checks a value, finds its bin and adds it up. Loops
hold no lock of the interpreter, so plain threads run them side by side.

Cells are (bin, event) pairs, cell = 2 bin + event. `sums` has the shape (3, cells, terms): a
running part, its total, and what rounding lost. A part is moved to the total, with compensation
(Kahan), after 1,024 rows, so neither the number of rows nor their order costs accuracy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import AnyArray, FloatArray
from calibrant.engines.compiled import bin_near, bin_of, compiled, top_of

FINE, BAD_PROBABILITY, BAD_LABEL = 0, 1, 2
PART_ROWS = 1024
BLOCK_VALUES = 2048


@compiled
def settle(cell: Any, sums: FloatArray) -> None:
    """Move the part of a cell to its total."""
    for term in range(sums.shape[2]):
        part = sums[0, cell, term] - sums[2, cell, term]
        total = sums[1, cell, term] + part
        sums[2, cell, term] = (total - sums[1, cell, term]) - part
        sums[1, cell, term] = total
        sums[0, cell, term] = 0.0


@compiled
def settle_all(sums: FloatArray) -> None:
    """Move every part to its total."""
    for cell in range(sums.shape[1]):
        settle(cell, sums)


@compiled
def load(probs: AnyArray, rows: tuple[int, int], values: FloatArray) -> Any:
    """Write the predictions of some rows, and return whether all lie in [0, 1]."""
    fine: Any = True
    width = probs.shape[1]
    if width == 1:
        for i in range(rows[1] - rows[0]):
            x = np.float64(probs[rows[0] + i, 0])
            fine &= (x >= 0) & (x <= 1)
            values[i] = x
        return fine
    for i in range(rows[1] - rows[0]):
        for k in range(width):
            x = np.float64(probs[rows[0] + i, k])
            fine &= (x >= 0) & (x <= 1)
            values[i * width + k] = x
    return fine


@compiled
def are_labels(labels: AnyArray, rows: tuple[int, int], n_classes: int) -> bool:
    """Return whether some labels are class numbers."""
    fine = True
    for i in range(rows[0], rows[1]):
        y = labels[i]
        fine &= (y >= 0) & (y < n_classes) & (np.int64(y) == y)
    return fine


@compiled
def read_column(
    probs: AnyArray,
    labels: AnyArray,
    rows: tuple[int, int],
    event: int,
    edges: FloatArray,
    grid: AnyArray,
    scale: FloatArray,
    near: bool,
    values: FloatArray,
    cells: AnyArray,
) -> bool:
    """Write the predictions of some rows of one column, and their cells."""
    if not load(probs, rows, values):
        return False
    n = rows[1] - rows[0]
    if near:
        for i in range(n):
            place = bin_near(values[i], edges, grid, scale, 0)
            cells[i] = 2 * place + int(labels[rows[0] + i] == event)
    else:
        for i in range(n):
            place = bin_of(values[i], edges, grid, scale, 0)
            cells[i] = 2 * place + int(labels[rows[0] + i] == event)
    return True


@compiled
def read_columns(
    probs: AnyArray,
    labels: AnyArray,
    rows: tuple[int, int],
    first: int,
    edges: FloatArray,
    grid: AnyArray,
    scale: FloatArray,
    near: bool,
    n_bins: int,
    values: FloatArray,
    cells: AnyArray,
) -> bool:
    """Write the predictions of some rows, and their cells; column k is class first + k."""
    if not load(probs, rows, values):
        return False
    own = 1 if grid.shape[0] > 1 else 0
    at = 0
    for i in range(rows[0], rows[1]):
        event = np.int64(labels[i]) - first
        for k in range(probs.shape[1]):
            x = values[at]
            group = k * own
            place = (
                bin_near(x, edges, grid, scale, group)
                if near
                else bin_of(x, edges, grid, scale, group)
            )
            cells[at] = 2 * (k * n_bins + place) + int(k == event)
            at += 1
    return True


@compiled
def read_top_label(
    probs: AnyArray,
    labels: AnyArray,
    rows: tuple[int, int],
    edges: FloatArray,
    grid: AnyArray,
    scale: FloatArray,
    values: FloatArray,
    cells: AnyArray,
) -> bool:
    """Write the largest prediction of some rows, and their cells."""
    for i in range(rows[0], rows[1]):
        top = top_of(probs, i)
        if top < 0:
            return False
        x = np.float64(probs[i, top])
        values[i - rows[0]] = x
        cells[i - rows[0]] = 2 * bin_of(x, edges, grid, scale, 0) + int(labels[i] == top)
    return True


@compiled
def add(n: int, values: FloatArray, cells: AnyArray, sums: FloatArray) -> None:
    """Add 1, p and p^2 to the cell of each value."""
    for i in range(n):
        x, cell = values[i], np.uint32(cells[i])
        sums[0, cell, 0] += 1.0
        sums[0, cell, 1] += x
        sums[0, cell, 2] += x * x
        if sums[0, cell, 0] == PART_ROWS:
            settle(cell, sums)


@compiled
def add_weighted(
    n: int,
    values: FloatArray,
    cells: AnyArray,
    weights: FloatArray,
    first: int,
    width: int,
    sums: FloatArray,
) -> None:
    """Add 1, w p, w p^2, w, w^2 and w^2 (y - p)^2; a row has `width` values."""
    for i in range(n):
        w = weights[first + i // width]
        if w == 0:
            continue
        x, cell = values[i], np.uint32(cells[i])
        residual = w * (1.0 - x if cells[i] & 1 else -x)
        sums[0, cell, 0] += 1.0
        sums[0, cell, 1] += w * x
        sums[0, cell, 2] += w * x * x
        sums[0, cell, 3] += w
        sums[0, cell, 4] += w * w
        sums[0, cell, 5] += residual * residual
        if sums[0, cell, 0] == PART_ROWS:
            settle(cell, sums)


@compiled
def is_settled(level: FloatArray) -> bool:
    """Return whether every bin is known to hold several predictions."""
    for each in level:  # noqa: SIM110
        if not np.isnan(each):
            return False
    return True


@compiled
def note_levels(
    n: int,
    values: FloatArray,
    cells: AnyArray,
    weights: FloatArray | None,
    first: int,
    width: int,
    level: FloatArray,
) -> None:
    """Keep the one prediction of a bin: -1 before the first, NaN after a second."""
    for i in range(n):
        if weights is not None and weights[first + i // width] == 0:
            continue
        x, place = values[i], np.uint32(cells[i] >> 1)
        known = level[place]
        if known != x and not np.isnan(known):
            level[place] = x if known < 0 else np.nan


@compiled
def count(
    probs: AnyArray,
    labels: AnyArray,
    weights: FloatArray | None,
    classes: tuple[int, int],
    top_label: bool,
    edges: FloatArray,
    grid: AnyArray,
    scale: FloatArray,
    near: bool,
    sums: FloatArray,
    level: FloatArray,
) -> int:
    """Check and add up the columns, or the largest value, of each row.

    `classes` is the class number of the first column and the number of classes; a binary problem
    is the one column of class 1 of 2. `near` says that no cell of the grid has two edges.
    """
    width = 1 if top_label else probs.shape[1]
    step = max(1, BLOCK_VALUES // width)
    n_bins = level.shape[0] // width
    values, cells = np.empty(step * width), np.empty(step * width, np.int64)
    for start in range(0, probs.shape[0], step):
        rows = (start, min(start + step, probs.shape[0]))
        first, n_classes = classes
        if not are_labels(labels, rows, n_classes):
            return BAD_LABEL
        if top_label:
            fine = read_top_label(probs, labels, rows, edges, grid, scale, values, cells)
        elif width == 1:
            fine = read_column(probs, labels, rows, first, edges, grid, scale, near, values, cells)
        else:
            fine = read_columns(
                probs, labels, rows, first, edges, grid, scale, near, n_bins, values, cells
            )
        if not fine:
            return BAD_PROBABILITY
        n = (rows[1] - rows[0]) * width
        if weights is None:
            add(n, values, cells, sums)
        else:
            add_weighted(n, values, cells, weights, start, width, sums)
        if not is_settled(level):
            note_levels(n, values, cells, weights, start, width, level)
    settle_all(sums)
    return FINE
