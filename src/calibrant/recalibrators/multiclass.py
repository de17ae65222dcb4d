"""Several classes or labels, one by one: a recalibrator of one score for each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import Hybrid
from calibrant.columns import Columns
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Kind
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binning import HistogramBinning
from calibrant.recalibrators.foreign import (
    as_recalibrator,
    check_inner,
    fit_one,
    fit_one_on_device,
)
from calibrant.recalibrators.formulas import NUMPY, RowOperations
from calibrant.recalibrators.reading import Choices, Reads, read_unlabelled
from calibrant.recalibrators.saving import parts_as_steps
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.scores import FitResult

LIGHT = 30.0
"""How much lighter than average a bin of one class may be; half the number of classes, where that
is larger, leaves room for classes of few rows. On 5,000 rows of 100 classes, bins of at least a
third of the average lose five points of accuracy and these less than half a point; the bound of a
certificate is a tenth larger than with uniform-mass bins."""

MATERIAL_LOSS = 0.01
"""The loss of accuracy worth a warning, if it is more than two standard errors too."""

ACCURACY_ROWS = 100_000
"""Enough rows for a standard error far below MATERIAL_LOSS, and no second table of all of them."""


SUFFIX = "_calibrated"
"""Of the names of columns that `MultiLabel` adds to a frame."""


class AccuracyWarning(UserWarning):
    """Recalibrated outputs choose the right class less often than the predictions did."""


class OneVsRest(Recalibrator):
    """Recalibrate every class on its own: for the marginal calibration error.

    A class without rows is a problem with one label, to which every recalibrator has a defined
    answer.

    Binned recalibrators answer with few numbers, which can change the most probable class: two
    classes are compared by their bins. Uniform-mass bins put all likely rows of a rare class into
    one; so unless a rule is named, as in ``bins="mass:15"``, they are hybrid bins, and those of
    `ScalingBinning` may be as light as a small share of one class. Fitting warns where the most
    probable class is right less often than before: by more than one in a hundred of the fitting
    rows, and by more than chance.

    Parameters
    ----------
    recalibrator : recalibrator of one score
        A fresh copy of it is fitted for every class. Anything with `fit` and `predict_proba` will
        do, such as a classifier of scikit-learn, which gets the scores as its one feature.
    normalize : bool
        Whether rows are divided by their sum. Without, each column is exactly what its
        recalibrator answers, and the guarantees of binned recalibrators (finitely many
        outputs, so their error can be certified) hold for every column, but rows need not
        add up to 1. With, rows add up to 1, but outputs of one column depend on the others:
        they are no longer finitely many, and no guarantee carries over.

    Attributes
    ----------
    recalibrators_ : list
        One for each class.
    accuracy_before_, accuracy_after_ : float
        How often the most probable class was right on the fitting rows (on 100,000 of them where
        there are more), without and with recalibration.

    See Also
    --------
    TopLabel : for the top-label error; the predicted class stays.

    References
    ----------
    Zadrozny, Elkan (2002), Transforming classifier scores into accurate multiclass probability
    estimates, KDD.

    Examples
    --------
    >>> from calibrant.recalibrators import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([1, 1, 1], size=300)
    >>> labels = probs.argmax(axis=1)
    >>> OneVsRest(ScalingBinning(bins=5)).fit(probs, labels).predict_proba(probs).shape
    (300, 3)
    """

    _reads: ClassVar[Reads] = "classes"
    _choices: ClassVar[Choices] = {"normalize": (False, True)}
    _constants: ClassVar[tuple[str, ...]] = ("recalibrators_",)
    _learned: ClassVar[dict[str, str]] = {
        "recalibrators_": "recalibrators",
        "accuracy_before_": "number",
        "accuracy_after_": "number",
    }
    recalibrators_: list[Recalibrator]
    accuracy_before_: float
    accuracy_after_: float
    _warns: bool = True

    def __init__(self, recalibrator: Recalibrator, normalize: bool = False) -> None:
        self.recalibrator = recalibrator
        self.normalize = normalize

    as_steps = parts_as_steps

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        k = probs.shape[1]
        self.recalibrators_ = [
            fit_one(self._fresh(k), probs[:, i], codes == i, weights) for i in range(k)
        ]
        self.fit_result_ = FitResult.of_all(part.fit_result_ for part in self.recalibrators_)
        sampled = slice(None, None, max(1, len(codes) // ACCURACY_ROWS))
        tops = probs[sampled].argmax(axis=1), self._chosen(probs[sampled])
        right = [top == codes[sampled] for top in tops]
        w = None if weights is None else weights[sampled]
        self._judge_accuracy(right[0], right[1], w)

    def _learn_tensors(self, tensors: Tensors) -> bool:
        k = tensors.problem.n_classes
        self.recalibrators_ = [self._fresh(k) for _ in range(k)]
        for i, part in enumerate(self.recalibrators_):
            if not fit_one_on_device(part, on_device.column(tensors, i)):
                return False
        self.fit_result_ = FitResult.of_all(part.fit_result_ for part in self.recalibrators_)
        x, codes = tensors.predictions, tensors.labels
        sampled = slice(None, None, max(1, len(codes) // ACCURACY_ROWS))
        out = on_device.answers(self, x[sampled])
        tied = out == out.amax(1, keepdim=True)
        before, after = x[sampled].argmax(1), ((x[sampled] + 1) * tied).argmax(1)
        right = [(top == codes[sampled]).cpu().numpy() for top in (before, after)]
        self._judge_accuracy(right[0], right[1], None)
        return True

    def _fresh(self, n_classes: int) -> Recalibrator:
        fresh = as_recalibrator(self.recalibrator)
        # Means of a smooth map can do with few rows; means of labels cannot.
        if isinstance(fresh, ScalingBinning):
            fresh._balance = max(LIGHT, n_classes / 2)
        elif isinstance(fresh, HistogramBinning):
            fresh._balance = Hybrid().balance
        return fresh

    def _judge_accuracy(
        self, before: AnyArray, after: AnyArray, weights: FloatArray | None
    ) -> None:
        """Keep how often the most probable class is right, and warn where that falls."""
        w = np.ones(len(before)) if weights is None else weights
        share = w / w.sum() if w.any() else w
        self.accuracy_before_, self.accuracy_after_ = float(share @ before), float(share @ after)
        loss = share * (before.astype(np.float64) - after)
        if loss.sum() > max(MATERIAL_LOSS, 2 * float(np.linalg.norm(loss))):
            self.fit_result_ = replace(
                self.fit_result_, flags=(*self.fit_result_.flags, "less accurate")
            )
            if not self._warns:
                return
            warnings.warn(
                f"The most probable class is right in {self.accuracy_after_:.1%} of the fitting "
                f"rows after recalibration, and was in {self.accuracy_before_:.1%} before: the "
                "outputs are too coarse to choose a class by. Use more bins or a smooth "
                "recalibrator, fit on more rows, or take TopLabel, which never changes the class.",
                AccuracyWarning,
                stacklevel=4,  # the caller of fit
            )

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the most probable class of each row; ties go to the largest entry of `y_prob`."""
        chosen = self._chosen(read_unlabelled(self, y_prob)[0])
        return np.asarray(self.classes_[chosen])

    def _chosen(self, probs: AnyArray) -> IntArray:
        out = self._apply(probs)
        tied = out == out.max(axis=1, keepdims=True)
        return np.asarray(np.where(tied, probs, -1.0).argmax(axis=1))

    def _apply(self, probs: AnyArray) -> FloatArray:
        return np.asarray(self._formula(NUMPY, probs, self))

    def _formula(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        out = ops.by_column(learned.recalibrators_, x)
        if not self.normalize:
            return out
        total = ops.sums(out)
        even = 1 / self.classes_.size
        return ops.where(total > 0, out / ops.where(total > 0, total, 1.0), even)

    def _certifiable(self, rows: Columns, kind: Kind | None) -> Columns:
        if kind is None and self.classes_.size > 2:
            kind = "marginal"
        return super()._certifiable(rows, kind)

    def _answers(self, probs: AnyArray) -> FloatArray:
        return self._apply(probs) if self.normalize else _answers_by_column(self, probs)

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)
        super()._check_parameters()

    def _check_learned(self) -> None:
        _check_parts(self)


