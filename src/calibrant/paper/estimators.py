"""Studies 3, 3b and 3c: plug-in and debiased estimates of a known error (section 5.1, appendix G).

A model is recalibrated on some rows. The others play the population: its error on all of them is
known, and estimates from n rows drawn with replacement are compared with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.bins import EqualMass
from calibrant.engines.numpy import distinct
from calibrant.measure import calibration_error
from calibrant.paper.calibrators import problems, repeats_for
from calibrant.paper.claims import Finding
from calibrant.paper.predictions import Predictions
from calibrant.paper.resampling import draw_rows, resampled_binned_cells, resampled_cells
from calibrant.paper.result import Output, Panel, Row, Series, row, series
from calibrant.paper.study import Context, Study
from calibrant.paper.uncertainty import Z90, Estimate, mean, over_repeats, ratio
from calibrant.recalibrators import PlattScaling, ScalingBinning
from calibrant.stats.estimators import Cells, raw_error

ONE = np.ones(1)
NAMES = ("plug-in", "debiased")
FEWEST_REPEATS = 20
ECE_ROWS = (500, 1000, 2000, 3000, 5000, 7000)
FEW_ROWS = (
    "The correction is a normal approximation in each bin and misses bias where a bin has few rows "
    "(a bin whose labels are all alike shows no variance), so its gain can be largest at middle n. "
    "The authors' code refuses bins of fewer than two rows."
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
        Rows to estimate from, drawn with replacement from the other rows.
    repeats : int
        Draws for each n; fewer where there are more than ten classes (see `Calibrators`).
    n_histogram : int
        The n whose deviations are drawn as histograms; the paper does not say which it took.
    """

    n_recalibrate: int = 3000
    bins: tuple[int, ...] = (10, 100)
    n: tuple[int, ...] = (100, 200, 500, 1000, 2000, 5000)
    repeats: int = 1000
    n_histogram: int = 1000


