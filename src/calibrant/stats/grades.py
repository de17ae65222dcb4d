"""Rating grades: whether each default rate is in keeping with its PD, and prudent PDs.

A rating scale is a model with finitely many outputs, so every statement here is exact: limits by
Clopper and Pearson, tests by binomial tails, and a certificate for the scale as a whole. Defaults
are taken as independent given the grades. With an asset correlation, tests and prudent PDs are
those of one systematic factor (Vasicek, 2002): given the factor, defaults are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from calibrant._options import is_real
from calibrant._results import Result, filled, text_table
from calibrant._scipy import optimize, special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError, InvalidWeightsError
from calibrant.stats.certificates import Certificate, certify
from calibrant.stats.curves import reliability_curve
from calibrant.stats.estimators import Norm
from calibrant.stats.group_tests import holm
from calibrant.stats.intervals import check_level
from calibrant.table import BinTable

Light: TypeAlias = Literal["green", "amber", "red"]

AMBER, RED = 0.05, 0.01
"""p-values at or below these turn the light, as in most banks' validation standards."""
FARTHEST = 9.0
"""Standard deviations of the quadrature: beyond lies 2e-19 of the probability."""
STEP, SMALLEST_STEP = 0.005, 5e-4
"""Between its points. The integrand is a normal distribution function of width sqrt(correlation);
the trapezoidal rule is exact to rounding where steps are half of that, and to 1e-4 below."""


@dataclass(frozen=True, eq=False, repr=False)
class GradeBacktest(Result):
    """The default rate of every grade of a rating scale, beside its PD.

    Arrays have one value for each grade with rows, from the lowest PD to the highest.

    Attributes
    ----------
    names : tuple of str
    count, defaults : ndarray
        Rows, and events among them.
    pd : ndarray
        The PD of the grade, or the mean prediction of a bin that mixes several.
    default_rate, low, high : ndarray
        The share of defaults, and its Clopper-Pearson limits.
    p_binomial : ndarray
        The probability of so many defaults or more if the PD is right.
    p_jeffreys : ndarray
        The posterior probability that the true rate is at most the PD, under Jeffreys' prior:
        ``I_PD(d + 1/2, n - d + 1/2)``.
    p_adjusted : ndarray
        The binomial p-values, by Holm's method where all grades are judged at once.
    light : tuple of {"green", "amber", "red"}
        "amber" where `p_adjusted` is at most 0.05, "red" where it is at most 0.01.
    prudent_pd : ndarray
        See `prudent_pds`, at the same confidence level.
    table : BinTable
    certificate : Certificate
        Of the whole scale: between which bounds its calibration error lies.
    levels : tuple of float or None
        All PDs of the scale, where they were known before these rows.
    confidence_level, is_simultaneous, correlation
        As they were given.
    """

    names: tuple[str, ...]
    count: FloatArray
    defaults: FloatArray
    pd: FloatArray
    default_rate: FloatArray
    low: FloatArray
    high: FloatArray
    p_binomial: FloatArray
    p_jeffreys: FloatArray
    p_adjusted: FloatArray
    light: tuple[Light, ...]
    prudent_pd: FloatArray
    table: BinTable
    levels: tuple[float, ...] | None
    confidence_level: float
    is_simultaneous: bool
    correlation: float

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.table.n

    @property
    def expected_defaults(self) -> float:
        """The number of defaults that the PDs imply."""
        return float(self.count @ self.pd)

    @property
    def p_portfolio(self) -> float:
        """The binomial p-value of all rows at their mean PD.

        Independent defaults of different PDs scatter less, so where there are more than expected it
        is too large, if anything (Hoeffding, 1956).
        """
        total, n = float(self.defaults.sum()), float(self.count.sum())
        return float(_binomial_pvalue(total, n, self.expected_defaults / n, self.correlation))

    def __len__(self) -> int:
        return self.count.size

    def __str__(self) -> str:
        level = f"{100 * self.confidence_level:g}%"
        head = ("grade", "rows", "defaults", "PD", "observed", f"{level} limits", "light")
        rows = []
        for i, name in enumerate(self.names):
            limits = f"[{self.low[i]:.2%}, {self.high[i]:.2%}]"
            numbers = f"{self.count[i]:,.0f}", f"{self.defaults[i]:,.0f}", f"{self.pd[i]:.2%}"
            rows.append((name, *numbers, f"{self.default_rate[i]:.2%}", limits, self.light[i]))
        lines = [*text_table(head, rows), ""]
        tested = ("grade", "p, binomial", "p, Jeffreys", f"prudent PD {level}")
        tests = map(_chance, self.p_binomial), map(_chance, self.p_jeffreys)
        prudent = (f"{pd:.2%}" for pd in self.prudent_pd)
        lines += text_table(tested, list(zip(self.names, *tests, prudent, strict=True)))
        together = "all grades at once" if self.is_simultaneous else "each grade by itself"
        model = f"asset correlation {self.correlation:g}" if self.correlation else "independent"
        defaults, expected = float(self.defaults.sum()), self.expected_defaults
        chance = _chance(self.p_portfolio)
        chance = chance if chance.startswith("<") else f"= {chance}"
        proved = "no certificate: grades mix different PDs, give each its own in grades="
        if self.table.is_binned_model:
            bounds = f"{self.certificate.lower_bound:.4f} to {self.certificate.upper_bound:.4f}"
            proved = f"certified l2 error of the scale {bounds} ({level} each)"
        count = f"{defaults:,.0f} default{'s' * (defaults != 1)}"
        lines.append(f"limits and lights for {together}, defaults {model}")
        lines.append(f"{count}, {expected:,.1f} expected (p {chance})")
        return "\n".join([*lines, filled(proved)])

    def _summary(self) -> str:
        counts = {color: self.light.count(color) for color in ("red", "amber", "green")}
        lights = ", ".join(f"{count} {color}" for color, count in counts.items() if count)
        expected = f"{self.defaults.sum():,.0f} defaults, {self.expected_defaults:,.1f} expected"
        return f"{len(self)} grades: {lights}; {expected}, n = {self.n:,}"

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of the whole scale."""
        return self.certify(confidence_level=self.confidence_level)

    def certify(
        self, max_error: float | None = None, norm: Norm = "l2", confidence_level: float = 0.95
    ) -> Certificate:
        """Certify the whole scale; see `calibrant.certify`."""
        return certify(
            self.table,
            max_error=max_error,
            norm=norm,
            confidence_level=confidence_level,
            levels=self.levels,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; "grades" is a list with an entry for each."""
        facts = super().to_dict()
        columns = ["names", "count", "defaults", "pd", "default_rate", "low", "high", "p_binomial"]
        columns += ["p_jeffreys", "p_adjusted", "light", "prudent_pd"]
        named = {"name" if column == "names" else column: facts.pop(column) for column in columns}
        rows = [dict(zip(named, row, strict=True)) for row in zip(*named.values(), strict=True)]
        summary = {"expected_defaults": self.expected_defaults, "p_portfolio": self.p_portfolio}
        bounds = [self.certificate.lower_bound, self.certificate.upper_bound]
        return {"grades": rows, **summary, "certified_error": bounds, **facts}


