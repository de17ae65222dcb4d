"""Comparison of two tables whose rows are not the same: two weeks, two regions, two models.

With the notation of `calibrant.stats.comparison`, the debiased squared error T of one table has

    Var T = Var(h) / n + V,    h_i = 2 m_j u_i - m_j^2,
    V = (2 / n^2) sum of (e_i e_k)^2 / (N_j - 1)^2 over pairs of different rows of a bin.

With the observed gap d_j for m_j the first term is a function of the sums of a bin, and too large
by V on average; V, with (sum of e_i^2)^2 in place of the sum over pairs, which is a little
larger, is its floor. Rows of different tables are independent, so variances add up. Classes of one
table depend on each other in a way that no table knows: their standard deviations are added, the
largest sum that they can have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._results import Result, filled, rests_on
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import EmptyInputError, IncompatibleTablesError, InvalidWeightsError
from calibrant.stats.comparison_results import (
    Difference,
    comparison_lines,
    difference,
    rarer,
    remark,
    short_of,
)
from calibrant.stats.estimators import ClassWeight, cells_of, class_weights, raw_error
from calibrant.stats.intervals import check_level
from calibrant.table import BinTable, describe_bins

SEPARATE_ROWS = (
    "The rows of a and b are different and independent; rows that both tables share must be "
    "compared row by row."
)


@dataclass(frozen=True, repr=False)
class TableComparison(Result):
    """The squared calibration errors of two tables of different rows.

    Attributes
    ----------
    squared_error : Difference
        Squared l2 calibration error, debiased: it may be negative.
    n_a, n_b : int
        The rows of either table.
    bins_a, bins_b : str
        Where either error is measured, in words.
    confidence_level : float
    notes : tuple of str
        What must be said beside the numbers.
    """

    squared_error: Difference
    n_a: int
    n_b: int
    bins_a: str
    bins_b: str
    confidence_level: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = [("squared l2 error", self.squared_error)]
        return "\n".join(
            [
                *comparison_lines(named, self.confidence_level),
                filled(f"a: n = {self.n_a:,}, {self.bins_a}; b: n = {self.n_b:,}, {self.bins_b}"),
                *remark([self.squared_error]),
                *map(filled, self.notes),
                *rests_on([SEPARATE_ROWS]),
            ]
        )

    def _summary(self) -> str:
        sizes = f"n = {self.n_a:,} and {self.n_b:,}"
        return f"squared l2 error {self.squared_error._summary()}, {sizes}"


def compare_tables(
    a: BinTable, b: BinTable, *, class_weight: ClassWeight = None, confidence_level: float = 0.95
) -> TableComparison:
    """Compare the squared calibration errors of two tables of different, independent rows.

    For two models on the same rows use `calibrant.compare`, which pairs them: what both share
    cancels, and the interval of this function need not hold.

    Parameters
    ----------
    a, b : BinTable
        Of the same kind of problem with as many classes; bins may differ.
    class_weight
        As in `calibrant.calibration_error`.
    confidence_level : float
        Of the interval, which is approximate: it needs some ten rows and events a bin.

    Returns
    -------
    TableComparison
        With the difference `squared_error`, its interval and a verdict.

    Raises
    ------
    IncompatibleTablesError
        If the tables are of different problems.

    See Also
    --------
    calibrant.compare : two models on the same rows.
    calibrant.CalibrationMonitor : a table every night.

    Notes
    -----
    The difference is T_a - T_b, the debiased squared errors of both tables; the rows are
    independent, so its variance is the sum of theirs.

    Examples
    --------
    >>> from calibrant import EqualWidth, tabulate
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=(2, 5000))
    >>> y = rng.uniform(size=(2, 5000)) < p ** [[1.0], [1.5]]
    >>> monday, friday = (tabulate(*rows, bins=EqualWidth(10)) for rows in zip(y, p))
    >>> compare_tables(monday, friday).squared_error.verdict
    'a is better'
    """
    check_level(confidence_level)
    _check(a, b)
    (square_a, spread_a), (square_b, spread_b) = (
        _square_and_spread(table, class_weights(class_weight, table.problem)) for table in (a, b)
    )
    reach = float(special.stdtrit(min(a.n, b.n) - 1, (1 + confidence_level) / 2))
    spread = math.hypot(spread_a, spread_b)
    return TableComparison(
        difference(square_a, square_b, square_a - square_b, spread, reach),
        a.n,
        b.n,
        describe_bins(a),
        describe_bins(b),
        confidence_level,
        short_of(
            min(a.n, b.n),
            min(rarer(x.sum_y.sum(axis=1), x.n, x.problem.kind == "marginal") for x in (a, b)),
        ),
    )


def _check(a: BinTable, b: BinTable) -> None:
    for table in (a, b):
        if not isinstance(table, BinTable):
            raise IncompatibleTablesError(
                f"compare_tables takes two tables, such as tabulate makes; got {type(table)}."
            )
        if table.n < 2:
            raise EmptyInputError(
                f"A comparison needs at least 2 rows in each table; got {table.n}."
            )
        if table.is_weighted:
            raise InvalidWeightsError(
                "A comparison counts independent rows, and a table here has sample weights. Count "
                "without them."
            )
    kinds = [(table.problem.kind, table.problem.n_classes) for table in (a, b)]
    if kinds[0] != kinds[1]:
        raise IncompatibleTablesError(
            "Only errors of one kind, with as many classes, can be compared; these are "
            f"{kinds[0][0]} of {kinds[0][1]:,} classes and {kinds[1][0]} of {kinds[1][1]:,}."
        )


def _square_and_spread(table: BinTable, weights: FloatArray) -> tuple[float, float]:
    """Return T and its standard error."""
    size, n = table.count, table.n
    u = table.sum_y - table.sum_p
    uu = np.maximum(table.sum_y - 2 * table.sum_py + table.sum_pp, 0.0)
    pairs = size > 1  # a bin of one row adds nothing to T
    gap = np.where(pairs, u / np.maximum(size, 1), 0.0)
    mean = (2 * gap * u - size * gap**2).sum(axis=1) / n
    square = (4 * gap**2 * uu - 4 * gap**3 * u + size * gap**4).sum(axis=1) / n
    influence = np.maximum(square - mean**2, 0.0) / (n - 1)
    noise = np.where(pairs, np.maximum(uu - size * gap**2, 0.0) / np.maximum(size - 1, 1), 0.0)
    floor = 2 / n**2 * (noise**2).sum(axis=1)
    spread = float(weights @ np.sqrt(np.maximum(influence, floor)))
    return float(raw_error(cells_of(table), weights, 2.0, debiased=True)), spread
