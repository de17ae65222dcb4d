"""Rows of one event: with weights and clusters, or reduced to distinct predictions.

`Sample` knows what weights and clusters do to the variance of an estimate; methods without bins
work on `Atoms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant._scipy import sparse, special
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    LengthMismatchError,
)
from calibrant.stats.intervals import clopper_pearson
from calibrant.table import BinTable, describe_bins

BLOCK = 1 << 21
"""Events drawn at a time, 16 MB."""


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
    def of(cls, y: FloatArray | BinTable, p: FloatArray | None = None) -> Atoms:
        """Check rows of one event and pool equal predictions, unless a table has done so."""
        if isinstance(y, BinTable):
            return cls.of_table(y)
        y, p = np.asarray(y, np.float64), np.asarray(p, np.float64)
        check_rows(y, p)
        values, place, count = np.unique(p, return_inverse=True, return_counts=True)
        events = np.bincount(place, y).astype(np.float64)
        return cls(values, count.astype(np.float64), events)

    @classmethod
    def of_table(cls, table: BinTable) -> Atoms:
        """Return the atoms of a table of distinct predictions; refuse other tables."""
        if table.n_groups > 1 or table.is_weighted or not table.is_binned_model:
            content = (
                f"several {table.problem.parts}" if table.n_groups > 1
                else "sample weights" if table.is_weighted
                else f"different predictions in one bin, of {describe_bins(table)}"
            )  # fmt: skip
            raise InvalidArgumentError(
                "A table in place of predictions must have one event, rows without weights, and a "
                f"bin for each distinct prediction; this one has {content}. Count with "
                'bins="distinct".'
            )
        used = table.count[0] > 0
        return cls(table.level[0, used], table.count[0, used], table.sum_y[0, used])

    def inside(self) -> Atoms:
        """Return the rows whose predictions have a finite logit."""
        finite = (self.p > 0) & (self.p < 1)
        return Atoms(self.p[finite], self.count[finite], self.events[finite])

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


def is_contradicted(atoms: Atoms) -> bool:
    """Tell whether something happened that was predicted with probability 0."""
    never, always = atoms.p == 0, atoms.p == 1
    return bool(np.any(atoms.events[never] > 0) or np.any((atoms.count - atoms.events)[always] > 0))


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


@dataclass(frozen=True, eq=False)
class Sample:
    """Events, predictions, and how much rows count and depend on each other.

    Attributes
    ----------
    y, p : ndarray of shape (n,)
        Events, 0 or 1, and the predicted probability of each.
    weight : ndarray of shape (n,)
        Scaled to a mean of 1.
    cluster : ndarray of shape (n,) or None
        The number of each row's cluster; None for rows that are independent.
    """

    y: FloatArray
    p: FloatArray
    weight: FloatArray
    cluster: IntArray | None = None

    @classmethod
    def of(
        cls,
        y: FloatArray,
        p: FloatArray,
        weight: FloatArray | None = None,
        cluster: IntArray | None = None,
    ) -> Sample:
        """Scale the weights, leave out rows that have none, and number the clusters."""
        if weight is None:
            weight = np.ones(y.size)
        if not (weight > 0).all():
            return cls(y, p, weight, cluster).take(weight > 0)
        codes = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
        return cls(y, p, weight / weight.mean(), codes)

    def take(self, rows: BoolArray) -> Sample:
        """Return these rows."""
        cluster = None if self.cluster is None else self.cluster[rows]
        return Sample.of(self.y[rows], self.p[rows], self.weight[rows], cluster)

    @classmethod
    def of_table(cls, table: BinTable) -> Sample:
        """Return the rows that a table of distinct predictions counted; refuse other tables."""
        atoms = Atoms.of_table(table)
        counts = np.stack([atoms.count - atoms.events, atoms.events]).astype(int)
        y = np.repeat(np.tile([0.0, 1.0], atoms.p.size), counts.T.ravel())
        return cls.of(y, np.repeat(atoms.p, counts.sum(axis=0)))

    def __len__(self) -> int:
        return self.y.size

    @property
    def n_clusters(self) -> int:
        """Independent units: clusters, or rows."""
        return len(self) if self.cluster is None else int(self.cluster.max()) + 1

    @property
    def is_plain(self) -> bool:
        """Whether rows are independent and count alike."""
        return self.cluster is None and bool((self.weight == 1).all())

    @cached_property
    def events(self) -> int:
        """The number of rows whose event happened."""
        return int(self.y.sum())

    @property
    def fewest(self) -> int:
        """The number of events or of non-events, whichever is less."""
        return min(self.events, len(self) - self.events)

    def mean(self, values: FloatArray) -> float:
        """Return the weighted mean."""
        return float(self.weight @ values) / len(self)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the weighted sum of each cluster, or of each row."""
        added = self.weight * values
        return added if self.cluster is None else np.bincount(self.cluster, added).astype(float)

    def variance(self, influence: FloatArray) -> float:
        """Return the variance of an estimate whose error is the mean of these influences."""
        g = self.n_clusters
        return float((self.sums(influence) ** 2).sum()) / len(self) ** 2 * g / max(g - 1, 1)

    def scatter(self, place: IntArray, size: int, values: FloatArray) -> FloatArray:
        """Return sum_c v_c v_c^T, where v_c sums the weighted values of cluster c by place.

        Of independent rows only its diagonal, of shape (size,), is not zero, and returned.
        """
        added = self.weight * values
        if self.cluster is None:
            return np.bincount(place, added**2, minlength=size).astype(float)
        v = sparse.coo_array((added, (self.cluster, place)), (self.n_clusters, size)).tocsr()
        return np.asarray((v.T @ v).toarray()) * self.n_clusters / max(self.n_clusters - 1, 1)

    def quantile(self, confidence_level: float) -> float:
        """Return Student's quantile of a two-sided interval."""
        degrees = max(self.n_clusters - 1, 1)
        return float(special.stdtrit(degrees, (1 + confidence_level) / 2))

    @cached_property
    def kish_n(self) -> float:
        """Units of equal weight that would estimate a mean as well: (sum w)^2 / sum w^2."""
        return len(self) ** 2 / float((self.sums(np.ones(len(self))) ** 2).sum())

    @cached_property
    def effective_n(self) -> float:
        """Independent rows that would estimate the event rate as well; at most the number of rows.

        Where all events agree their variance is 0, and Kish's formula is used.
        """
        rate = self.mean(self.y)
        variance = self.variance(self.y - rate)
        if self.is_plain or variance == 0:
            return self.kish_n
        return float(min(max(rate * (1 - rate) / variance, min(self.kish_n, 1.0)), len(self)))

    def rate_limits(self, confidence_level: float) -> tuple[float, float]:
        """Return the Clopper-Pearson interval at the effective number of rows (Korn, Graubard)."""
        n = self.effective_n
        if not self.is_plain:  # their adjustment for the degrees of freedom of the variance
            z = float(special.ndtri((1 + confidence_level) / 2))
            n *= (z / self.quantile(confidence_level)) ** 2
        rate = min(max(self.mean(self.y), 0.0), 1.0)
        low, high = clopper_pearson(np.array(rate * n), np.array(n), 1 - confidence_level)
        return float(low), float(high)
