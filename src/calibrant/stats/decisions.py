"""Decision curves: the net benefit of acting on predictions, at every threshold of acting.

Acting where p >= t values a false alarm at w = t / (1 - t) events found: at p = t the two choices
are then worth the same. In units of events found, a row's benefit is 1 for an event
that is acted on, -w for a false alarm and 0 where nothing is done, and

    net benefit(t) = TP / n - w FP / n

is its mean. Acting on everybody has the mean with all events found and all others alarmed; acting
on nobody has 0. A model is useful at t where it beats both. Against acting on everybody a row
gains w if it is rightly left alone, and loses 1 if it is an event that was missed, so that this
difference is w TN / n - FN / n.

**Intervals**, at one threshold, are of the difference of two shares of one multinomial: Clopper and
Pearson's limits of each are put together as their variances would be, with their correlation (Zou
and Donner's method of variance estimates recovery). They have a width where an outcome was never
seen, and lean to the side where a rare one may be. With Wilson's limits they covered down to 90%
at a nominal 95% where few events are missed; docs/coverage.md has how often they hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._results import Result, filled
from calibrant._types import BoolArray, FloatArray
from calibrant.bins import Bins
from calibrant.exceptions import EmptyInputError, InvalidArgumentError, InvalidWeightsError
from calibrant.stats.intervals import check_level, clopper_pearson

if TYPE_CHECKING:
    from calibrant.table import BinTable

THRESHOLDS = tuple(k / 100 for k in range(1, 100))
"""Where to act by default: every hundredth."""


def decision_bins(thresholds: Any = None) -> tuple[FloatArray, Bins]:
    """Return thresholds, and bins such that rows with p >= t lie in those above one edge."""
    requested = THRESHOLDS if thresholds is None else thresholds
    values = np.empty(0)
    with suppress(TypeError, ValueError, OverflowError):
        values = np.unique(np.asarray(requested, np.float64))
    # Bins hold their upper edge: p >= t is p > the float before t.
    edges = np.nextafter(values, 0)
    if not values.size or not np.all((edges > 0) & (values < 1)):
        raise InvalidArgumentError(
            "thresholds must be probabilities above 0 and below 1, from which on one acts; got "
            f"{requested!r:.60}. Leave them out for every hundredth."
        )
    return values, Bins(np.concatenate([[0.0], edges, [1.0]]))


@dataclass(frozen=True, eq=False, repr=False)
class DecisionCurve(Result):
    """Net benefit of acting where the prediction is at least a threshold.

    Attributes
    ----------
    threshold : ndarray
        In rising order.
    net_benefit, low, high : ndarray
        Of the model, with the limits of its interval; acting on nobody has 0.
    treat_all : ndarray
        Net benefit of acting on everybody.
    gain, gain_low, gain_high : ndarray
        By how much the model exceeds acting on everybody, with limits.
    n, n_events : int
    confidence_level : float
        Of the intervals, at each threshold by itself.
    """

    threshold: FloatArray
    net_benefit: FloatArray
    low: FloatArray
    high: FloatArray
    treat_all: FloatArray
    gain: FloatArray
    gain_low: FloatArray
    gain_high: FloatArray
    n: int
    n_events: int
    confidence_level: float

    @property
    def useful(self) -> BoolArray:
        """Where the model beats acting on everybody and on nobody, beyond chance."""
        return np.asarray((self.low > 0) & (self.gain_low > 0))

    @property
    def alarms_saved(self) -> FloatArray:
        """False alarms saved against acting on everybody, for each 100 rows, events found alike."""
        return np.asarray(100 * self.gain * (1 - self.threshold) / self.threshold)

    def _summary(self) -> str:
        places, span = np.flatnonzero(self.useful), "at no threshold"
        if places.size:
            low, high = self.threshold[places[[0, -1]]]
            gaps = ", with gaps" * bool(places[-1] - places[0] >= places.size)
            span = f"at thresholds from {low:g} to {high:g}{gaps}"
        level = f"{100 * self.confidence_level:g}%"
        finding = "better than acting on everybody and on nobody"
        return f"{finding} {span} ({level} each), n = {self.n:,}"

    def __str__(self) -> str:
        head = f"{'threshold':<11}{'net benefit':<30}everybody"
        lines = [filled(self._summary()), head]
        for i in np.unique(np.linspace(0, self.threshold.size - 1, 9).round().astype(int)):
            model = f"{self.net_benefit[i]:.4f} [{self.low[i]:.4f}, {self.high[i]:.4f}]"
            lines.append(f"{self.threshold[i]:<11g}{model:<30}{self.treat_all[i]:.4f}")
        return "\n".join(lines)

    def _facts(self) -> Iterator[tuple[str, str]]:
        yield "rows, events", f"{self.n:,}, {self.n_events:,}"
        yield "useful", self._summary().partition(" (")[0]


def decision_curve(
    table: BinTable, threshold: FloatArray, *, confidence_level: float = 0.95
) -> DecisionCurve:
    """Return net benefits at thresholds that are edges; see `calibrant.decision_curve`."""
    check_level(confidence_level)
    if table.problem.is_marginal:
        raise InvalidArgumentError(
            "A decision is about one event; this table is of "
            f'kind="{table.problem.kind}". Pass the column of one event.'
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            "Net benefits count independent rows; this table has sample weights. Leave them out."
        )
    if table.n == 0:
        raise EmptyInputError("Net benefits need rows; this table has none.")
    edges = table.bins[0].edges
    place = np.searchsorted(edges[:-1], np.nextafter(threshold, 0))
    events, others = table.sum_y[0], table.count[0] - table.sum_y[0]
    true_alarms, false_alarms = (x[::-1].cumsum()[::-1][place] for x in (events, others))
    n, w = table.n, threshold / (1 - threshold)
    missed, left_alone = events.sum() - true_alarms, others.sum() - false_alarms
    alpha = 1 - confidence_level
    low, benefit, high = _difference(true_alarms, false_alarms, 1.0, w, n, alpha)
    gain_low, gain, gain_high = _difference(left_alone, missed, w, 1.0, n, alpha)
    return DecisionCurve(
        threshold=threshold,
        net_benefit=benefit,
        low=low,
        high=high,
        treat_all=(events.sum() - w * others.sum()) / n,
        gain=gain,
        gain_low=gain_low,
        gain_high=gain_high,
        n=n,
        n_events=round(float(events.sum())),
        confidence_level=float(confidence_level),
    )


def _difference(
    a: FloatArray, b: FloatArray, u: Any, w: Any, n: int, alpha: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return lower limit, estimate and upper limit of ``(u a - w b) / n``, two outcomes' counts."""
    (low_a, high_a), (low_b, high_b) = (clopper_pearson(x, np.array(n), alpha) for x in (a, b))
    a, b = a / n, b / n
    # Of two outcomes of one row at most one happens; where one always does, the other never.
    complement = (1 - a) * (1 - b)
    r = np.where(complement > 0, -np.sqrt(a * b / np.maximum(complement, 1e-300)), -1.0)
    value = u * a - w * b

    def reach(of_a: FloatArray, of_b: FloatArray) -> FloatArray:
        x, y = u * of_a, w * of_b
        return np.asarray(np.sqrt(x**2 + y**2 - 2 * np.maximum(r, -1.0) * x * y))

    return value - reach(a - low_a, high_b - b), value, value + reach(high_a - a, b - low_b)
