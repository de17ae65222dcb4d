"""Rival upper bounds of the l2 error of a binned model, to be shown beside our certificates.

A binned model answers ``levels[j]`` in bin j. Of n independent rows ``sizes[j]`` fell into bin j and
``events[j]`` of these had the event. Every function takes ``(sizes, events, levels, delta)``, the
first two of shape (..., B), and returns, of shape (...), a number that is meant to lie below the
population's error ``sqrt(sum_j p_j (pi_j - s_j)^2)`` in at most a share delta of samples. The masses
p_j and the event rates pi_j are unknown. Nothing here uses the library, so that neither can hide the
other's mistakes.

Not among them: Sun, Song and Hero (2023, "Minimum-risk recalibration of classifiers"), whose
theorem 1 bounds the risk of the histogram that is fitted to the same rows, before any label is seen,
and says nothing of a given model.
"""

from __future__ import annotations

import numpy as np
from scipy import special

RESAMPLES = 400


def upper_limits(sizes, events, delta: float):
    """Return one-sided Clopper-Pearson upper limits of a probability; 1 where there is no row."""
    sizes, events = np.broadcast_arrays(sizes, events)
    all_events = events >= sizes
    limits = special.betaincinv(events + 1, np.where(all_events, 1, sizes - events), 1 - delta)
    return np.where(all_events, 1.0, limits)


def lower_limits(sizes, events, delta: float):
    """Return one-sided Clopper-Pearson lower limits of a probability; 0 where there is no row."""
    return 1 - upper_limits(sizes, np.asarray(sizes) - events, delta)


def gap_limits(sizes, events, levels, delta: float):
    """Return limits of |pi_j - s_j| that hold for all bins at once with probability 1 - delta.

    Bonferroni over the bins, delta / B for each. Both tails of a bin may have all of that: if pi_j
    lies above s_j, only the upper limit can fail the statement, else only the lower one.
    """
    each = delta / np.shape(levels)[-1]
    above = upper_limits(sizes, events, each) - levels
    return np.maximum(above, levels - lower_limits(sizes, events, each))


def clopper_pearson(sizes, events, levels, delta: float):
    """Exact limits in every bin, Bonferroni over bins, weighted by the observed shares.

    Theorem: it bounds the error at the observed shares ``sizes / n`` (the sample's). None for the
    population's, whose masses are not the observed ones.
    """
    gaps = gap_limits(sizes, events, levels, delta)
    return np.sqrt((sizes * gaps**2).sum(axis=-1) / np.sum(sizes, axis=-1))


def masses_and_clopper_pearson(sizes, events, levels, delta: float):
    """Exact limits of all event rates and of all masses, half of delta for each.

    Theorem, for the population: with probability 1 - delta every gap lies below its limit u_j and
    every mass below its Clopper-Pearson limit (Bonferroni). The largest sum of p_j u_j^2 over such
    masses that add up to 1 fills the bins from the largest u_j down.
    """
    gaps = gap_limits(sizes, events, levels, delta / 2)
    n = np.sum(sizes, axis=-1, keepdims=True)
    most = upper_limits(n, sizes, delta / 2 / np.shape(levels)[-1])
    order = np.argsort(-gaps, axis=-1)
    gaps, most = (np.take_along_axis(x, order, axis=-1) for x in (gaps, most))
    filled = np.minimum(np.cumsum(most, axis=-1), 1.0)
    masses = np.diff(filled, axis=-1, prepend=0.0)
    return np.sqrt((masses * gaps**2).sum(axis=-1))


def hoeffding_maximum(sizes, events, levels, delta: float):
    """Largest gap plus Hoeffding's radius, as in Gupta and Ramdas (2021).

    Their theorem 3 says that all gaps of uniform-mass histogram binning lie below
    ``sqrt(log(2 B / delta) / (2 (floor(n / B) - 1)))``. The same argument for a given model: by
    Hoeffding's inequality and a union over the bins every gap lies below the observed one plus
    ``sqrt(log(2 B / delta) / (2 N_j))``. Theorem, for the population: the largest gap is at least
    the l2 error, whatever the masses. A bin without rows can be off by as much as its level allows.
    """
    possible = np.maximum(levels, 1 - np.asarray(levels))
    radius = np.sqrt(np.log(2 * np.shape(levels)[-1] / delta) / (2 * np.maximum(sizes, 1)))
    observed = np.abs(events / np.maximum(sizes, 1) - levels) + radius
    return np.where(sizes > 0, np.minimum(observed, possible), possible).max(axis=-1)


def debiased_square(sizes, events, levels):
    """Return the debiased square: the U-statistic of y - s in bins; one row alone adds nothing."""
    return _terms(sizes, events, levels).sum(axis=-1) / np.sum(sizes, axis=-1)


def _terms(sizes, events, levels):
    """Return n times each bin's part of the debiased square."""
    sums = events - sizes * levels
    squares = events * (1 - levels) ** 2 + (sizes - events) * levels**2
    return np.where(sizes > 1, (sums**2 - squares) / np.maximum(sizes - 1, 1), 0.0)


