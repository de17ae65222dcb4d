"""Refuting models with continuous outputs: lower bounds of their l1 and l2 calibration errors.

Given its prediction f_i, the event of row i has the probability pi_i, and e_i = pi_i - f_i. The
error t is the mean of |e| (l1), or the root of the mean of e^2 (l2), in the population or over
these rows. If t is small, events cannot stray far from the predictions in any bins. Everything
below is conditional on the predictions, so bins may be chosen from them.

**E-values** (`calibrant.stats.e_values`): for each binning, and each slope q of a penalty, a number
E(t) of the rows has a mean of at most 1 if the error is t.

**Mixture.** An average of such E, over binnings and over q, with weights fixed in advance, has a
mean of at most 1 too. It falls in t, and it reaches 1 / delta with probability delta at most
(Markov). So every t is tested, with q by a rule that depends on t; the smallest t that is not
rejected is at most the error, with probability 1 - delta.

**Several classes** with weights w_k: given the predictions of class k, its labels are independent
events, and Hoelder's inequality turns E exp(Z_k) <= 1 into E exp(sum w_k Z_k) <= 1. The sum
of w_k cost(t_k) is at most the cost of the whole error, since costs are concave in t (l1) or t^2
(l2). q must be fixed without looking at predictions, because classes share it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant._bins_argument import auto_n_bins
from calibrant._types import FloatArray
from calibrant.stats.e_values import Binning, ClassSums, TiltPenalty, log_e_value
from calibrant.stats.estimators import Target
from calibrant.table import BinTable

BIN_COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Few bins find an error of one sign, many one that changes its sign; tightness only."""
VARIANCES = {0.2: 0.75, 0.02: 0.2, 0.002: 0.05}
"""Label variances for which q is tuned before any prediction is seen, and the share of each in the
mixture: ordinary, rare and very rare events. The wrong one costs about 15%; affects tightness
only, never validity."""
_RATIO = 1.5
"""Between the ends of a range of errors that share q; a finer one tightens by less than 1%."""
_MOST_MERGED = 1 << 14
"""Bins of all classes and binnings together: a thousand classes are merged into 8 bins at most."""
_NEGLIGIBLE = 40.0
"""E-values smaller by this exponent than the one that rejects count as 0: tightness only."""
_MOST_CREDIT = 0.9
"""For a squared gap, of what independent labels could at most explain; keeps q finite where the
error that is tested is nearly 0. Affects tightness only, never validity."""


def binnings_of(classes: Sequence[ClassSums]) -> list[Binning]:
    """Merge into 1, 2, 4, ... bins; the numbers of rows and classes say how far.

    The finest has about as many bins as "auto". Sums that are coarser stay as they are.
    """
    n, most_bins = int(classes[0].size.sum()), _MOST_MERGED // (2 * len(classes))
    counts = [b for b in BIN_COUNTS if b < 2 * auto_n_bins(n) and b <= max(most_bins, 1)]
    return [Binning.of(classes, n_bins) for n_bins in counts]


@dataclass(frozen=True)
class Component:
    """One e-value of a mixture: its share, log F - C, and the penalty that gives its cost."""

    share: float
    log_value: float
    penalty: TiltPenalty


def lower_bound_of_table(
    table: BinTable, weights: FloatArray, power: float, target: Target, delta: float
) -> tuple[float, str]:
    """Return l such that the error is at least l with probability 1 - delta, and how."""
    noise = np.maximum(table.sum_p - table.sum_pp, 0.0)
    sums = table.count, table.sum_y, table.sum_p, noise
    used = np.flatnonzero(weights > 0)
    classes = [
        ClassSums(float(weights[k]), *(x[k, table.count[k] > 0] for x in sums)) for k in used
    ]
    binnings = binnings_of(classes)
    finest = max(sums.size.size for sums in classes)
    counts = sorted({min(binning.n_bins, finest) for binning in binnings})
    return lower_bound(binnings, table.n, power, target, delta), in_words(counts)


