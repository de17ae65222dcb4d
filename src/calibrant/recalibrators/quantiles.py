"""Repairs of predicted quantiles: the level at which each is read, or the width of all.

Both read quantiles of shape (n, L) at levels that ``classes=`` names, and answer quantiles at
the same levels. What they answer is certified on other rows, as every repair is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from calibrant import stats
from calibrant._digests import Digests, digest_of_document
from calibrant._documents import check_header, check_names, header
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant._writing import write_whole
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidInputError,
    InvalidShapeError,
)
from calibrant.problem import Label, Problem, read_problem
from calibrant.recalibrators.certifying import check_fresh
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.recalibrators.reading import unless_it_fails
from calibrant.sources.arrays import ArraySource, as_array, read_arrays
from calibrant.sources.events import read_forecasts, read_quantiles

FORMAT = "calibrant.quantile_recalibrator"
SCHEMA = 1


class QuantileRepair(BaseEstimator):  # type: ignore[misc]
    """Base of repairs of quantiles, scikit-learn estimators of quantiles from quantiles.

    Attributes
    ----------
    levels_ : ndarray
        The levels of the quantiles.
    fingerprint_ : Fingerprint
        A sketch of the rows of the fit.
    """

    _learned: ClassVar[tuple[str, ...]] = ()
    levels_: FloatArray
    fingerprint_: Fingerprint

    def fit(
        self,
        y_prob: Any,
        y_true: Any,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Self:
        """Learn from predicted quantiles and outcomes, and return self.

        Parameters
        ----------
        y_prob : array_like of shape (n, L)
            Predicted quantiles, finite, in the order of their levels.
        y_true : array_like of shape (n,)
            Real outcomes.
        sample_weight : array_like of shape (n,), optional
            Importance weights; their scale does not matter.
        classes : sequence of float
            The levels.
        """
        problem, y, q, weights = read_forecasts(y_true, y_prob, classes, sample_weight, None)
        _check_finite(q)
        with unless_it_fails(self):
            self.levels_ = np.array(problem.class_names, np.float64)
            _check_width(self.levels_)
            self._learn(q, y, np.ones(len(y)) if weights is None else weights)
            self.fingerprint_ = _fingerprint(q, y)
        return self

    def predict(self, y_prob: Any) -> FloatArray:
        """Return repaired quantiles at the levels of the fit, of the shape of `y_prob`."""
        check_is_fitted(self, "levels_")
        array = as_array(y_prob, "y_prob")
        width = array.shape[1] if array.ndim == 2 else 1
        if array.ndim > 2 or width != self.levels_.size:
            raise InvalidShapeError(
                f"This repair was fitted on quantiles at {self.levels_.size:,} levels; y_prob has "
                f"shape {array.shape}. Pass the same columns in the same order."
            )
        q = read_quantiles(array.reshape(len(array), width))
        _check_finite(q)
        # rounding must not let neighbours cross
        return np.maximum.accumulate(self._apply(q), axis=1).reshape(array.shape)

    def score(self, y_prob: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the negative pinball loss of the repaired quantiles: higher is better.

        Parameters
        ----------
        y_prob, y_true, sample_weight
            As in `fit`.
        """
        from calibrant.regression import pinball_loss

        repaired, levels = self.predict(y_prob), self.levels_.tolist()
        return -float(pinball_loss(y_true, repaired, classes=levels, sample_weight=sample_weight))

    def certify(self, y_prob: Any, y_true: Any, **options: Any) -> stats.Certificate:
        """Repair fresh quantiles and certify their coverage; see `calibrant.certify`.

        The very rows of the fit are refused; many that the fit has seen are an `OverlapWarning`.
        ``calibrant.certify_coverage(certificate.table)`` tells the limits of every level.

        Parameters
        ----------
        y_prob, y_true
            Quantiles before the repair, and outcomes: other rows than those of the fit.
        **options
            `max_error`, `norm`, `confidence_level`, `target`, `looks` and `class_weight`, as in
            `calibrant.certify`.
        """
        repaired, levels = self.predict(y_prob), self.levels_.tolist()
        _, y, q, _ = read_forecasts(y_true, y_prob, levels, None, None)
        check_fresh(self.fingerprint_, _fingerprint(q, y), "repair", "outcomes")
        source = ArraySource(read_arrays(y, repaired, kind="quantile", classes=levels))
        digests = Digests(source.digest(), digest_of_document(self.to_dict()))
        return stats.certify(source.tabulate("auto"), **options, digests=digests)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        check_is_fitted(self, "levels_")
        return {
            **header(FORMAT, SCHEMA),
            "recalibrator": type(self).__name__,
            "levels": self.levels_.tolist(),
            "learned": {
                name.rstrip("_"): np.asarray(getattr(self, name)).tolist() for name in self._learned
            },
            "fingerprint": self.fingerprint_.to_dict(),
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted repair as readable, versioned JSON; a failure changes nothing."""
        write_whole(path, json.dumps(self.to_dict(), allow_nan=False, indent=1) + "\n")

    def _learn(self, q: FloatArray, y: FloatArray, weights: FloatArray) -> None:
        raise NotImplementedError

    def _apply(self, q: FloatArray) -> FloatArray:
        raise NotImplementedError


class QuantileRecalibration(QuantileRepair):
    """Read each quantile at the level that covers as often as it should.

    If the quantiles at level p covered a share R(p) of the outcomes, the repaired quantile at level
    tau is the predicted one at the level p where R(p) = tau (Kuleshov, Fenner and Ermon, 2018). R
    rises with p because quantiles do not cross, so that its isotonic regression is R itself.
    Between and beyond the levels, R and the quantiles of a row are taken as linear on the scale of
    normal scores: exact where forecasts and outcomes are normal, and a choice elsewhere, which
    `certify` judges on other rows.

    Attributes
    ----------
    coverage_ : ndarray
        R at each level, (covered + 1/2) / (n + 1): never 0 or 1.

    See Also
    --------
    VarianceScaling : one factor for all levels.

    References
    ----------
    Kuleshov, Fenner, Ermon (2018), Accurate uncertainties for deep learning using calibrated
    regression, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import certify_coverage, normal_quantiles
    >>> rng, levels = np.random.default_rng(0), (0.05, 0.25, 0.5, 0.75, 0.95)
    >>> y = rng.normal(size=4000)
    >>> narrow = normal_quantiles(np.zeros(4000), 0.6, levels)
    >>> repair = QuantileRecalibration().fit(narrow[:2000], y[:2000], classes=levels)
    >>> after = certify_coverage(y[2000:], repair.predict(narrow[2000:]), classes=levels)
    >>> before = certify_coverage(y[2000:], narrow[2000:], classes=levels)
    >>> float(before.inside[0]), float(after.inside[0])
    (0.6735, 0.904)
    """

    _learned = ("coverage_",)
    coverage_: FloatArray

    def _learn(self, q: FloatArray, y: FloatArray, weights: FloatArray) -> None:
        # so that the half row is one of average weight, among rows that have any
        weights = weights / weights[weights > 0].mean()
        covered = (y[:, None] <= q).T @ weights
        self.coverage_ = np.maximum.accumulate((covered + 0.5) / (weights.sum() + 1))
        if self.coverage_[0] == self.coverage_[-1]:
            raise InvalidInputError(
                "Some outcomes must fall between the predicted quantiles to say which covers how "
                f"many; none of {len(y):,} does. Repair the bias of the forecasts first."
            )

    def _apply(self, q: FloatArray) -> FloatArray:
        z, r = special.ndtri(self.levels_), special.ndtri(self.coverage_)
        distinct = np.unique(r)
        middle = np.array([z[r == value].mean() for value in distinct])  # where R is flat
        place, share = _segments(distinct, z)
        read_at = middle[place] + share * (middle[place + 1] - middle[place])
        place, share = _segments(z, read_at)
        return np.asarray(q[:, place] + share * (q[:, place + 1] - q[:, place]))


def _segments(knots: FloatArray, x: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the segment between knots of each x, the outermost beyond them, and where in it."""
    place = np.clip(np.searchsorted(knots, x) - 1, 0, knots.size - 2)
    return place, (x - knots[place]) / (knots[place + 1] - knots[place])


def _check_width(levels: FloatArray) -> None:
    if levels.size < 2:
        raise InvalidArgumentError(
            "A repair reads how a forecast spreads from quantiles at two levels at least; got one. "
            "Predict more levels."
        )


class VarianceScaling(QuantileRepair):
    """Multiply the spread of every forecast by one factor, found by likelihood.

    The factor is that of the standard deviations of normal forecasts at which the outcomes are
    most likely: the root of the mean of ``((y - mean) / std)^2`` (as `sigma scaling` of Levi et
    al., 2022, and Laves et al., 2020). Mean and standard deviation of a row are those of the
    normal distribution nearest to its quantiles, by least squares over levels: of the quantiles
    that `normal_quantiles` makes, exactly its own. Other quantiles are stretched about that mean.

    Attributes
    ----------
    factor_ : float

    See Also
    --------
    QuantileRecalibration : every level by itself.

    References
    ----------
    Levi, Gispan, Giladi, Fetaya (2022), Evaluating and calibrating uncertainty prediction in
    regression tasks, Sensors 22. Laves et al. (2020), Well-calibrated regression uncertainty in
    medical imaging with deep learning, MIDL.

    Examples
    --------
    >>> import numpy as np
    >>> from calibrant import normal_quantiles
    >>> y, levels = np.random.default_rng(0).normal(size=2000), (0.1, 0.5, 0.9)
    >>> narrow = normal_quantiles(np.zeros(2000), 0.5, levels)
    >>> repair = VarianceScaling().fit(narrow, y, classes=levels)
    >>> round(repair.factor_, 2)
    2.0
    """

    _learned = ("factor_",)
    factor_: float

    def _learn(self, q: FloatArray, y: FloatArray, weights: FloatArray) -> None:
        mean, std = self._normal(q)
        used = weights > 0
        flat = ~(std > 0) & used
        if flat.any():
            first = int(flat.argmax())
            raise InvalidInputError(
                f"Forecasts must have a spread to scale; the quantiles of {int(flat.sum()):,} of "
                f"{flat.size:,} rows are all equal (first: row {first}, {q[first, 0]:g}). Leave "
                "these rows out."
            )
        squares = ((y - mean)[used] / std[used]) ** 2
        self.factor_ = float(np.sqrt(np.average(squares, weights=weights[used])))

    def _normal(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the normal law nearest to a row."""
        z = special.ndtri(self.levels_)
        centred = z - z.mean()
        std = q @ centred / (centred @ centred)
        return np.asarray(q.mean(axis=1) - std * z.mean()), np.asarray(std)

    def _apply(self, q: FloatArray) -> FloatArray:
        mean = self._normal(q)[0][:, None]
        return np.asarray(mean + self.factor_ * (q - mean))


def _check_finite(q: FloatArray) -> None:
    wrong = ~np.isfinite(q)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InvalidInputError(
            f"A repair needs finite quantiles; {int(wrong.sum()):,} of {q.size:,} are infinite "
            f"(first: y_prob[{row}, {column}] = {q[row, column]:g}). Leave these out."
        )


def _fingerprint(q: FloatArray, y: FloatArray) -> Fingerprint:
    return Fingerprint.of(np.column_stack([q, y]), np.zeros(len(y), np.intp))


def from_dict(document: Any) -> QuantileRepair:
    """Rebuild a repair from `QuantileRepair.to_dict`; refuse a damaged document."""
    subject = "A saved repair of quantiles"
    document = check_header(document, FORMAT, SCHEMA, subject, "Fit again")
    check_names(
        document, ("format", "schema", "recalibrator", "levels", "learned", "fingerprint"), subject
    )
    classes = {cls.__name__: cls for cls in (QuantileRecalibration, VarianceScaling)}
    cls = classes.get(document["recalibrator"] if isinstance(document["recalibrator"], str) else "")
    if cls is None:
        raise InvalidDocumentError(
            f"There is no repair of quantiles named {document['recalibrator']!r:.60}."
        )
    repair: QuantileRepair = cls()
    learned = document["learned"]
    try:
        levels = document["levels"]
        problem: Problem = read_problem("quantile", len(levels), levels)
        repair.levels_ = np.array(problem.class_names, np.float64)
        _check_width(repair.levels_)
        check_names(learned, tuple(name.rstrip("_") for name in cls._learned), '"learned"')
        if cls is VarianceScaling:
            factor = learned["factor"]
            if not (type(factor) in (int, float) and 0 <= factor < np.inf):
                raise ValueError(f"its factor is {factor!r:.60}")
            repair.factor_ = float(factor)
        else:
            coverage = np.array(learned["coverage"], np.float64)
            is_rising = coverage.shape == repair.levels_.shape and np.all(np.diff(coverage) >= 0)
            if not (is_rising and np.all((coverage > 0) & (coverage < 1)) and np.ptp(coverage) > 0):
                raise ValueError("its coverages must rise within (0, 1), one for each level")
            repair.coverage_ = coverage
    except (TypeError, ValueError) as error:
        raise InvalidDocumentError(f"Not a valid {cls.__name__}: {error!s:.300}.") from error
    repair.fingerprint_ = Fingerprint.from_dict(document["fingerprint"])
    return repair
