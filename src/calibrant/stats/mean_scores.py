"""Mean scores of forecasts, with their standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from calibrant._results import NumberResult
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidInputError
from calibrant.stats.intervals import ConfidenceInterval, check_level


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
    per_level : dict
        Of quantiles, the mean loss at each level.
    sharpness : dict
        Of quantiles, the mean width of each central interval, by what it is to hold.
    """

    name: str
    value: float
    standard_error: float
    n: int
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
        total, rows, spread = float(w.sum()), int((w > 0).sum()), math.nan
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(scores @ w / total)
            if rows > 1:
                square = float(w**2 @ (scores - mean) ** 2) * rows / (rows - 1)
                spread = math.sqrt(square) / total
        if not math.isfinite(mean) or math.isinf(spread) or (rows > 1 and math.isnan(spread)):
            raise InvalidInputError(
                f"The {name} of these rows is beyond what a float holds: outcomes and forecasts "
                "must be of sizes that can be squared. Give them in a larger unit."
            )
        return cls(name, mean, spread, rows, per_level or {}, sharpness or {})

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return Student's interval of the mean; asymptotic."""
        check_level(confidence_level)
        reach = self.standard_error * float(
            special.stdtrit(max(self.n - 1, 1), (1 + confidence_level) / 2)
        )
        return ConfidenceInterval(
            self.value - reach, self.value + reach, float(confidence_level), "normal"
        )

    def _measure(self) -> str:
        return self.name

    def __str__(self) -> str:
        error = f"standard error {self.standard_error:.4f}"
        lines = [f"{self.name} = {self.value:.4f} ({error}), n = {self.n:,}"]
        lines += [f"  level {level:g}: {loss:.4f}" for level, loss in self.per_level.items()]
        lines += [
            f"  {100 * nominal:g}% intervals are {width:.4g} wide on average"
            for nominal, width in self.sharpness.items()
        ]
        return "\n".join(lines)
