"""The compiled loops of the numba engine that find quantiles."""

from __future__ import annotations

import numpy as np

from calibrant._types import AnyArray, FloatArray
from calibrant.engines.compiled import compiled, top_of
from calibrant.engines.kernels import BAD_PROBABILITY, FINE


@compiled
def top_values(probs: AnyArray, out: AnyArray) -> int:
    """Write the largest prediction of each row."""
    for i in range(probs.shape[0]):
        top = top_of(probs, i)
        if top < 0:
            return BAD_PROBABILITY
        out[i] = probs[i, top]
    return FINE


@compiled
def count_cells(values: AnyArray, cells: FloatArray) -> int:
    """Fill cells, a power of two and one for 1.0, with number, minimum and maximum of values."""
    scale = np.float64(cells.shape[0] - 1)
    for i in range(values.shape[0]):
        x = np.float64(values[i])
        if not (x >= 0 and x <= 1):
            return BAD_PROBABILITY
        j = np.uint32(x * scale)
        cells[j, 0] += 1.0
        cells[j, 1] = min(cells[j, 1], x)
        cells[j, 2] = max(cells[j, 2], x)
    return FINE


@compiled
def pick_cells(values: AnyArray, wanted: AnyArray, out: FloatArray) -> int:
    """Write the values that lie in wanted cells, and return how many there are."""
    scale = np.float64(wanted.shape[0] - 1)
    found = 0
    for i in range(values.shape[0]):
        x = np.float64(values[i])
        if wanted[np.uint32(x * scale)]:
            out[found] = x
            found += 1
    return found
