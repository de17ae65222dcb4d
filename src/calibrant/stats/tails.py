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
* -R'' / (N v) = 1 - p'' v - p' (1 - 2 pi), with v = pi (1 - pi).
* For pi from 0 to a node below 1 / N, samples whose labels do not all agree are at most as likely
  as at that node: each pi^k (1 - pi)^(N - k) with k > 0 grows with pi. So it is next to 1.
* Bins of many rows count events in blocks. The law at a node is the law at s times exp(linear),
  which lies below its chord inside a block; what is lost is of second order in the block's length.
* Where no error exceeds a reach, the interval that it cuts has the penalty of the reach throughout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from scipy import special

from calibrant._types import BoolArray, FloatArray, IntArray

Side: TypeAlias = Literal["left", "right"]

# These trade tightness for time; none of them affects validity.
_LOSS = 0.03  # of log W, over all bins, by chords between nodes
_WIDEST_STEP = 0.15  # between nodes near s, in standard deviations of K
_COARSE_STEP = 0.5  # for a first, quick look
_NEAR, _FAR = 3.0, 60.0  # how far nodes are that dense, and how far worst cases are found
_GROWTH, _FAST_GROWTH = 1.1, 1.2  # of the distance between nodes beyond _NEAR, and beyond _FAR
_SPREAD = 1.5  # ratio of neighbouring angles next to pi = 0 and 1
_OUTER = 10  # nodes at growing log-odds next to 0, and to 1
_BLOCKS = 32  # blocks of events in a standard deviation
_AGREE = 1e-13  # the share of samples in which labels disagree at the outermost nodes
_ROWS, _PRODUCT = 64, 200_000  # of a matrix product that no BLAS library shares out to threads
_MOST_KEPT = 1 << 24  # numbers, 128 MB, of laws that are kept for tests in other units
_TINY = 1e-300  # stands for 0 in logarithms: larger, hence allowed


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
class Scale:
    """The statistic of a bin: events to whole numbers, fixed before labels are seen.

    d(K) is (K - centre)^2 times `factor` (power 2), or |K - centre| times it (power 1), rounded,
    where the middle of the block of `block` numbers that K lies in stands for K; and at most
    `ceiling`.
    """

    size: int
    s: float
    power: int
    centre: float
    factor: float
    block: int
    ceiling: int = 2**50

    @classmethod
    def squared(cls, size: int, s: float, unit: float, eta: float) -> Scale:
        """Return N (x - s)^2 - eta N x (1 - x) / (N - 1), less its minimum, in units.

        With x = K / N this is (1 + b) (K - m)^2 / N and a constant, for b = eta / (N - 1) and
        m = N (s + b / 2) / (1 + b).
        """
        b = eta / (size - 1) if size > 1 else 0.0
        centre = size * (s + b / 2) / (1 + b)
        return cls(size, s, 2, centre, (1 + b) / (size * unit), _block(size, s))

    @classmethod
    def absolute(cls, size: int, s: float, unit: float, widest: float = math.inf) -> Scale:
        """Return |K - N s| in units, but no more than `widest` standard deviations of K.

        A ceiling keeps right tails quick where bins are many, and costs nothing unless a single
        bin is that far off. Left tails must have none: there it would reward large errors.
        """
        ceiling = widest * (math.sqrt(size * s * (1 - s)) + 1) / unit
        ceiling = math.ceil(min(ceiling, 2.0**50))
        return cls(size, s, 1, size * s, 1 / unit, _block(size, s), ceiling)

    def of(self, events: FloatArray) -> IntArray:
        """Return d of these numbers of events."""
        first = np.floor(events / self.block) * self.block
        middle = first + (np.minimum(self.block, self.size - first + 1) - 1) / 2
        away = self.factor * np.abs(middle - self.centre) ** self.power
        return np.asarray(np.rint(np.minimum(away, self.ceiling)), np.int64)

    def extent(self, most: int) -> float:
        """Return a distance from the centre beyond which d exceeds `most`."""
        return float(((most + 1) / self.factor) ** (1 / self.power)) + self.block


