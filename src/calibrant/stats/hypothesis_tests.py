"""Tests of perfect calibration, conditional on the predictions.

The null hypothesis is that labels are independent and that each is an event with the predicted
probability. The predictions may come from anywhere but from these labels.

=================  ==============================================================================
method             what it compares with what
=================  ==============================================================================
"exact"            squared gaps of bins, each standardised by its mean and variance under the null
"adaptive"         the same in 2, 4, 8, ... equal-width bins at once, to find errors of any width
"l2"               the debiased squared error, which is what `calibration_error` estimates
"hosmer-lemeshow"  squared gaps of bins over the variances of the gaps
"kuiper"           the range of the cumulative differences; needs no bins
"spiegelhalter"    the Brier score with its mean and variance; blind to errors at predictions of 1/2
"cox"              the logistic fit with intercept 0 and slope 1, by likelihood ratio
=================  ==============================================================================

The first five are exact at any n. They compare the statistic with that of labels drawn at random
from the predictions: under the null the observed and the R drawn statistics are exchangeable, so
``p = (1 + #{drawn >= observed}) / (R + 1)`` is at most a with probability a at most. The last two
are right in the limit of many rows and events. Sizes and powers: docs/calibration-tests.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from calibrant._bins_argument import as_bin_rule
from calibrant._options import check_word, generator, is_integer
from calibrant._results import Result, shown_chance
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.bins import Bins, BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.intervals import ConfidenceInterval, check_level
from calibrant.stats.logistic import LogisticFit, in_the_large, logistic_fit
from calibrant.stats.samples import Atoms, cumulative_differences, is_contradicted, kuiper
from calibrant.table import BinTable

MOST_RESAMPLES = 10_000_000
"""Their statistics are held in memory; beyond it a p-value changes in no digit that matters."""

_STANDARDISED = ("exact", "adaptive", "hosmer-lemeshow")
"""Methods that divide by variances: rows predicted with certainty have none. They tell nothing if
they agree, and refute calibration if they do not."""

TestMethod: TypeAlias = Literal[
    "exact", "adaptive", "l2", "hosmer-lemeshow", "kuiper", "spiegelhalter", "cox"
]


@dataclass(frozen=True, repr=False)
class CalibrationTestResult(Result):
    """The outcome of a test whose null hypothesis is perfect calibration.

    Attributes
    ----------
    statistic, pvalue : float
        A small p-value speaks against calibration; a large one does not prove it.
    method : str
    n : int
        The number of rows.
    """

    statistic: float
    pvalue: float
    method: str
    n: int

    def _summary(self) -> str:
        values = f"statistic = {self.statistic:.4g}, {shown_chance(self.pvalue, 4)}"
        return f"{self.method}: {values}, n = {self.n:,}"


@dataclass(frozen=True, repr=False)
class CoxTestResult(CalibrationTestResult):
    """Cox's test, with the logistic fit ``logit P(Y = 1) = intercept + slope logit(p)``.

    Attributes
    ----------
    intercept, slope : float
        0 and 1 for a calibrated model; a slope below 1 means overconfidence. Infinite or NaN
        where the rows do not determine them.
    intercept_error, slope_error : float
        Their standard errors.
    in_the_large, in_the_large_error : float
        Calibration in the large: the intercept when the slope is held at 1, and its standard error.
    is_separated : bool
        Whether some threshold separates events from non-events (or all labels agree), so that
        no finite fit is best. The likelihood ratio and its p-value are defined all the same.
    statistic, pvalue, method, n
        As in `CalibrationTestResult`.
    """

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    in_the_large: float
    in_the_large_error: float
    is_separated: bool

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        of: Literal["intercept", "slope", "in_the_large"] = "slope",
    ) -> ConfidenceInterval:
        """Return the Wald interval: estimate -+ z standard errors; unbounded where undefined."""
        check_level(confidence_level)
        check_word("of", of, ("intercept", "slope", "in_the_large"))
        value, error = getattr(self, of), getattr(self, f"{of}_error")
        low, high = -math.inf, math.inf
        if math.isfinite(value) and math.isfinite(error):
            reach = float(special.ndtri((1 + confidence_level) / 2)) * error
            low, high = value - reach, value + reach
        return ConfidenceInterval(low, high, confidence_level, "wald")

    def _summary(self) -> str:
        fit = f"intercept {self.intercept:.4g}, slope {self.slope:.4g}"
        return super()._summary() + f" ({fit}{', separated' if self.is_separated else ''})"

    def __str__(self) -> str:
        return self._summary().replace(" (", "\n  ").removesuffix(")")


def calibration_test(
    y: FloatArray | BinTable,
    p: FloatArray | None = None,
    method: TestMethod = "exact",
    bins: BinsLike = "auto",
    n_resamples: int = 1999,
    rng: np.random.Generator | int | None = None,
) -> CalibrationTestResult:
    """Test whether labels are what perfectly calibrated predictions would produce.

    The arguments are those of `calibrant.calibration_test`, with events, 0 or 1, and their
    probabilities for `y` and `p`, or a table of distinct predictions, which holds both, for `y`.
    The cost grows with the number of distinct predictions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = (rng.uniform(size=1000) < p**2).astype(float)
    >>> print(calibration_test(y, p, rng=0))
    exact: statistic = 26.11, p = 0.0005, n = 1,000
    >>> print(calibration_test(y, p, "cox"))
    cox: statistic = 144.8, p = 3.606e-32, n = 1,000
      intercept -1.038, slope 1.263
    """
    check_word("method", method, get_args(TestMethod))
    check_resamples(n_resamples)
    atoms = Atoms.of(y, p)
    if method == "spiegelhalter":
        return _spiegelhalter(atoms)
    if method == "cox":
        return _cox(atoms)
    if method in _STANDARDISED and is_contradicted(atoms):
        return CalibrationTestResult(math.inf, 0.0, method, atoms.n)
    statistics = statistics_of(atoms, method, bins)
    observed = statistics(atoms.events[None, :])
    random = generator("rng", rng)
    drawn = np.concatenate([statistics(events) for events in atoms.draw(n_resamples, random)])
    if method == "adaptive":
        return smallest_pvalue(np.concatenate([observed, drawn]), atoms.n)
    value = float(observed[0, 0])
    slack = 1e-10 * max(abs(value), float(np.abs(drawn).max()))  # a tie is a tie, though rounded
    pvalue = float((1 + np.sum(drawn >= value - slack)) / (len(drawn) + 1))
    return CalibrationTestResult(value, pvalue, method, atoms.n)


def check_resamples(n_resamples: int) -> None:
    """Refuse a number of draws that is not a whole number in range."""
    if not is_integer(n_resamples) or not 1 <= n_resamples <= MOST_RESAMPLES:
        raise InvalidArgumentError(
            f"n_resamples must be a whole number from 1 to {MOST_RESAMPLES:,}; "
            f"got {n_resamples!r:.60}."
        )


def statistics_of(atoms: Atoms, method: str, bins: BinsLike) -> Callable[[FloatArray], FloatArray]:
    """Return a function from lines of events to lines of statistics."""
    if method == "kuiper":
        return lambda events: kuiper(cumulative_differences(atoms, events))[:, None]
    if method == "adaptive":
        depth = max(1, int(math.log2(atoms.n)))
        # that is the index in bins of these edges, which many rows would leave no memory for
        finest = np.maximum(np.ceil(np.ldexp(atoms.p, depth)) - 1, 0).astype(np.intp)
        return lambda events: _dyadic_excesses(atoms, events, finest, depth)
    rule = as_bin_rule(bins, atoms.n)
    chosen = rule if isinstance(rule, Bins) else rule.choose(atoms.p, atoms.count)
    cell = chosen.index(atoms.p)
    if method == "l2":
        return lambda events: _squared_error(atoms, events, cell)[:, None]
    statistic = _chi_square if method == "hosmer-lemeshow" else _standardised_excess
    return lambda events: statistic(*_gaps(atoms, events, cell))[:, None]


def _squared_error(atoms: Atoms, events: FloatArray, cell: IntArray) -> FloatArray:
    """Return the debiased squared error: in each bin the sum of u_i u_k over pairs, / (N - 1)."""
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    size = np.add.reduceat(atoms.count, starts)
    u = np.add.reduceat(events - atoms.count * atoms.p, starts, axis=1)
    square = events * (1 - 2 * atoms.p) + atoms.count * atoms.p**2
    pairs = u**2 - np.add.reduceat(square, starts, axis=1)
    terms = np.where(size > 1, pairs / np.maximum(size - 1, 1), 0.0)
    return np.asarray(terms.sum(axis=-1)) / atoms.n


def _gaps(
    atoms: Atoms, events: FloatArray, cell: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gaps K - sum p of occupied bins, for lines of events, and their null moments.

    These are the variance, sum v with v = p (1 - p), and the fourth cumulant, sum v (1 - 6 v).
    """
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    v = atoms.p * (1 - atoms.p)
    return (
        np.add.reduceat(events - atoms.count * atoms.p, starts, axis=1),
        np.add.reduceat(atoms.count * v, starts),
        np.add.reduceat(atoms.count * v * (1 - 6 * v), starts),
    )


