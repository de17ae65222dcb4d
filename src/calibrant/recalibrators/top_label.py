"""The top label: apply a recalibrator of one score to the confidence in the predicted class."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from calibrant._options import is_integer
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.columns import Columns
from calibrant.engines.tensors import Tensors
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Kind, read_problem
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import in_blocks
from calibrant.recalibrators.foreign import (
    as_recalibrator,
    check_inner,
    fit_one,
    fit_one_on_device,
)
from calibrant.recalibrators.formulas import NUMPY, RowOperations
from calibrant.recalibrators.reading import Choices, Reads, read_unlabelled
from calibrant.recalibrators.saving import parts_as_steps
from calibrant.recalibrators.scores import FitResult

MARGIN = 2.0**-20
"""How far below the predicted class the others stay, as a share: visible in float32 too."""

LEAST_CONFIDENCE = float(np.finfo(np.float32).tiny)
"""Stands for a confidence of 0, so that the predicted class stays above the others."""


class TopLabel(Recalibrator):
    """Recalibrate the confidence in the predicted class: for the top-label error.

    The confidence is the largest entry of a row (ties go to the first class), the event is
    that the class is right.

    The rows of `predict_proba` hold the recalibrated confidence c of the predicted class, and
    share out the rest, 1 - c, in the old proportions; where another class would come within a
    millionth of c or overtake it, the rest is mixed with the even distribution until none does.
    So the predicted class is strictly the largest entry, and the order of the others is kept.
    Where c is 1 / K or less no row that adds up to 1 can do that: the others are then just below
    c, and the row adds up to less than 1. Where c is 0, its entry is 1e-38.

    Parameters
    ----------
    recalibrator : recalibrator of one score
        See `OneVsRest`.
    per_class : bool
        Fit one for each predicted class (Gupta, Ramdas, 2022). A class predicted in fewer than
        `min_rows` rows takes the one fitted on all rows.
    min_rows : int
        See `per_class`.

    Attributes
    ----------
    pooled_ : the recalibrator fitted on all rows.
    by_class_ : list
        The recalibrator of each class, empty unless `per_class`; None means the pooled one.

    See Also
    --------
    OneVsRest : for the marginal error of every class.

    References
    ----------
    Gupta, Ramdas (2022), Top-label calibration and multiclass-to-binary reductions, ICLR.

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([1, 1, 1], size=300)
    >>> top = TopLabel(HistogramBinning(bins=3)).fit(probs, probs.argmax(axis=1))
    >>> top.predict_confidence(probs[:2])
    (array([1, 2]), array([1., 1.]))
    """

    _reads: ClassVar[Reads] = "classes"
    _choices: ClassVar[Choices] = {"per_class": (False, True)}
    _constants: ClassVar[tuple[str, ...]] = ("pooled_", "by_class_")
    _learned: ClassVar[dict[str, str]] = {
        "pooled_": "recalibrator",
        "by_class_": "recalibrators",
    }
    pooled_: Recalibrator
    by_class_: list[Recalibrator | None]

    def __init__(
        self, recalibrator: Recalibrator, per_class: bool = False, min_rows: int = 50
    ) -> None:
        self.recalibrator = recalibrator
        self.per_class = per_class
        self.min_rows = min_rows

    as_steps = parts_as_steps

    def predict_confidence(self, y_prob: Any) -> tuple[AnyArray, FloatArray]:
        """Return the predicted class and its recalibrated probability for each row."""
        top, confidence = _recalibrated_top(NUMPY, read_unlabelled(self, y_prob)[0], self)
        return np.asarray(self.classes_[top]), confidence

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the class with the largest entry of `y_prob`: recalibrating never changes it."""
        return self.predict_confidence(y_prob)[0]

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        confidence, top = NUMPY.top(probs)
        right = codes == top

        def fitted(rows: Any) -> Recalibrator:
            w = None if weights is None else weights[rows]
            return fit_one(as_recalibrator(self.recalibrator), confidence[rows], right[rows], w)

        self.pooled_, self.by_class_ = fitted(slice(None)), []
        if self.per_class:
            counted = top if weights is None else top[weights > 0]
            enough = np.bincount(counted, minlength=probs.shape[1]) >= max(self.min_rows, 1)
            self.by_class_ = [fitted(top == k) if use else None for k, use in enumerate(enough)]
        parts = [self.pooled_, *self.by_class_]
        self.fit_result_ = FitResult.of_all(part.fit_result_ for part in parts if part is not None)

    def _learn_tensors(self, tensors: Tensors) -> bool:
        self.pooled_, self.by_class_ = as_recalibrator(self.recalibrator), []
        top = on_device.top_labels(tensors)
        if self.per_class or not fit_one_on_device(self.pooled_, top):
            return False
        self.fit_result_ = FitResult.of_all([self.pooled_.fit_result_])
        return True

    def _apply(self, probs: AnyArray) -> FloatArray:
        top, confidence = _recalibrated_top(NUMPY, probs, self)
        out, n_others = np.empty(probs.shape), self.classes_.size - 1

        def write(part: slice) -> None:
            rows = probs[part].astype(np.float64)
            out[part] = _share_out(NUMPY, rows, top[part], confidence[part], n_others)

        in_blocks(probs.shape, write)
        return out

    def _formula(self, ops: RowOperations, x: Any, learned: Any) -> Any:
        return _share_out(ops, x, *_recalibrated_top(ops, x, learned), self.classes_.size - 1)

    def _certifiable(self, rows: Columns, kind: Kind | None) -> Columns:
        if kind not in (None, "top-label"):
            raise InvalidArgumentError(
                "TopLabel repairs the confidence in the predicted class, and its certificate "
                f'speaks of the top-label error; kind is "{kind}". Leave kind out, or fit a '
                "recalibrator of that kind."
            )
        before, top = NUMPY.top(rows.predictions)
        levels = self.pooled_._answers(before)
        for k, part in enumerate(self.by_class_):
            members = top == k
            if part is not None and members.any():
                levels[members] = part._answers(before[members])
        return Columns(read_problem("binary", 2), rows.codes() == top, levels)

    def _all_levels(self) -> FloatArray | None:
        parts = [r._all_levels() for r in (self.pooled_, *self.by_class_) if r is not None]
        levels = [outputs for outputs in parts if outputs is not None]
        return np.concatenate(levels) if len(levels) == len(parts) else None

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)
        if not (is_integer(self.min_rows) and self.min_rows >= 0):
            raise InvalidArgumentError(
                f"min_rows must be a whole number of rows, 0 or more; got {self.min_rows!r:.60}. "
                "Classes predicted in fewer rows take the recalibrator of all rows."
            )
        super()._check_parameters()

    def _check_learned(self) -> None:
        if len(self.by_class_) not in (0, self.classes_.size):
            raise ValueError("there must be one recalibrator for each class, or none")


