"""Exact tails of a sum over bins, at the worst event rates: what the sharpest bounds rest on.

Let D = sum d_j(K_j) with whole numbers d_j >= 0, where K_j ~ Bin(N_j, pi_j) are independent given
the counts N_j, and let p be a penalty on a bin's error e_j = pi_j - s_j. Define, bin after bin,

    W_0(c) = 1 if c >= 0, else 0,
    W_j(c) = max over pi of  exp(N_j p(pi - s_j)) E_pi W_{j-1}(c - d_j(K)),  K ~ Bin(N_j, pi).

Unrolled at the true rates, P(D <= c | N) <= W_B(c) exp(-sum N_j p(e_j)), whatever these are. The
right tail P(D >= c | N) has the same recursion, begun with W_0(c) = 1 if c <= 0, else 0.

Nothing here may be too small, so every maximum is bounded from above:

* In the log-odds w of pi, E_pi W = M(w) / (1 + e^w)^N with log M convex, so that between two nodes
  log M lies below its chord. What is left, R(w) = N p - N log(1 + e^w), exceeds its own chord by at
  most (width)^2 / 8 times a bound of -R''. The sum is a line plus a parabola: its top is known.
* For right tails W_{j-1}(c - d(K)) falls, then grows with K, and so does its mean with pi: the
  binomial law is totally positive. So between two nodes it is at most the larger of both, which is
  closer than the chord where nodes are far apart.
* -R'' / (N v) = 1 - p'' v - p' (1 - 2 pi), with v = pi (1 - pi).
* M grows with w, so that below the first node E_pi W is at most (1 + e^w)^N times what it is there;
  likewise, with labels swapped, beyond the last. Nor does it exceed the largest W_{j-1}(c - d):
  for right tails that is what it is next to, once nearly all samples have d > c.
* Bins of many rows count events in blocks (`calibrant.stats.binomial_laws`).
* Where no error exceeds a reach, the interval that it cuts has the penalty of the reach throughout,
  or that of its chord beyond the reach, whichever is lower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.stats.binomial_laws import Blocks, Scale, outside, probability_of_blocks
from calibrant.stats.tail_loops import TINY, add_blocks, highest, tail_step

Side: TypeAlias = Literal["left", "right"]

# These trade tightness for time; none of them affects validity.
_LOSS = 0.03  # of log W, over all bins, by chords between nodes
_WIDEST_STEP = 0.15  # between nodes near s, in standard deviations of K
_COARSE_STEP = 0.3  # for a first, quick look
_INSIDE = 1e-9  # the share of samples that right tails need not tell apart


@dataclass(frozen=True)
class Penalty:
    """p(e) = q |e|^power, or -log(1 - q |e|^power) if bent; q < 0 for right tails.

    Bent penalties suit the population: the mean over multinomial counts of
    prod (1 - q |e_j|^power)^N_j is (1 - q t^power)^n, whatever the masses.

    Attributes
    ----------
    reach : float
        No error is larger.
    """

    power: int
    q: float
    bent: bool
    reach: float = 1.0

    @property
    def is_finite(self) -> bool:
        """Whether all errors within reach have a penalty."""
        return not self.bent or self.q * self.reach**self.power < 1

    def __call__(self, e: FloatArray) -> FloatArray:
        """Return the penalty of errors, per row; that of the reach beyond it."""
        u = self.q * np.minimum(np.abs(e), self.reach) ** self.power
        return np.asarray(-np.log1p(-u) if self.bent else u)

    def inverse(self, penalty: float) -> float:
        """Return the error of this penalty: 0 where it has the other sign than q."""
        u = -math.expm1(-penalty) if self.bent else penalty
        return float(max(u / self.q, 0.0) ** (1 / self.power))

    def steepest(self, e: FloatArray) -> FloatArray:
        """Return a bound of |p'| for errors up to e, within reach."""
        e = np.minimum(e, self.reach)
        slope = self.power * abs(self.q) * e ** (self.power - 1)
        return np.asarray(
            slope / (1 - self.q * e**self.power) if self.bent and self.q > 0 else slope
        )

    @property
    def least_bend(self) -> float:
        """A lower bound of p''."""
        return 2 * self.q if self.power == 2 else 0.0


