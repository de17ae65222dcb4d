"""Confidence intervals for a calibration error.

============  ========  ==========================================================================
method        norms     what it is
============  ========  ==========================================================================
"score"       l2        closed form, inverts the test of every error with its own variance
"normal"      l1        closed form, conservative: allows for the largest bias the plug-in can have
"box"         any       exact Clopper-Pearson intervals of rates and masses, all bins at once; wide
"percentile"  any       bootstrap quantiles, as the field computes them; covers badly near zero
"basic"       any       the same reflected at the estimate, as the paper's library computes them
============  ========  ==========================================================================

Classes of a marginal problem share their rows, so their errors are dependent. Where the rows can be
read once more, the closed forms measure that dependence by row influences
(`calibrant.stats.influences`). A table alone bounds it: standard deviations are added, as for
perfectly correlated classes, which makes the interval two to three times (ten classes) or eight to
ten times (a hundred) as wide. The bootstrap resamples whole rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant._results import Result
from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray
from calibrant.bins import Bins
from calibrant.exceptions import InvalidArgumentError, NoSuchEstimatorError
from calibrant.stats.estimators import (
    Cells,
    Target,
    cells_of,
    lp_norm,
    null_variance,
    ratio,
    raw_error,
)
from calibrant.table import BinTable

Limits: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, repr=False)
class ConfidenceInterval(Result):
    """An interval ``low, high = interval`` that covers the error at the given level.

    Attributes
    ----------
    low, high : float
    confidence_level : float
    method : str
        How it was made.
    notes : tuple of str
        Where it may not cover, or is wider than rows would make it.
    """

    low: float
    high: float
    confidence_level: float = 0.95
    method: str = "score"
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def _summary(self) -> str:
        return f"[{self.low:z.4f}, {self.high:z.4f}] at {100 * self.confidence_level:g}%"


_NEAREST = 1e-15
"""To 0 and 1 that a level may lie: nearer ones round to 0 or 1 in the course of any computation."""


SLOPE_CAUTION = 1.2
"""Times the slope s of dependent classes: an error that sits where labels vary most adds more
than its share of J, of which chance fills the rest. 1.0 covered down to 88.2% at a nominal 90%."""


def check_level(confidence_level: float) -> None:
    """Refuse levels outside (0, 1), percentages above all."""
    if not isinstance(confidence_level, int | float) or not 0 < confidence_level < 1:
        raise InvalidArgumentError(
            f"confidence_level must lie between 0 and 1; got {confidence_level!r}. "
            "Write 0.95 for 95 percent."
        )
    if not _NEAREST <= confidence_level <= 1 - _NEAREST:
        raise InvalidArgumentError(
            f"confidence_level must be at least {_NEAREST:g} away from 0 and from 1; got "
            f"{confidence_level!r}. Nothing is that sure: write 0.999."
        )


def score_interval(
    cells: Cells,
    weights: FloatArray,
    confidence_level: float,
    target: Target = "population",
    spread: FloatArray | float | None = None,
) -> Limits:
    """Closed-form interval for the l2 error, from one table or many at once.

    Solves ``(T - t^2)^2 = z^2 (V0 + s t^2)`` for t^2, where T is the debiased square, V0 its
    variance at calibration and s t^2 what a true error t adds to it. At a small error the first
    term rules, at a large one the second: there is no regime to choose. In simulation it covers
    where the condition of docs/coverage.md holds; it is not an exact certificate.

    With one class, ``s = 4 vmax / n``, and the noise of the bin masses is added to V0 (left out
    for ``target="sample"``). Several classes with weights w_k depend on each other. `spread`, the
    variance of row influences (`calibrant.stats.influences`), tells how much; see
    `_measured_variance`. Without it V0 and the noise of masses become ``(sum w_k sqrt(V0_k))^2``
    and likewise, their largest possible values; s needs no change, by Jensen's inequality.
    """
    z = special.ndtri((1 + confidence_level) / 2)
    v = _label_variance(cells)
    t = raw_error(cells, weights, 2.0, debiased=True)
    if spread is None:
        v0, masses, slope = _bounded_variance(cells, weights, v, target)
    else:
        v0, slope = _measured_variance(cells, weights, v, np.asarray(spread))
        masses = np.zeros_like(v0)
    b = z**2 * slope
    spread_at_zero = z**2 * (v0 + masses)
    null = (
        spread_at_zero * np.maximum(_null_quantile(v, cells.resolved, confidence_level) / z, 1) ** 2
    )
    low, high = solved(t, b, null, spread_at_zero, -np.sqrt(v0))
    # Rows that are all alone in their bins tell nothing, and have no spread to say so.
    return low, np.where((cells.resolved & (weights > 0)[:, None]).any(axis=(-2, -1)), high, 1.0)


def solved(
    squared: FloatArray,
    b: FloatArray,
    null: FloatArray | float,
    spread_at_zero: FloatArray | float,
    least: FloatArray | float,
) -> Limits:
    """Return the t of ``(T - t^2)^2 = spread + b t^2``, below T with `null` for the spread.

    Above it T counts as no less than `least`.
    """
    low = squared + b / 2 - np.sqrt(np.maximum(b * squared + b**2 / 4 + null, 0.0))
    low = np.where(squared > 0, low, 0.0)  # the estimate is 0 then, and belongs to its interval
    t = np.maximum(squared, least)
    high = t + b / 2 + np.sqrt(np.maximum(b * t + b**2 / 4 + spread_at_zero, 0.0))
    return np.sqrt(np.clip(low, 0, 1)), np.sqrt(np.clip(high, 0, 1))


def _null_quantile(v: FloatArray, resolved: BoolArray, confidence_level: float) -> FloatArray:
    """Return the quantile of T at calibration, in standard deviations, of the widest class.

    T is then like a chi-square variable of as many degrees of freedom as bins of one variance
    would have, whose tail is heavier than a normal one. At 95% the two agree (a calibrated model
    is missed on one side only); at 99%, 5 bins need 3.2 in place of 2.6, without which all
    intervals of 5 groups held in 88% of samples at a nominal 95%.
    """
    variances = np.where(resolved, v, 0.0)
    freedom = variances.sum(axis=-1) ** 2 / np.maximum((variances**2).sum(axis=-1), 1e-300)
    freedom = np.maximum(freedom, 1.0).min(axis=-1)
    tail = special.chdtri(freedom, 1 - confidence_level)
    return np.asarray((tail - freedom) / np.sqrt(2 * freedom))


def _bounded_variance(
    cells: Cells, weights: FloatArray, v: FloatArray, target: Target
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return V0, the noise of bin masses, and s, at their largest for any dependent classes."""
    # the least effective number of rows per mass of any bin
    n = np.where(cells.mass > 0, ratio(cells.size, cells.mass), np.inf).min(axis=(-2, -1))
    v0 = (np.sqrt(null_variance(cells, v)) @ weights) ** 2
    masses = np.zeros_like(v0)
    if target == "population":
        masses = (np.sqrt(_mass_variance(cells, v)) @ weights) ** 2
    used = (cells.mass > 0) & (weights > 0)[:, None]
    vmax = np.where(used, v, 0.0).max(axis=(-2, -1))
    return v0, masses, 4 * np.maximum(vmax, 1 / n) / n


