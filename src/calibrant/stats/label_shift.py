"""Certificates carried to a population with another base rate.

Under **label shift** the rates of the labels differ, and the distribution of inputs given their
label does not: labels of one population certify a model for another that has none.

**Known rate.** Let the target have the base rate q. Given the labels of the source, its events are
independent draws from the distribution of events, and likewise the others. Draw N1 ~ Bin(m, q), and
take N1 of the events and m - N1 of the others, without replacement: that is a sample of m
independent rows of the target, exactly, and `certify` holds for it, whatever the source's rate.
m is the largest number for which there are enough of both, but for 1/50 of the error probability.
Outputs are moved to the new rate, s -> expit(logit s + offset) with offset = logit q - logit(share
of events in the source), which depends on the labels by their number only.

**Estimated rate.** The anchor q0 is the maximum likelihood estimate from predictions of the target
(Saerens, Latinne and Decaestecker 2002), which depends on the source by its number of events
only, so the above holds for q0. The true q lies in an interval: the mean output in the target is
q mu1 + (1 - q) mu0, where mu1 and mu0 are the mean outputs of events and others, and q is rejected
where the three sample means contradict that (a normal test: asymptotic, with 1/5 of the error
probability). At q, with w1 = q / q0, w0 = (1 - q) / (1 - q0) and D(x) = w1 x + w0 (1 - x), an
output of rate x at q0 has the rate m(x) = w1 x / D(x) and D(x) times its mass. For the moved
outputs t, m(x) - m(t) = w1 w0 (x - t) / (D(x) D(t)), so by the triangle inequality

    error at q  <=  K error at q0  +  norm of m(t) - t in the target,

with K^2 = max of w1^2 w0^2 / (min(w1, w0) D(t)^2) for l2, K = max of w1 w0 / D(t) for l1; and
likewise from below, with the least of these. The second norm is seen in the target's predictions.
The bound is the worst over the interval.

**Test.** Under label shift the target's predictions are a mixture of those of the source's events
and others. The squared distance from the nearest mixture, in units of its noise, is compared with
a chi-square distribution. Nothing is carried where that rejects label shift at p < 0.01.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._results import Result, statement
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.bins import Distinct
from calibrant.exceptions import InvalidInputError, NoSuchEstimatorError
from calibrant.stats.certificates import Certificate, certify
from calibrant.stats.proofs import agrees_too_well
from calibrant.stats.questions import Question
from calibrant.stats.verdicts import TOO_GOOD, Verdict, decided
from calibrant.table import BinTable

OVERFLOW_SHARE = 0.02
"""Of the error probability, for a draw that needs more events or others than there are. Affects
tightness only, as the next does."""
RATE_SHARE = 0.2
"""Of the error probability, for the interval of an estimated rate."""
REFUSED_BELOW = 0.01
"""The p-value of the test of label shift below which nothing is carried."""
_RATES = 33
"""Rates of an interval at which bounds are computed; in simulation the worst was at an end."""
FEWEST_ROWS = 20
"""Events, others and predictions of the target from which a rate is estimated."""
FEWEST_EXPECTED = 5.0
"""Rows of source and target in a cell of the test; neighbours are joined until so many are
expected."""
_GRID = 2801
"""Log-odds of rates that may be in the interval, which is widened by one of them on either side."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelShiftCertificate(Result):
    """A certificate from the labels of one population for another base rate.

    Attributes
    ----------
    verdict : {"certified", "refuted", "undecided"} or None
        None without `max_error`.
    upper_bound, lower_bound : float
        The error of the moved outputs in the target is at most, and at least, this, each with
        probability `confidence_level`.
    target_rate : float
        The base rate for which outputs are moved: that which was given, or estimated.
    rate_interval : tuple of float
        Where the true one lies; both ends are `target_rate` if it was known.
    source_rate : float
        The share of events among the labelled rows.
    offset : float
        What is added to the log-odds of every output.
    pvalue : float or None
        Of the test that the shift is one of labels; None without predictions of the target, and
        if nearly all have one output.
    n, n_used : int
        Labelled rows, and how many of them make a sample of the target.
    confidence_level, max_error, norm
        As they were given.
    assumptions : list of str
    certificate : Certificate
        That of the drawn sample, for `target_rate`; it can be checked again.
    agrees_too_well : bool
        Whether the labels agree with the outputs better than independent draws would; then there
        is no verdict but "undecided".
    """

    verdict: Verdict | None
    upper_bound: float
    lower_bound: float
    target_rate: float
    rate_interval: tuple[float, float]
    source_rate: float
    offset: float
    pvalue: float | None
    n: int
    n_used: int
    confidence_level: float
    max_error: float | None
    norm: str
    assumptions: list[str]
    certificate: Certificate
    agrees_too_well: bool

    def __str__(self) -> str:
        return statement(self._summary(), self.assumptions, self.verdict)

    def _summary(self) -> str:
        low, high = self.rate_interval
        rate = f"{self.target_rate:.4g}"
        if low < high:
            rate = f"{rate} (in [{low:.4g}, {high:.4g}])"
        head = f"{self.verdict}: " if self.verdict else ""
        if self.agrees_too_well:
            return f"{head}{TOO_GOOD} (n = {self.n:,})"
        limit = "" if self.max_error is None else f" (the limit is {self.max_error:g})"
        return (
            f"{head}with {100 * self.confidence_level:g}% confidence the {self.norm} error at a "
            f"base rate of {rate} is at most {self.upper_bound:.4f}{limit} and at "
            f"least {self.lower_bound:.4f}; outputs moved by {self.offset:+.3f} in log-odds, "
            f"{self.n_used:,} of {self.n:,} rows used"
        )


