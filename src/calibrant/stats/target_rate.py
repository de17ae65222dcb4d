"""The base rate of a target without labels, from its predictions, and whether they fit one.

**Test.** Under label shift the target's predictions are a mixture of those of the source's events
and others. The squared distance from the nearest mixture, in units of its noise, is compared with
a chi-square distribution.
"""

from __future__ import annotations

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.table import BinTable

FEWEST_EXPECTED = 5.0
"""Rows of source and target in a cell of the test; neighbours are joined until so many are
expected."""
_GRID = 2801
"""Log-odds of rates that may be in the interval of the rate."""


def likeliest_rate(table: BinTable, target: FloatArray) -> float:
    """Return the base rate that makes the target's predictions likeliest, outputs taken at word."""
    from scipy.optimize import brentq  # half a second, which few callers need

    n1 = float(table.sum_y.sum())
    prior = (n1 + 0.5) / (table.n + 1)
    s = np.where(np.isnan(table.level[0]), 0.5, table.level[0])
    w1, w0 = s / prior, (1 - s) / (1 - prior)

    def slope(q: float) -> float:
        mixed = np.maximum(q * w1 + (1 - q) * w0, 1e-300)
        return float(target @ ((w1 - w0) / mixed))

    low, high = 1e-6, 1 - 1e-6
    if slope(low) <= 0:
        return low
    if slope(high) >= 0:
        return high
    return float(brentq(slope, low, high))


def rate_interval(table: BinTable, target: FloatArray, delta: float) -> tuple[float, float]:
    """Return where the base rate of the target lies with probability 1 - delta, asymptotically.

    All q at which mean(target) - q mean(events) - (1 - q) mean(others) is within z of its own
    standard deviations of 0: a quadratic in q, solved on a fine grid, wide where it says little.
    """
    score = np.nan_to_num(table.level[0], nan=0.5)
    events = table.sum_y[0]
    moments = [_moments(score, x) for x in (target, events, table.count[0] - events)]
    (mean, noise), (mean1, noise1), (mean0, noise0) = moments
    q = special.expit(np.linspace(-14, 14, _GRID))
    gap = mean - q * mean1 - (1 - q) * mean0
    z = float(special.ndtri(1 - delta / 2))
    near = np.flatnonzero(gap**2 <= z**2 * (noise + q**2 * noise1 + (1 - q) ** 2 * noise0))
    if not near.size:  # beyond both ends: the nearest one
        near = np.array([0 if abs(gap[0]) < abs(gap[-1]) else q.size - 1])
    return float(q[max(near[0] - 1, 0)]), float(q[min(near[-1] + 1, q.size - 1)])


def _moments(score: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the mean of scores with these numbers of rows, and its variance."""
    n = float(weight.sum())
    mean = float(weight @ score) / n
    return mean, float(weight @ (score - mean) ** 2) / n / max(n - 1, 1)


def label_shift_pvalue(table: BinTable, target: FloatArray) -> float | None:
    """Test that the target's predictions are a mixture of the source's events and others.

    None if all of them are expected in one cell, where everything is a mixture.
    """
    from scipy.optimize import minimize_scalar  # half a second, which few callers need

    events = table.sum_y[0]
    counts = np.stack([events, table.count[0] - events, target])
    cells = _joined(counts, likeliest_rate(table, target))
    if cells.shape[1] < 2:
        return None
    one, other, seen = cells / cells.sum(axis=1, keepdims=True)
    n1, n0, n = cells.sum(axis=1)

    def distance(q: float) -> float:
        mixed = q * one + (1 - q) * other
        # multinomial noise of all three; each covariance is that of Pearson's statistic
        noise = mixed / n + q**2 * one / n1 + (1 - q) ** 2 * other / n0
        return float(np.sum((seen - mixed) ** 2 / np.maximum(noise, 1e-300)))

    best = minimize_scalar(distance, bounds=(0.0, 1.0), method="bounded")
    nearest = min(best.fun, distance(0.0), distance(1.0))
    # two cells can only contradict rates from 0 to 1, at whose ends there is a degree of freedom
    return float(special.chdtrc(max(cells.shape[1] - 2, 1), nearest))


def _joined(cells: FloatArray, rate: float) -> FloatArray:
    """Join neighbouring cells until enough rows of the target are expected in each.

    Those expected by a mixture at this rate: where a target that is none has no rows is what tells.
    """
    sizes = cells.sum(axis=1)
    mixed = rate * cells[0] / sizes[0] + (1 - rate) * cells[1] / sizes[1]
    expected = np.minimum(sizes[2] * mixed, cells[0] + cells[1])
    starts, enough = [0], 0.0
    for i, rows in enumerate(expected):
        if enough >= FEWEST_EXPECTED and expected[i:].sum() >= FEWEST_EXPECTED:
            starts.append(i)
            enough = 0.0
        enough += rows
    return np.add.reduceat(cells, starts, axis=1)
