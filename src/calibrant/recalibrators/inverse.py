"""Inverse maps: which scores a recalibrator maps to a probability, to the last bit."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant._options import is_real
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidProbabilitiesError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.reading import check_choice, check_of_one_column
from calibrant.sources.arrays import as_array

Ranks: TypeAlias = npt.NDArray[np.int64]

CUTS_AT_ONCE = 2048
"""Evaluations of the map for one round of the inversion: affects speed only."""
FARTHEST_LOGIT = 1e300
"""Products of larger ones overflow; beyond it the inverse is infinite."""


def inverse(recalibrator: Recalibrator, p: Any, side: str = "least") -> FloatArray:
    """Return the score that a recalibrator maps to each probability.

    Of a step function, or at a plateau, many scores have one answer, and most probabilities are
    between two steps. With f the map, which must not fall:

    - ``side="least"`` is the least score z with f(z) >= p: from there on the answer is p or more;
      NaN where no score reaches p.
    - ``side="greatest"`` is the greatest z with f(z) <= p: up to there it is p or less; NaN where
      every score exceeds p.

    If p is an answer, the two are the ends of the interval of scores that have it. They are found
    by halving the float64 numbers between the ends of the scale, so they are exact for
    `predict_proba` as it is computed: one float64 further and the answer is on the other side.

    Parameters
    ----------
    recalibrator : fitted recalibrator of one score
        Those that are not increasing are refused.
    p : array_like of shape (n,)
        Recalibrated probabilities.
    side : {"least", "greatest"}

    Returns
    -------
    ndarray of shape (n,)
        Scores on the scale that the recalibrator reads. Of logits, infinite where all of them
        would do.

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> binned = HistogramBinning(bins=[0, 0.25, 1]).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 0])
    >>> binned.inverse([0.5, 0.3, 0.6])
    array([0.25, 0.25,  nan])
    >>> binned.inverse([0.5, 0.3, 0.6], side="greatest")
    array([1.  , 0.25, 1.  ])
    """
    check_of_one_column(recalibrator, "inverse", "one score")
    check_choice("side", side, ("least", "greatest"))
    wanted = np.asarray(p) if is_real(p) else as_array(p, "p")
    are_numbers = wanted.ndim == 1 and wanted.dtype.kind in "fiu"
    if not (are_numbers and ((wanted >= 0) & (wanted <= 1)).all()):
        raise InvalidProbabilitiesError(
            "inverse takes a list of probabilities, numbers in [0, 1]; got "
            f"{p!r:.60}. Pass those that you want the scores of, such as [0.02]."
        )
    farthest = FARTHEST_LOGIT
    ends = (-farthest, farthest) if recalibrator.input == "logits" else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        increasing = rises(recalibrator, *ends)
    if not increasing:
        raise InvalidArgumentError(
            f"An inverse needs a map that never falls; this {type(recalibrator).__name__} does, so "
            "scores on either side may have one answer. Use an increasing recalibrator, such as "
            'PlattScaling or IsotonicCalibration("step").'
        )
    order = np.argsort(wanted, kind="stable")
    levels = wanted.astype(np.float64)[order]
    out = np.empty(levels.size)
    with np.errstate(over="ignore"):
        out[order] = _ends_of(recalibrator, levels, ends, side)
    return out


def _ends_of(
    recalibrator: Recalibrator, levels: FloatArray, ends: tuple[float, float], side: str
) -> FloatArray:
    low, high = ends
    lowest, highest = recalibrator._apply(np.array(ends))
    are_logits = recalibrator.input == "logits"
    if side == "greatest":
        found = invert(recalibrator, levels, low, high)
        last = np.inf if are_logits else high
        return np.where(levels < lowest, np.nan, np.where(levels >= highest, last, found))
    # f(z) < p and f(z) <= the number below p are the same condition.
    found = np.nextafter(invert(recalibrator, np.nextafter(levels, -1.0), low, high), np.inf)
    first = -np.inf if are_logits else low
    return np.where(levels > highest, np.nan, np.where(levels <= lowest, first, found))


def invert(scaler: Recalibrator, edges: FloatArray, low: float, high: float) -> FloatArray:
    """Return the largest inputs whose scaled value is at most each of the rising edges.

    Cuts the order of all float64 numbers between `low` and `high`, again and again, until
    neighbours are left. With few edges, many cuts at a time cost no more than one.
    """
    below, above = (_rank(np.full(edges.size, end)) for end in (low, high))
    parts = max(2, CUTS_AT_ONCE // max(edges.size, 1))
    share = np.arange(1, parts, dtype=np.uint64)[:, None]
    column = np.arange(edges.size)
    while ((width := (above - below).view(np.uint64)) > 1).any():
        step = np.maximum(width // np.uint64(parts), np.uint64(1))
        cuts = below + np.minimum(share * step, width).view(np.int64)
        large = scaler._apply(_unrank(cuts.ravel())).reshape(cuts.shape) > edges
        first = np.where(large.any(axis=0), large.argmax(axis=0), parts - 1)
        ladder = np.vstack((below, cuts, above))
        below, above = ladder[first, column], ladder[first + 1, column]
    lowest, highest = scaler._apply(np.array([low, high]))
    cuts_below = np.where(highest <= edges, high, _unrank(below))
    return np.asarray(np.maximum.accumulate(np.where(lowest > edges, low - 1, cuts_below)))


def rises(scaler: Recalibrator, low: float, high: float) -> bool:
    """Tell whether a map never falls, beyond the scores that it was fitted on too.

    A quadratic in the log-odds rises over the fitting scores and may fall near 0 or 1; the levels
    of a histogram may do as they please.
    """
    levels = scaler._all_levels()
    if levels is not None:
        return getattr(scaler, "cuts_", levels) is not None and bool((np.diff(levels) >= 0).all())
    if (low, high) == (0.0, 1.0):
        inner = 1 / (1 + np.exp(-np.linspace(-28.0, 28.0, 1025)))
    else:
        far = np.geomspace(1e-3, high, 512)
        inner = np.concatenate((-far[::-1], [0.0], far))
    mapped = scaler._apply(np.concatenate(([low], inner, [high])))
    return bool(np.all(np.diff(mapped) >= -1e-12))


def _rank(x: FloatArray) -> Ranks:
    """Return whole numbers in the order of the floats, neighbours to neighbours."""
    bits = x.view(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def _unrank(rank: Ranks) -> FloatArray:
    size = np.abs(rank).view(np.float64)
    return np.where(rank < 0, -size, size)
