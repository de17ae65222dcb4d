"""The population's squared error, bounded by that of the sample where all outputs are known.

With masses p_j, shares N_j / n of the rows and errors e_j,

    t^2 = sum p_j e_j^2 <= max_j (p_j n / N_j)  sum (N_j / n) e_j^2.

The last sum is the squared error of the sample, t_N^2, which has a bound of its own given any
counts; and p_j <= U_j for all outputs at once, by Clopper-Pearson limits. Both hold with
probability 1 - delta if their error probabilities add up to delta. Every output must have rows:
one that nobody has seen may be off by 1.

Exact tails of the population's error (`calibrant.stats.tail_bounds`) are tighter where outputs are
many or labels vary; this is where rows are few and labels hardly vary, because the sample's tests
may be tuned to the counts. Which of the two is taken is decided by what both give a calibrated
model with equal counts, before any row is seen, so that one has the whole error probability.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from calibrant._types import FloatArray
from calibrant.stats.bounds import ETA
from calibrant.stats.evidence import Evidence, Setting
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.tail_bounds import sharp_upper_bound
from calibrant.stats.tail_tuning import Squared

MASS_SHARE = 0.1
"""Of the error probability, spent on the limits of the masses; 0.2 costs 2% of the bound."""
LEARNING_SHARE = 0.05
"""The same where masses only tell how far a bin can be off. Both affect tightness, not validity."""
_MOST_OUTPUTS = 40
"""For more, exact tails of the population's error are tighter: by 40% with 50 outputs."""


def bound_by_sample(
    evidence: Evidence, n_outputs: int, delta: float, observed: float | None = None
) -> float:
    """Return a bound of the population's error that holds with probability 1 - delta.

    Parameters
    ----------
    n_outputs : int
        All that there are; 1 is returned unless each of them has rows.
    observed : float, optional
        As in `sharp_upper_bound`.
    """
    if evidence.s.size < n_outputs:
        return 1.0
    rows = np.full(n_outputs, evidence.n)
    most = clopper_pearson(evidence.size, rows, 2 * MASS_SHARE * delta / n_outputs)[1]
    setting = Setting("sample", (1 - MASS_SHARE) * delta)
    bound = sharp_upper_bound(evidence, setting, Squared, observed)
    return min(bound * math.sqrt(float(np.max(most / evidence.mass))), 1.0)


def least_masses(size: FloatArray, n: int, n_outputs: int, delta: float) -> FloatArray:
    """Return lower bounds of the masses, any of which is wrong with probability delta at most."""
    return clopper_pearson(size, np.full(size.shape, n), 2 * delta / n_outputs)[0]


@lru_cache(maxsize=256)
def prefers_sample(n: int, levels: tuple[float, ...], delta: float) -> bool:
    """Whether the sample's bound serves a calibrated model with these outputs better."""
    s = np.array(levels)
    if s.size > _MOST_OUTPUTS or n < s.size:
        return False
    size = np.full(s.size, float(n // s.size))
    planned = Evidence(n, size, s, s, np.ones(s.size), s.size, s)
    usual = (1 - ETA) * float(np.sum(s * (1 - s))) / n
    masses = least_masses(size, n, s.size, LEARNING_SHARE * delta)
    setting = Setting("population", (1 - LEARNING_SHARE) * delta, masses, 0.5 / s.size)
    by_masses = sharp_upper_bound(planned, setting, Squared, usual)
    return bound_by_sample(planned, s.size, delta, usual) < by_masses
