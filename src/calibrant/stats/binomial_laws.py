"""The law of a bin's statistic at many event rates: binomial events, counted in blocks.

The law at a node is the law at s times exp(linear), which lies below its chord inside a block. So
what is returned is never too small, and what is lost is of second order in the block's length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.stats.tail_loops import block_weights

# These trade tightness for time; none of them affects validity.
_NEAR, _FAR = 3.0, 60.0  # how far nodes are that dense, and how far worst cases are found
_GROWTH, _FAST_GROWTH = 1.1, 1.2  # of the distance between nodes beyond _NEAR, and beyond _FAR
_SPREAD = 1.5  # ratio of neighbouring angles next to pi = 0 and 1
_OUTER = 10  # nodes at growing log-odds next to 0, and to 1
_BLOCKS = 32  # blocks of events in a standard deviation
_AGREE = 1e-13  # the share of samples in which labels disagree at the outermost nodes
_MOST_KEPT = 1 << 24  # numbers, 128 MB, of laws that are kept for tests in other units


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

    def starts(self, most: int) -> FloatArray:
        """Return the first events of all blocks with d up to `most`."""
        # the distance from the centre beyond which d exceeds `most`
        extent = float(((most + 1) / self.factor) ** (1 / self.power)) + self.block
        low = max(0, math.floor(self.centre - extent) // self.block * self.block)
        high = min(self.size, math.ceil(self.centre + extent))
        start = np.arange(low, high + 1, self.block, dtype=np.float64)
        return start[self.of(start) <= most]


def _block(size: int, s: float) -> int:
    return max(1, int(math.sqrt(size * s * (1 - s)) / _BLOCKS))


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
    at_s = [float(special.logit(s))] if abs(special.logit(s)) < outermost else []
    return np.unique(np.concatenate([-outer, inner, outer, at_s]))


def _distances(step: float, most: float) -> FloatArray:
    """Return growing numbers from 0 to `most` or a little beyond."""
    grown = [np.arange(0, _NEAR, step)]
    for start, end, growth in ((_NEAR, _FAR, _GROWTH), (_FAR, most, _FAST_GROWTH)):
        if end > start:
            first = step if start == _NEAR else start * (growth - 1) / growth
            n_more = math.ceil(math.log((end - start) * (growth - 1) / first + 1, growth))
            grown.append(start + first * (growth ** np.arange(n_more) - 1) / (growth - 1))
    return np.concatenate([*grown, [max(most, grown[-1][-1] + step)]])


def outside(low: float, high: float, n: int, w: FloatArray) -> FloatArray:
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


def probability_of_blocks(start: FloatArray, scale: Scale) -> FloatArray:
    """Return the probability of each block of events if the bin is calibrated."""
    if not start.size:
        return np.zeros(0)
    if scale.size * min(scale.s, 1 - scale.s) < _AGREE:
        sure = 0.0 if scale.s < 0.5 else float(scale.size)
        return np.asarray((start <= sure) & (sure < start + scale.block), np.float64)
    _, log_p = _within(start, scale, float(special.logit(scale.s)))
    return np.asarray(np.exp(log_p).sum(axis=1))


def _within(start: FloatArray, scale: Scale, log_odds: float) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of events of each block, and their log probabilities at these odds."""
    n, within = scale.size, start[:, None] + np.arange(scale.block)
    log_p = _log_binomial(np.minimum(within, n), n, log_odds)
    return within, np.where(within <= n, log_p, -np.inf)


def _widened(start: FloatArray, scale: Scale) -> FloatArray:
    """Return more blocks on either side: rounding in other units may reach them."""
    margin = start.size // 8 * scale.block
    low, high = max(start[0] - margin, 0.0), min(start[-1] + margin, scale.size)
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
    within, log_p = _within(start, scale, middle)
    top = log_p.max(axis=1)
    end = np.minimum(start + scale.block - 1, n)
    p = np.exp(log_p - top[:, None])
    late = (p * (within - start[:, None])).sum(axis=1) / np.maximum(end - start, 1.0)
    early = np.maximum(p.sum(axis=1) - late, 0.0)
    # at each node about the heaviest block, which any other can replace: it only sets the scale
    heaviest = np.clip((n * special.expit(w) - start[0]) // scale.block, 0, start.size - 1)
    heaviest = heaviest.astype(np.intp)
    ends = start - n * pi, end - n * pi
    log_scale = np.where(tilt < 0, ends[0][heaviest], ends[1][heaviest]) * tilt + top[heaviest]
    return block_weights(ends, top, (early, late), tilt, log_scale), log_scale - rest


def _log_binomial(k: FloatArray, n: int, log_odds: float) -> FloatArray:
    """Return log P(K = k), without differences of large numbers (Loader, 2000)."""
    pi, one_less_pi = float(special.expit(log_odds)), float(special.expit(-log_odds))
    inner = (k > 0) & (k < n)
    events, others = np.where(inner, k, 1.0), np.where(inner, n - k, 1.0)
    log_p = (
        _stirling(np.array(float(n))) - _stirling(events) - _stirling(others)
        - _deviance(events, n * pi) - _deviance(others, n * one_less_pi)
        + 0.5 * np.log(n / (2 * math.pi * events * others))
    )  # fmt: skip
    edge = n * special.log_expit(np.where(k == 0, -log_odds, log_odds))
    return np.where(inner, log_p, edge)


def _stirling(k: FloatArray) -> FloatArray:
    """Return log k! less Stirling's formula."""
    r = 1 / k**2
    series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r / 1680))) / k
    if k.min() >= 20:  # where the next term of the series is 2e-15
        return np.asarray(series)
    small = np.minimum(k, 20.0)
    exact = special.gammaln(small + 1) - (small + 0.5) * np.log(small) + small
    return np.where(k < 20, exact - 0.5 * math.log(2 * math.pi), series)


def _deviance(k: FloatArray, mean: float) -> FloatArray:
    """Return k log(k / mean) + mean - k."""
    u = (k - mean) / mean  # near 0 the terms below cancel; the series errs by 4e-14 of the value
    small = np.abs(u) < 0.01
    t = np.where(small, u, 0.0)
    series = t**2 * (1 / 2 - t * (1 / 6 - t * (1 / 12 - t * (1 / 20 - t * (1 / 30 - t / 42)))))
    if small.all():
        return np.asarray(mean * series)
    plain = special.xlogy(k, k / mean) + mean - k
    return np.where(small, mean * series, plain)