def in_words(counts: Sequence[int]) -> str:
    """Name the components of a mixture over these numbers of bins."""
    *first, last = map(str, counts)
    listed = f"{', '.join(first)} and {last}" if first else last
    return f"likelihood ratios, averaged over {listed} bin{'' if listed == '1' else 's'}"


def lower_bound(
    binnings: Sequence[Binning], n: int, power: float, target: Target, delta: float
) -> float:
    """Return l such that the error of n rows is at least l with probability 1 - delta."""
    variances = VARIANCES
    if target == "sample" and float(binnings[0].fine.weight.min()) == 1:
        bins = binnings[-1].merged  # the mean of s (1 - s), each bin in proportion to its own
        noise = bins.size * bins.s * (1 - bins.s)
        mean = float(noise @ (bins.s * (1 - bins.s))) / max(float(noise.sum()), 1e-300)
        variances = {max(mean, 1e-4): 1.0}
    # signs of l1 errors are guessed bin by bin, which makes many bins less likely to pay
    shares = np.array([binning.n_bins ** (-0.5 if power == 1 else 0.0) for binning in binnings])
    shares /= shares.sum()

    parts = [
        (binning, variance, weight * share)
        for variance, weight in variances.items()
        for binning, share in zip(binnings, shares, strict=True)
    ]
    low = 0.0
    for end in _ends(n):
        tuned, components = end / math.sqrt(_RATIO), []
        for binning, variance, share in parts:
            q = _steepness(power, target, n, tuned, binning.n_bins, variance, share * delta)
            penalty = TiltPenalty(power, target, q)
            least = penalty.cost(n, low) - math.log(share * delta) - _NEGLIGIBLE
            value = log_e_value(binning, penalty, 2 * tuned, least)
            components.append(Component(share, value, penalty))
            if _log_mixture(components, n, end) >= -math.log(delta):
                break  # more would reject the range as well
        else:
            return _smallest_accepted(components, n, delta, low, end)
        # what rejected this range will often do for the next
        parts.insert(0, parts.pop(len(components) - 1))
        low = end
    return 1.0


def _ends(n: int) -> Iterator[float]:
    """Yield the ends of the ranges of errors; those in one range share q."""
    end = 0.1 / math.sqrt(n)
    while end < 1:
        yield end
        end *= _RATIO
    yield 1.0


def _steepness(
    power: float, target: Target, n: int, t: float, n_bins: int, variance: float, delta: float
) -> float:
    """Return q for errors about t, for an e-value that is to reach 1 / delta.

    It maximises the bound that normal event rates would give. For l1 that balances log(1 / delta)
    and half a unit for each bin, which a sign that has to be guessed costs, against the variance:
    that of labels and, for the population, of where the error is met.
    """
    aim = math.log(1 / delta)
    # where labels hardly vary, an error of t makes them vary, about as much as t
    variance = max(variance, t / 4)
    if power == 1:
        variance += t * (1 - t) if target == "population" else 0.0
        return math.sqrt(2 * (aim + n_bins / 2) / (n * variance))
    noise = 2 * variance * aim
    needed = (math.sqrt(n) * t + math.sqrt(noise)) ** 2 + n_bins * variance / 2
    rho = min(math.sqrt(noise / needed), _MOST_CREDIT)
    return rho / (1 - rho) / (2 * variance)


def _log_mixture(components: Sequence[Component], n: int, t: float) -> float:
    """Return the logarithm of the weighted mean of e-values for the error t."""
    logs = [math.log(c.share) + c.log_value - c.penalty.cost(n, t) for c in components]
    top = max(logs)
    return top if math.isinf(top) else top + math.log(math.fsum(math.exp(x - top) for x in logs))


def _smallest_accepted(
    components: Sequence[Component], n: int, delta: float, low: float, high: float
) -> float:
    """Return the smallest error from low on that the mixture does not reject; it accepts high."""
    if _log_mixture(components, n, low) < -math.log(delta):
        return low
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        rejected = _log_mixture(components, n, middle) >= -math.log(delta)
        low, high = (middle, high) if rejected else (low, middle)
    return low
