"""Tests of groups: whether each is calibrated, and whether they differ.

**p-values** ask for perfect calibration. Given the predictions, the number K of events among the N
rows of a bin with mean prediction s is a sum of independent events. The mixture

    F(K) = integral of (r / s)^K ((1 - r) / (1 - s))^(N - K) over r ~ Beta(c s, c (1 - s))

is convex in K, so its mean is largest if all rows have the same probability (Hoeffding 1956), and
then it is 1. Products over bins have means of at most 1, and so have averages over c, over finer
and coarser bins and over classes; 1 over such a number is a p-value at any sample size (Markov).
Holm's method adjusts them: the probability of any false rejection is at most the level.

**Heterogeneity.** If the error is the same in all groups, events of a bin are spread over groups as
if drawn at random. Two statistics see whether they are: squared differences of every group and
bin, and those of every group over all its bins. They are compared with those of redrawn events, and
the smaller p-value is again compared with those of the draws. Where every bin holds one output,
redrawing is permuting, and the p-value is exact; elsewhere events are drawn from predictions plus
the common gap of their bin, which is approximate.
"""

from __future__ import annotations

import math

import numpy as np

from calibrant._options import generator
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.stats.estimators import ClassWeight, class_weights
from calibrant.stats.hypothesis_tests import CalibrationTestResult, smallest_pvalue
from calibrant.tables import Tables

CONCENTRATIONS = (20.0, 200.0, 2000.0)
"""c of the Beta laws: rates that differ from s by about 0.1, 0.03 and 0.01. Affects power only."""
MOST_BINS = 64
"""Bins are also joined to 1, 2, 4, ..., 64 of about as many rows; affects power only."""
DRAWS, FEWEST_DRAWS, MOST_DRAWN, DRAWN_AT_ONCE = 1999, 199, 20_000_000, 2_000_000
"""Sets of events that the test of heterogeneity draws, fewer where there are so many counts in all
that drawing them would take minutes; and counts that are held at a time."""
MOST_PERMUTED = 500_000_000
"""NumPy permutes counts of less than 10^9 in a bin; more are drawn from their rates."""


