"""Which errors are tested together by exact tails, and how: chosen before the labels are seen.

Any choice is valid; these suit normal statistics, for which the worst tail has a closed form. See
`calibrant.stats.tail_bounds` for what is tested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.stats.binomial_laws import Scale
from calibrant.stats.bounds import (
    ETA,
    lower_bound,
    smallest_accepted,
    smallest_error,
    upper_bound_between,
)
from calibrant.stats.bounds_l1 import lower_bound_l1, upper_bound_l1_between
from calibrant.stats.questions import Evidence, Setting, largest_power
from calibrant.stats.tails import Penalty, Side

Ends: TypeAlias = tuple[float, float]
"""The smallest and the largest error of a range."""

MOST_BINS = 400
"""Tests are planned for so many outputs at most: beyond, exact tails gain nothing."""
USUAL_VARIANCE = 0.2
"""Of a label, where outputs are not known before the rows; affects tightness, not validity."""
_CELLS = 64
"""At least: whole numbers up to the D at which t is rejected. Affects tightness only."""
_CELLS_OF_BIN = 2.0
"""At least, per bin: then rounding adds a hundredth to the variance of D. Tightness only."""
_LARGE_Q = 2.0
"""Twice what is possible without masses; there learning them pays. Affects tightness only."""
_LEAST_VARIANCE = 1e-5
"""Outputs next to 0 and 1 are tuned for as if labels varied that much; tightness only."""

# These trade tightness for time, and none of them affects validity.
_LARGEST_Q = 0.95  # of that with which a bin's term grows with its rows, outputs being unknown
_LARGEST_KNOWN_Q = 0.8  # of the same for outputs that are known, some of them near 0 or 1
_SCOPES = 6  # scopes by which errors double: bins are off by no more than their scope allows
_SPARE = 3.0  # masses this many times below a nominal one leave 1 - q e^2 positive
_FRACTIONS = np.geomspace(1e-3, 1.0, 40)  # of a reach, at which the largest q is found
_RATIOS = ((4.0, 1.2), (0.4, 1.06), (0.15, 1.2))  # of a range's ends, by t / usual bound
_FAR, _NEAR = 10.0, 0.15  # usual bounds: errors beyond are left to exponential bounds
_MOST_LAMBDA = 1e4  # noncentrality beyond which a normal law will do for tuning
_WIDEST = 24.0  # standard deviations of a bin that right tails of the absolute error tell apart


@dataclass(frozen=True, eq=False)
class Plan:
    """The facts by which ranges and their q are chosen, known before labels or before any row.

    Attributes
    ----------
    n, n_bins : int
        Rows and outputs.
    delta : float
        The error probability.
    nominal_mass : float
        q is positive for all errors that such a least mass allows; 0 if nothing is known.
    levels, shares : ndarray, optional
        Outputs, and about how likely they are, if that is known.
    """

    n: int
    n_bins: int
    delta: float
    nominal_mass: float = 0.0
    levels: FloatArray | None = None
    shares: FloatArray | None = None

    @classmethod
    def of(cls, evidence: Evidence, setting: Setting) -> Plan:
        """Return the plan of a bound: for the sample it suits the outputs and their counts."""
        if setting.target == "sample":
            return cls.by_counts(evidence, setting.delta)
        nominal = float(np.min(setting.least_mass))
        if setting.nominal_mass is not None:
            nominal = setting.nominal_mass / _SPARE
        levels, n_bins, shares = evidence.levels, evidence.n_planned, None
        if levels is not None:
            n_bins, shares = levels.size, np.full(levels.size, 1 / levels.size)
        return cls(evidence.n, n_bins, setting.delta, nominal, levels, shares)

    @classmethod
    def by_counts(cls, evidence: Evidence, delta: float) -> Plan:
        """Return the plan that knows the counts."""
        return cls(evidence.n, evidence.s.size, delta, 0.0, evidence.s, evidence.mass)

    def variance(self, t: float) -> float:
        """Return about the variance of a label, on average, where predictions are off by t.

        Outputs next to 0 and 1 have no noise of their own to speak of: errors bring it.
        """
        if self.levels is None or self.shares is None:
            return USUAL_VARIANCE
        rate = self.levels + np.clip(0.5 - self.levels, -t, t)
        return float(np.clip(self.shares @ (rate * (1 - rate)), _LEAST_VARIANCE, 0.25))

    def largest_q(self, t: float, error: Error, bent: bool) -> float:
        """Return a q with which no bin's term of W grows with its rows.

        A bin that is off by e looks calibrated with a probability of about exp(-N KL(s, s + e)),
        which the penalty must not outweigh for any e within reach.
        """
        mass = self.shares if self.shares is not None and not bent else self.nominal_mass
        reach = largest_power(scope_of(t), mass, error.power) ** (1 / error.power)
        if self.levels is None:
            return _LARGEST_Q * _allowed_at_zero(float(reach), error.power, bent)
        s, largest = self.levels, np.inf
        # the absolute error of a small e outweighs its KL, about e^2 / 2v, whatever q is, and by
        # little: normal statistics allow for that
        if error.power == 2:
            largest = _LARGEST_KNOWN_Q * _allowed(s, reach, error.power, bent)
        # 1 - q e^2 must not be negative for any output, seen or not
        possible = np.minimum(reach, np.maximum(s, 1 - s)).max() ** error.power
        return min(largest, _LARGEST_Q / float(possible) if bent else np.inf)

    def settled(self, bound: Callable[[float], float]) -> float:
        """Return a t with t = bound(variance(t)), or about that."""
        t = 0.1
        for _ in range(30):
            t = min(math.sqrt(t * bound(self.variance(t))), 1.0)
        return t


def _allowed(s: FloatArray, reach: FloatArray | float, power: int, bent: bool) -> float:
    """Return the largest q whose penalty KL(s, s + e) outweighs for all e within reach of any s."""
    # below 1e-6 the KL of a float is rounding, and its ratio to e^2 has long been what it is at 0
    e = np.maximum(np.broadcast_to(reach, s.shape)[:, None] * _FRACTIONS, 1e-6)
    largest = np.inf
    for rate in (s[:, None] + e, s[:, None] - e):
        rate = np.where((rate >= 0) & (rate <= 1), rate, np.nan)
        kl = special.kl_div(s[:, None], rate) + special.kl_div(1 - s[:, None], 1 - rate)
        allowed = -np.expm1(-kl) if bent else kl
        largest = min(largest, float(np.nanmin(allowed / e**power, initial=np.inf)))
    return largest


@lru_cache(maxsize=1024)
def _allowed_at_zero(reach: float, power: int, bent: bool) -> float:
    """Return `_allowed` of an output of 0; ranges, and groups of an audit, share few reaches."""
    return _allowed(np.zeros(1), reach, power, bent)


class Squared:
    """How the squared error is tested, by the noncentral chi-squared law of normal bins."""

    power = 2
    most_bins: ClassVar = {"left": MOST_BINS, "right": MOST_BINS}

    @staticmethod
    def usual(plan: Plan) -> float:
        """Return about the upper bound of a calibrated model."""
        noncentrality = float(special.chndtrinc(plan.n_bins, plan.n_bins, plan.delta))
        if not noncentrality > 0:  # SciPy has no answer for the smallest delta
            z = -float(special.ndtri(plan.delta))
            noncentrality = z * (z + math.sqrt(2 * plan.n_bins))
        return plan.settled(lambda v: math.sqrt(noncentrality * v / plan.n))

    @staticmethod
    def tuned(plan: Plan, t: float, side: Side) -> tuple[float, float]:
        """Return (q, D): the slope of the log tail where it is delta, and that value of D."""
        v = plan.variance(t)
        b, noncentrality = plan.n_bins, plan.n * t**2 / v
        sign = 1 if side == "left" else -1
        d = change = math.nan
        if noncentrality < _MOST_LAMBDA:
            tail = plan.delta if side == "left" else 1 - plan.delta
            d = float(special.chndtrix(tail, b, noncentrality))
            after = float(special.chndtr(d, b + 2, noncentrality))
            after = after if side == "left" else 1 - after
            change = sign * (1 - after / plan.delta)
        if not (d > 0 and 1e-6 < change < 1e6):
            z, spread = -float(special.ndtri(plan.delta)), math.sqrt(2 * (b + 2 * noncentrality))
            d = max(b + noncentrality - sign * z * spread, 0.1)
            change = 2 * _mills(plan.delta) / spread
        return sign * change / (2 * v), d * v

    @staticmethod
    def scales(evidence: Evidence, unit: float, side: Side) -> list[Scale]:
        """Return the statistic of every bin."""
        eta = ETA if side == "left" else 0.0
        pairs = zip(evidence.size, evidence.s, strict=True)
        return [Scale.squared(int(size), float(s), unit, eta) for size, s in pairs]

    @staticmethod
    def exponential_upper(
        evidence: Evidence,
        setting: Setting,
        ends: Ends,
        q: float | None = None,
        observed: float | None = None,
    ) -> float | None:
        """Return the largest error between these ends that the exponential bound accepts."""
        observed = evidence.squared(ETA) if observed is None else observed
        least = max(ends[0], smallest_error(evidence.n))
        return upper_bound_between(observed, evidence, setting, least, ends[1], q)

    @staticmethod
    def exponential_lower(evidence: Evidence, setting: Setting, least: float) -> float:
        """Return the smallest error of `least` or more that the exponential bound accepts."""
        return lower_bound(evidence, setting, least)

    @staticmethod
    def exponential_within(
        evidence: Evidence, setting: Setting, ends: Ends, r: float
    ) -> float | None:
        """Return the smallest error between these ends that the exponential bound accepts."""
        accepted = smallest_accepted(evidence, setting, evidence.squared(0.0), ends[1], r)
        return max(accepted, ends[0]) if accepted < ends[1] else None


class Absolute:
    """How the absolute error is tested, by the folded normal law of bins.

    The left tail is largest where all bins are off alike (E|z + m| is convex in m), the right tail
    where one bin has all of the error.
    """

    power = 1
    # left tails of more take seconds: one bin may be off by all of the error
    most_bins: ClassVar = {"left": 40, "right": MOST_BINS}

    @staticmethod
    def usual(plan: Plan) -> float:
        """Return about the upper bound of a calibrated model."""
        m = np.linspace(0, 8, 400)
        mean, variance = _folded(m)
        low = mean + special.ndtri(plan.delta) * np.sqrt(variance / plan.n_bins)
        shift = float(np.interp(mean[0], low, m))
        return plan.settled(lambda v: shift * math.sqrt(v * plan.n_bins / plan.n))

    @staticmethod
    def tuned(plan: Plan, t: float, side: Side) -> tuple[float, float]:
        """Return (q, D): the slope of the log tail where it is delta, and that value of D."""
        v = plan.variance(t)
        b, noise = plan.n_bins, math.sqrt(plan.n * v)
        z, steepness = -float(special.ndtri(plan.delta)), _mills(plan.delta)
        if side == "right":
            mean, variance = (float(x) for x in _folded(np.array(0.0)))
            spread = noise * math.sqrt((variance * (b - 1) + 1) / b)
            usual = noise / math.sqrt(b) * (b - 1) * mean
            return -steepness / spread, usual + plan.n * t + z * spread
        m = t * math.sqrt(plan.n / (v * b))
        mean, variance = (float(x) for x in _folded(np.array(m)))
        q = steepness * (2 * float(special.ndtr(m)) - 1) / (math.sqrt(variance) * noise)
        return q, noise * max(math.sqrt(b) * mean - z * math.sqrt(variance), 0.1)

    @staticmethod
    def scales(evidence: Evidence, unit: float, side: Side) -> list[Scale]:
        """Return the statistic of every bin."""
        widest = _WIDEST if side == "right" else math.inf
        pairs = zip(evidence.size, evidence.s, strict=True)
        return [Scale.absolute(int(size), float(s), unit, widest) for size, s in pairs]

    @staticmethod
    def exponential_upper(
        evidence: Evidence,
        setting: Setting,
        ends: Ends,
        q: float | None = None,
        observed: float | None = None,
    ) -> float | None:
        """Return the largest error between these ends that the exponential bound accepts."""
        return upper_bound_l1_between(evidence, setting, *ends, q)

    @staticmethod
    def exponential_lower(evidence: Evidence, setting: Setting, least: float) -> float:
        """Return the smallest error of `least` or more that McDiarmid's inequality accepts."""
        return max(lower_bound_l1(evidence, setting), least)

    @staticmethod
    def exponential_within(
        evidence: Evidence, setting: Setting, ends: Ends, r: float
    ) -> float | None:
        """Reject nothing: McDiarmid's inequality bounds no tail of the kind."""
        return ends[0]


