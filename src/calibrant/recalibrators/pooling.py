"""Pooling adjacent violators: the blocks of scores that share an isotonic value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from calibrant._types import AnyArray, FloatArray
from calibrant.engines import compiles
from calibrant.recalibrators.scores import Scores, scores_of_keys


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of neighbouring scores with rising shares of events.

    Attributes
    ----------
    low, high : ndarray
        The smallest and the largest score of each block.
    pooled : Scores
        The mean score of each block, its events and its weight.
    """

    low: FloatArray
    high: FloatArray
    pooled: Scores

    @classmethod
    def of(cls, scores: Scores) -> Blocks:
        """Pool equal scores, then neighbours until the shares of events rise."""
        if compiles(scores.values.size):
            keys = scores.sorted_keys()
            if keys is not None:
                return cls._of_keys(keys, scores.size)
        scores = scores.distinct()
        weight, events = scores.weight, scores.events
        fitted = isotonic_regression(events / weight, sample_weight=weight)
        first = np.flatnonzero(np.concatenate(([True], fitted[1:] != fitted[:-1])))
        last = np.append(first[1:], fitted.size) - 1
        events, weights, total = (
            np.add.reduceat(term, first) for term in (events, weight, weight * scores.values)
        )
        pooled = Scores(total / weights, events, weights, scores.size)
        return cls(scores.values[first], scores.values[last], pooled)

    @classmethod
    def _of_keys(cls, keys: AnyArray, size: float) -> Blocks:
        from calibrant.recalibrators.kernels import pool

        first = np.empty(keys.size, np.intp)
        weights, events, total = np.empty(keys.size), np.empty(keys.size), np.empty(keys.size)
        found = slice(pool(keys, first, weights, events, total))
        last = np.append(first[found][1:], keys.size) - 1
        pooled = Scores(
            total[found] / weights[found], events[found].copy(), weights[found].copy(), size
        )
        return cls(scores_of_keys(keys[first[found]]), scores_of_keys(keys[last]), pooled)

    @property
    def levels(self) -> FloatArray:
        """The isotonic value of each block: its share of events."""
        shares = np.clip(self.pooled.events / self.pooled.weight, 0.0, 1.0)
        return np.maximum.accumulate(shares)