def grade_backtest(
    table: BinTable,
    *,
    names: Sequence[str] | None = None,
    levels: ArrayLike | None = None,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    correlation: float = 0.0,
) -> GradeBacktest:
    """Compare the default rate of every grade with its PD; see `calibrant.grade_backtest`.

    Parameters
    ----------
    table : BinTable
        A grade in each bin, of one event and without sample weights.
    names : sequence of str, optional
        One for each bin, empty ones too.
    levels : array_like, optional
        All PDs of the scale, known before these rows: they sharpen the certificate.
    """
    check_correlation(correlation)
    if table.problem.kind != "binary":
        raise InvalidArgumentError(
            "Grades are those of one event, a default; this table is of a "
            f"{table.problem.kind} problem. Count the event alone."
        )
    if table.is_weighted:
        raise InvalidWeightsError(
            "Exact tests count rows; this table has sample weights. Count the rows without them."
        )
    used = np.flatnonzero(table.count[0])
    curve = reliability_curve(table, confidence_level=confidence_level, simultaneous=simultaneous)
    count, defaults = table.count[0, used], table.sum_y[0, used]
    level = table.level[0, used]
    pd = np.where(np.isnan(level), curve.mean_prediction, level)
    tail = np.array(
        [_binomial_pvalue(*grade, correlation) for grade in zip(defaults, count, pd, strict=True)]
    )
    adjusted = holm(tail) if simultaneous else tail
    return GradeBacktest(
        names=_names(names, table, used),
        count=count,
        defaults=defaults,
        pd=pd,
        default_rate=curve.event_rate,
        low=curve.low,
        high=curve.high,
        p_binomial=tail,
        p_jeffreys=np.asarray(special.betainc(defaults + 0.5, count - defaults + 0.5, pd)),
        p_adjusted=adjusted,
        light=tuple("red" if p <= RED else "amber" if p <= AMBER else "green" for p in adjusted),
        prudent_pd=prudent_pds(
            count, defaults, confidence_level=confidence_level, correlation=correlation
        ),
        table=table,
        levels=None if levels is None else tuple(np.asarray(levels, np.float64).tolist()),
        confidence_level=confidence_level,
        is_simultaneous=simultaneous,
        correlation=float(correlation),
    )


