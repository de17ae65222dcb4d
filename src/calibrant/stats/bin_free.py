"""Calibration without bins: bounds of cumulative and smooth errors.

Let pi(f) be the true event rate where the prediction is f. For predictions f_1 <= ... <= f_n put
b_i = pi(f_i) - f_i and S_k = (1/n) sum over i <= k of (y_i - f_i), read at the last row of each
distinct prediction. Three errors, none of which is the l1 or l2 calibration error, and all of
which are at most the l1 error of the rows, (1/n) sum |b_i|:

- cumulative: the largest |(1/n) sum b_i| over rows with f_i <= t; estimated by max |S_k|, the
  Kolmogorov-Smirnov distance;
- cutoff: the same over all intervals of predictions; estimated by max S_k - min S_k (with S_0 = 0),
  Kuiper's statistic;
- smooth: the largest (1/n) sum w(f_i) b_i over w with slopes and values in [-1, 1]; estimated with
  y_i - f_i for b_i.

**Bounds, given the predictions.** Labels are independent with means pi(f_i). M_k = S_k - E S_k is a
martingale in k, so exp(c M_k) is a submartingale; Doob's inequality and Hoeffding's lemma give
P(max M_k >= r) <= exp(-c r) E exp(c M_n) <= exp(-c r + c^2 / (8n)), which c = 4nr turns into
exp(-2nr^2). The same holds for -M_k. Hence max |M_k| <= R = sqrt(log(2 / delta) / (2n)) except
with probability delta, whatever the model. On that one event all three errors are within reach
of their estimates: the cumulative one within R, the cutoff one within 2R, the smooth one within
(1 + f_n - f_1) R, because summing by parts gives
(1/n) sum w_i (y_i - pi_i) = w_n M_n - sum (w_{i+1} - w_i) M_i and w varies by f_n - f_1 at most.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from calibrant._results import NumberResult, Result
from calibrant._types import FloatArray
from calibrant.stats.intervals import check_level
from calibrant.stats.samples import Atoms, cumulative_differences, kuiper
from calibrant.table import BinTable


def smooth_calibration_error(atoms: Atoms) -> float:
    """Return the largest mean of w(p) (y - p) over w with slopes and values in [-1, 1].

    Exact, through the dual problem: by linear programming duality and summation by parts it is
    the least of ``sum |c_i - c_{i-1}| + sum g_i |S_i - c_i|`` over curves c from 0 to S_n, with S
    the cumulative differences and g_i the gaps between distinct predictions: the cheapest way to
    follow S. Dynamic programming along c needs O(n log n).

    It follows the least cost m(c) of a curve that has reached c, a convex function of c. Its slope
    rises from -1 to 1 by jumps at earlier values of S. Passing S_i adds g_i |c - S_i|, a jump of
    2 g_i; being free to move on at cost 1 clips the slope to [-1, 1] again, which trims jumps by
    g_i at either end. `start` is m(c) + c left of all jumps.

    >>> z = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
    >>> y = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    >>> round(smooth_calibration_error(Atoms.of(y, z)), 10)
    0.0355
    """
    s = cumulative_differences(atoms).tolist()
    jumps, lowest, highest, start = [2.0], [(0.0, 0)], [(0.0, 0)], 0.0
    for i, (x, gap) in enumerate(zip(s[:-1], np.diff(atoms.p).tolist(), strict=True), start=1):
        jumps.append(2 * gap)
        heapq.heappush(lowest, (x, i))
        heapq.heappush(highest, (-x, i))
        start += gap * x - _trim(lowest, jumps, gap)
        _trim(highest, jumps, gap)
    below = sum(jumps[i] * (s[-1] - x) for x, i in lowest if x < s[-1])
    return max(float(start - s[-1] + below), 0.0)


def _trim(heap: list[tuple[float, int]], jumps: list[float], amount: float) -> float:
    """Take `amount` of jump away at the top of the heap; return the sum of amount x position."""
    moment = 0.0
    while amount > 0:
        x, i = heap[0]
        taken = min(jumps[i], amount)
        jumps[i] -= taken
        amount -= taken
        moment += taken * x
        if jumps[i] == 0:
            heapq.heappop(heap)
    return moment


@dataclass(frozen=True, eq=False, repr=False)
class BinFreeBound(NumberResult):
    """The estimate of a bin-free calibration error and limits that hold together."""

    value: float
    low: float
    high: float

    def _summary(self) -> str:
        return f"{self.value:.4f}, between {self.low:.4f} and {self.high:.4f}"


@dataclass(frozen=True, repr=False)
class BinFreeBounds(Result):
    """Bounds of three errors that need no bins; none is the l1 or l2 calibration error.

    All limits hold together with probability `confidence_level`, given the predictions, for any
    model, if labels are independent. Each `low` is also a lower bound of the l1 calibration error
    of these rows.

    Attributes
    ----------
    cumulative, cutoff, smooth : BinFreeBound
        Over half-lines and over intervals of predictions, and over smooth weights.
    radius : float
        R = sqrt(log(2 / delta) / (2n)).
    n : int
    confidence_level : float
    """

    cumulative: BinFreeBound
    cutoff: BinFreeBound
    smooth: BinFreeBound
    radius: float
    n: int
    confidence_level: float

    def __str__(self) -> str:
        return (
            f"cumulative error {self.cumulative}\n"
            f"cutoff error     {self.cutoff}\n"
            f"smooth error     {self.smooth}\n"
            f"all at {100 * self.confidence_level:g}%, n = {self.n:,}, no bins"
        )

    def _summary(self) -> str:
        return f"cutoff error {self.cutoff}, n = {self.n:,}, no bins"


def bin_free_bounds(
    y: FloatArray | BinTable, p: FloatArray | None = None, confidence_level: float = 0.95
) -> BinFreeBounds:
    """Bound the cumulative, cutoff and smooth calibration error of any model, at any n.

    The three errors, their estimates and the proof stand at the top of this module; see
    `calibrant.bin_free_bounds`. `y` and `p` are events, 0 or 1, independent given the predictions,
    and their probabilities; or `y` is a table of distinct predictions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=10_000)
    >>> y = (rng.uniform(size=10_000) < p).astype(float)
    >>> print(bin_free_bounds(y, p))
    cumulative error 0.0053, between 0.0000 and 0.0189
    cutoff error     0.0072, between 0.0000 and 0.0343
    smooth error     0.0056, between 0.0000 and 0.0328
    all at 95%, n = 10,000, no bins
    """
    check_level(confidence_level)
    atoms = Atoms.of(y, p)
    s = cumulative_differences(atoms)
    radius = math.sqrt(math.log(2 / (1 - confidence_level)) / (2 * atoms.n))
    spread = float(atoms.p[-1] - atoms.p[0])
    return BinFreeBounds(
        _within(float(np.abs(s).max()), radius),
        _within(float(kuiper(s)), 2 * radius),
        _within(smooth_calibration_error(atoms), (1 + spread) * radius),
        radius,
        atoms.n,
        confidence_level,
    )


def _within(value: float, distance: float) -> BinFreeBound:
    return BinFreeBound(value, max(value - distance, 0.0), min(value + distance, 1.0))
