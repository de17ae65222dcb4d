"""Several classes: apply a recalibrator of one score class by class, or to the top label."""

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
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Kind, read_problem
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import FitResult, Recalibrator, check_choice
from calibrant.recalibrators.binning import HistogramBinning
from calibrant.recalibrators.class_rows import in_blocks
from calibrant.recalibrators.foreign import as_recalibrator, check_inner
from calibrant.recalibrators.formulas import NUMPY, RowOperations
from calibrant.recalibrators.reading import Reads, read_unlabelled
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

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        k = probs.shape[1]
        self.recalibrators_ = [
            fit_one(self._fresh(k), probs[:, i], codes == i, weights) for i in range(k)
        ]
        self.fit_result_ = sum_of_fits(self.recalibrators_)
        step = slice(None, None, max(1, len(codes) // ACCURACY_ROWS))
        self._compare_accuracy(probs[step], codes[step], None if weights is None else weights[step])

    def _learn_tensors(self, tensors: Tensors) -> bool:
        k = tensors.problem.n_classes
        self.recalibrators_ = [self._fresh(k) for _ in range(k)]
        for i, part in enumerate(self.recalibrators_):
            if not _fit_one_on_device(part, on_device.column(tensors, i)):
                return False
        self.fit_result_ = sum_of_fits(self.recalibrators_)
        x, codes = tensors.predictions, tensors.labels
        few = slice(None, None, max(1, len(codes) // ACCURACY_ROWS))
        out = on_device.answers(self, x[few])
        tied = out == out.amax(1, keepdim=True)
        before, after = x[few].argmax(1), ((x[few] + 1) * tied).argmax(1)
        right = [(top == codes[few]).cpu().numpy() for top in (before, after)]
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

    def _compare_accuracy(
        self, probs: AnyArray, codes: IntArray, weights: FloatArray | None
    ) -> None:
        before, after = probs.argmax(axis=1) == codes, self._chosen(probs) == codes
        self._judge_accuracy(before, after, weights)

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
                stacklevel=5,
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
        if self.normalize:
            return self._apply(probs)
        parts = enumerate(self.recalibrators_)
        return np.column_stack([part._answers(probs[:, k]) for k, part in parts])

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)
        check_choice("normalize", self.normalize, (False, True))

    def _check_learned(self) -> None:
        if len(self.recalibrators_) != self.classes_.size:
            raise ValueError("there must be one recalibrator for each class")


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

    def predict_confidence(self, y_prob: Any) -> tuple[AnyArray, FloatArray]:
        """Return the predicted class and its recalibrated probability for each row."""
        top, confidence = self._confidence(read_unlabelled(self, y_prob)[0])
        return np.asarray(self.classes_[top]), confidence

    def predict(self, y_prob: Any) -> AnyArray:
        """Return the class with the largest entry of `y_prob`: recalibrating never changes it."""
        return self.predict_confidence(y_prob)[0]

    def _fit(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        confidence, top = NUMPY.top(probs)
        right = codes == top
        self.pooled_ = fit_one(as_recalibrator(self.recalibrator), confidence, right, weights)
        self.by_class_ = []
        if self.per_class:
            self.by_class_ = [
                self._one_class(top == k, confidence, right, weights) for k in range(probs.shape[1])
            ]
        self.fit_result_ = sum_of_fits([self.pooled_, *self.by_class_])

    def _learn_tensors(self, tensors: Tensors) -> bool:
        self.pooled_, self.by_class_ = as_recalibrator(self.recalibrator), []
        top = on_device.top_labels(tensors)
        if self.per_class or not _fit_one_on_device(self.pooled_, top):
            return False
        self.fit_result_ = sum_of_fits([self.pooled_])
        return True

    def _one_class(
        self, own: AnyArray, confidence: FloatArray, right: AnyArray, weights: FloatArray | None
    ) -> Recalibrator | None:
        w = None if weights is None else weights[own]
        rows = int(own.sum()) if w is None else int((w > 0).sum())
        if rows < max(self.min_rows, 1):
            return None
        return fit_one(as_recalibrator(self.recalibrator), confidence[own], right[own], w)

    def _confidence(self, probs: AnyArray) -> tuple[IntArray, FloatArray]:
        """Return the predicted class and its recalibrated probability."""
        return _recalibrated_top(NUMPY, probs, self)

    def _apply(self, probs: AnyArray) -> FloatArray:
        top, confidence = self._confidence(probs)
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
            own = top == k
            if part is not None and own.any():
                levels[own] = part._answers(before[own])
        return Columns(read_problem("binary", 2), rows.codes() == top, levels)

    def _all_levels(self) -> FloatArray | None:
        parts = [r._all_levels() for r in (self.pooled_, *self.by_class_) if r is not None]
        levels = [known for known in parts if known is not None]
        return np.concatenate(levels) if len(levels) == len(parts) else None

    def _check_parameters(self) -> None:
        check_inner(self, self.recalibrator)
        check_choice("per_class", self.per_class, (False, True))

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
    rest = ops.sums(rows)
    rows = ops.where(rest > 0, rows / ops.where(rest > 0, rest, 1.0), 1 / n_others) * (1 - c)
    largest = ops.largest(rows)  # of the others: the entry of the top is 0, or all are equal
    even, cap = (1 - c) / n_others, c * (1 - MARGIN)
    # The largest of the others falls from `largest` to `even` as `mixed` goes from 0 to 1.
    excess = (largest - cap) / ops.clip(largest - even, LEAST_CONFIDENCE, None)
    mixed = ops.clip(excess, 0.0, 1 - MARGIN)
    largest = (1 - mixed) * largest + mixed * even
    rows = rows * (1 - mixed) + mixed * even
    rows = rows * ops.clip(cap / ops.clip(largest, LEAST_CONFIDENCE, None), None, 1.0)
    return ops.put(rows, top, c[:, 0])


def _fit_one_on_device(fresh: Recalibrator, tensors: Tensors) -> bool:
    fresh.classes_, fresh.fingerprint_ = np.array([0, 1]), None
    return fresh._learn_tensors(tensors)


def fit_one(
    fresh: Recalibrator, scores: AnyArray, happened: AnyArray, weights: FloatArray | None
) -> Recalibrator:
    """Fit a recalibrator on the scores of one event."""
    return fresh._fit_scores(Scores.of_rows(scores.astype(np.float64), happened, weights))


def sum_of_fits(recalibrators: Sequence[Recalibrator | None]) -> FitResult:
    """Sum up several fits: mean losses, most iterations, all flags."""
    results = [r.fit_result_ for r in recalibrators if r is not None]
    return FitResult(
        all(result.converged for result in results),
        max(result.iterations for result in results),
        float(np.mean([result.loss for result in results])),
        float(np.mean([result.loss_identity for result in results])),
        tuple(sorted({flag for result in results for flag in result.flags})),
    )
