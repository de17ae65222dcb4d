"""Example 3.1 and Proposition 3.2, drawn: what bins hide, and that finer ones hide less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from calibrant._types import FloatArray
from calibrant.bins import EqualWidth
from calibrant.paper.figures import Panel, series
from calibrant.paper.population import Ranked
from calibrant.paper.study import Context, Output, Row, Study
from calibrant.paper.uncertainty import Finding, exactly
from calibrant.stats.estimators import Cells, raw_error


@dataclass(frozen=True)
class HiddenError:
    """Settings of Example 3.1.

    Attributes
    ----------
    n_bins : int
        Equal-width bins on [0, 1]. An odd number has one bin over the outputs, an even number
        two.
    spread : float
        The outputs are uniform on 0.5 +- spread: the proof's epsilon.
    cells : int
        Points at which the outputs are laid out.
    """

    n_bins: int = 10
    spread: float = 0.01
    cells: int = 100_000


def hidden_error(settings: HiddenError, context: Context) -> Output:
    """Build the distribution of the proof of Example 3.1, and measure it.

    In each bin the event always happens at the first outputs and never at the others, in the
    share that makes the bin's event rate its mean output.
    """
    s = 0.5 + settings.spread * (2 * (np.arange(settings.cells) + 0.5) / settings.cells - 1)
    bins = EqualWidth(settings.n_bins).bins
    chance = np.empty_like(s)
    index = bins.index(s)
    for j in np.unique(index):
        of_bin = np.flatnonzero(index == j)
        share = s[of_bin].mean() * of_bin.size
        chance[of_bin] = np.clip(share - np.arange(of_bin.size), 0, 1)
    used = np.unique(index)
    means = [s[index == j].mean() for j in used]
    rates = [chance[index == j].mean() for j in used]
    error = float(np.sqrt(np.mean((s - chance) ** 2)))
    binned = binned_error(Ranked.of_sums(s, np.ones(s.size), chance), s, settings.n_bins)
    step = max(settings.cells // 1000, 1)
    panel = Panel(
        "Example 3.1",
        "output of the model, f",
        "P(y = 1 | f)",
        (
            series("the truth at each output", s[::step], chance[::step], "curve"),
            series("calibrated", [s[0], s[-1]], [s[0], s[-1]], "curve"),
            series("what the bins see", means, rates, "points"),
        ),
    )
    rows: list[Row] = [
        {"quantity": "error", "value": error},
        {"quantity": "binned error", "value": binned, "bins": settings.n_bins},
    ]
    findings = [Finding("error", exactly(error)), Finding("binned", exactly(binned))]
    return Output(rows, [panel], findings)


@dataclass(frozen=True)
class NestedBins:
    """Settings of Proposition 3.2.

    Attributes
    ----------
    bins : tuple of int
        Equal-width bins, each number a multiple of the one before.
    slope, intercept : float
        The truth sigma(a logit z + c) of the model f(z) = z.
    waves : int
        The second truth is the first plus 0.1 sin(2 pi waves z), which coarse bins do not see.
    cells : int
        Points over which errors are averaged.
    """

    bins: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    slope: float = 2.0
    intercept: float = 1.0
    waves: int = 24
    cells: int = 1 << 17


def nested_bins(settings: NestedBins, context: Context) -> Output:
    """Compute the binned l2 error of two known models in ever finer bins."""
    z = (np.arange(settings.cells) + 0.5) / settings.cells
    smooth = expit(settings.slope * logit(z) + settings.intercept)
    wavy = np.clip(smooth + 0.1 * np.sin(2 * np.pi * settings.waves * z), 0, 1)
    rows: list[Row] = []
    panels, falls, excesses = [], [], []
    for name, chance in (("a smooth truth", smooth), ("a truth with fine waves", wavy)):
        whole = float(np.sqrt(np.mean((z - chance) ** 2)))
        population = Ranked.of_sums(z, np.ones(z.size), chance)
        binned = np.array([binned_error(population, z, b) for b in settings.bins])
        falls.append(float(np.max(binned[:-1] - binned[1:])))
        excesses.append(float(np.max(binned - whole)))
        lines = (
            series("binned error", settings.bins, binned),
            series(
                "the error itself", [min(settings.bins), max(settings.bins)], [whole] * 2, "curve"
            ),
        )
        labels = (name, "B, equal-width bins", "l2 calibration error")
        panels.append(Panel(*labels, lines, x_scale="log2"))
        rows += [
            {"truth": name, "bins": b, "binned_error": float(e), "error": whole}
            for b, e in zip(settings.bins, binned, strict=True)
        ]
    findings = [
        Finding("finer", exactly(max(falls))),
        Finding("bound", exactly(max(excesses))),
    ]
    return Output(rows, panels, findings)


def binned_error(population: Ranked, scores: FloatArray, n_bins: int) -> float:
    """Return the l2 error of f in equal-width bins, from true chances of the event."""
    bins = EqualWidth(n_bins).bins
    n, y = population.counts(bins)
    total = Ranked.of_sums(scores, np.ones(scores.size), scores)
    p = total.counts(bins)[1]
    nothing = np.zeros_like(n)
    cells = Cells(*(x[None] for x in (y, p, nothing, n, n, nothing)))
    return float(np.sqrt(raw_error(cells, np.ones(1), 2.0, debiased=False)))


STUDIES = (
    Study("example-3-1", "Example 3.1", "A model that is wrong by 0.49 and looks perfect in bins",
          lambda data: HiddenError(), hidden_error, needs_data=False),
    Study("proposition-3-2", "Proposition 3.2", "Finer bins uncover more error, never too much",
          lambda data: NestedBins(), nested_bins, needs_data=False),
)  # fmt: skip