@dataclass(frozen=True, eq=False)
class Tail:
    """The laws of every bin's statistic at every node; they serve any penalty.

    Examples
    --------
    P(abs(K - 5) >= c) for ten rows, at the worst rate if errors are penalised:

    >>> tail = Tail.of([Scale.absolute(10, 0.5, 1.0)], 4, "right")
    >>> np.exp(tail.log_bounds(Penalty(1, -1.0, False))).round(2)
    array([1.  , 0.75, 0.34, 0.11, 0.02])
    """

    laws: list[_Law]
    side: Side
    n_cells: int

    @classmethod
    def of(
        cls,
        scales: Sequence[Scale],
        most: int,
        side: Side,
        coarse: bool = False,
        blocks: Blocks | None = None,
    ) -> Tail:
        """Prepare the bounds of W_B(c) for c = 0 .. most; coarse ones are larger, and quick.

        `blocks` keeps what another tail of the same bins, in other units, can use again.
        """
        fine = min(_WIDEST_STEP, math.sqrt(8 * _LOSS / max(len(scales), 1)))
        step = _COARSE_STEP if coarse else fine
        blocks = Blocks() if blocks is None else blocks
        return cls([_Law.of(scale, most, side, step, blocks) for scale in scales], side, most + 1)

    def log_bounds(self, penalty: Penalty, reach: FloatArray | float = 1.0) -> FloatArray:
        """Return upper bounds of log W_B(c) for c = 0 .. most; no error exceeds the reach."""
        possible = np.array([max(law.s, 1 - law.s) for law in self.laws])
        reaches = np.minimum(possible, reach)
        if not replace(penalty, reach=float(reaches.max(initial=0.0))).is_finite:
            return np.full(self.n_cells, np.inf)
        w, log_scale = np.ones(self.n_cells), 0.0
        if self.side == "right":
            w[1:] = 0.0
        for law, limit in zip(self.laws, reaches, strict=True):
            log_w = law.step(w, replace(penalty, reach=float(limit)), self.side)
            top = float(log_w.max())
            w, log_scale = np.exp(log_w - top), log_scale + top
        return np.log(np.maximum(w, TINY)) + log_scale


def calibrated_tail(scales: Sequence[Scale], least: int) -> float:
    """Return P(D >= least) where all bins are calibrated: no worst right tail lies below it.

    Examples
    --------
    P(abs(K - 5) >= 3) for ten rows:

    >>> round(calibrated_tail([Scale.absolute(10, 0.5, 1.0)], 3), 4)
    0.1094
    """
    below = np.zeros(max(least, 1))
    below[0] = 1.0
    for scale in scales:
        start = scale.starts(min(least, scale.ceiling) - 1)
        law = np.bincount(scale.of(start), probability_of_blocks(start, scale), below.size)
        if scale.ceiling < least:
            law[scale.ceiling] = 1 - law.sum()
        below = np.convolve(below, law)[: below.size]
    return 1 - float(below[:least].sum())


