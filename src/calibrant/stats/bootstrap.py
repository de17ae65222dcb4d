"""The bootstraps of the literature, to compare with published numbers.

They do not cover near calibration: use the intervals of `calibrant.stats.intervals`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import NoSuchEstimatorError
from calibrant.stats.estimators import Cells, cells_of, error_of
from calibrant.stats.intervals import Limits
from calibrant.table import BinTable

Resampler: TypeAlias = Callable[[np.random.Generator], BinTable]


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
    return np.array([error_of(cells_of(drawn), weights, power, debiased) for drawn in tables])


def _resampled_cells(table: BinTable, n_resamples: int, rng: np.random.Generator) -> Cells:
    misses = table.count[0] - table.sum_y[0]
    shares = np.concatenate([misses, table.sum_y[0]]) / table.n
    draws = rng.multinomial(table.n, shares, size=n_resamples).reshape(n_resamples, 1, 2, -1)
    y = draws[:, :, 1].astype(np.float64)
    n = draws.sum(axis=2).astype(np.float64)
    p = np.nan_to_num(table.level)
    return Cells(y, n * p, n * p**2, n, n, y * (1 - p) ** 2 + (n - y) * p**2)
