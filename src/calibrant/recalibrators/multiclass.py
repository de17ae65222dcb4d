"""Several classes: apply a recalibrator of one score class by class, or to the top label."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.columns import Columns
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError
from calibrant.problem import Kind
from calibrant.recalibrators.base import Recalibrator, check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.binning import BinnedRecalibrator
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.scores import Scores

LIGHT = 30.0
"""How much lighter than average a bin of one class may be; half the number of classes, where that
is larger, leaves room for classes of few rows. On 5,000 rows of 100 classes, bins of at least a
third of the average lose five points of accuracy and these less than half a point; the bound of a
certificate is a tenth larger than with uniform-mass bins."""

MATERIAL_LOSS = 0.01
"""The loss of accuracy worth a warning, if it is more than two standard errors too."""

ACCURACY_ROWS = 100_000
"""Enough rows for a standard error far below MATERIAL_LOSS, and no second table of all of them."""

MARGIN = 2.0**-20
"""How far below the predicted class the others stay, as a share: visible in float32 too."""

LEAST_CONFIDENCE = float(np.finfo(np.float32).tiny)
"""Stands for a confidence of 0, above which nothing but the predicted class has room."""


class AccuracyWarning(UserWarning):
    """Recalibrated outputs choose the right class less often than the predictions did."""


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
        self,
        fresh: BinaryRecalibrator,
        scores: FloatArray,
        happened: AnyArray,
        weights: FloatArray | None,
    ) -> BinaryRecalibrator:
        return fresh._fit_scores(Scores.of_rows(scores.astype(np.float64), happened, weights))


class OneVsRest(_Wrapper):
    """Recalibrate every class on its own: for the marginal calibration error.

    A class without rows is a problem with one label, to which every recalibrator has a defined
    answer.

    Binned recalibrators answer with few numbers, which can change the most probable class: two
    classes are compared by their bins. Uniform-mass bins put all likely rows of a rare class into
    one; so where the rule of the bins is left at "auto", they are hybrid bins, and those of
    `ScalingBinning` may be as light as a small share of one class. Fitting warns where the most
    probable class is right less often than before: by more than one in a hundred of the fitting
    rows, and by more than chance.

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
    accuracy_before_, accuracy_after_ : float
        How often the most probable class was right on the fitting rows (on 100,000 of them where
        there are more), without and with recalibration.

    Examples
    --------
    >>> from calibrant.recalibrators import ScalingBinning
    >>> rng = np.random.default_rng(0)
    >>> probs = rng.dirichlet([1, 1, 1], size=300)
    >>> labels = probs.argmax(axis=1)
    >>> OneVsRest(ScalingBinning(n_bins=5)).fit(probs, labels).predict_proba(probs).shape
    (300, 3)
    """

    _learned: ClassVar[dict[str, str]] = {
        "recalibrators_": "recalibrators",
        "accuracy_before_": "number",
        "accuracy_after_": "number",
    }
    recalibrators_: list[BinaryRecalibrator]
    accuracy_before_: float
    accuracy_after_: float
    _warns: bool = True

    def __init__(self, recalibrator: BinaryRecalibrator, normalize: bool = False) -> None:
        self.recalibrator = recalibrator
        self.normalize = normalize

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        k = probs.shape[1]
        self.recalibrators_ = [
            self._one(self._fresh(k), probs[:, i], codes == i, weights) for i in range(k)
        ]
        self.fit_result_ = summary(self.recalibrators_)
        step = slice(None, None, max(1, len(codes) // ACCURACY_ROWS))
        self._compare_accuracy(probs[step], codes[step], None if weights is None else weights[step])

    def _fresh(self, n_classes: int) -> BinaryRecalibrator:
        fresh: BinaryRecalibrator = clone(self.recalibrator)
        if isinstance(fresh, BinnedRecalibrator) and fresh.bins == "auto":
            fresh.set_params(bins="hybrid")
            # Means of a smooth map can do with few rows; means of labels cannot.
            if isinstance(fresh, ScalingBinning):
                fresh._balance = max(LIGHT, n_classes / 2)
        return fresh

    def _compare_accuracy(
        self, probs: AnyArray, codes: IntArray, weights: FloatArray | None
    ) -> None:
        """Keep how often the most probable class is right, and warn where that falls."""
        w = np.ones(len(codes)) if weights is None else weights
        share = w / w.sum() if w.any() else w
        before = probs.argmax(axis=1) == codes
        after = self._chosen(probs) == codes
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
                stacklevel=4,
            )

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the most probable class of each row; ties go to the largest entry of `y_prob`."""
        chosen = self._chosen(self._read_fitted(y_prob).predictions)
        return np.asarray(self.classes_[chosen])

    def _chosen(self, probs: AnyArray) -> IntArray:
        out = self._apply(probs)
        tied = out == out.max(axis=1, keepdims=True)
        return np.asarray(np.where(tied, probs, -1.0).argmax(axis=1))

    def _apply(self, probs: AnyArray) -> FloatArray:
        columns = [r._apply(probs[:, k]) for k, r in enumerate(self.recalibrators_)]
        return self._normalized(np.column_stack(columns))

    def _normalized(self, out: FloatArray) -> FloatArray:
        if not self.normalize:
            return out
        total = out.sum(axis=1, keepdims=True)
        even = np.full_like(out, 1 / out.shape[1])
        return np.asarray(np.divide(out, total, out=even, where=total > 0))

    def _certifiable(
        self, rows: Columns, options: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        labels, probs, options = super()._certifiable(rows, options)
        if not self.normalize:
            pairs = enumerate(self.recalibrators_)
            probs = np.column_stack([r._answers(rows.predictions[:, k]) for k, r in pairs])
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

    The rows of `predict_proba` hold the recalibrated confidence c of the predicted class, and
    share out the rest, 1 - c, in the old proportions; where another class would come within a
    millionth of c or overtake it, the rest is mixed with the even distribution until none does.
    So the predicted class is strictly the largest entry, and the order of the others is kept.
    Where c is 1 / K or less no row that adds up to 1 can do that: the others are then just below
    c, and the row adds up to less than 1. Where c is 0, its entry is 1e-38.

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
        top, confidence = self._confidence(self._read_fitted(y_prob).predictions)
        return np.asarray(self.classes_[top]), confidence

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the class with the largest entry of `y_prob`: recalibrating never changes it."""
        return self.predict_confidence(y_prob)[0]

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        top, confidence = _top(probs)
        right = codes == top
        self.pooled_ = self._one(clone(self.recalibrator), confidence, right, weights)
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
        return self._one(clone(self.recalibrator), confidence[own], right[own], w)

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
        return share_out(probs.astype(np.float64), *self._confidence(probs))

    def _certifiable(
        self, rows: Columns, options: dict[str, Any]
    ) -> tuple[Any, Any, dict[str, Any]]:
        if (kind := options.get("kind")) not in (None, "top-label"):
            raise InvalidArgumentError(
                "TopLabel repairs the confidence in the predicted class, and its certificate "
                f'speaks of the top-label error; kind is "{kind}". Leave kind out, or fit a '
                "recalibrator of that kind."
            )
        top, confidence = self._confidence(rows.predictions, levels=True)
        return (rows.codes() == top).astype(np.intp), confidence, options | {"kind": "binary"}

    def _all_levels(self) -> FloatArray | None:
        each = [r._all_levels() for r in (self.pooled_, *self.by_class_) if r is not None]
        levels = [known for known in each if known is not None]
        return np.concatenate(levels) if len(levels) == len(each) else None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("per_class", self.per_class, (False, True))

    def _check_learned(self) -> None:
        if len(self.by_class_) not in (0, self.classes_.size):
            raise ValueError("there must be one recalibrator for each class, or none")


def _top(probs: AnyArray) -> tuple[IntArray, FloatArray]:
    top = probs.argmax(axis=1)
    return top, probs[np.arange(len(top)), top].astype(np.float64)


def share_out(rows: FloatArray, top: IntArray, confidence: FloatArray) -> FloatArray:
    """Write the confidence of the predicted class over rows, and share out the rest.

    See `TopLabel`; `rows` is overwritten.
    """
    row, n_others = np.arange(len(top)), rows.shape[1] - 1
    c = np.maximum(confidence, LEAST_CONFIDENCE)[:, None]
    rows[row, top] = 0.0
    rest = rows.sum(axis=1, keepdims=True)
    np.divide(rows, rest, out=rows, where=rest > 0)
    rows[rest[:, 0] <= 0] = 1 / n_others
    rows *= 1 - c
    rows[row, top] = 0.0
    largest, even, cap = rows.max(axis=1, keepdims=True), (1 - c) / n_others, c * (1 - MARGIN)
    # The largest of the others falls from `largest` to `even` as `mixed` goes from 0 to 1.
    mixed = np.clip((largest - cap) / np.maximum(largest - even, LEAST_CONFIDENCE), 0, 1 - MARGIN)
    largest = (1 - mixed) * largest + mixed * even
    rows *= 1 - mixed
    rows += mixed * even
    rows *= np.minimum(cap / np.maximum(largest, LEAST_CONFIDENCE), 1.0)
    rows[row, top] = c[:, 0]
    return rows


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
