"""BinaryRecalibrator: what recalibrators of one score share."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Kind
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.fingerprint import TableFingerprint
from calibrant.recalibrators.scores import Scores
from calibrant.table import BinTable


class BinaryRecalibrator(Recalibrator):
    """Base of recalibrators of one score: the probability of an event."""

    def fit_table(self, table: BinTable) -> Self:
        """Learn from a table on a fine grid instead of rows, and return self.

        Every cell counts as rows at its mean prediction, so the fit differs from the one on
        rows by what a cell's width hides: nothing where cells hold one distinct prediction.
        `certify` refuses the very rows of the table, and cannot tell whether some are among them.
        """
        self._check_parameters()
        if getattr(self, "input", "probabilities") == "logits":
            raise InvalidArgumentError(
                'A table counts probabilities; fit_table needs input="probabilities".'
            )
        self._fit_scores(Scores.of_table(table))
        self.table_fingerprint_ = TableFingerprint.of(table)
        return self

    def to_sql(self, column: str, dialect: str = "duckdb") -> str:
        """Return an SQL expression that gives the same answers for a column of predictions.

        See `calibrant.recalibrators.export.to_sql`.
        """
        from calibrant.recalibrators.export import to_sql

        check_is_fitted(self, "classes_")
        return to_sql(self, column, dialect)

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        self._learn(Scores.of_rows(np.ascontiguousarray(probs, np.float64), codes == 1, weights))

    def _fit_scores(self, scores: Scores) -> Self:
        """Learn from scores, without rows to remember."""
        self.classes_ = np.array([0, 1])
        self.fingerprint_ = None
        self._learn(scores)
        return self

    def _learn(self, scores: Scores) -> None:
        raise NotImplementedError

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        if len(shape) == 2 and shape[1] > 2:
            raise InvalidShapeError(
                f"{type(self).__name__} recalibrates one event, of shape (n,), (n, 1) or (n, 2); "
                f"got {shape}. For several classes wrap it in OneVsRest or TopLabel."
            )
        return "binary"

    def _as_columns(self, y_prob: Any) -> Any:
        """Return the log-odds of two columns of logits."""
        logits = getattr(self, "input", "probabilities") == "logits"
        if logits and np.ndim(y_prob) == 2 and np.shape(y_prob)[1] == 2:
            both = np.asarray(y_prob, np.float64)
            return both[:, 1] - both[:, 0]
        return y_prob
