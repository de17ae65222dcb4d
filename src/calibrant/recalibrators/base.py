"""Recalibrator: what every way of repairing probabilities shares."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from calibrant._digests import Digests, digest_of_document
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant._writing import write_whole
from calibrant.columns import Columns
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidShapeError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.problem import Kind, Label
from calibrant.recalibrators.fingerprint import (
    Fingerprint,
    OverlapWarning,
    RepeatedRowsWarning,
    TableFingerprint,
)
from calibrant.recalibrators.newton import FitReport
from calibrant.sources.arrays import ArraySource, off_device, read_arrays, refuse_masked
from calibrant.stats import Certificate, Recheck

OVERLAP_LIMIT = 0.1
"""A tenth of the rows seen before is worth a warning; fewer hardly move a certificate."""
UNIQUE_LIMIT = 0.9
"""For fingerprints without counts: overlap by chance is negligible if so many rows differ."""


class Recalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all recalibrators: a scikit-learn estimator of probabilities from probabilities.

    Attributes
    ----------
    classes_ : ndarray
        The labels in the order of the columns; for one column (no, yes).
    fit_result_ : FitReport
        Whether the fit converged, in how many steps, to which loss, and what was unusual.
    fingerprint_ : Fingerprint or None
        A sketch of the rows whose labels were used; None after `fit_table`.
    table_fingerprint_ : TableFingerprint or None
        What is kept of the table after `fit_table`.
    """

    _learned: ClassVar[dict[str, str]] = {}
    classes_: AnyArray
    fit_result_: FitReport
    fingerprint_: Fingerprint | None
    table_fingerprint_: TableFingerprint | None = None

    def fit(
        self,
        y_prob: Any,
        y_true: Any,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Self:
        """Learn from predictions and labels, and return self.

        Parameters
        ----------
        y_prob : array_like of shape (n,) or (n, n_classes)
            What the model said.
        y_true : array_like of shape (n,)
            Labels: 0/1 or booleans, class indices, or the names in `classes`.
        sample_weight : array_like of shape (n,), optional
            Importance weights; their scale does not matter.
        classes : sequence, optional
            The labels in the order of the columns; for one column (no, yes).
        """
        self._check_parameters()
        _refuse_no_labels(y_true)
        rows = self._read(y_prob, y_true, sample_weight, classes)
        codes = rows.codes()
        self.classes_ = np.array(rows.problem.class_names)
        self._fit(rows.predictions, codes, rows.weights)
        self._remember(rows.predictions, codes, rows.weights)
        return self

    def predict_proba(self, y_prob: Any) -> FloatArray:
        """Return recalibrated probabilities in the shape of `y_prob`."""
        shape = _shape(y_prob)
        out = self._apply(self._read_fitted(y_prob).predictions)
        if out.ndim == 1 and _width(shape) == 2:
            return np.column_stack((1 - out, out))
        return out.reshape(shape)

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the most probable class of each row; ties go to the first."""
        probs = self.predict_proba(y_prob)
        narrow = probs.ndim == 1 or probs.shape[1] == 1
        top = (probs.ravel() > 0.5).astype(np.intp) if narrow else probs.argmax(axis=1)
        return np.asarray(self.classes_[top])

    def score(self, y_prob: Any, y_true: Any, sample_weight: Any = None) -> float:
        """Return the negative Brier score of the recalibrated probabilities: higher is better."""
        check_is_fitted(self, "classes_")
        _refuse_no_labels(y_true)
        rows = self._read_fitted(y_prob, y_true, sample_weight, self.classes_.tolist())
        probs, codes = self._apply(rows.predictions), rows.codes()
        return -float(np.average(squared_errors(probs, codes), weights=rows.weights))

    def certify(
        self, y_prob: Any, y_true: Any, *, max_error: float | None = None, **options: Any
    ) -> Certificate:
        """Recalibrate fresh predictions and certify the result; see `calibrant.certify`.

        Outputs that the fit has fixed (`levels_`) are declared to the certificate, which is the
        sharper for it. The very rows of the fit are refused: their labels shaped the answer. Rows
        that repeat each other more than chance explains, given those of the fit, are a
        `RepeatedRowsWarning`, many rows that the fit has seen an `OverlapWarning`; rounded scores
        are neither. Of a
        recalibrator fitted from a table only the very rows of the table are known again, and the
        certificate says so among its assumptions.
        """
        from calibrant import verify

        rows = self._read_to_certify(y_prob, y_true, options.pop("classes", None))
        self._compare_with_own_rows(rows.predictions, rows.codes())
        digests = Digests(ArraySource(rows).digest(), self._digest())
        y_true, y_prob, options = self._certifiable(rows, options)
        levels = self._all_levels()
        if levels is not None and "bins" not in options and np.isin(y_prob, levels).all():
            options = {"levels": levels, **options}
        if self.table_fingerprint_ is not None:
            options["overlap_unchecked"] = True
        return verify.certify_answers(digests, y_true, y_prob, max_error=max_error, **options)

    def recheck(
        self,
        certificate: Certificate,
        y_prob: Any,
        y_true: Any,
        classes: Sequence[Label] | None = None,
    ) -> Recheck:
        """Check a certificate that `certify` gave against the predictions it was given.

        They are recalibrated and counted again, and compared with the certificate's table; its
        digests must be those of these predictions, as they came in, and of this recalibrator.
        See `calibrant.recheck`.
        """
        from calibrant import verify

        rows = self._read_to_certify(y_prob, y_true, classes)
        digests = Digests(ArraySource(rows).digest(), self._digest())
        y_true, y_prob, options = self._certifiable(rows, {})
        names = options.get("classes")
        return verify.recheck_answers(certificate, digests, y_true, y_prob, names)

    def _read_to_certify(self, y_prob: Any, y_true: Any, classes: Any) -> Columns:
        check_is_fitted(self, "classes_")
        if classes is None and not _is_counting(self.classes_):
            classes = self.classes_.tolist()
        _refuse_no_labels(y_true)
        return self._read_fitted(y_prob, y_true, None, classes)

    def _digest(self) -> str | None:
        """Return the digest of the document that `save` writes; None if it cannot be saved."""
        from calibrant.recalibrators.document import to_dict

        try:
            return digest_of_document(to_dict(self))
        except InvalidArgumentError:
            return None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted recalibrator as readable, versioned JSON; a failure changes nothing."""
        from calibrant.recalibrators.document import to_json

        check_is_fitted(self, "classes_")
        write_whole(path, to_json(self))

    def to_torch(self) -> Any:
        """Return a torch module with the same answers.

        See `calibrant.recalibrators.torch_export.to_torch`.
        """
        from calibrant.recalibrators.torch_export import to_torch

        check_is_fitted(self, "classes_")
        return to_torch(self)

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        raise NotImplementedError

    def _apply(self, probs: AnyArray) -> FloatArray:
        raise NotImplementedError

    def _remember(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        """Keep the fingerprint of the rows whose labels were used."""
        self.fingerprint_, self.table_fingerprint_ = Fingerprint.of(probs, codes), None

    def _check_parameters(self) -> None:
        """Raise InvalidArgumentError if a constructor argument means nothing."""

    def _check_learned(self) -> None:
        """Raise ValueError if what was loaded does not fit together."""

    def _certifiable(
        self, rows: Columns, options: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        """Return labels, recalibrated predictions and options for `calibrant.certify`."""
        if rows.problem.classes is not None:
            options = {"classes": list(rows.problem.classes), **options}
        answers = self._answers(rows.predictions)
        if _width(answers.shape) == 2:
            options = {"kind": "binary", **options}
        return rows.labels, answers, options

    def _all_levels(self) -> FloatArray | None:
        """Return all outputs for one class, which the fit has fixed; None if there is no end."""
        return None

    def _answers(self, probs: AnyArray) -> FloatArray:
        """Return what a certificate speaks of: the outputs without the breaking of ties."""
        return self._apply(probs)

    def _compare_with_own_rows(self, probs: AnyArray, codes: IntArray) -> None:
        """Refuse the rows of the fit, and warn of rows that do not look like fresh ones."""
        rows, table = Fingerprint.of(probs, codes), self.table_fingerprint_
        own = [getattr(self, name, None) for name in ("fingerprint_", "rows_fingerprint_")]
        seen = any(each is not None and each.same_rows(rows) for each in own)
        if seen or (table is not None and table.same_rows(probs, codes)):
            raise InvalidInputError(
                "A certificate needs rows that the recalibrator has not seen; these are the very "
                "rows it was fitted on, and their labels shaped its answers. Hold out other rows."
            )
        if self.fingerprint_ is None:
            return
        pairs = self.fingerprint_.pairs_with(rows)
        if pairs is not None and pairs.are_repeated:
            warnings.warn(
                "A certificate counts independent rows; these repeat each other far more than "
                f"those of the fit: as if each had been counted about {pairs.copies:.1f} times. If "
                "rows were copied (by a bootstrap, a join or oversampling), certify on those "
                "before the copying. Different cases with equal scores, as of rounding, are no "
                "copies and must stay.",
                RepeatedRowsWarning,
                stacklevel=3,
            )
        share = self.fingerprint_.overlap(rows)
        if pairs is None:
            shared = min(self.fingerprint_.distinct_share, rows.distinct_share) >= UNIQUE_LIMIT
        else:
            shared = pairs.are_shared
        if share > OVERLAP_LIMIT and shared:
            warnings.warn(
                f"About {share:.0%} of these rows were also used to fit the recalibrator; the "
                "certificate is too good by what it learned from them. Hold out other rows.",
                OverlapWarning,
                stacklevel=3,
            )

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        """Return what predictions of this shape mean; two columns are one event, the second."""
        return "binary" if _width(shape) <= 2 else "top-label"

    def _read(
        self,
        y_prob: Any,
        y_true: Any = None,
        sample_weight: Any = None,
        classes: Sequence[Label] | None = None,
    ) -> Columns:
        """Check predictions, and labels where there are any."""
        refuse_masked(y_prob, "y_prob")
        _shape(y_prob)
        array = np.asarray(self._as_columns(off_device(y_prob)))
        labels = np.zeros(len(array) if array.ndim else 0, np.int8) if y_true is None else y_true
        try:
            rows = read_arrays(
                labels,
                array,
                kind=self._kind(array.shape) if array.ndim in (1, 2) else None,
                classes=classes,
                sample_weight=sample_weight,
            )
            if y_true is not None and rows.problem.codes(rows.labels[:1000]).min() < 0:
                rows.explain_labels()
        except SwappedArgumentsError as error:
            raise SwappedArgumentsError(
                "The order of fit is (y_prob, y_true): predictions first, as features are in "
                "scikit-learn. These look swapped."
            ) from error
        rows.check_weights()
        self._check_values(rows)
        return rows

    def _as_columns(self, y_prob: Any) -> Any:
        """Return predictions in the columns that this recalibrator works on."""
        return y_prob

    def _read_fitted(self, y_prob: Any, *labelled: Any) -> Columns:
        """Check rows that a fitted recalibrator is applied to; see `_read`."""
        check_is_fitted(self, "classes_")
        y_prob = off_device(y_prob)
        self._check_width(_shape(y_prob))
        return self._read(y_prob, *labelled)

    def _check_width(self, shape: tuple[int, ...]) -> None:
        """Refuse other columns than those of the fit; one and two columns are the same event."""
        n_classes, width = self.classes_.size, _width(shape)
        if len(shape) not in (1, 2) or width == n_classes or (width, n_classes) == (1, 2):
            return
        advice = "Pass the columns of all classes, in the order of classes_"
        if n_classes == 2:
            advice = "Pass the event's probability, (n,), or both columns, (n, 2)"
        raise InvalidShapeError(
            f"This {type(self).__name__} was fitted on {n_classes:,} classes; y_prob has "
            f"{width:,} column{'s' * (width != 1)} (shape {shape}). {advice}, or fit another "
            "recalibrator on columns like these."
        )

    def _check_one_column(self, what: str) -> None:
        """Refuse an export that reads one column where the answers depend on several."""
        if self.classes_.size > 2:
            raise InvalidShapeError(
                f"{what} reads one column; this {type(self).__name__} was fitted on "
                f"{self.classes_.size:,} classes, and its answers depend on all their columns. "
                "Use predict_proba, or fit a recalibrator on the one column."
            )

    def _check_values(self, rows: Columns) -> None:
        if getattr(self, "input", "probabilities") == "logits":
            wrong = ~np.isfinite(rows.predictions)
            if wrong.any():
                raise NotFiniteError(
                    f"Logits must be finite; {int(wrong.sum()):,} of {wrong.size:,} are not. "
                    "Clip infinite ones to a large number, and drop or impute missing ones."
                )
        elif not (rows.predictions.min() >= 0 and rows.predictions.max() <= 1):
            rows.explain_predictions()


def _shape(y_prob: Any) -> tuple[int, ...]:
    try:
        return np.shape(y_prob)
    except ValueError as error:
        raise InvalidShapeError(
            "y_prob must be a column or a table of equally long rows; these rows differ in length. "
            "Pass one number for each row, or one for each class."
        ) from error


def _width(shape: tuple[int, ...]) -> int:
    return 1 if len(shape) < 2 else shape[1]


def squared_errors(probs: FloatArray, codes: IntArray) -> FloatArray:
    """Return the Brier score of each row: over both classes for several columns."""
    if probs.ndim == 1:
        return np.asarray((probs - codes) ** 2)
    own = probs[np.arange(len(codes)), codes]
    return np.asarray(np.einsum("ij,ij->i", probs, probs) - 2 * own + 1)


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidArgumentError unless the value is one of the choices."""
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        *most, last = (repr(choice) for choice in choices)
        raise InvalidArgumentError(f"{name} must be {', '.join(most)} or {last}; got {value!r}.")


def _is_counting(classes: AnyArray) -> bool:
    return classes.dtype.kind in "biu" and np.array_equal(classes, np.arange(classes.size))


def _refuse_no_labels(y_true: Any) -> None:
    """Refuse None, which inside means rows whose labels do not matter."""
    if y_true is None:
        raise InvalidLabelsError(
            "A recalibrator requires y to be passed, but the target y is None. Give the labels of "
            "the rows after their predictions."
        )
