"""Histogram binning certifies itself from its training labels."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb


@pytest.mark.parametrize(("n", "n_bins"), [(300, 10), (1000, 10), (1000, 50)])
@pytest.mark.parametrize("rule", ["mass", "width", "hybrid"])
def test_the_training_bound_covers(n, n_bins, rule):
    rng = np.random.default_rng(n + n_bins)
    misses = 0
    for _ in range(200):
        z = rng.beta(0.7, 0.7, size=n)
        rate = np.where(rng.uniform() < 0.5, z**2, 0.5 + 0 * z)
        binned = cb.HistogramBinning(f"{rule}:{n_bins}").fit(z, rng.uniform(size=n) < rate)
        index = binned.bins_.index(z)
        size = np.maximum(np.bincount(index, minlength=len(binned.bins_)), 1)
        mean_rate = np.bincount(index, rate, minlength=len(binned.bins_)) / size
        error = np.sqrt(np.mean((mean_rate - binned.levels_)[index] ** 2))
        misses += error > binned.training_bound(0.9)
    assert misses <= 0.1 * 200


def test_the_bound_falls_with_rows_and_rises_with_bins():
    bounds = [cb.stats.histogram_binning_bound(n, 10) for n in (100, 1000, 10_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert cb.stats.histogram_binning_bound(1000, 50) > bounds[1]
    assert cb.stats.histogram_binning_bound(1, 10) == 1


def test_weighted_fits_and_fits_from_tables_have_no_training_bound():
    z = np.linspace(0, 1, 100)
    weighted = cb.HistogramBinning(5).fit(z, z > 0.5, sample_weight=z + 1)
    with pytest.raises(ValueError, match="counts independent rows"):
        weighted.training_bound()
    table = cb.tabulate(z > 0.5, z, bins=cb.EqualWidth(100))
    with pytest.raises(ValueError, match="from a table"):
        cb.HistogramBinning(5).fit_table(table).training_bound()
