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
    """Return what outputs without rows cost of delta, and what the bound says nothing of.

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
