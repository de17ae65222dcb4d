"""Rows of one event with weights and clusters, and what both do to the variance of an estimate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from calibrant._scipy import sparse, special
from calibrant._types import FloatArray, IntArray
from calibrant.stats.atoms import Atoms
from calibrant.stats.intervals import clopper_pearson
from calibrant.table import BinTable


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
        used = weight > 0
        if not used.all():
            y, p, weight = y[used], p[used], weight[used]
            cluster = None if cluster is None else cluster[used]
        codes = None if cluster is None else np.unique(cluster, return_inverse=True)[1]
        return cls(y, p, weight / weight.mean(), codes)

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
    def effective_n(self) -> float:
        """Independent rows that would tell the event rate as well; at most the rows there are.

        Where all events agree their variance says nothing, and Kish's formula is used.
        """
        rate = self.mean(self.y)
        variance = self.variance(self.y - rate)
        kish = len(self) ** 2 / float((self.sums(np.ones(len(self))) ** 2).sum())
        if self.is_plain or variance == 0:
            return kish
        return float(min(max(rate * (1 - rate) / variance, min(kish, 1.0)), len(self)))

    def rate_limits(self, confidence_level: float) -> tuple[float, float]:
        """Return the Clopper-Pearson interval at the effective number of rows (Korn, Graubard)."""
        n = self.effective_n
        if not self.is_plain:  # their adjustment for the degrees of freedom of the variance
            z = float(special.ndtri((1 + confidence_level) / 2))
            n *= (z / self.quantile(confidence_level)) ** 2
        rate = min(max(self.mean(self.y), 0.0), 1.0)
        low, high = clopper_pearson(
            np.array([rate * n]), np.array([n]), np.array(1 - confidence_level)
        )
        return float(low[0]), float(high[0])