def _block(size: int, s: float) -> int:
    return max(1, int(math.sqrt(size * s * (1 - s)) / _BLOCKS))


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

        Parameters
        ----------
        blocks : Blocks, optional
            Keeps what another tail of the same bins, in other units, can use again.
        """
        fine = min(_WIDEST_STEP, math.sqrt(8 * _LOSS / max(len(scales), 1)))
        step = _COARSE_STEP if coarse else fine
        blocks = Blocks() if blocks is None else blocks
        return cls([_Law.of(scale, most, side, step, blocks) for scale in scales], side, most + 1)

    def log_bounds(self, penalty: Penalty, reach: FloatArray | float = 1.0) -> FloatArray:
        """Return upper bounds of log W_B(c) for c = 0 .. most.

        Parameters
        ----------
        penalty : Penalty
            Of all bins.
        reach : ndarray or float
            What no error of a bin exceeds.
        """
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
        return np.log(np.maximum(w, _TINY)) + log_scale


@dataclass(frozen=True, eq=False)
class _Law:
    """The law of one bin's d at nodes w: P(d = i) = exp(log_scale) share[i], for i <= most.

    `beyond` is the probability of more (used for right tails, whose log_scale is 0), `first` and
    `last` are d of no and of only events.
    """

    size: int
    s: float
    w: FloatArray
    share: FloatArray
    log_scale: FloatArray
    beyond: FloatArray
    first: int
    last: int

    @classmethod
    def of(cls, scale: Scale, most: int, side: Side, step: float, blocks: Blocks) -> _Law:
        n = scale.size
        inner = min(most, scale.ceiling - 1)
        extent = scale.extent(inner)
        low = max(0, math.floor(scale.centre - extent) // scale.block * scale.block)
        high = min(n, math.ceil(scale.centre + extent))
        start = np.arange(low, high + 1, scale.block, dtype=np.float64)
        cell = scale.of(start)
        kept = cell <= inner
        ends = scale.of(np.array([0.0, n]))
        start, cell = start[kept], cell[kept]
        w, weight, scales = blocks.of(scale, start, step)
        share, log_scale = np.zeros((most + 1, w.size)), np.zeros(w.size)
        beyond = np.ones(w.size)
        if start.size:
            log_scale = scales
            # d falls, then grows along the events: runs of one value are contiguous
            runs = np.flatnonzero(np.diff(cell, prepend=-1))
            sums, lowest = np.add.reduceat(weight, runs, axis=0), int(cell[runs].argmin())
            for half in (slice(0, lowest), slice(lowest, None)):
                share[cell[runs[half]]] += sums[half]
            if side == "right":
                beyond = _outside(start[0], min(start[-1] + scale.block - 1, n), n, w)
        if side == "right":  # what lies beyond is no less likely than what lies inside
            share, log_scale = share * np.exp(log_scale), np.zeros(w.size)
            if scale.ceiling <= most:
                share[scale.ceiling] += beyond
                beyond = np.zeros(w.size)
        return cls(n, scale.s, w, share, log_scale, beyond, int(ends[0]), int(ends[1]))

    def step(self, before: FloatArray, penalty: Penalty, side: Side) -> FloatArray:
        """Return log W_j(c) for all c, from W_{j-1}."""
        # rounding: of the log probabilities, which are differences of numbers of the size of N
        margin = 1e-9 + 4e-15 * self.size
        mean = _convolved(before, self.share)
        if side == "right":
            mean += before[0] * self._above  # below 0, W_{j-1} is W_{j-1}(0)
        np.maximum(mean, _TINY, out=mean)
        log_mean = np.log(mean, out=mean)
        log_mean += self.log_scale
        inner = self._between(log_mean, penalty)
        ends = self._ends(before, log_mean[:, [0, -1]], penalty, side)
        return np.maximum(inner, ends) + margin

    @cached_property
    def _above(self) -> FloatArray:
        """P(d > c) at each node."""
        return np.cumsum(self.share[::-1], axis=0)[::-1] - self.share + self.beyond

    @cached_property
    def _pairs(self) -> _Pairs:
        return _Pairs.of(special.expit(self.w), self.w, self.s, self.size)

    def _between(self, log_mean: FloatArray, penalty: Penalty) -> FloatArray:
        """Return the highest between neighbouring nodes of which one at least is within reach."""
        pairs = self._pairs
        gain = self.size * penalty(pairs.e)
        left, right, bulge = gain[:-1], gain[1:], pairs.bulge(penalty)
        inside = pairs.e <= penalty.reach
        if not inside.all():
            both_out = ~inside[:-1] & ~inside[1:]
            over = both_out & pairs.hold_s
            cut = (inside[:-1] != inside[1:]) | over
            most = self.size * float(penalty(np.array(penalty.reach)))
            left, right = np.where(cut, most, left), np.where(cut, most, right)
            bulge = np.where(cut, pairs.curvature, bulge)
            first, last = np.flatnonzero(~both_out | over)[[0, -1]]
            keep = slice(first, last + 1)
            left, right, bulge = left[keep], right[keep], bulge[keep]
            log_mean = log_mean[:, first : last + 2]
        return _highest(log_mean[:, :-1] + left, log_mean[:, 1:] + right, bulge)

    def _ends(
        self, before: FloatArray, log_mean: FloatArray, penalty: Penalty, side: Side
    ) -> FloatArray:
        """Return the bound for pi from 0 and 1 to the outermost nodes, with these means there."""
        bound = np.full(before.size, -np.inf)
        for edge, cell, node, at_node in zip(
            (0.0, 1.0),
            (self.first, self.last),
            special.expit(self.w[[0, -1]]),
            log_mean.T,
            strict=True,
        ):
            nearest = min(max(self.s, min(node, edge)), max(node, edge))
            if abs(nearest - self.s) > penalty.reach:
                continue
            agree = np.zeros(before.size)
            if cell < before.size:
                agree[cell:] = before[: before.size - cell]
            if side == "right":
                agree[:cell] = before[0]
            # W_{j-1}(c - d) is at most W_{j-1}(c), or W_{j-1}(0) for the right tail
            share = self.size * special.expit(-abs(self.w[0 if edge == 0 else -1]))
            most = before if side == "left" else np.full(before.size, before[0])
            others = np.minimum(at_node, np.log(np.maximum(share * most, _TINY)))
            gain = self.size * float(penalty(np.array([node, edge, nearest]) - self.s).max())
            with np.errstate(divide="ignore"):
                bound = np.maximum(bound, np.logaddexp(np.log(agree), others) + gain)
        return bound


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Nodes, and what the penalty's chord between neighbours depends on.

    Attributes
    ----------
    e : ndarray
        The distance of every node from s.
    farthest, turn : ndarray
        The largest distance, and the largest abs(1 - 2 pi), of both neighbours.
    least, most : ndarray
        Bounds of pi (1 - pi) between them.
    curvature : ndarray
        How far -N log(1 + e^w) exceeds its chord there, at most.
    hold_s : ndarray
        Whether s lies between them.
    """

    e: FloatArray
    farthest: FloatArray
    turn: FloatArray
    least: FloatArray
    most: FloatArray
    curvature: FloatArray
    hold_s: BoolArray

    @classmethod
    def of(cls, pi: FloatArray, w: FloatArray, s: float, size: int) -> _Pairs:
        v, e, turn = pi * (1 - pi), np.abs(pi - s), np.abs(1 - 2 * pi)
        left, right = pi[:-1], pi[1:]
        most = np.where((left < 0.5) & (right > 0.5), 0.25, np.maximum(v[:-1], v[1:]))
        return cls(
            e=e,
            farthest=np.maximum(e[:-1], e[1:]),
            turn=np.maximum(turn[:-1], turn[1:]),
            least=np.minimum(v[:-1], v[1:]),
            most=most,
            curvature=np.diff(w) ** 2 / 8 * size * most,
            hold_s=(left < s) & (right > s),
        )

    def bulge(self, penalty: Penalty) -> FloatArray:
        """Return how far R exceeds its chord between neighbouring nodes, at most."""
        bend = penalty.least_bend * (self.least if penalty.least_bend > 0 else self.most)
        turn = penalty.steepest(self.farthest) * self.turn
        return np.asarray(self.curvature * np.maximum(1 - bend + turn, 0.0))