def _measured_variance(
    cells: Cells, weights: FloatArray, v: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return V0 and s of dependent classes, from the variance J of their rows' influences.

    Gaps P that were observed are true errors and chance: P = T + F in square. J is quadratic in
    them, so an error t alone would make it J t^2 / P, hence s = J / P. Chance alone makes it
    J F / P, and that is twice V0: the influence of a row holds the chance of a pair of rows once
    for each of them (as the jackknife does). V0 lies between those of independent classes and of
    classes that err together, whatever J is.
    """
    per_class = null_variance(cells, v)
    independent, together = per_class @ weights**2, (np.sqrt(per_class) @ weights) ** 2
    gap = np.where(cells.resolved, cells.gap, 0.0)
    plug_in = (cells.mass * gap**2).sum(axis=-1) @ weights
    chance = plug_in - raw_error(cells, weights, 2.0, debiased=True)
    slope = np.divide(spread, plug_in, out=np.zeros_like(spread), where=plug_in > 0)
    return np.clip(slope * chance / 2, independent, together), SLOPE_CAUTION * slope


def normal_interval(
    cells: Cells,
    weights: FloatArray,
    confidence_level: float,
    spread: FloatArray | float | None = None,
) -> Limits:
    """Closed-form conservative interval for the l1 error (ECE), from one table or many at once.

    The plug-in error lies above the true one on average, by at most what it would score at
    calibration, F = sum p_j sqrt(2 v_j / (pi N_j)); its standard deviation is at most that of the
    signed errors, s. The interval is ``[plug-in - F - z s, plug-in + z s]``: one side allows for
    the whole bias, the other for none of it. Of several classes s is that of row influences,
    where `spread` is given, else the sum over classes, its largest possible value.
    """
    z = special.ndtri((1 + confidence_level) / 2)
    v = _label_variance(cells)
    noise = ratio(v, cells.size)
    value = raw_error(cells, weights, 1.0, debiased=False)
    floor = math.sqrt(2 / math.pi) * (cells.mass * np.sqrt(noise)).sum(axis=-1) @ weights
    labels = (cells.mass**2 * noise).sum(axis=-1)
    if spread is None:
        first = (cells.mass * np.abs(cells.gap)).sum(axis=-1)
        second = (cells.mass * cells.gap**2).sum(axis=-1)
        masses = np.maximum(second - first**2, 0.0) / _group_rows(cells)
        s = np.sqrt(labels + masses) @ weights
    else:
        s = np.sqrt(np.maximum(spread, labels @ weights**2))
    return np.clip(value - floor - z * s, 0, 1), np.clip(value + z * s, 0, 1)


_MASS_SHARE = 0.1
"""Of the error probability of a box, spent on the masses; affects its width, never its coverage."""


def box_interval(
    cells: Cells,
    weights: FloatArray,
    power: float,
    confidence_level: float,
    target: Target = "sample",
) -> Limits:
    """Return the range of the error over exact intervals that hold in all bins at once.

    Each occupied bin has a Clopper-Pearson interval, at a level that makes all of them hold
    together: Sidak within a class, where bins are independent, and Bonferroni over classes.
    Exact at any n for bins of one distinct prediction, for the error given the bin masses; and for
    that of the population, whose masses have exact intervals too (Bonferroni over bins). The
    largest error needs none. Bins without rows are left out, as they are of the estimate.
    """
    used = cells.mass > 0
    groups = (weights > 0).sum()
    n_bins = np.maximum(used.sum(axis=-1, keepdims=True), 1)
    delta, masses = (1 - confidence_level) / groups, None
    if target == "population" and not math.isinf(power):
        n = _group_rows(cells)[..., None]
        ends = clopper_pearson(cells.mass * n, n, _MASS_SHARE * delta / n_bins)
        masses = tuple(np.where(used, end, 0.0) for end in ends)
        delta = (1 - _MASS_SHARE) * delta
    alpha = -np.expm1(np.log1p(-delta) / n_bins)
    low, high = clopper_pearson(cells.rate * cells.size, cells.size, alpha)
    nearest = np.maximum(np.maximum(low - cells.mean, cells.mean - high), 0.0)
    farthest = np.maximum(np.abs(low - cells.mean), np.abs(high - cells.mean))
    if masses is None:
        low_mass = high_mass = cells.mass
    else:
        low_mass, high_mass = _extreme_masses(-nearest, *masses), _extreme_masses(farthest, *masses)
    return lp_norm(nearest, low_mass, weights, power), lp_norm(farthest, high_mass, weights, power)


def _extreme_masses(value: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the masses between these limits, of sum 1 in each group, of the largest mean value.

    Every bin has its least mass; the rest goes to the bins in falling order of value.
    """
    order = np.argsort(-value, axis=-1, kind="stable")
    room = np.take_along_axis(high - low, order, axis=-1)
    remaining = 1 - low.sum(axis=-1, keepdims=True) - (np.cumsum(room, axis=-1) - room)
    added = np.empty_like(room)
    np.put_along_axis(added, order, np.clip(remaining, 0.0, room), axis=-1)
    return low + added


def clopper_pearson(events: FloatArray, size: FloatArray, alpha: npt.ArrayLike) -> Limits:
    """Exact two-sided interval of a rate at level 1 - alpha, in every cell."""
    tail = np.asarray(alpha) / 2
    misses = size - events
    low = special.betaincinv(np.maximum(events, 1e-300), misses + 1, tail)
    high = special.betaincinv(events + 1, np.maximum(misses, 1e-300), 1 - tail)
    return np.where(events > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def _label_variance(cells: Cells) -> FloatArray:
    """Return a cautious variance of y - p in each bin.

    The largest of: the variance at calibration, the variance at the event rate shrunk towards
    the prediction by two rows, and the observed one, where predictions vary inside the bin or
    where weights that depend on the label make it larger than rows of one weight can have it.
    """
    shrunk = (cells.rate * cells.size + 2 * cells.mean) / (cells.size + 2)
    v = np.maximum(cells.mean * (1 - cells.mean), shrunk * (1 - shrunk))
    observed = cells.observed_variance
    mixed = cells.mean * (1 - cells.mean) - cells.noise > 1e-9
    uneven = observed > (1 + 1e-9) * cells.event_variance
    return np.where(mixed | uneven, np.maximum(v, observed), v)


def _mass_variance(cells: Cells, v: FloatArray) -> FloatArray:
    """Variance that random bin masses add to the squared error of each group."""
    excess = np.maximum(cells.gap**2 - ratio(v, cells.size), 0)
    squared = np.maximum((cells.mass * cells.square).sum(axis=-1), 0.0)
    second = (cells.mass * excess**2).sum(axis=-1)
    return np.asarray(np.maximum(second - squared**2, 0.0) / _group_rows(cells))


def _group_rows(cells: Cells) -> FloatArray:
    """Return the effective number of rows of each group: n without weights."""
    return np.asarray(1 / (cells.mass**2 / np.maximum(cells.size, 1)).sum(axis=-1))


def bootstrap_interval(
    values: FloatArray, estimate: float, confidence_level: float, method: str
) -> tuple[float, float]:
    """Interval from the values of resampled tables: their quantiles, or these reflected."""
    low, high = np.quantile(values, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    if method == "basic":
        low, high = max(2 * estimate - high, 0.0), max(2 * estimate - low, 0.0)
    return float(low), float(high)


def bootstrap_values(
    table: BinTable,
    error: Callable[[Cells], FloatArray],
    n_resamples: int,
    rng: np.random.Generator,
    resample: Callable[[tuple[Bins, ...], np.random.Generator], BinTable] | None,
) -> FloatArray:
    """Return the error of each resampled table.

    Rows that share bin, prediction and label are exchangeable, so a binned model in one group is
    resampled as counts of its (bin, label) cells, at a cost that does not depend on n. Otherwise
    rows are resampled, which needs them: `resample` draws rows and counts them in the same bins.
    """
    if table.is_binned_model and table.n_groups == 1 and not table.is_weighted:
        return error(_resampled_cells(table, n_resamples, rng))
    if resample is None:
        raise NoSuchEstimatorError(
            "A bootstrap of continuous, marginal or weighted predictions resamples rows; a table "
            "has none, and a result that was pickled has left them behind. Call "
            'calibration_error(y_true, y_prob, ...) again, or use method="auto".'
        )
    tables = (resample(table.bins, rng) for _ in range(n_resamples))
    return np.array([error(cells_of(drawn)) for drawn in tables])


def _resampled_cells(table: BinTable, n_resamples: int, rng: np.random.Generator) -> Cells:
    misses = table.count[0] - table.sum_y[0]
    shares = np.concatenate([misses, table.sum_y[0]]) / table.n
    draws = rng.multinomial(table.n, shares, size=n_resamples).reshape(n_resamples, 1, 2, -1)
    y = draws[:, :, 1].astype(np.float64)
    n = draws.sum(axis=2).astype(np.float64)
    p = np.nan_to_num(table.level)
    return Cells(y, n * p, n * p**2, n, n, y * (1 - p) ** 2 + (n - y) * p**2)
