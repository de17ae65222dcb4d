"""Studies 1 and 1b: more bins uncover more error of Platt scaling (section 3.1, appendix C)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._types import BoolArray, FloatArray
from calibrant.bins import Bins, EqualMass, EqualWidth
from calibrant.engines.numpy import distinct
from calibrant.measure import calibration_error
from calibrant.paper.claims import Finding
from calibrant.paper.predictions import Predictions
from calibrant.paper.resampling import draw_rows, resampled_cells
from calibrant.paper.result import Output, Panel, Row, series
from calibrant.paper.study import Context, Study
from calibrant.paper.uncertainty import Z90, Estimate
from calibrant.recalibrators import PlattScaling
from calibrant.stats.estimators import error_of, power_of

PAPER_ROWS = {10_000: (1000, 1000), 50_000: (20_000, 5000)}
ONE = np.ones(1)


@dataclass(frozen=True)
class LowerBounds:
    """Settings of the lower-bound studies.

    Attributes
    ----------
    n_scale, n_choose : int
        Rows for Platt scaling and for choosing bins; all others measure.
    bins : tuple of int
    norm : {"l1", "l2"}
    rules : tuple of {"mass", "width"}
        How bins are chosen.
    resamples : int
        Bootstrap resamples of the measuring rows.
    splits : int
        Other random splits, to see how much depends on the split.
    """

    n_scale: int = 1000
    n_choose: int = 1000
    bins: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    norm: str = "l2"
    rules: tuple[str, ...] = ("mass",)
    resamples: int = 1000
    splits: int = 100


def settings_for(data: Predictions | None, **changes: object) -> LowerBounds:
    """Return the paper's split for this many rows, or the same shares as for CIFAR-10."""
    n = 10_000 if data is None else len(data)
    scale, choose = PAPER_ROWS.get(n, (n // 10, n // 10))
    bins = (2, 4, 8, 15, 32, 64, 128, 256, 512) if n >= 50_000 else LowerBounds.bins
    return LowerBounds(scale, choose, bins, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Split:
    """One random split: scaled scores to choose bins from, and rows to measure on."""

    chosen_from: FloatArray
    scores: FloatArray
    right: BoolArray

    @classmethod
    def draw(cls, settings: LowerBounds, context: Context) -> Split:
        """Shuffle the rows, fit Platt scaling on the first part, and scale the others."""
        data = context.predictions
        order = context.rng.permutation(len(data))
        first, others = np.split(order, [settings.n_scale])
        second, third = np.split(others, [settings.n_choose])
        confidence, right = data.confidence, data.right
        scaler = PlattScaling().fit(confidence[first], right[first])
        chosen_from, scores = (scaler.predict_proba(confidence[part]) for part in (second, third))
        return cls(chosen_from, scores, right[third])

    def bins(self, rule: str, n_bins: int) -> Bins:
        """Return bins of a rule; those of equal mass come from the choosing rows."""
        if rule == "width":
            return EqualWidth(n_bins).bins
        return EqualMass(n_bins).choose(*distinct(self.chosen_from, None))

    def debiased(self, bins: Bins, norm: str) -> float:
        """Return the debiased error on the measuring rows."""
        return float(calibration_error(self.right, self.scores, bins=bins, norm=norm))


def reflected_errors(
    split: Split, bins: Bins, norm: str, draws: np.ndarray[tuple[int, int], np.dtype[np.int32]]
) -> FloatArray:
    """Return twice the plug-in error minus that of every resample: the paper's bootstrap.

    Its quantiles are the paper's interval, its median the paper's point, from which the bias
    that a resample adds has been taken off once.
    """
    power = power_of(norm)
    plug_in = calibration_error(split.right, split.scores, bins=bins, norm=norm, debias=False)
    index = bins.index(split.scores)
    cells = resampled_cells(index, len(bins), split.scores, split.right, draws)
    resampled = error_of(cells, ONE, power, debiased=False)
    return np.asarray(2 * plug_in.value - resampled)


def compute(settings: LowerBounds, context: Context) -> Output:
    """Measure the binned error of Platt scaling with ever more bins."""
    split = Split.draw(settings, context)
    draws = draw_rows(context.rng, split.right.size, split.right.size, settings.resamples)
    rows: list[Row] = []
    panels, findings = [], []
    total = len(settings.rules) * len(settings.bins)
    for rule in settings.rules:
        reflected, ours = [], []
        for n_bins in settings.bins:
            bins = split.bins(rule, n_bins)
            reflected.append(reflected_errors(split, bins, settings.norm, draws))
            ours.append(_ours(split, bins, settings.norm))
            rows.append(_row(rule, bins, n_bins, reflected[-1], ours[-1]))
            context.progress(len(rows), total)
        panels.append(_panel(settings, rule, reflected, ours))
        findings += _findings(settings, rule, reflected, ours, context)
    return Output(rows, panels, findings)


def quantiles(draws: FloatArray) -> Estimate:
    """Return the median and the 90% interval of bootstrap draws."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95])
    return Estimate(float(middle), float(high - low) / (2 * Z90), float(low), float(high))


def _ours(split: Split, bins: Bins, norm: str) -> Estimate:
    """Return the debiased error and its closed-form 90% interval."""
    result = calibration_error(split.right, split.scores, bins=bins, norm=norm)
    low, high = result.confidence_interval(0.9)
    return Estimate(result.value, (high - low) / (2 * Z90), low, high)


def _row(rule: str, bins: Bins, n_bins: int, reflected: FloatArray, ours: Estimate) -> Row:
    paper = quantiles(reflected)
    return {
        "rule": rule, "bins": n_bins, "bins_made": len(bins),
        "error": paper.value, "error_low": paper.low, "error_high": paper.high,
        "debiased": ours.value, "debiased_low": ours.low, "debiased_high": ours.high,
    }  # fmt: skip


def _panel(
    settings: LowerBounds, rule: str, reflected: list[FloatArray], ours: list[Estimate]
) -> Panel:
    rule = {"mass": "uniform-mass bins", "width": "equal-width bins"}[rule]
    lines = (
        series("the paper's bootstrap", settings.bins, [quantiles(r) for r in reflected]),
        series("ours: debiased, closed form", [b * 1.08 for b in settings.bins], ours),
    )
    return Panel(rule, "B, bins", f"binned {settings.norm} error", lines, x_scale="log2")


def _findings(
    settings: LowerBounds,
    rule: str,
    reflected: list[FloatArray],
    ours: list[Estimate],
    context: Context,
) -> list[Finding]:
    """Compare most bins with fewest, and 15 bins with most."""
    few, many = settings.bins[0], settings.bins[-1]
    boot = quantiles(reflected[-1] - reflected[0])
    words = f"{settings.norm} error at {many} bins minus that at {few}, {rule}"
    note = _other_splits(settings, rule, context)
    if settings.norm == "l1":
        own = _difference(ours[-1], ours[0])
        note = (
            "The paper's bootstrap removes the bias of an l1 error only in part, and that bias "
            f"grows with the bins too. Our interval, {own.low:.4f} to {own.high:.4f}, allows for "
            f"all of it and is inconclusive. {note}"
            if own.low <= 0 <= own.high
            else note
        )
    key = f"growth-{rule}" if settings.norm == "l1" else "growth"
    growth = Finding(key, boot, settings.resamples, words, note)
    if 15 not in settings.bins or settings.norm == "l1":
        return [growth]
    at = reflected[settings.bins.index(15)]
    return [
        growth,
        Finding("at-15", quantiles(at), 1, "binned error at 15 bins"),
        Finding("twice", quantiles(reflected[-1] / np.maximum(at, 1e-9)), settings.resamples,
                f"error at {many} bins over that at 15", unit="x"),
    ]  # fmt: skip


def _difference(a: Estimate, b: Estimate) -> Estimate:
    """Return a - b, whatever the dependence: the ends of one against the other's."""
    return Estimate(a.value - b.value, a.se + b.se, a.low - b.high, a.high - b.low)


def _other_splits(settings: LowerBounds, rule: str, context: Context) -> str:
    """Say in how many other splits the debiased error grows from fewest to most bins."""
    grows = 0
    for _ in range(settings.splits):
        split = Split.draw(settings, context)
        few, many = (
            split.debiased(split.bins(rule, b), settings.norm)
            for b in (settings.bins[0], settings.bins[-1])
        )
        grows += many > few
    return (
        f"One split, as in the paper. The debiased error grows in {grows} of {settings.splits} "
        "other splits of the same rows."
    )


STUDIES = (
    Study("lower-bounds", "1", "More bins uncover more l2 error of Platt scaling",
          settings_for, compute, {"resamples": 100, "splits": 5}),
    Study("lower-bounds-l1", "1b", "The same for the l1 error (ECE), with both kinds of bins",
          lambda data: settings_for(data, norm="l1", rules=("mass", "width")),
          compute, {"resamples": 100, "splits": 5}),
)  # fmt: skip
