"""The CORP decomposition of a score, with intervals for each of its parts.

The isotonic curve is fitted to the rows it is scored on, so its mean score C is too low by an
optimism of order n^(-2/3), and miscalibration and discrimination are too large by the same. To the
first order C varies like the score of the true curve, for it minimises the score; so the variance
of ``S - C`` and ``R - C`` is that of a mean over rows. The optimism is found by drawing labels
from the curve (between the centres of its blocks) and fitting again. Where the true curve is flat,
the fitted one rises by chance and the simulated optimism is up to twice the true one; therefore
the lower limit allows for all of it, and the upper one for half.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant._options import is_among
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import EmptyInputError, InvalidArgumentError, InvalidWeightsError
from calibrant.problem import Label
from calibrant.stats.curves import group_of
from calibrant.stats.intervals import ConfidenceInterval, check_level, clopper_pearson
from calibrant.stats.isotonic_curves import isotonic_curve, mean_scores, pooled
from calibrant.stats.scores import ScoreDecomposition, ScoreRule
from calibrant.table import BinTable

Part: TypeAlias = Literal["miscalibration", "discrimination", "uncertainty"]

PARTS: tuple[Part, ...] = get_args(Part)
DRAWS = 40
"""Of labels, to find the optimism: its mean is then known to a sixth of its spread. Affects the
interval by less than its rounding; more only cost time."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CorpDecomposition(ScoreDecomposition):
    """A score split by its isotonic curve; see `calibrant.stats.isotonic_curve`.

    Attributes
    ----------
    rule, value, miscalibration, discrimination, uncertainty, is_debiased
        As in `ScoreDecomposition`.
    prediction, count, event_rate, curve : ndarray
        Distinct predictions, their rows, observed event rate and isotonic event rate.
    """

    prediction: FloatArray
    count: FloatArray
    event_rate: FloatArray
    curve: FloatArray

    def confidence_interval(
        self, part: Part = "miscalibration", confidence_level: float = 0.95
    ) -> ConfidenceInterval:
        """Return an interval for a part of the decomposition in the population.

        There, with q the true event rate given the prediction p, if it rises with p: of the
        Brier score, miscalibration is the mean of (p - q)^2, discrimination the variance of q, and
        uncertainty that of the outcome. The interval may lie below the estimate, which
        overfits; see `calibrant.stats.corp`, and docs/coverage.md for its simulated coverage.

        Parameters
        ----------
        part : {"miscalibration", "discrimination", "uncertainty"}
        confidence_level : float
        """
        check_level(confidence_level)
        if not is_among(part, PARTS):
            raise InvalidArgumentError(
                'part must be "miscalibration", "discrimination" or "uncertainty"; got '
                f"{part!r:.60}."
            )
        if part == "uncertainty":
            return self._uncertainty(confidence_level)
        value = self.miscalibration if part == "miscalibration" else self.discrimination
        if not math.isfinite(value):
            return ConfidenceInterval(math.inf, math.inf, confidence_level, "corp")
        base = np.full_like(self.curve, (self.count @ self.event_rate) / self.count.sum())
        first = self.prediction if part == "miscalibration" else base
        optimism, spread = self._optimism
        margin = float(special.ndtri((1 + confidence_level) / 2)) * math.hypot(
            self._standard_error(first), spread
        )
        low, high = value - optimism - margin, value - optimism / 2 + margin
        return ConfidenceInterval(max(low, 0.0), max(high, 0.0), confidence_level, "corp")

    def _uncertainty(self, confidence_level: float) -> ConfidenceInterval:
        """Return the exact interval: that of the event rate, carried over."""
        n, events = float(self.count.sum()), float(self.count @ self.event_rate)
        ends = clopper_pearson(np.array(events), np.array(n), 1 - confidence_level)
        rates = np.array([float(end) for end in ends])
        values = mean_scores(self.rule, rates, rates)
        most = mean_scores(self.rule, np.array([0.5]), np.array([0.5]))
        inside = rates[0] <= 0.5 <= rates[1]
        high = float(most[0] if inside else values.max())
        return ConfidenceInterval(float(values.min()), high, confidence_level, "clopper-pearson")

    def _standard_error(self, first: FloatArray) -> float:
        """Return that of the mean difference between the scores of a prediction and the curve."""
        n = float(self.count.sum())
        total, square = 0.0, 0.0
        for outcome, share in ((1.0, self.event_rate), (0.0, 1 - self.event_rate)):
            used = share > 0
            happened = np.full(int(used.sum()), outcome)
            own, curve = (mean_scores(self.rule, happened, p[used]) for p in (first, self.curve))
            weight = self.count[used] * share[used] / n
            total += float(weight @ (own - curve))
            square += float(weight @ (own - curve) ** 2)
        return math.sqrt(max(square - total**2, 0.0) / n)

    @cached_property
    def _optimism(self) -> tuple[float, float]:
        """Return how much too low fitted curves score on their own rows, and its spread."""
        n = self.count.sum()
        # labels are drawn from the curve as it is between the centres of its constant pieces
        first = np.flatnonzero(np.concatenate(([True], self.curve[1:] != self.curve[:-1])))
        size = np.add.reduceat(self.count, first)
        centres = np.add.reduceat(self.count * self.prediction, first) / size
        centre = np.interp(self.prediction, centres, self.curve[first])
        # between predictions below 1e-308 the slope overflows
        centre = np.where(np.isfinite(centre), centre, self.curve)
        rng = np.random.default_rng(0)
        found = np.empty(DRAWS)
        for draw in range(DRAWS):
            rate = rng.binomial(self.count.astype(np.int64), centre) / self.count
            fitted = pooled(rate, self.count)
            gain = mean_scores(self.rule, rate, centre) - mean_scores(self.rule, rate, fitted)
            found[draw] = self.count @ gain / n
        return float(found.mean()), float(found.std(ddof=1))

    def __str__(self) -> str:
        lines = [super().__str__()]
        for part in PARTS:
            lines.append(f"{part} {self.confidence_interval(part)}")
        return "\n  ".join(lines)

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return plain values that JSON can hold, the intervals included, the curve not."""
        facts = super().to_dict()
        for name in ("prediction", "count", "event_rate", "curve"):
            del facts[name]
        intervals = {
            part: self.confidence_interval(part, confidence_level).to_dict() for part in PARTS
        }
        return {**facts, "confidence_intervals": intervals}


def corp_decomposition(
    table: BinTable, *, rule: ScoreRule = "brier", class_label: Label | None = None
) -> CorpDecomposition:
    """Split the Brier score or the log loss by the isotonic curve, with intervals for the parts.

    Parameters
    ----------
    table : BinTable
        Of distinct predictions (``bins="distinct"``), without sample weights.
    rule : {"brier", "log"}
    class_label : label, optional
        Which class of a marginal problem.

    References
    ----------
    Dimitriadis, Gneiting, Jordan (2021), Stable reliability diagrams for probabilistic
    classifiers.

    Examples
    --------
    >>> from calibrant import tabulate
    >>> z = [.1, .2, .3, .35, .4, .5, .6, .65, .8, .9]
    >>> table = tabulate([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], z, bins="distinct")
    >>> corp_decomposition(table)
    <CorpDecomposition: Brier 0.1705 = miscalibration 0.0372 - discrimination 0.1167 + ...
    """
    if not is_among(rule, ("brier", "log")):
        raise InvalidArgumentError(f'rule must be "brier" or "log"; got {rule!r:.60}.')
    if table.is_weighted:
        raise InvalidWeightsError(
            "The intervals of this decomposition count rows; this table has sample weights. Count "
            "the rows without them, or use calibrant.stats.isotonic_curve, which has no intervals."
        )
    curve = isotonic_curve(table, class_label=class_label)
    group = group_of(table.problem, class_label)
    used = table.count[group] > 0
    if curve.count.sum() < 2:
        raise EmptyInputError(
            "The intervals of this decomposition need at least 2 rows; got 1. "
            "calibrant.stats.isotonic_curve has the parts without intervals."
        )
    parts = curve.brier if rule == "brier" else curve.log
    return CorpDecomposition(
        rule=parts.rule,
        value=parts.value,
        miscalibration=parts.miscalibration,
        discrimination=parts.discrimination,
        uncertainty=parts.uncertainty,
        prediction=curve.prediction,
        count=curve.count,
        event_rate=np.clip(table.sum_y[group, used] / curve.count, 0.0, 1.0),
        curve=curve.event_rate,
    )
