"""How small a certificate can be at all: a lower limit that no valid method can beat.

A method that is right with probability 1 - delta whatever the model has a bound below t, if the
error is t, with probability at most delta. If its bound is below t in half of the samples of a
calibrated model, it is a test that tells calibration from every model of error t, with size delta
and power 1/2. The test that does that best, for a random model of error t instead of every one, is
the likelihood ratio test (Neyman and Pearson). So t is a limit where even its power is below 1/2.

The random model says s_j = (j - 1/2) / B, all equally often, and events happen at the rates
s_j +- c s_j (1 - s_j) with random signs, which are hardest to tell from s_j. For the population it
also has, with probability p0, an output that is entirely wrong: n rows do not show it with
probability (1 - p0)^n, and what is not seen cannot be tested.
"""

from __future__ import annotations

import functools
import zlib

import numpy as np

DELTA, POWER, DRAWS = 0.05, 0.5, 20_000
STEPS = 40


def error_of(c: float, levels) -> float:
    return c * float(np.sqrt(np.mean((levels * (1 - levels)) ** 2)))


def missed(c: float, size, events, levels) -> float:
    """Return how often the likelihood ratio test of power 1/2 passes the random model.

    The mean under calibration of the likelihood ratio, over the half of samples where it is least.
    """
    up, down = np.log1p(c * (1 - levels)), np.log1p(-c * levels)
    plus = events * up + (size - events) * down
    up, down = np.log1p(-c * (1 - levels)), np.log1p(c * levels)
    minus = events * up + (size - events) * down
    ratio = np.sort((np.logaddexp(plus, minus) - np.log(2)).sum(axis=1))
    return float(np.exp(ratio[: int(POWER * ratio.size)]).sum() / ratio.size)


@functools.cache
def limit(n: int, n_bins: int, target: str = "population", draws: int = DRAWS) -> float:
    """Return an error that the median bound of no valid method falls below, at calibration.

    >>> round(limit(1000, 10, draws=2000), 3)
    0.048
    """
    rng = np.random.default_rng([2026, zlib.crc32(repr((n, n_bins, target)).encode())])
    levels = (np.arange(n_bins) + 0.5) / n_bins
    if target == "population":
        size = rng.multinomial(n, np.full(n_bins, 1 / n_bins), size=draws)
    else:  # a statement given the counts; these are as even as can be
        size = np.broadcast_to(np.full(n_bins, n // n_bins), (draws, n_bins))
    events = rng.binomial(size, levels)

    low, high = 0.0, 1.0  # the largest c that is missed too often
    for _ in range(12):
        middle = (low + high) / 2
        enough = missed(middle, size, events, levels) >= DELTA
        low, high = (middle, high) if enough else (low, middle)
    if target == "sample":
        return error_of(low, levels)
    best = 0.0
    for c in np.linspace(0, low, STEPS):  # what signs leave to be missed, an unseen output uses up
        unseen = 1 - (DELTA / max(missed(c, size, events, levels), DELTA)) ** (1 / n)
        best = max(best, unseen + (1 - unseen) * error_of(c, levels) ** 2)
    return float(np.sqrt(best))


if __name__ == "__main__":
    for rows, bins in (
        (300, 10),
        (1_000, 10),
        (10_000, 10),
        (300, 100),
        (1_000, 100),
        (10_000, 100),
    ):
        both = [f"{limit(rows, bins, target):.4f}" for target in ("population", "sample")]
        print(f"n={rows:,} B={bins}: {' '.join(both)}")
