"""Comparison of two models on the same rows, and of two tables of different rows.

Of models on the same rows, every measure is compared through its difference, a minus b, so that
what both models share cancels.

**Scores.** The Brier score and the log loss are means over rows, so their difference is the mean of
n paired differences, with Student's interval.

**Calibration error.** Let T be the debiased squared l2 error in given bins and u_i = y_i - p_i. Bin
j has N_j rows; u has the mean d_j there, and the true mean m_j. With e_i = u_i - m_j, Hoeffding's
decomposition reads

    T - sum p_j m_j^2 = (1/n) sum (h_i - E h) + W,      h_i = 2 m_j u_i - m_j^2,
    W = (1/n) sum of e_i e_k / (N_j - 1) over pairs of different rows of the same bin.

The first part counts where the model is off, and W where it is not. Given the bins of a, the e_i
of a are independent with mean zero, so that W_a is uncorrelated with any sum over rows, such as
the first parts of a and b. The same holds for b. Hence

    Var(T_a - T_b) = Var(h_a - h_b) / n + V,
    V = Var(W_a - W_b) = E (1/n^2) sum over pairs of 2 (w_a - w_b)^2,      w = e_i e_k / (N_j - 1),

with w = 0 for rows of different bins. Only d_j is known, not m_j. Its noise adds 2V to the observed
Var(h_a - h_b) / n on average, so that this is too large by V on average, calibrated or not: the
interval is conservative. Where the d_j are small by luck it could be too small; V with d_j for
m_j is therefore its floor. If both models sort the rows into the same bins and predict one
number in each, W_a = W_b, V = 0, and the difference is that of the Brier scores.

The target is the error in these bins: for continuous predictions a part of the whole. Bins of one
row are left out. No interval is exact: in simulation they cover from 300 rows and 100 events on, up
to 1.5 points below the nominal level, and with fewer events (32 among 1,000 rows) up to 3.

**Clusters.** Where rows of a cluster depend on each other, scores and influences are added over the
rows of each cluster first, T counts pairs of different clusters only, and so does V; see
`calibrant.stats.clusters`.

**Two tables whose rows are not the same**: two weeks, two regions. The debiased squared error of
one has Var T = Var(h) / n + V with V = (2 / n^2) sum of (e_i e_k)^2 / (N_j - 1)^2 over pairs of
different rows of a bin. With d_j for m_j the first term is a function of the sums of a bin, and too
large by V on average; V, with (sum of e_i^2)^2 in place of the sum over pairs, which is a little
larger, is its floor. Rows of different tables are independent, so variances add up. Classes of one
table depend on each other in a way that no table knows: their standard deviations are added, the
largest sum that they can have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._bins_argument import as_bin_rule, bins_one_by_one
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.bins import Bins, BinsLike
from calibrant.exceptions import (
    EmptyInputError,
    IncompatibleTablesError,
    InvalidShapeError,
    InvalidWeightsError,
)
from calibrant.stats.clusters import ClusterSums
from calibrant.stats.comparison_results import (
    Comparison,
    Difference,
    TableComparison,
    difference,
    rarer,
    short_of,
)
from calibrant.stats.estimators import ClassWeight, cells_of, class_weights, raw_error
from calibrant.stats.intervals import check_level
from calibrant.table import BinTable, describe_bins

CLIP = 1e-12
"""Probabilities count as at least this far from 0 and 1 in a log loss, which is then finite."""


def compare_errors(
    y: FloatArray,
    p_a: FloatArray,
    p_b: FloatArray,
    *,
    y_b: FloatArray | None = None,
    bins_a: BinsLike = "auto",
    bins_b: BinsLike = "auto",
    weights: FloatArray | None = None,
    confidence_level: float = 0.95,
    clusters: IntArray | None = None,
    one_label: bool = True,
) -> Comparison:
    """Compare two models on the same rows: calibration error, Brier score and log loss.

    Parameters
    ----------
    y, p_a, p_b : ndarray of shape (n,) or (n, K)
        Events, 0 or 1, and predictions of either model; for K classes, or other events of a row,
        one column each.
    y_b : ndarray, optional
        Events of model b where they differ from those of a: top-label problems, where the
        event is that the model's own choice was right.
    bins_a, bins_b, confidence_level
        As in `calibrant.compare`; bins are chosen for each class from its predictions.
    weights : ndarray of shape (K,), optional
        Importance of each class, adding up to 1, for calibration error and Brier score.
    clusters : ndarray of shape (n,), optional
        The number of each row's cluster; rows of one may depend on each other.
    one_label : bool
        Whether every row has exactly one of the labels (one-hot).

    Notes
    -----
    Rows, or clusters, must be independent. Predictions are clipped to [1e-12, 1 - 1e-12] for the
    log loss, so one row can cost 27.6 at most. The log loss of several classes is that of the
    label's probability, which is a proper score where rows add up to 1; that of several labels or
    thresholds, without `one_label`, is the mean over events of the binary log loss.

    Examples
    --------
    >>> from calibrant import Distinct
    >>> rng = np.random.default_rng(0)
    >>> q = rng.integers(1, 10, size=2000) / 10
    >>> y = (rng.uniform(size=2000) < q).astype(float)
    >>> result = compare_errors(y, q, q**2, bins_a=Distinct(), bins_b=Distinct())
    >>> result.squared_error.verdict
    'a is better'
    """
    check_level(confidence_level)
    a, b = _Model.of(y, p_a, bins_a), _Model.of(y if y_b is None else y_b, p_b, bins_b)
    if a.y.shape != b.y.shape:
        raise InvalidShapeError(
            f"Both models must predict the same rows and classes; got {a.y.shape} and {b.y.shape}."
        )
    w = _class_weights(weights, a.y.shape[1])
    codes = None if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units = len(a.y) if codes is None else int(codes.max()) + 1
    reach = float(special.stdtrit(max(units - 1, 1), (1 + confidence_level) / 2))
    if codes is None:
        squared = _squared_error(a, b, w, reach)
    else:
        squared = _clustered_squared_error(a, b, w, reach, codes)
    return Comparison(
        squared,
        _mean_difference(a.brier(w), b.brier(w), reach, codes),
        _mean_difference(a.log_loss(w, one_label), b.log_loss(w, one_label), reach, codes),
        len(a.y),
        confidence_level,
        None if codes is None else units,
        short_of(len(a.y), min(rarer(m.y.sum(axis=0), len(m.y), one_label) for m in (a, b))),
    )


@dataclass(frozen=True, eq=False)
class _Model:
    """Events and predictions of one model, one column a class, and the bins of each class."""

    y: FloatArray
    p: FloatArray
    bins: tuple[Bins, ...]

    @classmethod
    def of(cls, y: FloatArray, p: FloatArray, bins: BinsLike) -> _Model:
        y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
        if y.shape != p.shape or y.ndim not in (1, 2):
            raise InvalidShapeError(
                "Events and predictions must have one shape, (n,) or (n, K); "
                f"got {y.shape} and {p.shape}."
            )
        if y.shape[0] < 2:
            raise EmptyInputError(f"A comparison needs at least 2 rows; got {y.shape[0]}.")
        y, p = y.reshape(len(y), -1), p.reshape(len(y), -1)
        rule = bins_one_by_one(bins, p.shape[1]) or as_bin_rule(bins, len(p))
        if isinstance(rule, Bins):
            rule = (rule,) * p.shape[1]
        elif not isinstance(rule, tuple):
            distinct = [np.unique(column, return_counts=True) for column in p.T]
            rule = tuple(rule.choose(level, count.astype(float)) for level, count in distinct)
        return cls(y, p, rule)

    def brier(self, weights: FloatArray) -> FloatArray:
        return np.asarray((self.y - self.p) ** 2 @ weights)

    def log_loss(self, weights: FloatArray, one_label: bool) -> FloatArray:
        p = np.clip(self.p, CLIP, 1 - CLIP)
        loss = -self.y * np.log(p)
        if one_label and p.shape[1] > 1:
            return np.asarray(loss.sum(axis=1))
        return np.asarray((loss - (1 - self.y) * np.log1p(-p)) @ weights)

    def groups(self) -> list[BinnedResiduals]:
        return list(map(BinnedResiduals.of, self.y.T, self.p.T, self.bins))


def _class_weights(weights: FloatArray | None, n_classes: int) -> FloatArray:
    if weights is None:
        return np.full(n_classes, 1 / n_classes)
    w = np.asarray(weights, np.float64)
    if w.shape != (n_classes,) or not (w >= 0).all() or not math.isclose(w.sum(), 1):
        raise InvalidWeightsError(
            f"weights must be {n_classes} numbers that are not negative and add up to 1; "
            f"got shape {w.shape}, sum {w.sum():g}."
        )
    return w


def _mean_difference(
    a: FloatArray, b: FloatArray, reach: float, clusters: IntArray | None
) -> Difference:
    """Compare two means over the same rows."""
    d = a - b
    value = float(d.mean())
    if clusters is None:
        spread = float(d.std(ddof=1)) / math.sqrt(d.size)
    else:  # that of the sum over clusters of their own sums
        sums = np.bincount(clusters, d - value)
        spread = float(sums.std(ddof=1)) * math.sqrt(sums.size) / d.size
    return difference(float(a.mean()), float(b.mean()), value, spread, reach)


def _clustered_squared_error(
    a: _Model, b: _Model, weights: FloatArray, reach: float, clusters: IntArray
) -> Difference:
    """Compare the squared errors as estimated from pairs of different clusters."""
    sums_a, sums_b = (ClusterSums.of(clusters, m.y, m.p, m.bins, weights) for m in (a, b))
    influence = sums_a.influence - sums_b.influence
    spread = float(influence.std(ddof=1)) * math.sqrt(influence.size)
    x, z = sums_a.noise, sums_b.noise
    squares = np.asarray(x.power(2).sum(axis=1) - z.power(2).sum(axis=1), float)
    shared = [float((p.T @ q).power(2).sum()) for p, q in ((x, x), (z, z), (x, z))]
    floor = 2 * (shared[0] + shared[1] - 2 * shared[2] - float((squares**2).sum()))
    spread = max(spread, math.sqrt(max(floor, 0.0)))
    value = sums_a.squared - sums_b.squared
    return difference(sums_a.squared, sums_b.squared, value, spread, reach)


def _squared_error(a: _Model, b: _Model, weights: FloatArray, reach: float) -> Difference:
    """Compare the debiased squared errors; what pairs of rows add is a floor of the spread.

    Influences are added over the classes of a row, which keeps their dependence. Standard
    deviations of the pair parts are added over classes, their largest possible sum.
    """
    groups_a, groups_b = a.groups(), b.groups()
    influence, floor = np.zeros(len(a.y)), 0.0
    for w, group_a, group_b in zip(weights, groups_a, groups_b, strict=True):
        influence += w * (group_a.influence - group_b.influence)
        floor += w * math.sqrt(pair_variance(group_a, group_b))
    square_a = float(weights @ [group.squared for group in groups_a])
    square_b = float(weights @ [group.squared for group in groups_b])
    spread = max(float(influence.std(ddof=1)) / math.sqrt(influence.size), floor)
    return difference(square_a, square_b, square_a - square_b, spread, reach)


@dataclass(frozen=True, eq=False)
class BinnedResiduals:
    """Rows of one class in their bins: u = y - p, the bin of each row, rows and gap of each bin."""

    u: FloatArray
    cell: IntArray
    size: FloatArray
    gap: FloatArray

    @classmethod
    def of(cls, y: FloatArray, p: FloatArray, bins: Bins) -> BinnedResiduals:
        """Put the rows of one class into bins."""
        _, cell = np.unique(bins.index(p), return_inverse=True)
        u, size = y - p, np.bincount(cell).astype(np.float64)
        return cls(u, cell, size, np.where(size > 1, np.bincount(cell, u) / size, 0.0))

    @property
    def squared(self) -> float:
        """The debiased squared error T; bins of one row count nothing."""
        pairs = (self.size * self.gap) ** 2 - np.bincount(self.cell, self.u**2)
        return float(np.sum(pairs[self.size > 1] / (self.size[self.size > 1] - 1)) / self.u.size)

    @property
    def influence(self) -> FloatArray:
        """h_i with the observed gaps."""
        gap = self.gap[self.cell]
        return np.asarray(2 * gap * self.u - gap**2)

    @property
    def noise(self) -> FloatArray:
        """e_i / sqrt(N_j - 1), 0 in bins of one row."""
        share = np.where(self.size > 1, 1 / np.sqrt(np.maximum(self.size - 1, 1)), 0.0)
        return np.asarray((self.u - self.gap[self.cell]) * share[self.cell])


def pair_variance(a: BinnedResiduals, b: BinnedResiduals) -> float:
    """Return V = V_a + V_b - 2 C, each the sum of products over pairs that share their cells."""
    joint_cell = np.unique(a.cell * b.size.size + b.cell, return_inverse=True)[1]
    v_a, v_b = _pair_products(a.noise**2, a.cell), _pair_products(b.noise**2, b.cell)
    return max(v_a + v_b - 2 * _pair_products(a.noise * b.noise, joint_cell), 0.0)


def _pair_products(q: FloatArray, cell: IntArray) -> float:
    """Return (2 / n^2) times the sum of q_i q_k over pairs of different rows of a cell."""
    pairs = np.bincount(cell, q) ** 2 - np.bincount(cell, q**2)
    return float(2 * pairs.sum() / q.size**2)


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
    The difference is T_a - T_b of the debiased squares; its variance is the sum of theirs.

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
    for table in (a, b):
        _check_table(table)
    kinds = [(table.problem.kind, table.problem.n_classes) for table in (a, b)]
    if kinds[0] != kinds[1]:
        raise IncompatibleTablesError(
            "Only errors of one kind, with as many classes, can be compared; these are "
            f"{kinds[0][0]} of {kinds[0][1]:,} classes and {kinds[1][0]} of {kinds[1][1]:,}."
        )
    (square_a, spread_a), (square_b, spread_b) = (
        _square_and_spread(table, class_weights(class_weight, table.problem)) for table in (a, b)
    )
    fewest = min(a.n, b.n)
    reach = float(special.stdtrit(fewest - 1, (1 + confidence_level) / 2))
    spread = math.hypot(spread_a, spread_b)
    squared = difference(square_a, square_b, square_a - square_b, spread, reach)
    events = min(rarer(t.sum_y.sum(axis=1), t.n, t.problem.kind == "marginal") for t in (a, b))
    bins = describe_bins(a), describe_bins(b)
    notes = short_of(fewest, events)
    return TableComparison(squared, a.n, b.n, *bins, confidence_level, notes)


def _check_table(table: object) -> None:
    if not isinstance(table, BinTable):
        raise IncompatibleTablesError(
            f"compare_tables takes two tables, such as tabulate makes; got {type(table)}."
        )
    if table.n < 2:
        raise EmptyInputError(f"A comparison needs at least 2 rows in each table; got {table.n}.")
    if table.is_weighted:
        raise InvalidWeightsError(
            "A comparison counts independent rows, and a table here has sample weights. Count "
            "without them."
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
