"""Recalibrator: the base class of all repairs of probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from calibrant._options import is_among
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant._writing import write_whole
from calibrant.columns import Columns
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import EVENT_KINDS, Input, Kind, Label, Problem
from calibrant.recalibrators import on_device
from calibrant.recalibrators.certifying import certify, recheck
from calibrant.recalibrators.class_rows import map_rows, squared_errors
from calibrant.recalibrators.fingerprint import Fingerprint, TableFingerprint
from calibrant.recalibrators.formulas import NUMPY, check_smoothing
from calibrant.recalibrators.reading import (
    SEVERAL,
    Choices,
    Reads,
    check_choice,
    in_shape,
    keep_names,
    read_again,
    read_labelled,
    read_unlabelled,
    unless_it_fails,
)
from calibrant.recalibrators.scores import FitResult, Scores
from calibrant.sources.arrays import read_arrays
from calibrant.sources.column_names import names_of
from calibrant.table import BinTable

if TYPE_CHECKING:
    from calibrant.recalibrators.selection import RecalibratorScores


class Recalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all recalibrators: a scikit-learn estimator of probabilities from probabilities.

    A method states what it reads (`_reads`), what its parameters may be (`_choices`), how it learns
    (`_learn` from the scores of one event, or `_fit` from rows) and what it answers (`_formula`, or
    `_apply` where the answer has no form that other engines can evaluate).

    Attributes
    ----------
    input : {"probabilities", "logits"}
        What the predictions are.
    classes_ : ndarray
        The labels in the order of the columns; for one column (no, yes).
    feature_names_in_ : ndarray of str
        The names of the columns of the fit, where they had names: other columns, or the same in
        another order, are refused.
    fit_result_ : FitResult
        Whether the fit converged, in how many steps, to which loss, and what was unusual.
    fingerprint_ : Fingerprint or None
        A sketch of the rows whose labels were used; None after `fit_table`.
    table_fingerprint_ : TableFingerprint or None
        What is kept of the table after `fit_table`.
    scores_ : RecalibratorScores
        Of all candidates, if `best_recalibrator` chose this one.
    """

    _reads: ClassVar[Reads] = "one event"
    _learned: ClassVar[dict[str, str]] = {}
    _constants: ClassVar[tuple[str, ...]] = ()
    _choices: ClassVar[Choices] = {}
    input: Input = "probabilities"
    smoothing: Any
    classes_: AnyArray
    feature_names_in_: AnyArray
    fit_result_: FitResult
    fingerprint_: Fingerprint | None
    rows_fingerprint_: Fingerprint | None = None
    table_fingerprint_: TableFingerprint | None = None
    scores_: RecalibratorScores

    def fit(
        self,
        y_prob: Any,
        y_true: Any,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Self:
        """Learn from predictions and labels, and return self; a failure changes nothing.

        Parameters
        ----------
        y_prob : array_like of shape (n,) or (n, n_classes)
            The model's predictions.
        y_true : array_like of shape (n,)
            Labels: 0/1 or booleans, class indices, or the names in `classes`. Of `MultiLabel`, of
            shape (n, n_labels).
        sample_weight : array_like of shape (n,), optional
            Importance weights; their scale does not matter.
        classes : sequence, optional
            The labels in the order of the columns; for one column (no, yes).

        Returns
        -------
        Recalibrator
            Itself.

        Raises
        ------
        InvalidInputError
            If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
        """
        self._check_parameters()
        with unless_it_fails(self):
            keep_names(self, names_of(y_prob))
            if sample_weight is None and on_device.is_on_device(y_prob):
                tensors = on_device.read_rows(self, y_prob, y_true, classes)
                if tensors is not None:
                    self.classes_ = np.array(tensors.problem.class_names)
                    if self._learn_tensors(tensors):
                        x, codes = tensors.predictions, tensors.labels
                        self.fingerprint_ = on_device.fingerprint(x, codes)
                        self.table_fingerprint_ = None
                        return self
            rows = read_labelled(self, y_prob, y_true, sample_weight, classes)
            self.classes_ = np.array(rows.problem.class_names)
            learned_from = rows.predictions, rows.codes(), rows.weights
            self._fit(*learned_from)
            self._remember(*learned_from)
        return self

    def fit_table(self, table: BinTable) -> Self:
        """Learn from a table on a fine grid instead of rows, and return self.

        Every cell counts as rows at its mean prediction, so the fit differs from the one on
        rows by what a cell's width hides: nothing where cells hold one distinct prediction.
        `certify` refuses the very rows of the table, and cannot tell whether some are among them.
        """
        self._check_parameters()
        if not isinstance(table, BinTable):
            raise InvalidArgumentError(
                f"fit_table needs one BinTable, as calibrant.tabulate makes; got {table!r:.60}. "
                "Fit rows with fit, add up the tables of several groups, and read a saved one by "
                "BinTable.from_json."
            )
        if self._reads in SEVERAL or self.input == "logits":
            raise InvalidArgumentError(
                "A table counts the probabilities of one event; fit_table needs a recalibrator of "
                f'one score with input="probabilities", and this is {self!r:.60}. Fit it on rows.'
            )
        with unless_it_fails(self):
            keep_names(self, ())
            self._fit_scores(Scores.of_table(table))
            self.table_fingerprint_ = TableFingerprint.of(table)
        return self

    def predict_proba(self, y_prob: Any) -> FloatArray:
        """Return recalibrated probabilities in the shape of `y_prob`.

        Parameters
        ----------
        y_prob : array_like of shape (n,) or (n, n_classes)
            Predictions, as many columns as those of the fit.

        Returns
        -------
        ndarray
            Of a tensor on a GPU, a tensor of its type beside it.
        """
        if on_device.is_on_device(y_prob):
            check_is_fitted(self, "classes_")
            out = on_device.answers(self, y_prob.detach())
            if not bool(out.isnan().any()):
                return out.to(y_prob.dtype)  # type: ignore[no-any-return]
            # The host says which value is wrong.
        probs, shape = read_unlabelled(self, y_prob)
        return in_shape(self._apply(probs), shape)

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the most probable class of each row; ties go to the first."""
        return self._most_probable(self.predict_proba(y_prob))

    def _most_probable(self, probs: FloatArray) -> AnyArray:
        narrow = probs.ndim == 1 or probs.shape[1] == 1
        top = (probs.ravel() > 0.5).astype(np.intp) if narrow else probs.argmax(axis=1)
        return np.asarray(self.classes_[top])

    def score(self, y_prob: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the negative Brier score of the recalibrated probabilities: higher is better.

        Of `MultiLabel` it is averaged over labels.

        Parameters
        ----------
        y_prob, y_true, sample_weight
            As in `fit`.

        Returns
        -------
        float
        """
        rows = read_again(self, y_prob, y_true, sample_weight)
        return self._score_of(rows, self._apply(rows.predictions))

    def _score_of(self, rows: Columns, probs: FloatArray) -> float:
        return -float(np.average(squared_errors(probs, rows.codes()), weights=rows.weights))

    certify = certify
    recheck = recheck

    def inverse(self, p: Any, side: Literal["least", "greatest"] = "least") -> FloatArray:
        """Return the least, or the greatest, score that is mapped to each probability.

        See `calibrant.recalibrators.formulas.inverse`.
        """
        from calibrant.recalibrators.formulas import inverse

        return inverse(self, p, side)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted recalibrator as readable, versioned JSON; a failure changes nothing."""
        from calibrant.recalibrators.saving import to_json

        check_is_fitted(self, "classes_")
        write_whole(path, to_json(self))

    def to_sql(self, column: str, dialect: str = "duckdb", by: Sequence[str] | None = None) -> str:
        """Return an SQL expression that gives the same answers for a column of predictions.

        `by` names the columns of groups of a `ByGroup`, where they are called otherwise than in its
        fit. A group that is NULL or unknown gets the pooled repair, as by `predict_proba`; a number
        outside its cuts gives NULL. See `calibrant.recalibrators.exports.sql.to_sql`.
        """
        from calibrant.recalibrators.exports.sql import to_sql

        return to_sql(self, column, dialect, by)

    def to_expression(self, column: str, by: Sequence[str] | None = None) -> Any:
        """Return a narwhals expression that gives the same answers for a column of predictions.

        See `to_sql`, and `calibrant.recalibrators.exports.frame.to_expression`.
        """
        from calibrant.recalibrators.exports.frame import to_expression

        return to_expression(self, column, by)

    def apply_to_frame(
        self,
        data: Any,
        column: str,
        *,
        output: str = "calibrated",
        by: Sequence[str] | None = None,
    ) -> Any:
        """Add a column of recalibrated predictions to a data frame, on the frame's own engine.

        See `to_sql`, and `calibrant.recalibrators.exports.frame.apply_to_frame`.
        """
        from calibrant.recalibrators.exports.frame import apply_to_frame

        return apply_to_frame(self, data, column, output=output, by=by)

    def to_torch(self, dtype: Any = None) -> Any:
        """Return a torch module with the same answers, in the type of its input or in `dtype`.

        See `calibrant.recalibrators.exports.torch.Recalibration`.
        """
        check_is_fitted(self, "classes_")
        from calibrant.recalibrators.exports.torch import Recalibration

        return Recalibration(self, dtype)

    def to_onnx(
        self,
        path: str | os.PathLike[str],
        *,
        columns: int | None = None,
        dtype: Literal["float32", "float64"] = "float32",
    ) -> None:
        """Write an ONNX model with the same answers.

        See `calibrant.recalibrators.exports.onnx.to_onnx`.
        """
        check_is_fitted(self, "classes_")
        from calibrant.recalibrators.exports.onnx import to_onnx

        to_onnx(self, path, columns=columns, dtype=dtype)

    @property
    def _name(self) -> str:
        """The name of this recalibrator in messages."""
        return type(self).__name__

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        """Learn from rows; those of one event are learned from as scores."""
        self._learn(Scores.of_rows(np.ascontiguousarray(probs, np.float64), codes == 1, weights))

    def _fit_scores(self, scores: Scores) -> Self:
        """Learn from scores, without rows to remember."""
        self.classes_ = np.array([0, 1])
        self.fingerprint_ = None
        self._learn(scores)
        return self

    def _learn(self, scores: Scores) -> None:
        raise NotImplementedError

    def _learn_tensors(self, tensors: Tensors) -> bool:
        """Learn from checked tensors where they are; False where the host has to."""
        return False

    def _learn_sketch(self, tensors: Tensors) -> bool:
        """Learn from scores that stand for the tensors: `_learn_tensors` of smooth maps."""
        self._learn(on_device.sketch(tensors))
        return True

    def _apply(self, probs: AnyArray) -> FloatArray:
        """Return recalibrated probabilities of checked rows: the formula, evaluated by NumPy."""
        return map_rows(probs, partial(self._formula, NUMPY, learned=self))

    def _formula(self, ops: Any, x: Any, learned: Any) -> Any:
        """Return the answers for x by the operations of an engine; or refuse.

        `learned` holds the numbers named in `_constants`: this object, or a torch module.
        """
        raise InvalidArgumentError(
            f"{self._name} has no form in {ops.target}: its formula is not calibrant's. "
            "Use one of calibrant's recalibrators, or predict_proba."
        )

    def _remember(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        """Keep the fingerprint of the rows whose labels were used."""
        self.fingerprint_, self.table_fingerprint_ = Fingerprint.of(probs, codes), None

    def _check_parameters(self) -> None:
        """Raise InvalidArgumentError if a constructor argument is invalid."""
        for name, choices in self._choices.items():
            check_choice(name, getattr(self, name), choices)
        if "smoothing_" in self._learned:
            check_smoothing(self.smoothing, self.input)

    def _check_learned(self) -> None:
        """Raise ValueError if the loaded numbers do not fit together."""

    def _certifiable(self, rows: Columns, kind: Kind | None) -> Columns:
        """Return the rows with recalibrated predictions, as the problem that is certified."""
        answers = self._answers(rows.predictions)
        if is_among(kind, EVENT_KINDS):
            return read_arrays(rows.labels, answers, kind=kind, classes=rows.problem.classes)
        problem, column = Problem.of(answers.shape, kind, rows.problem.classes)
        return Columns(problem, rows.labels, answers if column is None else answers[:, column])

    def _all_levels(self) -> FloatArray | None:
        """Return all outputs of one class, fixed by the fit; None if they are infinitely many."""
        return None

    def _answers(self, probs: AnyArray) -> FloatArray:
        """Return the outputs that a certificate is about: without the breaking of ties."""
        return self._apply(probs)
