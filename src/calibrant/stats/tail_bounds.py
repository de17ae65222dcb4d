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

**Masses that are declared.** With the ranges and the q that they have
without masses, the reach alone makes W smaller, or leaves it (its maximum is over fewer rates), so
all that was rejected still is. A larger q may reject more, or much less: that depends on the
counts, which must not choose it. So `_declared_q` compares them at the counts that are planned for
and takes the q that rejects the largest D: there no range that was compared rejects less than
without masses, whatever the labels. At other counts the test is as valid; in a simulated grid its
bound was up to 30% smaller, and 1.3% larger at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

import numpy as np

from calibrant._types import FloatArray
from calibrant.stats.binomial_laws import Blocks, Scale
from calibrant.stats.bounds import smallest_error
from calibrant.stats.questions import Evidence, Setting, largest_power
from calibrant.stats.tail_tuning import (
    MOST_BINS,
    Absolute,
    Error,
    Plan,
    Range,
    Squared,
    ends_of,
    n_cells,
    needs_masses,
    ranges_of,
    scope_of,
    unit_ratio,
)
from calibrant.stats.tails import Penalty, Side, Tail, calibrated_tail

MOST_ROWS_OF_BIN = 1e10
"""Beyond, rounding errors of log probabilities would have to be allowed for visibly."""
_MOST_COMPARED = 40
"""Outputs for which values of q are compared exactly: for more it would take seconds, and a q that
suits them is below that without masses, unless labels hardly vary."""
_N_COMPARED = 3
"""Values of q from that without masses to that of a normal approximation."""
_COMPARED = (0.5, 0.6, 0.7, 0.85, 1.0, 1.2, 1.4, 1.7, 2.5, 5.0)
"""Usual bounds of as many outputs as there can be, at which they are compared; other ranges do as
the nearest. All ranges would take eight times as long."""
_GAIN = 1.03
"""Of the largest D that is rejected: another q must be better by that to be taken, so that it is
still no worse at counts a little off those planned. Tightness only, like those above."""


def sharp_upper_bound(
    evidence: Evidence,
    setting: Setting,
    error: Error,
    observed: float | None = None,
    floor: float = 0.0,
) -> float:
    """Return u such that the error of one class is at most u with probability 1 - delta.

    `smallest_error` or less means that every error was rejected. Plans pass as `observed` the
    squared error T (`Evidence.squared`) that labels would have. A bound that is not above the
    floor may be returned too low.
    """
    plan = Plan.of(evidence, setting)
    near, far = ends_of(error.usual(plan)) if _suits(plan, evidence) else (0.0, 0.0)
    bound = error.exponential_upper(evidence, setting, (far, 1.0), observed=observed)
    if bound is None and far > floor:
        bound = TailTests.of(evidence, setting, plan, error, "left").first_open(observed, floor)
    if bound is None and near > floor:
        bound = error.exponential_upper(evidence, setting, (0.0, near), observed=observed)
    return bound or smallest_error(evidence.n)


def sharp_lower_bound(evidence: Evidence, setting: Setting, error: Error) -> float:
    """Return l such that the error of one class is at least l with probability 1 - delta."""
    plan = Plan.of(evidence, setting)
    if not _suits(plan, evidence):
        return error.exponential_lower(evidence, setting, 0.0)
    if evidence.squared(1.0) <= 0:  # 0 is a lower bound, whatever the rows
        return 0.0
    tests = TailTests.of(evidence, setting, plan, error, "right")
    if not tests.ranges:  # known before the rows, like what suits
        return error.exponential_lower(evidence, setting, 0.0)
    bound = tests.first_open()
    if bound is None:
        bound = error.exponential_lower(evidence, setting, tests.ranges[-1].hi)
    return bound


