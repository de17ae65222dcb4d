"""Bounds of the l1 and l2 calibration error from exact tails: the sharpest for one class.

Notation is that of `calibrant.stats.bounds`. Let D be the squared or the absolute error of a table,
rounded to units, and W_B the worst tail of `calibrant.stats.tails`, with a penalty p of index q.
Then P(D <= c | N) <= W_B(c) exp(-sum N_j p(e_j)) for every c, and W_B grows with c. So

    reject t  if  log W_B(D) <= log(delta) + n p(t)

rejects the true t with probability at most delta:

* Sample: p(e) = q |e|^m, and sum N_j p(e_j) = n p(t_N), where t_N^m = sum (N_j / n) |e_j|^m.
* Population: p(e) = -log(1 - q |e|^m), and exp(-sum N_j p(e_j)) = prod (1 - q |e_j|^m)^N_j has the
  mean (1 - q t^m)^n over multinomial counts, whatever the masses, those of outputs never seen
  included. That needs a q that does not depend on the counts; D may.

For lower bounds the tail is P(D >= c | N), and q < 0. No moment is bounded by Markov's inequality,
so for the same q the bound is never worse than the exponential one.

**Ranges.** Errors are tested in ranges, with one q for each: within a range what is rejected is all
above (for lower bounds below) some t, and ranges are gone through until one is not rejected whole.
Ranges and their q are formulas in what is known before the rows (for the sample: before their
labels). They suit normal statistics, for which the worst tail has a closed form, and affect
tightness only. Errors far above, and far below, what a calibrated model is bounded by are tested by
the exponential bound instead. Which test an error gets is fixed beforehand, so that the whole error
probability serves each. log W is convex in q, which spares most ranges: between two that were
computed, the chord is an upper bound.

**Few labels vary.** Outputs near 0 or 1 have little label noise and deserve a larger q, but
1 - q e^2 must be positive for every possible e: unless masses are known, an output of mass 3 / n
whose error is 1 goes unseen one time in twenty, and no bound can lie below sqrt(3 / n). If every
mass is at least p, then |e_j|^m <= t^m / p, the reach, and q < p / t^m will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np
from scipy import special

from calibrant._types import FloatArray
from calibrant.stats.bounds import (
    ETA,
    SMALLEST,
    lower_bound_from,
    lower_bound_l1,
    smallest_accepted,
    upper_bound_between,
)
from calibrant.stats.bounds_l1 import upper_bound_l1_between
from calibrant.stats.evidence import Evidence, Setting
from calibrant.stats.tails import Blocks, Penalty, Scale, Side, Tail

MOST_BINS = 400
"""Tests are planned for so many outputs at most: beyond, exact tails gain nothing."""
MOST_ROWS_OF_BIN = 1e10
"""Beyond, rounding errors of log probabilities would have to be allowed for visibly."""
USUAL_VARIANCE = 0.2
"""Of a label, where outputs are not known before the rows; affects tightness, not validity."""
_LEAST_VARIANCE = 1e-5
"""Outputs next to 0 and 1 are tuned for as if labels varied by that much."""

# These trade tightness for time, and none of them affects validity.
_CELLS = 64  # at least: whole numbers up to the D at which t is about to be rejected
_CELLS_OF_BIN = 2.0  # at least, per bin: then rounding adds a hundredth to the variance of D
_LARGEST_Q = 0.95  # of that with which a bin's term grows with its rows, outputs being unknown
_LARGEST_KNOWN_Q = 0.8  # of the same for outputs that are known, some of them near 0 or 1
_SCOPES = 6  # scopes by which errors double: bins are off by no more than their scope allows
_SPARE = 3.0  # masses this many times below a nominal one leave 1 - q e^2 positive
_FRACTIONS = np.geomspace(1e-3, 1.0, 40)  # of a reach, at which the largest q is found
_RATIOS = ((4.0, 1.2), (0.4, 1.06), (0.15, 1.2))  # of a range's ends, by t / usual bound
_FAR, _NEAR = 10.0, 0.15  # usual bounds: errors beyond are left to exponential bounds
_LARGE_Q = 2.0  # twice what is possible without masses; there learning them pays
_MOST_LAMBDA = 1e4  # noncentrality beyond which a normal law will do for tuning
_WIDEST = 24.0  # standard deviations of a bin that right tails of the absolute error tell apart


@dataclass(frozen=True, eq=False)
class Plan:
    """What ranges and their q are chosen by: known before labels, or before any row.

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
        s = np.zeros(1) if self.levels is None else self.levels
        mass = self.shares if self.shares is not None and not bent else self.nominal_mass
        reach = _largest(_rounded_up(t), np.asarray(mass), error) ** (1 / error.power)
        e = np.broadcast_to(reach, s.shape)[:, None] * _FRACTIONS
        away = np.inf
        for rate in (s[:, None] + e, s[:, None] - e):
            rate = np.where((rate >= 0) & (rate <= 1), rate, np.nan)
            kl = special.kl_div(s[:, None], rate) + special.kl_div(1 - s[:, None], 1 - rate)
            allowed = -np.expm1(-kl) if bent else kl
            away = min(away, float(np.nanmin(allowed / e**error.power, initial=np.inf)))
        if self.levels is None:
            return _LARGEST_Q * away
        # 1 - q e^2 must not be negative for any output, seen or not
        possible = np.minimum(reach, np.maximum(s, 1 - s)).max() ** error.power
        return min(_LARGEST_KNOWN_Q * away, _LARGEST_Q / float(possible) if bent else np.inf)

    def settled(self, bound: Callable[[float], float]) -> float:
        """Return a t with t = bound(variance(t)), or about that."""
        t = 0.1
        for _ in range(30):
            t = min(math.sqrt(t * bound(self.variance(t))), 1.0)
        return t


