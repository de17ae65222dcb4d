"""Isotonic recalibration: the best increasing map, and Venn-Abers intervals around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibrant._compiled import compiles
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import Bins
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.formulas import NUMPY, Operations
from calibrant.recalibrators.reading import Choices, read_unlabelled
from calibrant.recalibrators.scores import FitResult, Scores, identity_loss, scores_of_keys
from calibrant.stats.isotonic_curves import LARGE, interpolate


class IsotonicCalibration(Recalibrator):
    """Fit the increasing map of least squared error, by pooling adjacent violators.

    Equal scores are pooled first, so they get one answer. Outside the fitting scores the map
    is constant.

    Parameters
    ----------
    interpolation : {"linear", "step", "centred"}
        Between blocks: a straight line from the end of one to the start of the next, as in
        scikit-learn; a jump half-way, which gives finitely many outputs (`levels_`, `bins_`)
        that can be certified; or straight lines between the centres of blocks, which has no
        plateaus (Oron, Flournoy, 2017).

    Attributes
    ----------
    x_, y_ : ndarray
        Where the map bends (or jumps), and its values.

    See Also
    --------
    VennAbers : two isotonic fits, with a guarantee.
    PlattScaling : two parameters, where rows are few.

    Notes
    -----
    It minimises the sum of ``w (y - m(z))^2`` over increasing maps m, which is also the increasing
    map of greatest likelihood.

    References
    ----------
    Zadrozny, Elkan (2002), Transforming classifier scores into accurate probabilities.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> isotonic = IsotonicCalibration().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
    >>> isotonic.predict_proba([.1, .3, .5, .9]).round(4)
    array([0.    , 0.3333, 0.6667, 1.    ])
    """

    _learned: ClassVar[dict[str, str]] = {"x_": "rising", "y_": "probabilities"}
    _constants: ClassVar[tuple[str, ...]] = ("_cuts", "_pieces")
    _choices: ClassVar[Choices] = {"interpolation": ("linear", "step", "centred")}
    x_: FloatArray
    y_: FloatArray

    def __init__(self, interpolation: Literal["linear", "step", "centred"] = "linear") -> None:
        self.interpolation = interpolation

    @property
    def levels_(self) -> FloatArray:
        """The outputs of a step function."""
        self._need_steps("levels_")
        return self.y_

    @property
    def bins_(self) -> Bins:
        """The bins of a step function."""
        self._need_steps("bins_")
        return Bins(np.concatenate(([0.0], self.x_, [1.0])), "data", "isotonic")

    @property
    def effective_n_bins_(self) -> int:
        """The number of different outputs of a step function."""
        return int(self.levels_.size)

    def _need_steps(self, name: str) -> None:
        if self.interpolation != "step":
            raise AttributeError(f'{name} exists only for interpolation="step"')

    def _learn(self, scores: Scores) -> None:
        blocks = Blocks.of(scores)
        levels = blocks.levels
        self.x_, self.y_ = self._knots(blocks)
        outputs = blocks.pooled.replace_values(levels)
        if self.interpolation == "centred":
            outputs = scores.replace_values(self._apply(scores.values))
        loss = identity_loss(outputs, "squared")
        flags = ("one class",) if levels[0] in (0, 1) and levels.size == 1 else ()
        self.fit_result_ = FitResult(True, 1, loss, identity_loss(scores, "squared"), flags)

    def _knots(self, blocks: Blocks) -> tuple[FloatArray, FloatArray]:
        low, high, levels = blocks.low, blocks.high, blocks.levels
        if self.interpolation == "step":
            cut = high[:-1] + (low[1:] - high[:-1]) / 2
            return np.where(cut < low[1:], cut, high[:-1]), levels
        if self.interpolation == "centred":
            return np.clip(blocks.pooled.values, low, high), levels
        ends = np.stack((low, high), axis=1).ravel()
        distinct = np.concatenate(([True], ends[1:] > ends[:-1]))
        return ends[distinct], np.repeat(levels, 2)[distinct]

    def _apply(self, probs: AnyArray) -> FloatArray:
        if self.interpolation == "step":
            return super()._apply(probs)
        return interpolate(probs.astype(np.float64), self.x_, self.y_)

    @property
    def _cuts(self) -> FloatArray:
        return self.x_ if self.interpolation == "step" else just_below(self.x_)

    @property
    def _pieces(self) -> FloatArray:
        """The level of each piece; of a line also where it starts, and its slope."""
        if self.interpolation == "step":
            return self.y_[None]
        level, start = (np.append(ends[0], ends) for ends in (self.y_, self.x_))
        slope = np.diff(self.y_) / np.diff(LARGE * self.x_)
        return np.stack((level, start, np.concatenate(([0.0], slope, [0.0]))))

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        cuts, pieces = learned._cuts, learned._pieces
        level = ops.steps(x, cuts, pieces[0])
        if self.interpolation == "step":
            return level
        start, slope = (ops.steps(x, cuts, pieces[i]) for i in (1, 2))
        return ops.factor((x - start) * LARGE) * slope + level  # as `interpolate` computes it

    def _check_learned(self) -> None:
        size = self.y_.size - (self.interpolation == "step")
        if self.x_.size != size or (np.diff(self.y_) < 0).any():
            raise ValueError("x_ and y_ must have the same size, and y_ must not fall")


class VennAbers(Recalibrator):
    """Answer with two isotonic probabilities, one for each label the new row might have.

    One of them is calibrated whatever the distribution, if rows are exchangeable; their
    distance shows how sure that is. ``predict_proba`` merges them to ``p1 / (1 - p0 + p1)``,
    which is minimax for the log loss.

    Both step functions are computed once, in linear time after sorting; a query is a binary
    search.

    See Also
    --------
    IsotonicCalibration : one fit.

    Notes
    -----
    p0 is the value at z of the isotonic fit to the rows and (z, 0), p1 that of the fit to the rows
    and (z, 1); p0 <= p1, and their distance falls as rows grow.

    References
    ----------
    Vovk, Petej, Fedorova (2015), Large-scale probabilistic predictors with and without
    guarantees of validity.

    Examples
    --------
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> venn = VennAbers().fit(z, [0, 0, 1, 0, 0, 1, 1, 0, 1, 1])
    >>> p0, p1 = venn.predict_interval([0.55])
    >>> p0, p1, venn.predict_proba([0.55])
    (array([0.5]), array([0.75]), array([0.6]))
    """

    _learned: ClassVar[dict[str, str]] = {
        "cuts0_": "rising",
        "p0_": "probabilities",
        "cuts1_": "rising",
        "p1_": "probabilities",
    }
    _constants: ClassVar[tuple[str, ...]] = ("_below0", "p0_", "cuts1_", "p1_")
    cuts0_: FloatArray
    cuts1_: FloatArray
    p0_: FloatArray
    p1_: FloatArray

    @property
    def _below0(self) -> FloatArray:
        return just_below(self.cuts0_)

    def predict_interval(self, y_prob: Any) -> tuple[FloatArray, FloatArray]:
        """Return (p0, p1), the probabilities if the label of the new row were 0 or 1."""
        return self._interval(NUMPY, read_unlabelled(self, y_prob)[0].astype(np.float64), self)

    def _interval(self, ops: Operations, x: Any, learned: Any) -> tuple[Any, Any]:
        p0 = ops.steps(x, learned._below0, learned.p0_)
        return p0, ops.steps(x, learned.cuts1_, learned.p1_)

    def _learn(self, scores: Scores) -> None:
        scores = scores.distinct()
        x, y = np.zeros((2, scores.values.size + 1))
        np.cumsum(scores.weight, out=x[1:])
        np.cumsum(scores.events, out=y[1:])
        upper = np.clip(gap_slopes(x, y), 0.0, 1.0)
        # a row of label 0 is one of label 1 in the mirror
        mirrored = gap_slopes(x[-1] - x[::-1], (x[-1] - y[-1]) - (x - y)[::-1])[::-1]
        lower = np.clip(1 - mirrored, 0.0, 1.0)
        self.cuts1_, self.p1_ = _steps(scores.values, upper)
        self.cuts0_, self.p0_ = _steps(scores.values, lower)
        outputs = merged(lower[1:], upper[:-1])
        loss = identity_loss(scores.replace_values(outputs), "log")
        self.fit_result_ = FitResult(True, 1, loss, identity_loss(scores, "log"))

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        return merged(*self._interval(ops, x, learned))

    def _check_learned(self) -> None:
        sizes = (self.cuts0_.size + 1, self.cuts1_.size + 1)
        if sizes != (self.p0_.size, self.p1_.size):
            raise ValueError("a step function has one value more than cuts")


def just_below(cuts: FloatArray) -> FloatArray:
    """Return cuts such that a score lies above one if it is at least the given cut."""
    # Any number below 0 will do for 0, and databases do not read the smallest of them.
    return np.where(cuts > 0, np.nextafter(cuts, -1.0), -1.0)


def merged(p0: Any, p1: Any) -> Any:
    """Return the one probability that loses least, at worst, in place of the two."""
    return p1 / (1 - p0 + p1)


def _steps(values: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (cuts, values) of the step function with one value for each gap between scores."""
    changes = np.flatnonzero(gaps[1:] != gaps[:-1])
    return values[changes], gaps[np.append(0, changes + 1)]