def _suits(plan: Plan, evidence: Evidence) -> bool:
    """Whether errors near the usual bound are tested by exact tails: known before the rows."""
    return plan.n_bins <= MOST_BINS and evidence.n <= MOST_ROWS_OF_BIN


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
        mass = setting.declared_mass
        if side == "right" or mass == 0:
            return cls._by_plan(evidence, setting, plan, error, side)
        levels = None if evidence.levels is None else tuple(evidence.levels)
        values = _declared_q(
            evidence.n, evidence.n_planned, levels, setting.delta, mass, error.power
        )
        tests = cls._by_plan(evidence, setting, plan, error, side)
        pairs = zip(tests.ranges, values, strict=True)
        ranges = [replace(x, penalty=replace(x.penalty, q=q)) for x, q in pairs]
        return replace(tests, ranges=ranges)

    @classmethod
    def _by_plan(
        cls, evidence: Evidence, setting: Setting, plan: Plan, error: Error, side: Side
    ) -> TailTests:
        bent = setting.target == "population"
        # D depends on the counts, so its unit may: that of the bins that are occupied.
        by_counts = Plan.by_counts(evidence, setting.delta)
        knows_masses = setting.target == "sample" or bool(np.any(setting.least_mass))
        ranges, usual = [], error.usual(plan)
        for lo, hi in ranges_of(usual, side):
            t = math.sqrt(max(lo, hi / 4) * hi)
            q, _ = error.tuned(plan, t, side)
            if side == "left":
                q = min(q, plan.largest_q(hi, error, bent))
            # right tails are heavier than normal ones where outputs are near 0 and 1
            d = error.tuned(by_counts, t if side == "left" else max(t, usual), side)[1]
            ratio = unit_ratio(evidence)
            unit = ratio ** math.floor(math.log(d / n_cells(evidence), ratio))
            scope = scope_of(hi) if knows_masses else 1.0
            ranges.append(Range(lo, hi, Penalty(error.power, q, bent), unit, scope))
        return cls(evidence, setting, plan, error, side, ranges)

    def reach(self, scope: float) -> FloatArray | float:
        """Return the largest error that each bin can have."""
        if self.side == "right":
            return 1.0
        mass = self.evidence.mass if self.setting.target == "sample" else self.setting.least_mass
        return largest_power(scope, mass, self.error.power) ** (1 / self.error.power)

    def log_bounds(self, tail: Tail, tested: Range) -> FloatArray:
        """Return log W_B(c) for c = 0, 1, ...; infinite, which rejects nothing, if none is proved.

        1 - q |e|^m must be positive for outputs without rows too: where their masses are not
        known, whatever q was tuned for, they may be off by all that their predictions leave room
        for.
        """
        if self.side == "left" and np.ndim(self.setting.least_mass) == 0:
            levels = self.evidence.levels
            possible = 1.0 if levels is None else float(np.maximum(levels, 1 - levels).max())
            farthest = min(possible, float(np.max(self.reach(tested.scope))))
            if not replace(tested.penalty, reach=farthest).is_finite:
                return np.full(tail.n_cells, np.inf)
        return tail.log_bounds(tested.penalty, self.reach(tested.scope))

    def scales(self, unit: float) -> list[Scale]:
        """Return the statistic of every bin in these units."""
        return self.error.scales(self.evidence, unit, self.side)

    @property
    def most(self) -> int:
        """The largest D with which errors may be rejected (left), or from which on they are."""
        spare = 1.5 if self.side == "left" else 3.0
        return int(spare * unit_ratio(self.evidence) * n_cells(self.evidence))

    def runs(self) -> Iterator[list[Range]]:
        """Yield neighbours with the same unit and reach."""
        for _, run in groupby(self.ranges, key=lambda tested: (tested.unit, tested.scope)):
            yield list(run)

    def first_open(self, squared: float | None = None, floor: float = 0.0) -> float | None:
        """Return the bound: the first error that is not rejected; None if all are.

        `squared` is a squared error to assume instead of that of the labels; errors up to the
        floor need not be tested.
        """
        if self.evidence.s.size > self.error.most_bins[self.side]:
            return self._first_open_exponentially()
        if self.side == "right":
            unit = self.ranges[0].unit
            observed = min(self._observed(self.scales(unit), unit, None), self.most)
            # no error is rejected from below: W is at least the tail at no error at all
            if calibrated_tail(self.scales(unit), observed) > self.plan.delta:
                return 0.0
        blocks = Blocks()

        @lru_cache(maxsize=2)  # neighbouring runs share them, and they are large
        def tail_in(unit: float, coarse: bool) -> Tail:
            scales = self.scales(unit)
            # the probability of exceeding D does not increase with D
            ceiling = 2 * self.most // 3 if coarse and self.side == "right" else self.most
            most = min(self._observed(scales, unit, squared), ceiling)
            return Tail.of(scales, most, self.side, coarse, blocks)

        for neighbours in self.runs():
            run = [tested for tested in neighbours if tested.hi > floor]
            if not run:
                continue
            unit = run[0].unit
            if self.side == "left" and self._observed(self.scales(unit), unit, squared) > self.most:
                return run[0].hi
            # most runs are rejected at first sight, and the others almost as far as can be
            start = self.first_open_of(run, tail_in(unit, True))
            if start is None:
                continue
            remaining = run[start[0] :]
            first = self.first_open_of(remaining, tail_in(unit, False))
            if first is not None:
                return remaining[first[0]].open_end(first[1], self.plan)
        return None

    def critical(self, tested: Range, tail: Tail) -> int:
        """Return the largest D, in units, with which all errors of the range are rejected."""
        rejects = self.log_bounds(tail, tested) <= tested.log_limit(self.plan, self.side)
        return int(np.flatnonzero(rejects)[-1]) if rejects.any() else -1

    def _observed(self, scales: Sequence[Scale], unit: float, squared: float | None) -> int:
        """Return D in these units."""
        if squared is not None:  # D is n T and a constant: that of no events, say
            added = sum(x.factor * x.centre**2 - x.size * x.s**2 / unit for x in scales)
            return max(round(self.evidence.n * squared / unit + added), 0)
        pairs = zip(scales, self.evidence.events, strict=True)
        return sum(int(scale.of(k[None])[0]) for scale, k in pairs)

    def _first_open_exponentially(self) -> float | None:
        """Return about the same for bins too many: the same q, W bounded by Markov's inequality.

        Which tests there are must not depend on the counts; how well W is bounded may.
        """
        for tested in self.ranges:
            q, ends = tested.penalty.q, (tested.lo, tested.hi)
            if self.side == "left":
                bound = self.error.exponential_upper(self.evidence, self.setting, ends, q)
            else:
                bound = self.error.exponential_within(self.evidence, self.setting, ends, -q)
            if bound is not None:
                return bound
        return None

    def first_open_of(self, ranges: Sequence[Range], tail: Tail) -> tuple[int, float] | None:
        """Return the index of the first range that is not rejected whole, and its log W."""
        limits = np.array([tested.log_limit(self.plan, self.side) for tested in ranges])
        q = np.array([tested.penalty.q for tested in ranges])
        computed: dict[int, float] = {}

        def log_w(i: int) -> float:
            if i not in computed:
                computed[i] = float(self.log_bounds(tail, ranges[i])[-1])
            return computed[i]

        def search(first: int, last: int) -> int | None:
            """Return the first of first + 1 .. last that is not rejected, given that first is."""
            if last == first:
                return None
            ends = np.array(sorted((q[i], log_w(i)) for i in (first, last)))
            inner = slice(first + 1, last + 1)
            chord = np.interp(q[inner], ends[:, 0], ends[:, 1], left=np.inf, right=np.inf)
            doubtful = np.flatnonzero(chord > limits[inner])
            if not doubtful.size:
                return None
            if first + 1 + doubtful[0] == last:  # the one whose log W is known
                return last
            middle = (first + last) // 2
            earlier = search(first, middle)
            return earlier if earlier is not None else search(middle, last)

        if log_w(0) > limits[0]:
            return 0, log_w(0)
        # Without a penalty log W is at most 0. So this line is a chord for right tails, and for
        # left ones it suggests where log W first is too large.
        later = np.flatnonzero(log_w(0) * q / q[0] > limits)
        if self.side == "right" and not later.size:
            return None
        likely = int(later[0]) if later.size else len(ranges) - 1
        index = search(0, likely)
        if index is None:
            index = search(likely, len(ranges) - 1)
        return None if index is None else (index, log_w(index))


