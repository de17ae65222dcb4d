"""Bounds of the l2 calibration error that hold at any sample size.

Let a binned model have outputs s_j, of probability p_j, with true event rates pi_j and errors
e_j = pi_j - s_j; the squared error is t^2 = sum p_j e_j^2. Given the counts N_j, the numbers of
events K_j are independent Bin(N_j, pi_j), and x_j = K_j / N_j. Everything rests on that.

**Upper bound.** Take T = sum (N_j/n) psi_j, psi_j = (x_j - s_j)^2 - eta x_j (1 - x_j) / (N_j - 1).
For any lam, q > 0 let

    A_j = max over pi of  log E_pi exp(-lam (N_j/n) psi_j) + q N_j (pi - s_j)^2.

Then E exp(q n t_N^2 - lam T - sum A_j | N) <= 1, where t_N^2 = sum (N_j/n) e_j^2 belongs to the
sample: bins are independent and each contributes a factor of at most 1. Averaging
exp(-q n t_N^2) over the counts, with 1 - exp(-q u) >= r u for 0 <= u <= m and
r = (1 - exp(-q m)) / m, gives

    E exp(n r t^2 - lam T - sum A_j) <= 1        if no e_j^2 exceeds m,

and by Markov's inequality a test of every value t. If all p_j >= p_min, then p_j e_j^2 <= t^2
allows m = min(1, t^2 / p_min); without that knowledge m = 1, which also covers outputs that were
never seen. For each t, (lam, q) is fixed without looking at labels (nor at counts, for the
population), so the largest t that is not rejected is an upper bound.

**Lower bound.** The same with the signs reversed. There E exp(+lam (N_j/n) (x_j - s_j)^2) is
bounded in closed form through the best sub-Gaussian constant of a Bernoulli variable.

**Several classes** with weights w_k: labels of one row are dependent, but Hoelder's inequality
turns E exp(Z_k) <= 1 for each class into E exp(sum w_k Z_k) <= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.stats.exponents import Bumps

Target: TypeAlias = Literal["population", "sample"]

ETA = 0.6
SMALLEST = 1e-5
_MARGIN = 1.005
_CAP = 0.95
_RATIO = 1.1


@dataclass(frozen=True, eq=False)
class Evidence:
    """Occupied bins of one or several classes, flattened.

    Attributes
    ----------
    n : int
        Rows.
    size, rate, s : ndarray
        Rows, event rate and prediction of each bin.
    weight : ndarray
        The weight w_k of the bin's class.
    spread : ndarray
        A sub-Gaussian variance of one label minus its prediction, where a bin mixes
        predictions; NaN where it holds one prediction only.
    n_planned : int
        About how many bins a class has, known without looking at these rows; it tunes the
        tests of the population's error and does not affect their validity.
    largest_spread : float
        A bound on all spreads, known without looking at these rows.
    """

    n: int
    size: FloatArray
    rate: FloatArray
    s: FloatArray
    weight: FloatArray
    spread: FloatArray
    n_planned: int
    largest_spread: float = 0.25

    @property
    def mass(self) -> FloatArray:
        """The share of rows in each bin."""
        return self.size / self.n

    def squared(self, eta: float) -> float:
        """Return T: the weighted squared error, less eta times its bias."""
        bias = self.rate * (1 - self.rate) / np.maximum(self.size - 1, 1) * (self.size > 1)
        psi = (self.rate - self.s) ** 2 - eta * bias
        return float(np.sum(self.weight * self.mass * psi))


@dataclass(frozen=True)
class Setting:
    """What a bound is about: target, error probability, and what is known of the bin masses.

    `is_balanced` says whether bins were made to hold similar masses, which tunes the tests;
    `least_mass` is a lower bound of all bin masses, which sharpens them.
    """

    target: Target
    delta: float
    least_mass: float = 0.0
    is_balanced: bool = False

    def lightest(self, evidence: Evidence) -> float:
        """Return a lower bound of w_k p_j over all bins; 0 if nothing is known."""
        if self.target == "sample":
            return float((evidence.weight * evidence.mass).min())
        return float(evidence.weight.min()) * self.least_mass

    def sees_counts(self, evidence: Evidence) -> bool:
        """Whether the tests may be tuned to the counts.

        Not for the population, whose bound averages over counts, nor for several classes: the
        events of a class are binomial given its own counts, but not given those of others.
        """
        return self.target == "sample" and float(evidence.weight.min()) == 1


def upper_bound(evidence: Evidence, setting: Setting) -> float:
    """Return u such that the error is at most u with probability 1 - delta.

    Errors are tested range by range from 1 downwards, one pair (lam, q) for each range (lo, hi].
    About 1e-5, the least that is tested, means that every error was rejected: labels agree too
    well to be independent draws.
    """
    return upper_bound_at(evidence.squared(ETA), evidence, setting)


def upper_bound_at(observed: float, evidence: Evidence, setting: Setting) -> float:
    """Return the upper bound that the value `observed` of T gives, with these bins."""
    hi = 1.0
    while hi > SMALLEST:
        lo = hi / _RATIO
        test = _UpperTest.tuned(evidence, setting, lo, hi)
        if test.largest_accepted(observed, quick=True) > lo:
            accepted = test.largest_accepted(observed)
            if accepted > lo:
                return min(accepted, hi)
        hi = lo
    return hi


def lower_bound(evidence: Evidence, setting: Setting) -> float:
    """Return l such that the error is at least l with probability 1 - delta."""
    observed, lo, hi = evidence.squared(0.0), 0.0, 1e-5
    while lo < 1:
        accepted = _smallest_accepted(evidence, setting, observed, hi)
        if accepted < hi:
            return max(accepted, lo)
        lo, hi = hi, min(hi * _RATIO, 1.0)
    return 1.0


def lower_bound_l1(evidence: Evidence, setting: Setting) -> float:
    """Return l such that the l1 error is at least l with probability 1 - delta.

    Given the counts, E|x_j - s_j| <= |e_j| + sqrt(v / N_j) with v a label's variance, at most 1/4,
    and changing one label moves the plug-in error of a class by at most 1 / n, so that McDiarmid's
    inequality bounds the error of the sample (for several classes its exponential moments are
    combined by Hoelder's inequality). For the population Hoeffding's inequality for the mean of
    |e_j| over rows is added, with half of the error probability for each.
    """
    plug_in = float(evidence.weight @ (evidence.mass * np.abs(evidence.rate - evidence.s)))
    spread = np.where(np.isnan(evidence.spread), 0.25, evidence.spread)
    bias = float(evidence.weight @ (evidence.mass * np.sqrt(spread / evidence.size)))
    if setting.target == "sample":
        return max(plug_in - bias - _hoeffding(setting.delta, evidence.n), 0.0)
    return max(plug_in - bias - 2 * _hoeffding(setting.delta / 2, evidence.n), 0.0)


def _hoeffding(delta: float, n: int) -> float:
    return math.sqrt(-math.log(delta) / (2 * n))


@dataclass(frozen=True, eq=False)
class _UpperTest:
    """The test of all errors t in one range: (lam, q), and the largest e_j^2 that t allows."""

    evidence: Evidence
    setting: Setting
    lam: float
    q: float
    largest: float

    @classmethod
    def tuned(cls, evidence: Evidence, setting: Setting, lo: float, hi: float) -> _UpperTest:
        """Choose (lam, q) by the normal approximation at calibration; any choice is valid."""
        largest = _largest_square(hi, setting.lightest(evidence))
        if setting.sees_counts(evidence):
            s, weight = evidence.s, evidence.weight
            v = _MARGIN * _largest_variance(s, math.sqrt(largest))
        else:  # nothing here may depend on the counts, nor on which outputs were seen
            s = (np.arange(evidence.n_planned) + 0.5) / evidence.n_planned
            weight, v = np.ones(s.size), _MARGIN / 4
        q = np.geomspace(1e-6, 1, 200) * _CAP / (2 * v)
        lam = q / (1 - 2 * q * v) * evidence.n
        scaled = lam[:, None] / evidence.n * (s * (1 - s))
        peaks = (ETA * scaled - 0.5 * np.log1p(2 * scaled)) @ weight
        square = _largest_square(hi, 0.5 / s.size if setting.is_balanced else 0.0)
        gain = q if setting.target == "sample" else -np.expm1(-q * square) / square
        threshold = (evidence.n * gain * lo * hi - peaks + math.log(setting.delta)) / lam
        best = int(threshold.argmax())
        return cls(evidence, setting, float(lam[best]), float(q[best]), largest)

    def largest_accepted(self, observed: float, quick: bool = False) -> float:
        """Return the largest t that this test would not reject, in its range or not."""
        cost = self.lam * observed + self._peaks(quick) - math.log(self.setting.delta)
        if cost <= 0:
            return 0.0
        n, q = self.evidence.n, self.q
        if self.setting.target == "sample":
            return math.sqrt(cost / (q * n))
        light = self.setting.lightest(self.evidence)
        share = cost / (n * light) if light > 0 else math.inf
        if share < -math.expm1(-q):  # then no square exceeds t^2 / light < 1
            return math.sqrt(-light / q * math.log1p(-share))
        return math.sqrt(cost / (-n * math.expm1(-q)))

    def _peaks(self, quick: bool) -> float:
        """Return sum w A_j; the quick answer is larger and costs nothing."""
        evidence, reach = self.evidence, math.sqrt(self.largest)
        shrink = np.where(evidence.size > 1, ETA / np.maximum(evidence.size - 1, 1), 0.0)
        slope = self.lam * evidence.mass
        a = slope * (1 + shrink)
        c = (evidence.s + shrink / 2) / (1 + shrink)
        offset = a * c**2 - slope * evidence.s**2
        v = _largest_variance(evidence.s, max(reach, float(np.abs(c - evidence.s).max())))
        bumps = Bumps(evidence.size, a, c, self.q * evidence.size, evidence.s, v)
        highest = bumps.ceiling() if quick else bumps.highest(reach)
        return float(evidence.weight @ (offset + highest))


def _smallest_accepted(evidence: Evidence, setting: Setting, observed: float, hi: float) -> float:
    """Return the smallest t that the test of errors up to hi does not reject."""
    largest = _largest_square(hi, setting.lightest(evidence))
    bernoulli = _sub_gaussian(evidence.s, math.sqrt(largest))
    spread = np.where(np.isnan(evidence.spread), bernoulli, evidence.spread)
    lam, q = _tuned_lower(evidence, setting, spread, hi)
    peaks = -0.5 * float(evidence.weight @ np.log1p(-2 * lam / evidence.n * spread))
    cost = q if setting.target == "sample" else math.expm1(min(q * largest, 700.0)) / largest
    room = lam * observed - peaks + math.log(setting.delta)
    return math.sqrt(max(room, 0.0) / (evidence.n * cost))


def _tuned_lower(
    evidence: Evidence, setting: Setting, spread: FloatArray, hi: float
) -> tuple[float, float]:
    """Choose (lam, q) so that the least squared error rejects errors up to hi."""
    q, weight = np.geomspace(1e-7, 30, 200), evidence.weight
    cost, top = q, float(spread.max())
    if not setting.sees_counts(evidence):
        top = evidence.largest_spread
        spread, weight = np.full(evidence.n_planned, 0.8 * top), np.ones(evidence.n_planned)
    if setting.target == "population":
        square = _largest_square(hi, 0.5 / spread.size if setting.is_balanced else 0.0)
        cost = np.expm1(np.minimum(q * square, 700.0)) / square
    lam = q / (1 + 2 * q * top) * evidence.n
    peaks = -0.5 * np.log1p(-2 * lam[:, None] / evidence.n * spread) @ weight
    needed = (evidence.n * cost * hi**2 + peaks - math.log(setting.delta)) / lam
    best = int(needed.argmin())
    return float(lam[best]), float(q[best])


def _largest_square(t: float, lightest: float) -> float:
    """Return m: no e_j^2 can exceed it if the error is t."""
    return min(1.0, t**2 / lightest) if lightest > 0 else 1.0


def _largest_variance(s: FloatArray, reach: float) -> float:
    """Return the largest pi (1 - pi) over pi within reach of any s."""
    nearest = s + np.clip(0.5 - s, -reach, reach)
    return max(float(np.max(nearest * (1 - nearest))), 1e-9)


def _sub_gaussian(s: FloatArray, reach: float) -> FloatArray:
    """Return the largest sub-Gaussian variance of Bernoulli(pi) over pi within reach of s.

    (1 - 2 pi) / (2 log((1 - pi) / pi)), the least v with E exp(t (Y - pi)) <= exp(v t^2 / 2) for
    all t (Kearns and Saul, 1998).
    """
    pi = np.clip(s + np.clip(0.5 - s, -reach, reach), 1e-12, 1 - 1e-12)
    odds = np.log((1 - pi) / pi)
    regular = np.abs(odds) > 1e-4
    return np.where(regular, (1 - 2 * pi) / (2 * np.where(regular, odds, 1.0)), 0.25)
