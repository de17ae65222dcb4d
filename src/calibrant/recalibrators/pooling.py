"""Pooling: how far the repair of a group follows its own rows, and how far the rows of all groups.

**A map of its own.** Group g minimises the loss on its own rows plus k / n times the loss on all n
rows: the rows of all groups are a prior that is worth k rows (the power prior of Ibrahim, Chen,
2000). Near the pooled parameters t that is the penalised likelihood
``L_g(t') + (k / 2) (t' - t)' I (t' - t)`` with I the information of an average row, so directions
that few rows tell little of stay pooled, and a group of n_g rows gets the weight n_g / (n_g + k).
Nothing in it depends on what is fitted: any recalibrator of weighted rows can be pooled so.

**A shift of its own.** The pooled answers q keep their shape and only their log-odds are shifted,
``sigma(logit q + d_g)``, where d_g minimises the log loss plus ``(k / 2) v d^2`` with v the mean of
q (1 - q): the posterior mode of d_g if shifts are normal with variance 1 / (k v). That variance is
estimated by empirical Bayes. One number is learned from far fewer rows than a map.

**What** groups have of their own, and the k of maps, is decided by cross-validation: the log loss
of rows that neither the pooled repair nor that of their group has seen. Shifts must be better than
pooled answers there, and maps than what was taken of these, each by more than chance; so what is
chosen is never worse there than pooled answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from calibrant._logits import sigmoid
from calibrant._types import AnyArray, BoolArray, FloatArray, IntArray
from calibrant.columns import Columns
from calibrant.problem import Kind
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.class_rows import fold_of_rows, log_losses
from calibrant.recalibrators.foreign import as_recalibrator
from calibrant.recalibrators.formulas import CLIP, NUMPY, log_odds
from calibrant.recalibrators.multiclass import OneVsRest
from calibrant.recalibrators.scores import Scores

STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0, 30_000.0)
"""The k that are tried. The loss is flat around its minimum: steps of three are fine enough."""
FIRST_TRIED = STRENGTHS.index(100.0)
"""The middle, from which the walk downhill has the shortest way to either end."""
PRIOR_CELLS = 512
"""Cells of equal weight that stand for the scores of all rows: what a cell hides of them moves the
prior by far less than its own uncertainty."""
PRIOR_VALUES, FEWEST_PRIOR_ROWS = 1 << 20, 2_000
"""Values of all rows of several classes that a group is fitted with: more would cost time only."""
COMPARED_GROUPS = 100
"""Groups whose maps are compared where there are more: a hundred tell the strength of pooling to a
factor of two. Affects which repair is chosen, and the time that takes."""
CAUTION = {"shift": 1.0, "map": 2.0}
"""How many standard errors better than what is simpler each must be. The best of ten strengths of
maps looks better by one too often where groups are alike. Empirical Bayes pulls shifts to 0 there:
with 0.5 they cost 3% of the excess loss of alike groups, and gain 5% of 15 groups of 20 rows."""
FIRST_VARIANCE, LEAST_VARIANCE = 0.1, 1e-4
"""Of shifts, where EM starts and ends: below the least, shifts are invisible."""
LARGEST_SHIFT, MAX_ITERATIONS, STEP_TOLERANCE = 30.0, 60, 1e-10
"""Of a shift, in log-odds: bisection alone gets from 60 to 1e-10 in 40 steps, Newton in a few; a
probability that is shifted by 30 is 0 or 1."""


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Checked rows, with weights that add up to their effective number, and their groups.

    Attributes
    ----------
    probs, codes, weights : ndarray
    place : ndarray of int
        The number of each row's group; -1 for a row of none.
    n_groups : int
    """

    probs: AnyArray
    codes: IntArray
    weights: FloatArray
    place: IntArray
    n_groups: int

    @classmethod
    def of(cls, rows: Columns, place: IntArray, n_groups: int) -> GroupedRows:
        """Take columns, without the rows of weight zero."""
        weights, codes = rows.weights, rows.codes()
        if weights is None:
            return cls(rows.predictions, codes, np.ones(len(codes)), place, n_groups)
        weights = weights / weights.max()
        weights = weights * (weights.sum() / (weights**2).sum())
        return cls(rows.predictions, codes, weights, place, n_groups).take(weights > 0)

    def take(self, rows: IntArray | BoolArray) -> GroupedRows:
        """Return these rows."""
        probs, codes = self.probs[rows], self.codes[rows]
        return GroupedRows(probs, codes, self.weights[rows], self.place[rows], self.n_groups)


