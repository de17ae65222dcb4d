"""Selective prediction: how often the model is right where it is confident.

A row is accepted if its confidence exceeds a threshold t. Of a top-label problem the confidence is
the probability of the top label, and a row is right if that is its label. Of a binary problem it
is max(p, 1 - p), so rows with p > t or p < 1 - t are accepted, and a row is right if it is on the
likelier side; of a table whose bins end at 1 - t, rows at that very edge are accepted as well.
If p is the confidence in an answer that was given, and the event that it was right, the answer
cannot be reversed: the confidence is p, also below one half.

**Accuracy above a threshold** that was fixed before the labels is a binomial rate given the number
of accepted rows, so Clopper and Pearson's limits are exact. Limits at m thresholds hold all at
once at level 1 - delta if each has delta / m (Bonferroni). Neighbouring thresholds share most
rows, so this is cautious; and it holds for a threshold chosen after looking at the curve.

**AURC**, the area under the risk-coverage curve, is the mean over k of the share of errors among
the k most confident rows; among equally confident rows (of one bin) it is the mean over their
orders. In the limit it is E[wrong * (-log C)], where C is the share of rows at least as confident.
A row adds to it by its own error, and by standing before others: with E' over another row that is
at most as confident, its influence is h = wrong * (-log C) - E'[wrong' / C']. The variance v of h
is taken to grow with the area, v = c a, as that of a share does while errors are rare: the
interval has all areas a that are within z standard deviations, (c a / n)^(1/2), of the estimate
(Wilson's idea). One more error, as likely at any row, is added in c, so there is an interval
without any error. Normal limits covered 70% at a nominal 95% with three errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._options import check_flag, is_real
from calibrant._results import Result, statement
from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray
from calibrant.bins import Bins
from calibrant.exceptions import EmptyInputError, InvalidArgumentError, InvalidWeightsError
from calibrant.stats.intervals import ConfidenceInterval, check_level, clopper_pearson

if TYPE_CHECKING:
    from calibrant.table import BinTable

THRESHOLDS = (*(k / 100 for k in range(100)), *(1 - 0.01 * 10 ** (-k / 5) for k in range(1, 16)))
"""Thresholds by default: every hundredth, then ever closer to 1, to within 1e-5. More
would widen the simultaneous band: ten times as many by a sixth."""
SHOWN = np.array([1.0, 0.9, 0.75, 0.5, 0.25, 0.1])
"""Coverages whose nearest thresholds are printed."""


def confidence_bins(kind: str, thresholds: Any = None) -> Bins:
    """Return bins whose edges are the thresholds, and of a binary problem 1 less them too."""
    requested = THRESHOLDS if thresholds is None else thresholds
    values = np.empty(0)
    with suppress(TypeError, ValueError, OverflowError):
        values = np.unique(np.asarray(requested, np.float64))
    if not values.size or not np.all((values >= 0) & (values < 1)):
        raise InvalidArgumentError(
            "thresholds must be numbers of at least 0 and less than 1, above which rows are "
            f"accepted; got {requested!r:.60}. Leave them out for a fine grid."
        )
    if kind == "binary":
        values = values[values > 0.5]
        # p = 1 - t has the confidence t, which is not above t: bins hold their upper edge
        values = np.concatenate([values, 1 - np.nextafter(values, 1), [0.5]])
    return Bins(np.unique(np.concatenate([[0.0], values, [1.0]])))


@dataclass(frozen=True, repr=False)
class SelectiveCertificate(Result):
    """How often the model is right above a confidence, at least.

    Attributes
    ----------
    threshold : float
        Rows are accepted above it.
    lower_bound : float
        With probability `confidence_level`, at least this share of accepted rows is right.
    accuracy, coverage : float
        Shares seen: of accepted rows that are right, and of rows that are accepted.
    n_accepted, n : int
    confidence_level : float
    simultaneous : bool
        Whether the statement holds for all thresholds at once, also one chosen afterwards.
    assumptions : list of str
    """

    threshold: float
    lower_bound: float
    accuracy: float
    coverage: float
    n_accepted: int
    n: int
    confidence_level: float
    simultaneous: bool
    assumptions: list[str]

    def __str__(self) -> str:
        return statement(self._summary(), self.assumptions)

    def _summary(self) -> str:
        level = f"{100 * self.confidence_level:g}% confidence"
        every = ", at all thresholds at once" if self.simultaneous else ""
        bound = f"at least {100 * self.lower_bound:.1f}% are right"
        return (
            f"above {self.threshold:g} confidence, {bound} "
            f"({level}{every}); {100 * self.coverage:.1f}% of {self.n:,} rows were accepted, "
            f"{100 * self.accuracy:.1f}% of these {self.n_accepted:,} were right"
        )


@dataclass(frozen=True, eq=False, repr=False)
class SelectiveCurve(Result):
    """Accuracy of the rows above each threshold of confidence.

    Attributes
    ----------
    threshold : ndarray
        In rising order; above each some row is accepted. At the lowest all rows are, those whose
        confidence is no higher included.
    count, correct : ndarray
        Rows that are accepted above it, and how many of them are right.
    low, high : ndarray
        Limits of the accuracy in the population, all at once.
    n_thresholds : int
        Over how many thresholds the limits hold at once, those without rows included.
    aurc : float
        The area under the risk-coverage curve: less is better.
    aurc_interval : ConfidenceInterval
    n : int
    confidence_level : float
    kind : {"binary", "top-label"}
    """

    threshold: FloatArray
    count: FloatArray
    correct: FloatArray
    low: FloatArray
    high: FloatArray
    n_thresholds: int
    aurc: float
    aurc_interval: ConfidenceInterval
    n: int
    confidence_level: float
    kind: str

    @property
    def coverage(self) -> FloatArray:
        """The share of rows that are accepted."""
        return np.asarray(self.count / self.n)

    @property
    def accuracy(self) -> FloatArray:
        """The share of accepted rows that are right."""
        return np.asarray(self.correct / self.count)

    @property
    def excess_aurc(self) -> float:
        """By how much the area exceeds that of a model whose errors are its least sure answers."""
        error = 1 - float(self.correct[0] / self.n)
        best = error + (1 - error) * math.log1p(-error) if error < 1 else 1.0
        return self.aurc - best

    def certificate(self, threshold: float, *, simultaneous: bool = True) -> SelectiveCertificate:
        """Bound from below how often the model is right above a threshold.

        Parameters
        ----------
        threshold : float
            One of `threshold`: where rows were counted.
        simultaneous : bool
            False only if the threshold was fixed before these labels were looked at: then the
            whole error probability is spent on it.

        Examples
        --------
        >>> from calibrant import selective_curve
        >>> rng = np.random.default_rng(0)
        >>> p = rng.uniform(size=10_000)
        >>> curve = selective_curve(rng.uniform(size=10_000) < p, p)
        >>> print(repr(curve.certificate(0.9)))
        <SelectiveCertificate: above 0.9 confidence, at least 92.3% are right (95% confidence, ...
        """
        check_flag("simultaneous", simultaneous)
        if not is_real(threshold):
            raise InvalidArgumentError(f"threshold must be a number; got {threshold!r:.60}.")
        place = int(np.argmin(np.abs(self.threshold - threshold)))
        if abs(self.threshold[place] - threshold) > 1e-9:
            near = ", ".join(f"{x:g}" for x in self.threshold[max(place - 1, 0) : place + 2])
            raise InvalidArgumentError(
                f"threshold must be one at which rows were counted, with rows above it; "
                f"got {threshold!r:.60}, and near it are {near}. Pass thresholds= to "
                "selective_curve."
            )
        tests = self.n_thresholds if simultaneous else 1
        delta = (1 - self.confidence_level) / tests
        # one side: Clopper and Pearson's lower limit at delta is that of an interval at 2 delta
        lower, _ = clopper_pearson(self.correct[place], self.count[place], 2 * delta)
        return SelectiveCertificate(
            threshold=float(threshold),
            lower_bound=float(lower),
            accuracy=float(self.accuracy[place]),
            coverage=float(self.coverage[place]),
            n_accepted=int(self.count[place]),
            n=self.n,
            confidence_level=self.confidence_level,
            simultaneous=bool(simultaneous),
            assumptions=[
                "The rows are independent draws from the population that the statement is about.",
                "Their labels were not used to make the predictions.",
                "The thresholds were fixed before the rows." if simultaneous
                else "This threshold was chosen before anybody looked at these labels.",
            ],
        )  # fmt: skip

    def threshold_for(self, accuracy: float) -> float | None:
        """Return the least threshold above which at least this share is proved right, or None.

        The limits hold at all thresholds at once, so the choice costs nothing more.
        """
        if not (is_real(accuracy) and 0 <= accuracy <= 1):
            raise InvalidArgumentError(f"accuracy must lie in [0, 1]; got {accuracy!r:.60}.")
        proved = np.flatnonzero(self.low >= accuracy)
        return float(self.threshold[proved[0]]) if proved.size else None

    def _summary(self) -> str:
        low, high = self.aurc_interval
        right = 100 * float(self.correct[0] / self.n)
        return f"{right:.1f}% right at full coverage, AURC {self.aurc:.4f} [{low:.4f}, {high:.4f}]"

    def __str__(self) -> str:
        level = f"{100 * self.confidence_level:g}%"
        lines = [f"{self._summary()}, n = {self.n:,}"]
        lines.append(f"coverage  accuracy  at least ({level}, all at once)  above confidence")
        lines += [
            f"{self.coverage[place]:8.1%}  {self.accuracy[place]:8.1%}  "
            f"{self.low[place]:8.1%}{'':23}{self.threshold[place]:<10.6g}".rstrip()
            for place in self.places_at(SHOWN)
        ]
        return "\n".join(lines)

    def places_at(self, coverage: FloatArray) -> list[int]:
        """Return the places whose coverage is nearest to these, without repeats."""
        nearest = np.abs(self.coverage[:, None] - coverage).argmin(axis=0)
        return list(dict.fromkeys(nearest.tolist()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        for place in self.places_at(SHOWN):
            accepted = f"the {self.coverage[place]:.0%} above {self.threshold[place]:.6g}"
            yield accepted, f"{self.accuracy[place]:.1%} right, at least {self.low[place]:.1%}"
        yield "AURC", f"{self.aurc:.4f} in {self.aurc_interval}"


def selective_curve(
    table: BinTable, *, confidence_level: float = 0.95, given_answer: bool = False
) -> SelectiveCurve:
    """Return accuracy above every edge of a table; see `calibrant.selective_curve`."""
    check_level(confidence_level)
    if table.problem.is_marginal:
        raise InvalidArgumentError(
            "Rows are accepted by the confidence in their top label; this table is of "
            f'kind="{table.problem.kind}". Count with kind="top-label", or one event by itself.'
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            "Limits of accuracy count independent rows; this table has sample weights. Leave them "
            "out."
        )
    if table.n == 0:
        raise EmptyInputError("Accuracy needs rows; this table has none.")
    folded = table.problem.kind == "binary" and not given_answer
    threshold, count, correct = _above(table, folded)
    used = count > 0
    delta = (1 - confidence_level) / threshold.size
    low, high = clopper_pearson(correct[used], count[used], delta)
    area, spread = area_and_spread(count[used], correct[used])
    z = float(special.ndtri((1 + confidence_level) / 2))
    # an error at a random row adds 1 on average, and 2 in the square: -log C is exponential
    scale = z**2 * (spread**2 + 2 / table.n) / (table.n * area + 1)
    middle, reach = area + scale / 2, math.sqrt(scale * area + scale**2 / 4)
    interval = ConfidenceInterval(
        max(middle - reach, 0.0), min(middle + reach, 1.0), confidence_level
    )
    return SelectiveCurve(
        threshold=threshold[used],
        count=count[used],
        correct=correct[used],
        low=low,
        high=high,
        n_thresholds=int(threshold.size),
        aurc=area,
        aurc_interval=interval,
        n=table.n,
        confidence_level=float(confidence_level),
        kind="binary" if folded else "top-label",
    )


def _above(table: BinTable, folded: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return thresholds in rising order, and rows and right answers above each.

    `folded` is a binary problem, whose confidence is that of the likelier side.
    """
    edges, size, right = table.bins[0].edges, table.count[0], table.sum_y[0]
    threshold, place = edges[:-1], np.arange(size.size)
    if folded:
        upper = _is_above_half(table)
        right = np.where(upper, right, size - right)
        # a bin of the lower half accepts with the threshold 1 - (its upper edge)
        inner = np.where(upper, edges[:-1], 1 - edges[1:])
        inner = np.round(inner, 12)  # 1 - (1 - t) is t again
        threshold, place = np.unique(np.maximum(inner, 0.5), return_inverse=True)
    sums = (np.bincount(place, x, threshold.size)[::-1].cumsum()[::-1] for x in (size, right))
    rows, right = sums
    return threshold, rows, right


def _is_above_half(table: BinTable) -> BoolArray:
    """Return which bins predict the event; refuse one that predicts both with rows in it."""
    edges, level = table.bins[0].edges, table.level[0]
    upper = edges[:-1] >= 0.5
    straddles = (edges[:-1] < 0.5) & (edges[1:] > 0.5)
    upper = np.where(straddles, level > 0.5, upper)
    mixed = straddles & np.isnan(level) & (table.count[0] > 0)
    if mixed.any():
        j = int(mixed.argmax())
        raise InvalidArgumentError(
            "Bins of a binary problem must not reach across 0.5, where the likelier answer "
            f"changes; that from {edges[j]:g} to {edges[j + 1]:g} does. Pass the rows, or count "
            'with an even number of equal-width bins, bins="width:200".'
        )
    return np.asarray(upper)


def area_and_spread(count: FloatArray, correct: FloatArray) -> tuple[float, float]:
    """Return the area, and the standard deviation of a row's influence on it.

    Rows between two thresholds are equally confident; `count` and `correct` fall.
    """
    n = count[0]
    size = count - np.append(count[1:], 0.0)
    wrong = size - (correct - np.append(correct[1:], 0.0))
    filled = size > 0
    size, wrong, above = size[filled], wrong[filled], (count - size)[filled]
    rate = wrong / size
    errors_above = wrong[::-1].cumsum()[::-1] - wrong
    # the sum over j = 1..size of (errors above + rate j) / (rows above + j)
    harmonic = special.digamma(above + size + 1) - special.digamma(above + 1)
    area = float((rate * size + (errors_above - rate * above) * harmonic).sum() / n)
    share, low, high = size / n, above / n, (above + size) / n
    # the mean of -log C over a bin, where C runs from low to high
    surprise = ((high - special.xlogy(high, high)) - (low - special.xlogy(low, low))) / share
    others = (rate * harmonic).cumsum()  # E'[wrong' / C'] of rows that are at most as confident
    influence = np.stack([surprise - others, -others])  # of a wrong row, and of a right one
    weights = np.stack([share * rate, share * (1 - rate)])
    centre = float((weights * influence).sum())
    return area, math.sqrt(max(float((weights * (influence - centre) ** 2).sum()), 0.0))