@dataclass(frozen=True, eq=False)
class _Law:
    """The law of one bin's d at nodes w: P(d = i) = exp(log_scale) share[i], for i <= most.

    `beyond` is the probability of more (used for right tails, whose log_scale is 0).
    """

    size: int
    s: float
    w: FloatArray
    share: FloatArray
    log_scale: FloatArray
    beyond: FloatArray

    @classmethod
    def of(cls, scale: Scale, most: int, side: Side, step: float, blocks: Blocks) -> _Law:
        n = scale.size
        start = scale.starts(min(most, scale.ceiling - 1))
        cell = scale.of(start)
        w, weight, scales = blocks.of(scale, start, step)
        share, log_scale = np.zeros((most + 1, w.size)), np.zeros(w.size)
        beyond = np.ones(w.size)
        if start.size:
            if side == "right":
                beyond = outside(start[0], min(start[-1] + scale.block - 1, n), n, w)
                inside = np.flatnonzero(beyond < 1 - _INSIDE)
                if scale.ceiling > most and inside.size:
                    # of nodes at either end with nearly all samples beyond, one is enough: there
                    # the largest W_{j-1} tells as much, with the penalty of the neighbour
                    near = slice(max(inside[0] - 1, 0), inside[-1] + 2)
                    w, weight, scales, beyond = w[near], weight[:, near], scales[near], beyond[near]
            share, log_scale = add_blocks(weight, cell, most + 1), scales
        if side == "right":  # the tail beyond is at least as likely as the part inside
            share, log_scale = share * np.exp(log_scale), np.zeros(w.size)
            if scale.ceiling <= most:
                share[scale.ceiling] += beyond
                beyond = np.zeros(w.size)
        return cls(n, scale.s, w, share, log_scale, beyond)

    def step(self, before: FloatArray, penalty: Penalty, side: Side) -> FloatArray:
        """Return log W_j(c) for all c, from W_{j-1}."""
        # rounding: of the log probabilities, which are differences of numbers of the size of N
        margin = 1e-9 + 4e-15 * self.size
        left, right, bulge, cut = self._chords(penalty)
        cap = None
        if side == "right":  # penalised: the gain is largest where the error is least
            cap = self.size * penalty(self._pairs.nearest)
        log_mean, tops = tail_step(
            before,
            self.share,
            self._above if side == "right" else None,
            self.log_scale,
            (left, right, bulge, cap),
            self._rows,
            np.concatenate([[0, self.w.size - 1], cut, cut + 1]),
        )
        if cut.size:
            tops = np.maximum(tops, self._highest_of_cut(log_mean[:, 2:], cut, penalty))
        log_most = np.log(np.maximum(before, TINY))
        if side == "right":
            log_most[:] = log_most[0]
        ends = self._ends(log_most, log_mean[:, :2], penalty)
        return np.maximum(tops, ends) + margin

    @cached_property
    def _rows(self) -> IntArray:
        return np.flatnonzero(self.share.any(axis=1))

    @cached_property
    def _above(self) -> FloatArray:
        """P(d > c) at each node."""
        return np.cumsum(self.share[::-1], axis=0)[::-1] - self.share + self.beyond

    @cached_property
    def _pairs(self) -> _Pairs:
        return _Pairs.of(special.expit(self.w), self.w, self.s, self.size)

    def _chords(self, penalty: Penalty) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Return the penalty at neighbouring nodes, its bulges, and the pairs that the reach cuts.

        Pairs beyond the reach, and those that it cuts, have a bulge below 0.
        """
        pairs = self._pairs
        gain, bulge = self.size * penalty(pairs.e), pairs.bulge(penalty)
        inside = pairs.e <= penalty.reach
        both_out = ~inside[:-1] & ~inside[1:]
        cut = (inside[:-1] != inside[1:]) | (both_out & pairs.hold_s)
        bulge[both_out | cut] = -1.0
        return gain[:-1], gain[1:], bulge, np.flatnonzero(cut)

    def _highest_of_cut(self, log_mean: FloatArray, cut: IntArray, penalty: Penalty) -> FloatArray:
        """Return the highest between neighbours that the reach lies between."""
        pairs = self._pairs
        most = self.size * float(penalty(np.array(penalty.reach)))
        before, after = np.hsplit(log_mean, 2)
        tops = highest(before + most, after + most, pairs.curvature[cut])
        # where nodes are far apart, the chord to the outer one, with the penalty there, is lower
        beyond = replace(penalty, reach=float(pairs.farthest[cut].max()))
        if beyond.is_finite:
            gain, bulge = self.size * beyond(pairs.e), pairs.bulge(beyond)
            chord = highest(before + gain[cut], after + gain[cut + 1], bulge[cut])
            tops = np.minimum(tops, chord)
        return np.asarray(tops.max(axis=1))

    def _ends(self, log_most: FloatArray, log_mean: FloatArray, penalty: Penalty) -> FloatArray:
        """Return the bound for pi from 0 and 1 to the outermost nodes, with these means there.

        `log_most` is the largest log W_{j-1}(c - d) of all d.
        """
        bound = np.full(log_most.size, -np.inf)
        for edge, w, at_node in zip((0.0, 1.0), self.w[[0, -1]], log_mean.T, strict=True):
            node = float(special.expit(w))
            nearest = min(max(self.s, min(node, edge)), max(node, edge))
            if abs(nearest - self.s) > penalty.reach:
                continue
            room = self.size * float(np.logaddexp(0.0, w if edge == 0 else -w))
            gain = self.size * float(penalty(np.array([node, edge, nearest]) - self.s).max())
            np.maximum(bound, np.minimum(at_node + room, log_most) + gain, out=bound)
        return bound


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Nodes, and what the penalty's chord between neighbours depends on."""

    e: FloatArray  # the distance of every node from s; all others are between neighbours
    nearest: FloatArray  # the least distance
    farthest: FloatArray  # the largest
    turn: FloatArray  # the largest abs(1 - 2 pi)
    least: FloatArray  # bounds of pi (1 - pi)
    most: FloatArray
    curvature: FloatArray  # how far -N log(1 + e^w) exceeds its chord, at most
    hold_s: BoolArray  # whether s lies there

    @classmethod
    def of(cls, pi: FloatArray, w: FloatArray, s: float, size: int) -> _Pairs:
        v, e, turn = pi * (1 - pi), np.abs(pi - s), np.abs(1 - 2 * pi)
        left, right = pi[:-1], pi[1:]
        most = np.where((left < 0.5) & (right > 0.5), 0.25, np.maximum(v[:-1], v[1:]))
        hold_s = (left < s) & (right > s)
        return cls(
            e=e,
            nearest=np.where(hold_s, 0.0, np.minimum(e[:-1], e[1:])),
            farthest=np.maximum(e[:-1], e[1:]),
            turn=np.maximum(turn[:-1], turn[1:]),
            least=np.minimum(v[:-1], v[1:]),
            most=most,
            curvature=np.diff(w) ** 2 / 8 * size * most,
            hold_s=hold_s,
        )

    def bulge(self, penalty: Penalty) -> FloatArray:
        """Return how far R exceeds its chord between neighbouring nodes, at most."""
        bend = penalty.least_bend * (self.least if penalty.least_bend > 0 else self.most)
        turn = penalty.steepest(self.farthest) * self.turn
        return np.asarray(self.curvature * np.maximum(1 - bend + turn, 0.0))
