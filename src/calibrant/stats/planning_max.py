"""Plans for the largest error of any output: what its certificate will stay below.

`calibrant.stats.bounds_max` says that no output is off by more than m if one-sided Clopper-Pearson
limits of every bin lie within m of its prediction. The upper limit of K events in N rows does if

    P(Bin(N, s + m) <= K) <= delta,

which holds up to some K; likewise for the lower limit, with events and others swapped. So a bin
allows m for a range of K, whose probability is that of a binomial law. Bins are taken as
independent, and their numbers of rows as binomial: at a few quantiles of each.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from calibrant._types import FloatArray

_SIZES = special.ndtri((np.arange(9) + 0.5) / 9)
"""Normal quantiles at which the rows of a bin are taken: power changes little with more."""
_MANY = 1e6
"""Rows of a bin for which the binomial law is as good as normal."""
_HALVINGS = 40
"""Of [true_error, 1]: to a part in 1e12."""


def bound_max_with_power(n: int, s: FloatArray, delta: float, power: float, t: float) -> float:
    """Return what the bound of the largest error stays below with probability `power`.

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
    size = np.rint(mean + _SIZES * np.sqrt(mean * (1 - 1 / s.size)))
    size = np.maximum(size, 1.0)[:, None]
    low, high = t, 1.0
    for _ in range(_HALVINGS):
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