def carried(
    table: BinTable,
    target: float | FloatArray,
    rng: np.random.Generator,
    *,
    max_error: float | None,
    norm: str,
    confidence_level: float,
) -> LabelShiftCertificate:
    """Certify the moved outputs of a table of distinct outputs for another population.

    `target` is its base rate, if that is known, or counts its rows in the bins of the table.
    """
    delta = 1 - confidence_level
    if isinstance(target, float):
        remaining, rate, interval, pvalue = delta, target, (target, target), None
    else:
        pvalue = _checked_shift(table, target)
        # not clipped to the interval: the anchor must not depend on the labelled rows themselves
        remaining, rate = (1 - RATE_SHARE) * delta, likeliest_rate(table, target)
        interval = rate_interval(table, target, RATE_SHARE * delta / 2)
    sample, offset = sample_of_target(table, rate, OVERFLOW_SHARE * remaining, rng)
    inner = certify(sample, norm=norm, confidence_level=1 - (1 - OVERFLOW_SHARE) * remaining)
    upper, lower = inner.upper_bound, inner.lower_bound
    if not isinstance(target, float):
        moved = special.expit(special.logit(table.level[0]) + offset)
        seen, rates = (target > 0) & ~np.isnan(moved), (rate, *interval)
        share = RATE_SHARE * delta / 2
        upper, lower = _at_other_rates(inner, rates, moved[seen], target[seen], share)
    # of all rows: a drawn sample has noise of its own
    too_good = agrees_too_well(table, Question.of(table, confidence_level=confidence_level))
    verdict = decided(upper, lower, max_error)
    return LabelShiftCertificate(
        verdict="undecided" if too_good and verdict else verdict,
        upper_bound=upper,
        lower_bound=lower,
        target_rate=float(rate),
        rate_interval=(float(interval[0]), float(interval[1])),
        source_rate=float(table.sum_y.sum() / table.n),
        offset=offset,
        pvalue=pvalue,
        n=table.n,
        n_used=sample.n,
        confidence_level=1 - delta,
        max_error=max_error,
        norm=norm,
        assumptions=_assumptions(not isinstance(target, float), pvalue),
        certificate=inner,
        agrees_too_well=too_good,
    )


def _checked_shift(table: BinTable, target: FloatArray) -> float | None:
    """Return the p-value of the test of label shift; refuse too few rows, and another shift."""
    fewest = min(table.sum_y.sum(), table.n - table.sum_y.sum(), target.sum())
    if fewest < FEWEST_ROWS:
        raise InvalidInputError(
            f"A base rate is estimated from at least {FEWEST_ROWS} events, others and predictions "
            f"of the target; of one there are {fewest:,.0f}. Give target_rate= if it is known."
        )
    pvalue = label_shift_pvalue(table, target)
    if pvalue is not None and pvalue < REFUSED_BELOW:
        raise InvalidInputError(
            "A certificate is carried to a population that differs by its base rate only; the "
            "target's predictions are no mixture of those of the source's events and others "
            f"(chi-square test, p = {pvalue:.2g} < {REFUSED_BELOW:g}). Label rows of the target, "
            "and certify those."
        )
    return pvalue


