"""Rows that come in clusters (patients, prompts, days): estimates, tests, and draws of one of each.

Rows of one cluster may depend on each other in any way; rows of different clusters are independent.
A cell is a bin, of one class of several. With u = y - p, let U_c and N_c be the sum of u and the
number of rows of cluster c in a cell, U and N those of all clusters, and d = U / N. Where rows have
weights, U_c and N_c are sums of w u and of w: nothing below asks that N_c be whole numbers.

**Estimate.** Only pairs of rows of different clusters tell error from chance, so the squared gap of
a cell is estimated by (U^2 - sum U_c^2) / (N^2 - sum N_c^2), and T is the mean over cells. With one
row a cluster it is the debiased square of `calibrant.stats.estimators`.

**Interval.** As for independent rows, (T - t^2)^2 = z^2 (V + s t^2) is solved for t^2, with
Student's z of as many degrees of freedom as a cell has clusters on average, less one. V is the
variance of T without an error: 2 times the sum over pairs of clusters of (x_c . x_c')^2, where x_c
has the entry sqrt(w p / (N^2 - sum N_c^2)) (U_c - N_c d) for each cell of weight w and mass p. s is
J / P, the variance J of what clusters add to the plug-in square P, over P itself: an error t alone
would make J as large as s t^2.

**Test.** If the model is calibrated, every U_c has mean 0, and turning its sign in all cells of a
cluster at random changes T by chance only (a wild bootstrap). The p-value is the share of turned
samples whose T is as large. It is right in the limit of many clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._documents import is_whole
from calibrant._options import generator
from calibrant._scipy import sparse, special
from calibrant._types import FloatArray, IntArray, ReadOnlyArrays
from calibrant.bins import Bins
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    cells_of,
    class_weights,
    error_of,
    power_of,
    ratio,
    raw_error,
)
from calibrant.stats.intervals import SLOPE_CAUTION, solved
from calibrant.table import BinTable

if TYPE_CHECKING:
    from calibrant.stats.hypothesis_tests import CalibrationTestResult

FEWEST = 2  # one cluster has no other to differ from
ROUNDING = 1e-12
"""Of sums of weights: a cell of one cluster has no pairs, though its squares be rounded."""
DRAWN_AT_ONCE = 1 << 22
"""Signs that are drawn at a time."""


@dataclass(frozen=True, eq=False)
class ClusterSums(ReadOnlyArrays):
    """Sums of clusters in cells.

    Attributes
    ----------
    u, size : sparse matrix of shape (clusters, cells)
        Sums of y - p, and numbers of rows; with weights of mean 1, where there are any.
    weight : ndarray of shape (cells,)
        The weight of the class of each cell; they add up to 1 over classes.
    n : int
        The number of rows.
    """

    u: sparse.csr_array
    size: sparse.csr_array
    weight: FloatArray
    n: int

    @classmethod
    def of(
        cls,
        codes: IntArray,
        events: FloatArray,
        predictions: FloatArray,
        bins: tuple[Bins, ...],
        weights: FloatArray,
        row_weights: FloatArray | None = None,
    ) -> ClusterSums:
        """Sum rows, each array of shape (n, classes), by cluster and cell.

        `codes` are 0, 1, 2, ..., all of them used; `weights` are those of classes, `row_weights`
        those of rows, above 0.
        """
        n_clusters, n_bins = int(codes.max()) + 1, max(map(len, bins))
        if n_clusters < FEWEST:
            raise InvalidArgumentError(
                f"Clusters tell chance from error by their differences: at least {FEWEST} are "
                f"needed; got {n_clusters}. If rows are independent, pass cluster=False."
            )
        n, n_classes = events.shape
        pairs = zip(bins, predictions.T, strict=True)
        cells = [cuts.index(p) + k * n_bins for k, (cuts, p) in enumerate(pairs)]
        index = (np.repeat(codes, n_classes), np.column_stack(cells).ravel())
        shape = (n_clusters, n_classes * n_bins)
        w = np.ones(n) if row_weights is None else row_weights / row_weights.mean()
        u = sparse.coo_array(((w[:, None] * (events - predictions)).ravel(), index), shape).tocsr()
        size = sparse.coo_array((np.repeat(w, n_classes), index), shape).tocsr()
        return cls(u, size, np.repeat(weights, n_bins), n)

    @property
    def n_clusters(self) -> int:
        """The number of clusters."""
        return int(self.u.shape[0])

    @property
    def rows(self) -> FloatArray:
        """N of each cell."""
        return np.asarray(self.size.sum(axis=0), float)

    @property
    def gap(self) -> FloatArray:
        """The gap U / N of each cell, 0 where one cluster has all rows."""
        total = np.asarray(self.u.sum(axis=0), float)
        return ratio(total, np.where(self.pairs > 0, self.rows, 0.0))

    @property
    def pairs(self) -> FloatArray:
        """N^2 - sum N_c^2 of each cell, 0 where one cluster has all rows."""
        pairs = self.rows**2 - np.asarray(self.size.power(2).sum(axis=0), float)
        return np.where(pairs > ROUNDING * self.rows**2, pairs, 0.0)

    @property
    def squared(self) -> float:
        """T, which may be negative."""
        total = np.asarray(self.u.sum(axis=0), float)
        square = total**2 - np.asarray(self.u.power(2).sum(axis=0), float)
        used = self.pairs > 0
        return float(np.sum(self._mass[used] * square[used] / self.pairs[used]))

    @property
    def _mass(self) -> FloatArray:
        return self.weight * self.rows / self.n

    def _scaled(self, u: sparse.csr_array) -> sparse.csr_array:
        """Return u times the root of the weight that a pair of rows has in T."""
        return sparse.csr_array(u.multiply(np.sqrt(ratio(self._mass, self.pairs))[None, :]))

    @property
    def per_cell(self) -> float:
        """How many clusters a cell has on average, those with few rows counted in part."""
        squares = np.asarray(self.size.power(2).sum(axis=0), float)
        used = squares > 0
        return float(self._mass[used] @ (self.rows[used] ** 2 / squares[used]))

    def null_variance(self, independent: float) -> float:
        """Return V, and not less than the variance of T if rows were independent."""
        x = self.noise
        squares = np.asarray(x.power(2).sum(axis=1), float)
        pairs = float((x.T @ x).power(2).sum() - (squares**2).sum())
        return max(2 * (self.n_clusters / (self.n_clusters - 1)) ** 2 * pairs, independent)

    @property
    def noise(self) -> sparse.csr_array:
        """x_c: the sums U_c - N_c d of each cluster, scaled."""
        return self._scaled(sparse.csr_array(self.u - self.size.multiply(self.gap[None, :])))

    @property
    def influence(self) -> FloatArray:
        """The contribution of each cluster to the squared error, with the observed gaps."""
        share = self.weight * self.gap / self.n
        return np.asarray(self.u @ (2 * share) - self.size @ (share * self.gap))

    def limits(self, confidence_level: float, independent: float) -> tuple[float, float]:
        """Return the interval of the l2 error; see `null_variance` for `independent`."""
        degrees = max(min(self.per_cell, self.n_clusters) - 1, 1.0)
        z = float(special.stdtrit(degrees, (1 + confidence_level) / 2))
        plug_in = float(self._mass @ self.gap**2)
        j = float(self.influence.var(ddof=1)) * self.n_clusters
        # without any gap, that of `score_interval`: no interval of length 0
        slope = j / plug_in if plug_in > 0 else 4 / self.n_clusters**2
        # chance alone makes J twice V: a cluster holds what it shares with another once for each
        v = max(self.null_variance(independent), slope * (plug_in - self.squared) / 2)
        squared, b = np.asarray(self.squared), np.asarray(z**2 * SLOPE_CAUTION * slope)
        low, high = solved(squared, b, z**2 * v, z**2 * v, -math.sqrt(v))
        return float(low), float(high)

    def test(
        self, n_resamples: int, rng: np.random.Generator | int | None
    ) -> CalibrationTestResult:
        """Test perfect calibration by turning the signs of clusters at random."""
        from calibrant.stats.hypothesis_tests import CalibrationTestResult  # 2 ms of a first call

        random, x = generator("rng", rng), self._scaled(self.u)
        diagonal = float(x.power(2).sum())
        observed, exceedances = float((np.asarray(x.sum(axis=0)) ** 2).sum()), 0
        step = max(1, DRAWN_AT_ONCE // self.n_clusters)
        for start in range(0, n_resamples, step):
            shape = (min(step, n_resamples - start), self.n_clusters)
            turned = (2.0 * random.integers(2, size=shape) - 1) @ x
            # a tie counts, though rounded
            exceedances += int(((turned**2).sum(axis=1) >= observed * (1 - 1e-10)).sum())
        pvalue = (1 + exceedances) / (n_resamples + 1)
        return CalibrationTestResult(observed - diagonal, pvalue, "clustered", self.n)


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
    error = raw_error if debiased else error_of  # clipped errors would often tie
    errors = [float(error(cells_of(table), weights, power, debiased)) for table in tables]
    largest = int(np.argmax(errors))
    # continuous outputs have no upper bound: one draw serves
    return int(np.argmin(errors)) if tables[largest].is_binned_model else largest, largest


def check_draws(
    table: BinTable, lower_table: BinTable | None, drawn: list[int] | None, draws: int | None
) -> None:
    """Refuse tables that are not two draws of the same clusters."""
    if draws is None or drawn is None:
        valid = draws is None and drawn is None
    else:
        is_pair = isinstance(drawn, list) and len(drawn) == 2
        valid = is_pair and all(is_draw(number) and number < draws for number in drawn)
    if not valid:
        raise InvalidArgumentError(
            f"drawn must be two of {draws or 'no'} draws, counted from 0; got {drawn!r:.60}."
        )
    if (lower_table is not None) != (len(set(drawn or ())) == 2):
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
    """Tell whether this can be the number of a draw."""
    from calibrant.stats.questions import MOST_DRAWS  # a millisecond that a first call saves

    return is_whole(number, 0, MOST_DRAWS)
