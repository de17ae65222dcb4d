"""Upper bounds of the error of several classes at once, for the inputs of the rows at hand.

All inputs are held fixed. Then rows are independent, and row i has label k with probability pi_ik.
Let z_ik be label minus prediction, and for each class k and bin j let d_kj be the mean of z_ik over
its rows, and e_kj that of pi_ik minus prediction. With class weights w_k the error is

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
from typing import Any

import numpy as np

from calibrant.stats.evidence import Evidence


def upper_bound_of_classes(
    evidence: Evidence,
    weights: np.ndarray[Any, Any],
    power: float,
    delta: float,
    one_label: bool = True,
) -> float:
    """Return u such that the l1 or l2 error on these inputs is at most u, with 1 - delta.

    Parameters
    ----------
    evidence : Evidence
        The occupied bins of all classes.
    weights : ndarray
        The weight of each class; they add up to 1.
    power : {1.0, 2.0}
        The norm.
    delta : float
        The error probability.
    one_label : bool
        Whether every row has exactly one of the labels, and no other dependence is used.

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
