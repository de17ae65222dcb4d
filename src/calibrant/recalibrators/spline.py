"""Spline calibration: a natural cubic spline over the log-odds, as flexible as the rows allow."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from scipy.interpolate import CubicSpline

from calibrant._logits import sigmoid
from calibrant._options import is_integer
from calibrant._types import FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.formulas import NUMPY, Operations, Smoothing
from calibrant.recalibrators.logistic import PLATT, Family, Share, base, fit_family, solve
from calibrant.recalibrators.reading import INPUTS
from calibrant.recalibrators.scores import Scores, mean_loss

CHOICES = (2, 3, 4, 5, 7)
"""Numbers of knots that "auto" tries; 2 is a straight line. On 5,000 predictions of CIFAR-10,
class by class, more did not lower the held-out loss."""
MOST_KNOTS = 20
"""Knots that may be asked for; "auto" takes 7 at most."""
FOLDS = 3
"""For choosing the number of knots: each is a fit for each number."""
CHOOSING_ROWS = 1 << 13
"""So many rows, at equal steps through all, decide on the number of knots."""
ENDS = {3: 0.1, 4: 0.05, 5: 0.05, 6: 0.05}
"""The quantile of the first knot, as Harrell (2015, table 2.3) places them; 0.025 for more."""


FAR = 1e4
"""Log-odds between knots are never farther apart."""


class SplineCalibration(Recalibrator):
    """Fit ``sigma(s(logit(z)))`` with s a natural cubic spline: cubic between knots, then straight.

    A restricted cubic spline (Harrell, 2015), fitted by maximum likelihood. Its knots are
    quantiles of the log-odds in which a row counts ``q (1 - q)``, q from Platt scaling: what its
    label can tell, so that no knots lie where all labels are the same. Their number is chosen by
    cross-validation among those whose fit never falls; two knots are Platt scaling.

    Parameters
    ----------
    knots : int or "auto"
        How many, from 2 to 20. A number that is given is used even where the map then falls, and
        the flag "not increasing" says so.
    input : {"probabilities", "logits"}
    smoothing : float or "auto"
        See `PlattScaling`.

    Attributes
    ----------
    knots_ : ndarray
        On the scale of log-odds.
    values_ : ndarray
        s at the knots, which with straight ends is all of it.
    smoothing_ : float
        The share of the even distribution that is mixed in before logarithms are taken.

    See Also
    --------
    IsotonicCalibration : steps instead of a smooth curve.
    PlattScaling : a straight line.

    References
    ----------
    Harrell (2015), Regression modeling strategies, 2.4.5. Lucena (2018), Spline-based probability
    calibration.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=2000)
    >>> spline = SplineCalibration(knots=4).fit(z, rng.uniform(size=2000) < z**2)
    >>> spline.predict_proba([0.5]).round(2)
    array([0.25])
    """

    _learned: ClassVar[dict[str, str]] = {
        "knots_": "rising",
        "values_": "vector",
        "smoothing_": "share",
    }
    _constants: ClassVar[tuple[str, ...]] = ("_cuts", "_pieces")
    _choices = INPUTS
    _learn_tensors = Recalibrator._learn_sketch
    knots_: FloatArray
    values_: FloatArray
    smoothing_: float

    def __init__(
        self,
        knots: int | Literal["auto"] = "auto",
        input: Input = "probabilities",
        smoothing: Smoothing = "auto",
    ) -> None:
        self.knots = knots
        self.input = input
        self.smoothing = smoothing

    @property
    def is_identity_(self) -> bool:
        """Whether the scores are left alone."""
        return self.smoothing_ == 0 and bool((self.values_ == self.knots_).all())

    def _learn(self, scores: Scores) -> None:
        scores = scores.compressed()
        # The line decides how much is mixed in, so that all numbers of knots see the same odds.
        options: dict[str, Any] = {"smoothing": self.smoothing, "kind": self.input}
        line, mixed, result = fit_family(PLATT, scores, **options)
        share = None if self.input == "logits" else mixed
        odds = scores.replace_values(base(NUMPY, scores.values, share))
        start = line[0] * odds.values + line[1]
        q = sigmoid(start)
        information = odds.weight * q * (1 - q) + 1e-9 * odds.weight
        numbers = [int(self.knots)] if self.knots != "auto" else _by_loss(odds, information, start)
        for number in numbers:
            knots = _knots(odds.values, information, number)
            if knots.size < 3 or result.flags:
                break  # a line, or rows that determine no more than a line
            family = _family(knots)
            fit = fit_family(family, scores, **{**options, "smoothing": mixed})
            coef, self.smoothing_, self.fit_result_ = fit
            if "not increasing" not in self.fit_result_.flags or self.knots != "auto":
                self.knots_ = knots
                self.values_ = coef[:-1] @ _features(knots, knots) + coef[-1]
                return
        self.knots_ = _knots(odds.values, information, 2)
        self.values_ = line[0] * self.knots_ + line[1]
        self.smoothing_, self.fit_result_ = mixed, result

    @property
    def _cuts(self) -> FloatArray:
        """Where pieces meet, on the scale of the scores."""
        if self.input == "logits":
            return self.knots_
        share = self.smoothing_
        p = (sigmoid(self.knots_) - share / 2) / (1 - share)
        return np.maximum.accumulate(np.clip(p, 0.0, 1.0))

    @property
    def _pieces(self) -> FloatArray:
        """Start, value and three derivatives' coefficients of each piece, the straight ends too."""
        knots, values = self.knots_, self.values_
        spline = CubicSpline(knots, values, bc_type="natural")
        cubic, square, slope, level = spline.c
        ends = spline(knots[[0, -1]], 1)
        return np.stack(
            [
                np.concatenate((knots[:1], knots[:-1], knots[-1:])),
                np.concatenate((values[:1], level, values[-1:])),
                np.concatenate((ends[:1], slope, ends[1:])),
                np.concatenate(([0.0], square, [0.0])),
                np.concatenate(([0.0], cubic, [0.0])),
            ]
        )

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        if self.is_identity_:
            return ops.sigmoid(x) if self.input == "logits" else x
        share = None if self.input == "logits" else self.smoothing_
        cuts, pieces = learned._cuts, learned._pieces
        start, level, slope, square, cubic = (ops.steps(x, cuts, pieces[i]) for i in range(5))
        far = base(ops, x, share) - start
        # Only the straight ends go on for ever: there the bent terms are 0, not infinity times 0.
        near = ops.clip(far, -FAR, FAR)
        return ops.sigmoid(far * slope + (near * cubic + square) * near * near + level)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        auto = isinstance(self.knots, str) and self.knots == "auto"
        if not auto and not (is_integer(self.knots) and 2 <= self.knots <= MOST_KNOTS):  # type: ignore[operator]
            raise InvalidArgumentError(
                f'knots must be "auto" or a number from 2 to {MOST_KNOTS}; got {self.knots!r:.60}.'
            )

    def _check_learned(self) -> None:
        if self.knots_.size < 2 or self.knots_.size != self.values_.size:
            raise ValueError("knots_ and values_ must have the same size, at least 2")


