"""Beyond the paper: our own recalibrators and bounds in the paper's protocols.

Whether the bounds of study 4 hold is counted where the truth is known: models with B outputs and
a known chance of the event under each, one calibrated, one that scaling-binning fitted to 500 rows
of the synthetic data of study A, one with a single output that is off by 0.25. Tables of n rows
are drawn, and each bound is asked whether it holds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from calibrant._types import FloatArray
from calibrant.bins import Distinct
from calibrant.measure import tabulate
from calibrant.paper import calibrators, choosing
from calibrant.paper.calibrators import SCALING_BINNING, Calibrators, MethodScores
from calibrant.paper.choosing import Z_ONE_SIDED
from calibrant.paper.figures import Panel, Series, series
from calibrant.paper.population import METHODS, Ranked, binned_cells, platt_scaling
from calibrant.paper.predictions import Predictions
from calibrant.paper.study import Context, Output, Row, Study
from calibrant.paper.synthetic import Synthetic, Truth
from calibrant.paper.uncertainty import Estimate, Finding, across, exactly, mean, over_splits, ratio
from calibrant.recalibrators import AccuracyWarning, OneVsRest, ScalingBinning
from calibrant.stats import calibration_error, certify
from calibrant.stats.estimators import raw_error
from calibrant.stats.intervals import clopper_pearson, score_interval

LEVEL = 0.9
"""Of every bound, as in the paper."""
BOUNDS = (
    "paper: plug-in, bootstrap",
    "paper: debiased, bootstrap",
    "ours: score bound",
    "ours: exact certificate",
)
ONE = np.ones(1)
SHORT = ("calibrated", "scaling-\nbinning", "one output\noff")
MODELS = ("calibrated", "scaling-binning of 500 rows", "one output off by 0.25")


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
    lines = tuple(
        series(name, settings.bins, half * scores.brier[i].mean(axis=1))
        for i, name in enumerate(settings.methods)
    )
    panels = [
        calibrators.error_panel(scores),
        Panel("mean squared error by number of bins", "B, bins", "mean squared error", lines,
              from_zero=False),
        calibrators.trade_panel(scores, half),
    ]  # fmt: skip
    return Output(calibrators.rows_of(scores), panels, findings)


def _gain(scores: MethodScores, what: str, name: str, j: int) -> Finding:
    """Compare a method with the paper's scaling-binning, repeat by repeat."""
    methods, bins = scores.settings.methods, scores.settings.bins[j]
    values = getattr(scores, what)
    times = ratio(
        values[methods.index(name), j], values[methods.index(SCALING_BINNING), j], paired=True
    )
    key, n = f"{what}-{name}-{bins}", scores.settings.repeats
    if what == "squared":
        words = f"B = {bins}: squared marginal error of {name} over that of the paper's"
        return Finding(key, times, n, words, unit="x")
    lower = Estimate(1 - times.value, times.se, 1 - times.high, 1 - times.low)
    words = f"B = {bins}: mean squared error of {name} is lower than the paper's by"
    return Finding(key, lower, n, words, unit="%")


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
        model = OneVsRest(ScalingBinning(f"mass:{n_bins}", platt_scaling()))
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


@dataclass(frozen=True)
class Coverage:
    """Settings of the coverage study.

    Attributes
    ----------
    n : int
        Rows of each table.
    bins : tuple of int
    repeats : int
        Tables for the bootstrap and the score bound.
    certificates : int
        How many of them are also certified, which takes longer.
    resamples : int
        Bootstrap resamples of each table.
    """

    n: int = 2000
    bins: tuple[int, ...] = (10, 50)
    repeats: int = 1000
    certificates: int = 20
    resamples: int = 100


@dataclass(frozen=True, eq=False)
class Known:
    """A model whose outputs, their masses and the chance under each are known."""

    mass: FloatArray
    chance: FloatArray
    levels: FloatArray

    @property
    def error(self) -> float:
        """The true l2 error."""
        return float(np.sqrt(self.mass @ (self.chance - self.levels) ** 2))

    def draw(self, rng: np.random.Generator, n: int, repeats: int) -> tuple[FloatArray, FloatArray]:
        """Draw rows and events of each output, of shape (repeats, B)."""
        rows = rng.multinomial(n, self.mass, size=repeats)
        return rows.astype(np.float64), rng.binomial(rows, self.chance).astype(np.float64)