class Squared:
    """How the squared error is tested, by the noncentral chi-squared law of normal bins."""

    power = 2
    most_bins: ClassVar = {"left": MOST_BINS, "right": MOST_BINS}

    @staticmethod
    def usual(plan: Plan) -> float:
        """Return about the upper bound of a calibrated model."""
        noncentrality = float(special.chndtrinc(plan.n_bins, plan.n_bins, plan.delta))
        if not noncentrality > 0:  # for the most cautious of users
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
        least: float,
        most: float,
        q: float | None = None,
        observed: float | None = None,
    ) -> float | None:
        """Return the largest error in (least, most] that the exponential bound accepts."""
        observed = evidence.squared(ETA) if observed is None else observed
        return upper_bound_between(observed, evidence, setting, max(least, SMALLEST), most, q)

    @staticmethod
    def exponential_lower(evidence: Evidence, setting: Setting, least: float) -> float:
        """Return the smallest error of `least` or more that the exponential bound accepts."""
        return lower_bound_from(least, evidence, setting)

    @staticmethod
    def exponential_within(
        evidence: Evidence, setting: Setting, least: float, most: float, r: float
    ) -> float | None:
        """Return the smallest error in [least, most) that the exponential bound accepts."""
        accepted = smallest_accepted(evidence, setting, evidence.squared(0.0), most, r)
        return max(accepted, least) if accepted < most else None


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
            none, variance = (float(x) for x in _folded(np.array(0.0)))
            spread = noise * math.sqrt((variance * (b - 1) + 1) / b)
            usual = noise / math.sqrt(b) * (b - 1) * none
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
        least: float,
        most: float,
        q: float | None = None,
        observed: float | None = None,
    ) -> float | None:
        """Return the largest error in (least, most] that the exponential bound accepts."""
        return upper_bound_l1_between(evidence, setting, least, most, q)

    @staticmethod
    def exponential_lower(evidence: Evidence, setting: Setting, least: float) -> float:
        """Return the smallest error of `least` or more that McDiarmid's inequality accepts."""
        return max(lower_bound_l1(evidence, setting), least)

    @staticmethod
    def exponential_within(
        evidence: Evidence, setting: Setting, least: float, most: float, r: float
    ) -> float | None:
        """Reject nothing: McDiarmid's inequality bounds no tail of the kind."""
        return least


Error: TypeAlias = type[Squared] | type[Absolute]


