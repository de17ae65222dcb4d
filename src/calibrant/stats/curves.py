"""The reliability curve: event rates beside predictions, with limits.

Consistency limits say where event rates would lie if the predictions were calibrated (Broecker,
Smith, 2007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant._options import check_flag
from calibrant._results import Result, shown_chance
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.bins import Bins
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Label, Problem
from calibrant.stats.estimators import cells_of, error_of
from calibrant.stats.intervals import Limits, check_level, clopper_pearson
from calibrant.table import SUMS, WEIGHT_SUMS, BinTable

CurveMethod: TypeAlias = Literal["bins", "isotonic", "spline", "loess"]
LINES = 11
"""Points of a curve without bins that are printed."""
MOST_BINS_DRAWN = 200
"""More points than these overlap on a screen."""


def reliability_curve(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    class_label: Label | None = None,
) -> ReliabilityCurve:
    """Return event rates beside predictions of each bin; see `calibrant.reliability_curve`."""
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    group = group_of(table.problem, class_label)
    cells = cells_of(table)
    used = np.flatnonzero(table.count[group])
    alpha = 1 - confidence_level
    alpha = -np.expm1(np.log1p(-alpha) / used.size) if simultaneous else alpha
    rate, size = cells.rate[group, used], cells.size[group, used]
    low, high = clopper_pearson(rate * size, size, alpha)
    edges = table.bins[group].edges
    return ReliabilityCurve(
        count=table.count[group, used],
        mean_prediction=cells.mean[group, used],
        event_rate=rate,
        low=low,
        high=high,
        left=edges[used],
        right=edges[used + 1],
        confidence_level=confidence_level,
        is_simultaneous=simultaneous,
    )


@dataclass(frozen=True, eq=False, repr=False)
class ReliabilityCurve(Result):
    """Event rates beside mean predictions, bin by bin.

    Arrays have one value per occupied bin, in rising order of predictions.

    Attributes
    ----------
    count : ndarray
        Rows in the bin.
    mean_prediction, event_rate : ndarray
        Weighted means of predictions and events.
    low, high : ndarray
        Clopper-Pearson limits of the event rate; they do not collapse where all rows agree.
    left, right : ndarray
        The edges of the bin.
    confidence_level : float
    is_simultaneous : bool
        Whether the limits hold in all bins at once (Sidak), or in each bin by itself.
    method : {"bins", "isotonic", "spline", "loess"}
        Of a curve without bins `mean_prediction` are predictions at which it is given, and left and
        right half way to the next; see `calibrant.stats.smooth_curves`.
    pvalue : float or None
        Of a curve without bins, that of a calibrated model.
    """

    count: FloatArray
    mean_prediction: FloatArray
    event_rate: FloatArray
    low: FloatArray
    high: FloatArray
    left: FloatArray
    right: FloatArray
    confidence_level: float
    is_simultaneous: bool
    method: str = "bins"
    pvalue: float | None = None

    def __len__(self) -> int:
        return self.count.size

    def __str__(self) -> str:
        columns = zip(self.mean_prediction, self.event_rate, self.low, self.high, strict=True)
        rates = [f"{p:>10.4f} {y:>10.4f}   [{low:.4f}, {high:.4f}]" for p, y, low, high in columns]
        if self.method == "bins":
            head = f"{'bin':>18} {'rows':>10} {'predicted':>10} {'happened':>10}   interval"
            bins = zip(self.left, self.right, self.count, rates, strict=True)
            body = [
                f"{('(' if a > 0 else '[') + f'{a:.4f}, {b:.4f}]':>18} {n:>10,.0f} {rate}"
                for a, b, n, rate in bins
            ]
            return "\n".join([head, *body])
        # a few points, which stand for about equally many rows
        shown = np.unique(np.linspace(0, len(self) - 1, LINES).round().astype(int))
        lines = [f"{'predicted':>10} {'happens':>10}   interval", *(rates[i] for i in shown)]
        lines.append(self._summary())
        if self.pvalue is not None:
            lines.append(f"  {shown_chance(self.pvalue, 3)} if calibrated")
        return "\n".join(lines)

    def _summary(self) -> str:
        in_bins = self.method == "bins"
        unit = "bin" if in_bins else "point"
        curve = f"{len(self):,} bins" if in_bins else f"{self.method} curve"
        where = f"all {unit}s at once" if self.is_simultaneous else f"each {unit} by itself"
        limits = f"{100 * self.confidence_level:g}% limits in {where}"
        return f"{curve}, n = {self.count.sum():,.0f}, {limits}"

    def _picture(self) -> str:
        from calibrant._svg import diagram_svg

        return diagram_svg(self) if len(self) <= MOST_BINS_DRAWN else ""


def diagram_of(table: BinTable, confidence_level: float = 0.95) -> str:
    """Return the reliability diagram of a table for notebooks; of several classes, the worst one's.

    Classes are ordered by their debiased l2 error. Neighbouring bins are joined where there are
    more than a picture can show.
    """
    from calibrant._svg import diagram_svg

    worst = None
    if table.problem.is_marginal:
        errors = error_of(cells_of(table).one_class_each, np.ones(1), 2.0, True)
        worst = table.problem.group_names[int(np.argmax(errors))]
    drawn = join_bins(table, MOST_BINS_DRAWN)
    curve = reliability_curve(drawn, confidence_level=confidence_level, class_label=worst)
    return diagram_svg(curve, None if worst is None else str(worst))


def join_bins(table: BinTable, most_bins: int) -> BinTable:
    """Join neighbouring bins of each group until at most this many are left."""
    if max(map(len, table.bins)) <= most_bins:
        return table
    sizes = [(len(bins), min(len(bins), most_bins)) for bins in table.bins]
    starts = [np.arange(fewer) * n // fewer for n, fewer in sizes]
    bins = tuple(
        Bins(np.append(old.edges[start], 1.0), old.origin, old.rule)
        for old, start in zip(table.bins, starts, strict=True)
    )

    def sums(values: FloatArray) -> FloatArray:
        out = np.zeros((len(starts), most_bins))
        for group, (old, start) in enumerate(zip(table.bins, starts, strict=True)):
            out[group, : start.size] = np.add.reduceat(values[group, : len(old)], start)
        return out

    columns = {name: sums(getattr(table, name)) for name in (*SUMS, *WEIGHT_SUMS)}
    level = np.full(columns["count"].shape, np.nan)
    return BinTable(table.problem, bins, **columns, level=level)


def consistency_limits(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    class_label: Label | None = None,
) -> Limits:
    """Return the limits between which event rates would lie if the predictions were calibrated.

    Quantiles of Bin(N_j, s_j) / N_j in each occupied bin, where s_j is the mean prediction: exact
    in bins of one distinct prediction, and a little wide in others, where the number of events
    varies less than a binomial one does (Hoeffding, 1956). The parameters are those of
    `calibrant.reliability_curve`, whose occupied bins these are; with sample weights N_j is the
    effective number of rows, rounded down.

    Examples
    --------
    >>> from calibrant import Distinct, tabulate
    >>> table = tabulate([0, 1] * 50, [0.5] * 100, bins=Distinct())
    >>> consistency_limits(table)
    (array([0.4]), array([0.6]))
    """
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    group = group_of(table.problem, class_label)
    used = np.flatnonzero(table.count[group])
    tail = (1 - confidence_level) / 2
    if simultaneous:
        tail = -np.expm1(np.log(confidence_level) / used.size) / 2
    cells = cells_of(table)
    # an effective number that is whole but for rounding stays that number
    size = np.maximum(np.floor(cells.size[group, used] * (1 + 1e-12)), 1.0)
    mean = np.clip(cells.mean[group, used], 0.0, 1.0)
    misses = binomial_quantile(tail, size, 1 - mean)
    return binomial_quantile(tail, size, mean) / size, 1 - misses / size


def binomial_quantile(chance: float, size: FloatArray, p: FloatArray) -> FloatArray:
    """Return the least k with P(Bin(size, p) <= k) >= chance."""
    inner = np.clip(p, 1e-300, 1 - 1e-16)
    k = np.clip(np.ceil(np.nan_to_num(special.bdtrik(chance, size, inner))), 0.0, size)
    below = np.maximum(k - 1, 0.0)
    k = np.where(special.betainc(size - below, below + 1, 1 - inner) >= chance, below, k)
    return np.where(p <= 0, 0.0, np.where(p >= 1, size, k))


def group_of(problem: Problem, class_label: Label | None) -> int:
    """Return the row of a table that holds a class; 0 where there is one group only."""
    if not problem.is_marginal:
        if class_label is not None:
            raise InvalidArgumentError(
                'class_label applies to kind="marginal" and other problems of several events; this '
                f'problem is "{problem.kind}".'
            )
        return 0
    names = problem.group_names
    if not isinstance(class_label, str | int | float) or class_label not in names:
        raise InvalidArgumentError(
            f"class_label must be one of the {problem.parts} {names!r:.80}; got {class_label!r}. "
            "Name one; ReliabilityDisplay.grid draws a panel for each."
        )
    return names.index(class_label)
