"""Numbers with their uncertainty over repeats, and what studies found, which is such numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from calibrant._types import FloatArray, IntArray

Z90 = 1.6448536269514722
"""Half-width of a two-sided 90% interval, the paper's level, in standard errors."""


@dataclass(frozen=True)
class Estimate:
    """A number, its standard error, and its 90% interval."""

    value: float
    se: float
    low: float
    high: float


def exactly(value: float) -> Estimate:
    """Return a number that was computed and not sampled."""
    return Estimate(float(value), 0.0, float(value), float(value))


def about(value: float, se: float) -> Estimate:
    """Return a number with a normal interval."""
    return Estimate(float(value), float(se), float(value - Z90 * se), float(value + Z90 * se))


def mean(samples: npt.ArrayLike) -> Estimate:
    """Return the mean of independent repeats.

    Examples
    --------
    >>> mean([1.0, 3.0]).value, mean([1.0, 3.0]).se
    (2.0, 1.0)
    """
    x = np.asarray(samples, np.float64)
    return about(float(x.mean()), standard_error(x))


def standard_error(samples: FloatArray) -> float:
    """Return the standard error of the mean over the first axis of independent repeats."""
    return float(samples.std(ddof=1) / np.sqrt(samples.size)) if samples.size > 1 else 0.0


def ratio(a: npt.ArrayLike, b: npt.ArrayLike, *, paired: bool = False) -> Estimate:
    """Return mean(a) / mean(b) with a delta-method interval on the log scale.

    Parameters
    ----------
    a, b : array_like
        Independent repeats; `paired` where a[i] and b[i] come from the same repeat.
    """
    x, y = np.asarray(a, np.float64), np.asarray(b, np.float64)
    value = float(x.mean() / y.mean())
    if paired:
        relative = standard_error(x / x.mean() - y / y.mean())
    else:
        relative = float(
            np.hypot(standard_error(x) / abs(x.mean()), standard_error(y) / abs(y.mean()))
        )
    low, high = value * np.exp(-Z90 * relative), value * np.exp(Z90 * relative)
    return Estimate(value, abs(value) * relative, float(low), float(high))


def over_repeats(
    statistic: Callable[[IntArray], float], n: int, rng: np.random.Generator, resamples: int = 500
) -> Estimate:
    """Return a statistic of n independent repeats, with a bootstrap over the repeats.

    `statistic` takes the indices of the repeats that it may use.
    """
    value = statistic(np.arange(n))
    draws = np.array([statistic(rng.integers(n, size=n)) for _ in range(resamples)])
    low, high = np.quantile(draws, [0.05, 0.95])
    return Estimate(float(value), float(draws.std(ddof=1)), float(low), float(high))


def across(samples: npt.ArrayLike) -> Estimate:
    """Return the median of repeats, with the range of nine in ten of them as the interval.

    For numbers that the paper reports from one repeat (one split of the data): the paper's
    own may be expected anywhere in this range.
    """
    x = np.asarray(samples, np.float64)
    low, high = np.quantile(x, [0.05, 0.95])
    spread = float(x.std(ddof=1)) if x.size > 1 else 0.0
    return Estimate(float(np.median(x)), spread, float(low), float(high))


@dataclass(frozen=True)
class Finding:
    """What a study found for one key.

    Attributes
    ----------
    key : str
    estimate : Estimate
    repeats : int
        How many repeats it rests on; 0 where it is exact.
    statement : str
        What the number is, where no claim of the paper says it.
    note : str
        Why it differs from the paper's, or what else a reader must know.
    unit : str
        How to print it, where no claim says it.
    splits : tuple of Estimate
        The same number in each split of the data, where the study splits it.
    has_authors_split : bool
        Whether the first of them is the split of the authors' scripts.
    """

    key: str
    estimate: Estimate
    repeats: int = 0
    statement: str = ""
    note: str = ""
    unit: str = ""
    splits: tuple[Estimate, ...] = ()
    has_authors_split: bool = False


def over_splits(findings: Sequence[Sequence[Finding]], has_authors_split: bool) -> list[Finding]:
    """Return the findings of several splits as one list.

    Each has the median over the splits, the range of nine in ten of them, the number of every
    split, and the words of the first split.
    """
    merged = []
    for same in zip(*findings, strict=True):
        splits = tuple(finding.estimate for finding in same)
        middle = across([split.value for split in splits]) if len(splits) > 1 else splits[0]
        merged.append(
            replace(same[0], estimate=middle, splits=splits, has_authors_split=has_authors_split)
        )
    return merged
