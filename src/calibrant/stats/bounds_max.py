"""Bounds of the largest calibration error of any output, which hold at any sample size.

Notation and evidence are those of `calibrant.stats.bounds`: given the counts N_j, the numbers of
events K_j are Bin(N_j, pi_j), and e_j = pi_j - s_j. The error is M = max abs(e_j).

**Upper bound.** Let L_j and U_j be one-sided Clopper-Pearson limits of pi_j, each at error
probability delta, and u = max_j u_j with u_j = max(U_j - s_j, s_j - L_j). No correction for many
bins is needed. Let j* be the output with the largest error, above its prediction, say. If u < M
then u_j* < e_j*, so U_j* < pi_j*: one limit of one bin has failed, with probability delta at most.

For one class that holds given the counts, with j* among the outputs that were seen. With several
classes the events of one are not binomial given the counts of others, so j* must not depend on
these: it is the output with the largest error among all, of every class, whose probability is at
least m, seen or not. It has been seen but for a probability of (1 - m)^n, which is taken off delta.
If all outputs are declared to be that likely, the same covers outputs that no row has.

**Lower bound.** Here any bin may mislead, so there is a union: Sidak over the bins of a class,
which are independent given their counts, and Bonferroni over classes. In a bin, abs(e_j) <= m is
tested by D = abs(K_j - N_j s_j). Among these rates P(D >= d) is largest at s_j - m or s_j + m: the
power function of a two-sided binomial test falls and then rises. So no side has to be halved.

**Plans.** No output is off by more than m if one-sided Clopper-Pearson limits of every bin lie
within m of its prediction. The upper limit of K events in N rows does if

    P(Bin(N, s + m) <= K) <= delta,

which holds up to some K; likewise for the lower limit, with events and others swapped. So a bin
allows m for a range of K, whose probability is that of a binomial law. Bins are taken as
independent, and their numbers of rows as binomial: at a few quantiles of each.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.questions import Evidence

UNSEEN_SHARE = 0.05
"""Of the error probability, for outputs that were not seen; affects tightness, not validity."""
_HALVINGS = 52
"""Of [0, 1]: down to the rounding of a float."""
_HALVINGS_OF_PLANS = 40
"""Of [true_error, 1]: to a part in 1e12."""
_SIZES = (np.arange(9) + 0.5) / 9
"""Quantiles at which the rows of a bin are taken as normal: power changes little with more."""
_MANY = 1e6
"""Rows of a bin for which the binomial law is as good as normal."""


def upper_bound_max(evidence: Evidence, delta: float) -> float:
    """Return u such that no output is off by more than u, with probability 1 - delta.

    Examples
    --------
    >>> one, s = np.ones(2), np.array([0.2, 0.5])
    >>> evidence = Evidence(200, 100 * one, np.array([0.2, 0.53]), s, one, 2)
    >>> round(upper_bound_max(evidence, 0.05), 3), round(lower_bound_max(evidence, 0.05), 3)
    (0.116, 0.0)
    """
    return float(upper_bounds_of_bins(evidence, delta).max())


def upper_bounds_of_bins(evidence: Evidence, delta: float) -> FloatArray:
    """Return u_j such that each output by itself is off by at most its u_j, with 1 - delta."""
    low, high = clopper_pearson(evidence.events, evidence.size, 2 * delta)
    # below a confidence of 1/2 limits may lie on the other side of both rates
    return np.maximum(np.maximum(high - evidence.s, evidence.s - low), 0.0)


def lower_bound_max(evidence: Evidence, delta: float) -> float:
    """Return l such that some output is off by at least l, with probability 1 - delta."""
    return float(lower_bounds_of_bins(evidence, delta).max())


def lower_bounds_of_bins(evidence: Evidence, delta: float) -> FloatArray:
    """Return l_j such that every output is off by at least its l_j, with probability 1 - delta."""
    bins = np.bincount(evidence.class_of)
    # equal shares for classes, and for the bins of a class
    alpha = np.asarray(-np.expm1(np.log1p(-delta / bins.size) / bins)[evidence.class_of])
    low, high = np.zeros_like(alpha), np.ones_like(alpha)
    for _ in range(_HALVINGS):
        m = (low + high) / 2
        rejected = _largest_tail(evidence, m) <= alpha
        low, high = np.where(rejected, m, low), np.where(rejected, high, m)
    return low


def spent_on_unseen(
    n: int, delta: float, several: bool, declared_mass: float | None
) -> tuple[float, str | None]:
    """Return the share of delta for outputs without rows, and which ones the bound leaves out.

    `several` says whether there are several classes; the probabilities of all outputs may have been
    declared to be at least `declared_mass`.

    Examples
    --------
    >>> spent_on_unseen(1000, 0.05, False, None)
    (0.0, 'The upper bound says nothing of outputs that no row has.')
    >>> spent_on_unseen(1000, 0.05, True, None)[1]
    'The upper bound says nothing of outputs with a probability below 0.00597.'
    """
    share = UNSEEN_SHARE * delta
    least = -math.expm1(math.log(share) / n)
    if declared_mass is not None and declared_mass >= least:
        return math.exp(n * math.log1p(-declared_mass)) if declared_mass < 1 else 0.0, None
    if several:
        rare = f"outputs with a probability below {least:.3g}"
        return share, f"The upper bound says nothing of {rare}."
    return 0.0, "The upper bound says nothing of outputs that no row has."


def _largest_tail(evidence: Evidence, m: FloatArray) -> FloatArray:
    """Return the largest P(D >= observed) among rates within m of each prediction."""
    size, s, events = evidence.size, evidence.s, evidence.events
    mirrored = 2 * size * s - events  # as far off, on the other side
    slack = 1e-9 * size  # a mirrored count that is whole but for rounding belongs to the tail
    above = np.maximum(events, np.ceil(mirrored - slack))
    below = np.minimum(events, np.floor(mirrored + slack))
    ends = (np.maximum(s - m, 0.0), np.minimum(s + m, 1.0))
    tails = [_at_least(above, size, pi) + _at_least(size - below, size, 1 - pi) for pi in ends]
    return np.where(above <= below, 1.0, np.maximum(*tails))


def _at_least(k: FloatArray, size: FloatArray, pi: FloatArray) -> FloatArray:
    """Return P(K >= k)."""
    inner = np.clip(k, 1, size)
    tail = special.betainc(inner, size - inner + 1, pi)
    return np.where(k <= 0, 1.0, np.where(k > size, 0.0, tail))


def bound_max_with_power(n: int, s: FloatArray, delta: float, power: float, t: float) -> float:
    """Return the value that the bound of the largest error is below with probability `power`.

    Parameters
    ----------
    n : int
        Rows.
    s : ndarray
        The outputs, equally likely.
    delta : float
        The error probability of the certificate.
    power : float
        The probability that the bound is no larger.
    t : float
        By how much every output is off: towards 1/2, where labels vary more.

    Examples
    --------
    >>> round(bound_max_with_power(1000, np.array([0.25, 0.75]), 0.05, 0.9, 0.0), 3)
    0.07
    """
    rate = np.clip(s + np.where(s <= 0.5, t, -t), 0.0, 1.0)
    mean = n / s.size
    size = np.rint(mean + special.ndtri(_SIZES) * np.sqrt(mean * (1 - 1 / s.size)))
    size = np.maximum(size, 1.0)[:, None]
    low, high = t, 1.0
    for _ in range(_HALVINGS_OF_PLANS):
        m = (low + high) / 2
        within = _cdf(_most_events(size, s + m, delta), size, rate)
        within -= _cdf(size - 1 - _most_events(size, 1 - s + m, delta), size, rate)
        reached = float(np.prod(np.maximum(within, 0.0).mean(axis=0))) >= power
        low, high = (low, m) if reached else (m, high)
    return high


def _most_events(size: FloatArray, limit: FloatArray, delta: float) -> FloatArray:
    """Return the most events whose upper limit is no larger than `limit`; -1 if none are."""
    p = np.minimum(limit, 1.0)
    spread = np.sqrt(size * p * (1 - p))
    k = np.clip(np.floor(size * p + special.ndtri(delta) * spread), -1.0, size)
    if size.max() < _MANY:  # a search from there on, up or down
        while np.any(late := (k >= 0) & (_cdf(k, size, p) > delta)):
            k = np.where(late, k - 1, k)
        while np.any(early := (k < size) & (_cdf(k + 1, size, p) <= delta)):
            k = np.where(early, k + 1, k)
    return np.asarray(np.where(limit >= 1, size, k))


def _cdf(k: FloatArray, size: FloatArray, p: FloatArray) -> FloatArray:
    """Return P(Bin(size, p) <= k)."""
    if size.max() < _MANY:
        inner = np.clip(k, 0, size - 1)
        below = special.betaincc(inner + 1, size - inner, p)
        return np.where(k < 0, 0.0, np.where(k >= size, 1.0, below))
    spread = np.sqrt(np.maximum(size * p * (1 - p), 1e-300))
    return np.asarray(special.ndtr((k + 0.5 - size * p) / spread))
