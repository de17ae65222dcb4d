"""What measuring returns: small frozen objects that print one honest line."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from html import escape
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._json import json_text, plain
from calibrant._options import is_among
from calibrant._read_only import ReadOnlyArrays
from calibrant._types import FloatArray
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    NoSuchEstimatorError,
    UnresolvedWarning,
)
from calibrant.problem import Label
from calibrant.stats.estimators import cells_of, norm_name
from calibrant.stats.influences import (
    FEWEST_INFLUENTIAL,
    are_of,
    influence_of,
    influential_rows,
    influential_rows_of,
    variance_of,
)
from calibrant.stats.intervals import (
    ConfidenceInterval,
    Resampler,
    Target,
    bootstrap_interval,
    bootstrap_values,
    box_interval,
    check_level,
    normal_interval,
    score_interval,
)
from calibrant.table import BinTable, describe_bins

Method: TypeAlias = Literal["auto", "score", "normal", "box", "percentile", "basic"]
ReadAgain: TypeAlias = Callable[[Influence], InfluenceSums | None]

UNRESOLVED_LIMIT = 0.05
FEWEST_ROWS_A_BIN = 10
"""On average: simulated intervals of fewer can miss too often without resting on few rows."""


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationErrorResult(ReadOnlyArrays):
    """A calibration error, with what is needed to read it honestly.

    It reads as its value: ``float(result)``, ``round(result, 3)``, ``f"{result:.3f}"`` and
    ``result < 0.05`` do what they do for the number. Two results of the same norm compare by
    their values too; those of different norms are never equal and cannot be ordered.

    A pickle holds everything but the rows: bootstrap intervals that resample them are refused
    after it, all others are the same. (The interval of a marginal error reads the rows once more,
    when it is first asked for or when the result is pickled.)

    Attributes
    ----------
    value : float
        The error; ``float(result)`` gives it too.
    squared : float or None
        The estimate of the squared l2 error before clipping: unbiased, so it may be negative.
    norm : str
        "l1", "l2", "max" or "l" and a number.
    is_debiased : bool
        Whether the bias of the plug-in estimate was removed.
    is_lower_bound : bool
        Whether the number only bounds the error from below: bins mix different predictions
        (Proposition 3.2), or a debiased estimate had rows alone in their bin.
    noise_floor : float
        What a perfectly calibrated model with these predictions would score on average.
    unresolved_mass : float
        The share of rows in bins of fewer than two, where error and chance cannot be told apart.
    n : int
        The number of rows.
    table : BinTable
        The sums from which all of this was computed.
    per_class : dict or None
        The error of each class of a marginal problem.
    """

    value: float
    squared: float | None
    power: float
    is_debiased: bool
    is_lower_bound: bool
    noise_floor: float
    unresolved_mass: float
    table: BinTable
    class_weights: FloatArray
    per_class: dict[Label, float] | None = None
    resample: Resampler | None = field(default=None)
    read_again: ReadAgain | None = field(default=None)
    influence_sums: InfluenceSums | None = field(default=None)

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.table.n

    @property
    def norm(self) -> str:
        """The name of the norm."""
        return norm_name(self.power)

    def __float__(self) -> float:
        return self.value

    def __round__(self, ndigits: int | None = None) -> float:
        return round(self.value, ndigits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CalibrationErrorResult):
            return (self.power, self.value) == (other.power, other.value)
        return bool(self.value == other) if isinstance(other, Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: object) -> bool:
        return self._compare(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compare(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compare(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compare(operator.ge, other)

    def _compare(self, relation: Callable[[float, Any], bool], other: object) -> bool:
        if isinstance(other, Real):
            return bool(relation(self.value, other))
        if not isinstance(other, CalibrationErrorResult):
            return NotImplemented  # type: ignore[no-any-return]
        if self.power != other.power:
            raise InvalidArgumentError(
                f"Only errors of the same norm can be ordered; these are {self.norm} and "
                f"{other.norm}. Measure both in one norm, or compare their values as floats."
            )
        return bool(relation(self.value, other.value))

    def __getstate__(self) -> dict[str, Any]:
        self._read_again()
        return {**vars(self), "resample": None, "read_again": None}

    def __copy__(self) -> CalibrationErrorResult:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> CalibrationErrorResult:
        return replace(
            self,
            table=deepcopy(self.table, memo),
            class_weights=self.class_weights.copy(),
            per_class=deepcopy(self.per_class, memo),
        )

    def confidence_interval(
        self,
        confidence_level: float = 0.95,
        method: Method = "auto",
        rng: np.random.Generator | int | None = None,
        *,
        n_resamples: int = 1000,
        target: Target = "population",
    ) -> ConfidenceInterval:
        """Return an interval for the calibration error in these bins.

        Parameters
        ----------
        confidence_level : float
            A fraction, such as 0.95.
        method : {"auto", "score", "normal", "box", "percentile", "basic"}
            "auto" is "score" for l2, "normal" for l1 and "box" for other norms; see
            `calibrant.stats.intervals`. The bootstrap methods "percentile" and "basic" are
            there to compare with published numbers: they do not cover near calibration.
        rng : numpy Generator or int, optional
            Source of the bootstrap's random numbers.
        n_resamples : int
            How many tables the bootstrap draws.
        target : {"population", "sample"}
            The error under the true bin masses, or under those of this sample ("score" and "box";
            the largest error has no masses).

        Returns
        -------
        ConfidenceInterval
            It holds the estimate. A plug-in estimate of the l2 error (``debias=False``) lies too
            high by what chance adds, and can lie above every error that the rows leave plausible.
            The interval is about the true error; it is then extended to reach the estimate,
            which keeps its coverage, and ``str(result)`` says so. Bootstrap limits are left as
            published: they need not hold the estimate. Its ``notes`` say where the condition
            fails under which the closed forms were found to cover (ten rows a bin, and ten rows
            that carry the spread; docs/coverage.md), and where classes had to be taken as
            dependent as can be, because only a table was there.
        """
        check_level(confidence_level)
        if not isinstance(method, str):
            raise InvalidArgumentError(f'method must be a word such as "auto"; got {method!r:.60}.')
        if method == "auto":
            method = "score" if self.power == 2 else "normal" if self.power == 1 else "box"
        if not is_among(target, ("population", "sample")):
            raise InvalidArgumentError(f'target must be "population" or "sample"; got {target!r}.')
        if self.unresolved_mass > UNRESOLVED_LIMIT:
            warnings.warn(
                f"{self.unresolved_mass:.0%} of the rows sit alone in their bin, where error and "
                "chance cannot be told apart: the interval does not speak for them. Use fewer "
                "bins or more rows.",
                UnresolvedWarning,
                stacklevel=2,
            )
        limits = self._limits(confidence_level, method, rng, n_resamples, target)
        low, high = map(float, limits)
        if method not in ("percentile", "basic"):
            low, high = min(low, self.value), max(high, self.value)
        notes = self._interval_notes() if method in ("score", "normal") else ()
        return ConfidenceInterval(low, high, confidence_level, method, notes)

    def settle(self) -> None:
        """Read from the rows what intervals need of them, as long as they are there."""
        self._read_again()

    def _limits(
        self,
        confidence_level: float,
        method: Method,
        rng: np.random.Generator | int | None,
        n_resamples: int,
        target: Target,
    ) -> tuple[FloatArray, FloatArray]:
        cells, weights = cells_of(self.table), self.class_weights
        if method == "score" and self.power == 2:
            spread = self._spread(target)
            return score_interval(cells, weights, confidence_level, target, spread)
        if method == "normal" and self.power == 1:
            return normal_interval(cells, weights, confidence_level, self._spread())
        if method == "box":
            return box_interval(cells, weights, self.power, confidence_level, target)
        if method in ("percentile", "basic"):
            values = bootstrap_values(
                self.table,
                weights,
                self.power,
                self.is_debiased,
                n_resamples,
                np.random.default_rng(rng),
                self.resample,
            )
            return bootstrap_interval(values, self.value, confidence_level, method)
        if method in ("score", "normal"):
            norm = "l2" if method == "score" else "l1"
            raise NoSuchEstimatorError(
                f'method="{method}" exists for norm="{norm}"; this error is {self.norm}. '
                'Use method="auto".'
            )
        raise InvalidArgumentError(
            'method must be "auto", "score", "normal", "box", "percentile" or "basic"; '
            f"got {method!r}."
        )

    def _spread(self, target: Target = "population") -> float | None:
        """Return the variance of row influences; None for one class, or where there are no rows."""
        sums = self._read_again()
        return None if sums is None else variance_of(sums, sample=target == "sample")

    def _read_again(self) -> InfluenceSums | None:
        """Read the rows once more, the first time; rows that have changed since tell nothing."""
        reader = self.read_again  # another thread may be done with it a moment later
        if reader is not None:
            table = self.table
            mean_weight = float(table.sum_w[0].sum()) / table.n
            influence = influence_of(cells_of(table), self.class_weights, self.power, mean_weight)
            try:
                sums = reader(influence)
            except CalibrantError:  # a value that the first pass would have refused
                sums = None
            if sums is not None and not are_of(sums, influence, table.n):
                sums = None
            object.__setattr__(self, "influence_sums", sums)
            object.__setattr__(self, "read_again", None)
        return self.influence_sums

    def _interval_notes(self) -> tuple[str, ...]:
        """Say where the closed forms may cover less, or are wider, than they should be."""
        cells, notes = cells_of(self.table), []
        used = (self.class_weights > 0)[:, None] & (cells.mass > 0)
        if self.table.count[used].sum() < FEWEST_ROWS_A_BIN * used.sum():
            notes.append(
                f"fewer than {FEWEST_ROWS_A_BIN} rows a bin: the interval may be too short"
            )
        sums = self._read_again()
        if sums is None and int((self.class_weights > 0).sum()) > 1:
            notes.append(
                "wider than the rows would make it: a table does not tell how classes depend on "
                "each other"
            )
            return tuple(notes)
        if sums is not None:
            influential = influential_rows(sums)
        else:
            alone = cells.one_class_each.take(int(np.argmax(self.class_weights)))
            influential = float(influential_rows_of(alone, self.power))
        if influential < FEWEST_INFLUENTIAL:
            heavy = ", or few with most of the weight" if self.table.is_weighted else ""
            notes.append(
                f"about {influential:.0f} rows{heavy} decide it: the interval may be too short"
            )
        return tuple(notes)

    def __str__(self) -> str:
        interval = self._quiet_interval()
        notes = [
            self._inflation_note(interval),
            *interval.notes,
            self._lower_bound_note(),
            f"{describe_bins(self.table)}, n = {self.n:,}",
        ]
        if self.unresolved_mass > 0:
            notes.append(f"{self.unresolved_mass:.2g} of the rows alone in their bin")
        notes.append(f"a perfect model would score {self.noise_floor:.4f}")
        name = f"{self.table.problem.kind} {self.norm}"
        return f"{name} = {self.value:.4f} {interval} ({'; '.join(filter(None, notes))})"

    def _quiet_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return the interval without a warning: what it warns of is printed beside it."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnresolvedWarning)
            return self.confidence_interval(confidence_level)

    def _inflation_note(self, interval: ConfidenceInterval) -> str:
        inflated = not self.is_debiased and self.power == 2 and interval.high <= self.value < 1
        return "the interval ends at the plug-in estimate, which chance inflates" * inflated

    def _lower_bound_note(self) -> str:
        if not self.table.is_binned_model:
            return "lower bound: bins mix different predictions"
        return "lower bound: some rows are alone in their bin" if self.is_lower_bound else ""

    def __repr__(self) -> str:
        return f"<CalibrationErrorResult: {self}>"

    def _repr_html_(self) -> str:
        """Show the number in a notebook as a small table."""
        interval = self._quiet_interval()
        said = [self._inflation_note(interval), *interval.notes, self._lower_bound_note()]
        notes = filter(None, said)
        facts = [
            (f"{self.table.problem.kind} {self.norm} error", f"{self.value:.4f}"),
            (
                f"{100 * interval.confidence_level:g}% interval",
                f"{interval.low:.4f} to {interval.high:.4f}",
            ),
            ("perfect model", f"{self.noise_floor:.4f}"),
            ("rows", f"{self.n:,} in {describe_bins(self.table)}"),
            ("note", "; ".join(notes)),
        ]
        rows = [f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in facts if v]
        return f"<table>{''.join(rows)}</table>"

    def to_dict(self, confidence_level: float = 0.95) -> dict[str, Any]:
        """Return plain values that JSON can hold, the interval included, the table not."""
        interval = self._quiet_interval(confidence_level)
        per_class = self.per_class
        facts = {
            "kind": self.table.problem.kind,
            "norm": self.norm,
            "value": self.value,
            "squared": self.squared,
            "is_debiased": self.is_debiased,
            "is_lower_bound": self.is_lower_bound,
            "confidence_interval": [interval.low, interval.high],
            "confidence_level": confidence_level,
            "interval_method": interval.method,
            "interval_notes": list(interval.notes),
            "noise_floor": self.noise_floor,
            "unresolved_mass": self.unresolved_mass,
            "n": self.n,
            "bins": describe_bins(self.table),
            "per_class": per_class and {str(name): value for name, value in per_class.items()},
        }
        return dict(plain(facts))

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json_text(self.to_dict())


@dataclass(frozen=True, eq=False)
class ReliabilityCurve(ReadOnlyArrays):
    """What happened beside what was said, bin by bin.

    Arrays have one value per occupied bin, in rising order of predictions.

    Attributes
    ----------
    count : ndarray
        Rows in the bin.
    mean_prediction, event_rate : ndarray
        Weighted means of predictions and events.
    low, high : ndarray
        Clopper-Pearson limits of the event rate; they do not collapse where all rows agree.
    left, right : ndarray
        The edges of the bin.
    confidence_level : float
    is_simultaneous : bool
        Whether the limits hold in all bins at once (Sidak), or in each bin by itself.
    """

    count: FloatArray
    mean_prediction: FloatArray
    event_rate: FloatArray
    low: FloatArray
    high: FloatArray
    left: FloatArray
    right: FloatArray
    confidence_level: float
    is_simultaneous: bool

    def __len__(self) -> int:
        return self.count.size

    def __str__(self) -> str:
        head = f"{'bin':>18} {'rows':>10} {'predicted':>10} {'happened':>10}   interval"
        columns = (self.left, self.right, self.count, self.mean_prediction, self.event_rate)
        body = [
            f"{('(' if a > 0 else '[') + f'{a:.4f}, {b:.4f}]':>18} {n:>10,.0f} {p:>10.4f} "
            f"{y:>10.4f}   [{low:.4f}, {high:.4f}]"
            for a, b, n, p, y, low, high in zip(*columns, self.low, self.high, strict=True)
        ]
        return "\n".join([head, *body])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dict(plain(vars(self)))


@dataclass(frozen=True)
class BrierDecomposition:
    """Brier score = miscalibration - discrimination + uncertainty, adding up exactly.

    Attributes
    ----------
    brier : float
        Mean of (y - p)^2; for marginal problems the weighted mean over classes.
    miscalibration : float
        The squared l2 calibration error in these bins; 0 is best.
    discrimination : float
        How much better than the base rate the recalibrated bins would score, less what
        predictions that vary inside bins lose (the generalised resolution of Stephenson et al.,
        2008); more is better.
    uncertainty : float
        The Brier score of always predicting the base rate.
    is_debiased : bool
        Whether the three terms are corrected for bias (Ferro and Fricker, 2012); their sum is not
        changed by that, and single terms may be negative.
    """

    brier: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    is_debiased: bool

    def __str__(self) -> str:
        return (
            f"Brier {self.brier:.4f} = miscalibration {self.miscalibration:.4f} "
            f"- discrimination {self.discrimination:.4f} + uncertainty {self.uncertainty:.4f}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return dict(plain(vars(self)))
