"""Questions and evidence: the options of `certify`, and the bins that bounds are computed from.

**Looks.** Certifying a growing sample until it passes gives as many chances of a wrong
certificate as looks. If the i-th look, at a number of rows that does not depend on their labels,
has the error probability ``delta / looks_i``, and the sum of all ``1 / looks_i`` is at most 1, then
all looks are right at once with probability at least ``1 - delta`` (the union bound), whatever rule
decides to go on to the next. Two plans meet that:

- k looks, ``looks=k`` at each of them;
- any number of looks, ``looks=i * (i + 1)`` at the i-th: 1/2 + 1/6 + 1/12 + ... = 1.

A number of rows that an earlier look has suggested does depend on labels. It may be used for a
certificate of the new rows alone, which are independent of those that suggested it.

**Levels** are all outputs that a binned model can give, declared before its rows are seen. What is
known before the rows may tune the tests behind a certificate; what the rows happened to show may
not. A recalibrator with bins knows its levels from its fit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from calibrant._bins_argument import auto_n_bins
from calibrant._options import is_among, is_integer, is_real
from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.bins import MOST_BINS
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError, NoSuchEstimatorError
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    Target,
    cells_of,
    class_weights,
    norm_name,
    power_of,
)
from calibrant.stats.intervals import check_level
from calibrant.table import BinTable

MinBinMass: TypeAlias = float | Literal["learned"] | None

MOST_LOOKS = 1_000_000
"""A look at every one of as many rows; delta stays far above what rounding does to 1 - delta."""
MOST_DRAWS = 1000
"""Bounds grow with the number of draws from a few dozen on; each is a pass over the rows."""
_INCREDIBLE = 1e-12
"""A claim about masses under which so rare an output had so small a chance is refused."""


class Asked(TypedDict, total=False):
    """The options of a certificate; see `calibrant.certify`."""

    confidence_level: float
    max_error: float | None
    norm: Norm
    target: Target
    min_bin_mass: MinBinMass
    levels: ArrayLike | None
    looks: int
    draws: int | None
    class_weight: ClassWeight


ASKED = tuple(name for name in Asked.__annotations__ if name != "class_weight")
"""The options that a certificate keeps as they were given; classes and rows come beside."""


@dataclass(frozen=True, eq=False)
class Question:
    """The checked options of a certificate, which are the parameters of `calibrant.certify`.

    Attributes
    ----------
    power : float
        That of the norm.
    weights : ndarray
        Those of the classes; they add up to 1.
    draws : int, optional
        Of one row of each cluster; None if the rows are in no clusters.
    delta : float
        The error probability of this look, and of one of the draws.
    """

    power: float
    weights: FloatArray
    max_error: float | None
    confidence_level: float
    target: Target
    min_bin_mass: MinBinMass
    levels: FloatArray | None
    looks: int
    draws: int | None
    delta: float

    @classmethod
    def of(
        cls,
        table: BinTable,
        *,
        max_error: float | None = None,
        norm: Norm = "l2",
        confidence_level: float = 0.95,
        target: Target = "population",
        min_bin_mass: MinBinMass = None,
        levels: Any = None,
        looks: int = 1,
        draws: int | None = None,
        class_weight: ClassWeight = None,
    ) -> Question:
        """Check the options of `certify` for this table."""
        power, weights = power_of(norm), class_weights(class_weight, table.problem)
        _check(table, max_error, power, confidence_level, target)
        _check_mass(table, min_bin_mass)
        if table.is_weighted:
            raise InvalidWeightsError(
                "A certificate counts independent rows; this table has sample weights. Leave them "
                "out, or draw rows with probabilities in proportion to the weights."
            )
        delta = error_probability(confidence_level, looks, draws)
        declared = None if levels is None else checked_levels(levels)
        if declared is not None:
            _check_levels_of_table(declared, table)
        return cls(
            power=power,
            weights=weights,
            max_error=None if max_error is None else float(max_error),
            confidence_level=float(confidence_level),
            target=target,
            min_bin_mass=min_bin_mass if min_bin_mass in (None, "learned") else float(min_bin_mass),
            levels=declared,
            looks=int(looks),
            draws=None if draws is None else int(draws),
            delta=delta,
        )

    @property
    def norm(self) -> str:
        """The name of the norm."""
        return norm_name(self.power)

    @property
    def n_classes(self) -> int:
        """How many classes count."""
        return int((self.weights > 0).sum())


def _check(
    table: BinTable, max_error: float | None, power: float, confidence_level: float, target: str
) -> None:
    check_level(confidence_level)
    if max_error is not None and not (is_real(max_error) and 0 < max_error < 1):
        raise InvalidArgumentError(
            f"max_error must lie between 0 and 1; got {max_error!r:.60}. Write 0.02 for two points."
        )
    if power not in (1.0, 2.0, math.inf):
        raise NoSuchEstimatorError(
            f'Certificates exist for "l1", "l2" and "max"; got {norm_name(power)}.'
        )
    if not is_among(target, ("population", "sample")):
        raise InvalidArgumentError(f'target must be "population" or "sample"; got {target!r}.')
    if target == "sample" and math.isinf(power) and table.n_groups > 1 and table.is_binned_model:
        raise NoSuchEstimatorError(
            f'target="sample" with norm="max" is proved for one {table.problem.part} at a time; '
            f'this problem is {table.problem.kind}. Use target="population", or certify each '
            f"{table.problem.part} by itself, as an event with its column."
        )


def _check_mass(table: BinTable, min_bin_mass: MinBinMass) -> None:
    if min_bin_mass is None or (isinstance(min_bin_mass, str) and min_bin_mass == "learned"):
        return
    if not (is_real(min_bin_mass) and 0 < min_bin_mass <= 1):
        raise InvalidArgumentError(
            f'min_bin_mass must be None, "learned" or a share of the rows in (0, 1]; '
            f"got {min_bin_mass!r}."
        )
    n_outputs = int((table.count > 0).sum(axis=1).max())
    if n_outputs * min_bin_mass > 1 + 1e-9:
        raise InvalidArgumentError(
            f"min_bin_mass cannot exceed 1 / {n_outputs:,} with {n_outputs:,} outputs, whose "
            f"probabilities add up to 1; got {min_bin_mass:g}."
        )
    fewest = float(table.count[table.count > 0].min())
    if special.bdtr(fewest, table.n, float(min_bin_mass)) < _INCREDIBLE:
        raise InvalidArgumentError(
            f"min_bin_mass {min_bin_mass:g} is not true of these rows: only {fewest:,.0f} of "
            f'{table.n:,} have the rarest output. Use a smaller one, or "learned".'
        )


def error_probability(confidence_level: float, looks: int, draws: int | None = None) -> float:
    """Return the error probability of one look, and one draw; refuse invalid numbers of them.

    >>> round(error_probability(0.95, 2), 12)
    0.025
    """
    if not (is_integer(looks) and 1 <= looks <= MOST_LOOKS):
        raise InvalidArgumentError(
            f"looks must be a whole number from 1 to {MOST_LOOKS:,}; got {looks!r:.60}. It is how "
            "often these rows will be certified as they grow: 1 for once."
        )
    if draws is not None and not (is_integer(draws) and 1 <= draws <= MOST_DRAWS):
        raise InvalidArgumentError(
            f"draws must be a whole number from 1 to {MOST_DRAWS:,}; got {draws!r:.60}. It is how "
            "often one row of each cluster is drawn."
        )
    delta = (1 - confidence_level) / int(looks) / int(draws or 1)
    if 1 - delta == 1:
        raise InvalidArgumentError(
            "Each look needs an error probability that differs from 0 by more than rounding; "
            f"confidence_level={confidence_level!r} leaves {delta:.3g} to each of {looks:,} looks"
            f"{f' and {draws:,} draws' if draws else ''}. Take a lower confidence_level, or fewer."
        )
    return delta


def checked_levels(levels: Any) -> FloatArray:
    """Return distinct levels in ascending order; refuse anything but probabilities.

    >>> checked_levels([0.8, 0.1, 0.8])
    array([0.1, 0.8])
    """
    try:
        values = np.array(levels, dtype=np.float64)
        if isinstance(levels, np.ma.MaskedArray):  # what a mask hides is not declared
            values = np.where(np.ma.getmaskarray(levels), np.nan, values)
    except (TypeError, ValueError, OverflowError):
        values = np.empty((0, 0))
    if values.ndim != 1 or values.size == 0 or not np.all((values >= 0) & (values <= 1)):
        raise InvalidArgumentError(
            "levels must be all outputs that the model can give: one or more probabilities, such "
            f"as recalibrator.levels_; got {levels!r:.80}."
        )
    distinct = np.unique(values)
    if distinct.size > MOST_BINS:
        raise InvalidArgumentError(
            f"levels must be {MOST_BINS:,} values at most; got {distinct.size:,}. A model with "
            "more outputs is as good as continuous: recalibrate it with ScalingBinning."
        )
    return distinct


def _check_levels_of_table(levels: FloatArray, table: BinTable) -> None:
    """Refuse a table that has other outputs than these."""
    if table.n_groups > 1:
        raise InvalidArgumentError(
            f"levels are those of one event; this table has {table.n_groups:,} "
            f"{table.problem.parts}. Leave levels out, or certify them one by one, each with its "
            f"own column and levels, and looks={table.n_groups} for all to hold at once."
        )
    if not table.is_binned_model:
        raise InvalidArgumentError(
            "levels are those of a model whose bins hold one output each; this table has bins that "
            "mix different predictions. Leave levels out, or count each output in its own bin, "
            "bins=Distinct()."
        )
    outputs = table.level[table.count > 0]
    # means of equal outputs may differ from them in the last digits
    undeclared = outputs[np.abs(outputs[:, None] - levels).min(axis=1) > 1e-9]
    if undeclared.size:
        raise InvalidArgumentError(
            f"levels must be all outputs of the model; {undeclared.size:,} of the rows' "
            f"{outputs.size:,} outputs are not among them, {undeclared[0]:.6g} for one. Declare "
            "them too, if the model was known to give them, or leave levels out."
        )


@dataclass(frozen=True, eq=False)
class Evidence:
    """Occupied bins of one or several classes, flattened.

    Attributes
    ----------
    n : int
        Rows.
    size, rate, s : ndarray
        Rows, event rate and prediction of each bin.
    weight : ndarray
        The weight w_k of the bin's class.
    n_planned : int
        About how many bins a class has, known without looking at these rows; it tunes the
        tests of the population's error and does not affect their validity.
    levels : ndarray, optional
        All outputs of the model, if they were declared: known without looking at these rows.
    is_mixed : bool
        Whether rows of a bin have event rates of their own: then their number of events is not
        binomial, but its noise is sub-Gaussian with a variance of 1/4 a row.
    """

    n: int
    size: FloatArray
    rate: FloatArray
    s: FloatArray
    weight: FloatArray
    n_planned: int
    levels: FloatArray | None = None
    is_mixed: bool = False

    @property
    def mass(self) -> FloatArray:
        """The share of rows in each bin."""
        return self.size / self.n

    @property
    def events(self) -> FloatArray:
        """The number of events in each bin."""
        return np.rint(self.rate * self.size)

    @property
    def class_of(self) -> IntArray:
        """The number of each bin's class, from 0 on: every class has all rows."""
        return np.asarray((np.cumsum(self.size) - self.size / 2) // self.n, np.intp)

    def squared(self, eta: float) -> float:
        """Return T: the weighted squared error, less eta times its bias."""
        bias = self.rate * (1 - self.rate) / np.maximum(self.size - 1, 1) * (self.size > 1)
        psi = (self.rate - self.s) ** 2 - eta * bias
        return float(np.sum(self.weight * self.mass * psi))


@dataclass(frozen=True, eq=False)
class Setting:
    """The target of a bound, its error probability, and the known masses.

    Attributes
    ----------
    target : {"population", "sample"}
    delta : float
        The error probability.
    least_mass : float or ndarray
        A lower bound of the masses, of all bins or of each, declared or inferred from the counts.
        It limits how far a bin may be off, and nothing else: where it is lower, less is rejected.
        So it may be wrong with some probability, which has to be taken off delta.
    nominal_mass : float, optional
        The mass by which tests are tuned. It must be known before the rows and need not be true:
        it affects tightness, never validity. None if the least mass was declared, and serves.
    """

    target: Target
    delta: float
    least_mass: FloatArray | float = 0.0
    nominal_mass: float | None = None

    @property
    def declared_mass(self) -> float:
        """The least mass, if it was declared for the population; 0 otherwise."""
        declared = self.target == "population" and self.nominal_mass is None
        return float(np.min(self.least_mass)) if declared else 0.0

    def largest_squares(self, evidence: Evidence, t: float) -> FloatArray:
        """Return for each bin the largest e^2 that an error t allows."""
        mass = evidence.mass if self.target == "sample" else self.least_mass
        return largest_power(t, evidence.weight * mass, 2)

    def nominal_square(self, evidence: Evidence, t: float) -> float:
        """Return the largest e^2 for which the test of an error t is tuned."""
        if self.target == "sample" or self.nominal_mass is None:
            return float(self.largest_squares(evidence, t).max())
        return float(largest_power(t, evidence.weight * self.nominal_mass, 2).max())

    def sees_counts(self, evidence: Evidence) -> bool:
        """Whether the tests may be tuned to the counts.

        Not for the population, whose bound averages over counts, nor for several classes: the
        events of a class are binomial given its own counts, but not given those of others.
        """
        return self.target == "sample" and float(evidence.weight.min()) == 1


def evidence_of(table: BinTable, weights: FloatArray, levels: FloatArray | None = None) -> Evidence:
    """Return the occupied bins of the classes that count; every bin must hold one output."""
    used = occupied(table, weights)
    fixed = all(bins.origin == "fixed" for bins in table.bins)
    n_planned = max(map(len, table.bins)) if fixed else auto_n_bins(table.n)
    return Evidence(
        n=table.n,
        size=table.count[used],
        rate=cells_of(table).rate[used],
        s=table.level[used],
        weight=np.broadcast_to(weights[:, None], used.shape)[used],
        n_planned=n_planned if levels is None else len(levels),
        levels=levels,
    )


def occupied(table: BinTable, weights: FloatArray) -> BoolArray:
    """Return which bins have rows, of the classes that count."""
    return np.asarray((table.count > 0) & (weights > 0)[:, None])


def largest_power(t: float, mass: FloatArray | float, power: int) -> FloatArray:
    """Return the largest |e_j|^power that an error t allows, given lower bounds of w_k p_j."""
    mass, total = np.asarray(mass), t**power  # no mass at all allows 1
    return np.divide(total, mass, out=np.ones_like(mass), where=mass > total)
