"""Isotonic recalibration: the best increasing map, and Venn-Abers intervals around it."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibrant._types import AnyArray, FloatArray
from calibrant.bins import Bins
from calibrant.recalibrators.base import check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.scaling import identity_loss
from calibrant.recalibrators.scores import Scores


class IsotonicCalibration(BinaryRecalibrator):
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
        scores = scores.distinct()
        weight = scores.weight
        fitted = np.clip(isotonic_regression(scores.events / weight, sample_weight=weight), 0, 1)
        first = np.flatnonzero(np.concatenate(([True], fitted[1:] != fitted[:-1])))
        self.x_, self.y_ = self._knots(scores.values, weight, fitted, first)
        loss = identity_loss(scores.replace_values(self._apply(scores.values)), "squared")
        flags = ("one class",) if fitted[0] in (0, 1) and first.size == 1 else ()
        self.fit_result_ = FitReport(True, 1, loss, identity_loss(scores, "squared"), flags)

    def _knots(
        self, z: FloatArray, weight: FloatArray, fitted: FloatArray, first: AnyArray
    ) -> tuple[FloatArray, FloatArray]:
        last = np.append(first[1:], z.size) - 1
        if self.interpolation == "step":
            cut = z[last[:-1]] + (z[first[1:]] - z[last[:-1]]) / 2
            cut = np.where(cut < z[first[1:]], cut, z[last[:-1]])
            return cut, fitted[first]
        if self.interpolation == "centred":
            centre = np.add.reduceat(weight * z, first) / np.add.reduceat(weight, first)
            return np.clip(centre, z[first], z[last]), fitted[first]
        ends = np.unique(np.concatenate((first, last)))
        return z[ends], fitted[ends]

    def _apply(self, probs: AnyArray) -> FloatArray:
        scores = probs.astype(np.float64)
        if self.interpolation == "step":
            return np.asarray(self.y_[np.searchsorted(self.x_, scores, side="left")])
        return np.interp(scores, self.x_, self.y_)

    def _check_parameters(self) -> None:
        check_choice("interpolation", self.interpolation, ("linear", "step", "centred"))

    def _check_learned(self) -> None:
        wanted = self.y_.size - (self.interpolation == "step")
        if self.x_.size != wanted or (np.diff(self.y_) < 0).any():
            raise ValueError("x_ and y_ must have the same size, and y_ must not fall")


class VennAbers(BinaryRecalibrator):
    """Answer with two isotonic probabilities, one for each label the new row might have.

    One of them is calibrated whatever the distribution, if rows are exchangeable; their
    distance shows how sure that is. ``predict_proba`` merges them to ``p1 / (1 - p0 + p1)``,
    which is minimax for the log loss.

    Both step functions are computed once, in linear time after sorting; a query is a binary
    search.

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
    cuts0_: FloatArray
    cuts1_: FloatArray
    p0_: FloatArray
    p1_: FloatArray

    def predict_interval(self, y_prob: Any) -> tuple[FloatArray, FloatArray]:
        """Return (p0, p1), the probabilities if the label of the new row were 0 or 1."""
        return self._interval(self._read_fitted(y_prob).probs.astype(np.float64))

    def _interval(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        return (
            self.p0_[np.searchsorted(self.cuts0_, scores, side="right")],
            self.p1_[np.searchsorted(self.cuts1_, scores, side="left")],
        )

    def _learn(self, scores: Scores) -> None:
        scores = scores.distinct()
        weight, events = scores.weight, scores.events
        upper = gap_slopes(weight, events)
        lower = 1 - gap_slopes(weight[::-1], (weight - events)[::-1])[::-1]
        self.cuts1_, self.p1_ = _steps(scores.values, np.clip(upper, 0.0, 1.0))
        self.cuts0_, self.p0_ = _steps(scores.values, np.clip(lower, 0.0, 1.0))
        loss = identity_loss(scores.replace_values(self._apply(scores.values)), "log")
        self.fit_result_ = FitReport(True, 1, loss, identity_loss(scores, "log"))

    def _apply(self, probs: AnyArray) -> FloatArray:
        p0, p1 = self._interval(probs.astype(np.float64))
        return np.asarray(p1 / (1 - p0 + p1))

    def _check_learned(self) -> None:
        sizes = (self.cuts0_.size + 1, self.cuts1_.size + 1)
        if sizes != (self.p0_.size, self.p1_.size):
            raise ValueError("a step function has one value more than cuts")


def _steps(values: FloatArray, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (cuts, values) of the step function with one value for each gap between scores."""
    changes = np.flatnonzero(gaps[1:] != gaps[:-1])
    return values[changes], gaps[np.append(0, changes + 1)]


def gap_slopes(weight: FloatArray, events: FloatArray) -> FloatArray:
    """Return the isotonic value of a row of weight 1 and label 1 added in each gap of scores.

    With X and Y the cumulated weights and events, gap i has the value
    ``max_{l <= i} min_{r >= i} (Y_r - Y_l + 1) / (X_r - X_l + 1)``: the slope of the tangent
    from the points ``(X_l - 1, Y_l - 1)`` to the lower hull of the points ``(X_r, Y_r)``. One
    pass keeps that tangent and the hull right of it on a stack.
    """
    x = [0.0, *np.cumsum(weight).tolist()]
    y = [0.0, *np.cumsum(events).tolist()]
    hull = _suffix_hull(x, y)
    slopes = [0.0] * len(x)
    ax, ay = -1.0, -1.0
    for i in range(len(x)):
        j = hull[-1]
        bx, by = x[j], y[j]
        slopes[i] = (by - ay) / (bx - ax)
        if i + 1 == len(x):
            break
        nx, ny = x[i + 1] - 1.0, y[i + 1] - 1.0
        if j > i and (ny - ay) * (bx - ax) >= (by - ay) * (nx - ax):
            continue
        while hull[-1] <= i:
            hull.pop()
        _pop_to_tangent(hull, x, y, nx, ny)
        ax, ay = nx, ny
    return np.array(slopes)


def _pop_to_tangent(hull: list[int], x: list[float], y: list[float], nx: float, ny: float) -> None:
    """Drop corners of the hull until its top is where the tangent from (nx, ny) touches."""
    while len(hull) > 1:
        i, j = hull[-1], hull[-2]
        if (y[i] - ny) * (x[j] - nx) < (y[j] - ny) * (x[i] - nx):
            break
        hull.pop()


def _suffix_hull(x: list[float], y: list[float]) -> list[int]:
    """Return the corners of the lower hull of (-1, -1) and all points, leftmost on top."""
    hull: list[int] = []
    for i in range(len(x) - 1, -1, -1):
        _pop_to_tangent(hull, x, y, x[i], y[i])
        hull.append(i)
    _pop_to_tangent(hull, x, y, -1.0, -1.0)
    return hull
