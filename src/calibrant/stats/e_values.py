"""Evidence against a small calibration error, from tilts of the labels in bins.

Given its prediction f_i, the event of row i has the probability pi_i, and e_i = pi_i - f_i. The
error t is the mean of |e| (l1), or the root of the mean of e^2 (l2). If t is small, events cannot
stray far from the predictions in any bins. Everything is conditional on the predictions.

**Penalties.** A penalty is a convex function G, with a slope that q sets, and a cost:

==================  ==========================================  ===========================
error               G(e)                                        cost(t)
==================  ==========================================  ===========================
l2, these rows      q e^2                                       n q t^2
l2, population      the largest convex function below           n log(1 + q t^2)
                    log(1 + q e^2) on [-1, 1]
l1, these rows      q |e|                                       n q t
l1, population      q |e|                                       n log(1 + (exp(q) - 1) t)
==================  ==========================================  ===========================

For these rows, sum G(e_i) is the cost. For the population, E exp(sum G(e_i)) <= exp(cost): in the
second line exp(G(e)) <= 1 + q e^2, in the last exp(q |e|) <= 1 + (exp(q) - 1) |e| by convexity,
and rows are independent.

**One tilt.** For a bin of N rows with mean prediction s, and a tilt theta, the function
phi(pi) = log(1 + pi (exp(theta) - 1)) - G(pi - s) is concave. Rows are independent, so with K the
number of events log E exp(theta K) is the sum of log(1 + pi_i (exp(theta) - 1)), which is at most
the sum of G(e_i) plus N phi at the mean of pi_i: Jensen's inequality, for the logarithm and for
-G. (It is the statement that a binomial count has the largest exponential moments, Hoeffding 1956.)

**Several tilts.** Let F(K) = sum over m of exp(theta_m K - N phi_m*), with phi_m* the maximum of
phi_m, and C = max over pi of log sum exp(N (phi_m(pi) - phi_m*)). Then the mean of F exp(-C) is at
most exp(sum of G(e_i) in the bin). Tilts are chosen such that phi_m peaks at evenly spaced rates:
then the maximum over pi is flat, and F rises like the exponential of a squared error, with the
right variance at every rate. C is enclosed from above: phi_m lies below its tangent in the middle
of a short interval, and a sum of exponentials of linear functions is largest at an end of it;
outside of the outermost peaks all terms fall.

**One binning** multiplies these over bins: E = exp(sum (log F_j - C_j) - cost(t)) has a mean of at
most 1 if the error is t. For the population q must be fixed without looking at the
predictions; all else may depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.stats.estimators import Target

_SPACING = 1.5
"""Between the peaks of two tilts, in standard deviations that a tilt resolves; tightness only."""
_HALF_CELL = 0.25
"""Half the length of an interval of rates in the enclosure, as a share of 1 / sqrt(N q), for one
bin; less by the fourth root of their number for more. The excess is about half its square in
each bin: 0.03 for one, 0.25 for 64. Affects tightness only, never validity."""
_MOST_AT_STAKE = 0.9
"""Of what a tilt can lose on one row; affects tightness only, never validity."""
_BLOCK = 1 << 21
"""Numbers of a matrix at a time, 16 MB."""
_SLACK = 1e-6
"""Added to every exponent, far above what rounding can take away."""


@dataclass(frozen=True)
class TiltPenalty:
    """G and cost(t) of the table above, for one q."""

    power: float
    target: Target
    q: float

    @cached_property
    def _corner(self) -> float:
        """Where the largest convex function below log(1 + q e^2) becomes a line up to e = 1."""
        if self.target == "sample" or self.q <= 1:
            return 1.0
        low, high = 0.0, 1 / math.sqrt(self.q)
        for _ in range(60):
            e = (low + high) / 2
            bent = 1 + self.q * e**2
            below = math.log(bent) + (1 - e) * 2 * self.q * e / bent < math.log1p(self.q)
            low, high = (e, high) if below else (low, e)
        return low  # a line that starts too early lies below G, so the bound still holds

    def value(self, e: FloatArray) -> FloatArray:
        """Return G(e), for l2."""
        if self.target == "sample":
            return self.q * e**2
        inner = np.clip(e, -self._corner, self._corner)
        return np.asarray(np.log1p(self.q * inner**2) + self.slope(inner) * (e - inner))

    def slope(self, e: FloatArray) -> FloatArray:
        """Return the derivative of G at e, for l2."""
        if self.target == "sample":
            return 2 * self.q * e
        inner = np.clip(e, -self._corner, self._corner)
        return np.asarray(2 * self.q * inner / (1 + self.q * inner**2))

    def cost(self, n: int, t: float) -> float:
        """Return a bound of log E exp(sum of G) over n rows, if the error is t."""
        if self.power == 1:
            if self.target == "sample":
                return n * self.q * t
            # log(1 + (exp(q) - 1) t), for any q
            return n * (self.q + math.log(t + (1 - t) * math.exp(-self.q)))
        u = self.q * t**2
        return n * (u if self.target == "sample" else math.log1p(u))


@dataclass(frozen=True, eq=False)
class MergedBins:
    """Rows, events and mean prediction of each bin, and the weight of its class."""

    size: FloatArray
    events: FloatArray
    s: FloatArray
    weight: FloatArray


def tilt(rate: FloatArray, slope: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return theta whose phi peaks at `rate`, if G has this slope there, and that peak plus G.

    The derivative of log(1 + pi (exp(theta) - 1)) at the rate is the slope.
    """
    shrink = np.log1p(-rate * slope)
    return np.log1p((1 - rate) * slope) - shrink, -shrink


