"""Certificates carried to a population with another base rate.

Under **label shift** the rates of the labels differ, and what inputs look like given their label
does not: with labels counted before, a model can be certified for a population without any.

**Known rate.** Let the target have the base rate q. Given the labels of the source, its events are
independent draws of what events look like, and so are the others. Draw N1 ~ Bin(m, q), and take
N1 of the events and m - N1 of the others, without replacement: that is a sample of m independent
rows of the target, exactly, and `certify` holds for it. The rate of the source need not be known.
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

**Test.** Nothing is carried where a test rejects label shift at p < 0.01. The rate, its interval
and the test are in `calibrant.stats.target_rate`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._results import Result, statement
from calibrant._scipy import special
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import Distinct
from calibrant.exceptions import InvalidInputError, NoSuchEstimatorError
from calibrant.stats.certificates import Certificate, certify
from calibrant.stats.target_rate import label_shift_pvalue, likeliest_rate, rate_interval
from calibrant.stats.verdicts import Verdict
from calibrant.table import BinTable

OVERFLOW_SHARE = 0.02
"""Of the error probability, for a draw that needs more events or others than there are."""
RATE_SHARE = 0.2
"""Of the error probability, for the interval of an estimated rate."""
REFUSED_BELOW = 0.01
"""The p-value of the test of label shift below which nothing is carried."""
_RATES = 33
"""Rates of an interval at which bounds are computed."""
FEWEST_ROWS = 20
"""Events, others and predictions of the target from which a rate is estimated."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelShiftCertificate(Result):
    """What labels of one population prove about another base rate.

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

    def __str__(self) -> str:
        return statement(self._summary(), self.assumptions, self.verdict)

    def _summary(self) -> str:
        low, high = self.rate_interval
        rate = f"{self.target_rate:.4g}"
        if low < high:
            rate = f"{rate} (in [{low:.4g}, {high:.4g}])"
        head = f"{self.verdict}: " if self.verdict else ""
        limit = "" if self.max_error is None else f" (the limit is {self.max_error:g})"
        return (
            f"{head}with {100 * self.confidence_level:g}% confidence the {self.norm} error at a "
            f"base rate of {rate} is at most {self.upper_bound:.4f}{limit} and at "
            f"least {self.lower_bound:.4f}; outputs moved by {self.offset:+.3f} in log-odds, "
            f"{self.n_used:,} of {self.n:,} rows used"
        )


def carried(
    table: BinTable,
    target_rate: float,
    rng: np.random.Generator,
    *,
    max_error: float | None,
    norm: str,
    confidence_level: float,
) -> LabelShiftCertificate:
    """Certify the moved outputs of a table of distinct outputs for a known base rate."""
    delta = 1 - confidence_level
    return _answer(table, target_rate, None, rng, max_error, norm, delta, delta)


def carried_to_predictions(
    table: BinTable,
    target: FloatArray,
    rng: np.random.Generator,
    *,
    max_error: float | None,
    norm: str,
    confidence_level: float,
) -> LabelShiftCertificate:
    """Certify for the population of unlabelled rows, counted in the bins of the table."""
    delta = 1 - confidence_level
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
    interval = rate_interval(table, target, RATE_SHARE * delta / 2)
    # not clipped to the interval: the anchor must not depend on the labelled rows themselves
    anchor = likeliest_rate(table, target)
    estimated = Estimated(interval, pvalue, target)
    left = (1 - RATE_SHARE) * delta
    return _answer(table, anchor, estimated, rng, max_error, norm, delta, left)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Where the rate lies, the test of label shift, and the target's rows in each bin."""

    interval: tuple[float, float]
    pvalue: float | None
    target: FloatArray


def _answer(
    table: BinTable,
    rate: float,
    estimated: Estimated | None,
    rng: np.random.Generator,
    max_error: float | None,
    norm: str,
    delta: float,
    left: float,
) -> LabelShiftCertificate:
    sample, offset = sample_of_target(table, rate, OVERFLOW_SHARE * left, rng)
    level = 1 - (1 - OVERFLOW_SHARE) * left
    inner = certify(sample, norm=norm, confidence_level=level)
    upper, lower, interval, pvalue = inner.upper_bound, inner.lower_bound, (rate, rate), None
    if estimated is not None:
        interval, pvalue = estimated.interval, estimated.pvalue
        moved = special.expit(special.logit(table.level[0]) + offset)
        upper, lower = _at_other_rates(inner, rate, estimated, moved, RATE_SHARE * delta / 2)
    verdict: Verdict | None = None
    if max_error is not None:
        verdict = (
            "certified" if upper <= max_error else "refuted" if lower > max_error else "undecided"
        )
    return LabelShiftCertificate(
        verdict=verdict,
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
        assumptions=_assumptions(estimated),
        certificate=inner,
    )


def _assumptions(estimated: Estimated | None) -> list[str]:
    tested = (
        "not tested here: pass target_prob= to test it" if estimated is None
        else "not tested: nearly all rows have one output, which contradicts nothing"
        if estimated.pvalue is None
        else f"the predictions do not contradict it: chi-square test, p = {estimated.pvalue:.2g}"
    )  # fmt: skip
    rate = (
        "The base rate of the target is the one that was given." if estimated is None
        else "The target's predictions are independent draws from it, and so many that their "
        "means are normal: the interval of the rate and the limit of what the shift moves are "
        "asymptotic, everything else is exact."
    )  # fmt: skip
    return [
        "Labelled rows are independent, and their labels were not used to make the outputs.",
        f"Given its label, an input looks the same in both populations ({tested}).",
        rate,
        "Outputs are moved by the offset before they are used.",
        "The seed of the draw was not chosen by its result.",
    ]


def _at_other_rates(
    inner: Certificate, anchor: float, estimated: Estimated, outputs: FloatArray, delta: float
) -> tuple[float, float]:
    """Return the worst bounds over the interval of the rate."""
    used = (estimated.target > 0) & ~np.isnan(outputs)
    t, mass = outputs[used], estimated.target[used]
    n, power = float(mass.sum()), 1.0 if inner.norm == "l1" else 2.0
    upper, lower = 0.0, 1.0
    for rate in np.linspace(*estimated.interval, _RATES):
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
    drawn = min(max(int(rng.binomial(m, rate)), m - n0), n1)
    own_events = rng.multivariate_hypergeometric(events, drawn, method="marginals")
    own_others = rng.multivariate_hypergeometric(others, m - drawn, method="marginals")
    # half an event more keeps the offset finite; the number of events is all that it knows
    offset = float(special.logit(rate) - math.log((n1 + 0.5) / (n0 + 0.5)))
    moved = special.expit(special.logit(table.level[0][used]) + offset)
    return _table_of(table, moved, own_events + own_others, own_events), offset


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


def _table_of(table: BinTable, level: FloatArray, count: AnyArray, events: AnyArray) -> BinTable:
    """Return the table of these outputs; those that have become equal are joined."""
    seen = count > 0
    values, place = np.unique(level[seen], return_inverse=True)
    size, happened = (
        np.bincount(place, x[seen].astype(np.float64)).astype(np.float64) for x in (count, events)
    )
    bins = Distinct().choose(values, size)
    sums = {
        "count": size,
        "sum_y": happened,
        "sum_p": size * values,
        "sum_pp": size * values**2,
        "sum_py": happened * values,
    }
    rows = {name: x[None, :] for name, x in sums.items()}
    return BinTable(table.problem, (bins,), **rows, level=values[None, :])
