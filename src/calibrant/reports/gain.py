"""What recalibration would gain, by cross-validation on rows that were not fitted on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._types import AnyArray, IntArray
from calibrant.recalibrators import (
    Identity,
    TemperatureScaling,
    VectorScaling,
    recalibrator_scores,
)
from calibrant.recalibrators.choosing import RecalibratorScores

FOLDS = 5
FEWEST_ROWS = 50
MOST_ROWS = 50_000
MOST_VALUES = 2_000_000
MOST_CLASSES_TO_SCALE = 100


@dataclass(frozen=True, eq=False)
class Gain:
    """Cross-validated log losses of recalibrators, or why there are none.

    Attributes
    ----------
    scores : RecalibratorScores or None
    n_used, n : int
        How many rows were used, out of how many.
    """

    scores: RecalibratorScores | None
    n_used: int
    n: int

    @property
    def amount(self) -> tuple[float, float]:
        """By how much the log loss would fall at best, and the standard error of that."""
        if self.scores is None:
            return 0.0, 0.0
        return float(self.scores.excess[0]), float(self.scores.standard_error[0])

    @property
    def is_worthwhile(self) -> bool:
        """Whether a recalibrator beats leaving things alone by more than a standard error."""
        return self.scores is not None and self.scores.chosen > 0


def gain_of(probs: AnyArray, codes: IntArray) -> Gain:
    """Compare recalibrators on these rows, or on a random part of them where there are many.

    For one event all default candidates are tried, for several classes temperature and vector
    scaling, and beyond 100 classes temperature alone: a page is made in seconds.
    """
    n = len(codes)
    if n < FEWEST_ROWS:
        return Gain(None, n, n)
    width = probs.shape[1] if probs.ndim == 2 else 1
    used = min(n, MOST_ROWS, max(MOST_VALUES // width, FEWEST_ROWS))
    if used < n:
        part = np.sort(np.random.default_rng(0).choice(n, used, replace=False))
        probs, codes = probs[part], codes[part]
    vector = [VectorScaling()] if width <= MOST_CLASSES_TO_SCALE else []
    candidates = None if width == 1 else [Identity(), TemperatureScaling(), *vector]
    return Gain(recalibrator_scores(codes, probs, candidates, cv=FOLDS), used, n)
