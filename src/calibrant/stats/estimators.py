"""Calibration errors of a table: plug-in, debiased, and what chance alone would give.

Everything is computed from `Cells`, the per-bin quantities of one table or of many tables at
once (any leading axes), so a thousand bootstrap tables cost one vectorised call.

References: Kumar, Liang, Ma (2019), sections 2, 5 and appendix G; Broecker (2012) and Ferro and
Fricker (2012) for the debiased square; Sun et al. (2024) for its U-statistic form.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from numbers import Real
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant._options import check_flag, is_real
from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError, NoSuchEstimatorError
from calibrant.problem import Kind, Label, Problem
from calibrant.table import BinSums

Norm: TypeAlias = str | float
Target: TypeAlias = Literal["population", "sample"]
ClassWeight: TypeAlias = Mapping[Label, float] | Sequence[float] | npt.NDArray[np.floating] | None

SMALLEST = 5e-324
"""The smallest positive number."""


@dataclass(eq=False)  # not frozen, which would cost a microsecond in every call
class Cells:
    """Per-bin quantities, each of shape (..., n_groups, n_bins) and computed when first read.

    Parameters
    ----------
    sum_y, sum_p, sum_pp, sum_w, sum_ww, sum_wwuu : ndarray
        As in `BinTable`.
    """

    sum_y: FloatArray
    sum_p: FloatArray
    sum_pp: FloatArray
    sum_w: FloatArray
    sum_ww: FloatArray
    sum_wwuu: FloatArray

    @cached_property
    def mass(self) -> FloatArray:
        """The share of its group's weight in each bin, p_j."""
        # np.add.reduce is what sum() calls, half a microsecond later
        return np.asarray(self.sum_w / np.add.reduce(self.sum_w, axis=-1, keepdims=True))

    @cached_property
    def rate(self) -> FloatArray:
        """The weighted mean of the events, x_j."""
        return np.asarray(self.sum_y / self._divisor)

    @cached_property
    def mean(self) -> FloatArray:
        """The weighted mean of the predictions, s_j."""
        return np.asarray(self.sum_p / self._divisor)

    @property
    def _divisor(self) -> FloatArray:
        """The weight of each bin, and something positive where there is none: other sums are 0."""
        return np.maximum(self.sum_w, SMALLEST)

    @cached_property
    def _pairs(self) -> FloatArray:
        """The weight of all pairs of different rows; 0 in bins of fewer than two."""
        pairs = self.sum_w**2 - self.sum_ww  # of one row 0 but for rounding
        return np.where(pairs > 1e-9 * self.sum_ww, pairs, 0.0)

    @cached_property
    def size(self) -> FloatArray:
        """Rows, or the effective number (sum w)^2 / sum w^2 where there are weights."""
        return np.where(self._pairs > 0, ratio(self.sum_w**2, self.sum_ww), np.sign(self.sum_w))

    @cached_property
    def square(self) -> FloatArray:
        """The unbiased estimate of (E[y - p])^2, over pairs of different rows.

        It is 0 in bins of fewer than two.
        """
        return ratio((self.sum_y - self.sum_p) ** 2 - self.sum_wwuu, self._pairs)

    @cached_property
    def noise(self) -> FloatArray:
        """Mean of p (1 - p): the variance of a label if the predictions are calibrated."""
        return np.maximum((self.sum_p - self.sum_pp) / self._divisor, 0.0)

    @cached_property
    def gap(self) -> FloatArray:
        """Event rate minus mean prediction."""
        divisor = self._divisor
        return np.asarray(self.sum_y / divisor - self.sum_p / divisor)

    @property
    def observed_variance(self) -> FloatArray:
        """The variance of y - p that the rows show; 0 in bins of fewer than two."""
        return np.where(self.resolved, (self.gap**2 - self.square) * self.size, 0.0)

    @property
    def event_variance(self) -> FloatArray:
        """The variance of y - p that events of one weight and one prediction would show."""
        return self.rate * (1 - self.rate) * self.size / np.maximum(self.size - 1, 1e-9)

    @property
    def resolved(self) -> BoolArray:
        """Bins with at least two rows."""
        return self.size > 1

    @property
    def unresolved_mass(self) -> FloatArray:
        """The share of each group's weight in bins of fewer than two rows."""
        return np.asarray(np.where(self.resolved, 0.0, self.mass).sum(axis=-1))

    @property
    def one_class_each(self) -> Cells:
        """The same cells as tables of one group each, which estimators take in one call."""
        return Cells(*(getattr(self, column.name)[..., None, :] for column in fields(self)))


def cells_of(table: BinSums) -> Cells:
    """Return the per-bin quantities of a table, or those of all groups of `Tables` at once."""
    return Cells(table.sum_y, table.sum_p, table.sum_pp, table.sum_w, table.sum_ww, table.sum_wwuu)