def settings_for(data: Predictions | None, **changes: object) -> Estimators:
    """Return the paper's split, or three rows in ten of smaller files."""
    n = 10_000 if data is None else len(data)
    return Estimators(min(3000, 3 * n // 10), **changes)  # type: ignore[arg-type]


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


def marginal_estimates(settings: Estimators, context: Context) -> Estimates:
    """Estimate the squared marginal error of scaling-binning, class by class."""
    data, shape = context.predictions, _shape(settings)
    fitted, others = np.split(context.rng.permutation(len(data)), [settings.n_recalibrate])
    draws = [draw_rows(context.rng, others.size, n, settings.repeats) for n in settings.n]
    values, truth = np.zeros(shape), np.zeros(len(settings.bins))
    for k, (scores, happened) in enumerate(problems(data, "marginal")):
        for i, n_bins in enumerate(settings.bins):
            model = ScalingBinning(n_bins=n_bins).fit(scores[fitted], happened[fitted])
            levels, index = np.unique(model.predict_proba(scores[others]), return_inverse=True)
            y = happened[others]
            truth[i] += _plug_in_square(levels, index, y) / data.n_classes
            for j, draw in enumerate(draws):
                cells = resampled_binned_cells(index, levels, y, draw)
                values[:, i, j] += _both(cells, 2.0) / data.n_classes
        context.progress(k + 1, data.n_classes)
    return Estimates(settings, values, truth)


def _shape(settings: Estimators) -> tuple[int, int, int, int]:
    return 2, len(settings.bins), len(settings.n), settings.repeats


def _plug_in_square(levels: FloatArray, index: IntArray, happened: BoolArray) -> float:
    n = np.bincount(index)
    return float(n / n.sum() @ (np.bincount(index, happened) / n - levels) ** 2)


def _both(cells: Cells, power: float) -> FloatArray:
    """Return the plug-in and the debiased estimate of error^p of every sample."""
    return np.stack([raw_error(cells, ONE, power, debiased) for debiased in (False, True)])


def ece_estimates(settings: Estimators, context: Context) -> Estimates:
    """Estimate the binned l1 error of Platt scaling of the confidence."""
    data = context.predictions
    fitted, others = np.split(context.rng.permutation(len(data)), [settings.n_recalibrate])
    scaler = PlattScaling().fit(data.confidence[fitted], data.right[fitted])
    chosen_from, scores = (scaler.predict_proba(data.confidence[p]) for p in (fitted, others))
    right = data.right[others]
    values, truth = np.empty(_shape(settings)), np.empty(len(settings.bins))
    for j, n in enumerate(settings.n):
        draws = draw_rows(context.rng, others.size, n, settings.repeats)
        for i, n_bins in enumerate(settings.bins):
            bins = EqualMass(n_bins).choose(*distinct(chosen_from, None))
            truth[i] = float(calibration_error(right, scores, bins=bins, norm="l1", debias=False))
            cells = resampled_cells(bins.index(scores), len(bins), scores, right, draws)
            values[:, i, j] = _both(cells, 1.0)
        context.progress(j + 1, len(settings.n))
    return Estimates(settings, values, truth)


def _rows(estimates: Estimates) -> list[Row]:
    s = estimates.settings
    squared = estimates.deviations**2
    return [
        row(
            {"estimator": name, "bins": bins, "n": n, "truth": float(estimates.truth[i])},
            mean_estimate=mean(estimates.values[e, i, j]),
            mean_squared_deviation=mean(squared[e, i, j]),
        )
        for e, name in enumerate(NAMES)
        for i, bins in enumerate(s.bins)
        for j, n in enumerate(s.n)
    ]


def _panels(estimates: Estimates, what: str) -> list[Panel]:
    s = estimates.settings
    squared = estimates.deviations**2
    curves = [
        Panel(
            f"{what}, B = {bins}", "n, rows to estimate from", "mean squared deviation",
            tuple(
                series(name, s.n, [mean(each) for each in squared[e, i]])
                for e, name in enumerate(NAMES)
            ),
            "log", "log",
        )
        for i, bins in enumerate(s.bins)
    ]  # fmt: skip
    return curves + [_histogram(estimates, i) for i in range(len(s.bins))]


def _histogram(estimates: Estimates, i: int) -> Panel:
    s = estimates.settings
    n = s.n_histogram if s.n_histogram in s.n else s.n[-1]
    found = np.abs(estimates.deviations[:, i, s.n.index(n)])
    edges = np.linspace(0, found.max(), 26)
    lines: tuple[Series, ...] = tuple(
        series(name, edges, _shares(values, edges), "steps")
        for name, values in zip(NAMES, found, strict=True)
    )
    title = f"B = {s.bins[i]}, n = {n:,}"
    return Panel(title, "absolute deviation", "share of estimates", lines)


def _shares(values: FloatArray, edges: FloatArray) -> FloatArray:
    """Return the share of values in each of the intervals, the last one repeated."""
    counts = np.histogram(values, edges)[0] / values.size
    return np.append(counts, counts[-1])


def _findings(estimates: Estimates, context: Context) -> list[Finding]:
    """Summarise the ratios of mean squared deviations, and those of the histograms."""
    s = estimates.settings
    gains = {(b, n): estimates.gain(b, n) for b in s.bins for n in s.n}
    found: list[tuple[str, Estimate, str]] = []
    for b in s.bins:
        least = min((gains[b, n] for n in s.n), key=lambda gain: gain.value)
        small = _quotient(gains[b, s.n[0]], gains[b, s.n[-1]])
        largest = max(gains[b, n].value for n in s.n)
        found += [
            (f"least-{b}", least, f"B = {b}: from {least.value:.1f} to {largest:.1f} times"),
            (f"small-n-{b}", small, f"B = {b}: ratio at the smallest n over the largest"),
        ]
    few, many = s.bins[0], s.bins[-1]
    extra = [_quotient(gains[many, n], gains[few, n]) for n in s.n]
    found.append(("large-bins", min(extra, key=lambda e: e.value), f"B = {many} over B = {few}"))
    for i, b in enumerate(s.bins):
        found += [
            (f"worst-{b}", _quantile_gain(estimates, i, 0.99, context), "99% quantiles"),
            (f"median-{b}", _quantile_gain(estimates, i, 0.5, context), "medians"),
        ]
    return [
        Finding(key, one, s.repeats, words, _note(key, estimates, gains), "x")
        for key, one, words in found
    ]


def _note(key: str, estimates: Estimates, gains: dict[tuple[int, int], Estimate]) -> str:
    """List the ratio at every n, for the claims about all n."""
    kind, _, bins = key.rpartition("-")
    s = estimates.settings
    if kind != "least":
        return ""
    each = ", ".join(f"{gains[int(bins), n].value:.1f} at n = {n:,}" for n in s.n)
    return f"Ratios: {each}."


def _quotient(a: Estimate, b: Estimate) -> Estimate:
    """Return a / b of independent ratios, on the log scale."""
    value = a.value / b.value
    relative = math.hypot(a.se / a.value, b.se / b.value)
    return Estimate(value, value * relative, value * math.exp(-Z90 * relative),
                    value * math.exp(Z90 * relative))  # fmt: skip


def _quantile_gain(estimates: Estimates, i: int, level: float, context: Context) -> Estimate:
    """Return the quantile of the plug-in's absolute deviations over that of the debiased."""
    s = estimates.settings
    j = s.n.index(s.n_histogram) if s.n_histogram in s.n else -1
    found = np.abs(estimates.deviations[:, i, j])

    def statistic(repeats: IntArray) -> float:
        plug_in, debiased = np.quantile(found[:, repeats], level, axis=1)
        return float(plug_in / debiased)

    return over_repeats(statistic, s.repeats, context.rng)


def marginal(settings: Estimators, context: Context) -> Output:
    """Studies 3 and 3b."""
    found = marginal_estimates(settings, context)
    return Output(_rows(found), _panels(found, "squared error"), _findings(found, context))


def ece(settings: Estimators, context: Context) -> Output:
    """Study 3c."""
    found = ece_estimates(settings, context)
    findings = [_explained(each, found) for each in _findings(found, context)]
    return Output(_rows(found), _panels(found, "ECE"), findings)


def _explained(finding: Finding, estimates: Estimates) -> Finding:
    """Add why the gain is not largest at the smallest n, and why there can be none."""
    if finding.key.startswith("small-n-"):
        return replace(finding, note=FEW_ROWS)
    if not finding.key.startswith("least-"):
        return finding
    s = estimates.settings
    i = s.bins.index(int(finding.key.removeprefix("least-")))
    bias = np.abs(estimates.deviations[:, i, -1].mean(axis=1))
    spread = estimates.values[:, i, -1].std(axis=1)
    why = (
        f" At n = {s.n[-1]:,} the plug-in has bias {bias[0]:.1e} and standard deviation "
        f"{spread[0]:.1e}, the debiased {bias[1]:.1e} and {spread[1]:.1e}: the correction of an "
        "absolute value takes bias off and adds spread, so it pays while the bias rules."
    )
    return replace(finding, note=finding.note + why)


STUDIES = (
    Study("estimators-marginal", "3 and 3b",
          "The debiased estimate is closer to the squared marginal error",
          lambda data: settings_for(data, repeats=repeats_for(data, 1000, FEWEST_REPEATS)),
          marginal, {"repeats": 50, "n": (100, 1000)}),
    Study("estimators-ece", "3c", "The debiased estimate is closer to the ECE",
          lambda data: settings_for(data, bins=(15, 100), n=ECE_ROWS), ece,
          {"repeats": 100, "n": (500, 1000)}),
)  # fmt: skip
