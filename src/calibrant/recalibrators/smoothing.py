"""Smoothing: the one rule for scores of exactly 0 and 1 wherever their logarithm is taken.

Votes of a forest, neighbours, and a softmax in float32 answer with exact zeros, whose log-odds are
infinite. With a share s of the even distribution over K outcomes mixed in, ``(1 - s) p + s / K``,
they are finite, and s says what a zero is worth. Near 0 the smoothed log-odds follow the log-odds,
near 1 they are almost linear in p. `calibrant.recalibrators.formulas` mixes it in.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from calibrant._options import is_real
from calibrant._types import AnyArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input

Smoothing: TypeAlias = float | Literal["auto"]

SHARES = np.array(
    [
        *(1e-300, 1e-100, 1e-40, 1e-30, 1e-20, 1e-15, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4),
        *(1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 0.6, 0.9, 0.99),
    ]
)
"""The shares that "auto" tries. The loss is flat around its minimum, so steps of three are fine
enough; a softmax needs the tiny ones, votes the large ones."""

FAR_BELOW = 1e-3
"""Zeros more than a thousand times below the smallest other score are not tried."""


def check_smoothing(smoothing: object, kind: Input) -> None:
    """Raise InvalidArgumentError unless this is "auto" or a share of probabilities."""
    if isinstance(smoothing, str) and smoothing == "auto":
        return
    if not (is_real(smoothing) and is_share(float(smoothing))):  # type: ignore[arg-type]
        raise InvalidArgumentError(
            'smoothing must be "auto", 0 or a share from 1e-300 to below 1; got '
            f"{smoothing!r:.60}. Write 0 to mix nothing in."
        )
    if kind == "logits" and smoothing:
        raise InvalidArgumentError(
            f"smoothing is for probabilities of exactly 0 and 1; got {smoothing!r:.60} for a "
            'recalibrator of logits, which have none. Leave smoothing at "auto".'
        )


def is_share(share: float) -> bool:
    """Tell whether a number can be mixed in: smaller ones would overflow as odds."""
    return share == 0 or float(SHARES[0]) <= share < 1


def may_keep(p: AnyArray, smoothing: Smoothing, kind: Input) -> bool:
    """Tell whether leaving scores alone is an answer where it is the better one on their own rows.

    Not if they hold exact zeros or ones, which may be wrong the next time and then lose without
    limit; unless the caller declared that nothing is to be mixed in.
    """
    if kind == "logits" or smoothing == 0:
        return True
    return not (p == 0).any() and (p.ndim > 1 or not (p == 1).any())


def best_share(p: AnyArray, n_outcomes: int, loss: Callable[[float], float]) -> float:
    """Return the share of least loss, or 0 where there is no exact zero among the scores."""
    if not (p == 0).any():
        return 0.0
    smallest = p.min(where=p > 0, initial=1.0)
    shares = SHARES[FAR_BELOW * n_outcomes * smallest <= SHARES].tolist()
    lost = cache(lambda i: loss(shares[i]))
    best, step = 0, 4
    near = range(0, len(shares), step)
    while step:
        # The loss falls and rises once, so a coarse search finds the way to the lowest.
        best = min(near, key=lost)
        step //= 2
        near = range(max(best - step, 0), min(best + step + 1, len(shares)), max(step, 1))
    return float(shares[best])
