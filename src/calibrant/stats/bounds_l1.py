"""Upper bounds of the l1 calibration error (ECE) that hold at any sample size.

Notation and evidence are those of `calibrant.stats.bounds`: outputs s_j of probability p_j, event
rates pi_j, errors e_j = pi_j - s_j. The error is t = sum p_j |e_j| of the population, or
t_N = sum (N_j/n) |e_j| of the sample. Given the counts N_j, the numbers of events K_j are
independent Bin(N_j, pi_j).

**Exact bound.** Take T = sum (N_j/n) |K_j/N_j - s_j|. For any g > 0 and 0 < r < 1 let

    A_j = max over pi of  log E_pi exp(-g |K_j - N_j s_j|) - N_j log(1 - r |pi - s_j|).

Given the counts, bins are independent, so E exp(-g n T - sum A_j | N) <= prod (1 - r |e_j|)^N_j.

* Population: the mean of this product over multinomial counts is (sum p_j (1 - r |e_j|))^n, that is
  (1 - r t)^n, whatever the masses, those of outputs never seen included.
* Sample: as log(1 - r u) is concave, the product is at most (1 - r t_N)^n.

Both ways E exp(-n log(1 - r t) - g n T - sum A_j) <= 1. By Markov's inequality the true t makes the
exponent reach log(1/delta) with probability at most delta; then it is rejected. Nothing has to
be known of the masses. Errors are tested in ranges (lo, hi], each with its own (g, r).

For the population r must not depend on the counts: it is a formula in (n, delta, range). g may
depend on everything but labels: it is tuned to the counts, by the normal approximation. Only the
tightness of the bound rests on these choices.

**Several classes** with weights w_k, sum 1: labels of one row are dependent, but Hoelder's
inequality turns E exp(Z_k) <= 1 for each class into E exp(sum w_k Z_k) <= 1, and -log(1 - r t) is
convex in t. Events of a class are binomial given its own counts, but not given those of other
classes as well, so the g of a class depends on its own counts alone.

**The maximum over pi**, for pi >= s (the rest is the mirror image), is bounded from above:

* A factor exp(+-g K) tilts a binomial law into another one, so the moment is the sum of two
  binomial tails times known factors: exact, at a cost that is flat in N.
* In the log-odds w of pi, with k = 1 + r s, the function is log M(w) - N log(k + (k - r) e^w),
  where log M is convex. Between two points log M lies below its chord, and what then remains
  has its maximum where a logistic function equals the slope of the chord over N.
* exp(-g |K - N s|) <= exp(-g (K - N s)) bounds the function by one that is monotone in pi.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import NoSuchEstimatorError
from calibrant.stats.branch_and_bound import Intervals, highest
from calibrant.stats.estimators import ClassWeight, Target
from calibrant.stats.questions import Evidence, Question, Setting, evidence_of
from calibrant.table import BinTable

# These trade tightness for time, and none of them affects validity.
TOLERANCE = 5e-4  # of one bin's maximum
_RATIO = 1.1  # of the ends of a range of errors that share (g, r); finer ones gain less than 1%
_SMALLEST = 1e-7  # error that has a range of its own
_LARGEST_R = 0.9  # nearer to 1, an error next to 1 would cost without limit
_USUAL_VARIANCE = 0.16  # of a label, by which r is chosen before any row is seen
_STEPS = np.array([0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.2, 4.5, 7.0, 12.0, 25.0, np.inf])
# The first intervals end so many standard deviations of K / N above s.


def upper_bound_l1(evidence: Evidence, setting: Setting) -> float:
    """Return u such that the l1 error is at most u with probability 1 - delta.

    The exact bound of this module, of bins in order of their classes. It holds for a
    model with finitely many outputs, if rows are independent and their labels had no part in
    choosing outputs or bins. It is the same for both targets and makes no use of a least mass.

    Examples
    --------
    >>> events = np.array([7, 12, 28, 31, 49, 51, 68, 71, 83, 97])
    >>> s, one = (np.arange(10) + 0.5) / 10, np.ones(10)
    >>> evidence = Evidence(1000, 100 * one, events / 100, s, one, 10)
    >>> round(upper_bound_l1(evidence, Setting("population", 0.05)), 3)
    0.054
    """
    bound = upper_bound_l1_between(evidence, setting, 0.0, 1.0)
    return 0.0 if bound is None else bound


def upper_bound_l1_between(
    evidence: Evidence, setting: Setting, least: float, most: float, r: float | None = None
) -> float | None:
    """Return the largest error in (least, most] that is not rejected; None if all are.

    A test that is prescribed has r, instead of the one that suits the range.
    """
    hi = most
    while hi > least:
        lo = hi / _RATIO if hi / _RATIO > max(least, _SMALLEST) else least
        accepted = largest_accepted(evidence, setting.delta, lo, hi, r)
        if accepted > lo:
            return min(accepted, hi)
        hi = lo
    return None


def lower_bound_l1(evidence: Evidence, setting: Setting) -> float:
    """Return l such that the l1 error is at least l with probability 1 - delta.

    Given the counts, E|x_j - s_j| <= |e_j| + sqrt(v / N_j) with v a label's variance, at most 1/4,
    and changing one label moves the plug-in error of a class by at most 1 / n, so that McDiarmid's
    inequality bounds the error of the sample (for several classes its exponential moments are
    combined by Hoelder's inequality). For the population Hoeffding's inequality for the mean of
    |e_j| over rows is added, with half of the error probability for each.
    """
    plug_in = float(evidence.weight @ (evidence.mass * np.abs(evidence.rate - evidence.s)))
    bias = float(evidence.weight @ (evidence.mass * np.sqrt(0.25 / evidence.size)))
    shares = 1 if setting.target == "sample" else 2
    radius = math.sqrt(-math.log(setting.delta / shares) / (2 * evidence.n))
    return max(plug_in - bias - shares * radius, 0.0)


def one_line_upper_bound_l1(evidence: Evidence, setting: Setting) -> float:
    """Return the plug-in error plus ``c sqrt(log(1 / delta) / (2 n))``, at most 1.

    c is 1 for the sample and 2 for the population, with any number of classes.

    For one class, n times the plug-in error is F = sum abs(S_j), where S_j sums label minus
    prediction over bin j. As E abs(S_j) >= abs(E S_j), E F is at least n times the true error.
    Given the predictions, another label moves one S_j by 1, hence F by at most 1. Another row moves
    two S_j by at most 1 each, or one by 2, hence F by at most 2. McDiarmid's argument gives
    ``E exp(h (E F - F)) <= exp(n c^2 h^2 / 8)`` for h > 0, given the predictions with c = 1, or at
    large with c = 2; Markov's inequality, with the best h, gives the bound.

    For several classes with weights w_k, sum 1, Hoelder's inequality bounds the mean of
    exp(sum w_k h (E F_k - F_k)) by the same number, E F_k being taken given the predictions for
    class k. (A label touches two classes only. The smaller c that this suggests, the sum of the two
    largest weights, needs the predictions for all classes to be held fixed. It then belongs
    to event rates given all of these, not to the error that is meant here.)

    Examples
    --------
    >>> columns = np.array([[60, 40], [0.2, 0.5], [0.1, 0.5], [1, 1]])
    >>> round(one_line_upper_bound_l1(Evidence(100, *columns, 2), Setting("sample", 0.05)), 4)
    0.1824
    """
    c = 2.0 if setting.target == "population" else 1.0
    plug_in = float(np.sum(evidence.weight * evidence.mass * np.abs(evidence.rate - evidence.s)))
    return min(plug_in + c * math.sqrt(-math.log(setting.delta) / (2 * evidence.n)), 1.0)


def largest_accepted(
    evidence: Evidence, delta: float, lo: float, hi: float, r: float | None
) -> float:
    """Return the largest t that the test of (lo, hi] accepts, or some number up to lo."""
    t = math.sqrt(max(lo, hi / _RATIO) * hi)
    if r is None:
        r = _choose_r(evidence.n, t, delta)
    g = choose_g(evidence, r, -evidence.n * math.log1p(-r * t) + math.log(delta))
    distance = evidence.size * np.abs(evidence.rate - evidence.s)
    cost = float(np.sum(evidence.weight * g * distance)) - math.log(delta)
    halves = HalfObjective.of(evidence.size, evidence.s, g, r)
    accepted, bins = 1.0, float(evidence.weight.sum())
    for tolerance in (math.inf, 1 / bins, min(TOLERANCE, 0.02 / bins)):
        peaks = float(np.sum(evidence.weight * halves.highest(tolerance)))
        accepted = -math.expm1(-max(cost + peaks, 0.0) / evidence.n) / r
        if accepted <= lo:
            break
    return accepted


def _choose_r(n: int, t: float, delta: float) -> float:
    """Return an r near the best one, from what is known before any row is seen.

    If t is about the bound of a calibrated model, r n t = 3 log(1/delta) is near the best,
    whatever its bins; otherwise sqrt(log(1/delta) / (n v)), v being the variance of its labels.
    """
    log_inverse = -math.log(delta)
    usual = math.sqrt(log_inverse / (n * _USUAL_VARIANCE))
    return min(max(3 * log_inverse / (n * t), usual), _LARGEST_R)


def choose_g(evidence: Evidence, r: float, gain: float) -> FloatArray:
    """Return for each bin the g of its class with which normal bins reject the largest T."""
    shares, log_scale, table = _normal_peaks()
    g = r / shares
    s, size = evidence.s, evidence.size
    class_of = evidence.class_of
    # the variance of a label near the rate where the maximum over pi is expected
    shift = 1.5 * np.sqrt((s * (1 - s) + 1 / size) / size)
    pi = s + np.clip(0.5 - s, -shift, shift)
    scale = 0.5 * np.log(size * (pi * (1 - pi)))
    heights = [np.interp(scale + math.log(g[i]), log_scale, row) for i, row in enumerate(table)]
    peaks = np.stack([np.bincount(class_of, row) for row in heights])
    threshold = (gain - peaks) / g[:, None]
    threshold[r > -np.expm1(-g)] = -np.inf
    return np.asarray(g[threshold.argmax(axis=0)][class_of])


@cache
def _normal_peaks() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Tabulate max over y of log E exp(-c |y + Z|) + share c y, Z normal, by share and log c."""
    shares = 1 - np.geomspace(0.003, 0.95, 30)
    y = np.concatenate([np.linspace(0, 6, 31), np.geomspace(6.5, 60, 12)])
    log_c = np.linspace(math.log(0.005), math.log(40), 60)
    c = np.exp(log_c)[:, None]
    above, below = special.log_ndtr(y - c) - c * y, special.log_ndtr(-y - c) + c * y
    moment = c**2 / 2 + np.logaddexp(above, below)
    return shares, log_c, np.stack([(moment + share * c * y).max(axis=1) for share in shares])


@dataclass(frozen=True, eq=False)
class HalfObjective:
    """Functions ``log E exp(-g |K - N s|) - N log(1 - r (pi - s))`` of pi in [s, 1].

    There are two for each bin; the second half are the mirror images, for N - K and 1 - s.
    """

    size: FloatArray
    s: FloatArray
    g: FloatArray
    r: float

    @classmethod
    def of(cls, size: FloatArray, s: FloatArray, g: FloatArray, r: float) -> HalfObjective:
        """Return both halves of each bin."""
        return cls(np.tile(size, 2), np.concatenate([s, 1 - s]), np.tile(g, 2), r)

    def take(self, index: IntArray) -> HalfObjective:
        """Return the functions with these numbers."""
        return HalfObjective(self.size[index], self.s[index], self.g[index], self.r)

    def known(self, pi: FloatArray) -> FloatArray:
        """Return the value of each function at one pi each, rounded up as `log_moment` is."""
        gain = self.size * np.log1p(-self.r * (pi - self.s))
        return log_moment(pi, self.size, self.s, self.g) - gain

    def ceiling(self, pi: FloatArray) -> FloatArray:
        """Return larger values, monotone in pi: those of K - N s without its absolute value."""
        log_mean = np.log(1 - pi + pi * np.exp(-self.g)) + self.g * self.s
        return np.asarray(self.size * (log_mean - np.log1p(-self.r * (pi - self.s))))

    def highest(self, tolerance: float) -> FloatArray:
        """Return an upper bound of the maximum of each bin, too large by at most the tolerance."""
        if tolerance == math.inf:
            return self._fold(np.maximum(self.ceiling(self.s), self.ceiling(np.ones_like(self.s))))
        unit = np.sqrt(self.s * (1 - self.s) / self.size) + 1 / self.size
        points = np.minimum(self.s[:, None] + unit[:, None] * _STEPS, 1.0)
        pieces = _Intervals.covering(self, points)
        return highest(self._fold(self.known(self.s)), pieces, tolerance)

    def _fold(self, values: FloatArray) -> FloatArray:
        return np.maximum(*np.split(values, 2))


class _Intervals(Intervals[HalfObjective]):
    """Intervals of pi in [s, 1], with the values at their ends."""

    def split(self) -> _Intervals:
        """Cut each interval into four; the one at 1 also very near to it."""
        points = self.left[:, None] + (self.right - self.left)[:, None] * (np.arange(5) / 4)
        points[:, -1] = self.right
        at_one = self.right == 1
        points[at_one, 3] = 1 - (1 - self.left[at_one]) * 1e-3
        pieces = self.between(self.objective, self.index, points)
        return pieces.keep(pieces.left < pieces.right)

    def bounds(self) -> FloatArray:
        """Return an upper bound of the function inside each interval."""
        halves = self.owners
        bound = np.maximum(halves.ceiling(self.left), halves.ceiling(self.right))
        inner = (self.left > 0) & (self.right < 1)
        last = (self.left > 0) & (self.right == 1)
        for where, bounds in ((inner, _Intervals._chord_bounds), (last, _Intervals._last_bounds)):
            bound[where] = np.minimum(bound[where], bounds(self.keep(where)))
        return bound

    def _chord_bounds(self) -> FloatArray:
        """Put the chord of log M in place of log M: slope w - N log(k + (k - r) e^w)."""
        halves = self.owners
        start, end = special.logit(self.left), special.logit(self.right)
        k = 1 + halves.r * halves.s
        shift = np.log1p(-halves.r / k)
        rest_start, rest_end = np.logaddexp(0, start + shift), np.logaddexp(0, end + shift)
        rise = self.at_right - self.at_left + halves.size * (rest_end - rest_start)
        slope = rise / np.maximum(end - start, 1e-300)
        share = np.clip(slope / halves.size, 1e-300, 1 - 1e-16)
        w = np.clip(special.logit(share) - shift, start, end)
        rest = halves.size * (np.logaddexp(0, w + shift) - rest_start)
        return np.asarray(self.at_left + slope * (w - start) - rest)

    def _last_bounds(self) -> FloatArray:
        """Use that the moment over pi^N falls as pi grows to 1."""
        halves = self.owners
        fallen = np.log1p(-halves.r * (1 - halves.s)) - np.log1p(-halves.r * (self.left - halves.s))
        return np.asarray(self.at_left - halves.size * (np.log(self.left) + fallen))


def log_moment(pi: FloatArray, size: FloatArray, s: FloatArray, g: FloatArray) -> FloatArray:
    """Return log E exp(-g |K - N s|), K ~ Bin(N, pi), rounded up by 1e-8 + 2e-15 N; all 1-D."""
    k = np.floor(size * s)
    rise, fall = (1 - pi + pi * np.exp(sign) for sign in (g, -g))
    up = size * (np.log(rise) - g * s) + _log_tail(k, size, (1 - pi) / rise)
    down = size * (np.log(fall) + g * s) + _log_tail(size - k - 1, size, pi * np.exp(-g) / fall)
    return np.asarray(np.logaddexp(up, down) + 1e-8 + 2e-15 * size)


def _log_tail(k: FloatArray, size: FloatArray, failure: FloatArray) -> FloatArray:
    """Return the log of the chance of at most k successes, or a bound of it where it is tiny.

    Far in the tail, probabilities fall by a factor of at least 1/ratio with each step down.
    """
    inside = np.clip(k, 0, size - 1)
    failure = np.minimum(failure, 1.0)
    tail = special.betainc(size - inside, inside + 1, failure)
    log_tail = np.log(np.maximum(tail, 1e-300))
    tiny = tail < 1e-280
    i, n, f = inside[tiny], size[tiny], failure[tiny]
    choose = special.gammaln(n + 1) - special.gammaln(i + 1) - special.gammaln(n - i + 1)
    ratio = i * f / ((n - i + 1) * (1 - f))
    log_tail[tiny] = choose + special.xlog1py(i, -f) + special.xlogy(n - i, f) - np.log1p(-ratio)
    return np.where(k < 0, -np.inf, np.where(k >= size, 0.0, log_tail))


def one_line_ece_bound(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    target: Target = "population",
    class_weight: ClassWeight = None,
) -> float:
    """Bound the ECE of a binned model in one line: plug-in error plus a radius.

    ``ECE + sqrt(log(1 / delta) / (2 n))`` for the sample, ``+ sqrt(2 log(1 / delta) / n)`` for the
    population (McDiarmid's inequality, and Jensen's for the bias). Nothing is tuned, and it
    can be checked by hand; ``certify(norm="l1")`` is about twice as tight.

    Parameters
    ----------
    table : BinTable
        Of a model with finitely many outputs.
    confidence_level, target, class_weight
        As in `calibrant.certify`.

    Returns
    -------
    float

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> table = tabulate([0, 1] * 500, [0.5] * 1000, bins=Distinct())
    >>> round(one_line_ece_bound(table, target="sample"), 4)
    0.0387
    """
    question = Question.of(
        table,
        norm="l1",
        confidence_level=confidence_level,
        target=target,
        class_weight=class_weight,
    )
    if not table.is_binned_model:
        raise NoSuchEstimatorError(
            "Bins of this table mix different predictions: no upper bound exists. Count each "
            "distinct output in its own bin, bins=Distinct()."
        )
    setting = Setting(target, 1 - confidence_level)
    return one_line_upper_bound_l1(evidence_of(table, question.weights), setting)