Error: TypeAlias = type[Squared] | type[Absolute]


def _folded(m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of |m + z|, z standard normal."""
    mean = math.sqrt(2 / math.pi) * np.exp(-(m**2) / 2) + m * (2 * special.ndtr(m) - 1)
    return mean, 1 + m**2 - mean**2


def _mills(delta: float) -> float:
    """Return the slope of the log normal tail where it is delta."""
    z = float(special.ndtri(delta))
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / delta


def needs_masses(evidence: Evidence, delta: float) -> bool:
    """Whether all outputs are known, and have so little noise that masses should be learned.

    Without masses q is less than 1. The answer is known before the rows.
    """
    if evidence.levels is None:
        return False
    plan = Plan.of(evidence, Setting("population", delta))
    return Squared.tuned(plan, Squared.usual(plan), "left")[0] > _LARGE_Q


@dataclass(frozen=True)
class Range:
    """Errors (lo, hi], tested with one penalty on a statistic rounded to units.

    Attributes
    ----------
    scope : float
        An error that is not smaller: it limits how far a bin can be off, where masses are known.
    """

    lo: float
    hi: float
    penalty: Penalty
    unit: float
    scope: float

    def log_limit(self, plan: Plan, side: Side) -> float:
        """Return the largest log W at which all errors of the range are rejected."""
        t = self.lo if side == "left" else self.hi
        if not replace(self.penalty, reach=t).is_finite:
            return math.inf  # q suits what outputs can be off by, and none can be off by t
        return math.log(plan.delta) + plan.n * float(self.penalty(np.array(t)))

    def open_end(self, log_w: float, plan: Plan) -> float:
        """Return the last error of the range that is not rejected."""
        t = self.penalty.inverse((log_w - math.log(plan.delta)) / plan.n)
        return min(max(t, self.lo), self.hi)


def ends_of(usual: float) -> tuple[float, float]:
    """Return the smallest and the largest error that exact tails test."""
    return min(_NEAR * usual, 1.0), min(_FAR * usual, 1.0)


def scope_of(t: float) -> float:
    """Return the scope of t: neighbouring ranges share one."""
    return float(2.0 ** (math.ceil(_SCOPES * math.log2(t)) / _SCOPES))


def ranges_of(usual: float, side: Side) -> list[tuple[float, float]]:
    """Return the ends of the ranges: fine where calibrated models are bounded."""
    least, most = ends_of(usual)
    ends = [most]
    for multiple, ratio in _RATIOS:
        while ends[-1] > multiple * usual:
            ends.append(max(ends[-1] / ratio, least))
    if side == "right":
        ends.append(0.0)
    steps = [(lo, hi) for hi, lo in pairwise(ends) if lo < hi]
    return steps if side == "left" else steps[::-1]


def n_cells(evidence: Evidence) -> int:
    """Return about how many units D has where t is rejected."""
    return max(_CELLS, math.ceil(_CELLS_OF_BIN * evidence.s.size))


def unit_ratio(evidence: Evidence) -> float:
    """Return the ratio of neighbouring units: few bins are quicker with fewer units."""
    return 4.0 if evidence.s.size <= 32 else 2.0
