"""Studies 1 and 1b: more bins uncover more error of Platt scaling (section 3.1, appendix C)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._types import AnyArray, BoolArray, FloatArray
from calibrant.bins import Bins, EqualMass, EqualWidth
from calibrant.engines.cells import distinct
from calibrant.measure import calibration_error
from calibrant.paper.figures import Panel, series
from calibrant.paper.population import draw_rows, multiplicities, platt_scaling, resampled_cells
from calibrant.paper.predictions import Predictions
from calibrant.paper.study import Context, Output, Study
from calibrant.paper.uncertainty import Z90, Estimate, Finding, exactly, over_splits
from calibrant.stats.estimators import error_of, power_of

PAPER_ROWS = {10_000: (1000, 1000), 50_000: (20_000, 5000)}
"""Rows of a file, and of those the ones that the paper scales and chooses bins with."""
RULES = {"mass": "uniform-mass bins", "width": "equal-width bins"}
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
        Random splits of the rows; the paper has one. All bins are measured in the first, only
        those that a claim speaks of in the others.
    """

    n_scale: int = 1000
    n_choose: int = 1000
    bins: tuple[int, ...] = (2, 4, 8, 16, 32, 64, 128)
    norm: str = "l2"
    rules: tuple[str, ...] = ("mass",)
    resamples: int = 1000
    splits: int = 20


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
    def draw(cls, settings: LowerBounds, context: Context, split: int) -> Split:
        """Shuffle the rows, fit Platt scaling on the first part, and scale the others."""
        data = context.predictions
        order = context.order(split, shuffles=2)
        first, others = np.split(order, [settings.n_scale])
        second, third = np.split(others, [settings.n_choose])
        confidence, right = data.confidence, data.right
        scaler = platt_scaling().fit(confidence[first], right[first])
        chosen_from, scores = (scaler.predict_proba(confidence[part]) for part in (second, third))
        return cls(chosen_from, scores, right[third])

    def bins(self, rule: str, n_bins: int) -> Bins:
        """Return bins of a rule; those of equal mass come from the choosing rows."""
        if rule == "width":
            return EqualWidth(n_bins).bins
        return EqualMass(n_bins).choose(*distinct(self.chosen_from, None))


def reflected_errors(split: Split, bins: Bins, norm: str, drawn: AnyArray) -> FloatArray:
    """Return twice the plug-in error minus that of every resample: the paper's bootstrap.

    Its quantiles are the paper's interval, its median the paper's point, from which the bias
    that a resample adds has been taken off once. `drawn` is how often each measuring row is in
    each resample.
    """
    power = power_of(norm)
    plug_in = calibration_error(split.right, split.scores, bins=bins, norm=norm, debias=False)
    index = bins.index(split.scores)
    cells = resampled_cells(index, len(bins), split.scores, split.right, drawn)
    resampled = error_of(cells, ONE, power, debiased=False)
    return np.asarray(2 * plug_in.value - resampled)


@dataclass(frozen=True, eq=False)
class Measured:
    """The error in one split by one rule: the paper's bootstrap and ours, by number of bins."""

    made: dict[int, int]
    reflected: dict[int, FloatArray]
    ours: dict[int, Estimate]

    @classmethod
    def of(
        cls, split: Split, rule: str, n_bins: Sequence[int], norm: str, drawn: AnyArray
    ) -> Measured:
        """Measure the error of a split with each number of bins."""
        bins = {b: split.bins(rule, b) for b in n_bins}
        return cls(
            {b: len(edges) for b, edges in bins.items()},
            {b: reflected_errors(split, edges, norm, drawn) for b, edges in bins.items()},
            {b: _ours(split, edges, norm) for b, edges in bins.items()},
        )


def compute(settings: LowerBounds, context: Context) -> Output:
    """Measure the binned error of Platt scaling with ever more bins, in several splits."""
    measured: dict[str, list[Measured]] = {rule: [] for rule in settings.rules}
    ends = sorted({settings.bins[0], settings.bins[-1], *({15} & set(settings.bins))})
    for k in range(settings.splits):
        split = Split.draw(settings, context, k)
        n_rows = split.right.size
        draws = draw_rows(context.rng, n_rows, n_rows, settings.resamples)
        drawn = multiplicities(draws, n_rows)
        for rule, splits in measured.items():
            n_bins = ends if splits else settings.bins
            splits.append(Measured.of(split, rule, n_bins, settings.norm, drawn))
        context.progress(k + 1, settings.splits)
    output = Output([], [], [])
    for rule, splits in measured.items():
        for k, split_result in enumerate(splits):
            for b, reflected in split_result.reflected.items():
                paper, ours = quantiles(reflected), split_result.ours[b]
                output.rows.append({
                    "rule": rule, "split": k, "bins": b, "bins_made": split_result.made[b],
                    "error": paper.value, "error_low": paper.low, "error_high": paper.high,
                    "debiased": ours.value, "debiased_low": ours.low, "debiased_high": ours.high,
                })  # fmt: skip
        output.panels.append(_panel(settings, rule, splits[0]))
        note = _note(settings, splits)
        of_splits = [_findings_of_split(settings, rule, x, note) for x in splits]
        output.findings.extend(over_splits(of_splits, context.has_authors_split))
    return output