def _chi_square(gap: FloatArray, variance: FloatArray, _: FloatArray) -> FloatArray:
    """Return the sum over bins of gap^2 / variance, the statistic of Hosmer and Lemeshow."""
    used = variance > 0
    return np.asarray((gap[:, used] ** 2 / variance[used]).sum(axis=1))


def _standardised_excess(gap: FloatArray, variance: FloatArray, fourth: FloatArray) -> FloatArray:
    """Return the sum over B bins of (gap^2 - its mean) / its deviation, over sqrt(B).

    Under the null each bin contributes mean 0 and variance 1. The variance of gap^2 is
    2 variance^2 + fourth cumulant: where few events are expected the second rules, and a bin of
    one surprising event has less weight than in the chi-square statistic, whose null is then all
    tail.
    """
    used = variance > 0
    gap, variance, fourth = gap[:, used], variance[used], fourth[used]
    # One row predicted 1/2 has a squared gap of 1/4 whatever happens, a variance of 0 up to
    # rounding; the floor makes its contribution 0 and is far below any other variance.
    spread = np.sqrt(np.maximum(2 * variance**2 + fourth, 1e-12 * variance**2))
    excess = (gap**2 - variance) / spread
    return np.asarray(excess.sum(axis=1) / math.sqrt(max(excess.shape[1], 1)))


