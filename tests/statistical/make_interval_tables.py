"""Simulate intervals of decisions, scores, quantiles, comparisons and others, for docs/coverage.md.

Run it as ``OMP_NUM_THREADS=1 python tests/statistical/make_interval_tables.py --jobs 16`` from the
root of the repository. It takes a minute on 16 cores and replaces what stands between its two
markers of the page; names of sections, such as ``Audits``, make only these.

Every section draws models whose truth is a sum or an integral, so that it has no noise of its own
beside the intervals; the truth of mean scores alone is that of millions of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from blocks import simulate, standard_error, tables_and_jobs, write_between
from make_validation_tables import MODELS, RISKS, draw_risks, truths
from scipy import special

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import InvalidInputError
from calibrant.stats.bin_free import smooth_calibration_error
from calibrant.stats.samples import Atoms, cumulative_differences, kuiper
from calibrant.stats.selective import area_and_spread

PAGE = Path(__file__).parents[2] / "docs" / "coverage.md"
START, END = "<!-- intervals: start -->", "<!-- intervals: end -->"
GRID = (np.arange(200_000) + 0.5) / 200_000
SIZES = (("25%", 100), ("25%", 1000), ("3%", 300), ("3%", 3000))


def seeded(*key):
    """Return a generator that differs with every number and every text of the key."""
    return np.random.default_rng([x if isinstance(x, int) else sum(x.encode()) for x in key])


def held(low, truth, high):
    """Return whether limits hold a truth, up to rounding."""
    return (low <= truth + 1e-12) & (truth <= high + 1e-12)


# Decision curves

THRESHOLDS = {"25%": np.array([0.02, 0.1, 0.3, 0.6]), "3%": np.array([0.005, 0.02, 0.05, 0.1])}


@cache
def true_benefits(model, risk):
    """Return net benefits and gains against acting on everybody, at every threshold."""
    p = special.betaincinv(*RISKS[risk], GRID).clip(1e-9, 1 - 1e-9)
    q, t = MODELS[model](p), THRESHOLDS[risk]
    w, acts = t / (1 - t), p >= t[:, None]
    of_model = (q * acts - w[:, None] * (1 - q) * acts).mean(axis=1)
    return of_model, of_model - (q.mean() - w * (1 - q.mean()))


def decision_shares(model, risk, n, runs, seed=0):
    """Return how often limits hold at each threshold: of the benefit, then of the gain."""
    rng, (benefit, gain) = seeded(model, risk, n, seed), true_benefits(model, risk)
    found = []
    for _ in range(runs):
        p = draw_risks(rng, risk, n)
        y = rng.uniform(size=n) < MODELS[model](p)
        curve = cb.decision_curve(y, p, thresholds=THRESHOLDS[risk])
        limits = held(curve.low, benefit, curve.high), held(curve.gain_low, gain, curve.gain_high)
        found.append(np.concatenate(limits))
    return np.mean(found, axis=0)


# Selective curves

SELECTIVE = {  # predictions of uniform numbers, and their event rates
    "spread": lambda u: (u, u),
    "sharp": lambda u: (special.betaincinv(0.3, 0.3, u),) * 2,
    "overconfident": lambda u: (
        special.expit(3 * special.ndtri(u)),
        special.expit(1.5 * special.ndtri(u)),
    ),
    "rare, 3%": lambda u: (special.betaincinv(1, 32, u),) * 2,
}


@cache
def true_selective(case):
    """Return thresholds, accuracy above each, and the area under the risk-coverage curve."""
    p, q = SELECTIVE[case](GRID)
    right, confidence = np.where(p > 0.5, q, 1 - q), np.maximum(p, 1 - p)
    threshold = cb.selective_curve([0, 1], [0.0, 1.0]).threshold
    above = confidence > threshold[:, None]
    above[0] = True
    count, correct = above.sum(axis=1).astype(float), (right * above).sum(axis=1)
    seen = count > 0
    accuracy = correct[seen] / count[seen]
    return threshold[seen], accuracy, area_and_spread(count[seen], correct[seen])[0]


def selective_shares(case, n, runs, seed=0):
    """Return how often all limits hold at once, a certificate at one threshold, and the area."""
    rng, (threshold, accuracy, area) = seeded(case, n, seed), true_selective(case)
    found = []
    for _ in range(runs):
        p, q = SELECTIVE[case](rng.uniform(size=n))
        curve = cb.selective_curve((rng.uniform(size=n) < q).astype(int), p)
        true = np.interp(curve.threshold, threshold, accuracy)
        proof = curve.certificate(curve.threshold[20], simultaneous=False)
        found.append(
            [
                held(curve.low, true, curve.high).all(),
                proof.lower_bound <= true[20],
                held(curve.aurc_interval.low, area, curve.aurc_interval.high),
            ]
        )
    return np.mean(found, axis=0)


# Mean scores

FIVE, TAILS = (0.05, 0.25, 0.5, 0.75, 0.95), (0.01, 0.99)
NOISE = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t of 3 degrees": lambda rng, n: rng.standard_t(3, size=n),
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
}
CONCENTRATIONS = {"even classes": [1, 1, 1, 1], "three of four classes rare": [30, 1, 0.5, 0.2]}


def crps_of(noise):
    return lambda rng, n: cb.crps(NOISE[noise](rng, n), mean=np.zeros(n), std=1.0)


def pinball_of(noise, levels):
    quantiles = cb.normal_quantiles(0.0, 1.0, levels)
    return lambda rng, n: cb.pinball_loss(
        NOISE[noise](rng, n), np.repeat(quantiles, n, axis=0), classes=levels
    )


def rps_of(name):
    def draw(rng, n):
        p = rng.dirichlet(CONCENTRATIONS[name], size=n)
        y = (rng.uniform(size=(n, 1)) > np.cumsum(p, axis=1)[:, :3]).sum(axis=1)
        return cb.ranked_probability_score(y, p)

    return draw


SCORES = {
    **{f"CRPS, {noise}": crps_of(noise) for noise in NOISE},
    **{f"pinball loss, {noise}": pinball_of(noise, FIVE) for noise in NOISE},
    "pinball loss at 1% and 99%, normal": pinball_of("normal", TAILS),
    **{f"RPS, {name}": rps_of(name) for name in CONCENTRATIONS},
}


@cache
def true_score(name):
    rng = np.random.default_rng(1)
    return float(np.mean([float(SCORES[name](rng, 200_000)) for _ in range(20)]))


def score_shares(name, n, runs, seed=0):
    """Return how often intervals hold, say that they may not, and do either."""
    rng, truth, found = seeded(name, n, seed), true_score(name), []
    for _ in range(runs):
        interval = SCORES[name](rng, n).confidence_interval()
        found.append([truth in interval, bool(interval.notes)])
        found[-1].append(any(found[-1]))
    return np.mean(found, axis=0)


# Quantiles

LEVELS = {"5 levels": FIVE, "99 levels": tuple(k / 100 for k in range(1, 100))}
SPREADS = {"calibrated": 1.0, "too narrow": 0.8}


def quantile_shares(levels, spread, n, runs, seed=0):
    """Return how often limits of coverage hold, all and each; and how often the PIT stays in bands.

    Outcomes have a spread of 1; the PIT of forecasts that are too narrow is to leave its bands.
    """
    rng, at = seeded(levels, spread, n, seed), LEVELS[levels]
    quantiles = np.repeat(cb.normal_quantiles(0.0, SPREADS[spread], at), n, axis=0)
    true, found = special.ndtr(quantiles[0]), []
    for _ in range(runs):
        table = cb.tabulate(rng.normal(size=n), quantiles, kind="quantile", classes=at)
        row = []
        for simultaneous in (True, False):
            proof = stats.certify_coverage(table, simultaneous=simultaneous)
            inside = held(proof.low, true, proof.high)
            pit = ~stats.pit_histogram(table, simultaneous=simultaneous).beyond_chance
            row += [inside.all(), pit.all()] if simultaneous else [inside.mean(), pit.mean()]
        found.append(row)
    return np.mean(found, axis=0)[[0, 2, 1, 3]]


# Label shift

OUTPUTS, TARGET = np.arange(1, 10) / 10, 0.1
POWERS = {"calibrated": 1.0, "p^1.3": 1.3}


def shift_shares(model, rate, n, runs, seed=0):
    """Return how often the upper and the lower bound hold, and the interval of the rate."""
    rng, power, found = seeded(model, rate, n, seed), POWERS[model], []
    here = OUTPUTS**power
    events, others = here / here.sum(), (1 - here) / (1 - here).sum()
    mass = TARGET * events + (1 - TARGET) * others
    there = TARGET * events / mass
    while len(found) < runs:
        p = OUTPUTS[rng.integers(OUTPUTS.size, size=n)]
        y = rng.uniform(size=n) < p**power
        asked = {"target_rate": TARGET}
        if rate == "estimated rate":
            asked = {"target_prob": OUTPUTS[rng.choice(OUTPUTS.size, size=n, p=mass)]}
        try:
            proof = cb.certify_label_shift(y, p, **asked)
        except InvalidInputError:  # the test of label shift rejects one in a hundred
            continue
        moved = special.expit(special.logit(OUTPUTS) + proof.offset)
        error = float(np.sqrt(mass @ (there - moved) ** 2))
        low, high = proof.rate_interval
        found.append(
            [error <= proof.upper_bound, error >= proof.lower_bound, low <= TARGET <= high]
        )
    return np.mean(found, axis=0)


# Comparisons

RATES = {
    "25%": np.array([0.02, 0.1, 0.2, 0.35, 0.6]),
    "3%": np.array([0.002, 0.01, 0.02, 0.05, 0.08]),
}


def compare_shares(model, risk, n, runs, seed=0):
    """Return how often differences hold: of the squared error, the Brier score and the log loss.

    Model a knows the rate; b sees a neighbouring one half of the time, and says what MODELS does.
    Last, the squared error of tables of different rows.
    """
    rng, rate, k = seeded(model, risk, n, seed), RATES[risk], 5
    to = np.where(np.eye(k, dtype=bool), 0.5, 0.5 / (k - 1))
    b = MODELS[model](to @ rate)  # what rows of each of b's outputs have on average, or not
    joint, own = to / k, to.T @ rate
    squared = -float(np.mean((own - b) ** 2))

    def difference(event, other):
        gain = rate[:, None] * (event(rate)[:, None] - event(b))
        gain += (1 - rate)[:, None] * (other(rate)[:, None] - other(b))
        return float((joint * gain).sum())

    truth = (
        squared,
        difference(lambda p: (1 - p) ** 2, lambda p: p**2),
        difference(lambda p: -np.log(p), lambda p: -np.log1p(-p)),
    )

    def draw():
        i = rng.integers(k, size=n)
        j = np.where(rng.uniform(size=n) < 0.5, i, (i + rng.integers(1, k, size=n)) % k)
        return (rng.uniform(size=n) < rate[i]).astype(int), rate[i], b[j]

    found = []
    for _ in range(runs):
        y, p_a, p_b = draw()
        result = cb.compare(y, p_a, p_b, bins="distinct")
        others, _, p_b = draw()
        two = [cb.tabulate(*rows, bins="distinct") for rows in ((y, p_a), (others, p_b))]
        apart = cb.compare_tables(*two).squared_error
        parts = result.squared_error, result.brier, result.log_loss, apart
        row = zip(parts, (*truth, squared), strict=True)
        found.append([held(x.low, t, x.high) for x, t in row])
    return np.mean(found, axis=0)


# Cox's line, bounds without bins, batches of a monitor, groups of an audit


def cox_shares(model, risk, n, runs, seed=0):
    """Return how often Wald's limits hold: of the intercept, the slope and in the large."""
    rng, truth, found = seeded(model, risk, n, seed), truths(model, risk), []
    names = ("intercept", "slope", "in_the_large")
    for _ in range(runs):
        p = draw_risks(rng, risk, n)
        fit = cb.calibration_test(rng.uniform(size=n) < MODELS[model](p), p, method="cox")
        found.append([truth[name] in fit.confidence_interval(of=name) for name in names])
    return np.mean(found, axis=0)


