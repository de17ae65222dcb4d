"""Binned models over a known population, and resamples of it: judged in microseconds.

The studies fit thousands of recalibrators and measure each on one fixed population. A
population whose scores are sorted once, with the running sum of its events, gives the counts of
any bins by binary search. The numbers are those of the public recalibrators and estimators (a
test holds them together to 1e-12); only the order of the work differs. Of many resamples at once
the estimators read counts of bins, not rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, Hybrid
from calibrant.recalibrators import BetaScaling, PlattScaling, QuadraticScaling, Recalibrator
from calibrant.recalibrators.foreign import as_recalibrator
from calibrant.stats.estimators import Cells, raw_error

ONE = np.ones(1)
BLOCK = 1 << 23
"""Counts that are made double at a time; bounds the memory of a study."""
AT_A_TIME = 64
"""Samples that are counted before they are written: few enough to stay in the cache."""


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

    def under(self, scaler: Recalibrator | None) -> Ranked:
        """Return the same rows with their scores sent through a fitted map."""
        if scaler is None:
            return self
        mapped = scaler.predict_proba(self.scores)
        if np.all(mapped[1:] > mapped[:-1]):
            return Ranked(mapped, self.rows, self.events)
        distinct, place = np.unique(mapped, return_inverse=True)
        sums = (np.bincount(place, np.diff(running)) for running in (self.rows, self.events))
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
    """A way to recalibrate with finitely many outputs: a scaler or none, and a rule of bins.

    The scaler may be anything with fit and predict_proba. Entered into `METHODS` under a name, it
    is compared by the studies whose `methods` have that name.
    """

    scaler: Callable[[], Any] | None
    is_hybrid: bool = False

    def fit_scaler(self, scores: FloatArray, happened: AnyArray) -> Recalibrator | None:
        """Fit step 1; None for histogram binning."""
        if self.scaler is None:
            return None
        return as_recalibrator(self.scaler()).fit(scores, happened)

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
    n, y = (np.bincount(place, values).astype(np.float64) for values in (rows, events))
    cells = binned_cells(n[None], y[None], outputs)
    return float(raw_error(cells, ONE, 2.0, debiased=False))


def brier_score(population: Ranked, model: BinnedModel) -> float:
    """Return the mean squared difference between output and label on a population of labels."""
    bins, levels = model
    rows, events = population.counts(bins)
    total = population.events[-1] - 2 * levels @ events + levels**2 @ rows
    return float(total / population.rows[-1])


def draw_rows(
    rng: np.random.Generator, n_rows: int, size: int, repeats: int
) -> npt.NDArray[np.int32]:
    """Return `repeats` samples of row numbers, drawn with replacement."""
    return rng.integers(n_rows, size=(repeats, size), dtype=np.int32)


def resampled_cells(
    index: IntArray, n_bins: int, values: FloatArray, events: AnyArray, drawn: AnyArray
) -> Cells:
    """Return the per-bin quantities of every sample, of shape (repeats, 1, n_bins).

    Parameters
    ----------
    index, values, events : ndarray of shape (n,)
        The bin, the prediction and the label of each row.
    drawn : ndarray of shape (repeats, n)
        How often each row is in each sample: `multiplicities`.
    """
    y = events.astype(np.float64)
    terms = np.stack((np.ones(y.size), y, values, values**2, values * y))
    n, sum_y, p, pp, py = _sums(index, n_bins, terms, drawn)
    return Cells(sum_y, p, pp, n, n, np.maximum(sum_y - 2 * py + pp, 0.0))


def resampled_binned_cells(
    index: IntArray, levels: FloatArray, events: AnyArray, drawn: AnyArray
) -> Cells:
    """Return the same for a model whose prediction in bin j is ``levels[j]``."""
    # All sums are counts, which single precision holds exactly below 2^24 rows.
    terms = np.stack((np.ones(index.size, drawn.dtype), events.astype(drawn.dtype)))
    n, y = _sums(index, levels.size, terms, drawn)
    return binned_cells(n, y, levels)


@dataclass(frozen=True, eq=False)
class ResampledRanks:
    """Samples of rows in the order of one score: the counts of any bins are two look-ups.

    `rows` and `events` are running sums of shape (repeats, n + 1).
    """

    scores: FloatArray
    rows: FloatArray
    events: FloatArray

    @classmethod
    def of(
        cls, scores: FloatArray, happened: BoolArray, multiplicity: FloatArray
    ) -> ResampledRanks:
        """Rank rows, each of which is `multiplicity[r]` times in sample r."""
        order = np.argsort(scores)
        drawn = multiplicity[:, order]
        running = np.zeros((2, len(drawn), scores.size + 1))
        np.cumsum(drawn, axis=1, out=running[0, :, 1:])
        np.cumsum(drawn * happened[order], axis=1, out=running[1, :, 1:])
        return cls(scores[order], *running)

    def cells(self, bins: Bins, levels: FloatArray) -> Cells:
        """Return the per-bin quantities of a model with its own output in each bin."""
        cuts = np.searchsorted(self.scores, bins.edges[1:-1], side="right")
        ends = np.concatenate(([0], cuts, [self.scores.size]))
        n, y = (
            np.diff(running[:, ends], axis=1)[:, None, :] for running in (self.rows, self.events)
        )
        return binned_cells(n, y, levels)


def multiplicities(draws: AnyArray, n_rows: int) -> npt.NDArray[np.float32]:
    """Return how often each row is in each sample, of shape (repeats, n_rows).

    The samples of one row lie side by side in memory, which is what `resampled_cells` reads.
    """
    drawn = np.empty((n_rows, len(draws)), np.float32)
    for start in range(0, len(draws), AT_A_TIME):
        part = draws[start : start + AT_A_TIME]
        counts = [np.bincount(draw, minlength=n_rows) for draw in part]
        drawn[:, start : start + AT_A_TIME] = np.stack(counts, axis=1)
    return drawn.T


def binned_cells(n: FloatArray, y: FloatArray, levels: FloatArray) -> Cells:
    """Return the per-bin quantities of models that answer `levels`, from rows and events."""
    p, pp = n * levels, n * levels**2
    return Cells(y, p, pp, n, n, y * (1 - levels) ** 2 + (n - y) * levels**2)


def _sums(index: IntArray, n_bins: int, terms: AnyArray, drawn: AnyArray) -> FloatArray:
    """Return the sum of each term in each bin of each sample: (terms, repeats, 1, n_bins).

    Which rows are in which bin is a sparse matrix, and every sample a column of counts beside it:
    one product gives the sums of many samples without listing their rows.
    """
    n_terms, n_rows = terms.shape
    place = np.arange(n_terms)[:, None] * n_bins + index
    rows = np.broadcast_to(np.arange(n_rows), terms.shape)
    shape = (n_terms * n_bins, n_rows)
    members = csr_array((terms.ravel(), (place.ravel(), rows.ravel())), shape=shape)
    members.eliminate_zeros()
    sums = np.empty((n_terms, len(drawn), 1, n_bins))
    step = max(BLOCK // n_rows, 1)
    for start in range(0, len(drawn), step):
        block = drawn[start : start + step].T
        product = members @ np.ascontiguousarray(block, terms.dtype)
        sums[:, start : start + step, 0] = product.reshape(n_terms, n_bins, -1).swapaxes(1, 2)
    return sums
