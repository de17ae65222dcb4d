"""The C statistic (area under the ROC curve) and its intervals."""

from __future__ import annotations

import numpy as np

from calibrant._scipy import optimize, special
from calibrant._types import FloatArray
from calibrant.stats.samples import Sample

FEW = 10
"""Events or non-events below which DeLong's variance is not trusted; it is 0 where ranks agree."""


def c_statistic(sample: Sample) -> tuple[float, FloatArray]:
    """Return the share of pairs in which the event has the higher prediction, and influences.

    Ties count half. The influences are the placements of DeLong, DeLong and Clarke-Pearson (1988);
    summed over clusters they give the variance of Obuchowski (1997).

    >>> sample = Sample.of(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.1, 0.4, 0.35, 0.8]))
    >>> c_statistic(sample)[0]
    0.75
    """
    y, weight = sample.y, sample.weight
    _, place = np.unique(sample.p, return_inverse=True)
    events = np.bincount(place, weight * y)
    misses = np.bincount(place, weight * (1 - y))
    below = (np.cumsum(misses) - misses / 2) / misses.sum()
    above = 1 - (np.cumsum(events) - events / 2) / events.sum()
    area = float(events @ below) / events.sum()
    share = sample.mean(y)
    influence = np.where(y == 1, (below[place] - area) / share, (above[place] - area) / (1 - share))
    return float(area), influence


def c_limits(
    sample: Sample, area: float, influence: FloatArray, confidence_level: float
) -> tuple[float, float, str]:
    """Return the interval of C and its name.

    DeLong's on the log-odds scale; with few events, or where C is 0 or 1, Newcombe's (2006), which
    inverts a score test with the variance of Hanley and McNeil (1982) and never has length 0.
    """
    error = sample.variance(influence) ** 0.5
    if sample.fewest >= FEW and 0 < area < 1 and error > 0:
        reach = sample.quantile(confidence_level) * error / (area * (1 - area))
        centre = float(special.logit(area))
        return float(special.expit(centre - reach)), float(special.expit(centre + reach)), "DeLong"
    z = sample.quantile(confidence_level)
    shrink = sample.effective_n / len(sample)
    m = max(sample.events * shrink, 1.0)
    n = max((len(sample) - sample.events) * shrink, 1.0)
    mean = (m + n) / 2 - 1

    def excess(a: float) -> float:
        variance = a * (1 - a) * (1 + mean * (1 - a) / (2 - a) + mean * a / (1 + a)) / (m * n)
        return (area - a) ** 2 - z**2 * variance

    # Where C is 0 or 1 the excess has a trivial root at a = C: brackets stop short of it.
    low = 0.0 if area <= 0 else float(optimize.brentq(excess, 0.0, min(area, 1 - 1e-12)))
    high = 1.0 if area >= 1 else float(optimize.brentq(excess, max(area, 1e-12), 1.0))
    return low, high, "Newcombe"
