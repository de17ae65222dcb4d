"""Scaling-binning: the paper's recalibrator."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from calibrant._bins_argument import auto_n_bins
from calibrant._options import is_real
from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinsLike
from calibrant.engines.tensors import Tensors, counted
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binning import (
    Binned,
    BinnedScores,
    bin_rule,
    binned_result,
    merge_equal,
    ratio,
)
from calibrant.recalibrators.fingerprint import Fingerprint
from calibrant.recalibrators.foreign import (
    ForeignEstimator,
    as_recalibrator,
    check_of_one_score,
    is_foreign,
    weights_name,
)
from calibrant.recalibrators.formulas import Operations, invert, rises
from calibrant.recalibrators.saving import can_be_saved
from calibrant.recalibrators.scaling import PlattScaling
from calibrant.recalibrators.scores import Scores, identity_loss
from calibrant.recalibrators.temperature import Identity
from calibrant.table import BinTable


class ScalingBinning(Binned):
    r"""Fit a smooth map, bin its outputs, and answer with the mean of each bin.

    The paper's recalibrator (section 4.1 of Kumar, Liang, Ma, 2019): as few samples as scaling
    needs, because the outputs are means of the smooth map and not of labels, and finitely many
    of them, so that the remaining error can be measured and certified.

    Parameters
    ----------
    bins : int, str, rule or array of edges
        Step 2, on the outputs of the scaler; as in `calibrant.calibration_error`: 15, "mass:15",
        "width:15", "hybrid:15", "distinct", edges. Hybrid bins lose less Brier score. "auto" is
        uniform mass in ``0.8 n^(2/5)`` bins (`calibrant.recommended_bins`). In `OneVsRest` "auto"
        and a number mean hybrid bins that may be lighter.
    scaler : recalibrator of one score, or anything with fit and predict_proba
        Step 1; `PlattScaling` unless given. It gets logits if its attribute `input` is "logits".
    split : tuple of three numbers, optional
        Shares of the rows for the three steps, as the theory asks; None uses all rows in all
        three, which works better in practice (the paper's appendix E).
    keep_order : bool
        See `HistogramBinning`.
    random_state : int, optional
        Seed for assigning rows to the three parts of a split.

    Attributes
    ----------
    scaler_ : the fitted scaler.
    bins_ : Bins
        On the scale of the scaler's outputs, so ``levels_[j]`` lies in bin j.
    levels_ : ndarray
        The output of each bin.
    cuts_ : ndarray or None
        The same inner edges on the scale of the input, where the scaler is increasing: these
        are what a prediction is compared with.
    fold_ : ndarray or None
        Which of the three steps (1, 2, 3) each row of a split with a weight served. Labels of
        steps 2 and 3 were never used: they are free for `certify`.

    See Also
    --------
    HistogramBinning : means of labels, which need no smooth map and more rows.
    samples_to_calibrate : how many rows does it take?
    Recalibrator.certify : what the outputs were made finite for.

    Notes
    -----
    Step 1 fits g on rows :math:`(z_i, y_i)`; step 2 chooses bins :math:`I_1, \ldots, I_B` of
    uniform mass of :math:`g(z_i)`; step 3 answers, for g(z) in bin j, with

    .. math:: \frac{1}{|\{i : g(z_i) \in I_j\}|} \sum_{i : g(z_i) \in I_j} g(z_i).

    With B bins, an l2 error of :math:`\varepsilon` takes :math:`O(1 / \varepsilon^2 + B)` rows,
    where histogram binning takes :math:`O(B / \varepsilon^2)` (Theorem 4.1).

    References
    ----------
    Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=2000)
    >>> calibrated = ScalingBinning(bins=10).fit(z, rng.uniform(size=2000) < z**2)
    >>> calibrated.levels_.size, calibrated.predict_proba([0.5]).round(1)
    (10, array([0.3]))
    """

    _learned: ClassVar[dict[str, str]] = {
        "scaler_": "recalibrator",
        "bins_": "bins",
        "levels_": "probabilities",
        "cuts_": "vector?",
        "rows_fingerprint_": "fingerprint?",
    }
    scaler_: Recalibrator
    fold_: IntArray | None

    def __init__(
        self,
        bins: BinsLike = "auto",
        scaler: Any = None,
        split: tuple[float, float, float] | None = None,
        keep_order: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.bins = bins
        self.scaler = scaler
        self.split = split
        self.keep_order = keep_order
        self.random_state = random_state

    @property
    def input(self) -> Input:  # type: ignore[override]
        """What the scores are: what the scaler takes."""
        declared = getattr(self.scaler, "input", None)
        # The attribute of a class of another library may mean anything else.
        return "logits" if isinstance(declared, str) and declared == "logits" else "probabilities"

    def fit_table(self, table: BinTable) -> Self:
        """Learn from a table on a fine grid; a split needs rows."""
        if self.split is not None:
            raise InvalidArgumentError(
                "A table cannot be split into three parts; fit_table needs split=None."
            )
        return super().fit_table(table)

    def as_steps(self) -> ScalingBinning:
        """Return the same answers without a scaler of your own: a step function of the score.

        A document holds numbers and no code, so that such a scaler cannot be saved; its steps can,
        and the command line applies and certifies them. Of calibrant's scalers this returns self.

        Raises
        ------
        InvalidArgumentError
            If the scaler is not increasing, or ties are broken by it (`keep_order`).
        """
        check_is_fitted(self, "classes_")
        if self.scaler is None or can_be_saved(self.scaler):
            return self
        if self.cuts_ is None or self.keep_order:
            raise InvalidArgumentError(
                "Answers are steps of the score only where the scaler is increasing and "
                "keep_order=False; "
                f"{'keep_order is True' if self.keep_order else 'this scaler is not increasing'}."
            )
        steps = copy(self)
        steps.scaler = Identity(self.input)
        # Whatever the rows, it learns nothing.
        steps.scaler_ = Identity(self.input).fit([0.0, 1.0], [0, 1])
        return steps

    def _remember(self, probs: AnyArray, codes: IntArray, weights: FloatArray | None) -> None:
        super()._remember(probs, codes, weights)
        if self.fold_ is not None:
            used = np.arange(len(codes)) if weights is None else np.flatnonzero(weights)
            first = used[self.fold_ == 1]
            self.rows_fingerprint_ = self.fingerprint_
            self.fingerprint_ = Fingerprint.of(probs[first], codes[first])

    def _draw_folds(self, n: int) -> IntArray:
        """Return 1, 2 or 3 for every row, in the shares of the split."""
        shares = np.asarray(self.split, np.float64)
        ends = np.rint(np.cumsum(shares) / shares.sum() * n)
        sizes = np.diff(ends, prepend=0.0).astype(np.intp)
        if sizes.min() < 1:
            raise InvalidArgumentError(
                f"Each part of a split needs a row; {n:,} rows in the shares {self.split!r} "
                f"give {sizes.tolist()}."
            )
        folds = np.repeat([1, 2, 3], sizes)
        check_random_state(self.random_state).shuffle(folds)
        return folds

    def _learn_tensors(self, tensors: Tensors) -> bool:
        # A sketch has weights, which an estimator of another library may not take.
        if self.split is not None or (is_foreign(self.scaler) and not weights_name(self.scaler)):
            return False
        self._learn(on_device.sketch(tensors), tensors)
        return True

    def _learn(self, scores: Scores, tensors: Tensors | None = None) -> None:
        """Learn from scores, or from the tensors that they sketch."""
        self.fold_, self.rows_fingerprint_ = None, None
        parts = [scores] * 3
        if self.split is not None:
            self.fold_ = self._draw_folds(scores.values.size)
            parts = [scores.take(self.fold_ == step) for step in (1, 2, 3)]
        scaler = PlattScaling() if self.scaler is None else as_recalibrator(self.scaler)
        scaler._check_parameters()
        self.scaler_ = scaler._fit_scores(parts[0])
        rule = bin_rule(self.bins, parts[1].size, auto_n_bins(int(parts[1].size)), self._balance)
        if tensors is not None:
            p = on_device.answers(self.scaler_, tensors.predictions)
            tensors = replace(tensors, predictions=counted(p), are_logits=False)
        third = second = BinnedScores.of(self._scaled(parts[1]), rule, tensors)
        if self.split is not None:
            third = BinnedScores.of(self._scaled(parts[2]), second.bins)
        # The mean of the third part in each bin; else of the second; else the midpoint.
        low, high = second.bins.edges[:-1], second.bins.edges[1:]
        levels = ratio(second.sum_p, second.weight, (low + high) / 2)
        levels = np.clip(ratio(third.sum_p, third.weight, levels), low, high)
        self.bins_, self.levels_ = merge_equal(second.bins, levels)
        self.cuts_ = self._input_cuts(scores.values)
        if self.split is None:  # the rows of a bin are those that get its level
            lost = second.squared_error(levels)
        else:
            answers = scores.replace_values(self._answers(scores.values))
            lost = identity_loss(answers, "squared")
        are_probabilities = scores.values.min() >= 0 and scores.values.max() <= 1
        before = identity_loss(scores, "squared") if are_probabilities else float("nan")
        self.fit_result_ = binned_result(scores, lost, before)

    def _scaled(self, scores: Scores) -> Scores:
        return scores.replace_values(self._binned_values(scores.values))

    def _binned_values(self, scores: FloatArray) -> FloatArray:
        return self.scaler_._apply(scores)

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        if self.cuts_ is None and not self.keep_order:
            raise InvalidArgumentError(
                "The scaler of this ScalingBinning is not increasing, so its bins are not "
                "intervals of the input and cannot be exported."
            )
        return super()._formula(ops, x, learned)

    def _input_cuts(self, values: FloatArray) -> FloatArray | None:
        """Move the inner edges to the input's scale, where the map can be inverted."""
        if "not increasing" in self.scaler_.fit_result_.flags:
            return None
        ends = (0.0, 1.0)
        if self.input == "logits":
            reach = 2 * max(-float(values.min()), float(values.max())) + 64
            ends = (-reach, reach)
        if not rises(self.scaler_, *ends):
            return None
        # A tree may fall anywhere, between the scores that `rises` looks at too.
        foreign = isinstance(self.scaler_, ForeignEstimator)
        if foreign and (np.diff(self.scaler_._apply(np.unique(values))) < 0).any():
            return None
        return invert(self.scaler_, self.bins_.edges[1:-1], *ends)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.split is not None and not (
            isinstance(self.split, tuple | list)
            and len(self.split) == 3
            and all(is_real(x) and x > 0 for x in self.split)
        ):
            raise InvalidArgumentError(
                "split must be None or three shares above 0, such as (1, 1, 1); got "
                f"{self.split!r}."
            )
        if self.scaler is not None and not is_foreign(self.scaler):
            check_of_one_score("scaler", self.scaler)
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise InvalidArgumentError(
                "random_state must be a whole number, the seed for dealing rows out, or None; got "
                f"{self.random_state!r:.60}. Write 0 for the same parts in every fit."
            ) from error

    def _check_learned(self) -> None:
        super()._check_learned()
        if self.cuts_ is not None and self.cuts_.size != self.levels_.size - 1:
            raise ValueError("there must be one cut fewer than levels")
        if self.cuts_ is not None and (np.diff(self.cuts_) < 0).any():
            raise ValueError("cuts must rise")
