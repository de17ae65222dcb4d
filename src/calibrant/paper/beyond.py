"""Beyond the paper: our own recalibrators and bounds in the paper's protocols."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from calibrant._types import FloatArray
from calibrant.bins import Distinct
from calibrant.measure import tabulate
from calibrant.paper import calibrators, choosing
from calibrant.paper.binned import METHODS, platt_scaling
from calibrant.paper.calibrators import SCALING_BINNING, Calibrators, Scores
from calibrant.paper.claims import Finding, over_splits
from calibrant.paper.predictions import Predictions
from calibrant.paper.result import Output, Panel, Row, series
from calibrant.paper.study import Context, Study
from calibrant.paper.uncertainty import Estimate, across, exactly, ratio
from calibrant.recalibrators import AccuracyWarning, OneVsRest, ScalingBinning
from calibrant.stats import calibration_error, certify

LEVEL = 0.9
BOUNDS = (
    "paper: plug-in, bootstrap",
    "paper: debiased, bootstrap",
    "ours: score bound",
    "ours: exact certificate",
)


def calibrator_settings(data: Predictions | None) -> Calibrators:
    """Return the protocol of study 2 with every method, at few numbers of bins."""
    settings = calibrators.marginal_settings(data)
    repeats = calibrators.repeats_for(data, 20, 2)
    bins = (10,) if data is not None and data.n_classes > 100 else (10, 30, 100)
    return replace(settings, bins=bins, repeats=repeats, methods=tuple(METHODS))


def compare_calibrators(settings: Calibrators, context: Context) -> Output:
    """Study 2 with hybrid bins and with beta and quadratic scalers."""
    scores = calibrators.compare(settings, context)
    ours = settings.methods[settings.methods.index(SCALING_BINNING) + 1 :]
    findings = [
        _gain(scores, what, name, j)
        for name in ours
        for j in range(len(settings.bins))
        for what in ("brier", "squared")
    ]
    half = context.predictions.n_classes / 2
    panels = [
        calibrators.error_panel(scores),
        _brier_panel(scores, half),
        calibrators.trade_panel(scores, half),
    ]
    return Output(calibrators.rows_of(scores), panels, findings)


def _gain(scores: Scores, what: str, name: str, j: int) -> Finding:
    """Compare a method with the paper's scaling-binning, repeat by repeat."""
    methods, bins = scores.settings.methods, scores.settings.bins[j]
    found = getattr(scores, what)
    times = ratio(
        found[methods.index(name), j], found[methods.index(SCALING_BINNING), j], paired=True
    )
    key, n = f"{what}-{name}-{bins}", scores.settings.repeats
    if what == "squared":
        words = f"B = {bins}: squared marginal error of {name} over that of the paper's"
        return Finding(key, times, n, words, unit="x")
    lower = Estimate(1 - times.value, times.se, 1 - times.high, 1 - times.low)
    words = f"B = {bins}: mean squared error of {name} is lower than the paper's by"
    return Finding(key, lower, n, words, unit="%")


def _brier_panel(scores: Scores, factor: float) -> Panel:
    lines = tuple(
        series(name, scores.settings.bins, factor * scores.brier[i].mean(axis=1))
        for i, name in enumerate(scores.settings.methods)
    )
    return Panel("", "B, bins", "mean squared error", lines, from_zero=False)


@dataclass(frozen=True)
class Bounds:
    """Settings of the comparison of bounds in the protocol of study 4.

    Attributes
    ----------
    n_recalibrate : int
        Rows to recalibrate on; all others estimate.
    bins : tuple of int
    resamples : int
        For the paper's bounds.
    splits : int
        Random splits of the rows; fewer where there are more than ten classes.
    """

    n_recalibrate: int = 6000
    bins: tuple[int, ...] = (10, 30, 100)
    resamples: int = 200
    splits: int = 5


def bound_settings(data: Predictions | None) -> Bounds:
    """Return the split of study 4; of very many classes, ten bins only."""
    n_recalibrate = choosing.settings_for(data).n_recalibrate
    if data is not None and data.n_classes > 100:
        return Bounds(n_recalibrate, (10,), 20, 1)
    return Bounds(n_recalibrate, splits=calibrators.repeats_for(data, Bounds.splits, 1))


def compare_bounds(settings: Bounds, context: Context) -> Output:
    """Study 4 in a few splits, with score bound and exact certificate beside the paper's."""
    bounds = np.array([_bounds_of_split(settings, context, k) for k in range(settings.splits)])
    rows: list[Row] = [
        {"split": k, "bound": name, "bins": b, "value": float(bounds[k, i, j])}
        for k in range(settings.splits)
        for i, name in enumerate(BOUNDS)
        for j, b in enumerate(settings.bins)
    ]
    lines = tuple(
        series(name, settings.bins, [across(bounds[:, i, j]) for j in range(len(settings.bins))])
        for i, name in enumerate(BOUNDS)
    )
    panel = Panel(f"splits: {settings.splits}", "B, bins", "90% upper bound on the marginal error",
                  lines)  # fmt: skip
    return Output(rows, [panel], _bound_findings(settings, bounds, context))


def _bounds_of_split(settings: Bounds, context: Context, split: int) -> FloatArray:
    """Return the four bounds for each number of bins, of shape (4, bins)."""
    data, progress = context.predictions, context.progress_of(split, settings.splits)
    protocol = choosing.Choosing(settings.n_recalibrate, settings.bins, settings.resamples)
    drawn = choosing.Split.draw(protocol, context, split)
    paper, _ = choosing.bounds_of_split(protocol, drawn, data)
    ours = np.empty((2, len(settings.bins)))
    for j, n_bins in enumerate(settings.bins):
        model = OneVsRest(ScalingBinning(platt_scaling(), n_bins=n_bins, bins="mass"))
        with warnings.catch_warnings():
            # The paper's bins; what they cost in accuracy is not the question here.
            warnings.simplefilter("ignore", AccuracyWarning)
            model.fit(data.probs[drawn.fitted], data.labels[drawn.fitted])
        outputs = model.predict_proba(data.probs[drawn.others])
        table = tabulate(data.labels[drawn.others], outputs, kind="marginal", bins=Distinct())
        score = calibration_error(table).confidence_interval(2 * LEVEL - 1).high
        ours[:, j] = score, certify(table, confidence_level=LEVEL).upper_bound
        progress(j + 1, len(settings.bins))
    return np.concatenate((paper, ours))


def _bound_findings(settings: Bounds, bounds: FloatArray, context: Context) -> list[Finding]:
    most = settings.bins[-1]
    note = (
        "How often each bound holds where the truth is known: see beyond-coverage. The level of "
        "the certificate is proved for any sample size."
    )
    of_splits = [
        [
            Finding(f"bound-{i}", exactly(split[i, -1]), settings.resamples,
                    f"B = {most}: 90% upper bound on the marginal error, {name}", note)
            for i, name in enumerate(BOUNDS)
        ]
        for split in bounds
    ]  # fmt: skip
    return over_splits(of_splits, context.has_authors_split)


STUDIES = (
    Study("beyond-calibrators", "protocol of 2 and 2b",
          "Hybrid bins, beta and quadratic scalers in the protocol of study 2",
          calibrator_settings, compare_calibrators, {"repeats": 2, "bins": (10, 30)},
          is_beyond=True),
    Study("beyond-bounds", "protocol of 4",
          "Score bound and exact certificate in place of the bootstrap",
          bound_settings, compare_bounds, {"bins": (10,), "resamples": 50, "splits": 1},
          is_beyond=True),
)  # fmt: skip
