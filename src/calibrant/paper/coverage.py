"""Beyond the paper: whether the bounds of study 4 hold, where the truth is known.

Models with B outputs and a known chance of the event under each: one calibrated, one that
scaling-binning fitted to 500 rows of the synthetic data of study A, one with a single output that
is off by 0.25. Tables of n rows are drawn, and each bound is asked whether it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._types import FloatArray
from calibrant.bins import Distinct
from calibrant.measure import tabulate
from calibrant.paper.beyond import BOUNDS, LEVEL
from calibrant.paper.binned import METHODS, Ranked
from calibrant.paper.choosing import Z_ONE_SIDED
from calibrant.paper.claims import Finding
from calibrant.paper.resampling import binned_cells
from calibrant.paper.result import Output, Panel, Row, Series, series
from calibrant.paper.study import Context, Study
from calibrant.paper.synthetic import Synthetic, Truth
from calibrant.paper.uncertainty import Estimate, mean
from calibrant.stats import certify
from calibrant.stats.estimators import raw_error
from calibrant.stats.intervals import clopper_pearson, score_interval

ONE = np.ones(1)
SHORT = ("calibrated", "scaling-\nbinning", "one output\noff")
MODELS = ("calibrated", "scaling-binning of 500 rows", "one output off by 0.25")


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


def bounds(
    settings: Coverage, model: Known, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds without and with certificates: (3, repeats) and (certificates,)."""
    n, y = model.draw(rng, settings.n, settings.repeats)
    cells = binned_cells(n[:, None], y[:, None], model.levels)
    shares = np.concatenate((n - y, y), axis=1) / settings.n
    again = rng.multinomial(settings.n, shares, size=(settings.resamples, settings.repeats))
    drawn: FloatArray = again.reshape(*again.shape[:2], 1, 2, -1).astype(np.float64)
    resampled = binned_cells(drawn.sum(axis=3), drawn[:, :, :, 1], model.levels)
    found = []
    for debiased in (False, True):
        spread = raw_error(resampled, ONE, 2.0, debiased).std(axis=0)
        square = raw_error(cells, ONE, 2.0, debiased) + Z_ONE_SIDED * spread
        found.append(np.sqrt(np.maximum(square, 0.0)))
    found.append(score_interval(cells, ONE, 2 * LEVEL - 1)[1])
    exact = [_certificate(n[r], y[r], model.levels) for r in range(settings.certificates)]
    return np.array(found), np.array(exact)


def _certificate(rows: FloatArray, events: FloatArray, levels: FloatArray) -> float:
    """Return the exact upper bound of a table."""
    counts = np.concatenate((rows - events, events)).astype(np.intp)
    outputs, labels = np.tile(levels, 2), np.repeat([0, 1], levels.size)
    table = tabulate(np.repeat(labels, counts), np.repeat(outputs, counts), bins=Distinct())
    return certify(table, confidence_level=LEVEL).upper_bound


def compute(settings: Coverage, context: Context) -> Output:
    """Count how often each bound holds, and average it."""
    rows: list[Row] = []
    panels, findings = [], []
    share = np.empty((len(BOUNDS), len(MODELS), len(settings.bins)))
    size = np.empty_like(share)
    calibrated: dict[int, Estimate] = {}
    for j, n_bins in enumerate(settings.bins):
        for i, (name, model) in enumerate(known_models(n_bins, context.rng).items()):
            quick, exact = bounds(settings, model, context.rng)
            for b, values in enumerate((*quick, exact)):
                share[b, i, j], size[b, i, j] = np.mean(values >= model.error), values.mean()
                rows.append(_row(BOUNDS[b], name, n_bins, model.error, values))
                if i == 0:
                    calibrated[b] = mean(values)
            context.progress(j * len(MODELS) + i + 1, len(MODELS) * len(settings.bins))
    for j, n_bins in enumerate(settings.bins):
        title = f"n = {settings.n:,}, B = {n_bins}"
        panels += [
            Panel(title, "model", "share of bounds that hold", _lines(share[:, :, j]),
                  from_zero=False, x_names=SHORT),
            Panel(title, "model", "mean bound", _points(size[:, :, j]), x_names=SHORT),
        ]  # fmt: skip
    for b, name in enumerate(BOUNDS):
        repeats = settings.certificates if b == 3 else settings.repeats
        words = f"how often a 90% bound holds, worst case, {name}"
        found = _share(float(share[b].min()), repeats)
        findings.append(Finding(f"coverage-{b}", found, repeats, words, unit="%"))
        words = f"mean 90% bound of a calibrated model with {settings.bins[-1]} outputs, {name}"
        findings.append(Finding(f"size-{b}", calibrated[b], repeats, words))
    return Output(rows, panels, findings)


def _lines(share: FloatArray) -> tuple[Series, ...]:
    """Return the share of each bound, and the level that is promised."""
    ends = [-0.3, len(MODELS) - 0.7]
    return (*_points(share), series(f"promised: {LEVEL:.0%}", ends, [LEVEL, LEVEL], "curve"))


def _points(found: FloatArray) -> tuple[Series, ...]:
    """Return a number of each bound, side by side for each model."""
    places = np.arange(len(MODELS))
    return tuple(
        series(name, places + 0.08 * (b - 1.5), found[b], "points") for b, name in enumerate(BOUNDS)
    )


def _row(bound: str, model: str, n_bins: int, error: float, values: FloatArray) -> Row:
    return {
        "bound": bound, "model": model, "bins": n_bins, "error": error, "repeats": values.size,
        "coverage": float(np.mean(values >= error)), "mean_bound": mean(values).value,
    }  # fmt: skip


def _share(share: float, repeats: int) -> Estimate:
    """Return a share with its exact 90% interval."""
    size = np.array([float(repeats)])
    low, high = clopper_pearson(np.array([share]) * size, size, 0.1)
    return Estimate(
        share, float(np.sqrt(share * (1 - share) / repeats)), float(low[0]), float(high[0])
    )


STUDIES = (
    Study("beyond-coverage", "the bounds of 4, where the truth is known",
          "How often bootstrap, score and exact bounds hold, and how large they are",
          lambda data: Coverage(), compute,
          {"repeats": 60, "certificates": 3, "bins": (10,)}, needs_data=False, is_beyond=True),
)  # fmt: skip
