"""What the compiled loops of the numba engine share: compiling, and looking at one value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from calibrant._types import AnyArray, FloatArray

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
def bin_of(x: float, edges: FloatArray, grid: AnyArray, scale: FloatArray, group: int) -> int:
    """Return how many edges lie strictly below x in [0, 1], starting from the grid's answer."""
    place = np.uint32(min(x * scale[group], np.float64(grid.shape[1] - 2)))
    low: int = grid[group, place]
    high: int = grid[group, place + np.uint32(1)]
    while low < high:
        middle = (low + high) >> 1
        if x > edges[group, middle]:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def bin_near(x: float, edges: FloatArray, grid: AnyArray, scale: FloatArray, group: int) -> int:
    """Return the same where no cell of the grid has two edges, without a branch."""
    place = np.uint32(min(x * scale[group], np.float64(grid.shape[1] - 2)))
    low: int = grid[group, place]
    return low + int(x > edges[group, np.uint32(low)])


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