def bin_free_shares(model, risk, n, runs, seed=0):
    """Return how often all limits of the three errors without bins hold at once."""
    rng, found = seeded(model, risk, n, seed), []
    for _ in range(runs):
        p = np.sort(draw_risks(rng, risk, n))
        q = MODELS[model](p)
        bounds = cb.bin_free_bounds(rng.uniform(size=n) < q, p)
        atoms = Atoms(p, np.ones(n), q)  # rates in place of events
        walk = cumulative_differences(atoms)
        truth = float(np.abs(walk).max()), float(kuiper(walk)), smooth_calibration_error(atoms)
        limits = bounds.cumulative, bounds.cutoff, bounds.smooth
        found.append([all(held(x.low, t, x.high) for x, t in zip(limits, truth, strict=True))])
    return np.mean(found, axis=0)


def monitor_shares(model, risk, n, runs, seed=0):
    """Return how often the interval of a batch holds the error in the monitor's bins."""
    rng, found = seeded(model, risk, n, seed), []
    p = special.betaincinv(*RISKS[risk], GRID).clip(1e-9, 1 - 1e-9)
    gaps = (MODELS[model](p) - p).reshape(10, -1).mean(axis=1)  # of bins of equal mass
    error = float(np.sqrt(np.mean(gaps**2)))
    edges = special.betaincinv(*RISKS[risk], np.arange(11) / 10)
    monitor = cb.CalibrationMonitor(max_error=0.0, bins=cb.Bins(edges))
    for _ in range(runs):
        own = draw_risks(rng, risk, n)
        batch = monitor.update(rng.uniform(size=n) < MODELS[model](own), own)
        found.append([held(batch.low, error, batch.high)])
    return np.mean(found, axis=0)


