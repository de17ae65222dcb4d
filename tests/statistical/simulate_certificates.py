"""Certificates of simulated samples by the thousand.

The tests behind a bound depend on the labels through one number, T or D; everything else about
them depends on the counts. So a few counts are drawn, the tests are prepared once for each, and
hundreds of label sets are drawn for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats
from simulate import BinnedModel, calibrated, grid, mild, overconfident, rare, strong

from calibrant._bins_argument import auto_n_bins
from calibrant.stats import bounds, bounds_l1
from calibrant.stats.bounds import ETA
from calibrant.stats.moments_l2 import TOLERANCE
from calibrant.stats.questions import Evidence, Setting
from calibrant.stats.tail_bounds import TailTests
from calibrant.stats.tail_tuning import Plan, Squared
from calibrant.stats.tails import Side, Tail

DELTA = 0.05


@dataclass(frozen=True, eq=False)
class UnevenModel(BinnedModel):
    """A binned model whose outputs are not equally likely."""

    shares: np.ndarray

    @property
    def masses(self):
        return self.shares

    def error(self, power: float) -> float:
        return float((self.shares @ np.abs(self.rates - self.levels) ** power) ** (1 / power))


def shifted(n_bins: int) -> BinnedModel:
    """Every event rate is 0.05 above the prediction."""
    return BinnedModel(0.95 * grid(n_bins), 0.95 * grid(n_bins) + 0.05)


def sparse(n_bins: int) -> BinnedModel:
    """One bin is off by a half, the others are calibrated."""
    rates = grid(n_bins)
    rates[0] += 0.5
    return BinnedModel(grid(n_bins), rates)


MODELS = {
    "calibrated": calibrated,
    "mild": mild,
    "strong": strong,
    "shifted": shifted,
    "sparse": sparse,
    "skewed": overconfident,
    "rare": rare,
}
SETTINGS: dict[str, Callable[[int], Setting]] = {
    "population": lambda b: Setting("population", DELTA),
    "population, masses at least 1/(2B)": lambda b: Setting("population", DELTA, 0.5 / b),
    "sample": lambda b: Setting("sample", DELTA),
}


def evidence_of_counts(model: BinnedModel, size, events=None) -> Evidence:
    """Return what `certify` makes of the table with these counts."""
    used = size > 0
    rate = np.zeros(size.size) if events is None else events / np.maximum(size, 1)
    n = int(size.sum())
    ones = np.ones(used.sum())
    return Evidence(
        n, size[used].astype(float), rate[used], model.levels[used], ones, auto_n_bins(n),
    )  # fmt: skip


def squares(evidence: Evidence, rates, eta: float):
    """Return T for each row of rates: `Evidence.squared`, many at once."""
    bias = rates * (1 - rates) / np.maximum(evidence.size - 1, 1) * (evidence.size > 1)
    psi = (rates - evidence.s) ** 2 - eta * bias
    return psi @ (evidence.weight * evidence.mass)


def lower_ranges() -> Iterator[tuple[float, float]]:
    """Yield the ranges [lo, hi] of errors that `lower_bound` tests with one setting each."""
    lo, hi = 0.0, 1e-5
    while lo < 1:
        yield lo, hi
        lo, hi = hi, min(hi * bounds.RATIO, 1.0)


def least_accepted(accepts: Callable[[float], bool]) -> float:
    """Return the threshold between values in [-1, 1] that are not accepted and those that are."""
    low, high = -1.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if accepts(middle) else (middle, high)
    return high


def upper_threshold(evidence: Evidence, setting: Setting, t: float) -> float:
    """Return the value of T below which the test of the range that holds t rejects t.

    The upper bound lies below t only if that test rejects t.
    """
    lo, hi = next((lo, hi) for lo, hi in bounds.upper_ranges(evidence) if lo < t <= hi)
    test = bounds.UpperTest.tuned(evidence, setting, lo, hi)
    peaks = test.peaks(TOLERANCE)
    return least_accepted(lambda observed: test.accepted(observed, peaks) >= t)


def lower_threshold(evidence: Evidence, setting: Setting, t: float) -> float:
    """Return the value of T above which the test of the range that holds t rejects t."""
    hi = next(hi for lo, hi in lower_ranges() if lo <= t <= hi)
    return least_accepted(
        lambda observed: bounds.smallest_accepted(evidence, setting, observed, hi) > t
    )


def rejected(evidence: Evidence, setting: Setting, t: float, events, side: Side, error=Squared):
    """Return for each row of events whether the test of t rejects it: only then a bound misses."""
    plan = Plan.of(evidence, setting)
    tests = TailTests.of(evidence, setting, plan, error, side)
    each = next((x for x in tests.ranges if x.lo < t <= x.hi or x.lo == t == 0), None)
    if each is None:  # far from the usual bound
        return rejected_exponentially(evidence, setting, t, events, side, error)
    cells = statistic(tests, each.unit, events)
    tail = Tail.of(tests.scales(each.unit), min(int(cells.max()), tests.most), side)
    log_w = tests.log_bounds(tail, each)[np.minimum(cells, tail.n_cells - 1)]
    limit = math.log(setting.delta) + evidence.n * float(each.penalty(np.array(t)))
    return (log_w <= limit) & ((cells <= tests.most) | (side == "right"))


def rejected_exponentially(evidence, setting, t, events, side: Side, error=Squared):
    rates = events / evidence.size
    if error is Squared and side == "left":
        return squares(evidence, rates, ETA) < upper_threshold(evidence, setting, t)
    if error is Squared:
        return squares(evidence, rates, 0.0) > lower_threshold(evidence, setting, t)
    tables = (replace(evidence, rate=each) for each in rates)
    if side == "left":
        return np.array([bounds_l1.upper_bound_l1(table, setting) < t for table in tables])
    return np.array([bounds.lower_bound_l1(table, setting) > t for table in tables])


def statistic(tests: TailTests, unit: float, events):
    """Return D of each row of events, in units."""
    return sum(scale.of(k) for scale, k in zip(tests.scales(unit), events.T, strict=True))


def upper_bounds(evidence: Evidence, setting: Setting, events, error=Squared):
    """Return `sharp_upper_bound` for many sets of labels; each range is prepared once for all."""
    events = np.asarray(events, float)
    plan = Plan.of(evidence, setting)
    tests = TailTests.of(evidence, setting, plan, error, "left")
    far = tests.ranges[0].hi
    tables = [replace(evidence, rate=each) for each in events / evidence.size]
    bound = np.full(len(tables), math.nan)
    for i in np.argsort([-table.squared(ETA) for table in tables]):  # the worst first
        found = error.exponential_upper(tables[i], setting, (far, 1.0))
        if found is None:
            break
        bound[i] = found
    for run in tests.runs():
        cells = statistic(tests, run[0].unit, events)
        bound[np.isnan(bound) & (cells > tests.most)] = run[0].hi
        pending = np.isnan(bound)
        if not pending.any():
            break
        scales, top = tests.scales(run[0].unit), int(cells[pending].max())
        start = tests.first_open_of(run, Tail.of(scales, top, "left", coarse=True))
        if start is None:
            continue
        tail = Tail.of(scales, top, "left")
        for each in run[start[0] :]:
            pending = np.flatnonzero(np.isnan(bound))
            if not pending.size:
                break
            log_w = tests.log_bounds(tail, each)[cells[pending]]
            is_open = log_w > each.log_limit(plan, "left")
            bound[pending[is_open]] = [each.open_end(x, plan) for x in log_w[is_open]]
    for i in np.flatnonzero(np.isnan(bound)):
        bound[i] = error.exponential_upper(tables[i], setting, (0.0, tests.ranges[-1].lo)) or 0.0
    return bound


def miss_rates(model: BinnedModel, size, setting: Setting, n_labels: int, rng, error=Squared):
    """Return how often upper and lower bound miss the error, given these counts."""
    evidence, used = evidence_of_counts(model, size), size > 0
    events = rng.binomial(size[used], model.rates[used], (n_labels, used.sum()))
    t = model.error(error.power)
    if setting.target == "sample":
        each = np.abs(model.rates - model.levels) ** error.power
        t = float(size / size.sum() @ each) ** (1 / error.power)
    above = rejected(evidence, setting, t, events, "right", error)
    if t < 1e-7:  # an upper bound cannot lie below zero
        return np.array([0.0, above.mean()])
    below = rejected(evidence, setting, t, events, "left", error)
    return np.array([below.mean(), above.mean()])


def certified(model: BinnedModel, size, events, setting: Setting):
    evidence, used = evidence_of_counts(model, size), size > 0
    return upper_bounds(evidence, setting, events[:, used])


def marginal_misses(model, rows, labels, setting: Setting):
    """Return the miss rates given how often each vector came; labels: (runs, vectors, classes)."""
    levels, member = model._bins
    size = np.einsum("m,kmb->kb", rows, member)
    events = np.einsum("rmk,kmb->rkb", labels, member)
    expected = np.einsum("m,mk,kmb->kb", rows, model.truths, member)
    used = size > 0
    weight = np.broadcast_to(model.weights[:, None], size.shape)[used]
    nan = np.full(weight.size, np.nan)
    n = int(rows.sum())
    evidence = Evidence(n, size[used], nan, levels[used], weight, 13)
    gap = expected[used] / size[used] - levels[used]
    t = model.error(2.0)
    if setting.target == "sample":
        t = math.sqrt(float(np.sum(weight * size[used] / n * gap**2)))
    rates = events[:, used] / size[used]
    above = squares(evidence, rates, 0.0) > lower_threshold(evidence, setting, t)
    if t < 1e-7:
        return np.array([0.0, above.mean()])
    below = squares(evidence, rates, ETA) < upper_threshold(evidence, setting, t)
    return np.array([below.mean(), above.mean()])


# Exact miss rates by enumeration, and an adversary who makes them large


def all_events(size):
    """Return every possible vector of events for these counts."""
    axes = np.meshgrid(*(np.arange(k + 1) for k in size), indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


def exact_misses(model: UnevenModel, size, setting: Setting, side: Side, error=Squared) -> float:
    """Return the exact probability that the upper (left) or lower (right) bound misses."""
    evidence, used = evidence_of_counts(model, size), size > 0
    events = all_events(size[used])
    chance = np.exp(stats.binom.logpmf(events, size[used], model.rates[used]).sum(axis=1))
    share = size / size.sum() if setting.target == "sample" else model.shares
    t = float(share @ np.abs(model.rates - model.levels) ** error.power) ** (1 / error.power)
    missed = rejected(evidence, setting, max(t, 1.1e-7), events, side, error)
    return float(chance[missed].sum())


def compositions(n: int, parts: int):
    """Return every way to split n rows over so many bins."""
    return np.array([c for c in np.ndindex(*(n + 1,) * parts) if sum(c) == n])


def population_misses(
    model: UnevenModel, n: int, setting: Setting, side: Side, error=Squared
) -> float:
    """Average `exact_misses` over all counts; those too rare to matter count as misses."""
    counts = compositions(n, model.levels.size)
    chance = stats.multinomial.pmf(counts, n, model.shares)
    worth = chance > 2e-4
    found = [exact_misses(model, size, setting, side, error) for size in counts[worth]]
    return float(chance[worth] @ np.array(found) + chance[~worth].sum())


def perturbed(model: UnevenModel, rng, scale: float) -> UnevenModel:
    """Move outputs, rates and masses a little, some of them onto 0 or 1."""
    levels, rates = (
        np.clip(x + scale * rng.normal(size=x.size), 0, 1) for x in (model.levels, model.rates)
    )
    levels = np.sort(levels) + np.arange(levels.size) * 1e-6
    shares = model.shares * np.exp(2 * scale * rng.normal(size=levels.size)) + 1e-3
    return UnevenModel(np.minimum(levels, 1.0), rates, shares / shares.sum())


def worst_found(misses, n_bins: int, rng, n_random: int, n_climbs: int) -> float:
    """Search at random, then climb from the best; return the largest miss rate."""

    def random_model() -> UnevenModel:
        levels, rates = np.sort(rng.uniform(size=n_bins)), rng.beta(0.5, 0.5, size=n_bins)
        return UnevenModel(levels, rates, rng.dirichlet(np.ones(n_bins)) * 0.97 + 0.03 / n_bins)

    models = [random_model() for _ in range(n_random)]
    rate, best = max(((misses(m), i) for i, m in enumerate(models)), key=lambda x: x[0])
    model = models[best]
    for step in range(n_climbs):
        other = perturbed(model, rng, 0.2 * 0.95**step)
        found = misses(other)
        if found >= rate:
            rate, model = found, other
    return rate