def power_of(norm: Norm) -> float:
    """Return p for the l_p norm that a user named: "l1", "l2", "max" or a number >= 1."""
    named = {"l1": 1.0, "l2": 2.0, "max": math.inf}
    if isinstance(norm, str):
        if norm in named:
            return named[norm]
    elif isinstance(norm, Real) and not isinstance(norm, bool) and norm >= 1:
        return math.inf if not is_real(norm) else float(norm)
    raise InvalidArgumentError(f'norm must be "l1", "l2", "max" or a number >= 1; got {norm!r}.')


def norm_name(power: float) -> str:
    """Return the name of a norm: "max", or "l" and the number, digits enough to tell it apart."""
    short = f"{power:g}"
    return "max" if math.isinf(power) else f"l{short if float(short) == power else repr(power)}"


def is_debiased(power: float, debias: bool | None) -> bool:
    """Read ``debias=``: None means where a correction exists, True insists on one."""
    if debias is not None:
        check_flag("debias", debias)
    exists = power in (1.0, 2.0)
    if debias and not exists:
        raise NoSuchEstimatorError(
            f"No debiased estimator is known for the {norm_name(power)} error, only for l1 and l2. "
            "Use debias=None or False, and read the noise floor."
        )
    return exists if debias is None else debias


def class_weights(class_weight: ClassWeight, problem: Problem) -> FloatArray:
    """Return one weight per group, adding up to 1; equal weights by default."""
    if class_weight is None:
        return _equal_weights(problem.n_groups)
    if not problem.is_marginal:
        raise InvalidArgumentError(
            'class_weight applies to kind="marginal" and other problems of several events; this '
            f'problem is "{problem.kind}".'
        )
    if isinstance(class_weight, Mapping):
        unknown = [name for name in class_weight if name not in problem.group_names]
        if unknown:
            raise InvalidWeightsError(
                f"class_weight names {unknown[0]!r}, which is not among the classes "
                f"{problem.group_names!r:.80}."
            )
        class_weight = [class_weight.get(name, 0.0) for name in problem.group_names]
    try:
        weights = np.asarray(class_weight, float)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidWeightsError(
            "class_weight must be a dict of classes or a sequence of numbers, one for each class; "
            f"got {class_weight!r:.60}."
        ) from error
    if weights.shape != (problem.n_groups,):
        raise InvalidWeightsError(
            f"class_weight must have one value for each of the {problem.n_groups:,} classes; "
            f"got shape {weights.shape}."
        )
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise InvalidWeightsError("class_weight must be finite, not negative, and not all zero.")
    return np.asarray(weights / weights.sum())


@lru_cache(maxsize=16)
def _equal_weights(n_groups: int) -> FloatArray:
    weights = np.full(n_groups, 1.0 / n_groups)
    weights.setflags(write=False)
    return weights


def raw_error(cells: Cells, weights: FloatArray, power: float, debiased: bool) -> FloatArray:
    """Return the estimate of error^p for p = 1 or 2, signed, unclipped.

    Classes are averaged before anything is clipped: clipping per class brings the bias back.
    Other norms have no debiased estimate, and their powers may underflow: see `error_of`.
    """
    if power not in (1.0, 2.0):
        raise ValueError(f"The power of an error exists for p = 1 and 2; got {power!r}.")
    if debiased and power == 2:
        per_bin = cells.square
    elif debiased:
        per_bin = 2 * np.abs(cells.gap) - _folded_mean(cells)
    else:
        per_bin = np.abs(cells.gap) if power == 1 else cells.gap**2
    return np.asarray(np.add.reduce(cells.mass * per_bin, axis=-1) @ weights)


def error_of(cells: Cells, weights: FloatArray, power: float, debiased: bool) -> FloatArray:
    """Return the estimate of the error in any norm, clipped to [0, 1] once, at the very end."""
    if power in (1.0, 2.0):
        return error_from_raw(raw_error(cells, weights, power, debiased), power)
    return np.minimum(lp_norm(np.abs(cells.gap), cells.mass, weights, power), 1.0)


def error_from_raw(raw: FloatArray, power: float) -> FloatArray:
    """Clip to [0, 1] and take the root; an estimate leaves that range by chance or rounding."""
    clipped = np.minimum(np.maximum(raw, 0.0), 1.0)
    return np.asarray(clipped if power == 1 else clipped ** (1.0 / power))


def lp_norm(
    distance: FloatArray, mass: FloatArray, weights: FloatArray, power: float
) -> FloatArray:
    """Return ``(sum_k w_k sum_j m_kj d_kj^p)^(1/p)``, for any p >= 1 and the maximum.

    Distances are divided by the largest one that counts, and their powers are added as
    logarithms: 0.1^400 is 0 in float64, but its root is 0.1.
    """
    with np.errstate(divide="ignore"):  # log 0 is -inf here, a term that adds nothing
        log_weight = np.log(mass) + np.log(weights)[:, None]
    distance = np.where(np.isneginf(log_weight), 0.0, distance)
    largest = distance.max(axis=(-2, -1))
    if math.isinf(power):
        return np.asarray(largest)
    scale = np.where(largest > 0, largest, 1.0)[..., None, None]
    with np.errstate(divide="ignore", over="ignore"):
        terms = log_weight + power * np.log(distance / scale)
    return np.asarray(largest * np.exp(special.logsumexp(terms, axis=(-2, -1)) / power))


