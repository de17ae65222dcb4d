"""The compiled loops of the numba engine that find quantiles."""

from __future__ import annotations

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.engines.compiled import compiled, top_of, top_of_logits
from calibrant.engines.kernels import BAD_PROBABILITY, BLOCK_VALUES, FINE, read_column

TILE = 64


@compiled
def top_values(probs: AnyArray, logits: bool, out: AnyArray) -> int:
    """Write the largest prediction of each row."""
    terms, powers = np.empty(probs.shape[1]), np.empty(probs.shape[1], np.int64)
    for i in range(probs.shape[0]):
        if logits:
            out[i] = top_of_logits(probs[i], terms, powers)[1]
            if np.isnan(out[i]):
                return BAD_PROBABILITY
            continue
        top = top_of(probs, i)
        if top < 0:
            return BAD_PROBABILITY
        out[i] = probs[i, top]
    return FINE


@compiled
def transpose(probs: AnyArray, out: AnyArray) -> int:
    """Write the columns as rows, tile by tile, and check them."""
    fine = True
    for start in range(0, probs.shape[0], TILE):
        some = probs[start : start + TILE]
        for k in range(probs.shape[1]):
            line = out[k, start : start + TILE]
            for i in range(some.shape[0]):
                x = some[i, k]
                fine &= (x >= 0) & (x <= 1)
                line[i] = x
    return FINE if fine else BAD_PROBABILITY


@compiled
def find_cells(values: FloatArray, scale: float, cells: IntArray) -> None:
    """Write the cell of each value in a grid of `scale` cells, a power of two, and one for 1.0."""
    for i in range(values.shape[0]):
        cells[i] = np.int64(values[i] * scale)


@compiled
def count_cells(probs: AnyArray, counts: AnyArray) -> int:
    """Check the values and count them in cells."""
    values, cells = np.empty(BLOCK_VALUES), np.empty(BLOCK_VALUES, np.int64)
    scale = np.float64(counts.shape[0] - 1)
    for start in range(0, probs.shape[0], BLOCK_VALUES):
        some = probs[start : start + BLOCK_VALUES]
        if not read_column(some, values[: some.shape[0]]):
            return BAD_PROBABILITY
        find_cells(values[: some.shape[0]], scale, cells)
        for i in range(some.shape[0]):
            counts[np.uint64(cells[i])] += 1
    return FINE


@compiled
def pick_cells(probs: AnyArray, wanted: AnyArray, out: FloatArray) -> None:
    """Write the values that lie in wanted cells."""
    values, cells = np.empty(BLOCK_VALUES), np.empty(BLOCK_VALUES, np.int64)
    scale = np.float64(wanted.shape[0] - 1)
    found = 0
    for start in range(0, probs.shape[0], BLOCK_VALUES):
        some = probs[start : start + BLOCK_VALUES]
        read_column(some, values[: some.shape[0]])
        find_cells(values[: some.shape[0]], scale, cells)
        for i in range(some.shape[0]):
            if wanted[np.uint64(cells[i])]:
                out[found] = values[i]
                found += 1


@compiled
def list_near_quantiles(
    ordered: AnyArray, n_bins: int, values: FloatArray, mass: FloatArray
) -> int:
    """Write the values of a sorted column that hold a quantile, and their neighbours.

    The mass of a value is the number of rows above the one before it and not above itself, so
    `EqualMass(n_bins)` makes the same edges from these as from all. Returns how many there are.
    """
    n, found, below = ordered.shape[0], 0, 0
    for cut in range(1, n_bins + 1):
        place = min(max(np.int64(np.ceil(n * cut / n_bins)), 1), n) - 1
        first = np.searchsorted(ordered, ordered[place], "left")
        for near in (first - 1, place, np.searchsorted(ordered, ordered[place], "right")):
            if near < 0 or near >= n or (found and ordered[near] <= values[found - 1]):
                continue
            above = np.searchsorted(ordered, ordered[near], "right")
            values[found], mass[found] = ordered[near], above - below
            below = above
            found += 1
    return found