def rows_by_group(place: IntArray) -> Iterator[tuple[int, IntArray]]:
    """Yield the number and the rows of every group that has any."""
    order = np.argsort(place, kind="stable")
    order = order[int((place < 0).sum()) :]
    present, first = np.unique(place[order], return_index=True)
    if present.size:
        yield from zip(present.tolist(), np.split(order, first[1:]), strict=True)


@dataclass(frozen=True, eq=False)
class Pool:
    """The repair fitted on all rows, and what pulls those of the groups towards it."""

    recalibrator: Any
    classes: AnyArray
    rows: GroupedRows
    warns: bool = True

    @cached_property
    def pooled(self) -> Recalibrator:
        """The repair of all rows."""
        return self._fitted(self.rows, self.warns)

    def _fresh(self, warns: bool = False) -> Recalibrator:
        fresh = as_recalibrator(self.recalibrator)
        if isinstance(fresh, OneVsRest):
            fresh._warns = warns  # once, of the pooled repair; flags tell of the groups
        fresh.classes_, fresh.fingerprint_ = self.classes, None
        return fresh

    def _fitted(self, rows: GroupedRows, warns: bool = False) -> Recalibrator:
        """Return the repair of these rows alone."""
        fresh, even = self._fresh(warns), (rows.weights == 1).all()
        fresh._fit(rows.probs, rows.codes, None if even else rows.weights)
        return fresh

    @cached_property
    def _shifting(self) -> tuple[GroupedRows, FloatArray, float]:
        """The rows that are in a group, the log-odds of their pooled answers, and v."""
        q = self.pooled._apply(self.rows.probs)
        in_group, information = self.rows.place >= 0, q * (1 - q)
        mean = max(float(np.average(information, weights=self.rows.weights)), CLIP)
        return self.rows.take(in_group), log_odds(NUMPY, q[in_group]), mean

    def shifts(self, k: float) -> FloatArray:
        """Return the shift of each group's log-odds; at least one row's worth is pooled."""
        rows, odds, information = self._shifting
        return _shifts(odds, rows, max(k, 1.0) * information)

    def shift_strength(self) -> float:
        """Return k by empirical Bayes: the variance of shifts that explains their spread.

        EM with a normal approximation of each group's posterior: the variance becomes the mean of
        ``d^2`` plus the posterior variance of d.
        """
        rows, odds, information = self._shifting
        sizes = np.bincount(rows.place, minlength=rows.n_groups)
        variance = FIRST_VARIANCE
        for _ in range(MAX_ITERATIONS):
            shift = _shifts(odds, rows, 1 / variance)
            p = sigmoid(odds + shift[rows.place])
            precision = np.bincount(rows.place, rows.weights * p * (1 - p), rows.n_groups)
            spread = (shift**2 + 1 / (precision + 1 / variance))[sizes > 0]
            before, variance = variance, max(float(spread.mean()), LEAST_VARIANCE)
            if abs(variance - before) < 0.01 * before:
                break
        return max(1 / (variance * information), 1.0)

    def maps(self, k: float) -> list[Recalibrator]:
        """Return the repair of each group; one without rows has the pooled one."""
        out = [self.pooled] * self.rows.n_groups
        fit = self._map_of_scores if self.rows.probs.ndim == 1 else self._map
        for group, rows in rows_by_group(self.rows.place):
            members = self.rows.take(rows)
            out[group] = self._fitted(members) if k == 0 else fit(members, k)
        return out

    def _map_of_scores(self, rows: GroupedRows, k: float) -> Recalibrator:
        fresh, prior = self._fresh(), self._prior
        share, size = k / prior.total, float(rows.weights.sum())
        values = np.concatenate((rows.probs, prior.values))
        events = np.concatenate((rows.weights * (rows.codes == 1), share * prior.events))
        weights = np.concatenate((rows.weights, share * prior.weight))
        fresh._learn(Scores(values, events, weights, size + k))
        return fresh

    def _map(self, rows: GroupedRows, k: float) -> Recalibrator:
        fresh, prior = self._fresh(), self._prior_rows
        weights = prior.weights * (k / prior.weights.sum())
        pairs = (rows.probs, prior.probs), (rows.codes, prior.codes), (rows.weights, weights)
        fresh._fit(*(np.concatenate(pair) for pair in pairs))
        return fresh

    @cached_property
    def _prior(self) -> Scores:
        """The scores of all rows in few cells of neighbours, each at its mean."""
        rows = self.rows
        events, size = rows.weights * (rows.codes == 1), float(rows.weights.sum())
        scores = Scores(rows.probs.astype(np.float64), events, rows.weights, size).distinct()
        if scores.values.size <= PRIOR_CELLS:
            return scores
        weight = scores.weight
        # The cell of a score is where its own middle lies among all weight.
        middle = (np.cumsum(weight) - weight / 2) / weight.sum()
        cell = np.minimum((middle * PRIOR_CELLS).astype(np.intp), PRIOR_CELLS - 1)
        terms = (weight * scores.values, scores.events, weight)
        sums = [np.bincount(cell, term, PRIOR_CELLS).astype(np.float64) for term in terms]
        values, events, weights = (total[sums[2] > 0] for total in sums)
        return Scores(values / weights, events, weights, scores.size)

    @cached_property
    def _prior_rows(self) -> GroupedRows:
        n, width = self.rows.probs.shape
        most_rows = max(PRIOR_VALUES // width, FEWEST_PRIOR_ROWS)
        if n <= most_rows:
            return self.rows
        return self.rows.take(np.random.default_rng(0).permutation(n)[:most_rows])


def _shifts(odds: FloatArray, rows: GroupedRows, prior: float) -> FloatArray:
    """Return where each group's rising slope ``sum w (sigma(odds + d) - y) + prior d`` is 0."""
    place, y, w, n = rows.place, rows.codes == 1, rows.weights, rows.n_groups
    shift, low, high = np.zeros(n), np.full(n, -LARGEST_SHIFT), np.full(n, LARGEST_SHIFT)
    for _ in range(MAX_ITERATIONS):
        p = sigmoid(odds + shift[place])
        slope = np.bincount(place, w * (p - y), n) + prior * shift
        curvature = np.bincount(place, w * p * (1 - p), n) + prior
        low, high = np.where(slope < 0, shift, low), np.where(slope > 0, shift, high)
        trial = shift - slope / curvature
        trial = np.where((trial > low) & (trial < high), trial, (low + high) / 2)
        trial = np.where(slope == 0, shift, trial)
        done, shift = float(np.abs(trial - shift).max(initial=0.0)) < STEP_TOLERANCE, trial
        if done:
            break
    return shift


@dataclass(frozen=True, eq=False)
class Repair:
    """The pooled repair and what groups have of their own: shifts, maps, or nothing."""

    pooled: Recalibrator
    shifts: FloatArray | None = None
    maps: list[Recalibrator] | None = None

    def levels(self, group: int) -> FloatArray | None:
        """Return all outputs of a group, -1 for those of none; None if they are infinitely many."""
        part = self.pooled if group < 0 or self.maps is None else self.maps[group]
        outputs = part._all_levels()
        if outputs is None or group < 0 or self.shifts is None:
            return outputs
        return shifted(outputs, self.shifts[group])

    def answers(self, probs: AnyArray, place: IntArray, *, levels: bool = False) -> FloatArray:
        """Return the answer for each row; -1 for a row of no known group.

        With `levels`, without the breaking of ties.
        """
        apply = "_answers" if levels else "_apply"
        out = np.array(getattr(self.pooled, apply)(probs))
        if self.shifts is not None:
            in_group = place >= 0
            out[in_group] = shifted(out[in_group], self.shifts[place[in_group]])
        elif self.maps is not None:
            for group, rows in rows_by_group(place):
                out[rows] = getattr(self.maps[group], apply)(probs[rows])
        return out

    def certifiable(self, rows: Columns, kind: Kind | None, place: IntArray) -> Columns:
        """Return the rows with recalibrated predictions, as the problem that is certified."""
        out = self.pooled._certifiable(rows, kind)
        if self.shifts is not None:
            return replace(out, predictions=self.answers(rows.predictions, place, levels=True))
        if self.maps is not None:
            for group, members in rows_by_group(place):
                part = self.maps[group]._certifiable(rows.take(members), kind)
                out.predictions[members] = part.predictions
        return out


def shifted(answers: FloatArray, shift: FloatArray | float) -> FloatArray:
    """Return probabilities with log-odds that are shifted."""
    return np.asarray(sigmoid(log_odds(NUMPY, answers) + shift))


@dataclass(frozen=True)
class Choice:
    """What groups have of their own, how much is pooled, and the cross-validated log losses."""

    own: str
    k: float
    loss: float | None = None
    loss_pooled: float | None = None


def chosen(pool: Pool, own: str, k: float | None, cv: int) -> Choice:
    """Choose what groups have of their own and how many rows the pool is worth, if left open."""
    kinds = [own]
    if own == "auto":
        kinds = ["shift", "map"] if pool.rows.probs.ndim == 1 else ["map"]
    if k is not None and len(kinds) == 1:
        return Choice(kinds[0], k)
    cv = min(cv, len(pool.rows.codes))
    if cv < 2:  # of one row nothing is learned
        return Choice("nothing", np.inf)
    folds = _folds(pool, cv)
    weights = np.concatenate([rows.weights for _, rows in folds])
    pooled = _losses(folds, "nothing", 0.0)
    tried = [Candidate("nothing", np.inf, pooled)]
    for kind in kinds:
        # Maps are fitted one by one, so not for all of many groups; the others stay as they are.
        compared_folds = _few_groups(folds) if kind == "map" else folds
        compared = np.concatenate([rows.place for _, rows in compared_folds]) >= 0
        losses = cache(partial(_losses, compared_folds, kind))
        if k is not None:
            strength = k
        else:
            strength = pool.shift_strength() if kind == "shift" else _lowest(losses, weights)
        combined = np.where(compared, losses(strength), tried[-1].losses)
        tried.append(Candidate(kind, strength, combined))
    best = worth_it(tried[1:] if k is not None else tried, weights)
    return Choice(
        best.own,
        best.k,
        float(np.average(best.losses, weights=weights)),
        float(np.average(pooled, weights=weights)),
    )


@dataclass(frozen=True, eq=False)
class Candidate:
    """A way to repair groups, with the log loss of every row that was held out."""

    own: str
    k: float
    losses: FloatArray


def worth_it(tried: list[Candidate], weights: FloatArray) -> Candidate:
    """Return the last that is better than the one taken before it, by more than chance."""
    taken = tried[0]
    for candidate in tried[1:]:
        gain = taken.losses - candidate.losses
        mean = float(np.average(gain, weights=weights))
        error = float(np.sqrt((((gain - mean) * weights) ** 2).sum())) / float(weights.sum())
        if mean > CAUTION[candidate.own] * error:
            taken = candidate
    return taken


def repair_of(pool: Pool, own: str, k: float) -> Repair:
    """Fit the repairs that groups have of their own."""
    if own == "shift":
        return Repair(pool.pooled, shifts=pool.shifts(k))
    return Repair(pool.pooled, maps=pool.maps(k)) if own == "map" else Repair(pool.pooled)


def _folds(pool: Pool, cv: int) -> list[tuple[Pool, GroupedRows]]:
    """Return the pools to fit and the rows held out; groups are spread evenly over folds.

    Labels are not: folds with the event rate of each whole group would let the noise of that rate
    look like a difference between groups, and the least pooling win.
    """
    rows = pool.rows
    fold = fold_of_rows(rows.place, cv, np.random.default_rng(0))
    parts = [(rows.take(fold != i), rows.take(fold == i)) for i in range(cv)]
    return [(replace(pool, rows=fitted, warns=False), held) for fitted, held in parts]


def _few_groups(folds: list[tuple[Pool, GroupedRows]]) -> list[tuple[Pool, GroupedRows]]:
    """Return the folds with at most `COMPARED_GROUPS` groups; all other rows are in none."""
    n = folds[0][1].n_groups
    if n <= COMPARED_GROUPS:
        return folds
    compared = np.random.default_rng(0).permutation(n) < COMPARED_GROUPS

    def restricted(rows: GroupedRows) -> GroupedRows:
        return replace(rows, place=np.where(compared[rows.place], rows.place, -1))

    return [(replace(pool, rows=restricted(pool.rows)), restricted(rows)) for pool, rows in folds]


def _losses(folds: list[tuple[Pool, GroupedRows]], own: str, k: float) -> FloatArray:
    """Return the log loss of every row by a repair that was fitted without it."""
    lost = []
    for pool, held in folds:
        out = repair_of(pool, own, k).answers(held.probs, held.place)
        lost.append(log_losses(out, held.codes))
    return np.concatenate(lost)


def _lowest(losses: Callable[[float], FloatArray], weights: FloatArray) -> float:
    """Walk downhill from the middle: the loss falls and rises once in the strength."""
    current = FIRST_TRIED
    while True:
        near = (current, min(current + 1, len(STRENGTHS) - 1), max(current - 1, 0))
        best = min(near, key=lambda place: float(weights @ losses(STRENGTHS[place])))
        if best == current:
            return STRENGTHS[current]
        current = best
