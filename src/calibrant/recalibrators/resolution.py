"""What a recalibrator does to ranking and resolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from calibrant._logits import sigmoid
from calibrant._results import Result
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import squared_errors
from calibrant.recalibrators.reading import SEVERAL, read_again
from calibrant.recalibrators.scaling_binning import ScalingBinning


@dataclass(frozen=True, repr=False)
class ResolutionReport(Result):
    """Ranking and resolution before and after recalibrating.

    Attributes
    ----------
    auc_before, auc_after : float
        The chance that an event was ranked above a non-event, ties counting half; NaN if all
        rows have one label.
    outputs_before, outputs_after : int
        How many distinct predictions there are.
    brier_before, brier_after : float
        The Brier score.
    coarseness_cost : float
        The part of the Brier score that is due to coarse outputs: the mean variance, among
        rows with the same output, of the map before binning (the scaler's output of a
        `ScalingBinning`, else the prediction itself).
    """

    auc_before: float
    auc_after: float
    outputs_before: int
    outputs_after: int
    brier_before: float
    brier_after: float
    coarseness_cost: float

    def __str__(self) -> str:
        return (
            f"AUC {self.auc_before:.4f} -> {self.auc_after:.4f}, "
            f"outputs {self.outputs_before:,} -> {self.outputs_after:,}, "
            f"Brier {self.brier_before:.5f} -> {self.brier_after:.5f}\n"
            f"  of the Brier score, {self.coarseness_cost:.5f} is due to coarse outputs"
        )


def resolution_report(
    recalibrator: Recalibrator, y_prob: Any, y_true: Any, sample_weight: Any = None
) -> ResolutionReport:
    """Report AUC, number of outputs and Brier score before and after a fitted recalibrator.

    If the map before binning is calibrated, binning raises the Brier score by exactly the mean
    variance within bins; that is the cost of coarseness.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=5000)
    >>> y = rng.uniform(size=5000) < p**2
    >>> binned = ScalingBinning(bins=20).fit(p[:2000], y[:2000])
    >>> print(resolution_report(binned, p[2000:], y[2000:]))
    AUC 0.8763 -> 0.8756, outputs 3,000 -> 20, Brier 0.16603 -> 0.13377
      of the Brier score, 0.00028 is due to coarse outputs
    """
    if not isinstance(recalibrator, Recalibrator) or recalibrator._reads in SEVERAL:
        raise InvalidArgumentError(
            "resolution_report reads recalibrators of one score; apply it to the parts of a "
            f"{type(recalibrator).__name__}."
        )
    rows = read_again(recalibrator, y_prob, y_true, sample_weight)
    codes, scores = rows.codes(), rows.predictions.astype(np.float64)
    before = sigmoid(scores) if recalibrator.input == "logits" else scores
    after = recalibrator._apply(scores)
    binned = isinstance(recalibrator, ScalingBinning)
    smooth = recalibrator.scaler_._apply(scores) if binned else before
    w = np.ones(codes.size) if rows.weights is None else rows.weights

    def brier(probs: FloatArray) -> float:
        return float(np.average(squared_errors(probs, codes), weights=w))

    def auc(probs: FloatArray) -> float:
        both = np.unique(codes[w > 0]).size == 2
        return float(roc_auc_score(codes, probs, sample_weight=w)) if both else float("nan")

    # The mean variance of the map before binning among rows with equal outputs.
    _, group = np.unique(recalibrator._answers(scores), return_inverse=True)
    weight = np.bincount(group, w)
    mean = np.bincount(group, w * smooth) / np.where(weight > 0, weight, 1.0)
    return ResolutionReport(
        auc(before),
        auc(after),
        np.unique(before).size,
        np.unique(after).size,
        brier(before),
        brier(after),
        float(np.average((smooth - mean[group]) ** 2, weights=w)),
    )