def _assumptions(is_estimated: bool, pvalue: float | None) -> list[str]:
    tested = "not tested here: pass target_prob= to test it"
    rate = "The base rate of the target is the one that was given."
    if is_estimated:
        tested = "not tested: nearly all rows have one output, which contradicts nothing"
        rate = (
            "The target's predictions are independent draws from it, and so many that their means "
            "are normal: the interval of the rate and the limit of what the shift moves are "
            "asymptotic, everything else is exact."
        )
    if pvalue is not None:
        tested = f"the predictions do not contradict it: chi-square test, p = {pvalue:.2g}"
    return [
        "Labelled rows are independent, and their labels were not used to make the outputs.",
        f"Given its label, an input looks the same in both populations ({tested}).",
        rate,
        "Outputs are moved by the offset before they are used.",
        "The seed of the draw was not chosen by its result.",
    ]


def _at_other_rates(
    inner: Certificate,
    rates: tuple[float, float, float],
    t: FloatArray,
    mass: FloatArray,
    delta: float,
) -> tuple[float, float]:
    """Return the worst bounds over an interval of the rate, of moved outputs t of these masses.

    `rates` are the anchor, for which `inner` holds, and the ends of the interval.
    """
    anchor, low, high = rates
    n, power = float(mass.sum()), 1.0 if inner.norm == "l1" else 2.0
    upper, lower = 0.0, 1.0
    for rate in np.linspace(low, high, _RATES):
        w1, w0 = rate / anchor, (1 - rate) / (1 - anchor)
        density = w1 * t + w0 * (1 - t)
        factor = w1 * w0 / density
        most, least = (
            (factor.max(), factor.min()) if power == 1
            else (factor.max() * min(w1, w0) ** -0.5, factor.min() * max(w1, w0) ** -0.5)
        )  # fmt: skip
        moved = np.abs(w1 * t / density - t) ** power
        mean = float(mass @ moved) / n
        spread = math.sqrt(float(mass @ (moved - mean) ** 2)) / n
        shift = (mean - float(special.ndtri(delta)) * spread) ** (1 / power)
        upper = max(upper, float(most) * inner.upper_bound + shift)
        lower = min(lower, float(least) * inner.lower_bound - shift)
    return min(upper, 1.0), max(lower, 0.0)


def sample_of_target(
    table: BinTable, rate: float, overflow: float, rng: np.random.Generator
) -> tuple[BinTable, float]:
    """Draw a sample of the target from the rows of a table, with outputs moved by an offset."""
    if not table.is_binned_model or table.n_groups > 1:
        raise NoSuchEstimatorError(
            "A certificate is carried if the model has finitely many outputs and one event; these "
            "are continuous, or several classes. Repair the model with ScalingBinning first."
        )
    used = table.count[0] > 0
    events = np.round(table.sum_y[0][used]).astype(np.int64)
    others = np.round(table.count[0][used]).astype(np.int64) - events
    n1, n0 = int(events.sum()), int(others.sum())
    m = _largest_sample(n1, n0, rate, overflow)
    n_events = min(max(int(rng.binomial(m, rate)), m - n0), n1)
    drawn_events = rng.multivariate_hypergeometric(events, n_events, method="marginals")
    drawn_others = rng.multivariate_hypergeometric(others, m - n_events, method="marginals")
    # half an event more keeps the offset finite; the number of events is all that it knows
    offset = float(special.logit(rate) - math.log((n1 + 0.5) / (n0 + 0.5)))
    moved = special.expit(special.logit(table.level[0][used]) + offset)
    # outputs that have become equal are joined
    count = drawn_events + drawn_others
    values, place = np.unique(moved[count > 0], return_inverse=True)
    size, happened = (np.bincount(place, x[count > 0])[None] for x in (count, drawn_events))
    sums = {"count": size, "sum_y": happened, "sum_p": size * values}
    sums |= {"sum_pp": size * values**2, "sum_py": happened * values}
    bins = (Distinct().choose(values, size[0]),)
    return BinTable(table.problem, bins, **sums, level=values[None]), offset


def _largest_sample(n1: int, n0: int, rate: float, overflow: float) -> int:
    """Return the largest m for which Bin(m, rate) needs more than there are only rarely."""
    low, high = 0, n1 + n0
    while low < high:
        m = (low + high + 1) // 2
        lacking = special.bdtrc(n1, m, rate) if m > n1 else 0.0
        lacking += special.bdtrc(n0, m, 1 - rate) if m > n0 else 0.0
        low, high = (m, high) if lacking <= overflow else (low, m - 1)
    if low == 0:
        raise InvalidInputError(
            f"A base rate of {rate:g} needs labels of both kinds; there are {n1:,} events and "
            f"{n0:,} others. Label more rows."
        )
    return low