def sun_2024(sizes, events, levels, delta: float):
    """Upper limit of Sun, Chaudhari, Barnett and Dobriban (2024), one-sided.

    ``max(T, 0) + z sigma / sqrt(n)`` for the squared error: T is the debiased square, and sigma^2
    the variance of its first-order term, sum p (4 m^2 E[u^2] - 3 m^4) - (sum p m^2)^2 with u = y - s
    and m its mean in the bin. Asymptotic: no theorem for any n, and near calibration sigma is
    noise, because there the second-order term rules.
    """
    n = np.sum(sizes, axis=-1)
    rates, shares = events / np.maximum(sizes, 1), sizes / n[..., None]
    gaps = np.where(sizes > 0, rates - levels, 0.0)
    second = rates * (1 - levels) ** 2 + (1 - rates) * levels**2
    variance = (shares * (4 * gaps**2 * second - 3 * gaps**4)).sum(axis=-1)
    variance = np.maximum(variance - (shares * gaps**2).sum(axis=-1) ** 2, 0.0)
    square = np.maximum(debiased_square(sizes, events, levels), 0.0)
    return np.sqrt(square + special.ndtri(1 - delta) * np.sqrt(variance / n))


def resampled_squares(sizes, events, levels, resamples: int, seed: int):
    """Return debiased squares of tables whose rows were drawn again, resamples first."""
    n = np.sum(sizes, axis=-1)
    cells = np.concatenate((events, sizes - events), axis=-1) / n[..., None]
    drawn = np.random.default_rng(seed).multinomial(n, cells, size=(resamples, *n.shape))
    happened, not_happened = np.split(drawn, 2, axis=-1)
    return debiased_square(happened + not_happened, happened, levels)


def bootstrap_percentile(
    sizes, events, levels, delta: float, resamples: int = RESAMPLES, seed: int = 0
):
    """Quantile of the debiased error of resampled tables.

    No theorem; each resample adds a second dose of noise to every gap, so near calibration all of
    them lie too high, the more so the more bins there are.
    """
    squares = resampled_squares(sizes, events, levels, resamples, seed)
    return np.sqrt(np.maximum(np.quantile(squares, 1 - delta, axis=0), 0.0))


def bootstrap_bca(sizes, events, levels, delta: float, resamples: int = RESAMPLES, seed: int = 0):
    """Bias-corrected and accelerated bootstrap (Efron 1987) of the debiased error.

    No theorem for any n. The correction reads off how many resamples lie below the estimate; with
    many bins nearly none do, and the limit falls to the least of them.
    """
    squares = resampled_squares(sizes, events, levels, resamples, seed)
    estimate = debiased_square(sizes, events, levels)
    below = (squares < estimate).mean(axis=0) + (squares == estimate).mean(axis=0) / 2
    shift = special.ndtri(np.clip(below, 0.5 / resamples, 1 - 0.5 / resamples))
    reach = shift + special.ndtri(1 - delta)
    slope = 1 - acceleration(sizes, events, levels) * reach
    # Beyond its pole the correction has no meaning; the largest resample is the honest end.
    level = np.where(slope > 0, special.ndtr(shift + reach / np.where(slope > 0, slope, 1)), 1.0)
    ordered = np.sort(squares, axis=0)
    place = np.clip(np.ceil(level * resamples).astype(int) - 1, 0, resamples - 1)
    limit = np.take_along_axis(ordered, place[None], axis=0)[0]
    return np.sqrt(np.maximum(limit, 0.0))


def acceleration(sizes, events, levels):
    """Return the acceleration of the debiased square by leaving out each row in turn.

    Rows of one bin and outcome are alike, so there are only 2 B values to compute.
    """
    n = np.sum(sizes, axis=-1, keepdims=True)
    terms = _terms(sizes, events, levels)
    without = [
        (terms.sum(axis=-1, keepdims=True) - terms + _terms(sizes - 1, events - y, levels))
        / (n - 1)
        for y in (1, 0)
    ]
    values = np.concatenate(without, axis=-1)
    counts = np.concatenate((events, sizes - events), axis=-1)
    values = np.where(counts > 0, values, 0.0)
    away = (counts * values).sum(axis=-1, keepdims=True) / n - values
    cubes, squares = ((counts * away**power).sum(axis=-1) for power in (3, 2))
    return cubes / (6 * np.maximum(squares, 1e-300) ** 1.5)


PEERS = {
    "Clopper-Pearson, Bonferroni": clopper_pearson,
    "masses and Clopper-Pearson": masses_and_clopper_pearson,
    "Gupta and Ramdas 2021, maximum": hoeffding_maximum,
    "Sun et al. 2024": sun_2024,
    "bootstrap, percentile": bootstrap_percentile,
    "bootstrap, BCa": bootstrap_bca,
}
PROVED = ("masses and Clopper-Pearson", "Gupta and Ramdas 2021, maximum")
"""Those with a theorem for the population's error at every n."""