def _knots(odds: FloatArray, information: FloatArray, number: int) -> FloatArray:
    """Return distinct quantiles of the log-odds, by the information of the rows."""
    first = 0.025 if number > max(ENDS) else ENDS.get(number, 0.05)
    order = np.argsort(odds)
    z, w = odds[order], information[order]
    cumulated = (np.cumsum(w) - w / 2) / w.sum()
    knots = np.unique(np.interp(np.linspace(first, 1 - first, number), cumulated, z))
    gaps = np.diff(knots)
    apart = knots[np.concatenate(([True], gaps > 1e-6 * max(1.0, float(np.ptp(knots)))))]
    return apart if apart.size > 1 else np.array([apart[0], apart[0] + 1.0])


def _features(z: FloatArray, knots: FloatArray) -> FloatArray:
    """Return the restricted cubic spline basis (k - 1, n): z itself, then the bent terms.

    Harrell's, with truncated cubes that cancel to a straight line beyond the last knot; the last
    two knots carry what cancels.
    """
    *inner, before, last = knots

    def cube(knot: float) -> FloatArray:
        return np.maximum(z - knot, 0.0) ** 3

    scale, width = (last - knots[0]) ** 2, last - before
    bent = [
        (cube(t) - cube(before) * (last - t) / width + cube(last) * (before - t) / width) / scale
        for t in inner
    ]
    return np.stack([z, *bent])