def _recalibrated_top(ops: RowOperations, rows: Any, learned: Any) -> tuple[Any, Any]:
    """Return the predicted class of each row and its recalibrated probability."""
    before, top = ops.top(rows)
    after = ops.answers(learned.pooled_, before)
    for k, part in enumerate(learned.by_class_):
        if part is not None:
            after = ops.answers_at(top == k, part, before, after)
    return top, after


def _share_out(ops: RowOperations, rows: Any, top: Any, confidence: Any, n_others: int) -> Any:
    """Write the confidence of the predicted class over rows, and share out the rest."""
    c = ops.clip(confidence, LEAST_CONFIDENCE, None)[:, None]
    rows = ops.put(rows, top, 0.0)
    total = ops.sums(rows)
    rows = ops.where(total > 0, rows / ops.where(total > 0, total, 1.0), 1 / n_others) * (1 - c)
    largest = ops.largest(rows)  # of the others: the entry of the top is 0, or all are equal
    even, cap = (1 - c) / n_others, c * (1 - MARGIN)
    # The largest of the others falls from `largest` to `even` as `mixed` goes from 0 to 1.
    excess = (largest - cap) / ops.clip(largest - even, LEAST_CONFIDENCE, None)
    mixed = ops.clip(excess, 0.0, 1 - MARGIN)
    largest = (1 - mixed) * largest + mixed * even
    rows = rows * (1 - mixed) + mixed * even
    rows = rows * ops.clip(cap / ops.clip(largest, LEAST_CONFIDENCE, None), None, 1.0)
    return ops.put(rows, top, c[:, 0])
