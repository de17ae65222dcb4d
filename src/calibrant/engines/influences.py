"""The second pass over arrays: sums of what each row adds to an error, block by block."""

from __future__ import annotations

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray
from calibrant.bins import Bins
from calibrant.engines.numpy import BLOCK_GROUPS, BLOCK_ROWS, checked_columns
from calibrant.problem import Rows


def influence_sums(rows: Rows, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums:
    """Return the sums for rows in memory; what is needed beside them does not grow with them."""
    total = InfluenceSums()
    step = max(1, BLOCK_ROWS // min(len(bins), BLOCK_GROUPS))
    for start in range(0, len(rows), step):
        block = rows.take(slice(start, start + step))
        total += sums_of(*_parts(block, rows, bins, influence), influence, block.weights)
    return total


def sums_of(
    a: FloatArray, m: FloatArray, influence: Influence, weights: FloatArray | None
) -> InfluenceSums:
    """Return the sums of the two parts of some rows' influences."""
    w = np.ones_like(a) if weights is None else weights / influence.mean_weight
    wa, wm = w * (a - influence.mean_a), w * (m - influence.mean_m)
    terms = (w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4)
    return InfluenceSums(*(float(term.sum()) for term in terms))


def _parts(
    block: Rows, rows: Rows, bins: tuple[Bins, ...], influence: Influence
) -> tuple[FloatArray, FloatArray]:
    """Return `a` and `m` of each row of a block; see `calibrant._influences`."""
    a, m = np.zeros(len(block)), np.zeros(len(block))
    group = 0
    for p, happened in checked_columns(block, rows):
        for prediction, event in zip(p, happened, strict=True):
            place = bins[group].index(prediction)
            a += influence.slope[group, place] * (event - prediction)
            m += influence.offset[group, place]
            group += 1
    return a, m
