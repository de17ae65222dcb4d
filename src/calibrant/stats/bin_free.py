"""What can be proved without bins: cumulative and smooth errors, and l1 and l2 from below.

Let pi(f) be the true event rate where the prediction is f. For predictions f_1 <= ... <= f_n put
b_i = pi(f_i) - f_i and S_k = (1/n) sum over i <= k of (y_i - f_i), read at the last row of each
distinct prediction. Three errors are bounded. None is the l1 or l2 calibration error; all are at
most the l1 error of the rows, (1/n) sum |b_i|:

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

**Proof of miscalibration.** For every w with values in [-1, 1] the mean of w(f) (Y - f), which is
that of w(f) (pi(f) - f), is at most the l1 calibration error E|pi(f) - f|, and by Cauchy and
Schwarz at most sqrt(E w^2) <= 1 times the l2 error. Let w_t, for row t, depend on earlier rows
only. Then x_t = w_t(f_t) (Y_t - f_t) lies in [-1, 1], and its mean given the past is at most the
error L, of either norm. For bets 0 <= b_t <= 1/2 that depend on the past, and m >= L, the wealth
prod (1 + b_t (x_t - m)) is thus a nonnegative supermartingale from 1 on, and with probability
1 - delta it never reaches 1 / delta (Ville). It falls in m, so the largest m at which it did reach
1 / delta is below L with that probability.

**Mixture.** Bets on rows one by one and likelihood ratios in bins (`calibrant.stats.refutation`)
find different errors. Each has a share of the error probability, and the larger bound holds. That
is an average of e-values too: that of the bets is 1 / (share delta) once they have won as much,
whatever they lose later, and 0 if they never do.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant._options import check_word, generator
from calibrant._results import NumberResult, Result
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.stats.e_values import ClassSums
from calibrant.stats.intervals import check_level
from calibrant.stats.isotonic_curves import interpolate, pooled
from calibrant.stats.logistic import logistic_fit
from calibrant.stats.refutation import binnings_of, lower_bound
from calibrant.stats.samples import Atoms, check_rows, cumulative_differences, kuiper
from calibrant.table import BinTable

LowerBoundMethod: TypeAlias = Literal["mixture", "betting", "normal"]

FIRST_FIT = 0.1
REFIT_EVERY = 1.5
"""The share of the rows that the first curves are fitted to, and how many times as many the next.
They affect tightness and time only, never validity."""
SHARE_OF_BETS = {"l1": 0.75, "l2": 0.25}
"""Of the error probability of a mixture. Bets beat bins in l1, but not in l2, where large errors
count more and bets do not know it; affects tightness only, never validity."""


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


@dataclass(frozen=True, eq=False, repr=False)
class MiscalibrationBound(NumberResult):
    """A lower bound of the true calibration error of a model, continuous or not.

    Attributes
    ----------
    value : float
        The bound; 0 if the rows prove nothing. ``float(bound)`` gives it too.
    mean_gain : float
        (1/n') sum w_t (y_t - p_t) of the bets; it may be negative.
    norm : {"l1", "l2"}
    method : {"mixture", "betting", "normal"}
    n, n_tested : int
        All rows, and those that were not used for the first fit only.
    confidence_level : float
    """

    value: float
    mean_gain: float
    norm: str
    method: str
    n: int
    n_tested: int
    confidence_level: float

    def _measure(self) -> str:
        return f"lower bounds of {self.norm}"

    def _summary(self) -> str:
        level = f"{100 * self.confidence_level:g}%, {self.method} bound, n = {self.n:,}"
        error = f"{self.norm} calibration error in the population"
        return f"{error} at least {self.value:.4f} ({level})"


def prequential_lower_bound(
    y: FloatArray,
    p: FloatArray,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    method: LowerBoundMethod = "mixture",
    rng: np.random.Generator | int | None = 0,
) -> MiscalibrationBound:
    """Prove miscalibration: bound the true l1 or l2 calibration error from below.

    Rows are taken in random order. Two curves of the event rate, a logistic and an isotonic one,
    are fitted to the first tenth, and again whenever half as many rows more have passed. Each
    later row gets the weight w = sign(g(p) - p) before its label is looked at, where g is the
    curve that has earned more on earlier rows. The mean of w (y - p) cannot exceed the
    calibration error but by chance; the proof stands at the top of this module. The bound of the
    bets is one of both norms, since l1 <= l2; "normal" is the mean gain less z standard errors.

    The arguments are those of `calibrant.prequential_lower_bound`, with events, 0 or 1, and
    predictions of rows that are independent and identically distributed for `y` and `p`. Bets are
    not part of a certificate: its table does not record the order of the labels, so the winnings
    could not be checked again.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.uniform(size=10_000)
    >>> y = (rng.uniform(size=10_000) < p**2).astype(float)
    >>> print(prequential_lower_bound(y, p))
    l2 calibration error in the population at least 0.1554 (95%, mixture bound, n = 10,000)
    """
    check_level(confidence_level)
    y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
    check_rows(y, p)
    check_word("norm", norm, ("l1", "l2"))
    check_word("method", method, get_args(LowerBoundMethod))
    order = generator("rng", rng).permutation(y.size)
    gains = _prequential_gains(y[order], p[order])
    delta, low = 1 - confidence_level, 0.0
    if method == "mixture":
        share = SHARE_OF_BETS[norm]
        atoms = Atoms.of(y, p)
        noise = atoms.count * atoms.p * (1 - atoms.p)
        sums = ClassSums(1.0, atoms.count, atoms.events, atoms.count * atoms.p, noise)
        power, delta_of_bins = 1.0 if norm == "l1" else 2.0, (1 - share) * delta
        low = lower_bound(binnings_of([sums]), atoms.n, power, "population", delta_of_bins)
        delta *= share
    if gains.size > 1 and method == "normal":
        spread = float(gains.std(ddof=1)) / math.sqrt(gains.size)
        low = max(low, float(gains.mean()) + float(special.ndtri(delta)) * spread)
    elif gains.size > 1:
        low = max(low, betting_bound(gains, delta))
    mean = float(gains.mean()) if gains.size else 0.0
    return MiscalibrationBound(low, mean, norm, method, y.size, gains.size, confidence_level)


def _prequential_gains(y: FloatArray, p: FloatArray) -> FloatArray:
    """Return w_t(p_t) (y_t - p_t) for all rows after the first fit."""
    gains, earned = [], np.zeros(2)
    start = max(1, int(FIRST_FIT * y.size))
    while start < y.size:
        stop = min(max(start + 1, int(REFIT_EVERY * start)), y.size)
        fresh = p[start:stop]
        curves = _curves(Atoms.of(y[:start], p[:start]), fresh)
        offered = np.sign(curves - fresh) * (y[start:stop] - fresh)
        gains.append(offered[earned.argmax()])
        earned += offered.sum(axis=1)
        start = stop
    return np.concatenate(gains) if gains else np.zeros(0)


def _curves(past: Atoms, p: FloatArray) -> FloatArray:
    """Return event rates at p by a logistic and by an isotonic fit to the past."""
    isotonic = interpolate(p, past.p, pooled(past.events / past.count, past.count))
    fit = logistic_fit(past.inside())
    with np.errstate(invalid="ignore"):
        logistic = special.expit(fit.intercept + fit.slope * special.logit(p))
    return np.stack([np.where(np.isnan(logistic), isotonic, logistic), isotonic])


def betting_bound(x: FloatArray, delta: float) -> float:
    """Return the largest m at which the wealth reached 1 / delta at some row, to 1e-12."""
    seen = np.arange(x.size)
    mean = np.concatenate(([0.0], np.cumsum(x)[:-1])) / np.maximum(seen, 1)
    squares = np.concatenate(([0.0], np.cumsum(x**2)[:-1]))
    # with an imagined row of variance 1/4, so that it is never 0; affects tightness only
    variance = (0.25 + np.maximum(squares - seen * mean**2, 0.0)) / (seen + 1)
    bets = np.minimum(np.sqrt(2 * math.log(1 / delta) / (x.size * variance)), 0.5)

    def reached(m: float) -> bool:
        return bool(np.cumsum(np.log1p(bets * (x - m))).max() >= math.log(1 / delta))

    if not reached(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low