def gap_slopes(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return the isotonic value of a row of weight 1 and label 1 added in each gap of scores.

    With the weights x and the events y cumulated from 0 on, gap i has the value
    ``max_{l <= i} min_{r >= i} (y_r - y_l + 1) / (x_r - x_l + 1)``.
    """
    if compiles():
        from calibrant import _kernels

        slopes = np.empty(x.size)
        _kernels.tangent_slopes(x, y, slopes)
        return slopes
    return np.array(tangent_slopes(x.tolist(), y.tolist()))


def tangent_slopes(x: list[float], y: list[float]) -> list[float]:
    """Return, for each i, ``max_{l <= i} min_{r >= i} (y_r - y_l + 1) / (x_r - x_l + 1)``.

    That is the slope of the tangent from the points ``(x_l - 1, y_l - 1)`` to the lower hull of
    the points ``(x_r, y_r)``. The corners of the hull of the points right of i are kept on a
    stack, the leftmost on top; going on to the next i drops corners and never adds any, so the
    loop takes linear time.
    """
    hull: list[int] = []

    def drop_corners_above(ax: float, ay: float) -> None:
        """Leave the corner on top that the tangent from a point on the left touches."""
        while len(hull) > 1:
            k, j = hull[-2:]
            if (y[j] - ay) * (x[k] - ax) < (y[k] - ay) * (x[j] - ax):
                break
            hull.pop()

    for i in range(len(x) - 1, -1, -1):
        drop_corners_above(x[i], y[i])
        hull.append(i)
    ax, ay = -1.0, -1.0
    drop_corners_above(ax, ay)
    slopes = []
    for i in range(len(x)):
        j = hull[-1]
        slopes.append((y[j] - ay) / (x[j] - ax))
        if i + 1 == len(x):
            break
        nx, ny = x[i + 1] - 1.0, y[i + 1] - 1.0
        if j > i and (ny - ay) * (x[j] - ax) >= (y[j] - ay) * (nx - ax):
            continue
        while hull[-1] <= i:
            hull.pop()
        drop_corners_above(nx, ny)
        ax, ay = nx, ny
    return slopes


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of neighbouring scores with rising shares of events.

    Attributes
    ----------
    low, high : ndarray
        The smallest and the largest score of each block.
    pooled : Scores
        The mean score of each block, its events and its weight.
    """

    low: FloatArray
    high: FloatArray
    pooled: Scores

    @classmethod
    def of(cls, scores: Scores) -> Blocks:
        """Pool equal scores, then neighbours until the shares of events rise."""
        if compiles():
            keys = scores.sorted_keys()
            if keys is not None:
                return cls._of_keys(keys, scores.size)
        scores = scores.distinct()
        weight, events = scores.weight, scores.events
        fitted = isotonic_regression(events / weight, sample_weight=weight)
        first = np.flatnonzero(np.concatenate(([True], fitted[1:] != fitted[:-1])))
        last = np.append(first[1:], fitted.size) - 1
        events, weights, total = (
            np.add.reduceat(term, first) for term in (events, weight, weight * scores.values)
        )
        pooled = Scores(total / weights, events, weights, scores.size)
        return cls(scores.values[first], scores.values[last], pooled)

    @classmethod
    def _of_keys(cls, keys: AnyArray, size: float) -> Blocks:
        from calibrant import _kernels

        first = np.empty(keys.size, np.int64)
        weights, events, total = np.empty(keys.size), np.empty(keys.size), np.empty(keys.size)
        blocks = slice(_kernels.pool(keys, first, weights, events, total))
        last = np.append(first[blocks][1:], keys.size) - 1
        pooled = Scores(
            total[blocks] / weights[blocks], events[blocks].copy(), weights[blocks].copy(), size
        )
        return cls(scores_of_keys(keys[first[blocks]]), scores_of_keys(keys[last]), pooled)

    @property
    def levels(self) -> FloatArray:
        """The isotonic value of each block: its share of events."""
        shares = np.clip(self.pooled.events / self.pooled.weight, 0.0, 1.0)
        return np.maximum.accumulate(shares)
