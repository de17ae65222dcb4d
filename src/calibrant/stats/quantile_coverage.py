"""How often real outcomes stay below their predicted quantiles: coverage, exactly, and the PIT.

A table of kind "quantile" has one bin for each level: how many of n outcomes were at most the
predicted quantile. Quantiles of a row do not cross, so each row is described by the first level, if
any, whose quantile its outcome does not exceed; that level, over rows, is the histogram of the
probability integral transform (PIT) in cells between levels.

**One level.** The number of covered outcomes is binomial, because rows are independent: the
limits of Clopper and Pearson are exact for every n and every true coverage. So are those of a
central interval, between the quantiles at tau and 1 - tau: it holds the difference of two counts.

**All at once.** Every statement has an equal share of the error probability (Bonferroni). Of many
levels, half of it goes to one band for all: the index of the first level that covers a row has a
distribution function whose values are the true coverages, and the inequality of Dvoretzky,
Kiefer and Wolfowitz with Massart's constant holds for any distribution function, so every true
coverage is within sqrt(log(2 / delta) / (2 n)) of the observed one, with probability 1 - delta.

**All groups at once.** Each of G groups has delta / G for its statements, whatever the groups have
to do with each other.

**Clusters.** Where rows of a cluster depend on each other, one row of each is drawn at random.
Given which rows were drawn, these are independent, so all of the above holds for the coverage of a
random row of a random cluster. A draw that was chosen among several in the light of its counts
has an equal share of the error probability: all limits of all draws then hold at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._options import check_flag
from calibrant._results import Result, filled
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError
from calibrant.stats.curves import binomial_quantile
from calibrant.stats.intervals import check_level, clopper_pearson
from calibrant.stats.verdicts import ONE_OF_EACH
from calibrant.table import BinTable

MANY_LEVELS = 20
"""More levels share the error probability with one band for all, which is narrower in the middle by
a fifth for 99 levels, and wider by a twentieth in the tails. Affects tightness, never validity."""
SYMMETRIC = 1e-9
"""How far two levels may be from adding up to 1 and still bound a central interval."""
DECIMALS = 12
"""Of what a central interval is to hold: 0.9, where 0.95 - 0.05 is 0.8999999999999999."""


@dataclass(frozen=True, eq=False, repr=False)
class CoverageCertificate(Result):
    """How many outcomes lie below predicted quantiles and within central intervals, with limits.

    Attributes
    ----------
    level : ndarray
        The levels of the quantiles.
    covered : ndarray
        The share of outcomes at or below each quantile.
    low, high : ndarray
        Exact limits of the true coverage.
    interval_level : ndarray
        What the central intervals are to hold: 0.9 of that between the quantiles at 0.05 and 0.95.
    inside : ndarray
        The share of outcomes above the lower quantile and not above the upper one.
    interval_low, interval_high : ndarray
        Exact limits of the true share.
    n : int
        Rows.
    confidence_level : float
    is_simultaneous : bool
        Whether all limits hold at once, or each by itself.
    table : BinTable
        The counts from which all of this was computed.
    n_groups : int
        How many groups the limits hold for at once, this one among them.
    draws : int or None
        How often one row of each cluster was drawn; None where rows are in no clusters.
    """

    level: FloatArray
    covered: FloatArray
    low: FloatArray
    high: FloatArray
    interval_level: FloatArray
    inside: FloatArray
    interval_low: FloatArray
    interval_high: FloatArray
    n: int
    confidence_level: float
    is_simultaneous: bool
    table: BinTable
    n_groups: int = 1
    draws: int | None = None

    @property
    def miss(self) -> FloatArray:
        """How far each level lies beyond the limits of its coverage, 0 where it is within them."""
        return np.maximum(np.maximum(self.low - self.level, self.level - self.high), 0)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must be true for the limits to hold."""
        return (
            "The rows are independent draws from the population that the statement is about.",
            "Their outcomes were not used to fit the model or to repair its quantiles.",
            *((ONE_OF_EACH,) if self.draws else ()),
        )

    def __str__(self) -> str:
        sure = f"with {100 * self.confidence_level:g}% confidence"
        intervals = (self.interval_level, self.inside, self.interval_low, self.interval_high)
        lines = [
            filled(
                f"{sure} the {100 * nominal:g}% intervals cover {100 * low:.1f}% to "
                f"{100 * high:.1f}% (observed {100 * share:.1f}%)"
            )
            for nominal, share, low, high in zip(*intervals, strict=True)
        ]
        lines.append(f"{'level':>8} {'covered':>8}   limits")
        lines += [
            f"{level:>8g} {share:>8.4f}   [{low:.4f}, {high:.4f}]"
            for level, share, low, high in zip(
                self.level, self.covered, self.low, self.high, strict=True
            )
        ]
        return "\n".join([*lines, f"{self._scope()}, n = {self.n:,}"])

    def _scope(self) -> str:
        scope = "all limits at once" if self.is_simultaneous else "each limit by itself"
        if self.is_simultaneous and self.n_groups > 1:
            scope = f"all limits of {self.n_groups:,} groups at once"
        drawn = ", a random row of each cluster" if self.draws else ""
        return f"{scope} at {100 * self.confidence_level:g}%{drawn}"

    def _summary(self) -> str:
        worst = int(np.argmax(np.abs(self.covered - self.level)))
        return (
            f"{self.level.size:,} levels, n = {self.n:,}; farthest off: level "
            f"{self.level[worst]:g} covers {self.covered[worst]:.4f} in "
            f"[{self.low[worst]:.4f}, {self.high[worst]:.4f}]"
        )