@lru_cache(maxsize=16)
def _declared_q(
    n: int, n_planned: int, levels: tuple[float, ...] | None, delta: float, mass: float, power: int
) -> list[float]:
    """Return the q of every range where masses are declared, from what is known before the rows.

    Each is one of a few between that without masses and that which suits normal statistics of as
    many outputs as there can be: the one that rejects the largest D if all are equally likely.
    """
    error: Error = Squared if power == 2 else Absolute  # which a cache cannot be asked by
    most = int(min(1 / mass + 1e-9, _MOST_COMPARED + 1))  # no more outputs can be so likely
    s = (np.arange(most) + 0.5) / most if levels is None else np.array(levels)
    size = np.full(s.size, float(max(n // s.size, 1)))
    declared = None if levels is None else s
    planned = Evidence(n, size, s, s, np.ones(s.size), n_planned, declared)
    setting = Setting("population", delta, mass)
    plan = Plan.of(planned, setting)
    free = TailTests._by_plan(planned, setting, replace(plan, nominal_mass=0.0), error, "left")
    suited = replace(plan, n_bins=min(plan.n_bins, s.size))

    @lru_cache(maxsize=2)
    def tail_in(unit: float) -> Tail:
        return Tail.of(free.scales(unit), free.most, "left", coarse=True)

    def values(tested: Range) -> list[float]:
        t, least = math.sqrt(max(tested.lo, tested.hi / 4) * tested.hi), tested.penalty.q
        most = min(error.tuned(suited, t, "left")[0], plan.largest_q(tested.hi, error, True))
        return [float(q) for q in np.geomspace(least, max(least, most), _N_COMPARED)]

    def best(tested: Range) -> int:
        least, *_, most = values(tested)
        if most == least:
            return 0
        if s.size > _MOST_COMPARED:
            return _N_COMPARED - 1 if needs_masses(planned, delta) else 0
        candidates = [replace(tested, penalty=replace(tested.penalty, q=q)) for q in values(tested)]
        reached = [free.critical(candidate, tail_in(tested.unit)) for candidate in candidates]
        return int(np.argmax(reached)) if max(reached) > _GAIN * reached[0] else 0

    hi = np.log([tested.hi for tested in free.ranges])
    usual = error.usual(suited)
    compared = sorted({int(np.abs(hi - math.log(t * usual)).argmin()) for t in _COMPARED})
    choice = {i: best(free.ranges[i]) for i in compared}
    nearest = [min(compared, key=lambda i: abs(i - j)) for j in range(hi.size)]
    return [values(x)[choice[i]] for x, i in zip(free.ranges, nearest, strict=True)]
