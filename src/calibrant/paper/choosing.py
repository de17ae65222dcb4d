"""Study 4: bins that a bound on the error allows, and what they cost (appendix G).

A model is recalibrated with B bins on some rows; on the others its squared marginal error is
estimated, and 1.28 bootstrap standard deviations are added: the paper's one-sided 90% bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._types import FloatArray, IntArray
from calibrant.paper.calibrators import pareto, problems, repeats_for
from calibrant.paper.estimators import NAMES
from calibrant.paper.figures import Panel, series
from calibrant.paper.population import (
    METHODS,
    Ranked,
    ResampledRanks,
    brier_score,
    draw_rows,
    multiplicities,
    platt_scaling,
)
from calibrant.paper.predictions import Predictions
from calibrant.paper.study import Context, Output, Row, Study
from calibrant.paper.uncertainty import Finding, exactly, over_splits
from calibrant.stats.estimators import raw_error

ONE = np.ones(1)
Z_ONE_SIDED = 1.2815515655446004
"""The 90% quantile of the standard normal distribution."""
TOLERATED = 0.015
"""The tolerated error in appendix G of the paper."""
LABELS = (
    " In the script that the authors publish, the labels of the points (5, 10, 15, ...) are not "
    "the numbers of bins that it runs (10, 20, 30, ...): read so, the paper's 15 bins are 30."
)


@dataclass(frozen=True)
class Choosing:
    """Settings of the study of the number of bins.

    Attributes
    ----------
    n_recalibrate : int
        Rows to recalibrate on; all others estimate.
    bins : tuple of int
    resamples : int
        Bootstrap resamples for each bound.
    splits : int
        Random splits of the rows; the paper has one.
    tolerated : float
        The bound must not exceed this.
    """

    n_recalibrate: int = 6000
    bins: tuple[int, ...] = tuple(range(10, 101, 5))
    resamples: int = 100
    splits: int = 100
    tolerated: float = TOLERATED


def settings_for(data: Predictions | None) -> Choosing:
    """Return the paper's split, or six rows in ten of other files."""
    n = 10_000 if data is None else len(data)
    return Choosing(6 * n // 10, splits=repeats_for(data, 100, 2))


@dataclass(frozen=True, eq=False)
class Split:
    """One random split: who is fitted on, who estimates, and how often each resample has them."""

    fitted: IntArray
    others: IntArray
    drawn: FloatArray

    @classmethod
    def draw(cls, settings: Choosing, context: Context, split: int = 0) -> Split:
        """Shuffle the rows; the first of the samples is the estimating rows themselves."""
        fitted, others = np.split(context.order(split), [settings.n_recalibrate])
        draws = draw_rows(context.rng, others.size, others.size, settings.resamples)
        drawn = np.ones((1 + settings.resamples, others.size))
        drawn[1:] = multiplicities(draws, others.size)
        return cls(fitted, others, drawn)


def bounds_of_split(
    settings: Choosing, split: Split, data: Predictions
) -> tuple[FloatArray, FloatArray]:
    """Return bounds of shape (2, bins), plug-in first, and mean squared errors."""
    squares = np.zeros((2, len(settings.bins), len(split.drawn)))
    brier, method = np.zeros(len(settings.bins)), METHODS["scaling-binning"]
    for scores, happened in problems(data, "marginal"):
        fitted = scores[split.fitted], happened[split.fitted]
        scaler = platt_scaling().fit(*fitted)
        sample = Ranked.of(*fitted).under(scaler)
        scaled, y = scaler.predict_proba(scores[split.others]), happened[split.others]
        ranks, population = ResampledRanks.of(scaled, y, split.drawn), Ranked.of(scaled, y)
        for j, n_bins in enumerate(settings.bins):
            model = method.discretise(sample, n_bins)
            cells = ranks.cells(*model)
            for e in (0, 1):
                squares[e, j] += raw_error(cells, ONE, 2.0, bool(e)) / data.n_classes
            brier[j] += brier_score(population, model) / data.n_classes
    spread = squares[:, :, 1:].std(axis=2)
    return np.sqrt(np.maximum(squares[:, :, 0] + Z_ONE_SIDED * spread, 0.0)), brier


def best_allowed(bounds: FloatArray, brier: FloatArray, tolerated: float) -> int:
    """Return where the squared error is least under the bound; where the bound is, if nowhere."""
    allowed = bounds <= tolerated
    if not allowed.any():
        return int(bounds.argmin())
    return int(np.where(allowed, brier, np.inf).argmin())


def compute(settings: Choosing, context: Context) -> Output:
    """Choose the number of bins by both bounds, in every split."""
    measured = []
    for split in range(settings.splits):
        drawn = Split.draw(settings, context, split)
        measured.append(bounds_of_split(settings, drawn, context.predictions))
        context.progress(split + 1, settings.splits)
    bounds, brier = (np.array(part) for part in zip(*measured, strict=True))
    chosen = np.array(
        [
            [best_allowed(b, mse, settings.tolerated) for b in both]
            for both, mse in zip(bounds, brier, strict=True)
        ]
    )
    n_bins = np.array(settings.bins)[chosen]
    mse = np.take_along_axis(brier, chosen, axis=1)
    notes = [
        f"Nothing satisfied the bound in {none} of {settings.splits} splits, where the least bound "
        "is taken."
        for none in (bounds.min(axis=2) > settings.tolerated).sum(axis=0)
    ]
    more, fewer = (n_bins[:, 1] > n_bins[:, 0]).sum(), (n_bins[:, 1] < n_bins[:, 0]).sum()
    notes[1] += (
        f" The debiased bound allows more bins than the plug-in in {more}, fewer in {fewer}."
    )
    n, words = settings.resamples, "mean squared error that the plug-in bound costs"
    why = _cost(settings, brier)
    of_splits = [
        [
            Finding("plug-in-bins", exactly(plug_in), n, "bins, plug-in", notes[0] + LABELS),
            Finding("debiased-bins", exactly(debiased), n, "bins, debiased", notes[1]),
            Finding("mse", exactly(cost), n, words, why, "%"),
        ]
        for (plug_in, debiased), cost in zip(n_bins, mse[:, 0] / mse[:, 1] - 1, strict=True)
    ]
    findings = over_splits(of_splits, context.has_authors_split)
    rows: list[Row] = [
        {
            "split": split, "bins": b, "brier": float(brier[split, j]),
            "plug_in_bound": float(bounds[split, 0, j]),
            "debiased_bound": float(bounds[split, 1, j]),
        }
        for split in range(settings.splits)
        for j, b in enumerate(settings.bins)
    ]  # fmt: skip
    lines = []
    for name, bound in zip(NAMES, bounds[0], strict=True):
        best = pareto(bound, brier[0])
        lines.append(series(name, bound[best], brier[0][best]))
    panel = Panel("the first split", "90% upper bound on the marginal error",
                  "mean squared error", tuple(lines), from_zero=False)  # fmt: skip
    return Output(rows, [panel], findings)


def _cost(settings: Choosing, brier: FloatArray) -> str:
    """Return a sentence on the cost of fewer bins."""
    means = brier.mean(axis=0)
    compared = [(b, j) for j, b in enumerate(settings.bins) if b in (10, 15, 20, 30)]
    costs = ", ".join(f"{means[j] / means[-1] - 1:.0%} with {b}" for b, j in compared)
    return (
        f"On average over splits, the squared error beside that of {settings.bins[-1]} bins is "
        f"higher by {costs}. With ten classes every tenth row is an event: bins that cut these "
        "rows in two cost much more than their number says."
    )


STUDIES = (
    Study("choosing-bins", "4", "A debiased bound allows more bins, at a lower squared error",
          settings_for, compute, {"splits": 2, "bins": (10, 15, 50, 100)}),
)  # fmt: skip
