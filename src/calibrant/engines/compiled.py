"""What the compiled loops of the numba engine share: compiling, and finding bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile at the first call, and keep the result on disk where a folder can be written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        made: F = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder for a cache
        made = numba.njit(**options)(function)
    return made


@compiled
def add_even_bins(values: FloatArray, n_bins: int, cells: IntArray) -> None:
    """Add 2 bin to the cell of each value, for bins with edges at 1 / n_bins, 2 / n_bins ...

    A product that is never too large tells it within one, and the edge itself, made of two
    parts of 1 / n_bins whose first product is exact, decides: `lookup.is_even` says for which.
    """
    scale = n_bins * (1 - 2.0**-50)
    high = np.rint(2.0**32 / n_bins) / 2.0**32
    low = (1 - n_bins * high) / n_bins
    for i in range(values.shape[0]):
        below = np.floor(values[i] * scale)
        above = below + 1.0
        edge = above * high + above * low
        cells[i] += 2 * np.int64(above if values[i] > edge else below)


@compiled
def add_bins(
    values: FloatArray,
    edges: FloatArray,
    grid: IntArray,
    scale: float,
    steps: int,
    places: IntArray,
    cells: IntArray,
) -> None:
    """Add twice the number of edges strictly below each value in [0, 1] to its cell.

    The grid knows the edges below a value's place; fewer than 2^steps edges are inside it, and
    a search of that many steps without a branch compares them with the value itself.
    """
    last = grid.shape[0] - 1
    for i in range(values.shape[0]):
        places[i] = min(np.int64(values[i] * scale), last)
    if steps == 1:
        for i in range(values.shape[0]):
            low = grid[np.uint64(places[i])]
            cells[i] += 2 * (low + np.int64(values[i] > edges[np.uint64(low)]))
    else:
        for i in range(values.shape[0]):
            cells[i] += 2 * search(values[i], edges, grid[np.uint64(places[i])], steps)


@compiled
def search(x: float, edges: FloatArray, low: Any, steps: int) -> Any:
    """Return how many edges lie strictly below x, of which fewer than 2^steps are beyond low."""
    for step in range(steps - 1, -1, -1):
        width = 1 << step
        low += width * np.int64(x > edges[np.uint64(low + width - 1)])
    return low


@compiled
def add_bins_of_columns(
    values: FloatArray,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    steps: int,
    places: IntArray,
    cells: IntArray,
) -> None:
    """Add the same for a row of values, each with the grid and scale of its column."""
    last, flat = grids.shape[1] - 1, grids.ravel()
    for k in range(values.shape[0]):
        places[k] = k * grids.shape[1] + min(np.int64(values[k] * scales[k]), last)
    if steps == 1:
        for k in range(values.shape[0]):
            low = flat[np.uint64(places[k])]
            cells[k] += 2 * (low + np.int64(values[k] > edges[np.uint64(low)]))
    else:
        for k in range(values.shape[0]):
            cells[k] += 2 * search(values[k], edges, flat[np.uint64(places[k])], steps)


@compiled
def top_of(probs: AnyArray, i: int) -> int:
    """Return the lowest index of the largest value of a row, -1 if one is no probability."""
    top, best = 0, probs[i, 0]
    fine = True
    for k in range(probs.shape[1]):
        x = probs[i, k]
        fine &= (x >= 0) & (x <= 1)
        if x > best:
            top, best = k, x
    return top if fine else -1


@compiled
def top_of_logits(logits: AnyArray, terms: FloatArray, powers: IntArray) -> tuple[int, float]:
    """Return the lowest index of the largest of a row of logits, and its softmax.

    The softmax is NaN where a logit is, where one is infinite, or where all are minus infinity.
    `terms` and `powers` are scratch buffers of the same length.
    """
    top, best = 0, np.float64(logits[0])
    fine = True
    for k in range(logits.shape[0]):
        z = np.float64(logits[k])
        fine &= (z == z) & (z < np.inf)
        if z > best:
            top, best = k, z
    if not fine or best == -np.inf:
        return top, np.nan
    for k in range(logits.shape[0]):
        terms[k] = np.float64(logits[k]) - best
    return top, 1.0 / sum_of_exps(terms, powers)


@compiled
def sum_of_exps(terms: FloatArray, powers: IntArray) -> float:
    """Return the sum of exp(x) of terms that are at most 0, which are lost.

    Loops without a call or a branch, for the processor's vectors: x = n log 2 + r, a polynomial
    for exp(r), |r| < 0.35, that is exact to rounding, and 2^n made from its bits.
    """
    for k in range(terms.shape[0]):
        x = terms[k] if terms[k] > -708.0 else -708.0
        n = np.floor(x * 1.4426950408889634 + 0.5)
        r = (x - n * 0.693145751953125) - n * 1.4286068203094173e-06
        p = 1 / 479001600 + r * (1 / 6227020800)
        p = 1 / 3628800 + r * (1 / 39916800 + r * p)
        p = 1 / 40320 + r * (1 / 362880 + r * p)
        p = 1 / 720 + r * (1 / 5040 + r * p)
        p = 1 / 24 + r * (1 / 120 + r * p)
        p = 0.5 + r * (1 / 6 + r * p)
        terms[k] = 1.0 + r * (1.0 + r * p)
        powers[k] = (np.int64(n) + 1023) << 52
    scales = powers.view(np.float64)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    size = terms.shape[0]
    for k in range(0, size - 3, 4):
        a += terms[k] * scales[k]
        b += terms[k + 1] * scales[k + 1]
        c += terms[k + 2] * scales[k + 2]
        d += terms[k + 3] * scales[k + 3]
    for k in range(size - size % 4, size):
        a += terms[k] * scales[k]
    return (a + b) + (c + d)