def likeliest_rate(table: BinTable, target: FloatArray) -> float:
    """Return the base rate that makes the target's predictions likeliest, outputs taken as true."""
    from scipy.optimize import brentq  # half a second, which few callers need

    n1 = float(table.sum_y.sum())
    prior = (n1 + 0.5) / (table.n + 1)
    s = np.where(np.isnan(table.level[0]), 0.5, table.level[0])
    w1, w0 = s / prior, (1 - s) / (1 - prior)

    def slope(q: float) -> float:
        mixed = np.maximum(q * w1 + (1 - q) * w0, 1e-300)
        return float(target @ ((w1 - w0) / mixed))

    low, high = 1e-6, 1 - 1e-6
    if slope(low) <= 0:
        return low
    if slope(high) >= 0:
        return high
    return float(brentq(slope, low, high))


def rate_interval(table: BinTable, target: FloatArray, delta: float) -> tuple[float, float]:
    """Return where the base rate of the target lies with probability 1 - delta, asymptotically.

    All q at which mean(target) - q mean(events) - (1 - q) mean(others) is within z of its own
    standard deviations of 0: a quadratic in q, solved on a fine grid, wide where it says little.
    """
    score = np.nan_to_num(table.level[0], nan=0.5)
    events = table.sum_y[0]
    moments = [_moments(score, x) for x in (target, events, table.count[0] - events)]
    (mean, noise), (mean1, noise1), (mean0, noise0) = moments
    q = special.expit(np.linspace(-14, 14, _GRID))
    gap = mean - q * mean1 - (1 - q) * mean0
    z = float(special.ndtri(1 - delta / 2))
    near = np.flatnonzero(gap**2 <= z**2 * (noise + q**2 * noise1 + (1 - q) ** 2 * noise0))
    if not near.size:  # beyond both ends: the nearest one
        near = np.array([0 if abs(gap[0]) < abs(gap[-1]) else q.size - 1])
    return float(q[max(near[0] - 1, 0)]), float(q[min(near[-1] + 1, q.size - 1)])


def _moments(score: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """Return the mean of scores with these numbers of rows, and its variance."""
    n = float(weight.sum())
    mean = float(weight @ score) / n
    return mean, float(weight @ (score - mean) ** 2) / n / max(n - 1, 1)


def label_shift_pvalue(table: BinTable, target: FloatArray) -> float | None:
    """Test that the target's predictions are a mixture of the source's events and others.

    None if all of them are expected in one cell, where everything is a mixture.
    """
    from scipy.optimize import minimize_scalar  # half a second, which few callers need

    events = table.sum_y[0]
    counts = np.stack([events, table.count[0] - events, target])
    cells = _joined(counts, likeliest_rate(table, target))
    if cells.shape[1] < 2:
        return None
    f1, f0, observed = cells / cells.sum(axis=1, keepdims=True)
    n1, n0, n = cells.sum(axis=1)

    def distance(q: float) -> float:
        mixed = q * f1 + (1 - q) * f0
        # multinomial noise of all three; each covariance is that of Pearson's statistic
        noise = mixed / n + q**2 * f1 / n1 + (1 - q) ** 2 * f0 / n0
        return float(np.sum((observed - mixed) ** 2 / np.maximum(noise, 1e-300)))

    best = minimize_scalar(distance, bounds=(0.0, 1.0), method="bounded")
    nearest = min(best.fun, distance(0.0), distance(1.0))
    # two cells can only contradict rates from 0 to 1, at whose ends there is a degree of freedom
    return float(special.chdtrc(max(cells.shape[1] - 2, 1), nearest))


def _joined(cells: FloatArray, rate: float) -> FloatArray:
    """Join neighbouring cells until enough rows of the target are expected in each.

    Expected by a mixture at this rate: cells in which the target lacks rows are what refutes one.
    """
    sizes = cells.sum(axis=1)
    mixed = rate * cells[0] / sizes[0] + (1 - rate) * cells[1] / sizes[1]
    expected = np.minimum(sizes[2] * mixed, cells[0] + cells[1])
    starts, enough = [0], 0.0
    for i, rows in enumerate(expected):
        if enough >= FEWEST_EXPECTED and expected[i:].sum() >= FEWEST_EXPECTED:
            starts.append(i)
            enough = 0.0
        enough += rows
    return np.add.reduceat(cells, starts, axis=1)
