"""Several classes: apply a recalibrator of one score class by class, or to the top label."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Kind, Rows
from calibrant.recalibrators.base import Recalibrator, check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.scores import Scores


class _Wrapper(Recalibrator):
    """Base of what turns (n, K) into problems of one score."""

    recalibrator: BinaryRecalibrator

    def _kind(self, shape: tuple[int, ...]) -> Kind:
        if len(shape) == 1 or shape[1] == 1:
            raise InvalidShapeError(
                f"{type(self).__name__} needs one column for each class; got shape {shape}. "
                f"Use the {type(self.recalibrator).__name__} inside it alone for one event."
            )
        return "top-label"

    def _check_parameters(self) -> None:
        if not isinstance(self.recalibrator, BinaryRecalibrator):
            raise InvalidArgumentError(
                "recalibrator must be one of one score, such as PlattScaling(); "
                f"got {self.recalibrator!r:.100}."
            )
        if getattr(self.recalibrator, "input", "probabilities") == "logits":
            raise InvalidArgumentError(
                f"{type(self).__name__} passes probabilities on; its recalibrator needs "
                'input="probabilities".'
            )
        self.recalibrator._check_parameters()

    def _one(
        self, scores: FloatArray, happened: AnyArray, weights: FloatArray | None
    ) -> BinaryRecalibrator:
        fresh: BinaryRecalibrator = clone(self.recalibrator)
        return fresh._fit_scores(Scores.of_rows(scores.astype(np.float64), happened, weights))


class OneVsRest(_Wrapper):
    """Recalibrate every class on its own: for the marginal calibration error.

    A class without rows is a problem with one label, to which every recalibrator has a defined
    answer.

    Parameters
    ----------
    recalibrator : recalibrator of one score
        A fresh copy of it is fitted for every class.
    normalize : bool
        Whether rows are divided by their sum. Without, each column is exactly what its
        recalibrator says, and what can be said of the binned recalibrators (finitely many
        outputs, so their error can be certified) holds for every column, but rows need not
        add up to 1. With, rows add up to 1, but outputs of one column depend on the others:
        they are no longer finitely many, and no guarantee carries over.

    Attributes
    ----------
    recalibrators_ : list
        One for each class.

    Examples
    --------
    >>> from calibrant.recalibrators import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([1, 1, 1], size=300)
    >>> labels = probs.argmax(axis=1)
    >>> OneVsRest(ScalingBinning(n_bins=5)).fit(probs, labels).predict_proba(probs).shape
    (300, 3)
    """

    _learned: ClassVar[dict[str, str]] = {"recalibrators_": "recalibrators"}
    recalibrators_: list[BinaryRecalibrator]

    def __init__(self, recalibrator: BinaryRecalibrator, normalize: bool = False) -> None:
        self.recalibrator = recalibrator
        self.normalize = normalize

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        columns = range(probs.shape[1])
        self.recalibrators_ = [self._one(probs[:, k], codes == k, weights) for k in columns]
        self.fit_result_ = summary(self.recalibrators_)

    def _apply(self, probs: AnyArray) -> FloatArray:
        columns = [r._apply(probs[:, k]) for k, r in enumerate(self.recalibrators_)]
        return self._normalized(np.column_stack(columns))

    def _normalized(self, out: FloatArray) -> FloatArray:
        if not self.normalize:
            return out
        total = out.sum(axis=1, keepdims=True)
        even = np.full_like(out, 1 / out.shape[1])
        return np.asarray(np.divide(out, total, out=even, where=total > 0))

    def _certifiable(self, rows: Rows, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        labels, probs, options = super()._certifiable(rows, options)
        if not self.normalize:
            pairs = enumerate(self.recalibrators_)
            probs = np.column_stack([r._answers(rows.probs[:, k]) for k, r in pairs])
        return labels, probs, {"kind": "marginal", **options}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("normalize", self.normalize, (False, True))

    def _check_learned(self) -> None:
        if len(self.recalibrators_) != self.classes_.size:
            raise ValueError("there must be one recalibrator for each class")


class TopLabel(_Wrapper):
    """Recalibrate the confidence in the predicted class: for the top-label error.

    The confidence is the largest entry of a row (ties go to the first class), the event is
    that the class is right.

    Parameters
    ----------
    recalibrator : recalibrator of one score
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

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([1, 1, 1], size=300)
    >>> top = TopLabel(HistogramBinning(n_bins=3)).fit(probs, probs.argmax(axis=1))
    >>> top.predict_confidence(probs[:2])
    (array([1, 2]), array([1., 1.]))
    """

    _learned: ClassVar[dict[str, str]] = {
        "pooled_": "recalibrator",
        "by_class_": "recalibrators",
    }
    pooled_: BinaryRecalibrator
    by_class_: list[BinaryRecalibrator | None]

    def __init__(
        self, recalibrator: BinaryRecalibrator, per_class: bool = False, min_rows: int = 50
    ) -> None:
        self.recalibrator = recalibrator
        self.per_class = per_class
        self.min_rows = min_rows

    def predict_confidence(self, y_prob: Any) -> tuple[AnyArray, FloatArray]:
        """Return the predicted class and its recalibrated probability for each row."""
        top, confidence = self._confidence(self._read_fitted(y_prob).probs)
        return np.asarray(self.classes_[top]), confidence

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the class with the largest entry of `y_prob`: recalibrating never changes it."""
        return self.predict_confidence(y_prob)[0]

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        top, confidence = _top(probs)
        right = codes == top
        self.pooled_ = self._one(confidence, right, weights)
        self.by_class_ = []
        if self.per_class:
            self.by_class_ = [
                self._one_class(top == k, confidence, right, weights) for k in range(probs.shape[1])
            ]
        self.fit_result_ = summary([self.pooled_, *self.by_class_])

    def _one_class(
        self, own: AnyArray, confidence: FloatArray, right: AnyArray, weights: FloatArray | None
    ) -> BinaryRecalibrator | None:
        w = None if weights is None else weights[own]
        rows = int(own.sum()) if w is None else int((w > 0).sum())
        if rows < max(self.min_rows, 1):
            return None
        return self._one(confidence[own], right[own], w)

    def _confidence(self, probs: AnyArray, *, levels: bool = False) -> tuple[IntArray, FloatArray]:
        """Return the predicted class and its recalibrated probability, or its bin's level."""
        top, before = _top(probs)
        after = _answer(self.pooled_, before, levels)
        for k, recalibrator in enumerate(self.by_class_):
            own = top == k
            if recalibrator is not None and own.any():
                after[own] = _answer(recalibrator, before[own], levels)
        return top, after

    def _apply(self, probs: AnyArray) -> FloatArray:
        top, confidence = self._confidence(probs)
        out = probs.astype(np.float64)
        row = np.arange(len(top))
        out[row, top] = 0.0
        rest = out.sum(axis=1, keepdims=True)
        even = np.full_like(out, 1 / (out.shape[1] - 1))
        out = np.divide(out, rest, out=even, where=rest > 0) * (1 - confidence)[:, None]
        out[row, top] = confidence
        return np.asarray(out)

    def _certifiable(self, rows: Rows, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        top, confidence = self._confidence(rows.probs, levels=True)
        return (rows.codes() == top).astype(np.intp), confidence, {"kind": "binary", **options}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("per_class", self.per_class, (False, True))

    def _check_learned(self) -> None:
        if len(self.by_class_) not in (0, self.classes_.size):
            raise ValueError("there must be one recalibrator for each class, or none")


def _top(probs: AnyArray) -> tuple[IntArray, FloatArray]:
    top = probs.argmax(axis=1)
    return top, probs[np.arange(len(top)), top].astype(np.float64)


def _answer(recalibrator: BinaryRecalibrator, scores: FloatArray, levels: bool) -> FloatArray:
    return recalibrator._answers(scores) if levels else recalibrator._apply(scores)


def summary(recalibrators: list[BinaryRecalibrator | None] | list[BinaryRecalibrator]) -> FitReport:
    """Sum up the reports of several fits: mean losses, most iterations, all flags."""
    reports = [r.fit_result_ for r in recalibrators if r is not None]
    return FitReport(
        all(report.converged for report in reports),
        max(report.iterations for report in reports),
        float(np.mean([report.loss for report in reports])),
        float(np.mean([report.loss_identity for report in reports])),
        tuple(sorted({flag for report in reports for flag in report.flags})),
    )
