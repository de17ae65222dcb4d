"""Tests of perfect calibration, conditional on the predictions.

The null hypothesis is that labels are independent and that each is an event with the predicted
probability. The predictions may come from anywhere but from these labels.

=================  ==============================================================================
method             what it compares with what
=================  ==============================================================================
"exact"            the debiased squared error in given bins with that of labels drawn at random
"adaptive"         the same in 2, 4, 8, ... equal-width bins at once, to find errors of any width
"kuiper"           the range of the cumulative differences with drawn labels; needs no bins
"spiegelhalter"    the Brier score with its mean and variance; blind to errors at predictions of 1/2
"hosmer-lemeshow"  squared gaps of bins over their variances with a chi-square law
"cox"              the logistic fit with intercept 0 and slope 1, by likelihood ratio
=================  ==============================================================================

The first three are exact at any n: under the null the observed and the R drawn statistics are
exchangeable, so ``p = (1 + #{drawn >= observed}) / (R + 1)`` is at most a with probability a at
most. The others are right in the limit of many rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from scipy import special

from calibrant._types import FloatArray, IntArray
from calibrant.bins import Bins, BinsLike, as_bin_rule
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    LengthMismatchError,
)
from calibrant.stats.intervals import ConfidenceInterval, check_level

TestMethod: TypeAlias = Literal[
    "exact", "adaptive", "kuiper", "spiegelhalter", "hosmer-lemeshow", "cox"
]

BLOCK = 1 << 21


@dataclass(frozen=True, eq=False)
class Atoms:
    """Rows reduced to distinct predictions in rising order, with rows and events of each."""

    p: FloatArray
    count: FloatArray
    events: FloatArray

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.count.sum())

    @classmethod
    def of(cls, y: FloatArray, p: FloatArray) -> Atoms:
        """Check rows of a binary problem and pool equal predictions."""
        y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
        check_rows(y, p)
        values, place, count = np.unique(p, return_inverse=True, return_counts=True)
        events = np.bincount(place, y).astype(np.float64)
        return cls(values, count.astype(np.float64), events)

    def draw(self, size: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Yield blocks of events drawn from the predictions, `size` in all, one a line."""
        step = max(1, BLOCK // max(self.p.size, 1))
        alone = bool(self.count.max() == 1)
        for start in range(0, size, step):
            shape = (min(step, size - start), self.p.size)
            if alone:
                yield (rng.random(shape) < self.p).astype(np.float64)
            else:
                yield rng.binomial(self.count.astype(np.int64), self.p, shape).astype(np.float64)


def check_rows(y: FloatArray, p: FloatArray) -> None:
    """Refuse anything but equally many events in {0, 1} and predictions in [0, 1]."""
    if y.ndim != 1 or y.shape != p.shape:
        raise LengthMismatchError(
            f"Events and predictions must be 1-D and of one length; got {y.shape} and {p.shape}."
        )
    if y.size == 0:
        raise EmptyInputError("At least one row is needed; there are none.")
    if not np.all((y == 0) | (y == 1)):
        raise InvalidLabelsError("Events must be 0 or 1; some are not. Encode the labels first.")
    if not np.all((p >= 0) & (p <= 1)):
        raise InvalidProbabilitiesError("Predictions must lie in [0, 1]; some do not.")


@dataclass(frozen=True)
class CalibrationTestResult:
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

    def __str__(self) -> str:
        values = f"statistic = {self.statistic:.4g}, p = {self.pvalue:.4g}"
        return f"{self.method}: {values}, n = {self.n:,}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; None for what is infinite or undefined."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
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
        if of not in ("intercept", "slope", "in_the_large"):
            raise InvalidArgumentError(
                f'of must be "intercept", "slope" or "in_the_large"; got {of!r}.'
            )
        value, error = getattr(self, of), getattr(self, f"{of}_error")
        if not math.isfinite(value) or not math.isfinite(error):
            return ConfidenceInterval(-math.inf, math.inf, confidence_level, "wald")
        reach = float(special.ndtri((1 + confidence_level) / 2)) * error
        return ConfidenceInterval(value - reach, value + reach, confidence_level, "wald")

    def __str__(self) -> str:
        fit = f"intercept {self.intercept:.4g}, slope {self.slope:.4g}"
        return super().__str__() + f" ({fit}{', separated' if self.is_separated else ''})"


def calibration_test(
    y: FloatArray,
    p: FloatArray,
    method: TestMethod = "exact",
    bins: BinsLike = "auto",
    n_resamples: int = 1999,
    rng: np.random.Generator | int | None = None,
) -> CalibrationTestResult:
    """Test whether labels are what perfectly calibrated predictions would produce.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Events, 0 or 1.
    p : ndarray of shape (n,)
        Predicted probabilities of the event, not fitted to these labels.
    method : str
        See the table at the top of this module.
    bins : int, "auto", rule or Bins
        For "exact" and "hosmer-lemeshow". Rules see predictions only, so the level is kept.
    n_resamples : int
        Labels drawn by "exact", "adaptive" and "kuiper". The p-value is at least
        ``1 / (n_resamples + 1)``. The cost grows with the number of distinct predictions.
    rng : numpy Generator or int, optional
        Source of these draws.

    Returns
    -------
    CalibrationTestResult
        With `statistic` and `pvalue`; "cox" returns a `CoxTestResult`, which has the fit as well.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> y = (rng.uniform(size=1000) < p**2).astype(float)
    >>> print(calibration_test(y, p, rng=0))
    exact: statistic = 0.02701, p = 0.0005, n = 1,000
    >>> print(calibration_test(y, p, "cox"))
    cox: statistic = 144.8, p = 3.606e-32, n = 1,000 (intercept -1.038, slope 1.263)
    """
    _check_options(method, n_resamples)
    atoms = Atoms.of(y, p)
    if method == "spiegelhalter":
        return _spiegelhalter(atoms)
    if method == "hosmer-lemeshow":
        return _hosmer_lemeshow(atoms, bins)
    if method == "cox":
        return _cox(atoms)
    statistics = _statistics_of(atoms, method, bins)
    observed = statistics(atoms.events[None, :])
    random = np.random.default_rng(rng)
    drawn = np.concatenate([statistics(events) for events in atoms.draw(n_resamples, random)])
    if method == "adaptive":
        return _smallest_pvalue(np.concatenate([observed, drawn]), atoms.n)
    value = float(observed[0, 0])
    return CalibrationTestResult(value, _pvalue(value, drawn[:, 0]), method, atoms.n)


def _check_options(method: str, n_resamples: int) -> None:
    if method not in get_args(TestMethod):
        names = ", ".join(f'"{name}"' for name in get_args(TestMethod))
        raise InvalidArgumentError(f"method must be one of {names}; got {method!r}.")
    whole = isinstance(n_resamples, int | np.integer) and not isinstance(n_resamples, bool)
    if not whole or n_resamples < 1:
        raise InvalidArgumentError(f"n_resamples must be a whole number >= 1; got {n_resamples!r}.")


def _pvalue(observed: float, drawn: FloatArray) -> float:
    """Return the Monte-Carlo p-value; rounding can only count a tie as a tie."""
    slack = 1e-10 * max(abs(observed), float(np.abs(drawn).max()))
    return float((1 + np.sum(drawn >= observed - slack)) / (drawn.size + 1))


def _statistics_of(atoms: Atoms, method: str, bins: BinsLike) -> Callable[[FloatArray], FloatArray]:
    """Return what turns lines of events into lines of statistics."""
    if method == "kuiper":
        return lambda events: kuiper(cumulative_differences(atoms, events))[:, None]
    if method == "exact":
        cell = _chosen_bins(atoms, bins).index(atoms.p)
        return lambda events: _squared_error(*_bin_sums(atoms, events, cell), atoms.n)[:, None]
    depth = max(1, int(math.log2(atoms.n)))
    finest = Bins(np.arange(2**depth + 1) / 2**depth).index(atoms.p)
    return lambda events: _dyadic_errors(atoms, events, finest, depth)


def _chosen_bins(atoms: Atoms, bins: BinsLike) -> Bins:
    rule = as_bin_rule(bins, atoms.n)
    return rule if isinstance(rule, Bins) else rule.choose(atoms.p, atoms.count)


def _bin_sums(
    atoms: Atoms, events: FloatArray, cell: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows, sums of u = y - p and sums of u^2 in each occupied bin, for lines of events."""
    starts = np.flatnonzero(np.diff(cell, prepend=-1))
    size = np.add.reduceat(atoms.count, starts)
    u = np.add.reduceat(events - atoms.count * atoms.p, starts, axis=1)
    square = events * (1 - 2 * atoms.p) + atoms.count * atoms.p**2
    return size, u, np.add.reduceat(square, starts, axis=1)


def _squared_error(size: FloatArray, u: FloatArray, uu: FloatArray, n: int) -> FloatArray:
    """Return the debiased squared error: in each bin the sum of u_i u_k over pairs, / (N - 1)."""
    pairs = np.where(size > 1, (u**2 - uu) / np.maximum(size - 1, 1), 0.0)
    return np.asarray(pairs.sum(axis=-1) / n)


def _dyadic_errors(atoms: Atoms, events: FloatArray, finest: IntArray, depth: int) -> FloatArray:
    """Return the debiased squared error in 2, 4, ..., 2^depth equal-width bins."""
    sums, cell = _bin_sums(atoms, events, finest), np.unique(finest)
    errors = [_squared_error(*sums, atoms.n)]
    for _ in range(depth - 1):
        cell = cell >> 1
        starts = np.flatnonzero(np.diff(cell, prepend=-1))
        size, u, uu = (np.add.reduceat(each, starts, axis=-1) for each in sums)
        sums, cell = (size, u, uu), cell[starts]
        errors.append(_squared_error(*sums, atoms.n))
    return np.stack(errors[::-1], axis=1)


def _smallest_pvalue(statistics: FloatArray, n: int) -> CalibrationTestResult:
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
    return CalibrationTestResult(
        float(smallest[0]), float(np.mean(smallest <= smallest[0])), "adaptive", n
    )


def cumulative_differences(atoms: Atoms, events: FloatArray | None = None) -> FloatArray:
    """Return S_k, the mean over all rows of (y - p) 1{p <= k-th distinct prediction}.

    >>> atoms = Atoms.of(np.array([0.0, 1.0, 1.0]), np.array([0.5, 0.5, 0.7]))
    >>> cumulative_differences(atoms).round(3)
    array([0. , 0.1])
    """
    events = atoms.events if events is None else events
    return np.asarray(np.cumsum(events - atoms.count * atoms.p, axis=-1) / atoms.n)


def kuiper(s: FloatArray) -> FloatArray:
    """Return the range of cumulative differences, their start at 0 included, along the last axis.

    >>> float(kuiper(np.array([0.1, -0.2, 0.05])).round(3))
    0.3
    """
    return np.asarray(np.maximum(s.max(axis=-1), 0.0) - np.minimum(s.min(axis=-1), 0.0))


def _spiegelhalter(atoms: Atoms) -> CalibrationTestResult:
    """Z = sum (y - p) (1 - 2p) / sqrt(sum (1 - 2p)^2 p (1 - p)), standard normal in the limit."""
    weight = 1 - 2 * atoms.p
    excess = float(np.sum((atoms.events - atoms.count * atoms.p) * weight))
    variance = float(np.sum(atoms.count * weight**2 * atoms.p * (1 - atoms.p)))
    if variance == 0:
        z = math.copysign(math.inf, excess) if excess else 0.0
    else:
        z = excess / math.sqrt(variance)
    pvalue = float(2 * special.ndtr(-abs(z)))
    return CalibrationTestResult(z, pvalue, "spiegelhalter", atoms.n)


def _hosmer_lemeshow(atoms: Atoms, bins: BinsLike) -> CalibrationTestResult:
    """Sum over bins (K - sum p)^2 / sum p (1 - p), chi-square with one degree a bin.

    That is the law of held-out rows. A row predicted with certainty tells nothing if it agrees
    and refutes calibration if it does not.
    """
    if _is_contradicted(atoms):
        return CalibrationTestResult(math.inf, 0.0, "hosmer-lemeshow", atoms.n)
    starts = np.flatnonzero(np.diff(_chosen_bins(atoms, bins).index(atoms.p), prepend=-1))
    gap = np.add.reduceat(atoms.events - atoms.count * atoms.p, starts)
    variance = np.add.reduceat(atoms.count * atoms.p * (1 - atoms.p), starts)
    used = variance > 0
    statistic = float(np.sum(gap[used] ** 2 / variance[used]))
    pvalue = float(special.chdtrc(used.sum(), statistic)) if used.any() else 1.0
    return CalibrationTestResult(statistic, pvalue, "hosmer-lemeshow", atoms.n)


def _is_contradicted(atoms: Atoms) -> bool:
    """Tell whether something happened that was predicted with probability 0."""
    never, always = atoms.p == 0, atoms.p == 1
    return bool(np.any(atoms.events[never] > 0) or np.any((atoms.count - atoms.events)[always] > 0))


@dataclass(frozen=True)
class LogisticFit:
    """The best fit of ``logit P(Y = 1) = intercept + slope logit(p)`` and its standard errors."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    log_likelihood: float
    is_separated: bool = False


def fit_logistic(atoms: Atoms) -> LogisticFit:
    """Fit intercept and slope by maximum likelihood to predictions inside (0, 1).

    Rows that a threshold separates have no finite best fit, and one distinct prediction none that
    is unique: both are recognised beforehand, and the supremum of the likelihood is returned.

    >>> y, p = np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.6, 0.4, 0.8])
    >>> round(fit_logistic(Atoms.of(y, p)).slope, 4)
    1.1018
    >>> fit_logistic(Atoms.of(y, np.sort(p))).slope
    inf
    """
    x, events, misses = special.logit(atoms.p), atoms.events, atoms.count - atoms.events
    hits, fails = np.flatnonzero(events), np.flatnonzero(misses)
    if hits.size == 0 or fails.size == 0:
        side = math.inf if hits.size else -math.inf
        return LogisticFit(side, math.nan, math.inf, math.nan, 0.0, is_separated=True)
    up, down = fails[-1] <= hits[0], hits[-1] <= fails[0]
    if up or down:
        shared = np.intersect1d(hits, fails)
        rate = events[shared] / atoms.count[shared]
        entropy = special.xlogy(events[shared], rate) + special.xlog1py(misses[shared], -rate)
        slope = math.nan if up and down else math.inf if up else -math.inf
        is_separated = not (up and down)
        return LogisticFit(math.nan, slope, math.nan, math.nan, float(entropy.sum()), is_separated)
    return _newton(x, events, atoms.count)


def _newton(x: FloatArray, events: FloatArray, count: FloatArray) -> LogisticFit:
    """Maximise the strictly concave log-likelihood; a step that does not raise it is halved.

    From slope 0 and the overall event rate, where no weight vanishes, on a standardised scale.
    """
    centre = float(np.average(x, weights=count))
    scale = math.sqrt(float(np.average((x - centre) ** 2, weights=count)))
    design = np.stack([np.ones_like(x), (x - centre) / scale])

    def loss(theta: FloatArray) -> float:
        score = theta @ design
        return float(np.sum(count * np.logaddexp(0.0, score) - events * score))

    theta = np.array([float(special.logit(events.sum() / count.sum())), 0.0])
    value = loss(theta)
    for _ in range(200):
        rate = special.expit(theta @ design)
        step = np.linalg.solve(_information(design, count, rate), design @ (events - count * rate))
        while (lower := loss(theta + step)) > value and np.abs(step).max() > 1e-14:
            step = step / 2
        if lower > value:
            break
        theta, value = theta + step, lower
        if np.abs(step).max() < 1e-11:
            break
    rate = special.expit(theta @ design)
    covariance = np.linalg.inv(_information(design, count, rate))
    back = np.array([[1.0, -centre / scale], [0.0, 1 / scale]])
    (intercept, slope), errors = back @ theta, np.sqrt(np.diag(back @ covariance @ back.T))
    return LogisticFit(float(intercept), float(slope), float(errors[0]), float(errors[1]), -value)


def _information(design: FloatArray, count: FloatArray, rate: FloatArray) -> FloatArray:
    information = (design * (count * rate * (1 - rate))) @ design.T
    return np.asarray(information + 1e-14 * np.trace(information) * np.eye(2))


def _in_the_large(atoms: Atoms) -> tuple[float, float]:
    """Return the intercept a with sum expit(a + logit p) = sum y, and its standard error."""
    x, total, n = special.logit(atoms.p), float(atoms.events.sum()), atoms.n
    if total in (0, n):
        return math.copysign(math.inf, total - 0.5), math.inf
    level = float(special.logit(total / n))
    low, high = level - float(x[-1]), level - float(x[0])
    a = min(max(0.0, low), high)
    for _ in range(200):
        rate = special.expit(a + x)
        excess = float(np.sum(atoms.count * rate)) - total
        information = float(np.sum(atoms.count * rate * (1 - rate)))
        low, high = (low, min(high, a)) if excess > 0 else (max(low, a), high)
        newton = a - excess / information if information > 0 else math.inf
        moved = newton if low < newton < high else (low + high) / 2
        if abs(moved - a) <= 1e-13 * max(1.0, abs(a)):
            break
        a = moved
    return a, 1 / math.sqrt(information) if information > 0 else math.inf


def _cox(atoms: Atoms) -> CoxTestResult:
    """Test intercept 0 and slope 1 by the likelihood ratio, chi-square with two degrees.

    Predictions of 0 and 1 have no finite logit. Where they agree with the labels they do not
    change the likelihood and are left out; where they do not, the p-value is 0.
    """
    inside = (atoms.p > 0) & (atoms.p < 1)
    rest = Atoms(atoms.p[inside], atoms.count[inside], atoms.events[inside])
    if inside.any():
        fit, (large, large_error) = fit_logistic(rest), _in_the_large(rest)
        misses = rest.count - rest.events
        null = special.xlogy(rest.events, rest.p) + special.xlog1py(misses, -rest.p)
        ratio = max(2 * (fit.log_likelihood - float(null.sum())), 0.0)
    else:
        fit = LogisticFit(math.nan, math.nan, math.nan, math.nan, math.nan)
        large = large_error = math.nan
        ratio = 0.0
    ratio = math.inf if _is_contradicted(atoms) else ratio
    degrees = min(2, rest.p.size)
    return CoxTestResult(
        ratio,
        float(special.chdtrc(degrees, ratio)) if degrees else float(ratio == 0),
        "cox",
        atoms.n,
        fit.intercept,
        fit.slope,
        fit.intercept_error,
        fit.slope_error,
        large,
        large_error,
        fit.is_separated,
    )
