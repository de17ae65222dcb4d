"""Studies A and B (appendix E): data whose true probabilities are known.

A: z uniform on [0, 1] and P(y = 1 | z) = sigma(a logit z + c). B: z uniform on [0.25, 0.75] and
that probability plus or minus 0.02, a fair coin for each of 100,000 cells of z. The true squared
error of a fitted model is an average over the cells: the paper draws 10,000 points for it, we
take all cells, so that no noise of an evaluation sample is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from calibrant._types import BoolArray, FloatArray
from calibrant.paper.figures import Panel, Series, Style, series
from calibrant.paper.population import METHODS, Ranked, squared_error
from calibrant.paper.study import Context, Output, Row, Study, row
from calibrant.paper.uncertainty import Estimate, Finding, about, mean, ratio

COMPARED = ("histogram", "scaling-binning")
SCALING = "scaling"
APART = "histogram, bins of equal output apart"


@dataclass(frozen=True)
class Synthetic:
    """Settings of the synthetic studies.

    Attributes
    ----------
    n : tuple of int
        Rows to recalibrate on.
    bins : tuple of int
        Numbers of bins.
    repeats : int
        Fresh samples for each n; all numbers of bins are tried on each sample.
    slope, intercept : float
        The truth's a and c.
    noise : float
        How far the truth of a cell lies from the curve, up or down.
    low, high : float
        The range of z.
    cells : int
        Cells of z over which the true error is averaged.
    """

    n: tuple[int, ...] = tuple(range(500, 4001, 500))
    bins: tuple[int, ...] = (10,)
    repeats: int = 1000
    slope: float = 2.0
    intercept: float = 1.0
    noise: float = 0.0
    low: float = 0.0
    high: float = 1.0
    cells: int = 100_000


@dataclass(frozen=True, eq=False)
class Truth:
    """The cells of z and the chance of the event in each."""

    settings: Synthetic
    chance: FloatArray
    population: Ranked

    @classmethod
    def of(cls, settings: Synthetic, rng: np.random.Generator) -> Truth:
        """Compute the curve, and toss a coin for each cell where there is noise."""
        s = settings
        z = s.low + (np.arange(s.cells) + 0.5) / s.cells * (s.high - s.low)
        coin = rng.integers(2, size=s.cells) * 2 - 1 if s.noise else np.zeros(s.cells)
        chance = expit(s.slope * logit(z) + s.intercept) + s.noise * coin
        return cls(s, chance, Ranked.of_sums(z, np.ones(s.cells), chance))

    def draw(self, rng: np.random.Generator, n: int) -> tuple[FloatArray, BoolArray]:
        """Draw scores and labels."""
        s = self.settings
        share = rng.uniform(size=n)
        z = s.low + share * (s.high - s.low)
        chance = self.chance[np.minimum((share * s.cells).astype(np.intp), s.cells - 1)]
        if not s.noise:
            chance = expit(s.slope * logit(z) + s.intercept)
        return z, rng.uniform(size=n) < chance

    def errors(self, z: FloatArray, y: BoolArray) -> dict[str, FloatArray]:
        """Return the true squared error of each method, for each number of bins."""
        sample = Ranked.of(z, y)
        errors = {}
        for name in COMPARED:
            method = METHODS[name]
            scaler = method.fit_scaler(z, y)
            scaled, population = sample.under(scaler), self.population.under(scaler)
            models = [method.discretise(scaled, n_bins) for n_bins in self.settings.bins]
            errors[name] = np.array([squared_error(population, model) for model in models])
            if scaler is None:
                apart = [squared_error(population, model, merge=False) for model in models]
                errors[APART] = np.array(apart)
            if scaler is not None and self.settings.noise:
                mapped = scaler.predict_proba(self.population.scores)
                error = float(np.mean((mapped - self.chance) ** 2))
                errors[SCALING] = np.full(len(models), error)
        return errors


def compute_errors(settings: Synthetic, context: Context) -> tuple[Truth, dict[str, FloatArray]]:
    """Return the truth, and squared errors of shape (n, bins, repeats) for each method."""
    truth = Truth.of(settings, context.rng)
    shape = (len(settings.n), len(settings.bins), settings.repeats)
    names = (*COMPARED, APART, SCALING) if settings.noise else (*COMPARED, APART)
    errors = {name: np.empty(shape) for name in names}
    for i, n in enumerate(settings.n):
        for repeat in range(settings.repeats):
            for name, of_bins in truth.errors(*truth.draw(context.rng, n)).items():
                errors[name][i, :, repeat] = of_bins
            context.progress(i * settings.repeats + repeat + 1, shape[0] * shape[2])
    return truth, errors


def _rows(settings: Synthetic, errors: dict[str, FloatArray]) -> list[Row]:
    return [
        row(
            {"method": name, "n": n, "bins": bins, "repeats": settings.repeats},
            squared_error=mean(values[i, j]),
        )
        for name, values in errors.items()
        for i, n in enumerate(settings.n)
        for j, bins in enumerate(settings.bins)
    ]


def _inverse(errors: FloatArray) -> Estimate:
    """Return 1 / mean with its interval."""
    e = mean(errors)
    return Estimate(1 / e.value, e.se / e.value**2, 1 / e.high, 1 / e.low)


def _curve(truth: Truth) -> Panel:
    z, chance = truth.population.scores, truth.chance
    step = max(z.size // (400 if not truth.settings.noise else 200), 1)
    style: Style = "curve" if not truth.settings.noise else "points"
    line = series("P(y = 1 | z)", z[::step], chance[::step], style)
    return Panel("the truth", "z", "P(y = 1 | z)", (line,))


def vary_n(settings: Synthetic, context: Context) -> Output:
    """Study A, vary n: 1 / error² against n."""
    truth, errors = compute_errors(settings, context)
    panels = [
        Panel(name, "n, rows to recalibrate on", "1 / squared error",
              (series(name, settings.n, [_inverse(of_n[0]) for of_n in errors[name]]),))
        for name in COMPARED
    ]  # fmt: skip
    findings = []
    for name in COMPARED:
        values = errors[name][:, 0]
        ends = (1000, 2000) if {1000, 2000} <= set(settings.n) else (settings.n[0], settings.n[-1])
        first, second = (values[settings.n.index(n)] for n in ends)
        findings += [
            Finding(name, ratio(first, second), settings.repeats),
            Finding(f"{name}-linear", _exponent(settings.n, values), settings.repeats),
        ]
    return Output(_rows(settings, errors), [*panels, _curve(truth)], findings)


def _exponent(n: tuple[int, ...], errors: FloatArray) -> Estimate:
    """Return b of error² ~ n^-b, by weighted least squares on the logs of the means."""
    means = [mean(errors_of_n) for errors_of_n in errors]
    y = -np.log([estimate.value for estimate in means])
    weight = np.array([(estimate.value / max(estimate.se, 1e-12)) ** 2 for estimate in means])
    x = np.log(np.array(n, np.float64))
    x = x - np.average(x, weights=weight)
    scale = float(weight @ x**2)
    return about(float(weight @ (x * y)) / scale, scale**-0.5)


def vary_bins(settings: Synthetic, context: Context) -> Output:
    """Study A, vary B: 1 / error² against B."""
    truth, errors = compute_errors(settings, context)
    panels = [
        Panel(name, "B, bins", "1 / squared error",
              (series(name, settings.bins, [_inverse(of_bins) for of_bins in errors[name][0]]),))
        for name in COMPARED
    ]  # fmt: skip
    ends = (5, 20) if {5, 20} <= set(settings.bins) else (settings.bins[0], settings.bins[-1])
    few, most = (settings.bins.index(b) for b in ends)
    growth = {
        name: ratio(values[0, most], values[0, few], paired=True) for name, values in errors.items()
    }
    note = (
        "Bins with the same output (often 0 or 1) are one, as in the paper's definition and code; "
        f"judged apart, the factor is {growth[APART].value:.2f}."
    )
    change = growth["scaling-binning"]
    findings = [
        Finding("histogram", growth["histogram"], settings.repeats, note=note),
        Finding("scaling-binning",
                Estimate(change.value - 1, change.se, change.low - 1, change.high - 1),
                settings.repeats),
    ]  # fmt: skip
    return Output(_rows(settings, errors), [*panels, _curve(truth)], findings)


def noisy(settings: Synthetic, context: Context) -> Output:
    """Study B: scaling-binning against the scaling that it starts from."""
    truth, errors = compute_errors(settings, context)
    shown = (SCALING, "scaling-binning")
    lines: tuple[Series, ...] = tuple(
        series(name, settings.n, [mean(of_n[0]) for of_n in errors[name]]) for name in shown
    )
    panel = Panel("error by number of rows", "n, rows to recalibrate on", "squared error", lines)
    gains = [
        ratio(errors[SCALING][i, 0], errors["scaling-binning"][i, 0], paired=True)
        for i in range(len(settings.n))
    ]
    at = settings.n.index(3000) if 3000 in settings.n else -1
    findings = [
        Finding("gain", gains[at], settings.repeats),
        Finding("always", min(gains, key=lambda gain: gain.value), settings.repeats),
    ]
    return Output(_rows(settings, errors), [panel, _curve(truth)], findings)


STUDIES = (
    Study("synthetic-n", "A, vary n", "Squared error falls as 1 / n for both methods",
          lambda data: Synthetic(), vary_n, {"repeats": 60}, needs_data=False),
    Study("synthetic-bins", "A, vary B",
          "More bins cost histogram binning, and scaling-binning next to nothing",
          lambda data: Synthetic(n=(2000,), bins=(5, 10, 15, 20, 25, 30, 35, 40)),
          vary_bins, {"repeats": 100}, needs_data=False),
    Study("synthetic-noisy", "B", "Binning can beat the scaling that it starts from",
          lambda data: Synthetic(noise=0.02, low=0.25, high=0.75), noisy,
          {"repeats": 40, "n": (1000, 3000), "cells": 20_000}, needs_data=False),
)  # fmt: skip
