"""Studies 3, 3b and 3c: plug-in and debiased estimates of a known error (section 5.1, appendix G).

A model is recalibrated on some rows. The others play the population: its error on all of them is
known, and estimates from n rows drawn with replacement are compared with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import EqualMass
from calibrant.engines.cells import distinct
from calibrant.measure import calibration_error
from calibrant.paper.calibrators import problems, repeats_for
from calibrant.paper.figures import Panel, Series, series
from calibrant.paper.population import (
    draw_rows,
    multiplicities,
    platt_scaling,
    resampled_binned_cells,
    resampled_cells,
)
from calibrant.paper.predictions import Predictions
from calibrant.paper.study import Context, Output, Progress, Row, Study, row
from calibrant.paper.uncertainty import (
    Z90,
    Estimate,
    Finding,
    across,
    mean,
    over_repeats,
    over_splits,
    ratio,
)
from calibrant.recalibrators import ScalingBinning
from calibrant.stats.estimators import Cells, raw_error

ONE = np.ones(1)
NAMES = ("plug-in", "debiased")
MOST_ROWS = 7000
"""Of a sample, as in the script of the authors."""
FEWEST_REPEATS = 20
FEWEST_SPLITS = 2
"""Splits at least, however many classes there are; see `repeats_for`."""
FEW_ROWS = (
    "The authors' script draws samples of 2,000 to 7,000 rows. The correction is a normal "
    "approximation in each bin and misses bias where a bin has few rows (a bin whose labels are "
    "all alike shows no variance), so below that range its gain can fall again; the authors' code "
    "refuses bins of fewer than two rows."
)


@dataclass(frozen=True)
class Estimators:
    """Settings of the studies that compare estimators.

    Attributes
    ----------
    n_recalibrate : int
        Rows to recalibrate on.
    bins : tuple of int
    n : tuple of int
        Rows to estimate from, drawn with replacement from the other rows. The paper speaks of
        varying n; its authors' script takes 2,000, 3,000, ..., 7,000, and draws its histograms
        at the smallest.
    repeats : int
        Draws for each n; fewer where there are more than ten classes (see `Calibrators`).
    splits : int
        Random splits of the rows; the paper has one. Fewer where there are more than ten classes.
    """

    n_recalibrate: int = 3000
    bins: tuple[int, ...] = (10, 100)
    n: tuple[int, ...] = (2000, 3000, 4000, 5000, 6000, 7000)
    repeats: int = 1000
    splits: int = 20


def settings_for(data: Predictions | None, **changes: object) -> Estimators:
    """Return the authors' split and sizes, or the same shares of the rows of smaller files."""
    n = 10_000 if data is None else len(data)
    fitted = min(3000, 3 * n // 10)
    most = min(MOST_ROWS, n - fitted)
    sizes = tuple(max(k * most // 7, 1) for k in range(2, 8))
    return Estimators(fitted, n=sizes, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of shape (2, bins, n, repeats), plug-in first, and the truth for each bins."""

    settings: Estimators
    values: FloatArray
    truth: FloatArray

    @property
    def deviations(self) -> FloatArray:
        """Estimate minus truth."""
        return np.asarray(self.values - self.truth[None, :, None, None])

    def gain(self, bins: int, n: int) -> Estimate:
        """Return the mean squared deviation of the plug-in over that of the debiased."""
        i, j = self.settings.bins.index(bins), self.settings.n.index(n)
        squared = self.deviations[:, i, j] ** 2
        return ratio(squared[0], squared[1], paired=True)


def marginal_estimates(
    settings: Estimators, context: Context, order: IntArray, progress: Progress
) -> Estimates:
    """Estimate the squared marginal error of scaling-binning in one split, class by class."""
    data = context.predictions
    fitted, others = np.split(order, [settings.n_recalibrate])
    drawn = [_drawn(context, others.size, n, settings.repeats) for n in settings.n]
    values, truth = np.zeros(_shape(settings)), np.zeros(len(settings.bins))
    for k, (scores, happened) in enumerate(problems(data, "marginal")):
        for i, n_bins in enumerate(settings.bins):
            model = ScalingBinning(f"mass:{n_bins}", platt_scaling())
            model.fit(scores[fitted], happened[fitted])
            levels, index = np.unique(model.predict_proba(scores[others]), return_inverse=True)
            y = happened[others]
            n = np.bincount(index)
            squares = (np.bincount(index, y) / n - levels) ** 2
            truth[i] += float(n / n.sum() @ squares) / data.n_classes
            for j, counts in enumerate(drawn):
                cells = resampled_binned_cells(index, levels, y, counts)
                values[:, i, j] += _both(cells, 2.0) / data.n_classes
        progress(k + 1, data.n_classes)
    return Estimates(settings, values, truth)


def _drawn(context: Context, n_rows: int, size: int, repeats: int) -> AnyArray:
    return multiplicities(draw_rows(context.rng, n_rows, size, repeats), n_rows)


def _shape(settings: Estimators) -> tuple[int, int, int, int]:
    return 2, len(settings.bins), len(settings.n), settings.repeats


def _both(cells: Cells, power: float) -> FloatArray:
    """Return the plug-in and the debiased estimate of error^p of every sample."""
    return np.stack([raw_error(cells, ONE, power, debiased) for debiased in (False, True)])


def ece_estimates(
    settings: Estimators, context: Context, order: IntArray, progress: Progress
) -> Estimates:
    """Estimate the binned l1 error of Platt scaling of the confidence in one split."""
    data = context.predictions
    fitted, others = np.split(order, [settings.n_recalibrate])
    scaler = platt_scaling().fit(data.confidence[fitted], data.right[fitted])
    chosen_from, scores = (scaler.predict_proba(data.confidence[p]) for p in (fitted, others))
    right = data.right[others]
    values, truth = np.empty(_shape(settings)), np.empty(len(settings.bins))
    for j, n in enumerate(settings.n):
        drawn = _drawn(context, others.size, n, settings.repeats)
        for i, n_bins in enumerate(settings.bins):
            bins = EqualMass(n_bins).choose(*distinct(chosen_from, None))
            truth[i] = float(calibration_error(right, scores, bins=bins, norm="l1", debias=False))
            cells = resampled_cells(bins.index(scores), len(bins), scores, right, drawn)
            values[:, i, j] = _both(cells, 1.0)
        progress(j + 1, len(settings.n))
    return Estimates(settings, values, truth)


def _output(
    estimate: Callable[[Estimators, Context, IntArray, Progress], Estimates],
    settings: Estimators,
    context: Context,
    what: str,
    note: Callable[[str, list[Estimates]], str],
) -> Output:
    """Estimate in every split, and explain the findings by notes."""
    n = settings.splits
    splits = [
        estimate(settings, context, context.order(split), context.progress_of(split, n))
        for split in range(n)
    ]
    of_splits = [_findings_of_split(estimates, context) for estimates in splits]
    findings = over_splits(of_splits, context.has_authors_split)
    findings = [replace(finding, note=note(finding.key, splits)) for finding in findings]
    return Output(_rows(splits), _panels(splits, what), findings)


def _rows(splits: list[Estimates]) -> list[Row]:
    s = splits[0].settings
    return [
        row(
            {"split": k, "estimator": name, "bins": bins, "n": n, "truth": float(split.truth[i])},
            mean_estimate=mean(split.values[e, i, j]),
            mean_squared_deviation=mean(split.deviations[e, i, j] ** 2),
        )
        for k, split in enumerate(splits)
        for e, name in enumerate(NAMES)
        for i, bins in enumerate(s.bins)
        for j, n in enumerate(s.n)
    ]


def _panels(splits: list[Estimates], what: str) -> list[Panel]:
    """Draw mean squared deviations: their median and nine in ten of the splits."""
    s = splits[0].settings
    means = np.array([(split.deviations**2).mean(axis=-1) for split in splits])
    curves = [
        Panel(
            f"{what}, B = {bins}, splits: {s.splits}", "n, rows to estimate from",
            "mean squared deviation",
            tuple(
                series(name, s.n, [across(means[:, e, i, j]) for j in range(len(s.n))])
                for e, name in enumerate(NAMES)
            ),
            "log", "log",
        )
        for i, bins in enumerate(s.bins)
    ]  # fmt: skip
    return curves + [_histogram(splits[0], i) for i in range(len(s.bins))]


def _histogram(estimates: Estimates, i: int) -> Panel:
    s = estimates.settings
    deviations = np.abs(estimates.deviations[:, i, 0])
    edges = np.linspace(0, deviations.max(), 26)
    lines: list[Series] = []
    for name, values in zip(NAMES, deviations, strict=True):
        shares = np.histogram(values, edges)[0] / values.size
        lines.append(series(name, edges, np.append(shares, shares[-1]), "steps"))
    title = f"B = {s.bins[i]}, n = {s.n[0]:,}, first split"
    return Panel(title, "absolute deviation", "share of estimates", tuple(lines))


def _findings_of_split(estimates: Estimates, context: Context) -> list[Finding]:
    """Summarise the ratios of mean squared deviations, and those of the histograms."""
    s = estimates.settings
    gains = {(b, n): estimates.gain(b, n) for b in s.bins for n in s.n}
    estimated: list[tuple[str, Estimate, str]] = []
    for b in s.bins:
        least = min((gains[b, n] for n in s.n), key=lambda gain: gain.value)
        small = _quotient(gains[b, s.n[0]], gains[b, s.n[-1]])
        estimated += [
            (f"least-{b}", least, f"B = {b}: least ratio of mean squared deviations"),
            (f"small-n-{b}", small, f"B = {b}: ratio at the smallest n over the largest"),
        ]
    few, most = s.bins[0], s.bins[-1]
    extra = [_quotient(gains[most, n], gains[few, n]) for n in s.n]
    least = min(extra, key=lambda gain: gain.value)
    estimated.append(("large-bins", least, f"B = {most} over B = {few}"))
    for i, b in enumerate(s.bins):
        estimated += [
            (f"worst-{b}", _quantile_gain(estimates, i, 0.99, context), f"B = {b}: 99% quantiles"),
            (f"median-{b}", _quantile_gain(estimates, i, 0.5, context), f"B = {b}: medians"),
        ]
    return [Finding(key, ratio, s.repeats, words, unit="x") for key, ratio, words in estimated]


def _note(key: str, splits: list[Estimates]) -> str:
    """List the ratio at every n, for the claims about all n."""
    kind, _, bins = key.rpartition("-")
    if kind != "least":
        return ""
    ratios = [
        f"{np.median([split.gain(int(bins), n).value for split in splits]):.2f} at n = {n:,}"
        for n in splits[0].settings.n
    ]
    return f"Median ratios: {', '.join(ratios)}."


def _quotient(a: Estimate, b: Estimate) -> Estimate:
    """Return a / b of independent ratios, on the log scale."""
    value = a.value / b.value
    relative = math.hypot(a.se / a.value, b.se / b.value)
    return Estimate(value, value * relative, value * math.exp(-Z90 * relative),
                    value * math.exp(Z90 * relative))  # fmt: skip


def _quantile_gain(estimates: Estimates, i: int, level: float, context: Context) -> Estimate:
    """Return the quantile of the plug-in's absolute deviations over that of the debiased."""
    deviations = np.abs(estimates.deviations[:, i, 0])

    def statistic(repeats: IntArray) -> float:
        plug_in, debiased = np.quantile(deviations[:, repeats], level, axis=1)
        return float(plug_in / debiased)

    return over_repeats(statistic, estimates.settings.repeats, context.rng)


def marginal(settings: Estimators, context: Context) -> Output:
    """Studies 3 and 3b."""
    return _output(marginal_estimates, settings, context, "squared error", _note)


def ece(settings: Estimators, context: Context) -> Output:
    """Study 3c."""
    return _output(ece_estimates, settings, context, "ECE", _ece_note)


def _ece_note(key: str, splits: list[Estimates]) -> str:
    """Add why the gain is not largest at the smallest n, and why there can be none."""
    if key.startswith("small-n-"):
        return FEW_ROWS
    if not key.startswith("least-"):
        return ""
    s = splits[0].settings
    i = s.bins.index(int(key.removeprefix("least-")))
    at_most = [split.deviations[:, i, -1] for split in splits]
    bias = np.median([np.abs(deviations.mean(axis=1)) for deviations in at_most], axis=0)
    spread = np.median([deviations.std(axis=1) for deviations in at_most], axis=0)
    return _note(key, splits) + (
        f" At n = {s.n[-1]:,} the plug-in has bias {bias[0]:.1e} and standard deviation "
        f"{spread[0]:.1e}, the debiased {bias[1]:.1e} and {spread[1]:.1e} (medians): the "
        "correction of an absolute value takes bias off and adds spread, so it pays while the "
        "bias rules."
    )


def _marginal_settings(data: Predictions | None) -> Estimators:
    repeats = repeats_for(data, Estimators.repeats, FEWEST_REPEATS)
    splits = repeats_for(data, Estimators.splits, FEWEST_SPLITS)
    return settings_for(data, repeats=repeats, splits=splits)


STUDIES = (
    Study("estimators-marginal", "3 and 3b",
          "The debiased estimate is closer to the squared marginal error",
          _marginal_settings, marginal, {"repeats": 50, "n": (2000, 7000), "splits": 3}),
    Study("estimators-ece", "3c", "The debiased estimate is closer to the ECE",
          lambda data: settings_for(data, bins=(15, 100)), ece,
          {"repeats": 100, "n": (2000, 7000), "splits": 3}),
)  # fmt: skip