def null_variance(cells: Cells, label_variance: FloatArray) -> FloatArray:
    """Variance of each group's debiased square where every bin is calibrated.

    ``2 sum_j p_j^2 v_j^2 / (N_j (N_j - 1))``, exact for independent labels of variance v_j.
    """
    pairs = cells.size * (cells.size - 1)
    per_bin = ratio((cells.mass * label_variance) ** 2, np.where(cells.resolved, pairs, 0.0))
    return np.asarray(2 * per_bin.sum(axis=-1))


def noise_floor(
    cells: Cells, weights: FloatArray, power: float, debiased: bool, kind: Kind = "marginal"
) -> float:
    """Return what calibrated predictions of this kind and number would score on average.

    The predictions are kept and the labels imagined drawn from them; bin means are taken as
    normal, which needs some events in a bin. Plug-in: ``(sum p_j E|N(0, t_j^2)|^p)^(1/p)`` with
    ``t_j^2 = mean(p (1 - p)) / N_j``, or the floor of the maximum where that is smaller: no norm
    exceeds the maximum, and high moments live in tails that no gap can reach. Debiased l1:
    (2 - sqrt 2) times the plug-in floor. Debiased l2: the mean of sqrt(max(T, 0)) for T of a
    gamma law with the right first three moments. Classes depend on each other as the labels of
    one row do (the maximum takes them as independent, which is a little too high for two classes
    that mirror each other), thresholds and levels as those of one outcome do, and the labels of a
    multi-label problem are imagined drawn independently.
    """
    if debiased and power == 2:
        return _mean_root_of_square(cells, weights, kind)
    spread = np.sqrt(ratio(cells.noise, cells.size))
    highest = _mean_of_largest(spread[(weights > 0)[:, None] & (cells.mass > 0)])
    if math.isinf(power) or highest == 0:
        return min(highest, 1.0)
    log_moment = float(special.gammaln((power + 1) / 2)) - math.log(math.pi) / 2
    root_moment = math.sqrt(2) * math.exp(log_moment / power)
    floor = root_moment * float(lp_norm(spread, cells.mass, weights, power))
    return min(floor * (2 - math.sqrt(2)) if debiased else floor, highest, 1.0)


def _mean_root_of_square(cells: Cells, weights: FloatArray, kind: Kind) -> float:
    """E sqrt(max(T, 0)) for the debiased square T at calibration, a sum of centred chi-squares."""
    sd = weights * np.sqrt(null_variance(cells, cells.noise))
    prevalence = (cells.mass * cells.mean).sum(axis=-1)
    odds = ratio(prevalence, 1 - prevalence)
    # the square of the correlation of two events of a row
    if kind == "multi-label":
        correlation = np.zeros((odds.size, odds.size))
    elif kind in ("ordinal", "quantile"):
        correlation = ratio(np.minimum.outer(odds, odds), np.maximum.outer(odds, odds))
    else:
        correlation = np.minimum(np.outer(odds, odds), 1.0)
    np.fill_diagonal(correlation, 1.0)
    variance = float(sd @ correlation @ sd)
    if variance < 1e-40:
        return 0.0
    scale = ratio(cells.mass * cells.noise, np.where(cells.resolved, cells.size, 0.0))
    shapes = ratio(null_variance(cells, cells.noise) ** 3, (4 * (scale**3).sum(axis=-1)) ** 2)
    independent = sd.sum() ** 2 / variance
    shape = float(sd @ shapes / sd.sum() * independent)
    chance = (np.arange(2000) + 0.5) / 2000
    law = (special.gammaincinv(shape, chance) - shape) / math.sqrt(shape)
    return float(np.sqrt(np.maximum(law, 0.0)).mean() * variance**0.25)


def _folded_mean(cells: Cells) -> FloatArray:
    """E|N(x - s, x (1 - x) / N)| in each bin, the paper's simulated expectation in closed form."""
    gap = cells.gap
    spread = np.sqrt(ratio(cells.rate * (1 - cells.rate), cells.size))
    z = ratio(gap, spread)
    folded = spread * math.sqrt(2 / math.pi) * np.exp(-(z**2) / 2) + gap * special.erf(
        z / math.sqrt(2)
    )
    return np.where(spread > 0, folded, np.abs(gap))


def _mean_of_largest(spread: FloatArray) -> float:
    """E max |N(0, t_j^2)| over independent bins, by integrating the tail."""
    top = float(spread.max(initial=0.0))
    if top == 0:
        return 0.0
    t = np.linspace(0.0, 8 * top, 801)
    below = special.erf(t[:, None] / (math.sqrt(2) * spread[spread > 0])).prod(axis=1)
    return float(np.trapezoid(1 - below, t))


def ratio(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a / b, and 0 where b is not positive."""
    return np.divide(a, b, out=np.zeros(np.broadcast(a, b).shape), where=np.asarray(b) > 0)