def _family(knots: FloatArray) -> Family:
    """Return the splines with these knots, for `fit_family`."""

    def is_increasing(coef: FloatArray, low: float, high: float) -> bool:
        z = np.linspace(min(low, knots[0]), max(high, knots[-1]), 513)
        return bool((np.diff(coef[:-1] @ _features(z, knots)) > 0).all())

    def features(ops: Operations, x: Any, share: Share) -> tuple[Any, ...]:
        return tuple(_features(base(ops, x, share), knots))

    identity = (1.0, *(0.0,) * (knots.size - 1))
    return Family(features, identity, is_increasing, solve)


def _by_loss(odds: Scores, information: FloatArray, start: FloatArray) -> list[int]:
    """Return the numbers of knots in the order of their cross-validated log loss."""
    step = max(1, odds.values.size // CHOOSING_ROWS)
    sample = odds.rows(slice(None, None, step))
    information, start = information[::step], start[::step]
    fold = np.random.default_rng(0).permutation(sample.values.size) % FOLDS
    lost: dict[int, float] = {}
    for number in CHOICES:
        lost[number] = _held_out(sample, information, start, fold, number)
        if lost[number] == np.inf or min(lost.values()) < min([*lost.values()][-2:]):
            break  # more knots ask for more; two numbers in a row that lose are enough
    return sorted(lost, key=lambda number: (lost[number], number))


def _held_out(
    odds: Scores, information: FloatArray, start: FloatArray, fold: IntArray, number: int
) -> float:
    """Return the log loss of the rows of each fold after a fit on the others.

    Infinite where a fit has no finite optimum: so many knots ask more than the rows tell.
    """
    knots, total = _knots(odds.values, information, number), 0.0
    if knots.size < number:
        return np.inf
    bent = _features(odds.values, knots) if number > 2 else odds.values[None]
    scale = np.maximum(bent.std(axis=1, keepdims=True), 1e-12)
    design = np.vstack([bent / scale, np.ones(odds.values.size)])
    for held in (fold == k for k in range(min(FOLDS, fold.size))):
        inside, outside = odds.take(~held), odds.take(held)
        if inside.values.size == 0 or inside.is_separated:
            return np.inf
        theta = _newton(design[:, ~held], inside, start[~held])
        if theta is None:
            return np.inf
        total += mean_loss(theta @ design[:, held], outside) * outside.total
    return total


def _newton(design: FloatArray, odds: Scores, eta: FloatArray) -> FloatArray | None:
    """Return the coefficients of the rows of a design by Newton steps from log-odds in its span.

    None where they have not settled to a thousandth of the log-odds after 20 steps. A comparison
    needs no more; the fit that is kept is that of `fit_family`.
    """
    w = odds.weight
    for _ in range(20):
        p = sigmoid(eta)
        bent = design * (w * p * (1 - p))
        curvature = bent @ design.T
        curvature += 1e-10 * np.trace(curvature) * np.eye(len(curvature))
        theta = np.linalg.solve(curvature, bent @ eta + design @ (odds.events - w * p))
        fresh = theta @ design
        if not np.abs(fresh).max() < FAR:
            return None
        if np.abs(fresh - eta).max() < 1e-3:
            return np.asarray(theta)
        eta = fresh
    return None
