"""Draws of one row of each cluster: which of them give the bounds of a certificate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._documents import is_whole
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    cells_of,
    class_weights,
    error_of,
    power_of,
    raw_error,
)
from calibrant.stats.questions import MOST_DRAWS
from calibrant.table import BinTable


def best_draws(
    tables: Sequence[BinTable], norm: Norm, class_weight: ClassWeight
) -> tuple[int, int]:
    """Return which draw of one row of each cluster has the smallest error, and which the largest.

    **Why the best may be taken.** Rows of one draw are independent, so that its bound at the error
    probability delta / m, m being the number of draws, is wrong with probability delta / m at
    most. Call (m / delta) times the indicator of that event an e-value: its mean is at most 1,
    and so is that of the average over draws, however these depend on each other. The average
    reaches 1 / delta as soon as one draw rejects. So each bound is that of any draw at delta / m.

    **Why not another e-value.** Simulated with normal errors in 5 to 40 bins and 2 to 20 rows a
    cluster: averages of exponential moments and of powers k p^(k - 1) of p-values were wider than
    one draw at delta nearly everywhere, and so was the k-th best draw at k delta / m for larger k.

    Parameters
    ----------
    tables : sequence of BinTable
        One for each draw, in the same bins.
    norm, class_weight
        As in `calibrant.certify`.

    Returns
    -------
    tuple of int
        The places of the draw for the upper bound and of that for the lower.
    """
    weights, power = class_weights(class_weight, tables[0].problem), power_of(norm)
    debiased = power in (1.0, 2.0)
    errors = [
        float(
            raw_error(cells_of(table), weights, power, debiased)
            if debiased
            else error_of(cells_of(table), weights, power, debiased)
        )
        for table in tables
    ]
    largest = int(np.argmax(errors))
    # continuous outputs have no upper bound: one draw serves
    return int(np.argmin(errors)) if tables[largest].is_binned_model else largest, largest


def check_draws(
    table: BinTable, lower_table: BinTable | None, drawn: list[int] | None, draws: int | None
) -> None:
    """Refuse tables that are not two draws of the same clusters."""
    listed = isinstance(drawn, list) and len(drawn) == 2 and all(map(is_draw, drawn))
    numbers = drawn if listed and drawn is not None else []
    unlike = (draws is None) != (drawn is None) or (drawn is not None and not listed)
    if unlike or any(number >= (draws or 0) for number in numbers):
        raise InvalidArgumentError(
            f"drawn must be two of {draws or 'no'} draws, counted from 0; got {drawn!r:.60}."
        )
    if (lower_table is not None) != (len(set(numbers)) == 2):
        raise InvalidArgumentError(
            "Two draws have a table each, one draw has one; got "
            f"{'one table' if lower_table is None else 'two tables'} and draws {drawn!r:.60}."
        )
    if lower_table is not None and (lower_table.problem, lower_table.n) != (table.problem, table.n):
        raise InvalidArgumentError(
            f"Both draws have one row of each cluster; one has {table.n:,} rows of a "
            f"{table.problem.kind} problem, the other {lower_table.n:,} of a "
            f"{lower_table.problem.kind} one."
        )


def is_draw(number: Any) -> bool:
    """Tell the number of a draw."""
    return is_whole(number, 0, MOST_DRAWS)
