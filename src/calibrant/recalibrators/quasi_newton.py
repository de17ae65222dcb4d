"""L-BFGS for smooth convex losses whose evaluation takes nearly all of the time.

SciPy's has vectors added up by BLAS, which starts threads for more than 10,000 numbers (a hundred
classes have 10,100). Between products these spin on the cores that evaluate the loss: 5,000 rows of
100 classes took 0.20 s on two cores, and take 0.11 s with sums that start none.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from calibrant._types import FloatArray

ENOUGH, STEEP = 1e-4, 0.9
"""A step must lower the loss by that share of what its slope promised, and leave no more than that
share of the slope: the usual conditions of Wolfe, in the form of Lewis and Overton (2013)."""
MOST_TRIALS = 40
"""Of one line search: halvings down to rounding."""


class Minimum(NamedTuple):
    """Where a loss is least, the loss there, whether that was reached, and steps."""

    x: FloatArray
    value: float
    converged: bool
    steps: int


def minimise_smooth(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    memory: int,
    most_steps: int,
    tolerance: float,
    slope_tolerance: float,
) -> Minimum:
    """Minimise a loss, given with its slopes, until a step changes it by less than a share.

    Parameters
    ----------
    memory : int
        Steps that are remembered.
    tolerance : float
        Of the change of the loss, relative to the loss or to 1.
    slope_tolerance : float
        No slope is larger at the minimum, if that is reached first.
    """
    x = start
    value, slopes = objective(x)
    known: deque[tuple[FloatArray, FloatArray, float]] = deque(maxlen=memory)
    for step in range(most_steps):
        if np.abs(slopes).max(initial=0.0) <= slope_tolerance:
            return Minimum(x, value, True, step)
        direction = -_times_inverse(slopes, known)
        first = 1.0 if known else min(1.0, 1 / math.sqrt(_dot(slopes, slopes)))
        found = _line_search(objective, x, value, slopes, direction, first)
        if found is None:  # no descent beyond rounding
            return Minimum(x, value, True, step)
        moved, after, new = found
        change, bend = moved - x, new - slopes
        if (product := _dot(change, bend)) > 0:
            known.append((change, bend, product))
        small = value - after <= tolerance * max(abs(value), abs(after), 1.0)
        x, value, slopes = moved, after, new
        if small:
            return Minimum(x, value, True, step + 1)
    return Minimum(x, value, False, most_steps)


def _dot(a: FloatArray, b: FloatArray) -> float:
    return float(np.einsum("i,i->", a, b))  # by no threads


def _times_inverse(
    slopes: FloatArray, known: deque[tuple[FloatArray, FloatArray, float]]
) -> FloatArray:
    """Return slopes times the inverse Hessian of the last steps (two loops, Nocedal 1980)."""
    out, shares = slopes.copy(), []
    for change, bend, product in reversed(known):
        share = _dot(change, out) / product
        out -= share * bend
        shares.append(share)
    if known:
        _, bend, product = known[-1]
        out *= product / _dot(bend, bend)
    for (change, bend, product), share in zip(known, reversed(shares), strict=True):
        out += (share - _dot(bend, out) / product) * change
    return out


def _line_search(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    x: FloatArray,
    value: float,
    slopes: FloatArray,
    direction: FloatArray,
    length: float,
) -> tuple[FloatArray, float, FloatArray] | None:
    """Return a place along the direction, its loss and slopes; None if none is lower."""
    slope = _dot(slopes, direction)
    low, high, best = 0.0, math.inf, None
    for _ in range(MOST_TRIALS):
        moved = x + length * direction
        after, new = objective(moved)
        if not after <= value + ENOUGH * length * slope:  # too long, or not a number
            high = length
            # the least of the parabola through both values and the slope, kept inside
            excess = after - value - length * slope
            share = -slope * length / (2 * excess) if math.isfinite(excess) else 0.1
            length = low + min(max(share, 0.1), 0.5) * (high - low)
            continue
        best = moved, after, new
        if _dot(new, direction) >= STEEP * slope:
            break
        low = length
        length = 2 * low if math.isinf(high) else (low + high) / 2
    return best