def _dyadic_excesses(atoms: Atoms, events: FloatArray, finest: IntArray, depth: int) -> FloatArray:
    """Return the standardised excess in 2, 4, ..., 2^depth equal-width bins."""
    sums, cell = _gaps(atoms, events, finest), np.unique(finest)
    excesses = [_standardised_excess(*sums)]
    for _ in range(depth - 1):
        cell = cell >> 1
        starts = np.flatnonzero(np.diff(cell, prepend=-1))
        gap, variance, fourth = (np.add.reduceat(term, starts, axis=-1) for term in sums)
        sums, cell = (gap, variance, fourth), cell[starts]
        excesses.append(_standardised_excess(*sums))
    return np.stack(excesses[::-1], axis=1)


def smallest_pvalue(statistics: FloatArray, n: int) -> CalibrationTestResult:
    """Test with the smallest p-value of any column, calibrated by the lines themselves.

    Every line, observed or drawn, gets the p-value of its rank in each column and keeps the
    smallest; the observed line's place among those is the p-value of the whole.
    """
    total = statistics.shape[0]
    slack = 1e-10 * np.abs(statistics).max(axis=0)
    ranked = np.sort(statistics, axis=0)
    below = [
        np.searchsorted(r, s - e) for r, s, e in zip(ranked.T, statistics.T, slack, strict=True)
    ]
    smallest = (1 - np.stack(below) / total).min(axis=0)
    pvalue = float(np.mean(smallest <= smallest[0]))
    return CalibrationTestResult(float(smallest[0]), pvalue, "adaptive", n)


def _spiegelhalter(atoms: Atoms) -> CalibrationTestResult:
    """Z = sum (y - p) (1 - 2p) / sqrt(sum (1 - 2p)^2 p (1 - p)), standard normal in the limit."""
    weight = 1 - 2 * atoms.p
    excess = float(np.sum((atoms.events - atoms.count * atoms.p) * weight))
    variance = float(np.sum(atoms.count * weight**2 * atoms.p * (1 - atoms.p)))
    certain = math.copysign(math.inf, excess) if excess else 0.0
    z = excess / math.sqrt(variance) if variance else certain
    return CalibrationTestResult(z, float(2 * special.ndtr(-abs(z))), "spiegelhalter", atoms.n)


def _cox(atoms: Atoms) -> CoxTestResult:
    """Test intercept 0 and slope 1 by the likelihood ratio, chi-square with two degrees.

    Predictions of 0 and 1 have no finite logit. Where they agree with the labels they do not
    change the likelihood and are left out; where they do not, the p-value is 0.
    """
    inside = atoms.inside()
    nan, ratio = math.nan, 0.0
    fit, in_large = LogisticFit(nan, nan, nan, nan, nan), (nan, nan)
    if inside.p.size:
        fit, in_large = logistic_fit(inside), in_the_large(inside)
        misses = inside.count - inside.events
        null = special.xlogy(inside.events, inside.p) + special.xlog1py(misses, -inside.p)
        ratio = max(2 * (fit.log_likelihood - float(null.sum())), 0.0)
    ratio = math.inf if is_contradicted(atoms) else ratio
    degrees = min(2, inside.p.size)
    pvalue = float(special.chdtrc(degrees, ratio)) if degrees else float(ratio == 0)
    coefficients = fit.intercept, fit.slope, fit.intercept_error, fit.slope_error
    return CoxTestResult(ratio, pvalue, "cox", atoms.n, *coefficients, *in_large, fit.is_separated)