class MultiLabel(Recalibrator):
    """Recalibrate every label of rows that may have none, one or several: kind "multi-label".

    Each label is an event of its own, with a recalibrator of its own; rows are not made to add up
    to 1, for they need not. A label that no fitting row has, or that all have, is a problem with
    one outcome, to which every recalibrator has a defined answer.

    Parameters
    ----------
    recalibrator : recalibrator of one score
        A fresh copy of it is fitted for every label. Anything with `fit` and `predict_proba` will
        do, as in `OneVsRest`.

    Attributes
    ----------
    classes_ : ndarray
        The names of the labels, in the order of the columns.
    recalibrators_ : list
        One for each label.

    See Also
    --------
    OneVsRest : for classes, where a row has exactly one.

    Notes
    -----
    ``fit(y_prob, y_true)`` and ``certify(y_prob, y_true)`` take labels of shape (n, K), 0 or 1, as
    `calibration_error` does with ``kind="multi-label"``. `to_sql`, `to_expression` and
    `apply_to_frame` take the names of all K columns.

    Examples
    --------
    >>> from calibrant.recalibrators import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=(2000, 3))
    >>> y = rng.uniform(size=p.shape) < p**2
    >>> repair = MultiLabel(ScalingBinning(bins=5)).fit(p[:1000], y[:1000])
    >>> repair.predict_proba(p[1000:]).shape
    (1000, 3)
    >>> repair.certify(p[1000:], y[1000:], max_error=0.2).verdict
    'certified'
    """

    _reads: ClassVar[Reads] = "labels"
    _constants: ClassVar[tuple[str, ...]] = ("recalibrators_",)
    _learned: ClassVar[dict[str, str]] = {"recalibrators_": "recalibrators"}
    recalibrators_: list[Recalibrator]

    def __init__(self, recalibrator: Recalibrator) -> None:
        self.recalibrator = recalibrator

    as_steps = parts_as_steps

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self.recalibrators_ = [
            fit_one(as_recalibrator(self.recalibrator), p, y == 1, weights)
            for p, y in zip(probs.T, codes.T, strict=True)
        ]
        self.fit_result_ = FitResult.of_all(part.fit_result_ for part in self.recalibrators_)

    def predict(self, y_prob: Any) -> AnyArray:
        """Return 1 for each label that is more probable than not, in the shape of `y_prob`."""
        return np.asarray(self.predict_proba(y_prob) > 0.5).astype(np.intp)

    def to_sql(self, column: Sequence[str], dialect: str = "duckdb") -> list[str]:  # type: ignore[override]
        """Return an SQL expression for each label, of the columns of all labels in their order.

        See `calibrant.recalibrators.exports.sql.to_sql`.
        """
        return [part.to_sql(name, dialect) for name, part in self._by_column(column)]

    def to_expression(self, column: Sequence[str]) -> list[Any]:  # type: ignore[override]
        """Return a narwhals expression for each label, of the columns of all in their order.

        See `calibrant.recalibrators.exports.frame.to_expression`.
        """
        return [part.to_expression(name) for name, part in self._by_column(column)]

    def apply_to_frame(  # type: ignore[override]
        self, data: Any, column: Sequence[str], *, output: Sequence[str] | None = None
    ) -> Any:
        """Add a column of recalibrated predictions for each label to a data frame.

        See `calibrant.recalibrators.exports.frame.apply_to_frame`.

        Parameters
        ----------
        data : data frame
        column : sequence of str
            The columns of predictions, in the order of the labels.
        output : sequence of str, optional
            The names of the new columns; otherwise those of the old with ``_calibrated`` appended.
        """
        pairs = self._by_column(column)
        names = [f"{name}{SUFFIX}" for name, _ in pairs] if output is None else output
        if isinstance(names, str) or len(names) != len(pairs):
            raise InvalidArgumentError(
                f"output must name a new column for each of the {len(pairs):,} labels; got "
                f"{output!r:.60}."
            )
        for (name, part), new in zip(pairs, names, strict=True):
            data = part.apply_to_frame(data, name, output=new)
        return data

    def _by_column(self, names: Sequence[str]) -> list[tuple[str, Recalibrator]]:
        """Return each column's name with its recalibrator."""
        n = self.classes_.size
        if isinstance(names, str) or len(names) != n or len({*names}) != n:
            raise InvalidShapeError(
                f"This MultiLabel repairs {n:,} labels, and needs the names of as many columns, "
                f"all different, in the order of classes_; got {names!r:.80}."
            )
        return list(zip(names, self.recalibrators_, strict=True))

    def _apply(self, probs: AnyArray) -> FloatArray:
        return np.asarray(NUMPY.by_column(self.recalibrators_, probs))

    def _formula(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        if self.classes_.size == 1:  # other engines have one column as (n,)
            return ops.answers(learned.recalibrators_[0], x)
        return ops.by_column(learned.recalibrators_, x)

    def _certifiable(self, rows: Columns, kind: Kind | None) -> Columns:
        if kind not in (None, "multi-label"):
            raise InvalidArgumentError(
                "MultiLabel repairs every label by itself, and its certificate speaks of the "
                f'multi-label error; kind is "{kind}". Leave kind out, or fit a recalibrator of '
                "that kind."
            )
        return super()._certifiable(rows, "multi-label")

    def _answers(self, probs: AnyArray) -> FloatArray:
        return _answers_by_column(self, probs)

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)

    def _check_learned(self) -> None:
        _check_parts(self)


def _answers_by_column(model: OneVsRest | MultiLabel, probs: AnyArray) -> FloatArray:
    """Return the answers of each column's recalibrator, without the breaking of ties."""
    parts = enumerate(model.recalibrators_)
    return np.column_stack([part._answers(probs[:, k]) for k, part in parts])


def _check_parts(model: OneVsRest | MultiLabel) -> None:
    if len(model.recalibrators_) != model.classes_.size or None in model.recalibrators_:
        raise ValueError("there must be one recalibrator for each column")