def holm(pvalues: FloatArray) -> FloatArray:
    """Adjust p-values by Holm's method: reject those at most a, and any is false with at most a.

    Examples
    --------
    >>> holm(np.array([0.01, 0.5, 0.02]))
    array([0.03, 0.5 , 0.04])
    """
    order = np.argsort(pvalues, kind="stable")
    scaled = pvalues[order] * np.arange(pvalues.size, 0, -1)
    adjusted = np.empty_like(pvalues)
    adjusted[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return adjusted


def log_e_values(tables: Tables, class_weight: ClassWeight = None) -> FloatArray:
    """Return the logarithm of the evidence against perfect calibration, of each group."""
    weights = class_weights(class_weight, tables.problem)
    log_evidence = np.full((len(tables), weights.size), -np.inf)
    for place in range(len(tables)):
        for k in np.flatnonzero(weights):
            used = tables.count[place, k] > 0
            sums = (getattr(tables, name)[place, k][used] for name in ("count", "sum_y", "sum_p"))
            log_evidence[place, k] = _log_evidence(*sums)
    return np.asarray(special.logsumexp(log_evidence, axis=1, b=weights))


def _log_evidence(size: FloatArray, events: FloatArray, predicted: FloatArray) -> float:
    """Average the mixtures over concentrations and over finer and coarser bins."""
    middle = np.cumsum(size) - size / 2
    finest = min(MOST_BINS, 1 << math.ceil(math.log2(size.size)))
    logs = []
    for n_bins in (1 << k for k in range(finest.bit_length())):
        part = np.minimum((middle * n_bins / size.sum()).astype(np.intp), n_bins - 1)
        joined = np.array([np.bincount(part, x, n_bins) for x in (size, events, predicted)], float)
        n, y, p = joined[:, joined[0] > 0]
        logs += [_log_mixture(n, y, np.clip(p / n, 0.0, 1.0), c) for c in CONCENTRATIONS]
    return float(special.logsumexp(logs) - math.log(len(logs)))


def _log_mixture(n: FloatArray, y: FloatArray, s: FloatArray, c: float) -> float:
    """Return the sum over bins of log F; infinite after an event of probability 0."""
    if np.any((y > 0) & (s == 0)) or np.any((y < n) & (s == 1)):
        return math.inf
    inside = (s > 0) & (s < 1)
    n, y, s = n[inside], y[inside], s[inside]
    ratio = special.betaln(c * s + y, c * (1 - s) + n - y) - special.betaln(c * s, c * (1 - s))
    return float(np.sum(ratio - y * np.log(s) - (n - y) * np.log1p(-s)))


def heterogeneity_test(
    tables: Tables, rng: np.random.Generator | int | None = None
) -> CalibrationTestResult | None:
    """Test whether the error is the same in all groups; see the top of this module.

    Parameters
    ----------
    tables : Tables
        Of groups that share their bins.
    rng : numpy Generator or int, optional
        Draws events again, by permuting those of a bin where it holds one output.

    Returns
    -------
    CalibrationTestResult or None
        None for one group, for several classes, with weights, and where bins are not shared.
    """
    several_classes = tables.problem.n_groups > 1
    if len(tables) < 2 or several_classes or tables.is_weighted or not tables.shares_bins:
        return None
    random, pooled = generator("rng", rng), tables.pooled()
    shared = np.flatnonzero((tables.count[:, 0] > 0).sum(axis=0) > 1)
    size, events, predicted = (
        getattr(tables, name)[:, 0, shared] for name in ("count", "sum_y", "sum_p")
    )
    if shared.size == 0:
        return None
    n_draws = int(np.clip(MOST_DRAWN // size.size, FEWEST_DRAWS, DRAWS))
    rate = np.clip(predicted / np.maximum(size, 1) + _gap(size, events, predicted), 0.0, 1.0)
    exact = pooled.is_binned_model and size.sum(axis=0).max() <= MOST_PERMUTED
    statistics = [_differences(events, size, predicted, rate)]
    step = max(1, DRAWN_AT_ONCE // size.size)
    for start in range(0, n_draws, step):
        n_more = min(step, n_draws - start)
        if exact:
            drawn = _permuted(size, events, n_more, random)
        else:  # all draws of a cell in turn: then NumPy prepares the law once for each
            laws = size.astype(np.int64)[..., None], rate[..., None]
            drawn = np.moveaxis(random.binomial(*laws, (*size.shape, n_more)), -1, 0)
        statistics.append(_differences(drawn.astype(np.float64), size, predicted, rate))
    result = smallest_pvalue(np.concatenate(statistics), tables.n)
    method = "heterogeneity, permuted" if exact else "heterogeneity, redrawn"
    return CalibrationTestResult(result.statistic, result.pvalue, method, tables.n)


def _gap(size: FloatArray, events: FloatArray, predicted: FloatArray) -> FloatArray:
    """Return the common gap of each bin, of shape (..., 1, bins)."""
    off = events.sum(axis=-2, keepdims=True) - predicted.sum(axis=0)
    return np.asarray(off / size.sum(axis=0))


def _differences(
    events: FloatArray, size: FloatArray, predicted: FloatArray, rate: FloatArray
) -> FloatArray:
    """Return how far groups are from the common gaps: in every bin, and over all bins."""
    off = events - predicted - size * _gap(size, events, predicted)
    variance = size * rate * (1 - rate)
    whole = variance.sum(axis=1)
    by_bin = np.divide(off**2, variance, out=np.zeros_like(off), where=variance > 0)
    total = off.sum(axis=-1)
    by_group = np.divide(total**2, whole, out=np.zeros_like(total), where=whole > 0)
    return np.atleast_2d(np.stack([by_bin.sum(axis=(-2, -1)), by_group.sum(axis=-1)], axis=-1))


def _permuted(
    size: FloatArray, events: FloatArray, n_draws: int, random: np.random.Generator
) -> IntArray:
    """Spread the events of each bin over its rows at random."""
    counts, totals = size.astype(np.int64), events.sum(axis=0).astype(np.int64)
    columns = [
        random.multivariate_hypergeometric(rows, total, n_draws, method="marginals")
        for rows, total in zip(counts.T, totals.tolist(), strict=True)
    ]
    return np.stack(columns, axis=-1)
