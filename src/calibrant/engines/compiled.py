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
def find_bins(
    values: FloatArray, edges: FloatArray, grid: IntArray, scale: float, steps: int, bins: IntArray
) -> None:
    """Write how many edges lie strictly below each value in [0, 1].

    The grid knows the edges below a value's cell; fewer than 2^steps edges are inside it, and
    a search of that many steps without a branch compares them with the value itself.
    """
    last = grid.shape[0] - 1
    for i in range(values.shape[0]):
        bins[i] = min(np.int64(values[i] * scale), last)
    if steps == 1:
        for i in range(values.shape[0]):
            low = grid[np.uint64(bins[i])]
            bins[i] = low + np.int64(values[i] > edges[np.uint64(low)])
    else:
        for i in range(values.shape[0]):
            bins[i] = search(values[i], edges, grid[np.uint64(bins[i])], steps)


@compiled
def search(x: float, edges: FloatArray, low: Any, steps: int) -> Any:
    """Return how many edges lie strictly below x, of which fewer than 2^steps are beyond low."""
    for step in range(steps - 1, -1, -1):
        width = 1 << step
        low += width * np.int64(x > edges[np.uint64(low + width - 1)])
    return low


@compiled
def find_bins_of_row(
    values: FloatArray,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    shift: IntArray,
    steps: int,
    bins: IntArray,
) -> None:
    """Write shift[k] and how many edges lie below the value of each column k of a row.

    Columns have a grid each, or share the first. The edges of all grids stand one after the
    other, and a grid counts from the first of all.
    """
    last = grids.shape[1] - 1
    for k in range(values.shape[0]):
        bins[k] = min(np.int64(values[k] * scales[k]), last)
    own = np.uint64(grids.shape[1] if grids.shape[0] > 1 else 0)
    flat = grids.ravel()
    if steps == 1:
        for k in range(values.shape[0]):
            low = flat[np.uint64(k) * own + np.uint64(bins[k])]
            bins[k] = shift[k] + low + np.int64(values[k] > edges[np.uint64(low)])
    else:
        for k in range(values.shape[0]):
            low = flat[np.uint64(k) * own + np.uint64(bins[k])]
            bins[k] = shift[k] + search(values[k], edges, low, steps)


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
