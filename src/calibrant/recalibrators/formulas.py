"""Formulas: every map from predictions to answers, written once, and its inverse.

A recalibrator states its map as `Recalibrator._formula`, by arithmetic and the few operations of
`Operations`. NumPy evaluates it for `predict_proba`; SQL, a data frame's engine and torch evaluate
the very same text for the exports, which therefore cannot disagree with `predict_proba`.

Votes of a forest, neighbours, and a softmax in float32 answer with exact zeros, whose log-odds are
infinite. With a share s of the even distribution over K outcomes mixed in, ``(1 - s) p + s / K``,
they are finite, and s says what a zero is worth. Near 0 the smoothed log-odds follow the log-odds,
near 1 they are almost linear in p.

A map that never falls has an inverse, which is searched for and thus needs no formula.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant._logits import sigmoid, softmax
from calibrant._options import is_real
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import count_below
from calibrant.exceptions import InvalidArgumentError, InvalidProbabilitiesError
from calibrant.problem import Input
from calibrant.recalibrators.reading import check_choice, check_of_one_column
from calibrant.sources.arrays import as_array

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator

Smoothing: TypeAlias = float | Literal["auto"]

CLIP = 1e-12
"""How far scores are kept from 0 and 1 where nothing is mixed in."""

SHARES = np.array(
    [
        *(1e-300, 1e-100, 1e-40, 1e-30, 1e-20, 1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4),
        *(1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9, 0.99),
    ]
)
"""The shares that "auto" tries. The loss is flat around its minimum, so steps of three are fine
enough; a softmax needs the tiny ones, votes the large ones."""

FAR_BELOW = 1e-3
"""Zeros more than a thousand times below the smallest other score are not tried."""

CUTS_AT_ONCE = 2048
"""Evaluations of a map for one round of its inversion: affects speed only."""
FARTHEST_LOGIT = 1e300
"""Products of larger ones overflow; beyond it the inverse is infinite."""


class Operations(Protocol):
    """The operations that formulas of one score need besides arithmetic; x is a column."""

    target: str

    def log(self, x: Any) -> Any:
        """Return the natural logarithm."""

    def log_complement(self, x: Any) -> Any:
        """Return ``log(1 - x)``."""

    def sigmoid(self, x: Any) -> Any:
        """Return ``1 / (1 + exp(-x))``, for any x."""

    def clip(self, x: Any, low: float | None, high: float | None) -> Any:
        """Return x, kept within the two limits."""

    def factor(self, x: Any) -> Any:
        """Return x such that no product with a coefficient underflows or overflows."""

    def steps(self, x: Any, cuts: Any, levels: Any) -> Any:
        """Return ``levels[i]`` with i the number of cuts strictly below x."""


class RowOperations(Operations, Protocol):
    """The further operations of formulas of several classes; x is a table with a row each."""

    def softmax(self, x: Any) -> Any:
        """Return the softmax of each row."""

    def where(self, condition: Any, x: Any, otherwise: Any) -> Any:
        """Return x where the condition holds, else the other."""

    def sums(self, x: Any) -> Any:
        """Return the sum of each row, as a column of a table."""

    def largest(self, x: Any) -> Any:
        """Return the largest entry of each row, as a column of a table."""

    def top(self, x: Any) -> tuple[Any, Any]:
        """Return the largest entry of each row and its column, the first of several."""

    def put(self, x: Any, top: Any, value: Any) -> Any:
        """Return the rows with other entries in the columns `top`."""

    def by_column(self, parts: Sequence[Any], x: Any) -> Any:
        """Return the answers of each part for its own column, as a table."""

    def answers(self, part: Any, x: Any) -> Any:
        """Return the answers of a part, such as the recalibrator of one class."""

    def answers_at(self, where: Any, part: Any, x: Any, otherwise: Any) -> Any:
        """Return the answers of a part where the condition holds, else the other."""


class _NumPy:
    """The operations on arrays of float64."""

    target = "NumPy"

    def log(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log(x))

    def log_complement(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.log1p(-x))

    def sigmoid(self, x: FloatArray) -> FloatArray:
        return sigmoid(x)

    def clip(self, x: FloatArray, low: float | None, high: float | None) -> FloatArray:
        return np.asarray(np.clip(x, low, high))

    def factor(self, x: FloatArray) -> FloatArray:
        return x

    def steps(self, x: FloatArray, cuts: FloatArray, levels: FloatArray) -> FloatArray:
        return np.asarray(levels[count_below(cuts, x)])

    def softmax(self, x: FloatArray) -> FloatArray:
        return softmax(x)

    def where(self, condition: AnyArray, x: Any, otherwise: Any) -> FloatArray:
        return np.asarray(np.where(condition, x, otherwise))

    def sums(self, x: FloatArray) -> FloatArray:
        return np.asarray(x.sum(axis=1, keepdims=True))

    def largest(self, x: FloatArray) -> FloatArray:
        return np.asarray(x.max(axis=1, keepdims=True))

    def top(self, x: AnyArray) -> tuple[FloatArray, IntArray]:
        top = x.argmax(axis=1)
        return x[np.arange(len(top)), top].astype(np.float64), top

    def put(self, x: FloatArray, top: IntArray, value: Any) -> FloatArray:
        out = x.copy()
        out[np.arange(len(top)), top] = value
        return out

    def by_column(self, parts: Sequence[Any], x: AnyArray) -> FloatArray:
        return np.column_stack([part._apply(x[:, k]) for k, part in enumerate(parts)])

    def answers(self, part: Any, x: AnyArray) -> FloatArray:
        return np.asarray(part._apply(x))

    def answers_at(
        self, where: AnyArray, part: Any, x: AnyArray, otherwise: FloatArray
    ) -> FloatArray:
        if where.any():
            otherwise = otherwise.copy()
            otherwise[where] = part._apply(x[where])
        return otherwise


NUMPY: RowOperations = _NumPy()


def both_sides(ops: Operations, p: Any, share: float) -> tuple[Any, Any]:
    """Return the probabilities of an event and of its absence, away from 0 and 1.

    With a share of the even distribution mixed in; without one, clipped. ``p + (0.5 - p) share``
    is ``(1 - share) p + share / 2`` without a product that underflows, which PostgreSQL answers
    with an error.
    """
    if not share:
        p = ops.clip(p, CLIP, 1 - CLIP)
        return p, 1 - p
    return p + (0.5 - p) * share, (1 - p) + (0.5 - (1 - p)) * share


def log_odds(ops: Operations, p: Any, share: float = 0.0) -> Any:
    """Return the log-odds of smoothed probabilities or, without a share, of clipped ones."""
    happens, fails = both_sides(ops, p, share)
    return ops.log(happens / fails)


def log_probabilities(ops: Operations, p: Any, share: float, n_classes: int) -> Any:
    """Return log-probabilities, smoothed or, without a share, kept above log(1e-12)."""
    return ops.log(p + (1 / n_classes - p) * share if share else ops.clip(p, CLIP, None))


def linear(coef: Any, features: Sequence[Any] | FloatArray) -> Any:
    """Return the combination of features plus the last coefficient, the intercept."""
    eta = features[0] * coef[0]
    for i, feature in enumerate(features[1:], start=1):
        eta = eta + feature * coef[i]
    return eta + coef[len(features)]


def check_smoothing(smoothing: object, kind: Input) -> None:
    """Raise InvalidArgumentError unless this is "auto" or a share of probabilities."""
    if isinstance(smoothing, str) and smoothing == "auto":
        return
    if not (is_real(smoothing) and is_share(float(smoothing))):  # type: ignore[arg-type]
        raise InvalidArgumentError(
            'smoothing must be "auto", 0 or a share from 1e-300 to below 1; got '
            f"{smoothing!r:.60}. Write 0 to mix nothing in."
        )
    if kind == "logits" and smoothing:
        raise InvalidArgumentError(
            f"smoothing is for probabilities of exactly 0 and 1; got {smoothing!r:.60} for a "
            'recalibrator of logits, which have none. Leave smoothing at "auto".'
        )


def is_share(share: float) -> bool:
    """Tell whether a number can be mixed in: smaller ones would overflow as odds."""
    return share == 0 or float(SHARES[0]) <= share < 1


def may_keep(p: AnyArray, smoothing: Smoothing, kind: Input) -> bool:
    """Tell whether scores may be left alone where that is better on their own rows.

    Not if they hold exact zeros or ones, which may be wrong the next time and then lose without
    limit; unless the caller declared that nothing is to be mixed in.
    """
    if kind == "logits" or smoothing == 0:
        return True
    return not (p == 0).any() and (p.ndim > 1 or not (p == 1).any())


def best_share(p: AnyArray, n_outcomes: int, loss: Callable[[float], float]) -> float:
    """Return the share of least loss, or 0 where there is no exact zero among the scores."""
    if not (p == 0).any():
        return 0.0
    smallest = p.min(where=p > 0, initial=1.0)
    shares = SHARES[FAR_BELOW * n_outcomes * smallest <= SHARES].tolist()
    lost = cache(lambda i: loss(shares[i]))
    best, step = 0, 4
    near = range(0, len(shares), step)
    while step:
        # The loss falls and rises once, so a coarse search finds the way to the lowest.
        best = min(near, key=lost)
        step //= 2
        near = range(max(best - step, 0), min(best + step + 1, len(shares)), max(step, 1))
    return float(shares[best])


def inverse(recalibrator: Recalibrator, p: Any, side: str = "least") -> FloatArray:
    """Return the score that a recalibrator maps to each probability.

    Of a step function, or at a plateau, many scores have one answer, and most probabilities are
    between two steps. With f the map, which must not fall:

    - ``side="least"`` is the least score z with f(z) >= p: from there on the answer is p or more;
      NaN where no score reaches p.
    - ``side="greatest"`` is the greatest z with f(z) <= p: up to there it is p or less; NaN where
      every score exceeds p.

    If p is an answer, the two are the ends of the interval of scores that have it. They are scores
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
    probs = np.asarray(p) if is_real(p) else as_array(p, "p")
    are_numbers = probs.ndim == 1 and probs.dtype.kind in "fiu"
    if not (are_numbers and ((probs >= 0) & (probs <= 1)).all()):
        raise InvalidProbabilitiesError(
            "inverse takes a list of probabilities, numbers in [0, 1]; got "
            f"{p!r:.60}. Pass those that you want the scores of, such as [0.02]."
        )
    are_logits = recalibrator.input == "logits"
    low, high = (-FARTHEST_LOGIT, FARTHEST_LOGIT) if are_logits else (0.0, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        increasing = rises(recalibrator, low, high)
    if not increasing:
        raise InvalidArgumentError(
            f"An inverse needs a map that never falls; this {type(recalibrator).__name__} does, so "
            "scores on either side may have one answer. Use an increasing recalibrator, such as "
            'PlattScaling or IsotonicCalibration("step").'
        )
    order = np.argsort(probs, kind="stable")
    levels = probs.astype(np.float64)[order]
    with np.errstate(over="ignore"):
        lowest, highest = recalibrator._apply(np.array([low, high]))
        if side == "greatest":
            scores = invert(recalibrator, levels, low, high)
            scores[levels >= highest] = np.inf if are_logits else high
            scores[levels < lowest] = np.nan
        else:
            # f(z) < p and f(z) <= the number below p are the same condition.
            below = invert(recalibrator, np.nextafter(levels, -1.0), low, high)
            scores = np.nextafter(below, np.inf)
            scores[levels <= lowest] = -np.inf if are_logits else low
            scores[levels > highest] = np.nan
    out = np.empty(levels.size)
    out[order] = scores
    return out


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
    of a histogram may have any order.
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
    return bool(np.all(np.diff(mapped) >= -1e-12))  # a smaller fall is rounding


def _rank(x: FloatArray) -> npt.NDArray[np.int64]:
    """Return whole numbers in the order of the floats, neighbours to neighbours."""
    bits = x.view(np.int64)
    return np.where(bits < 0, -(bits & np.iinfo(np.int64).max), bits)


def _unrank(rank: npt.NDArray[np.int64]) -> FloatArray:
    """Return the floats of such numbers."""
    size = np.abs(rank).view(np.float64)
    return np.where(rank < 0, -size, size)
