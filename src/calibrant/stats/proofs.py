"""What a table proves: the bounds of a certificate, chosen by norm, target and kind of model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant.bins import auto_n_bins
from calibrant.stats.bounds import (
    Evidence,
    Setting,
    Target,
    lower_bound,
    lower_bound_l1,
    upper_bound,
)
from calibrant.stats.bounds_l1 import upper_bound_l1
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import box_interval, clopper_pearson
from calibrant.stats.verdicts import MinBinMass
from calibrant.table import BinTable

_LEARNING_SHARE = 0.05
"""Of the error probability, spent on learning the least mass; affects tightness, not validity."""


def bounds_of(
    table: BinTable,
    weights: np.ndarray[Any, Any],
    power: float,
    delta: float,
    target: Target,
    min_bin_mass: MinBinMass,
) -> tuple[float, float, str]:
    """Return an upper bound, a lower bound, and the theorem they rest on."""
    evidence = evidence_of(table, weights)
    if math.isinf(power):
        low, high = box_interval(cells_of(table), weights, power, 1 - delta)
        upper = float(high) if table.is_binned_model else 1.0
        return upper, float(low) if table.is_binned_model else 0.0, "Clopper-Pearson with Sidak"
    mass, used = _least_mass(table, min_bin_mass, target, delta)
    setting = Setting(target, delta - used, mass)
    if power == 1:
        lower = lower_bound_l1(evidence, setting)
        upper = upper_bound_l1(evidence, setting) if table.is_binned_model else 1.0
        return upper, lower, "exponential moments of the absolute error"
    lower = lower_bound(evidence, setting)
    upper = upper_bound(evidence, setting) if table.is_binned_model else 1.0
    return upper, lower, "exponential moments of the squared error"


def _least_mass(
    table: BinTable, min_bin_mass: MinBinMass, target: Target, delta: float
) -> tuple[float, float]:
    """Return a lower bound of all bin masses, and the error probability spent on learning it."""
    if min_bin_mass is None or target == "sample":
        return 0.0, 0.0
    if min_bin_mass != "learned":
        return float(min_bin_mass), 0.0
    n_bins = sum(len(bins) for bins in table.bins)
    share = _LEARNING_SHARE * delta
    low, _ = clopper_pearson(table.count, np.full(table.count.shape, table.n), 2 * share / n_bins)
    real = np.array([[j < len(b) for j in range(table.count.shape[1])] for b in table.bins])
    return float(low[real].min()), share


def evidence_of(table: BinTable, weights: np.ndarray[Any, Any]) -> Evidence:
    """Return the occupied bins of the classes that count."""
    used = (table.count > 0) & (weights > 0)[:, None]
    cells = cells_of(table)
    width = np.zeros(table.count.shape)
    for group, bins in enumerate(table.bins):
        width[group, : len(bins)] = np.diff(bins.edges)
    fixed = np.array([bins.origin == "fixed" for bins in table.bins])[:, None]
    mixed = np.where(fixed, (1 + width) ** 2 / 4, np.full(width.shape, 0.25))
    spread = np.full(mixed.shape, np.nan) if table.is_binned_model else mixed
    group_weight = np.broadcast_to(weights[:, None], used.shape)
    return Evidence(
        n=table.n,
        size=table.count[used],
        rate=cells.rate[used],
        s=np.where(np.isnan(table.level), cells.mean, table.level)[used],
        weight=group_weight[used],
        spread=spread[used],
        n_planned=max(map(len, table.bins)) if fixed.all() else auto_n_bins(table.n),
        largest_spread=float(mixed.max()) if not table.is_binned_model else 0.25,
    )
