"""Several labels a row: a recalibrator of one score for each label, and nothing that ties them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.columns import Columns
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Kind
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.fit_result import sum_of_fits
from calibrant.recalibrators.foreign import as_recalibrator, check_inner
from calibrant.recalibrators.formulas import NUMPY, RowOperations
from calibrant.recalibrators.multiclass import fit_one
from calibrant.recalibrators.reading import Reads, read_again

SUFFIX = "_calibrated"


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
    OneVsRest : for classes, of which a row has exactly one.

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

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self.recalibrators_ = [
            fit_one(as_recalibrator(self.recalibrator), p, y == 1, weights)
            for p, y in zip(probs.T, codes.T, strict=True)
        ]
        self.fit_result_ = sum_of_fits(self.recalibrators_)

    def predict(self, y_prob: Any) -> AnyArray:
        """Return 1 for each label that is more probable than not, in the shape of `y_prob`."""
        return np.asarray(self.predict_proba(y_prob) > 0.5).astype(np.intp)

    def score(self, y_prob: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the negative Brier score, averaged over labels: higher is better.

        Parameters
        ----------
        y_prob, y_true, sample_weight
            As in `fit`.

        Returns
        -------
        float
        """
        rows = read_again(self, y_prob, y_true, sample_weight)
        squares = (self._apply(rows.predictions) - rows.codes()) ** 2
        return -float(np.average(squares.mean(axis=1), weights=rows.weights))

    def to_sql(self, column: Sequence[str], dialect: str = "duckdb") -> list[str]:  # type: ignore[override]
        """Return an SQL expression for each label, of the columns of all labels in their order.

        See `calibrant.recalibrators.export_sql.to_sql`.
        """
        return [part.to_sql(name, dialect) for name, part in self._by_column(column)]

    def to_expression(self, column: Sequence[str]) -> list[Any]:
        """Return a narwhals expression for each label, of the columns of all in their order.

        See `calibrant.recalibrators.export_frame.to_expression`.
        """
        return [part.to_expression(name) for name, part in self._by_column(column)]

    def apply_to_frame(
        self, data: Any, column: Sequence[str], *, output: Sequence[str] | None = None
    ) -> Any:
        """Add a column of recalibrated predictions for each label to a data frame.

        See `calibrant.recalibrators.export_frame.apply_to_frame`.

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
        parts = enumerate(self.recalibrators_)
        return np.column_stack([part._answers(probs[:, k]) for k, part in parts])

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)

    def _check_learned(self) -> None:
        if len(self.recalibrators_) != self.classes_.size or None in self.recalibrators_:
            raise ValueError("there must be one recalibrator for each label")
