"""Studies 2, 2b and 2c: histogram binning against scaling-binning (section 4.3, appendix E).

Rows are drawn with replacement from the file, every method is fitted on them, and each is
measured on the whole file, which plays the population: plug-in errors have no bias there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.paper.figures import Panel, series
from calibrant.paper.population import METHODS, Ranked, brier_score, draw_rows, squared_error
from calibrant.paper.predictions import Predictions
from calibrant.paper.study import Context, Output, Row, Study, row
from calibrant.paper.uncertainty import Estimate, Finding, mean, over_repeats, ratio

HISTOGRAM, SCALING_BINNING = "histogram", "scaling-binning"
TOLERATED = 0.02
"""The calibration error at which section 4.3 of the paper compares mean squared errors."""
FEWEST_REPEATS = 5
"""Repeats at least, however many classes there are; see `repeats_for`."""


@dataclass(frozen=True)
class Calibrators:
    """Settings of the studies that compare recalibrators.

    Attributes
    ----------
    kind : {"marginal", "top-label"}
        Recalibrate every class on its own, or the confidence in the predicted class.
    n_calibration : int
        Rows to recalibrate on, drawn with replacement.
    bins : tuple of int
        Bins per class.
    repeats : int
        Draws of those rows. With more than ten classes the work per draw grows, and fewer are
        made: as many as give 10 x the paper's 100, and at least 5.
    methods : tuple of str
        Keys of `calibrant.paper.population.METHODS`.
    """

    kind: str = "marginal"
    n_calibration: int = 1000
    bins: tuple[int, ...] = tuple(range(10, 101, 10))
    repeats: int = 100
    methods: tuple[str, ...] = (HISTOGRAM, SCALING_BINNING)


def repeats_for(data: Predictions | None, repeats: int, fewest: int = FEWEST_REPEATS) -> int:
    """Return fewer repeats in proportion to classes beyond the ten of CIFAR-10."""
    classes = 10 if data is None else data.n_classes
    return max(min(repeats, repeats * 10 // classes), min(fewest, repeats))


def marginal_settings(data: Predictions | None) -> Calibrators:
    """Return the paper's settings; of many classes, the 25,000 rows of the authors' code."""
    is_large = data is not None and data.n_classes >= 100 and len(data) >= 50_000
    return Calibrators(n_calibration=25_000 if is_large else 1000, repeats=repeats_for(data, 100))


def problems(data: Predictions, kind: str) -> Iterator[tuple[FloatArray, BoolArray]]:
    """Yield the scores and events of each one-dimensional problem."""
    if kind == "top-label":
        yield data.confidence, data.right
        return
    for k in range(data.n_classes):
        yield data.column(k)


@dataclass(frozen=True, eq=False)
class MethodScores:
    """Squared errors and Brier scores of shape (methods, bins, repeats), averaged over classes."""

    settings: Calibrators
    squared: FloatArray
    brier: FloatArray

    def of(self, method: str, bins: int) -> FloatArray:
        """Return the squared errors of one method at one number of bins, repeat by repeat."""
        i, j = self.settings.methods.index(method), self.settings.bins.index(bins)
        return np.asarray(self.squared[i, j])

    def gain(self, bins: int) -> Estimate:
        """Return how many times lower scaling-binning's error is than histogram binning's."""
        return ratio(self.of(HISTOGRAM, bins), self.of(SCALING_BINNING, bins), paired=True)


def compare(settings: Calibrators, context: Context) -> MethodScores:
    """Fit every method on every draw of rows, class by class, and measure it on all rows."""
    data = context.predictions
    draws = draw_rows(context.rng, len(data), settings.n_calibration, settings.repeats)
    shape = (len(settings.methods), len(settings.bins), settings.repeats)
    squared, brier = np.zeros(shape), np.zeros(shape)
    n_problems = data.n_classes if settings.kind == "marginal" else 1
    for k, (scores, happened) in enumerate(problems(data, settings.kind)):
        population = Ranked.of(scores, happened)
        for repeat, draw in enumerate(draws):
            errors = _errors(settings, population, scores[draw], happened[draw])
            squared[:, :, repeat] += errors[0] / n_problems
            brier[:, :, repeat] += errors[1] / n_problems
            context.progress(k * settings.repeats + repeat + 1, n_problems * settings.repeats)
    return MethodScores(settings, squared, brier)


def _errors(
    settings: Calibrators, population: Ranked, scores: FloatArray, happened: BoolArray
) -> FloatArray:
    """Return squared errors and Brier scores of shape (2, methods, bins) for one draw."""
    sample = Ranked.of(scores, happened)
    errors = np.empty((2, len(settings.methods), len(settings.bins)))
    for i, name in enumerate(settings.methods):
        method = METHODS[name]
        scaler = method.fit_scaler(scores, happened)
        scaled, judged = sample.under(scaler), population.under(scaler)
        for j, n_bins in enumerate(settings.bins):
            model = method.discretise(scaled, n_bins)
            errors[:, i, j] = squared_error(judged, model), brier_score(judged, model)
    return errors


def rows_of(scores: MethodScores) -> list[Row]:
    """Return one row for each method and number of bins."""
    s = scores.settings
    return [
        row(
            {"method": name, "bins": bins, "repeats": s.repeats},
            squared_error=mean(scores.squared[i, j]),
            brier=mean(scores.brier[i, j]),
        )
        for i, name in enumerate(s.methods)
        for j, bins in enumerate(s.bins)
    ]


def error_panel(scores: MethodScores) -> Panel:
    """Draw squared error against the number of bins."""
    s = scores.settings
    lines = tuple(
        series(name, s.bins, [mean(repeats) for repeats in scores.squared[i]])
        for i, name in enumerate(s.methods)
    )
    return Panel("error by number of bins", "B, bins", f"squared {s.kind} error", lines)


def trade_panel(scores: MethodScores, factor: float) -> Panel:
    """Draw the Brier score against squared error, where no other number of bins beats both."""
    lines = []
    for i, name in enumerate(scores.settings.methods):
        x, y = scores.squared[i].mean(axis=1), factor * scores.brier[i].mean(axis=1)
        best = pareto(x, y)
        lines.append(series(name, x[best], y[best]))
    return Panel("mean squared error against calibration error", "squared marginal error",
                 "mean squared error", tuple(lines), from_zero=False)  # fmt: skip


def pareto(x: FloatArray, y: FloatArray) -> IntArray:
    """Return, in the order of x, the points that no other point equals or beats in both."""
    order = np.lexsort((y, x))
    lowest = np.minimum.accumulate(np.concatenate(([np.inf], y[order][:-1])))
    return np.asarray(order[y[order] < lowest])


def marginal(settings: Calibrators, context: Context) -> Output:
    """Studies 2 and 2b."""
    scores = compare(settings, context)
    most = settings.bins[-1]
    times = scores.gain(most)
    lower = Estimate(1 - 1 / times.value, times.se / times.value**2, 1 - 1 / times.low,
                     1 - 1 / times.high)  # fmt: skip
    n_classes = context.predictions.n_classes
    findings = [
        Finding("gain", lower, settings.repeats, f"B = {most}: squared error is lower by",
                unit="%"),
        Finding("mse", _mse_gain(scores, context), settings.repeats,
                f"mean squared error is lower at an error of at most {TOLERATED} by", unit="%"),
    ]  # fmt: skip
    panels = [error_panel(scores), trade_panel(scores, n_classes / 2)]
    return Output(rows_of(scores), panels, findings)


def _mse_gain(scores: MethodScores, context: Context) -> Estimate:
    """Return how much lower the best Brier score is among bins with a tolerated error."""

    def statistic(repeats: IntArray) -> float:
        squared = scores.squared[:, :, repeats].mean(axis=2)
        brier = scores.brier[:, :, repeats].mean(axis=2)
        allowed = squared <= max(TOLERATED**2, squared.min(axis=1).max())
        best = np.where(allowed, brier, np.inf).min(axis=1)
        return float(1 - best[1] / best[0])

    return over_repeats(statistic, scores.settings.repeats, context.rng)


def top_label(settings: Calibrators, context: Context) -> Output:
    """Study 2c."""
    scores = compare(settings, context)
    gains = {bins: scores.gain(bins) for bins in settings.bins}

    def least(fewest: int) -> Estimate:
        at_least = [gain for bins, gain in gains.items() if bins >= fewest]
        return min(at_least, key=lambda gain: gain.value)

    few, most = settings.bins[0], settings.bins[-1]
    estimates = {
        "few-bins": (gains[few], f"ratio of squared errors at B = {few}"),
        "many-bins": (least(min(40, most)), "least ratio of squared errors for B > 30"),
        "all-bins": (least(few), "least ratio of squared errors"),
        "gain": (gains[most], f"ratio of squared errors at B = {most}"),
    }
    findings = [
        Finding(key, estimate, settings.repeats, words, unit="x")
        for key, (estimate, words) in estimates.items()
    ]
    return Output(rows_of(scores), [error_panel(scores)], findings)


STUDIES = (
    Study("calibrators-marginal", "2 and 2b",
          "Scaling-binning against histogram binning, every class recalibrated",
          marginal_settings, marginal, {"repeats": 5, "bins": (10, 50, 100)}),
    Study("calibrators-top-label", "2c",
          "The same for the confidence in the predicted class",
          lambda data: Calibrators("top-label"), top_label,
          {"repeats": 20, "bins": (10, 50, 100)}),
)  # fmt: skip
