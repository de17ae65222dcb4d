"""The numbers that readers of a validation look for first: events, O/E, slope and AUC."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calibrant._types import AnyArray, IntArray
from calibrant.stats.intervals import clopper_pearson
from calibrant.stats.samples import Sample
from calibrant.stats.validation import core_measures
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
        The interval of observed / expected; of a table, Clopper-Pearson limits of the event rate
        over the mean prediction.
    slope, slope_low, slope_high : float or None
        Of the logistic fit of events on predicted logits; 1 is best, less is overconfident. None
        without rows, or where it is not defined.
    auc, auc_low, auc_high : float or None
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
    auc_low: float | None = None
    auc_high: float | None = None

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
    """Compute key numbers from the sums of one event; None for several classes."""
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
    """Take O/E, slope and AUC from `calibrant.validate`, of one event or of the answers."""
    p = probs.astype(np.float64) if probs.ndim == 1 else probs.max(axis=1).astype(np.float64)
    y = codes == 1 if probs.ndim == 1 else codes == probs.argmax(axis=1)
    measures = core_measures(Sample.of(y.astype(np.float64), p), confidence_level)
    changes: dict[str, Any] = {}
    ratio = measures["oe_ratio"]
    if np.isfinite(ratio.value):
        changes = {"low": ratio.low, "high": ratio.high}
    for name, measure in (("slope", measures["slope"]), ("auc", measures["c_statistic"])):
        if np.isfinite(measure.value):
            changes |= {
                name: measure.value,
                f"{name}_low": measure.low,
                f"{name}_high": measure.high,
            }
    return replace(numbers, **changes)
