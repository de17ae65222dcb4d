"""Proofs of miscalibration: lower bounds of the l1 and l2 error of any model, from bets on labels.

Let pi(f) be the true event rate where the prediction is f.

**Proof of miscalibration.** For every w with values in [-1, 1] the mean of w(f) (Y - f), which is
that of w(f) (pi(f) - f), is at most the l1 calibration error E|pi(f) - f|, and by Cauchy and
Schwarz at most sqrt(E w^2) <= 1 times the l2 error. Let w_t, for row t, depend on earlier rows
only. Then x_t = w_t(f_t) (Y_t - f_t) lies in [-1, 1], and its mean given the past is at most the
error L, of either norm. For bets 0 <= b_t <= 1/2 that depend on the past, and m >= L, the wealth
prod (1 + b_t (x_t - m)) is thus a nonnegative supermartingale from 1 on, and with probability
1 - delta it never reaches 1 / delta (Ville). It falls in m, so the largest m at which it did reach
1 / delta is below L with that probability.

**Mixture.** Bets on rows one by one and likelihood ratios in bins (`calibrant.stats.refutation`)
find different errors. Each has a share of the error probability, and the larger bound holds. That
is an average of e-values too: that of the bets is 1 / (share delta) once they have won as much,
whatever they lose later, and 0 if they never do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from calibrant._options import generator, is_among
from calibrant._results import NumberResult
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.e_values import ClassSums
from calibrant.stats.intervals import check_level
from calibrant.stats.isotonic_curves import interpolate, pooled
from calibrant.stats.logistic import logistic_fit
from calibrant.stats.refutation import binnings_of, lower_bound
from calibrant.stats.samples import Atoms, check_rows

LowerBoundMethod: TypeAlias = Literal["mixture", "betting", "normal"]

FIRST_FIT = 0.1
REFIT_EVERY = 1.5
"""The share of the rows that the first curves are fitted to, and how many times as many the next.
They affect tightness and time only, never validity."""
SHARE_OF_BETS = {"l1": 0.75, "l2": 0.25}
"""Of the error probability of a mixture. Bets beat bins in l1, but not in l2, where large errors
count more and bets do not know it; affects tightness only, never validity."""


@dataclass(frozen=True, eq=False, repr=False)
class MiscalibrationBound(NumberResult):
    """A lower bound of the true calibration error of a model, continuous or not.

    Attributes
    ----------
    value : float
        The bound; 0 if the rows prove nothing. ``float(bound)`` gives it too.
    mean_gain : float
        (1/n') sum w_t (y_t - p_t) of the bets; it may be negative.
    norm : {"l1", "l2"}
    method : {"mixture", "betting", "normal"}
    n, n_tested : int
        All rows, and those that were not used for the first fit only.
    confidence_level : float
    """

    value: float
    mean_gain: float
    norm: str
    method: str
    n: int
    n_tested: int
    confidence_level: float

    def _measure(self) -> str:
        return f"lower bounds of {self.norm}"

    def _summary(self) -> str:
        level = f"{100 * self.confidence_level:g}%, {self.method} bound, n = {self.n:,}"
        what = f"{self.norm} calibration error in the population"
        return f"{what} at least {self.value:.4f} ({level})"


def prequential_lower_bound(
    y: FloatArray,
    p: FloatArray,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    method: LowerBoundMethod = "mixture",
    rng: np.random.Generator | int | None = 0,
) -> MiscalibrationBound:
    """Prove miscalibration: bound the true l1 or l2 calibration error from below.

    Rows are taken in random order. Two curves of the event rate, a logistic and an isotonic one,
    are fitted to the first tenth, and again whenever half as many rows more have passed. Each
    later row gets the weight w = sign(g(p) - p) before its label is looked at, where g is the
    curve that has earned more on earlier rows. The mean of w (y - p) cannot exceed the
    calibration error but by chance; the proof stands at the top of this module. The bound of the
    bets is one of both norms, since l1 <= l2; "normal" is the mean gain less z standard errors.

    The arguments are those of `calibrant.prequential_lower_bound`, with events, 0 or 1, and
    predictions of rows that are independent and identically distributed for `y` and `p`. Bets are
    not part of a certificate: its table does not say in which order labels came, so nobody could
    check again what was won.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> p = rng.uniform(size=10_000)
    >>> y = (rng.uniform(size=10_000) < p**2).astype(float)
    >>> print(prequential_lower_bound(y, p))
    l2 calibration error in the population at least 0.1554 (95%, mixture bound, n = 10,000)
    """
    check_level(confidence_level)
    y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
    check_rows(y, p)
    methods = ("mixture", "betting", "normal")
    if not (is_among(norm, ("l1", "l2")) and is_among(method, methods)):
        raise InvalidArgumentError(
            'norm must be "l1" or "l2" and method "mixture", "betting" or "normal"; '
            f"got {norm!r} and {method!r}."
        )
    order = generator("rng", rng).permutation(y.size)
    gains = _prequential_gains(y[order], p[order])
    delta, low = 1 - confidence_level, 0.0
    if method == "mixture":
        share = SHARE_OF_BETS[norm]
        atoms = Atoms.of(y, p)
        noise = atoms.count * atoms.p * (1 - atoms.p)
        sums = ClassSums(1.0, atoms.count, atoms.events, atoms.count * atoms.p, noise)
        power, rest = 1.0 if norm == "l1" else 2.0, (1 - share) * delta
        low = lower_bound(binnings_of([sums]), atoms.n, power, "population", rest)
        delta *= share
    if gains.size > 1 and method == "normal":
        spread = float(gains.std(ddof=1)) / math.sqrt(gains.size)
        low = max(low, float(gains.mean()) + float(special.ndtri(delta)) * spread)
    elif gains.size > 1:
        low = max(low, betting_bound(gains, delta))
    mean = float(gains.mean()) if gains.size else 0.0
    return MiscalibrationBound(low, mean, norm, method, y.size, gains.size, confidence_level)


def _prequential_gains(y: FloatArray, p: FloatArray) -> FloatArray:
    """Return w_t(p_t) (y_t - p_t) for all rows after the first fit."""
    gains, earned = [], np.zeros(2)
    start = max(1, int(FIRST_FIT * y.size))
    while start < y.size:
        stop = min(max(start + 1, int(REFIT_EVERY * start)), y.size)
        fresh = p[start:stop]
        curves = _curves(Atoms.of(y[:start], p[:start]), fresh)
        offered = np.sign(curves - fresh) * (y[start:stop] - fresh)
        gains.append(offered[earned.argmax()])
        earned += offered.sum(axis=1)
        start = stop
    return np.concatenate(gains) if gains else np.zeros(0)


def _curves(past: Atoms, p: FloatArray) -> FloatArray:
    """Return event rates at p by a logistic and by an isotonic fit to the past."""
    isotonic = interpolate(p, past.p, pooled(past.events / past.count, past.count))
    fit = logistic_fit(past.inside())
    with np.errstate(invalid="ignore"):
        logistic = special.expit(fit.intercept + fit.slope * special.logit(p))
    return np.stack([np.where(np.isnan(logistic), isotonic, logistic), isotonic])


def betting_bound(x: FloatArray, delta: float) -> float:
    """Return the largest m at which the wealth reached 1 / delta at some row, to 1e-12."""
    seen = np.arange(x.size)
    mean = np.concatenate(([0.0], np.cumsum(x)[:-1])) / np.maximum(seen, 1)
    squares = np.concatenate(([0.0], np.cumsum(x**2)[:-1]))
    variance = (0.25 + np.maximum(squares - seen * mean**2, 0.0)) / (seen + 1)
    bets = np.minimum(np.sqrt(2 * math.log(1 / delta) / (x.size * variance)), 0.5)

    def reached(m: float) -> bool:
        return bool(np.cumsum(np.log1p(bets * (x - m))).max() >= math.log(1 / delta))

    if not reached(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low
