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
def find_bins_of_columns(
    values: FloatArray,
    edges: FloatArray,
    grids: IntArray,
    scales: FloatArray,
    starts: IntArray,
    shifts: IntArray,
    steps: int,
    bins: IntArray,
) -> None:
    """Write the same for values of many columns, each with the scale of its column.

    starts[i] is where the grid of its column begins, and shifts[i] is added to what is found.
    """
    last = grids.shape[1] - 1
    for i in range(values.shape[0]):
        bins[i] = starts[i] + min(np.int64(values[i] * scales[i]), last)
    flat = grids.ravel()
    if steps == 1:
        for i in range(values.shape[0]):
            low = flat[np.uint64(bins[i])]
            bins[i] = shifts[i] + low + np.int64(values[i] > edges[np.uint64(low)])
    else:
        for i in range(values.shape[0]):
            bins[i] = shifts[i] + search(values[i], edges, flat[np.uint64(bins[i])], steps)


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
