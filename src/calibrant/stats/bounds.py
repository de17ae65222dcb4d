"""Bounds of the l2 calibration error that hold at any sample size.

Let a binned model have outputs s_j, of probability p_j, with true event rates pi_j and errors
e_j = pi_j - s_j; the squared error is t^2 = sum p_j e_j^2. Given the counts N_j, the numbers of
events K_j are independent Bin(N_j, pi_j), and x_j = K_j / N_j. Everything rests on that.

**Upper bound.** Take T = sum (N_j/n) psi_j, psi_j = (x_j - s_j)^2 - eta x_j (1 - x_j) / (N_j - 1).
For any lam, q > 0 let

    A_j = max over pi of  log E_pi exp(-lam (N_j/n) psi_j) + N_j g((pi - s_j)^2).

Given the counts, bins are independent, so E exp(-lam T - sum A_j | N) <= exp(-sum N_j g(e_j^2)).

* Sample: with g(u) = q u the right side is exp(-q n t_N^2), where t_N^2 = sum (N_j/n) e_j^2.
* Population: with g(u) = -log(1 - q u) it is prod (1 - q e_j^2)^N_j. Its mean over multinomial
  counts is (sum p_j (1 - q e_j^2))^n = (1 - q t^2)^n, whatever the masses, those of outputs never
  seen included.

So E exp(n g(t^2) - lam T - sum A_j) <= 1, and by Markov's inequality that tests every value t. For
each t, (lam, q) is fixed without looking at labels (nor at counts, for the population), so the
largest t that is not rejected is an upper bound. Nothing has to be known of the masses; if all
p_j >= p_min, then e_j^2 <= t^2 / p_min, and the maximum over pi is taken over fewer values.

**Lower bound.** The same with the signs reversed. There E exp(+lam (N_j/n) (x_j - s_j)^2) is
bounded in closed form through the best sub-Gaussian constant of a Bernoulli variable, and by
(1 + r e_j^2)^N_j if no e_j^2 exceeds m, where r = (exp(q m) - 1) / m.

**Several classes** with weights w_k: labels of one row are dependent, but Hoelder's inequality
turns E exp(Z_k) <= 1 for each class into E exp(sum w_k Z_k) <= 1, and g is convex.

**Several classes, for the inputs of the rows at hand** (l1 and l2): all inputs are held fixed. Then
rows are independent, and row i has label k with probability pi_ik. Let z_ik be label minus
prediction, and for each class k and bin j let d_kj be the mean of z_ik over its rows, and e_kj that
of pi_ik minus prediction. With class weights w_k the error is

    t = (sum_k w_k sum_j (N_kj / n) abs(e_kj)^p)^(1/p),    p = 1 or 2.

A row of several classes has one label: another one moves two classes. That is why many classes need
no more rows than few; Hoelder's inequality, which serves the population, allows all classes to err
together. Let w be the sum of the two largest weights, and L = log(1 / delta). Where a row may have
several labels, or where events are thresholds of ordered classes or levels of quantiles, another
outcome may move all of them: then w is the sum of all weights, 1, and the proofs are the same.

**l2**: t <= T + sqrt(w L / (2 n)), T the plug-in error. Proof: t and T are norms of e and d with
the weights w_k N_kj / n, so T t >= <d, e> = t^2 + <d - e, e>. The last term is a mean over rows of
sum_k w_k e_k (y_k - pi_k), e_k the error of the row's bin in class k. With one label or another it
varies by at most w_a abs(e_a) + w_b abs(e_b), whose square is at most w sum_k w_k e_k^2, by the
inequality of Cauchy and Schwarz (or by sum_k w_k abs(e_k), whose square is at most 1 times it,
where all events may change). The mean of these squares over rows is w t^2, so by Hoeffding's
inequality the term is below -t sqrt(w L / (2 n)) with probability at most delta. Divide by t.

**l1**: t <= T + w sqrt(L / (2 n)). Proof: E abs(d_kj) >= abs(e_kj), so E T >= t. Another label of
one row moves T by at most w / n; McDiarmid's inequality does the rest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.stats.estimators import Target
from calibrant.stats.moments_l2 import TOLERANCE, BinObjective
from calibrant.stats.questions import Evidence, Setting

# These affect tightness only, never validity. What they change was measured on calibrated models of
# 10 and 40 outputs and 1,000 to 10,000 rows.
ETA = 0.6  # of the bias that T corrects for in upper bounds; from 0 to 1, bounds differ by 1%
SMALLEST = 1e-5  # error that is tested, unless there are more than 1e8 rows
_MARGIN = 1.005  # of lam over the least that a normal approximation allows; 1.1 costs 2%
_CAP = 0.95  # of the largest k, where lam becomes infinite; 0.8 and 0.99 change bounds by 0.1%
RATIO = 1.1  # of the ends of a range of errors that share (lam, q); 1.03 gains 0.1%
WIDE_RATIO = 1.3  # the same, far above what calibrated models are bounded by
_SPARE = 20
"""Masses this many times below the nominal one leave 1 - q e^2 positive; tightness only."""
_MOST_PLANNED = 1024
"""Outputs by which a test is tuned stand for more beyond this; affects tightness, not validity."""


def upper_bound(evidence: Evidence, setting: Setting, observed: float | None = None) -> float:
    """Return u such that the error is at most u with probability 1 - delta.

    Errors are tested range by range from 1 downwards, one pair (lam, q) for each range (lo, hi].
    About `smallest_error`, the least that is tested, means that every error was rejected: labels
    agree too well to be independent draws. Plans pass a value `observed` of T instead of labels.
    """
    observed = evidence.squared(ETA) if observed is None else observed
    bound = upper_bound_between(observed, evidence, setting, 0.0, 1.0)
    return smallest_error(evidence.n) if bound is None else bound


def smallest_error(n: int) -> float:
    """Return the smallest error that n rows are tested for, hardly to be distinguished from 0.

    A bound that is not above it means that 0 is rejected as well.

    >>> smallest_error(1000), smallest_error(10**16)
    (1e-05, 1e-09)
    """
    return min(SMALLEST, 0.1 / math.sqrt(n))


def upper_bound_between(
    observed: float,
    evidence: Evidence,
    setting: Setting,
    least: float,
    most: float,
    q: float | None = None,
) -> float | None:
    """Return the largest error in (least, most] that is not rejected; None if all are.

    A test that is prescribed has q, instead of the one that suits the range.
    """
    for first, last in upper_ranges(evidence):
        lo, hi = max(first, least), min(last, most)
        if lo >= hi:
            continue
        test = UpperTest.tuned(evidence, setting, lo, hi, q)
        accepted = test.largest_accepted(observed, lo)
        if accepted > lo:
            return min(accepted, hi)
    return None


def upper_ranges(evidence: Evidence) -> Iterator[tuple[float, float]]:
    """Yield the ranges (lo, hi] of errors that are tested, known before any row is seen."""
    hi, near = 1.0, 10 * math.sqrt(evidence.n_planned / evidence.n)
    least = smallest_error(evidence.n)
    while hi > least:
        lo = hi / (RATIO if hi <= near else WIDE_RATIO)
        yield lo, hi
        hi = lo


def lower_bound(evidence: Evidence, setting: Setting, least: float = 0.0) -> float:
    """Return l such that the error is at least l with probability 1 - delta.

    It is the smallest error of `least` or more that is not rejected; 1 if all are.
    """
    observed, lo, hi = evidence.squared(0.0), least, max(least * RATIO, 1e-5)
    while lo < 1:
        accepted = smallest_accepted(evidence, setting, observed, hi)
        if accepted < hi:
            return max(accepted, lo)
        lo, hi = hi, min(hi * RATIO, 1.0)
    return 1.0


def upper_bound_of_classes(
    evidence: Evidence,
    weights: FloatArray,
    power: float,
    delta: float,
    one_label: bool = True,
) -> float:
    """Return u such that the l1 or l2 error on these inputs is at most u, with 1 - delta.

    `weights` are those of the classes and add up to 1; `one_label` says that every row has exactly
    one of the labels, and no other dependence is used.

    Examples
    --------
    >>> one = np.ones(4)
    >>> evidence = Evidence(100, 100 * one, one / 4, one / 4, one / 4, 1)
    >>> round(upper_bound_of_classes(evidence, one / 4, 2.0, 0.05), 4)
    0.0865
    """
    moved = float(np.sort(weights)[-2:].sum()) if one_label else 1.0
    distance = np.abs(evidence.rate - evidence.s)
    plug_in = float(np.sum(evidence.weight * evidence.mass * distance**power)) ** (1 / power)
    radius = math.sqrt(-math.log(delta) / (2 * evidence.n)) * moved ** (1 / power)
    return float(min(plug_in + radius, 1.0))


@dataclass(frozen=True, eq=False)
class UpperTest:
    """The test of all errors t in one range: (lam, q), and the largest |e_j| that t allows."""

    evidence: Evidence
    setting: Setting
    lam: float
    q: float
    reach: FloatArray

    @classmethod
    def tuned(
        cls,
        evidence: Evidence,
        setting: Setting,
        lo: float,
        hi: float,
        prescribed: float | None = None,
    ) -> UpperTest:
        """Choose (lam, q) by the normal approximation at calibration; any choice is valid.

        If q is prescribed, lam is the least of the choices for no smaller a q.
        """
        largest = setting.nominal_square(evidence, hi)
        reach = np.sqrt(setting.largest_squares(evidence, hi))
        if setting.sees_counts(evidence):
            s, weight = evidence.s, evidence.weight
            v = _largest_variance(s, reach)
        elif evidence.levels is not None:
            s, weight = evidence.levels, np.ones(evidence.levels.size)
            v = _largest_variance(s, np.full(s.size, math.sqrt(largest)))
        else:  # nothing here may depend on the counts, nor on which outputs were seen
            n_points = min(evidence.n_planned, _MOST_PLANNED)
            s = (np.arange(n_points) + 0.5) / n_points
            weight, v = np.full(n_points, evidence.n_planned / n_points), 0.25
        q, steepness = _choices(setting.target, largest, v)
        if prescribed is not None:
            best = int(np.where(q >= min(prescribed, q.max()), steepness, np.inf).argmin())
            return cls(evidence, setting, float(steepness[best]) * evidence.n, prescribed, reach)
        if setting.nominal_mass is not None:
            roomy = q <= _CAP / min(1.0, _SPARE * largest)
            q, steepness = q[roomy], steepness[roomy]
        scaled = steepness[:, None] * (s * (1 - s))
        peaks = (ETA * scaled - 0.5 * np.log1p(2 * scaled)) @ weight
        u = q * lo * hi
        gain = evidence.n * (u if setting.target == "sample" else -np.log1p(-u))
        best = int(((gain - peaks + math.log(setting.delta)) / steepness).argmax())
        lam = float(steepness[best]) * evidence.n
        return cls(evidence, setting, lam, float(q[best]), reach)

    def largest_accepted(self, observed: float, least: float) -> float:
        """Return the largest t that this test does not reject, or some number up to `least`.

        Parabolas, or a tolerance of half of what the bins may add, often show that t = least is
        rejected.
        """
        u = self.q * least**2
        gain = self.evidence.n * (u if self.setting.target == "sample" else -math.log1p(-u))
        spare = gain - self.lam * observed + math.log(self.setting.delta)
        half = spare / float(self.evidence.weight.sum()) / 2
        accepted = math.inf
        for tolerance in (None, *([half] if half > TOLERANCE else []), TOLERANCE):
            accepted = self.accepted(observed, self.peaks(tolerance))
            if accepted <= least:
                break
        return accepted

    def accepted(self, observed: float, peaks: float) -> float:
        """Return the largest t that is not rejected, given sum w A_j."""
        share = self.lam * observed + peaks - math.log(self.setting.delta)
        share = max(share, 0.0) / self.evidence.n
        u = share if self.setting.target == "sample" else -math.expm1(-share)
        return math.sqrt(u / self.q)

    def peaks(self, tolerance: float | None) -> float:
        """Return sum w A_j, each too large by at most the tolerance; None for a first look.

        It is infinite, and rejects nothing, where 1 - q e^2 may be negative: nothing is proved.
        """
        if self.setting.target == "population" and self.q * float(self.reach.max()) ** 2 >= 1:
            return math.inf
        evidence = self.evidence
        shrink = np.where(evidence.size > 1, ETA / np.maximum(evidence.size - 1, 1), 0.0)
        slope = self.lam * evidence.mass
        a = slope * (1 + shrink)
        c = (evidence.s + shrink / 2) / (1 + shrink)
        offset = a * c**2 - slope * evidence.s**2
        bend = 0 if self.setting.target == "sample" else 1
        objective = BinObjective(evidence.size, a, c, evidence.s, self.q, bend)
        if tolerance is None:
            tops = objective.roughly_highest(self.reach)
        else:
            tops = objective.highest(self.reach, tolerance)
        return float(evidence.weight @ (offset + tops))


def _choices(target: Target, largest: float, v: float) -> tuple[FloatArray, FloatArray]:
    """Return values of q, and for each the least lam / n with which no A_j grows with N.

    That is, with which ``min over x of KL(x | pi) + (lam / n) (x - s)^2`` is at least
    g((pi - s)^2). With (x - pi)^2 / 2v in place of KL, ``k / (1 - 2 k v)`` does if g(u) <= k u
    for all squares up to `largest`. If these may be large, a table for s = 0 has better choices.
    """
    k = np.geomspace(1e-6, 1, 200) * _CAP / (2 * v)
    steepness = _MARGIN * k / (1 - 2 * k * v)
    if target == "sample":
        return k, steepness
    q, free = _free_choices()
    bent = -np.expm1(-k * largest) / largest
    return np.append(bent, q), np.append(steepness, _MARGIN * free)


@cache
def _free_choices() -> tuple[FloatArray, FloatArray]:
    """Tabulate the least lam / n by q, for g(u) = -log(1 - q u), s = 0 and all squares up to 1."""
    q = np.concatenate([np.geomspace(1e-6, 0.1, 30), np.linspace(0.11, 0.9, 60)])
    x = np.linspace(0, 1, 200)[1:-1, None]
    pi = np.linspace(0, 1, 200)[None, 1:-1]
    kl = special.rel_entr(x, pi) + special.rel_entr(1 - x, 1 - pi)
    return q, np.array([np.max((-np.log1p(-value * pi**2) - kl) / x**2) for value in q])


def smallest_accepted(
    evidence: Evidence, setting: Setting, observed: float, hi: float, r: float | None = None
) -> float:
    """Return the smallest t that the test of errors up to hi does not reject.

    A test of the population's error that is prescribed has r, of (1 + r e^2)^N for any e.
    """
    squares = setting.largest_squares(evidence, hi)
    spread, largest = _sub_gaussian(evidence.s, np.sqrt(squares)), float(squares.max())
    if evidence.is_mixed:
        spread = np.full_like(spread, 0.25)
    if r is None:
        lam, q = _tuned_lower(evidence, setting, spread, hi)
    else:
        q, largest = math.log1p(r), 1.0
        lam = q / (1 + 2 * q * float(spread.max())) * evidence.n
    peaks = -0.5 * float(evidence.weight @ np.log1p(-2 * lam / evidence.n * spread))
    room = max(lam * observed - peaks + math.log(setting.delta), 0.0) / evidence.n
    if setting.target == "sample":
        return math.sqrt(room / q)
    return math.sqrt(math.expm1(room) * largest / math.expm1(min(q * largest, 700.0)))


def _tuned_lower(
    evidence: Evidence, setting: Setting, spread: FloatArray, hi: float
) -> tuple[float, float]:
    """Choose (lam, q) so that the least squared error rejects errors up to hi."""
    q, weight = np.geomspace(1e-7, 30, 200), evidence.weight
    cost, top = q, float(spread.max())
    if not setting.sees_counts(evidence):
        top = 0.25
        spread, weight = np.array([0.8 * top]), np.array([float(evidence.n_planned)])
    if setting.target == "population":
        square = setting.nominal_square(evidence, hi)
        r = np.expm1(np.minimum(q * square, 700.0)) / square  # exp overflows above 709
        cost = np.log1p(r * hi**2) / hi**2
    lam = q / (1 + 2 * q * top) * evidence.n
    peaks = -0.5 * np.log1p(-2 * lam[:, None] / evidence.n * spread) @ weight
    needed = (evidence.n * cost * hi**2 + peaks - math.log(setting.delta)) / lam
    best = int(needed.argmin())
    return float(lam[best]), float(q[best])


def _largest_variance(s: FloatArray, reach: FloatArray) -> float:
    """Return the largest pi (1 - pi) over pi within reach of their s."""
    nearest = s + np.clip(0.5 - s, -reach, reach)
    return max(float(np.max(nearest * (1 - nearest))), 1e-9)


def _sub_gaussian(s: FloatArray, reach: FloatArray) -> FloatArray:
    """Return the largest sub-Gaussian variance of Bernoulli(pi) over pi within reach of s.

    (1 - 2 pi) / (2 log((1 - pi) / pi)), the least v with E exp(t (Y - pi)) <= exp(v t^2 / 2) for
    all t (Kearns and Saul, 1998).
    """
    pi = np.clip(s + np.clip(0.5 - s, -reach, reach), 1e-12, 1 - 1e-12)
    odds = np.log((1 - pi) / pi)
    regular = np.abs(odds) > 1e-4  # at pi = 1/2 the ratio is 0 / 0, with the limit 1/4
    return np.where(regular, (1 - 2 * pi) / (2 * np.where(regular, odds, 1.0)), 0.25)
