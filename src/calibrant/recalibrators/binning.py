"""Histogram binning, and the base class of binned recalibrators.

Their outputs are finitely many, so that their error can be certified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._bins_argument import as_bin_rule, is_auto
from calibrant._options import is_integer
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinRule, Bins, BinsLike, Hybrid, count_below
from calibrant.columns import Columns
from calibrant.engines import engine
from calibrant.engines.tensors import Tensors
from calibrant.engines.torch import TorchEngine
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.problem import Problem
from calibrant.recalibrators import on_device
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import map_rows
from calibrant.recalibrators.formulas import NUMPY, Operations
from calibrant.recalibrators.reading import Choices
from calibrant.recalibrators.scores import FitResult, Scores, dot
from calibrant.stats import histogram_binning_bound

TIE_SHARE = 1e-9
"""Of the smallest gap between outputs: what ties may be broken by, invisible in any certificate."""


class Binned(Recalibrator):
    """Steps of a score: `levels_` of `bins_`, whose inner edges are `cuts_` on its own scale."""

    _constants: ClassVar[tuple[str, ...]] = ("cuts_", "levels_")
    _choices: ClassVar[Choices] = {"keep_order": (False, True)}
    bins: BinsLike
    keep_order: bool
    bins_: Bins
    levels_: FloatArray
    cuts_: FloatArray | None
    _balance: float | None = None

    @property
    def effective_n_bins_(self) -> int:
        """The number of different outputs; ties can make them fewer than asked."""
        return int(np.unique(self.levels_).size)

    def _binned_values(self, scores: FloatArray) -> FloatArray:
        """Return the values that the bins divide."""
        return scores

    def _apply(self, probs: AnyArray) -> FloatArray:
        if not self.keep_order:
            return self._answers(probs)
        scores = probs.astype(np.float64)
        values = self._binned_values(scores)
        at = self.bins_.index(values) if self.cuts_ is None else count_below(self.cuts_, scores)
        gaps = np.diff(np.unique(self.levels_))
        height = TIE_SHARE * float(gaps.min()) if gaps.size else TIE_SHARE
        low, high = self.bins_.edges[at], self.bins_.edges[at + 1]
        share = np.clip((values - low) / (high - low), 0.0, 1.0)
        return np.asarray(self.levels_[at] + height * (share - self.levels_[at]))

    def _answers(self, probs: AnyArray) -> FloatArray:
        if self.cuts_ is not None:
            return map_rows(probs, lambda x: NUMPY.steps(x, self.cuts_, self.levels_))
        values = self._binned_values(probs.astype(np.float64))
        return np.asarray(self.levels_[self.bins_.index(values)])

    def _formula(self, ops: Operations, x: Any, learned: Any) -> Any:
        if self.keep_order:
            raise InvalidArgumentError("Only levels are exported; set keep_order=False first.")
        return ops.steps(x, learned.cuts_, learned.levels_)

    def _all_levels(self) -> FloatArray:
        return self.levels_

    def _check_parameters(self) -> None:
        as_bin_rule(self.bins, 1)
        super()._check_parameters()

    def _check_learned(self) -> None:
        n_bins, size = len(self.bins_), self.levels_.size
        if n_bins != size:
            raise ValueError(f"{n_bins} bins need as many levels; there are {size}")


class HistogramBinning(Binned):
    r"""Answer with the mean label of the bin that a prediction falls in.

    A bin without rows, which only bins that were given or of equal width can have, answers with
    its midpoint.

    Parameters
    ----------
    bins : int, str, rule or array of edges
        As in `calibrant.calibration_error`: 15, "mass:15", "width:15", "hybrid:15", "distinct",
        edges. "auto" is uniform mass in ``(n / (6 m))^(1/3)`` bins with m the mean of p (1 - p),
        which balances the noise of a bin against its width, and at least ten rows a bin. In
        `OneVsRest` "auto" and a number mean hybrid bins.
    keep_order : bool
        Break ties inside a bin by less than 1e-9 of the smallest gap between outputs.

    Attributes
    ----------
    bins_ : Bins
        The bins, fixed for any rows to come; neighbours with the same output are one bin.
    levels_ : ndarray
        The output of each bin.

    See Also
    --------
    ScalingBinning : means of a smooth map instead of labels, which takes fewer rows.

    Notes
    -----
    Bin j answers with :math:`\sum w y / \sum w` over its fitting rows. With B bins and n rows the
    squared calibration error is of the order :math:`B / n`.

    References
    ----------
    Zadrozny, Elkan (2001), Obtaining calibrated probability estimates from decision trees and naive
    Bayesian classifiers, ICML. Section 2.3 of Kumar, Liang, Ma (2019).

    Examples
    --------
    >>> binned = HistogramBinning(bins=2).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 0])
    >>> binned.levels_, binned.bins_.edges
    (array([0. , 0.5]), array([0. , 0.4, 1. ]))
    """

    _learned: ClassVar[dict[str, str]] = {"bins_": "bins", "levels_": "probabilities"}

    def __init__(self, bins: BinsLike = "auto", keep_order: bool = False) -> None:
        self.bins = bins
        self.keep_order = keep_order

    @property
    def cuts_(self) -> FloatArray:  # type: ignore[override]
        """The inner edges of the bins."""
        return self.bins_.edges[1:-1]

    def training_bound(self, confidence_level: float = 0.95) -> float:
        """Bound the l2 error on inputs like the fitting rows, from the fitting labels alone.

        See `calibrant.stats.histogram_binning_bound`. No other recalibrator can do this: the
        labels of a bin are used for its own output and for nothing else.
        """
        check_is_fitted(self, "classes_")
        if self.fingerprint_ is None or "weighted" in self.fit_result_.flags:
            raise InvalidInputError(
                "The training bound counts independent rows; this recalibrator was fitted on "
                "weighted rows or from a table. Fit it on rows without weights."
            )
        # Labels decided which neighbours are one bin, so all that had a mean of their own count.
        if self.bins_.requested is None:
            raise InvalidInputError(
                "The training bound needs the number of bins before equal neighbours were joined, "
                "which this recalibrator was saved without. Fit it again."
            )
        n_bins = max(self.bins_.requested, self.levels_.size)
        return histogram_binning_bound(
            self.fingerprint_.n, n_bins, confidence_level=confidence_level
        )

    def _learn_tensors(self, tensors: Tensors) -> bool:
        self._learn(on_device.sketch(tensors), tensors)
        return True

    def _learn(self, scores: Scores, tensors: Tensors | None = None) -> None:
        """Learn from scores, or from the tensors that they sketch."""
        flags = () if scores.weights is None or tensors is not None else ("weighted",)
        rule = bin_rule(self.bins, scores.size, _auto_number(scores), self._balance)
        binned = BinnedScores.of(scores, rule, tensors)
        middle = (binned.bins.edges[:-1] + binned.bins.edges[1:]) / 2
        shares = np.clip(ratio(binned.events, binned.weight, middle), 0.0, 1.0)
        self.bins_, self.levels_ = merge_equal(binned.bins, shares)
        lost = binned.squared_error(shares)
        self.fit_result_ = binned_result(scores, lost, binned.identity_error(), flags)


def _auto_number(scores: Scores) -> int:
    """Return the number of bins that balances the noise of their means against their width."""
    p = scores.values
    wp = p if scores.weights is None else scores.weights * p
    spread = max((float(wp.sum()) - dot(wp, p)) / scores.total, 0.02)
    balanced = round((scores.size / (6 * spread)) ** (1 / 3))
    return int(max(1, min(max(2, balanced), scores.size // 10)))


def bin_rule(bins: BinsLike, size: float, auto: int, balance: float | None) -> Bins | BinRule:
    """Return the rule that the argument `bins` means for so many rows.

    `auto` is the number of bins where that is left open. With a balance, which `OneVsRest` sets,
    numbers mean hybrid bins that may be so much lighter than average.
    """
    rule: Any = auto if is_auto(bins) else bins
    is_number = is_integer(rule) or (isinstance(rule, str) and rule.isdecimal())
    if balance is not None and is_number:
        rule = Hybrid(int(rule), balance)
    return as_bin_rule(rule, int(size))


@dataclass(frozen=True, eq=False)
class BinnedScores:
    """Bins of scores p of events y with weights w, and sums over the rows of each bin."""

    bins: Bins
    weight: FloatArray
    events: FloatArray
    sum_p: FloatArray
    sum_pp: FloatArray
    sum_py: FloatArray

    @classmethod
    def of(
        cls, scores: Scores, rule: Bins | BinRule, tensors: Tensors | None = None
    ) -> BinnedScores:
        """Let the rule choose bins for scores in [0, 1], and sum them there.

        Single rows, or tensors in place of scores, are searched and counted as they are for
        measuring, without a sort.
        """
        if tensors is not None or scores.weights is None:
            rows: Any = tensors or Columns(Problem("binary"), scores.events, scores.values)
            counts: Any = engine() if tensors is None else TorchEngine()
            bins = rule if isinstance(rule, Bins) else counts.choose(rows, rule)[0]
            table = counts.count(rows, (bins,))
            sums = (table.count, table.sum_y, table.sum_p, table.sum_pp, table.sum_py)
            return cls(bins, *(of_groups[0] for of_groups in sums))
        scores = scores.distinct()
        p, w, y = scores.values, scores.weight, scores.events
        bins = rule if isinstance(rule, Bins) else rule.choose(p, w)
        index = bins.index(p)
        terms = (w, y, w * p, w * p * p, y * p)
        return cls(
            bins, *(np.bincount(index, term, len(bins)).astype(np.float64) for term in terms)
        )

    def squared_error(self, levels: FloatArray) -> float:
        """Return the mean squared error of answers with one level for each bin."""
        lost = float((self.weight * levels**2 - 2 * levels * self.events + self.events).sum())
        return max(lost / float(self.weight.sum()), 0.0)

    def identity_error(self) -> float:
        """Return the mean squared error of the scores themselves."""
        lost = float((self.sum_pp - 2 * self.sum_py + self.events).sum())
        return max(lost / float(self.weight.sum()), 0.0)


def merge_equal(bins: Bins, levels: FloatArray) -> tuple[Bins, FloatArray]:
    """Make one bin of neighbours with the same level, fixed for any rows to come.

    They keep how many were asked for, or were there.
    """
    keep = np.concatenate(([True], levels[1:] != levels[:-1]))
    edges = np.append(bins.edges[:-1][keep], 1.0)
    return Bins(edges, "fixed", bins.rule, max(bins.requested or 0, len(bins))), levels[keep]


def binned_result(
    scores: Scores, lost: float, lost_before: float, flags: tuple[str, ...] = ()
) -> FitResult:
    """State the squared error after and before; coarse outputs may have the larger one."""
    one_class = ("one class",) if scores.event_rate in (0.0, 1.0) else ()
    return FitResult(True, 1, lost, lost_before, one_class + flags)


def ratio(total: FloatArray, weight: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return ``total / weight``, and another value where there is no weight."""
    return np.divide(total, weight, out=otherwise.copy(), where=weight > 0)
