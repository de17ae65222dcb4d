"""What a model that knows nothing scores: the yardstick of small bounds.

A model that always answers 0 is off by the event rate. Where events are rare, or classes are many,
that is little, and a bound above it does not tell the model from one that never saw its inputs.
(Always answering the event rate has no calibration error at all; it cannot be a yardstick.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calibrant.stats.verdicts import Verdict
from calibrant.table import BinTable


def trivial_error(table: BinTable, weights: np.ndarray[Any, Any], power: float) -> float:
    """Return the error, on these rows, of always answering 0, or 1 where events are the rule.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> table = tabulate([0] * 990 + [1] * 10, [0.01] * 1000)
    >>> trivial_error(table, np.ones(1), 2.0)
    0.01
    """
    used = weights > 0
    rate = table.sum_y[used].sum(axis=1) / table.count[used].sum(axis=1)
    off = np.minimum(rate, 1 - rate)
    if math.isinf(power):
        return float(off.max())
    return float((weights[used] @ off**power) ** (1 / power))


def emptiness(
    verdict: Verdict | None, upper: float, max_error: float | None, trivial: float
) -> str:
    """Say that a bound, or a tolerance, is met by a model that knows nothing; or nothing."""
    known = f"always answering 0 or 1, whichever is commoner, is off by {trivial:.4f} on these rows"
    if verdict == "refuted":
        return ""
    if max_error is not None and trivial <= max_error:
        return (
            f". This asks for little: {known}, within the {max_error:g} that is allowed. Ask for a "
            "max_error far below that"
        )
    if verdict is None and trivial <= upper < 1:
        return f". This says little: {known}. More rows give a lower bound"
    return ""
