"""Binned models over a known population: many recalibrations, each judged in microseconds.

The studies fit thousands of recalibrators and measure each on one fixed population. A
population whose scores are sorted once, with the running sum of its events, gives the counts of
any bins by binary search. The numbers are those of the public recalibrators and estimators (a
test holds them together to 1e-12); only the order of the work differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinRule, Bins, EqualMass, Hybrid
from calibrant.recalibrators import BetaScaling, PlattScaling, QuadraticScaling
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.stats.estimators import cells_from_sums, raw_error

ONE = np.ones(1)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Distinct scores in rising order, with running sums of rows and of events up to each.

    `events` may be labels, or the true chance of the event where that is known.
    """

    scores: FloatArray
    rows: FloatArray
    events: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, events: AnyArray) -> Ranked:
        """Rank rows by their scores."""
        distinct, place = np.unique(scores, return_inverse=True)
        size = distinct.size
        return cls.of_sums(distinct, np.bincount(place, minlength=size), np.bincount(place, events))

    @classmethod
    def of_sums(cls, scores: FloatArray, rows: AnyArray, events: AnyArray) -> Ranked:
        """Take scores that rise already, with the rows and events of each."""
        return cls(scores, *(np.concatenate(([0.0], np.cumsum(term))) for term in (rows, events)))

    @property
    def mass(self) -> FloatArray:
        """The rows of each score."""
        return np.diff(self.rows)

    def under(self, scaler: BinaryRecalibrator | None) -> Ranked:
        """Return the same rows with their scores sent through a fitted map."""
        if scaler is None:
            return self
        mapped = scaler.predict_proba(self.scores)
        if np.all(mapped[1:] > mapped[:-1]):
            return Ranked(mapped, self.rows, self.events)
        distinct, place = np.unique(mapped, return_inverse=True)
        sums = (np.bincount(place, np.diff(each)) for each in (self.rows, self.events))
        return Ranked.of_sums(distinct, *sums)

    def counts(self, bins: Bins) -> tuple[FloatArray, FloatArray]:
        """Return rows and events of each bin."""
        cuts = np.searchsorted(self.scores, bins.edges[1:-1], side="right")
        ends = np.concatenate(([0], cuts, [self.scores.size]))
        return np.diff(self.rows[ends]), np.diff(self.events[ends])


def platt_scaling() -> PlattScaling:
    """Return the paper's scaler, which clips scores to [1e-12, 1 - 1e-12] and smooths nothing."""
    return PlattScaling(smoothing=0)


@dataclass(frozen=True)
class Method:
    """A way to recalibrate with finitely many outputs: a scaler or none, and a rule of bins."""

    scaler: Callable[[], BinaryRecalibrator] | None
    is_hybrid: bool = False

    def fit_scaler(self, scores: FloatArray, happened: AnyArray) -> BinaryRecalibrator | None:
        """Fit step 1; None for histogram binning."""
        return None if self.scaler is None else self.scaler().fit(scores, happened)

    def discretise(self, sample: Ranked, n_bins: int) -> BinnedModel:
        """Choose bins and outputs from a sample whose scores went through the scaler.

        Histogram binning answers with the mean label of a bin, scaling-binning with the mean
        score.
        """
        rule: BinRule = Hybrid(n_bins) if self.is_hybrid else EqualMass(n_bins)
        bins = rule.choose(sample.scores, sample.mass)
        rows, events = sample.counts(bins)
        if self.scaler is None:
            return bins, events / rows
        total = Ranked.of_sums(sample.scores, sample.mass, sample.mass * sample.scores)
        levels = total.counts(bins)[1] / rows
        return bins, np.clip(levels, bins.edges[:-1], bins.edges[1:])


BinnedModel: TypeAlias = tuple[Bins, FloatArray]

METHODS = {
    "histogram": Method(None),
    "scaling-binning": Method(platt_scaling),
    "scaling-binning, hybrid bins": Method(platt_scaling, is_hybrid=True),
    "scaling-binning, beta": Method(BetaScaling),
    "scaling-binning, beta, hybrid bins": Method(BetaScaling, is_hybrid=True),
    "scaling-binning, quadratic": Method(QuadraticScaling),
}


def squared_error(population: Ranked, model: BinnedModel, *, merge: bool = True) -> float:
    """Return the plug-in squared l2 error of a binned model on a population.

    Bins with the same output are one, for a model is judged by what it says; with
    ``merge=False`` each is judged on its own.
    """
    bins, levels = model
    rows, events = population.counts(bins)
    outputs, place = levels, np.arange(levels.size)
    if merge:
        outputs, place = np.unique(levels, return_inverse=True)
    n, y = (np.bincount(place, each).astype(np.float64) for each in (rows, events))
    sums: list[FloatArray] = [y, n * outputs, n * outputs**2, n, n, np.zeros(n.size)]
    cells = cells_from_sums(*(each[None] for each in sums))
    return float(raw_error(cells, ONE, 2.0, debiased=False))


def brier_score(population: Ranked, model: BinnedModel) -> float:
    """Return the mean squared difference between output and label on a population of labels."""
    bins, levels = model
    rows, events = population.counts(bins)
    total = population.events[-1] - 2 * levels @ events + levels**2 @ rows
    return float(total / population.rows[-1])