def _convolved(before: FloatArray, share: FloatArray) -> FloatArray:
    """Return the convolution of `before` with every column.

    In products so small that a BLAS library computes each in one thread: its threads would cost
    more time than they save here, a multiple of it where other work is going on.
    """
    matrix, mean = _lower_toeplitz(before), np.empty_like(share)
    n_rows, n_columns = share.shape
    for start in range(0, n_rows, _ROWS):
        stop = min(start + _ROWS, n_rows)
        width = max(1, _PRODUCT // (_ROWS * stop))
        for first in range(0, n_columns, width):
            columns = slice(first, first + width)
            mean[start:stop, columns] = matrix[start:stop, :stop] @ share[:stop, columns]
    return mean


def _lower_toeplitz(column: FloatArray) -> FloatArray:
    """Return the matrix that convolves with the column."""
    padded = np.concatenate([column[::-1], np.zeros(column.size - 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, column.size)
    return np.ascontiguousarray(windows[::-1])


def _highest(left: FloatArray, right: FloatArray, bulge: FloatArray) -> FloatArray:
    """Return the top of the line between neighbouring values plus a parabola of this height.

    Where the line rises by less than 4 bulges, the top exceeds its higher end by
    (bulge - rise / 4)^2 / bulge.
    """
    room = bulge - np.abs(left - right) / 4
    np.maximum(room, 0.0, out=room)
    room *= room
    room /= np.maximum(bulge, _TINY)
    room += np.maximum(left, right)
    return np.asarray(room.max(axis=1))


def _nodes(size: int, s: float, step: float) -> FloatArray:
    """Return log-odds: evenly dense around s where noise is even, by growing steps beyond.

    The angle 2 arcsin sqrt(pi) is that scale: its noise is 1 / sqrt(N) everywhere. Next to 0 and 1
    follow nodes at growing log-odds. s is a node, unless fewer labels than `_AGREE` differ there.
    """
    unit, outermost = 1 / math.sqrt(size), math.log(size / _AGREE)
    away = unit * _distances(step, math.pi / unit)
    angle = 2 * math.asin(math.sqrt(s)) + np.concatenate([-away[::-1], away[1:]])
    least = unit * step
    small = np.geomspace(least, 1.0, max(math.ceil(math.log(1 / least) / math.log(_SPREAD)), 0) + 1)
    angle = np.concatenate([angle, small, math.pi - small])
    angle = angle[(angle > least) & (angle < math.pi - least)]
    inner = special.logit(np.sin(angle / 2) ** 2)
    outer = np.linspace(math.log(size * 4 / step**2), outermost, _OUTER)
    own = [float(special.logit(s))] if abs(special.logit(s)) < outermost else []
    return np.unique(np.concatenate([-outer, inner, outer, own]))


def _distances(step: float, most: float) -> FloatArray:
    """Return growing numbers from 0 to `most` or a little beyond."""
    grown = [np.arange(0, _NEAR, step)]
    for start, end, growth in ((_NEAR, _FAR, _GROWTH), (_FAR, most, _FAST_GROWTH)):
        if end > start:
            first = step if start == _NEAR else start * (growth - 1) / growth
            n_more = math.ceil(math.log((end - start) * (growth - 1) / first + 1, growth))
            grown.append(start + first * (growth ** np.arange(n_more) - 1) / (growth - 1))
    return np.concatenate([*grown, [max(most, grown[-1][-1] + step)]])


def _outside(low: float, high: float, n: int, w: FloatArray) -> FloatArray:
    """Return P(K < low or K > high) at each node."""
    pi = special.expit(w)
    below = special.bdtr(low - 1, n, pi) if low > 0 else np.zeros(w.size)
    return np.asarray(below + (special.bdtrc(high, n, pi) if high < n else 0.0))


class Blocks:
    """Laws of the blocks of every bin at its nodes: they do not depend on the unit of d."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, float, float], tuple[FloatArray, ...]] = {}
        self._room = _MOST_KEPT

    def of(
        self, scale: Scale, start: FloatArray, step: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return nodes, upper bounds of the blocks that start there, and their log scales."""
        key = (scale.size, scale.s, step)
        if key not in self._kept:
            w = _nodes(scale.size, scale.s, step)
            if not start.size:
                return w, np.empty((0, w.size)), np.zeros(w.size)
            if start.size * w.size > self._room:
                return w, *_blocks(start, scale, w)
            self._room -= start.size * w.size
            wider = _widened(start, scale)
            self._kept[key] = wider, w, *_blocks(wider, scale, w)
        first, w, weight, log_scale = self._kept[key]
        if not start.size:
            return w, weight[:0], log_scale
        skipped = int(start[0] - first[0]) // scale.block
        if skipped < 0 or skipped + start.size > first.size:
            return w, *_blocks(start, scale, w)
        return w, weight[skipped : skipped + start.size], log_scale


def _widened(start: FloatArray, scale: Scale) -> FloatArray:
    """Return more blocks on either side: rounding in other units may reach them."""
    more = start.size // 8 * scale.block
    low, high = max(start[0] - more, 0.0), min(start[-1] + more, scale.size)
    low += (start[0] - low) % scale.block
    return np.arange(low, high + 1, scale.block, dtype=np.float64)


def _blocks(start: FloatArray, scale: Scale, w: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds of the probability of each block of events, and their log scale by node.

    The law at a node is that at the node next to s, tilted: exp(tilt (k - n pi) - rest).
    """
    n = scale.size
    near = min(max(scale.s, 0.5 / (n + 1)), 1 - 0.5 / (n + 1))
    middle = float(w[np.abs(w - special.logit(near)).argmin()])
    pi = float(special.expit(middle))
    tilt = w - middle
    # N (A(w) - A(middle)) less its linear part, A the log partition function
    rest = n * (np.logaddexp(0, w) - np.logaddexp(0, middle) - tilt * pi)
    within = start[:, None] + np.arange(scale.block)
    log_p = np.where(within <= n, _log_binomial(np.minimum(within, n), n, middle), -np.inf)
    top = log_p.max(axis=1)
    if scale.block == 1:
        log_weight = top[:, None] + tilt * (start[:, None] - n * pi)
        log_scale = log_weight.max(axis=0)
        return np.exp(log_weight - log_scale), log_scale - rest
    end = np.minimum(start + scale.block - 1, n)
    length = np.maximum(end - start, 1.0)
    p = np.exp(log_p - top[:, None])
    late = (p * (within - start[:, None])).sum(axis=1) / length
    early = np.maximum(p.sum(axis=1) - late, 0.0)
    # the chord's heavier end carries the exponent, so that the other factor is at most 1
    up = np.searchsorted(tilt, 0.0)
    weight, log_scale = np.empty((start.size, w.size)), np.empty(w.size)
    # at each node about the heaviest block, which any other can replace: it only sets the scale
    heaviest = np.clip((n * special.expit(w) - start[0]) // scale.block, 0, start.size - 1)
    heaviest = heaviest.astype(np.intp)
    for part, at, heavy, light in (
        (slice(0, up), start, early, late),
        (slice(up, None), end, late, early),
    ):
        log_weight = np.multiply.outer(at - n * pi, tilt[part])
        log_scale[part] = (at[heaviest[part]] - n * pi) * tilt[part] + top[heaviest[part]]
        log_weight += top[:, None]
        log_weight -= log_scale[part]
        other = np.multiply.outer(light, np.exp(-np.abs(tilt[part]) * (scale.block - 1)))
        if length[-1] != scale.block - 1:
            other[-1] = light[-1] * np.exp(-np.abs(tilt[part]) * length[-1])
        other += heavy[:, None]
        np.multiply(np.exp(log_weight, out=log_weight), other, out=weight[:, part])
    return weight, log_scale - rest


def _log_binomial(k: FloatArray, n: int, log_odds: float) -> FloatArray:
    """Return log P(K = k), without differences of large numbers (Loader, 2000)."""
    event, other_event = float(special.expit(log_odds)), float(special.expit(-log_odds))
    other = n - k
    inner = (k > 0) & (other > 0)
    safe, rest = np.where(inner, k, 1.0), np.where(inner, other, 1.0)
    log_p = (
        _stirling(np.array(float(n))) - _stirling(safe) - _stirling(rest)
        - _deviance(safe, n * event) - _deviance(rest, n * other_event)
        + 0.5 * np.log(n / (2 * math.pi * safe * rest))
    )  # fmt: skip
    edge = n * special.log_expit(np.where(k == 0, -log_odds, log_odds))
    return np.where(inner, log_p, edge)


def _stirling(k: FloatArray) -> FloatArray:
    """Return log k! less Stirling's formula."""
    r = 1 / k**2
    series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r / 1680))) / k
    if k.min() >= 20:
        return np.asarray(series)
    small = np.minimum(k, 20.0)
    exact = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small
    return np.where(k < 20, exact - 0.5 * math.log(2 * math.pi), series)


def _deviance(k: FloatArray, mean: float) -> FloatArray:
    """Return k log(k / mean) + mean - k."""
    u = (k - mean) / mean
    small = np.abs(u) < 0.01
    t = np.where(small, u, 0.0)
    series = t**2 * (1 / 2 - t * (1 / 6 - t * (1 / 12 - t * (1 / 20 - t * (1 / 30 - t / 42)))))
    if small.all():
        return np.asarray(mean * series)
    plain = special.xlogy(k, k / mean) + mean - k
    return np.where(small, mean * series, plain)