GROUPS = 5


def audit_shares(model, n, runs, seed=0):
    """Return how often the intervals, and the bounds, of all groups hold at once."""
    rng, power, found = seeded(model, n, seed), POWERS[model], []
    outputs, group = OUTPUTS[::2], np.repeat(np.arange(GROUPS), n)
    error = float(np.sqrt(np.mean((outputs**power - outputs) ** 2)))
    for _ in range(runs):
        p = rng.choice(outputs, size=group.size)
        result = cb.audit(rng.uniform(size=group.size) < p**power, p, by=group)
        limits = [(x.low, x.high, x.lower_bound, x.upper_bound) for x in result.groups]
        low, high, lower, upper = np.array(limits).T
        found.append([held(low, error, high).all(), held(lower, error, upper).all()])
    return np.mean(found, axis=0)


@dataclass(frozen=True)
class Section:
    """A table of the page: each cell is one row, named by what it is."""

    title: str
    about: str
    columns: tuple[str, ...]
    share: Callable
    cells: tuple[tuple, ...]
    runs: int = 4_000

    def name(self, cell):
        return ", ".join(f"{x:,} rows" if isinstance(x, int) else x for x in cell)

    def lines(self, jobs):
        """Simulate, and yield the section as Markdown."""
        yield from [f"### {self.title}", "", self.about, ""]
        error = standard_error(0.95, self.runs)
        yield from [f"{self.runs:,} samples a cell (standard error {error} at 0.95).", ""]
        yield f"| | {' | '.join(self.columns)} |"
        yield "|---" * (len(self.columns) + 1) + "|"
        found = simulate(self.share, self.cells, self.runs, jobs)
        for cell, shares in zip(self.cells, found, strict=True):
            parts = np.array_split(shares, len(self.columns))
            text = " | ".join(" / ".join(f"{x:.3f}" for x in part) for part in parts)
            yield f"| {self.name(cell)} | {text} |"
        yield ""


