"""Confidence intervals for a calibration error.

============  ========  ==========================================================================
method        norms     what it is
============  ========  ==========================================================================
"score"       l2        closed form, inverts the test of every error with its own variance
"normal"      l1        closed form, conservative: allows for the largest bias the plug-in can have
"box"         any       exact Clopper-Pearson interval in each bin, all at once; wide
"percentile"  any       bootstrap quantiles, as the field computes them; covers badly near zero
"basic"       any       the same reflected at the estimate, as the paper's library computes them
============  ========  ==========================================================================

Classes of a marginal problem share their rows, so their errors are dependent. The closed forms
bound that dependence (standard deviations are added, as for perfectly correlated classes); the
bootstrap measures it by resampling whole rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import special

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, NoSuchEstimatorError
from calibrant.stats.estimators import (
    Cells,
    cells_from_sums,
    cells_of,
    error_of,
    lp_norm,
    null_variance,
    raw_error,
)
from calibrant.table import BinTable

Limits: TypeAlias = tuple[FloatArray, FloatArray]
Target: TypeAlias = Literal["population", "sample"]
Resampler: TypeAlias = Callable[[np.random.Generator], BinTable]


@dataclass(frozen=True)
class ConfidenceInterval:
    """An interval ``low, high = interval`` that covers the error at the given level."""

    low: float
    high: float
    confidence_level: float = 0.95
    method: str = "score"

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"[{self.low:.4f}, {self.high:.4f}] at {100 * self.confidence_level:g}%"


_NEAREST = 1e-15
"""To 0 and 1 that a level may lie: nearer ones round to 0 or 1 in the course of any computation."""


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
    cells: Cells, weights: FloatArray, confidence_level: float, target: Target = "population"
) -> Limits:
    """Closed-form interval for the l2 error, from one table or many at once.

    Solves ``(T - t^2)^2 = z^2 (V0 + 4 vmax t^2 / n + g)`` for t^2, where T is the debiased square,
    V0 its variance at calibration, the second term what a true error t adds to it, and g the
    noise of the bin masses (left out for ``target="sample"``). At a small error the first term
    rules, at a large one the second: there is no regime to choose. In simulation it covers
    where bins expect ten rows and ten events (docs/coverage.md); it is not an exact certificate.

    Several classes with weights w_k: V0 and g become ``(sum w_k sqrt(V0_k))^2`` and likewise,
    their largest possible values; the middle term needs no change, by Jensen's inequality.
    """
    z = special.ndtri((1 + confidence_level) / 2)
    v = _label_variance(cells)
    n = _rows(cells)
    t = raw_error(cells, weights, 2.0, debiased=True)
    v0 = (np.sqrt(null_variance(cells, v)) @ weights) ** 2
    g = (np.sqrt(_mass_variance(cells, v)) @ weights) ** 2 if target == "population" else 0.0
    used = (cells.mass > 0) & (weights > 0)[:, None]
    vmax = np.where(used, v, 0.0).max(axis=(-2, -1))
    b = 4 * z**2 * np.maximum(vmax, 1 / n) / n
    spread = z**2 * (v0 + g)
    low = t + b / 2 - np.sqrt(np.maximum(b * t + b**2 / 4 + spread, 0.0))
    low = np.where(t > 0, low, 0.0)  # the estimate is 0 then, and belongs to its interval
    t = np.maximum(t, -np.sqrt(v0))
    high = t + b / 2 + np.sqrt(np.maximum(b * t + b**2 / 4 + spread, 0.0))
    return np.sqrt(np.clip(low, 0, 1)), np.sqrt(np.clip(high, 0, 1))


def normal_interval(cells: Cells, weights: FloatArray, confidence_level: float) -> Limits:
    """Closed-form conservative interval for the l1 error (ECE), from one table or many at once.

    The plug-in error lies above the true one on average, by at most what it would score at
    calibration, F = sum p_j sqrt(2 v_j / (pi N_j)); its standard deviation is at most that of the
    signed errors, s. The interval is ``[plug-in - F - z s, plug-in + z s]``: one side allows for
    the whole bias, the other for none of it.
    """
    z = special.ndtri((1 + confidence_level) / 2)
    v = _label_variance(cells)
    spread = np.where(cells.size > 0, v / np.maximum(cells.size, 1), 0.0)
    value = raw_error(cells, weights, 1.0, debiased=False)
    floor = math.sqrt(2 / math.pi) * (cells.mass * np.sqrt(spread)).sum(axis=-1) @ weights
    first = (cells.mass * np.abs(cells.gap)).sum(axis=-1)
    second = (cells.mass * cells.gap**2).sum(axis=-1)
    masses = np.maximum(second - first**2, 0.0) / _group_rows(cells)
    s = np.sqrt((cells.mass**2 * spread).sum(axis=-1) + masses) @ weights
    return np.clip(value - floor - z * s, 0, 1), np.clip(value + z * s, 0, 1)


def box_interval(
    cells: Cells, weights: FloatArray, power: float, confidence_level: float
) -> Limits:
    """Return the range of the error over exact intervals that hold in all bins at once.

    Each occupied bin has a Clopper-Pearson interval, at a level that makes all of them hold
    together: Sidak within a class, where bins are independent, and Bonferroni over classes.
    Exact at any n for bins of one distinct prediction, for the error given the bin masses.
    """
    used = cells.mass > 0
    groups = (weights > 0).sum()
    n_bins = np.maximum(used.sum(axis=-1, keepdims=True), 1)
    alpha = -np.expm1(np.log1p(-(1 - confidence_level) / groups) / n_bins)
    low, high = clopper_pearson(cells.rate * cells.size, cells.size, alpha)
    nearest = np.maximum(np.maximum(low - cells.mean, cells.mean - high), 0.0)
    farthest = np.maximum(np.abs(low - cells.mean), np.abs(high - cells.mean))
    return (
        lp_norm(nearest, cells.mass, weights, power),
        lp_norm(farthest, cells.mass, weights, power),
    )


def clopper_pearson(events: FloatArray, size: FloatArray, alpha: npt.ArrayLike) -> Limits:
    """Exact two-sided interval of a rate at level 1 - alpha, in every cell."""
    tail = np.asarray(alpha) / 2
    misses = size - events
    low = special.betaincinv(np.maximum(events, 1e-300), misses + 1, tail)
    high = special.betaincinv(events + 1, np.maximum(misses, 1e-300), 1 - tail)
    return np.where(events > 0, low, 0.0), np.where(misses > 0, high, 1.0)


def bootstrap_interval(
    values: FloatArray, estimate: float, confidence_level: float, method: str
) -> Limits:
    """Interval from the values of resampled tables: their quantiles, or these reflected."""
    low, high = np.quantile(values, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
    if method == "basic":
        low, high = max(2 * estimate - high, 0.0), max(2 * estimate - low, 0.0)
    return np.asarray(low), np.asarray(high)


def bootstrap_values(
    table: BinTable,
    weights: FloatArray,
    power: float,
    debiased: bool,
    n_resamples: int,
    rng: np.random.Generator,
    resample: Resampler | None,
) -> FloatArray:
    """Return the error of each resampled table.

    Rows that share bin, prediction and label are exchangeable, so a binned model in one group is
    resampled as counts of its (bin, label) cells, at a cost that does not depend on n. Otherwise
    rows are resampled, which needs them: `resample` draws rows and counts them in the same bins.
    """
    if table.is_binned_model and table.n_groups == 1 and not table.is_weighted:
        cells = _resampled_cells(table, n_resamples, rng)
        return error_of(cells, weights, power, debiased)
    if resample is None:
        raise NoSuchEstimatorError(
            "A bootstrap of continuous, marginal or weighted predictions resamples rows; a table "
            "has none, and a result that was pickled has left them behind. Call "
            'calibration_error(y_true, y_prob, ...) again, or use method="auto".'
        )
    tables = (resample(rng) for _ in range(n_resamples))
    return np.array([error_of(cells_of(each), weights, power, debiased) for each in tables])


def _resampled_cells(table: BinTable, n_resamples: int, rng: np.random.Generator) -> Cells:
    misses = table.count[0] - table.sum_y[0]
    shares = np.concatenate([misses, table.sum_y[0]]) / table.n
    draws = rng.multinomial(table.n, shares, size=n_resamples).reshape(n_resamples, 1, 2, -1)
    y = draws[:, :, 1].astype(np.float64)
    n = draws.sum(axis=2).astype(np.float64)
    p = np.nan_to_num(table.level)
    return cells_from_sums(y, n * p, n * p**2, n, n, y * (1 - p) ** 2 + (n - y) * p**2)


def _label_variance(cells: Cells) -> FloatArray:
    """Return a cautious variance of y - p in each bin.

    The largest of: the variance at calibration, the variance at the event rate shrunk towards
    the prediction by two rows, and, where predictions vary inside the bin, the observed one.
    """
    shrunk = (cells.rate * cells.size + 2 * cells.mean) / (cells.size + 2)
    v = np.maximum(cells.mean * (1 - cells.mean), shrunk * (1 - shrunk))
    observed = np.where(cells.resolved, (cells.gap**2 - cells.square) * cells.size, 0.0)
    mixed = cells.mean * (1 - cells.mean) - cells.noise > 1e-9
    return np.where(mixed, np.maximum(v, observed), v)


def _mass_variance(cells: Cells, v: FloatArray) -> FloatArray:
    """Variance that random bin masses add to the squared error of each group."""
    excess = np.maximum(
        cells.gap**2 - np.where(cells.size > 0, v / np.maximum(cells.size, 1), 0), 0
    )
    squared = np.maximum((cells.mass * cells.square).sum(axis=-1), 0.0)
    second = (cells.mass * excess**2).sum(axis=-1)
    return np.asarray(np.maximum(second - squared**2, 0.0) / _group_rows(cells))


def _group_rows(cells: Cells) -> FloatArray:
    """Return the effective number of rows of each group: n without weights."""
    return np.asarray(1 / (cells.mass**2 / np.maximum(cells.size, 1)).sum(axis=-1))


def _rows(cells: Cells) -> FloatArray:
    """Return the least effective number of rows per mass of any bin: n without weights."""
    worth = np.where(cells.mass > 0, cells.size / np.where(cells.mass > 0, cells.mass, 1), np.inf)
    return np.asarray(worth.min(axis=(-2, -1)))
