"""What a bound looks at: the occupied bins of a table, and what is known of the masses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._bins_argument import auto_n_bins
from calibrant._types import BoolArray, FloatArray
from calibrant.stats.estimators import Target, cells_of
from calibrant.table import BinTable


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

    def squared(self, eta: float) -> float:
        """Return T: the weighted squared error, less eta times its bias."""
        bias = self.rate * (1 - self.rate) / np.maximum(self.size - 1, 1) * (self.size > 1)
        psi = (self.rate - self.s) ** 2 - eta * bias
        return float(np.sum(self.weight * self.mass * psi))


@dataclass(frozen=True, eq=False)
class Setting:
    """What a bound is about, and what is known of the masses.

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
        """Return for each bin what its e^2 cannot exceed if the error is t."""
        mass = evidence.mass if self.target == "sample" else self.least_mass
        return _largest_squares(t, evidence.weight * mass)

    def nominal_square(self, evidence: Evidence, t: float) -> float:
        """Return the largest e^2 for which the test of an error t is tuned."""
        if self.target == "sample" or self.nominal_mass is None:
            return float(self.largest_squares(evidence, t).max())
        return float(_largest_squares(t, evidence.weight * self.nominal_mass).max())

    def sees_counts(self, evidence: Evidence) -> bool:
        """Whether the tests may be tuned to the counts.

        Not for the population, whose bound averages over counts, nor for several classes: the
        events of a class are binomial given its own counts, but not given those of others.
        """
        return self.target == "sample" and float(evidence.weight.min()) == 1


def evidence_of(table: BinTable, weights: FloatArray, levels: FloatArray | None = None) -> Evidence:
    """Return the occupied bins of the classes that count; every bin must hold one output."""
    used = occupied(table, weights)
    cells = cells_of(table)
    group_weight = np.broadcast_to(weights[:, None], used.shape)
    fixed = all(bins.origin == "fixed" for bins in table.bins)
    n_planned = max(map(len, table.bins)) if fixed else auto_n_bins(table.n)
    return Evidence(
        n=table.n,
        size=table.count[used],
        rate=cells.rate[used],
        s=np.where(np.isnan(table.level), cells.mean, table.level)[used],
        weight=group_weight[used],
        n_planned=n_planned if levels is None else len(levels),
        levels=levels,
    )


def occupied(table: BinTable, weights: FloatArray) -> BoolArray:
    """Return which bins have rows, of the classes that count."""
    return np.asarray((table.count > 0) & (weights > 0)[:, None])


def _largest_squares(t: float, mass: FloatArray) -> FloatArray:
    """Return what e_j^2 cannot exceed if the error is t, given lower bounds of w_k p_j."""
    return np.minimum(1.0, np.divide(t**2, mass, out=np.ones_like(mass), where=mass > 0))
