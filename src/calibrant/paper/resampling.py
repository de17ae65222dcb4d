"""Many resamples at once: counts of bins, not rows, are what the estimators read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.stats.estimators import Cells, cells_from_sums

BLOCK = 1 << 22
"""Values that are gathered at a time; bounds the memory of a study."""


def draw_rows(
    rng: np.random.Generator, n_rows: int, size: int, repeats: int
) -> npt.NDArray[np.int32]:
    """Return `repeats` samples of row numbers, drawn with replacement."""
    return rng.integers(n_rows, size=(repeats, size), dtype=np.int32)


def resampled_cells(
    index: IntArray, n_bins: int, values: FloatArray, events: AnyArray, draws: AnyArray
) -> Cells:
    """Return the per-bin quantities of every sample, of shape (repeats, 1, n_bins).

    Parameters
    ----------
    index, values, events : ndarray of shape (n,)
        The bin, the prediction and the label of each row.
    draws : ndarray of shape (repeats, size)
        Row numbers.
    """
    y = events.astype(np.float64)
    terms = (None, y, values, values**2, values * y)
    n, sum_y, p, pp, py = (_sums(index, n_bins, term, draws) for term in terms)
    return cells_from_sums(sum_y, p, pp, n, n, np.maximum(sum_y - 2 * py + pp, 0.0))


def resampled_binned_cells(
    index: IntArray, levels: FloatArray, events: AnyArray, draws: AnyArray
) -> Cells:
    """Return the same for a model whose prediction in bin j is ``levels[j]``."""
    n = _sums(index, levels.size, None, draws)
    y = _sums(index, levels.size, events.astype(np.float64), draws)
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
        return cls(scores[order], _running(drawn), _running(drawn * happened[order]))

    def cells(self, bins: Bins, levels: FloatArray) -> Cells:
        """Return the per-bin quantities of a model with its own output in each bin."""
        cuts = np.searchsorted(self.scores, bins.edges[1:-1], side="right")
        ends = np.concatenate(([0], cuts, [self.scores.size]))
        n, y = (np.diff(each[:, ends], axis=1)[:, None, :] for each in (self.rows, self.events))
        return binned_cells(n, y, levels)


def multiplicities(draws: AnyArray, n_rows: int) -> FloatArray:
    """Return how often each row is in each sample, of shape (repeats, n_rows)."""
    return np.stack([np.bincount(draw, minlength=n_rows) for draw in draws]).astype(np.float64)


def _running(terms: FloatArray) -> FloatArray:
    out = np.zeros((len(terms), terms.shape[1] + 1))
    np.cumsum(terms, axis=1, out=out[:, 1:])
    return out


def binned_cells(n: FloatArray, y: FloatArray, levels: FloatArray) -> Cells:
    """Return the per-bin quantities of models that answer `levels`, from rows and events."""
    p, pp = n * levels, n * levels**2
    return cells_from_sums(y, p, pp, n, n, y * (1 - levels) ** 2 + (n - y) * levels**2)


def _sums(index: IntArray, n_bins: int, term: FloatArray | None, draws: AnyArray) -> FloatArray:
    """Return the sum of a term (the count, for None) in each bin of each sample."""
    repeats, size = draws.shape
    step = max(BLOCK // max(size, 1), 1)
    blocks = [
        _block_sums(index, n_bins, term, draws[start : start + step])
        for start in range(0, repeats, step)
    ]
    return np.concatenate(blocks)[:, None, :]


def _block_sums(
    index: IntArray, n_bins: int, term: FloatArray | None, draws: AnyArray
) -> FloatArray:
    repeats = len(draws)
    key = index[draws] + n_bins * np.arange(repeats)[:, None]
    weights = None if term is None else term[draws].ravel()
    counted = np.bincount(key.ravel(), weights, minlength=repeats * n_bins)
    return counted.reshape(repeats, n_bins).astype(np.float64)