def _folded(m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of |m + z|, z standard normal."""
    mean = math.sqrt(2 / math.pi) * np.exp(-(m**2) / 2) + m * (2 * special.ndtr(m) - 1)
    return mean, 1 + m**2 - mean**2


def _mills(delta: float) -> float:
    """Return the slope of the log normal tail where it is delta."""
    z = float(special.ndtri(delta))
    return math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / delta


def sharp_upper_bound(
    evidence: Evidence, setting: Setting, error: Error, observed: float | None = None
) -> float:
    """Return u such that the error of one class is at most u with probability 1 - delta.

    `SMALLEST` or less means that every error was rejected.

    Parameters
    ----------
    evidence, setting
        Bins of one class, and what the bound is about.
    error : Squared or Absolute
        Which error.
    observed : float, optional
        The squared error T (`Evidence.squared`) that labels would have, for plans; otherwise that
        of the labels.
    """
    plan = Plan.of(evidence, setting)
    near, far = _ends(error.usual(plan)) if _suits(plan, evidence) else (0.0, 0.0)
    found = error.exponential_upper(evidence, setting, far, 1.0, observed=observed)
    if found is None and far > 0:
        found = TailTests.of(evidence, setting, plan, error, "left").first_open(observed)
    if found is None and near > 0:
        found = error.exponential_upper(evidence, setting, 0.0, near, observed=observed)
    return found or SMALLEST


def sharp_lower_bound(evidence: Evidence, setting: Setting, error: Error) -> float:
    """Return l such that the error of one class is at least l with probability 1 - delta."""
    plan = Plan.of(evidence, setting)
    if not _suits(plan, evidence):
        return error.exponential_lower(evidence, setting, 0.0)
    if evidence.squared(1.0) <= 0:  # 0 is a lower bound, whatever the rows
        return 0.0
    tests = TailTests.of(evidence, setting, plan, error, "right")
    found = tests.first_open()
    if found is None:
        found = error.exponential_lower(evidence, setting, tests.ranges[-1].hi)
    return found


def needs_masses(evidence: Evidence, delta: float) -> bool:
    """Whether all outputs are known, and have so little noise that masses should be learned.

    Without masses q is less than 1. The answer is known before the rows.
    """
    if evidence.levels is None:
        return False
    plan = Plan.of(evidence, Setting("population", delta))
    return Squared.tuned(plan, Squared.usual(plan), "left")[0] > _LARGE_Q


def _suits(plan: Plan, evidence: Evidence) -> bool:
    """Whether errors near the usual bound are tested by exact tails: known before the rows."""
    return plan.n_bins <= MOST_BINS and evidence.n <= MOST_ROWS_OF_BIN


def _ends(usual: float) -> tuple[float, float]:
    """Return the ends of what exact tails test."""
    return min(_NEAR * usual, 1.0), min(_FAR * usual, 1.0)


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
        """Return what log W must not exceed for all errors of the range to be rejected."""
        t = self.lo if side == "left" else self.hi
        return math.log(plan.delta) + plan.n * float(self.penalty(np.array(t)))

    def open_end(self, log_w: float, plan: Plan) -> float:
        """Return the last error of the range that is not rejected."""
        t = self.penalty.inverse((log_w - math.log(plan.delta)) / plan.n)
        return min(max(t, self.lo), self.hi)


@dataclass(frozen=True, eq=False)
class TailTests:
    """The tests of errors near the usual bound, for the bins of `evidence`; labels play no part.

    Attributes
    ----------
    ranges : list of Range
        In the order of testing: downwards for upper bounds, from 0 upwards for lower bounds.
    """

    evidence: Evidence
    setting: Setting
    plan: Plan
    error: Error
    side: Side
    ranges: list[Range]

    @classmethod
    def of(
        cls, evidence: Evidence, setting: Setting, plan: Plan, error: Error, side: Side
    ) -> TailTests:
        """Choose ranges and their q by the plan, and units by the bins."""
        bent = setting.target == "population"
        # D depends on the counts, so its unit may: that of the bins that are occupied.
        own = Plan.by_counts(evidence, setting.delta)
        knows_masses = setting.target == "sample" or bool(np.any(setting.least_mass))
        ranges, usual = [], error.usual(plan)
        for lo, hi in _steps(usual, side):
            t = math.sqrt(max(lo, hi / 4) * hi)
            q, _ = error.tuned(plan, t, side)
            if side == "left":
                q = min(q, plan.largest_q(hi, error, bent))
            # right tails are heavier than normal ones where outputs are near 0 and 1
            d = error.tuned(own, t if side == "left" else max(t, usual), side)[1]
            ratio = _unit_ratio(evidence)
            unit = ratio ** math.floor(math.log(d / _n_cells(evidence), ratio))
            scope = _rounded_up(hi) if knows_masses else 1.0
            ranges.append(Range(lo, hi, Penalty(error.power, q, bent), unit, scope))
        return cls(evidence, setting, plan, error, side, ranges)

    def reach(self, scope: float) -> FloatArray | float:
        """Return what the error of each bin cannot exceed."""
        if self.side == "right":
            return 1.0
        mass = self.evidence.mass if self.setting.target == "sample" else self.setting.least_mass
        return _largest(scope, np.asarray(mass), self.error) ** (1 / self.error.power)

    def log_bounds(self, tail: Tail, each: Range) -> FloatArray:
        """Return log W_B(c) for c = 0, 1, ..."""
        return tail.log_bounds(each.penalty, self.reach(each.scope))

    def scales(self, unit: float) -> list[Scale]:
        """Return the statistic of every bin in these units."""
        return self.error.scales(self.evidence, unit, self.side)

    @property
    def most(self) -> int:
        """The largest D with which errors may be rejected (left), or from which on they are."""
        spare = 1.5 if self.side == "left" else 3.0
        return int(spare * _unit_ratio(self.evidence) * _n_cells(self.evidence))

    def runs(self) -> Iterator[list[Range]]:
        """Yield neighbours with the same unit and reach."""
        start = 0
        for i in range(1, len(self.ranges) + 1):
            if i == len(self.ranges) or _kind(self.ranges[i]) != _kind(self.ranges[start]):
                yield self.ranges[start:i]
                start = i

    def first_open(self, squared: float | None = None) -> float | None:
        """Return the bound: the first error that is not rejected; None if all are.

        Parameters
        ----------
        squared : float, optional
            The squared error to be had, instead of that of the labels.
        """
        if self.evidence.s.size > self.error.most_bins[self.side]:
            return self._first_open_exponentially()
        blocks = Blocks()
        for run in self.runs():
            scales = self.scales(run[0].unit)
            observed = self._observed(scales, run[0].unit, squared)
            if self.side == "left" and observed > self.most:
                return run[0].hi
            most = min(observed, self.most)
            # most runs are rejected at first sight, and the others almost as far as can be
            sight = Tail.of(scales, most, self.side, coarse=True, blocks=blocks)
            first = self._first_open_of(run, sight)
            if first is None:
                continue
            tail = Tail.of(scales, most, self.side, blocks=blocks)
            for each in run[first:]:
                log_w = float(self.log_bounds(tail, each)[-1])
                if log_w > each.log_limit(self.plan, self.side):
                    return each.open_end(log_w, self.plan)
        return None

    def _observed(self, scales: Sequence[Scale], unit: float, squared: float | None) -> int:
        """Return D in these units."""
        if squared is not None:  # D is n T and a constant: that of no events, say
            added = sum(x.factor * x.centre**2 - x.size * x.s**2 / unit for x in scales)
            return max(round(self.evidence.n * squared / unit + added), 0)
        events = np.rint(self.evidence.rate * self.evidence.size)
        return sum(int(x.of(k[None])[0]) for x, k in zip(scales, events, strict=True))

    def _first_open_exponentially(self) -> float | None:
        """Return about the same for bins too many: the same q, W bounded by Markov's inequality.

        Which tests there are must not depend on the counts; how well W is bounded may.
        """
        for each in self.ranges:
            q, ends = each.penalty.q, (each.lo, each.hi)
            if self.side == "left":
                found = self.error.exponential_upper(self.evidence, self.setting, *ends, q)
            else:
                found = self.error.exponential_within(self.evidence, self.setting, *ends, -q)
            if found is not None:
                return found
        return None

    def _first_open_of(self, ranges: Sequence[Range], tail: Tail) -> int | None:
        """Return the index of the first range that is not rejected whole; None if all are."""
        limits = [each.log_limit(self.plan, self.side) for each in ranges]
        known: dict[int, float] = {}

        def log_w(i: int) -> float:
            if i not in known:
                known[i] = float(self.log_bounds(tail, ranges[i])[-1])
            return known[i]

        def search(first: int, last: int) -> int | None:
            """Return the first of first + 1 .. last that is not rejected, first being so."""
            if last == first:
                return None
            ends = sorted((ranges[i].penalty.q, log_w(i)) for i in (first, last))
            q = np.array([each.penalty.q for each in ranges[first + 1 : last + 1]])
            chord = np.interp(q, [q for q, _ in ends], [height for _, height in ends])
            if np.all(chord <= limits[first + 1 : last + 1]):
                return None
            if last == first + 1:
                return last
            middle = (first + last) // 2
            found = search(first, middle)
            return found if found is not None else search(middle, last)

        return 0 if log_w(0) > limits[0] else search(0, len(ranges) - 1)


def _n_cells(evidence: Evidence) -> int:
    return max(_CELLS, math.ceil(_CELLS_OF_BIN * evidence.s.size))


def _unit_ratio(evidence: Evidence) -> float:
    """Return the ratio of neighbouring units: few bins are quicker with fewer units."""
    return 4.0 if evidence.s.size <= 32 else 2.0


def _kind(item: Range) -> tuple[float, float]:
    return item.unit, item.scope


def _largest(t: float, mass: FloatArray, error: Error) -> FloatArray:
    """Return what |e_j|^m cannot exceed if the error is t, given lower bounds of the masses."""
    square = t**error.power
    return np.asarray(np.where(mass > square, square / np.maximum(mass, square), 1.0))


def _rounded_up(t: float) -> float:
    """Return the scope of t: neighbouring ranges share one."""
    return float(2.0 ** (math.ceil(_SCOPES * math.log2(t)) / _SCOPES))


def _steps(usual: float, side: Side) -> list[tuple[float, float]]:
    """Return the ends of the ranges: fine where calibrated models are bounded."""
    least, most = _ends(usual)
    ends = [most]
    for multiple, ratio in _RATIOS:
        while ends[-1] > multiple * usual:
            ends.append(max(ends[-1] / ratio, least))
    if side == "right":
        ends.append(0.0)
    steps = [(lo, hi) for hi, lo in pairwise(ends) if lo < hi]
    return steps if side == "left" else steps[::-1]
