"""The numbers that readers of a validation look for first: events, O/E, slope and AUC."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.stats.atoms import Atoms
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.logistic import logistic_fit
from calibrant.table import BinTable

LOW_BASE_RATE = 0.1
"""Below it an absolute error says little: 1 point of 2% is half of it."""


@dataclass(frozen=True)
class KeyNumbers:
    """Events beside predictions, over all rows of one event or of the answers of a model.

    Attributes
    ----------
    n : int
    events, expected : float
        How many happened, and how many the predictions add up to.
    low, high : float
        The interval of observed / expected: Clopper-Pearson limits of the event rate over the mean
        prediction.
    slope, slope_low, slope_high : float or None
        Of the logistic fit of events on predicted logits, with its Wald interval; 1 is best, less
        is overconfident. None without rows, or where there is no finite fit.
    auc : float or None
        The share of pairs, one with and one without the event, that the predictions order right.
    """

    n: int
    events: float
    expected: float
    low: float
    high: float
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
    auc: float | None = None

    @property
    def event_rate(self) -> float:
        """The share of rows with the event."""
        return self.events / self.n

    @property
    def is_rare(self) -> bool:
        """Whether errors should be read relative to the event rate."""
        return 0 < self.event_rate < LOW_BASE_RATE

    @property
    def observed_to_expected(self) -> float:
        """Observed over expected events; infinite where none was expected."""
        return self.events / self.expected if self.expected > 0 else np.inf


def key_numbers(table: BinTable, confidence_level: float) -> KeyNumbers | None:
    """Return what the sums of one event tell; None of several classes."""
    if table.n_groups > 1 or table.is_weighted:
        return None
    events, expected = float(table.sum_y.sum()), float(table.sum_p.sum())
    size = np.array([float(table.n)])
    limits = clopper_pearson(np.array([events]), size, 1 - confidence_level)
    mean = expected / table.n
    low, high = (float(x[0]) / mean if mean > 0 else np.inf for x in limits)
    return KeyNumbers(table.n, events, expected, low, high)


def with_rows(
    numbers: KeyNumbers, probs: AnyArray, codes: IntArray, confidence_level: float
) -> KeyNumbers:
    """Add what needs rows: slope and AUC, of one event or of the answers."""
    p = probs.astype(np.float64) if probs.ndim == 1 else probs.max(axis=1).astype(np.float64)
    y = codes == 1 if probs.ndim == 1 else codes == probs.argmax(axis=1)
    atoms = Atoms.of(y.astype(np.float64), p)
    inner = (atoms.p > 0) & (atoms.p < 1)
    slope = low = high = None
    if inner.any():
        fit = logistic_fit(Atoms(atoms.p[inner], atoms.count[inner], atoms.events[inner]))
        if np.isfinite(fit.slope) and np.isfinite(fit.slope_error):
            slope, spread = fit.slope, fit.slope_error * special.ndtri((1 + confidence_level) / 2)
            low, high = slope - spread, slope + spread
    auc = _auc(atoms.count, atoms.events)
    return replace(numbers, slope=slope, slope_low=low, slope_high=high, auc=auc)


def _auc(count: FloatArray, events: FloatArray) -> float | None:
    """Return the area under the ROC curve of predictions in rising order; ties count half."""
    misses = count - events
    pairs = float(events.sum() * misses.sum())
    below = np.cumsum(misses) - misses
    return float(events @ (below + misses / 2)) / pairs if pairs else None
