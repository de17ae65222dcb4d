"""Branch and bound: upper bounds of many one-dimensional maxima at once.

The range of each function is cut into intervals. An interval is done when no point of it can
exceed the largest value found so far by more than a tolerance; the others are split. Whatever is
left at the end counts with its bound, so the result is never too small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from calibrant._types import BoolArray, FloatArray, IntArray

MOST_ROUNDS = 30
"""Intervals are cut into four in each: 30 rounds reach the resolution of a float."""


class Objective(Protocol):
    """Functions of one variable, one for each bin."""

    def take(self, index: IntArray) -> Self:
        """Return the functions with these numbers."""

    def known(self, points: FloatArray) -> FloatArray:
        """Return the values that intervals keep for their ends, one point for each function."""


Functions = TypeVar("Functions", bound=Objective)


@dataclass(frozen=True, eq=False)
class Intervals(ABC, Generic[Functions]):
    """Intervals, each of the function with number `index`, and what is known at their ends."""

    objective: Functions
    index: IntArray
    left: FloatArray
    right: FloatArray
    at_left: FloatArray
    at_right: FloatArray

    @classmethod
    def between(cls, objective: Functions, index: IntArray, points: FloatArray) -> Self:
        """Return the intervals between neighbours in each row of points."""
        owners = objective.take(np.repeat(index, points.shape[1]))
        values = owners.known(points.ravel()).reshape(points.shape)
        ends = (points[:, :-1], points[:, 1:], values[:, :-1], values[:, 1:])
        index = np.repeat(index, points.shape[1] - 1)
        return cls(objective, index, *(end.ravel() for end in ends))

    @classmethod
    def covering(cls, objective: Functions, points: FloatArray) -> Self:
        """Return the intervals between the points of each function, which may be equal."""
        pieces = cls.between(objective, np.arange(len(points)), points)
        return pieces.keep(pieces.left < pieces.right)

    def keep(self, which: BoolArray) -> Self:
        """Return some of the intervals."""
        ends = (self.left, self.right, self.at_left, self.at_right)
        return type(self)(self.objective, self.index[which], *(end[which] for end in ends))

    @property
    def owners(self) -> Functions:
        """The function of each interval."""
        return self.objective.take(self.index)

    def values(self) -> FloatArray:
        """Return the larger of the two values at the ends."""
        return np.maximum(self.at_left, self.at_right)

    @abstractmethod
    def bounds(self) -> FloatArray:
        """Return an upper bound of the function inside each interval."""

    @abstractmethod
    def split(self) -> Self:
        """Return the parts of each interval."""


def highest(
    best: FloatArray,
    intervals: Intervals[Functions],
    tolerance: float,
    most_intervals: int | None = None,
    most_rounds: int = MOST_ROUNDS,
) -> FloatArray:
    """Return upper bounds of the maxima, too large by at most about the tolerance.

    Intervals cover the range of every function, and are split `most_rounds` times at most. `best`
    is a value of each; functions with the same number modulo its length share a maximum. Where more
    than `most_intervals` for each maximum on average must be told apart, because functions are
    flat, their bounds are taken as they are.
    """
    best, settled = best.copy(), best.copy()
    for remaining in reversed(range(most_rounds)):
        owner = intervals.index % best.size
        np.maximum.at(best, owner, intervals.values())
        bound = intervals.bounds()
        is_open = bound > best[owner] + tolerance
        if remaining == 0 or (most_intervals and is_open.sum() > most_intervals * best.size):
            is_open[:] = False
        np.maximum.at(settled, owner[~is_open], bound[~is_open])
        if not is_open.any():
            break
        intervals = intervals.keep(is_open).split()
    return np.maximum(settled, best)
