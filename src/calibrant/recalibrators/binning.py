"""Binned recalibrators: finitely many outputs, so that their error can be certified."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from calibrant._types import AnyArray, FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, EqualWidth, Hybrid
from calibrant.exceptions import InvalidInputError
from calibrant.recalibrators.base import check_choice
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.losses import identity_loss
from calibrant.recalibrators.newton import FitReport
from calibrant.recalibrators.scores import Scores
from calibrant.stats import histogram_binning_bound

Rule: TypeAlias = Literal["auto", "mass", "hybrid", "width"]
NBins: TypeAlias = int | Literal["auto"]

TIE_SHARE = 1e-9


class BinnedRecalibrator(BinaryRecalibrator):
    """Base of recalibrators with one output for each bin.

    Attributes
    ----------
    bins_ : Bins
        The bins, fixed for any rows to come; neighbours with the same output are one bin.
    levels_ : ndarray
        The output of each bin.
    effective_n_bins_ : int
        How many different outputs there are; ties can make them fewer than asked.
    """

    bins_: Bins
    levels_: FloatArray
    n_bins: NBins
    bins: Rule
    keep_order: bool = False
    _balance: float = Hybrid().balance

    @property
    def effective_n_bins_(self) -> int:
        """The number of different outputs."""
        return int(np.unique(self.levels_).size)

    def _place(self, probs: AnyArray) -> tuple[IntArray, FloatArray]:
        """Return the bin of each prediction, and the score that was binned."""
        scores = probs.astype(np.float64)
        return self.bins_.index(scores), scores

    def _all_levels(self) -> FloatArray:
        return self.levels_

    def _apply(self, probs: AnyArray) -> FloatArray:
        index, scores = self._place(probs)
        levels = self.levels_[index]
        if not self.keep_order:
            return levels
        low, high = self.bins_.edges[index], self.bins_.edges[index + 1]
        share = np.clip((scores - low) / (high - low), 0.0, 1.0)
        return np.asarray(levels + self._tie_height() * (share - levels))

    def _tie_height(self) -> float:
        """How far outputs of one bin may differ: invisible beside the gaps between levels."""
        gaps = np.diff(np.unique(self.levels_))
        return TIE_SHARE * float(gaps.min()) if gaps.size else TIE_SHARE

    def _answers(self, probs: AnyArray) -> FloatArray:
        return np.asarray(self.levels_[self._place(probs)[0]])

    def _choose_bins(self, scores: Scores, n_bins: int) -> Bins:
        """Let the rule choose bins for distinct scores."""
        if self.bins == "width":
            return EqualWidth(n_bins).bins
        hybrid = self.bins == "hybrid"
        rule: BinRule = Hybrid(n_bins, self._balance) if hybrid else EqualMass(n_bins)
        return rule.choose(scores.values, scores.weight)

    def _set_levels(self, bins: Bins, levels: FloatArray) -> None:
        keep = np.concatenate(([True], levels[1:] != levels[:-1]))
        edges = np.append(bins.edges[:-1][keep], 1.0)
        self.bins_ = Bins(edges, "fixed", bins.rule, bins.requested)
        self.levels_ = levels[keep]

    def _check_parameters(self) -> None:
        check_choice("bins", self.bins, ("auto", "mass", "hybrid", "width"))
        check_choice("keep_order", self.keep_order, (False, True))
        if not (isinstance(self.n_bins, str) and self.n_bins == "auto"):
            EqualWidth(self.n_bins)

    def _check_learned(self) -> None:
        if len(self.bins_) != self.levels_.size:
            raise ValueError(
                f"{len(self.bins_)} bins need as many levels; there are {self.levels_.size}"
            )


class HistogramBinning(BinnedRecalibrator):
    """Answer with the mean label of the bin that a prediction falls in.

    A bin without rows, which only equal-width bins can have, answers with its midpoint.

    Parameters
    ----------
    n_bins : int or "auto"
        "auto" is ``(n / (6 v))^(1/3)`` with v the mean of p (1 - p), which balances the noise
        of a bin against its width, and at least ten rows a bin.
    bins : {"auto", "mass", "hybrid", "width"}
        Uniform mass; least spread within bins of at least a third of that mass; equal width.
        "auto" is uniform mass, and hybrid in `OneVsRest`.
    keep_order : bool
        Break ties inside a bin by less than 1e-9 of the smallest gap between outputs.

    References
    ----------
    Zadrozny, Elkan (2001); section 2.3 of Kumar, Liang, Ma (2019).

    Examples
    --------
    >>> binned = HistogramBinning(n_bins=2).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 0])
    >>> binned.levels_, binned.bins_.edges
    (array([0. , 0.5]), array([0. , 0.4, 1. ]))
    """

    _learned: ClassVar[dict[str, str]] = {"bins_": "bins", "levels_": "probabilities"}

    def __init__(
        self, n_bins: NBins = "auto", bins: Rule = "auto", keep_order: bool = False
    ) -> None:
        self.n_bins = n_bins
        self.bins = bins
        self.keep_order = keep_order

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
        n_bins = max(self.bins_.requested or 0, self.levels_.size)
        return histogram_binning_bound(
            self.fingerprint_.n, n_bins, confidence_level=confidence_level
        )

    def _learn(self, scores: Scores) -> None:
        flags = () if scores.weights is None else ("weighted",)
        scores = scores.distinct()
        bins = self._choose_bins(scores, self._number(scores))
        index = bins.index(scores.values)
        weight, events = bin_sums(index, len(bins), scores.weight, scores.events)
        middle = (bins.edges[:-1] + bins.edges[1:]) / 2
        self._set_levels(bins, np.clip(ratio(events, weight, middle), 0.0, 1.0))
        report = binned_report(scores, self.levels_[self.bins_.index(scores.values)])
        self.fit_result_ = replace(report, flags=report.flags + flags)

    def _number(self, scores: Scores) -> int:
        if not (isinstance(self.n_bins, str) and self.n_bins == "auto"):
            return self.n_bins
        p = scores.values
        spread = max(float((scores.weight * p * (1 - p)).sum()) / scores.total, 0.02)
        wanted = round((scores.size / (6 * spread)) ** (1 / 3))
        return int(max(1, min(max(2, wanted), scores.size // 10)))


def binned_report(scores: Scores, outputs: FloatArray) -> FitReport:
    """Report the squared error before and after; coarse outputs may have the larger one."""
    flags = ("one class",) if scores.event_rate in (0.0, 1.0) else ()
    loss = identity_loss(scores.replace_values(outputs), "squared")
    before = scores.values.min() >= 0 and scores.values.max() <= 1
    identity = identity_loss(scores, "squared") if before else float("nan")
    return FitReport(True, 1, loss, identity, flags)


def bin_sums(index: IntArray, n_bins: int, *terms: FloatArray) -> list[FloatArray]:
    """Return the sum of each term in every bin."""
    return [np.bincount(index, term, n_bins).astype(np.float64) for term in terms]


def ratio(total: FloatArray, weight: FloatArray, otherwise: FloatArray) -> FloatArray:
    """Return ``total / weight``, and another value where there is no weight."""
    return np.divide(total, weight, out=otherwise.copy(), where=weight > 0)