def prudent_pds(
    count: ArrayLike,
    defaults: ArrayLike,
    *,
    confidence_level: float = 0.95,
    correlation: float = 0.0,
) -> FloatArray:
    """Return the most prudent PD of every grade, from the best to the worst (Pluto, Tasche, 2005).

    If no grade is worse than the ones below it, the PD of a grade is largest where all
    below have the same. So its upper confidence limit is that of the grade and all worse ones
    together, above 0 even without a single default. Each holds at its confidence level by itself.
    They rise with the grades unless default rates themselves fall.

    Parameters
    ----------
    count, defaults : array_like
        Rows and defaults of each grade, the best grade first.
    confidence_level : float
        Of each limit by itself.
    correlation : float
        The asset correlation of the one-factor model, from 0 to below 1.

    References
    ----------
    Pluto, Tasche (2005), Estimating probabilities of default for low default portfolios.

    Examples
    --------
    >>> prudent_pds([100, 400, 300], [0, 0, 0], confidence_level=0.9).round(4)
    array([0.0029, 0.0033, 0.0076])
    """
    check_level(confidence_level)
    check_correlation(correlation)
    n, d = _counts(count, defaults)
    pooled = (np.cumsum(x[::-1])[::-1] for x in (n, d))
    return np.array(
        [_upper_limit(k, m, confidence_level, correlation) for m, k in zip(*pooled, strict=True)]
    )


def _counts(count: ArrayLike, defaults: ArrayLike) -> tuple[FloatArray, FloatArray]:
    try:
        n, d = np.asarray(count, np.float64), np.asarray(defaults, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(
            f"count and defaults must be numbers; got {count!r:.60} and {defaults!r:.60}."
        ) from error
    if n.shape != d.shape or n.ndim != 1 or n.size == 0:
        raise InvalidShapeError(
            "count and defaults must have one number for each grade, the best first; got shapes "
            f"{n.shape} and {d.shape}."
        )
    whole = np.all((n == np.floor(n)) & (d == np.floor(d)) & (d >= 0) & (d <= n))
    if not whole or not np.isfinite(n).all() or n[-1] == 0:
        raise InvalidArgumentError(
            "count and defaults must be whole numbers with 0 <= defaults <= count, and the worst "
            f"grade needs a row; got {count!r:.60} and {defaults!r:.60}."
        )
    return n, d


def _upper_limit(d: float, n: float, confidence_level: float, correlation: float) -> float:
    """Return the PD at which d defaults or fewer among n have probability 1 - confidence_level."""
    if d == n:
        return 1.0
    if correlation == 0:
        return float(special.betaincinv(d + 1, n - d, confidence_level))
    weight, z = _factor_points(d + 1, n - d, correlation)

    def excess(c: float) -> float:
        probability = special.ndtr((np.sqrt(1 - correlation) * z - c) / np.sqrt(correlation))
        return float(weight @ probability) - (1 - confidence_level)

    # beyond 38 either way the normal distribution function is 0 or 1 in a float
    return float(special.ndtr(optimize.brentq(excess, -60.0, 60.0, xtol=1e-13)))


def _binomial_pvalue(d: float, n: float, pd: float, correlation: float) -> float:
    """Return the probability of d or more defaults among n of this PD."""
    if d <= 0:
        return 1.0
    if correlation == 0 or pd in (0.0, 1.0):
        return float(special.betainc(d, n - d + 1, pd))
    weight, z = _factor_points(d, n - d + 1, correlation)
    c = special.ndtri(pd)
    probability = special.ndtr((c - np.sqrt(1 - correlation) * z) / np.sqrt(correlation))
    return min(float(weight @ probability), 1.0)


def _factor_points(a: float, b: float, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Return weights and normal quantiles of a beta variable.

    Given the factor Y, the default rate is ``ndtr((c - sqrt(rho) Y) / sqrt(1 - rho))``, and d
    defaults or more have the probability that a beta variable B(d, n - d + 1) is below that rate.
    So the probability is a mean over B of a normal distribution function, which is smooth.
    """
    step = max(min(STEP, float(np.sqrt(correlation)) / 2), SMALLEST_STEP)
    t = np.arange(-FARTHEST, FARTHEST + step, step)
    weight = np.exp(-(t**2) / 2)
    z = np.asarray(special.ndtri(special.betaincinv(a, b, special.ndtr(t))), np.float64)
    return weight / weight.sum(), z


def check_correlation(correlation: float) -> None:
    """Refuse an asset correlation outside [0, 1)."""
    if not (is_real(correlation) and 0 <= correlation < 1):
        raise InvalidArgumentError(
            f"correlation must lie in [0, 1); got {correlation!r:.60}. Write 12% as 0.12, and 0 "
            "for independent defaults."
        )


def _names(
    names: Sequence[str] | None, table: BinTable, used: Sequence[int] | Any
) -> tuple[str, ...]:
    n_bins = len(table.bins[0])
    if names is None:
        return tuple(str(i + 1) for i in range(len(used)))
    listed = isinstance(names, Sequence) and not isinstance(names, str | bytes)
    labels = list(map(str, names)) if listed else []
    if len(labels) != n_bins or len(set(labels)) != n_bins:
        raise InvalidArgumentError(
            f"There must be a name for each of the {n_bins:,} grades, all different, from the "
            f"lowest PD to the highest; got {names!r:.80}."
        )
    return tuple(labels[i] for i in used)


def _chance(p: float) -> str:
    return f"{p:.4f}" if p >= 5e-5 else "<0.0001"