def known_models(n_bins: int, rng: np.random.Generator) -> dict[str, Known]:
    """Return the three models with this many outputs."""
    truth = Truth.of(Synthetic(), rng)
    z, y = truth.draw(rng, 500)
    method = METHODS["scaling-binning"]
    scaler = method.fit_scaler(z, y)
    bins, levels = method.discretise(Ranked.of(z, y).under(scaler), n_bins)
    rows, events = truth.population.under(scaler).counts(bins)
    mass, chance = rows / rows.sum(), events / rows
    off = chance.copy()
    off[off.size // 2] += 0.25 if off[off.size // 2] < 0.5 else -0.25
    outputs = (chance, levels, off)
    return {name: Known(mass, chance, s) for name, s in zip(MODELS, outputs, strict=True)}


def coverage_bounds(
    settings: Coverage, model: Known, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds without and with certificates: (3, repeats) and (certificates,)."""
    n, y = model.draw(rng, settings.n, settings.repeats)
    cells = binned_cells(n[:, None], y[:, None], model.levels)
    shares = np.concatenate((n - y, y), axis=1) / settings.n
    again = rng.multinomial(settings.n, shares, size=(settings.resamples, settings.repeats))
    drawn: FloatArray = again.reshape(*again.shape[:2], 1, 2, -1).astype(np.float64)
    resampled = binned_cells(drawn.sum(axis=3), drawn[:, :, :, 1], model.levels)
    approximate = []
    for debiased in (False, True):
        spread = raw_error(resampled, ONE, 2.0, debiased).std(axis=0)
        square = raw_error(cells, ONE, 2.0, debiased) + Z_ONE_SIDED * spread
        approximate.append(np.sqrt(np.maximum(square, 0.0)))
    approximate.append(score_interval(cells, ONE, 2 * LEVEL - 1)[1])
    exact = [_certificate(n[r], y[r], model.levels) for r in range(settings.certificates)]
    return np.array(approximate), np.array(exact)


def _certificate(rows: FloatArray, events: FloatArray, levels: FloatArray) -> float:
    """Return the exact upper bound of a table."""
    counts = np.concatenate((rows - events, events)).astype(np.intp)
    outputs, labels = np.tile(levels, 2), np.repeat([0, 1], levels.size)
    table = tabulate(np.repeat(labels, counts), np.repeat(outputs, counts), bins=Distinct())
    return certify(table, confidence_level=LEVEL).upper_bound


def compare_coverage(settings: Coverage, context: Context) -> Output:
    """Count how often each bound holds, and average it."""
    rows: list[Row] = []
    panels, findings = [], []
    share = np.empty((len(BOUNDS), len(MODELS), len(settings.bins)))
    size = np.empty_like(share)
    calibrated: dict[int, Estimate] = {}
    for j, n_bins in enumerate(settings.bins):
        for i, (name, model) in enumerate(known_models(n_bins, context.rng).items()):
            quick, exact = coverage_bounds(settings, model, context.rng)
            for b, values in enumerate((*quick, exact)):
                share[b, i, j], size[b, i, j] = np.mean(values >= model.error), values.mean()
                rows.append({
                    "bound": BOUNDS[b], "model": name, "bins": n_bins, "error": model.error,
                    "repeats": values.size, "coverage": float(share[b, i, j]),
                    "mean_bound": mean(values).value,
                })  # fmt: skip
                if i == 0:
                    calibrated[b] = mean(values)
            context.progress(j * len(MODELS) + i + 1, len(MODELS) * len(settings.bins))
    ends = [-0.3, len(MODELS) - 0.7]
    promised = series(f"promised: {LEVEL:.0%}", ends, [LEVEL, LEVEL], "curve")
    for j, n_bins in enumerate(settings.bins):
        title, holds = f"n = {settings.n:,}, B = {n_bins}", (*_points(share[:, :, j]), promised)
        panels += [
            Panel(title, "model", "share of bounds that hold", holds, from_zero=False,
                  x_names=SHORT),
            Panel(title, "model", "mean bound", _points(size[:, :, j]), x_names=SHORT),
        ]  # fmt: skip
    for b, name in enumerate(BOUNDS):
        repeats = settings.certificates if b == 3 else settings.repeats
        words = f"how often a 90% bound holds, worst case, {name}"
        held, n = float(share[b].min()), np.array([float(repeats)])
        low, high = clopper_pearson(held * n, n, 0.1)
        spread = float(np.sqrt(held * (1 - held) / repeats))
        worst = Estimate(held, spread, float(low[0]), float(high[0]))
        findings.append(Finding(f"coverage-{b}", worst, repeats, words, unit="%"))
        words = f"mean 90% bound of a calibrated model with {settings.bins[-1]} outputs, {name}"
        findings.append(Finding(f"size-{b}", calibrated[b], repeats, words))
    return Output(rows, panels, findings)


def _points(values: FloatArray) -> tuple[Series, ...]:
    """Return a number of each bound, side by side for each model."""
    places = np.arange(len(MODELS))
    return tuple(
        series(name, places + 0.08 * (b - 1.5), values[b], "points")
        for b, name in enumerate(BOUNDS)
    )


STUDIES = (
    Study("beyond-calibrators", "protocol of 2 and 2b",
          "Hybrid bins, beta and quadratic scalers in the protocol of study 2",
          calibrator_settings, compare_calibrators, {"repeats": 2, "bins": (10, 30)},
          is_beyond=True),
    Study("beyond-bounds", "protocol of 4",
          "Score bound and exact certificate in place of the bootstrap",
          bound_settings, compare_bounds, {"bins": (10,), "resamples": 50, "splits": 1},
          is_beyond=True),
    Study("beyond-coverage", "the bounds of 4, where the truth is known",
          "How often bootstrap, score and exact bounds hold, and how large they are",
          lambda data: Coverage(), compare_coverage,
          {"repeats": 60, "certificates": 3, "bins": (10,)}, needs_data=False, is_beyond=True),
)  # fmt: skip
