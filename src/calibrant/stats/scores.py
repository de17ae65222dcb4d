"""Mean scores of forecasts, with their errors and intervals, and the parts they are made of.

Scores are skewed: most rows cost little, a few much. Student's limits of their mean covered 80% to
90% at a nominal 95% in simulation. The interval is Hall's (1992, On the removal of skewness by
transformation): Student's t of the mean, T, with c the skewness of the mean, is replaced by
((1 + c T / 3)^3 - 1) / c + c / 6, which has less skewness, rises in T and is inverted exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, Self, TypeAlias

import numpy as np

from calibrant._options import check_flag
from calibrant._results import NumberResult
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidInputError
from calibrant.stats.estimators import ClassWeight, cells_of, class_weights, raw_error
from calibrant.stats.influences import FEWEST_INFLUENTIAL, few_rows_note
from calibrant.stats.intervals import ConfidenceInterval, check_level
from calibrant.table import BinTable


@dataclass(frozen=True, eq=False, repr=False)
class MeanScore(NumberResult):
    """A mean score over rows; lower is better.

    Attributes
    ----------
    name : str
        The score.
    value : float
        Its mean; ``float(score)`` gives it too.
    standard_error : float
        Of the mean, for independent rows; NaN of a single row.
    n : int
        Rows.
    skewness : float
        Of the mean: that of the scores, over the root of n.
    per_level : dict
        Of quantiles, the mean loss at each level.
    sharpness : dict
        Of quantiles, the mean width of each central interval, by what it is to hold.
    """

    name: str
    value: float
    standard_error: float
    n: int
    skewness: float = 0.0
    per_level: dict[float, float] = field(default_factory=dict)
    sharpness: dict[float, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        scores: FloatArray,
        weights: FloatArray | None = None,
        per_level: dict[float, float] | None = None,
        sharpness: dict[float, float] | None = None,
    ) -> Self:
        """Return the mean of the scores of rows, and its standard error."""
        w = np.ones(scores.size) if weights is None else weights / weights.max()
        total, rows, spread, skewness = float(w.sum()), int((w > 0).sum()), math.nan, 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(scores @ w / total)
            if rows > 1:
                own = w * (scores - mean)
                square = float(own @ own)
                spread = math.sqrt(square * rows / (rows - 1)) / total
                skewness = float(np.sum((own / (math.sqrt(square) or 1.0)) ** 3))
        if not math.isfinite(mean) or math.isinf(spread) or (rows > 1 and math.isnan(spread)):
            raise InvalidInputError(
                f"The {name} of these rows is beyond what a float holds: outcomes and forecasts "
                "must be of sizes that can be squared. Give them in a larger unit."
            )
        return cls(name, mean, spread, rows, skewness, per_level or {}, sharpness or {})

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return Student's interval of the mean, corrected for its skewness; asymptotic.

        Its `notes` say where fewer than ten rows decide it, or would lie beyond the outermost
        levels: it was found to cover as promised where more do (docs/coverage.md).
        """
        check_level(confidence_level)
        t = float(special.stdtrit(max(self.n - 1, 1), (1 + confidence_level) / 2))
        below, above = max(self._unskewed(t), 0.0), max(-self._unskewed(-t), 0.0)
        tails = [min(level, 1 - level) for level in self.per_level]
        rows = min(1 / (self.skewness**2 + 1 / self.n), 2 * self.n * min(tails, default=1.0))
        notes: tuple[str, ...] = ()
        if rows < FEWEST_INFLUENTIAL:
            notes = (few_rows_note(rows),)
        return ConfidenceInterval(
            self.value - below * self.standard_error,
            self.value + above * self.standard_error,
            float(confidence_level),
            "hall",
            notes,
        )

    def _unskewed(self, t: float) -> float:
        """Return which Student's t has this value after the transformation."""
        c = self.skewness
        return 3 * (float(np.cbrt(1 + c * (t - c / 6))) - 1) / c if abs(c) > 1e-6 else t

    def _measure(self) -> str:
        return self.name

    def __str__(self) -> str:
        error = f" (standard error {self.standard_error:.4f})" if self.n > 1 else ""
        lines = [f"{self.name} = {self.value:.4f}{error}, n = {self.n:,}"]
        lines += [f"  level {level:g}: {loss:.4f}" for level, loss in self.per_level.items()]
        lines += [
            f"  {100 * nominal:g}% intervals are {width:.4g} wide on average"
            for nominal, width in self.sharpness.items()
        ]
        lines += [f"  {note}" for note in self.confidence_interval().notes]
        return "\n".join(lines)


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