def log_e_value(binning: Binning, penalty: TiltPenalty, reach: float, least: float) -> float:
    """Return the weighted sum of log F_j - C_j, or -inf if it is less than `least`.

    Tilts are for rates within `reach` of s.
    """
    if penalty.power == 1:
        return _log_e_value_l1(binning, penalty.q)
    bins = binning.merged
    gap, slope, used = _peaks_of_tilts(bins, penalty, reach)
    rate = bins.s[:, None] + gap
    theta, peak = tilt(rate, slope)
    peak = peak - penalty.value(gap)
    size = bins.size[:, None]
    terms = np.where(used, theta * bins.events[:, None] - size * peak, -np.inf)
    seen = float(bins.weight @ _log_sum(terms))
    if seen < least:  # no C_j is negative, because theta = 0 is among the tilts
        return -math.inf
    edges = np.where(used, rate, np.inf).min(axis=1), np.where(used, rate, -np.inf).max(axis=1)
    tilts = theta, np.where(used, peak, np.inf)
    return seen - float(bins.weight @ _highest(bins, penalty, tilts, edges))


def _log_e_value_l1(binning: Binning, q: float) -> float:
    """Tilt all bins inside a merged one up, or all down; either tilt of a bin peaks at its s."""
    fine = binning.fine
    threshold = _MOST_AT_STAKE / q  # a rate below it, 0 and -0.0 among them, leaves q as it is
    up = _MOST_AT_STAKE / np.maximum(fine.s, threshold)
    down = _MOST_AT_STAKE / np.maximum(1 - fine.s, threshold)
    log_terms = []
    for slope in (up, -down):
        theta, peak = tilt(fine.s, slope)
        log_terms.append(np.bincount(binning.place, theta * fine.events - fine.size * peak))
    weight = np.bincount(binning.place, fine.weight) / np.bincount(binning.place)
    return float(weight @ (np.logaddexp(*log_terms) - math.log(2) - _SLACK))


