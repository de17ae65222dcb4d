"""Many resamples at once: counts of bins, not rows, are what the estimators read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.bins import Bins
from calibrant.stats.estimators import Cells, cells_from_sums

BLOCK = 1 << 23
"""Counts that are made double at a time; bounds the memory of a study."""
AT_A_TIME = 64
"""Samples that are counted before they are written: few enough to stay in the cache."""


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
    return cells_from_sums(sum_y, p, pp, n, n, np.maximum(sum_y - 2 * py + pp, 0.0))


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
        return cls(scores[order], _running(drawn), _running(drawn * happened[order]))

    def cells(self, bins: Bins, levels: FloatArray) -> Cells:
        """Return the per-bin quantities of a model with its own output in each bin."""
        cuts = np.searchsorted(self.scores, bins.edges[1:-1], side="right")
        ends = np.concatenate(([0], cuts, [self.scores.size]))
        n, y = (np.diff(each[:, ends], axis=1)[:, None, :] for each in (self.rows, self.events))
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


def _running(terms: FloatArray) -> FloatArray:
    out = np.zeros((len(terms), terms.shape[1] + 1))
    np.cumsum(terms, axis=1, out=out[:, 1:])
    return out


def binned_cells(n: FloatArray, y: FloatArray, levels: FloatArray) -> Cells:
    """Return the per-bin quantities of models that answer `levels`, from rows and events."""
    p, pp = n * levels, n * levels**2
    return cells_from_sums(y, p, pp, n, n, y * (1 - levels) ** 2 + (n - y) * levels**2)


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
        part = drawn[start : start + step].T
        found = members @ np.ascontiguousarray(part, terms.dtype)
        sums[:, start : start + step, 0] = found.reshape(n_terms, n_bins, -1).swapaxes(1, 2)
    return sums
