"""What each row adds to an error that was measured, and the few sums of it that engines return.

To first order an error is a mean over rows of their influences

    h = a - m,   a = sum_k slope_kj (y_k - p_k),   m = sum_k offset_kj,

where j is the bin of the row's prediction of class k. The labels of one row depend on each other,
so do its classes' errors; the spread of h over rows has that dependence in it, without a matrix of
all pairs of bins. The coefficients are known once the table is: the rows are read once more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from calibrant._types import FloatArray


@dataclass(frozen=True, eq=False)
class Influence:
    """The coefficients of `a` and `m` in every bin, of shape (n_groups, n_bins), and their means.

    Engines subtract the means before they square, so that sums of squares lose no digits, and
    divide weights by the mean weight, so that no fourth power overflows.
    """

    slope: FloatArray
    offset: FloatArray
    mean_a: float
    mean_m: float
    mean_weight: float = 1.0


@dataclass(frozen=True)
class InfluenceSums:
    """Sums over rows; `a` and `m` are less their means. Sums of parts can be added.

    Attributes
    ----------
    w : float
        Of weights over their mean: the number of rows.
    wa : float
        Zero but for rounding, if these are the rows of the table.
    wwaa, wwam, wwmm : float
        Of w^2 a^2, w^2 a m and w^2 m^2.
    fourth : float
        Of w^4 (a - m)^4: whether few rows carry the spread.
    """

    w: float = 0.0
    wa: float = 0.0
    wwaa: float = 0.0
    wwam: float = 0.0
    wwmm: float = 0.0
    fourth: float = 0.0

    def __add__(self, other: InfluenceSums) -> InfluenceSums:
        names = [field.name for field in fields(self)]
        return InfluenceSums(*(getattr(self, name) + getattr(other, name) for name in names))