def certify_coverage(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    n_groups: int = 1,
    draws: int | None = None,
) -> CoverageCertificate:
    """Return exact limits of the coverage of quantiles; see `calibrant.certify_coverage`.

    Parameters
    ----------
    n_groups : int
        How many groups, the one of this table included, the limits hold for at once.
    draws : int, optional
        How often one row of each cluster was drawn, where the table is one of these draws.
    """
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    levels, counts, n = _counts(table, "Coverage")
    pairs = central_intervals(levels)
    inside = counts[pairs[:, 1]] - counts[pairs[:, 0]]
    delta = (1 - confidence_level) / (n_groups if simultaneous else 1) / (draws or 1)
    banded = simultaneous and levels.size > MANY_LEVELS
    share = (delta / 2 if banded else delta) / (levels.size + len(pairs) if simultaneous else 1)
    low, high = clopper_pearson(counts, np.array(float(n)), share)
    if banded:
        reach = math.sqrt(math.log(4 / delta) / (2 * n))
        low, high = np.maximum(low, counts / n - reach), np.minimum(high, counts / n + reach)
    interval_low, interval_high = clopper_pearson(inside, np.array(float(n)), share)
    return CoverageCertificate(
        level=levels,
        covered=counts / n,
        low=low,
        high=high,
        interval_level=nominal_coverage(levels, pairs),
        inside=inside / n,
        interval_low=interval_low,
        interval_high=interval_high,
        n=n,
        confidence_level=float(confidence_level),
        is_simultaneous=bool(simultaneous),
        table=table,
        n_groups=n_groups,
        draws=draws,
    )


def central_intervals(levels: FloatArray) -> IntArray:
    """Return the places of the lower and the upper level of each interval, the widest first."""
    pairs = [
        (i, int(np.argmin(np.abs(levels - (1 - level)))))
        for i, level in enumerate(levels)
        if level < 0.5 and np.abs(levels - (1 - level)).min() <= SYMMETRIC
    ]
    return np.array(pairs, np.intp).reshape(-1, 2)


def nominal_coverage(levels: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the nominal coverage of central intervals, rounded so that 0.9 finds that of 90%."""
    return np.round(levels[pairs[:, 1]] - levels[pairs[:, 0]], DECIMALS)


def _counts(table: BinTable, subject: str) -> tuple[FloatArray, FloatArray, int]:
    """Return levels, how many outcomes each covers, and the rows; refuse any other table."""
    if table.problem.kind != "quantile":
        raise InvalidArgumentError(
            f'{subject} is that of predicted quantiles, kind="quantile"; this table is of '
            f'kind="{table.problem.kind}". Pass outcomes, quantiles and classes=their levels.'
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            f"{subject} has exact limits for rows that count alike; this table has sample weights. "
            "Leave them out, or draw rows with probabilities in proportion to the weights."
        )
    levels = np.array(table.problem.class_names, np.float64)
    return levels, table.sum_y.sum(axis=1), table.n


@dataclass(frozen=True, eq=False, repr=False)
class PitHistogram(Result):
    """Outcomes in the cells between predicted quantiles, beside those expected by chance.

    Attributes
    ----------
    left, right : ndarray
        The ends of the cells: levels, from 0 to 1.
    count : ndarray
        Outcomes in each cell.
    density : ndarray
        Their share over the width of the cell: 1 everywhere if the quantiles are calibrated.
    low, high : ndarray
        Between which densities would lie if they were: exact binomial quantiles.
    n : int
    confidence_level : float
    is_simultaneous : bool
        Whether chance leaves all cells within their limits at once, or each by itself.
    """

    left: FloatArray
    right: FloatArray
    count: FloatArray
    density: FloatArray
    low: FloatArray
    high: FloatArray
    n: int
    confidence_level: float
    is_simultaneous: bool

    def __len__(self) -> int:
        return self.count.size

    @property
    def beyond_chance(self) -> BoolArray:
        """The cells that hold more or fewer outcomes than chance allows."""
        return np.asarray((self.density < self.low) | (self.density > self.high))

    def __str__(self) -> str:
        head = f"{'cell':>18} {'rows':>9} {'density':>8}   if calibrated"
        columns = (self.left, self.right, self.count, self.density, self.low, self.high)
        body = [
            f"{('[' if a == 0 else '(') + f'{a:.4g}, {b:.4g}]':>18} {n:>9,.0f} {d:>8.3f}   "
            f"[{low:.3f}, {high:.3f}]{' *' if beyond else ''}"
            for (a, b, n, d, low, high), beyond in zip(
                zip(*columns, strict=True), self.beyond_chance, strict=True
            )
        ]
        return "\n".join([head, *body, self._summary()])

    def _summary(self) -> str:
        n = int(self.beyond_chance.sum())
        return f"{n:,} of {len(self):,} cells beyond chance, n = {self.n:,}"


def pit_histogram(
    table: BinTable, *, confidence_level: float = 0.95, simultaneous: bool = True
) -> PitHistogram:
    """Return the histogram of the PIT between levels; see `calibrant.pit_histogram`."""
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    levels, counts, n = _counts(table, "The PIT histogram")
    ends = np.concatenate(([0.0], levels, [1.0]))
    count, width = np.diff(np.concatenate(([0.0], counts, [n]))), np.diff(ends)
    tail = (1 - confidence_level) / 2 / (count.size if simultaneous else 1)
    size = np.full(count.size, float(n))
    low = binomial_quantile(tail, size, width)
    high = n - binomial_quantile(tail, size, 1 - width)
    return PitHistogram(
        left=ends[:-1],
        right=ends[1:],
        count=count,
        density=count / n / width,
        low=low / n / width,
        high=high / n / width,
        n=n,
        confidence_level=float(confidence_level),
        is_simultaneous=bool(simultaneous),
    )