def quantiles(draws: FloatArray) -> Estimate:
    """Return the median and the 90% interval of bootstrap draws."""
    low, middle, high = np.quantile(draws, [0.05, 0.5, 0.95])
    return Estimate(float(middle), float(high - low) / (2 * Z90), float(low), float(high))


def _ours(split: Split, bins: Bins, norm: str) -> Estimate:
    """Return the debiased error and its closed-form 90% interval."""
    result = calibration_error(split.right, split.scores, bins=bins, norm=norm)
    low, high = result.confidence_interval(0.9)
    return Estimate(result.value, (high - low) / (2 * Z90), low, high)


def _panel(settings: LowerBounds, rule: str, measured: Measured) -> Panel:
    title = f"{RULES[rule]}, the first split"
    bars = [quantiles(reflected) for reflected in measured.reflected.values()]
    ours = list(measured.ours.values())
    lines = (
        series("the paper's bootstrap", settings.bins, bars),
        series("ours: debiased, closed form", [b * 1.08 for b in settings.bins], ours),
    )
    return Panel(title, "B, bins", f"binned {settings.norm} error", lines, x_scale="log2")


def _findings_of_split(
    settings: LowerBounds, rule: str, measured: Measured, note: str
) -> list[Finding]:
    """Compare most bins with fewest, and 15 bins with most."""
    few, many, n = settings.bins[0], settings.bins[-1], settings.resamples
    at_few, at_many = measured.reflected[few], measured.reflected[many]
    ending = f"-{rule}" if settings.norm == "l1" else ""
    words = f"{settings.norm} error at {many} bins minus that at {few}, {RULES[rule]}"
    growth = Finding(f"growth{ending}", quantiles(at_many - at_few), n, words, note)
    if settings.norm == "l1":
        gap = exactly(quantiles(at_many).low - quantiles(at_few).high)
        words = f"gap between the error bars of {few} and {many} bins, {RULES[rule]}"
        return [growth, Finding(f"gap{ending}", gap, n, words, note)]
    if 15 not in settings.bins:
        return [growth]
    at = measured.reflected[15]
    return [
        growth,
        Finding("at-15", quantiles(at), n, "binned error at 15 bins"),
        Finding("twice", quantiles(at_many / np.maximum(at, 1e-9)), n,
                f"error at {many} bins over that at 15", unit="x"),
    ]  # fmt: skip


def _note(settings: LowerBounds, splits: list[Measured]) -> str:
    """Say in how many splits the growth shows, by each way to look at it."""
    few, many = settings.bins[0], settings.bins[-1]
    bars = [(quantiles(s.reflected[few]), quantiles(s.reflected[many])) for s in splits]
    paired = [quantiles(s.reflected[many] - s.reflected[few]) for s in splits]
    ours = [(s.ours[few], s.ours[many]) for s in splits]
    apart = sum(most.low > fewest.high for fewest, most in bars)
    text = (
        f"Of {len(splits)} splits, the error bars of {few} and {many} bins lie apart in {apart}, "
        f"the interval of their difference lies above 0 in {sum(d.low > 0 for d in paired)}, and "
        f"the debiased error grows in {sum(b.value > a.value for a, b in ours)}."
    )
    if settings.norm == "l2":
        return text
    # whatever the dependence, a difference lies between those of opposite ends
    holds_0 = sum(b.low <= a.high and a.low <= b.high for a, b in ours)
    return (
        f"{text} The paper's bootstrap removes the bias of an l1 error only in part, and that bias "
        "grows with the bins too: the difference of our intervals, which allow for all of it, "
        f"holds 0 in {holds_0}."
    )


STUDIES = (
    Study("lower-bounds", "1", "More bins uncover more l2 error of Platt scaling",
          settings_for, compute, {"resamples": 100, "splits": 3}),
    Study("lower-bounds-l1", "1b", "The same for the l1 error (ECE), with both kinds of bins",
          lambda data: settings_for(data, norm="l1", rules=("mass", "width")),
          compute, {"resamples": 100, "splits": 3}),
)  # fmt: skip
