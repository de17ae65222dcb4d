"""Decompositions of a mean score: miscalibration - discrimination + uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant._options import check_flag
from calibrant._results import NumberResult
from calibrant.stats.estimators import ClassWeight, cells_of, class_weights, raw_error
from calibrant.table import BinTable

ScoreRule: TypeAlias = Literal["brier", "log"]


@dataclass(frozen=True, eq=False, repr=False)
class ScoreDecomposition(NumberResult):
    """A mean score = miscalibration - discrimination + uncertainty, adding up exactly.

    Attributes
    ----------
    rule : {"brier", "log"}
    value : float
        Mean of (y - p)^2, or of -log of the probability given to what happened; for marginal
        problems the weighted mean over classes. ``float(parts)`` gives it too.
    miscalibration : float
        What a recalibrated model would gain; 0 is best. In bins it is the squared l2 calibration
        error. An isotonic curve is fitted to the rows it is scored on: a calibrated model has a
        little of it too, of order n^(-2/3).
    discrimination : float
        How much better than the base rate the recalibrated model would score; more is better.
        In bins, less what predictions that vary inside bins lose (the generalised resolution of
        Stephenson et al., 2008).
    uncertainty : float
        The score of always predicting the base rate.
    is_debiased : bool
        Whether the three terms are corrected for bias (Ferro and Fricker, 2012); their sum is not
        changed by that, and single terms may be negative.
    """

    rule: ScoreRule
    value: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    is_debiased: bool = False

    def _measure(self) -> str:
        return f"{self.rule} score"

    def _summary(self) -> str:
        return (
            f"{'Brier' if self.rule == 'brier' else 'log score'} {self.value:.4f} = "
            f"miscalibration {self.miscalibration:.4f} - discrimination "
            f"{self.discrimination:.4f} + uncertainty {self.uncertainty:.4f}"
        )


def brier_decomposition(
    table: BinTable, *, debias: bool = False, class_weight: ClassWeight = None
) -> ScoreDecomposition:
    """Decompose the Brier score of a table: miscalibration - discrimination + uncertainty.

    With ``debias=True`` the terms are corrected for bias: miscalibration becomes the debiased
    square (bins of one row count as 0 there), uncertainty is multiplied by n / (n - 1), and
    discrimination keeps the sum. The parameters are those of `calibrant.brier_decomposition`.
    """
    weights = class_weights(class_weight, table.problem)
    cells = cells_of(table)
    check_flag("debias", debias)
    total = table.sum_w.sum(axis=-1)
    brier = float((table.sum_y - 2 * table.sum_py + table.sum_pp).sum(axis=-1) / total @ weights)
    base = table.sum_y.sum(axis=-1) / total
    n = total**2 / table.sum_ww.sum(axis=-1)
    correction = n / np.maximum(n - 1, 1) if debias else 1.0
    uncertainty = float(base * (1 - base) * correction @ weights)
    miscalibration = float(raw_error(cells, weights, 2.0, debias))
    discrimination = miscalibration + uncertainty - brier
    return ScoreDecomposition(
        "brier", brier, miscalibration, discrimination, uncertainty, bool(debias)
    )