def _peaks_of_tilts(
    bins: MergedBins, penalty: TiltPenalty, reach: float
) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return distances from s, slopes of G there, and which are used, of shape (bins, tilts)."""
    s = bins.s[:, None]
    variance = bins.s * (1 - bins.s)
    # a tilt that peaks at a distance d is the best one for a rate seen at d times this
    stretch = 1 + 2 * penalty.q * variance
    step = _SPACING / np.sqrt(2 * bins.size * penalty.q * stretch)
    farthest = (reach + 3 * np.sqrt((variance + 1 / bins.size) / bins.size)) / stretch
    most = math.ceil(float(np.max(farthest / step)))
    gap = np.arange(-most, most + 1) * step[:, None]
    rate, slope = s + gap, penalty.slope(gap)
    used = (np.abs(gap) < (farthest + step)[:, None]) & (rate >= 0) & (rate <= 1)
    used &= (rate * slope < 1 - 1e-9) & ((1 - rate) * slope > -1 + 1e-9)
    return np.where(used, gap, 0.0), np.where(used, slope, 0.0), used


def _highest(
    bins: MergedBins,
    penalty: TiltPenalty,
    tilts: tuple[FloatArray, FloatArray],
    edges: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Return C of each bin, or a little more: see the top of this module."""
    lowest, highest = edges
    length = 2 * _HALF_CELL / bins.weight.sum() ** 0.25 / np.sqrt(bins.size * penalty.q)
    n_cells = max(1, math.ceil(float(np.max((highest - lowest) / length))))
    height = np.empty(bins.s.size)
    rows = max(1, _BLOCK // (n_cells * tilts[0].shape[1]))
    for start in range(0, bins.s.size, rows):
        part = slice(start, start + rows)
        half = ((highest - lowest)[part] / (2 * n_cells))[:, None]
        middle = lowest[part, None] + half * (2 * np.arange(n_cells) + 1)
        size = bins.size[part, None, None]
        odds, peak = np.expm1(tilts[0][part, None, :]), tilts[1][part, None, :]
        gap = middle - bins.s[part, None]
        moment = 1 + middle[:, :, None] * odds
        value = np.log(moment) - penalty.value(gap)[:, :, None] - peak
        slope = (odds / moment - penalty.slope(gap)[:, :, None]) * half[:, :, None]
        ends = np.maximum(_log_sum(size * (value - slope)), _log_sum(size * (value + slope)))
        height[part] = ends.max(axis=1)
    return height + _SLACK


def _log_sum(x: FloatArray) -> FloatArray:
    """Return the log of the sum of exponentials along the last axis, one of which is finite."""
    top = x.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(x - top).sum(axis=-1)))


@dataclass(frozen=True, eq=False)
class ClassSums:
    """The weight of a class, and sums over neighbouring predictions, in rising order.

    Attributes
    ----------
    weight : float
    size, events, predicted : ndarray
        Rows, events, and the sum of predictions p.
    noise : ndarray
        The sum of p (1 - p).
    """

    weight: float
    size: FloatArray
    events: FloatArray
    predicted: FloatArray
    noise: FloatArray

    def places(self, n_bins: int) -> IntArray:
        """Return the merged bin of each neighbour if there are to be about n_bins.

        Cuts lie where the sum of sqrt(p (1 - p)) over rows reaches equal shares. That is between
        equal numbers of rows, too coarse where rare events are predicted, and equal variances,
        too coarse where hardly any are. Both were tried, this was at least as good everywhere.
        """
        if n_bins >= self.size.size:
            return np.arange(self.size.size)
        share = self.size * np.sqrt(self.noise / self.size + 1 / self.size.sum())
        middle = (np.cumsum(share) - share / 2) / share.sum()
        _, place = np.unique((middle * n_bins).astype(np.intp), return_inverse=True)
        return place


@dataclass(frozen=True, eq=False)
class Binning:
    """Bins of all classes, as they are and merged into at most n_bins of each class."""

    fine: MergedBins
    place: IntArray
    n_bins: int

    @classmethod
    def of(cls, classes: Sequence[ClassSums], n_bins: int) -> Binning:
        """Merge neighbours within each class."""
        places, start = [], 0
        for sums in classes:
            places.append(start + sums.places(n_bins))
            start = int(places[-1].max()) + 1
        size, events, predicted = (
            np.concatenate([vars(sums)[name] for sums in classes])
            for name in ("size", "events", "predicted")
        )
        weights = np.array([sums.weight for sums in classes])
        weight = np.repeat(weights, [sums.size.size for sums in classes])
        fine = MergedBins(size, events, np.clip(predicted / size, 0.0, 1.0), weight)
        return cls(fine, np.concatenate(places), n_bins)

    @cached_property
    def merged(self) -> MergedBins:
        """The merged bins."""
        fine = self.fine
        size, events, predicted, weight = (
            np.bincount(self.place, x).astype(np.float64)
            for x in (fine.size, fine.events, fine.s * fine.size, fine.weight)
        )
        s = np.clip(predicted / size, 0.0, 1.0)
        return MergedBins(size, events, s, weight / np.bincount(self.place))
