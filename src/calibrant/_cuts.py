"""Where to cut sorted values that have masses: at quantiles, or into the cheapest parts."""

from __future__ import annotations

import numpy as np

from calibrant._types import BoolArray, FloatArray, IntArray


def quantile_cuts(mass: FloatArray, n_bins: int) -> IntArray:
    """Return indices after which to cut so that the parts have masses as equal as possible."""
    below = np.zeros(mass.size + 1)
    np.cumsum(mass, out=below[1:])
    targets = below[-1] * np.arange(1, n_bins) / n_bins
    upper = np.minimum(np.maximum(below.searchsorted(targets), 1), mass.size)
    nearest = upper - is_nearer_below(targets, below[upper - 1], below[upper])
    inner = nearest[(nearest > 0) & (nearest < mass.size)]
    new = np.ones(inner.size, np.bool_)
    np.not_equal(inner[1:], inner[:-1], out=new[1:])  # they never fall, so repeats are neighbours
    return np.asarray(inner[new] - 1)


def is_nearer_below(targets: FloatArray, below: FloatArray, up_to: FloatArray) -> BoolArray:
    """Return whether to cut before the value that holds a quantile rather than after it."""
    return np.asarray(targets - below <= up_to - targets)


def edges_at(values: FloatArray, cuts: IntArray) -> FloatArray:
    """Return the edges that separate values[cut] from values[cut + 1]."""
    inner = halfway(values[cuts], values[cuts + 1])
    return np.concatenate(([0.0], inner[inner > 0], [1.0]))


def halfway(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return edges that separate two values: half-way, or where floats allow."""
    middle = low + (high - low) / 2
    return np.where(middle < high, middle, low)


def best_partition(cost: FloatArray, n_parts: int) -> list[int]:
    """Return the ends of the cheapest partition into at most n_parts.

    Fewer parts are cheaper where none may be light and more would have to be cut elsewhere.
    """
    best, choices = cost[0], []
    costs = [best[-1]]
    for _ in range(n_parts - 1):
        through = best[:, None] + cost
        choice = through.argmin(axis=0)
        longer = through[choice, np.arange(choice.size)]
        if not np.isfinite(longer[-1]):
            break
        best = longer
        choices.append(choice)
        costs.append(best[-1])
    n_cuts = len(costs) - 1 - int(np.argmin(costs[::-1]))
    ends = [cost.shape[0] - 1]
    for choice in reversed(choices[:n_cuts]):
        ends.append(int(choice[ends[-1]]))
    return ends[::-1]
