"""Plans by simulation: so many rows certify as often as was promised, and few would not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulate_certificates import UnevenModel, evidence_of_counts, upper_bounds

from calibrant import BinTable, samples_to_certify
from calibrant.stats import certify
from calibrant.stats.questions import Setting

pytestmark = pytest.mark.slow

COUNTS, LABELS = 3, 400
FEW = 250
"""Tables of few events: every one has a certificate of its own."""


def model_off_by(true_error: float, n_bins: int) -> UnevenModel:
    """Return outputs and event rates that differ by +-true_error in turn."""
    s = (np.arange(n_bins) + 0.5) / n_bins
    signs = np.where(np.arange(n_bins) % 2, -1.0, 1.0)
    signs[[0, -1]] = 1, -1  # towards the middle where there is no other room
    return UnevenModel(s, s + true_error * signs, np.full(n_bins, 1 / n_bins))


def share_certified(n: int, model: UnevenModel, max_error: float, setting: Setting, rng) -> float:
    """Draw tables of n rows and return the share with an upper bound of at most max_error."""
    shares = []
    for size in rng.multinomial(n, model.masses, size=COUNTS):
        events = rng.binomial(size, model.rates, (LABELS, size.size))
        table = evidence_of_counts(model, size, events[0])
        shares.append(np.mean(upper_bounds(table, setting, events) <= max_error))
    return float(np.mean(shares))


@pytest.mark.parametrize(
    ("max_error", "n_bins", "balanced", "true_error"),
    [
        (0.05, 10, False, 0.0),
        (0.05, 10, True, 0.02),
        (0.03, 10, True, 0.0),
        (0.03, 10, False, 0.02),
        (0.05, 20, False, 0.0),
        (0.08, 30, True, 0.0),
    ],
)
def test_the_promised_power_is_reached_and_not_by_waste(max_error, n_bins, balanced, true_error):
    n = samples_to_certify(max_error, n_bins, true_error=true_error, balanced=balanced)
    setting = Setting("population", 0.05, 0.5 / n_bins if balanced else 0.0)
    rng = np.random.default_rng([n_bins, balanced])
    share = share_certified(n, model_off_by(true_error, n_bins), max_error, setting, rng)
    assert 0.9 - 4 * math.sqrt(0.09 / (COUNTS * LABELS)) <= share <= 0.99


@pytest.mark.parametrize(
    ("max_error", "levels", "true_error"),
    [
        (0.3, [0.0, 1.0], 0.0),  # no label varies: only the rows of both outputs do
        (0.05, [0.01], 0.0),
        (0.05, [0.001, 0.999], 0.01),
        (0.1, [0.005, 0.01], 0.0),
    ],
)
def test_plans_of_few_events_have_the_power_that_they_promise(max_error, levels, true_error):
    n = samples_to_certify(max_error, levels=levels, true_error=true_error)
    s, rng = np.array(levels), np.random.default_rng(len(levels))
    size = rng.multinomial(n, np.full(s.size, 1 / s.size), size=FEW)
    events = rng.binomial(size, s + np.where(s <= 0.5, true_error, -true_error))
    tables, times = np.unique(np.stack([size, events], axis=1), axis=0, return_counts=True)
    bounds = (certify(BinTable.from_counts(s, *table), levels=s).upper_bound for table in tables)
    certified = np.array([bound <= max_error for bound in bounds])
    assert float(times @ certified) / FEW >= 0.9 - 4 * math.sqrt(0.09 / FEW)