OF_MODELS = tuple((model, *size) for size in SIZES for model in MODELS)
SECTIONS = {
    section.title: section
    for section in (
        Section(
            "Decision curves",
            "Models are those of [validation tables](#validation-tables). At thresholds of 0.02, 0.1, 0.3 and 0.6 for the models "
            "of 25%, and of 0.005, 0.02, 0.05 and 0.1 for those of 3%.",
            ("net benefit", "gain against acting on everybody"),
            decision_shares,
            OF_MODELS,
        ),
        Section(
            "Selective prediction",
            "Binary predictions: uniform, sharp (Beta(0.3, 0.3)), overconfident (log-odds twice what they should be) or of a rare "
            "event. The certificate is one-sided, at one threshold that was fixed before.",
            ("all limits at once", "certificate", "AURC"),
            selective_shares,
            tuple((case, n) for case in SELECTIVE for n in (100, 300, 1000)),
        ),
        Section(
            "Mean scores",
            "`crps`, `pinball_loss` (levels of 5% to 95%, or others) and `ranked_probability_score`; forecasts are standard normal, "
            "and outcomes have other distributions. *Noted* is how often the interval says that few rows decide it.",
            ("held", "noted", "held or noted"),
            score_shares,
            tuple((name, n) for name in SCORES for n in (50, 200, 1000)),
        ),
        Section(
            "Quantiles: coverage and PIT",
            "Normal outcomes; forecasts have their spread, or four fifths of it. Limits of `certify_coverage`, and the share of PIT "
            "histograms that stay within their bands, which narrow forecasts should not.",
            ("all limits", "each limit", "all of the PIT", "each cell of the PIT"),
            quantile_shares,
            tuple(
                (levels, spread, n) for levels in LEVELS for spread in SPREADS for n in (100, 1000)
            ),
            2_000,
        ),
        Section(
            "Label shift",
            "`certify_label_shift` to a base rate of 0.1, known or estimated from as many predictions; the interval of an estimated "
            "rate has a fifth of the error probability, 99%.",
            ("upper bound", "lower bound", "interval of the rate"),
            shift_shares,
            tuple(
                (model, f"{how} rate", n)
                for model in POWERS
                for how, n in (("known", 300), ("estimated", 300), ("estimated", 1000))
            ),
            400,
        ),
        Section(
            "Comparisons",
            "`compare`: model a knows the rate of a row (five rates with a mean of 25% or 3%), b takes it for one of the others half "
            "of the time, and says the mean of what it sees, or what the models above make of it. *Other rows*: `compare_tables`, of as many rows each. With fewer than about 100 events (60 in the rows of 2,000) "
            "intervals may be a little short, with 30 by up to 3 points; the result says so below 100, and below 300 rows.",
            ("squared l2 error", "Brier score", "log loss", "squared l2 error, other rows"),
            compare_shares,
            tuple(
                (m, *s)
                for s in (("25%", 300), ("25%", 3000), ("3%", 2000), ("3%", 5000))
                for m in MODELS
            ),
        ),
        Section(
            "Cox's line",
            'Wald\'s limits of `calibration_test(method="cox")`.',
            ("intercept", "slope", "in the large"),
            cox_shares,
            OF_MODELS,
        ),
        Section(
            "Bounds without bins",
            "All limits of `bin_free_bounds` at once, given the predictions.",
            ("all three errors",),
            bin_free_shares,
            OF_MODELS,
            2_000,
        ),
        Section(
            "Batches of a monitor",
            "The interval that `CalibrationMonitor` prints with each batch: of the l2 error in ten bins of equal mass.",
            ("l2 error",),
            monitor_shares,
            tuple((m, *s) for s in (("25%", 300), ("25%", 3000), ("3%", 3000)) for m in MODELS),
        ),
        Section(
            "Audits",
            "Five groups with five outputs; all intervals, and all bounds, at once.",
            ("intervals", "bounds"),
            audit_shares,
            tuple((model, 300) for model in POWERS),
            400,
        ),
    )
}


def main() -> None:
    """Simulate the sections that were asked for, and write the page."""
    asked, jobs = tables_and_jobs(__doc__)
    text = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    old = {part.partition("\n")[0]: part for part in text.split("### ")[1:]}
    lines = [""]
    for title, section in SECTIONS.items():
        if title in (asked or SECTIONS):
            lines += section.lines(jobs)
        elif title in old:
            lines.append("### " + old[title].rstrip() + "\n")
    write_between(PAGE, START, END, lines)


if __name__ == "__main__":
    main()
