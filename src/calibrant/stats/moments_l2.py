"""Exponential moments of a bin's squared error, bounded from above: the engine of certificates.

For K ~ Bin(N, pi) and x = K / N, a certificate needs, for each bin, the largest value over pi of

    log E exp(-a (x - c)^2) + N g((pi - s)^2),    g(u) = q u  or  g(u) = -log(1 - q u)

and never an approximation of it from below. These facts make it exact, at a cost flat in N:

* The parabola splits at any point t: ``a (x - c)^2 = tangent at t + a (x - t)^2``. The tangent
  tilts the binomial law, in closed form; what is left is a moment around the tilted mean.
* ``exp(-a d^2) = E exp(i g sqrt(2a) d)`` for g standard normal, so that moment is an integral of a
  characteristic function. By Poisson summation the trapezoidal rule *adds* aliased
  Gaussian terms, all positive: it is an upper bound, and with a fine step an exact one.
* In the log-odds w of pi, the moment is ``M(w) / (1 + e^w)^N`` with log M convex. Between two
  points log M lies below its chord, and the rest is known: that bounds a whole interval.
* ``log E exp(-a (x - c)^2) <= -a (pi - c)^2 / (1 + 2 a v / N)``, where v bounds the variance of a
  label between pi and c (Chernoff, and KL(x | pi) >= (x - pi)^2 / 2v). That settles it far from s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import special
from calibrant._types import BoolArray, FloatArray, IntArray
from calibrant.stats.branch_and_bound import MOST_ROUNDS, Intervals, highest

TOLERANCE = 5e-4
"""Of one bin's maximum; 100 bins add 0.05 to an exponent of 3 or more. Affects tightness only."""
_REACH = 6.5
"""Standard deviations over which the quadrature runs; what is cut off, 8e-11, is added."""
_MOST_NODES = 200
"""Of the quadrature. With fewer than it asks for, aliases make it larger, never too small."""
_MOST_INTERVALS = 400
"""For each bin, of a function too flat to find its maximum among more; affects tightness only."""
_STEPS = np.array([0, 0.4, 0.8, 1.2, 1.6, 2, 2.5, 3.2, 4.5, 7, 10, 15, 25])
_GROWTH = 1.4
"""The first intervals end so many standard deviations of x from s, beyond the last of them by this
ratio. They are dense where maxima were seen to lie; others would only cost more rounds."""
_BLOCK = 1 << 13
"""Points at a time: matrices of 200 nodes for each then fit into 13 MB."""


@dataclass(frozen=True, eq=False)
class BinObjective:
    """The functions ``log E exp(-a (x - c)^2) + N g((pi - s)^2)`` of pi, one for each bin.

    Attributes
    ----------
    size, a, c, s : ndarray
        Arrays of one value per bin; size is N.
    q : float
    bend : {0, 1}
        g(u) is q u for 0, and -log(1 - q u) for 1.
    """

    size: FloatArray
    a: FloatArray
    c: FloatArray
    s: FloatArray
    q: float
    bend: int

    def take(self, index: IntArray) -> BinObjective:
        """Return the functions of these bins."""
        size, a, c, s = (x[index] for x in (self.size, self.a, self.c, self.s))
        return BinObjective(size, a, c, s, self.q, self.bend)

    def gain(self, pi: FloatArray) -> FloatArray:
        """Return N g at one pi each."""
        u = self.q * (pi - self.s) ** 2
        return np.asarray(self.size * (-np.log1p(-u) if self.bend else u))

    def slope(self, pi: FloatArray) -> FloatArray:
        """Return the derivative of ``N g - N log(1 + e^w)`` by the log-odds w of pi."""
        d = pi - self.s
        steep = 2 * self.q * d / (1 - self.bend * self.q * d**2)
        return np.asarray(self.size * (steep * pi * (1 - pi) - pi))

    def at(self, pi: FloatArray) -> FloatArray:
        """Return an upper bound of the function of each bin at one pi each."""
        return log_moment(pi, self.size, self.a, self.c) + self.gain(pi)

    def highest(self, reach: FloatArray | float, tolerance: float = TOLERANCE) -> FloatArray:
        """Return an upper bound of each maximum over pi in [0, 1] within `reach` of s.

        The reach is one for all bins, or one for each.

        It exceeds the maximum by at most about the tolerance, unless the function is so flat that
        too many intervals would have to be told apart; it is an upper bound all the same.
        """
        pieces = _Intervals.covering(self, _cover(self, reach))
        return highest(self.at(self.s), pieces, tolerance, _MOST_INTERVALS, MOST_ROUNDS + 1)

    def roughly_highest(self, reach: FloatArray | float) -> FloatArray:
        """Return an upper bound of each maximum by parabolas alone: quick, for a first look."""
        points = _cover(self, reach)
        index = np.repeat(np.arange(self.s.size), points.shape[1] - 1)
        left, right = points[:, :-1].ravel(), points[:, 1:].ravel()
        pieces = _Intervals(self, index, left, right, left, right)
        tops = pieces.parabolas(convex_too=True)
        return np.asarray(tops.reshape(self.s.size, -1).max(axis=1))

    def known(self, points: FloatArray) -> FloatArray:
        """Return the log moments, which intervals keep of their ends."""
        return log_moment(points, self.size, self.a, self.c)


def log_moment(pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray) -> FloatArray:
    """Return an upper bound of log E exp(-a (K/N - c)^2), K ~ Bin(N, pi); all arrays 1-D."""
    blocks = [slice(i, i + _BLOCK) for i in range(0, pi.size, _BLOCK)]
    return np.concatenate([_log_moment(pi[b], size[b], a[b], c[b]) for b in blocks])


def _log_moment(pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray) -> FloatArray:
    tangent, touch = _log_tangent(pi, size, a, c)
    tilted = _tilt(pi, 2 * a * (touch - c) / size)
    return tangent + np.minimum(log_quadrature(tilted, size, a, touch), 0.0) + 1e-9 + 4e-16 * size


def _log_tangent(
    pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the bound with a tangent in place of the parabola, and where it touches.

    For a fixed tangent this falls as pi moves away from c.
    """
    near, far = c, pi
    for _ in range(15):  # bisect for the point where the tilted mean is the touching point
        touch = (near + far) / 2
        ahead = (_tilt(pi, 2 * a * (touch - c) / size) - touch) * (far - near) > 0
        near, far = np.where(ahead, touch, near), np.where(ahead, far, touch)
    slope = 2 * a * (touch - c)
    with np.errstate(divide="ignore"):
        log_mgf = size * np.logaddexp(np.log1p(-pi), np.log(pi) - slope / size)
    return log_mgf + slope * touch - a * (touch - c) ** 2, touch


def _tilt(pi: FloatArray, t: FloatArray) -> FloatArray:
    weight = pi * np.exp(np.clip(-t, -700, 700))
    return weight / (1 - pi + weight)


def log_quadrature(
    pi: FloatArray, size: FloatArray, a: FloatArray, centre: FloatArray
) -> FloatArray:
    """Trapezoidal rule for the mean over normal g of the characteristic function, |g| <= 6.5."""
    v = pi * (1 - pi)
    tau = np.sqrt(2 * a)
    # beyond this distance x has no mass that an alias could pick up
    distance = np.minimum(np.abs(pi - centre) + 6 * np.sqrt(v / size) + 4 / size, 1.0)
    step = 2 * math.pi / (tau * distance + _REACH)
    n_nodes = min(math.ceil(_REACH / float(step.min())), _MOST_NODES)
    step = np.maximum(step, _REACH / n_nodes)
    g = step[:, None] * np.arange(n_nodes + 1)
    y = (tau / size)[:, None] * g
    half = np.sin(y / 2) ** 2
    log_modulus = 0.5 * size[:, None] * np.log1p(np.maximum(-4 * v[:, None] * half, -1 + 1e-16))
    angle = np.arctan2(pi[:, None] * np.sin(y), 1 - 2 * pi[:, None] * half)
    phase = size[:, None] * angle - (tau * centre)[:, None] * g
    weight = np.exp(log_modulus - g**2 / 2)
    weight[:, 0] /= 2
    scale = 2 * step / math.sqrt(2 * math.pi)
    total = scale * (weight * np.cos(phase)).sum(axis=1)
    rounding = 1e-15 * scale * (weight * (4 + np.abs(phase))).sum(axis=1)
    cut = 2 * special.ndtr(-step * n_nodes)
    return np.asarray(np.log(np.maximum(total, 0.0) + rounding + cut))


class _Intervals(Intervals[BinObjective]):
    """Intervals of pi, with the log moments at their ends."""

    def split(self) -> _Intervals:
        """Cut each interval into four of equal log-odds; the one at 0 or 1 very near to it."""
        with np.errstate(divide="ignore"):
            start, end = special.logit(self.left), special.logit(self.right)
        start = np.where(self.left == 0, end + math.log(1e-6), start)
        end = np.where(self.right == 1, start - math.log(1e-3), end)
        points = special.expit(start[:, None] + (end - start)[:, None] * (np.arange(5) / 4))
        points[:, 0], points[:, -1] = self.left, self.right
        return self.between(self.objective, self.index, points)

    def values(self) -> FloatArray:
        """Return the larger of the two end values."""
        gain = self.owners.gain
        return np.maximum(self.at_left + gain(self.left), self.at_right + gain(self.right))

    def bounds(self) -> FloatArray:
        """Return an upper bound of the function inside each interval."""
        inner = (self.left > 0) & (self.right < 1)
        bound = np.empty_like(self.left)
        bound[~inner] = self.keep(~inner)._end_bounds()
        bound[inner] = self.keep(inner)._inner_bounds()
        return np.minimum(bound, self.parabolas())

    def parabolas(self, convex_too: bool = False) -> FloatArray:
        """Return upper bounds that need no moments, with parabolas in place of both terms.

        That is, -steep (pi - c)^2 + b (pi - s)^2 at most. Where it is convex it is largest at an
        end, and so coarse that only a first look makes use of it.
        """
        bins = self.owners
        farther = np.where(bins.s - self.left > self.right - bins.s, self.left, self.right)
        b = bins.gain(farther) / np.maximum((farther - bins.s) ** 2, 1e-300)
        nearest = np.clip(0.5, np.minimum(self.left, bins.c), np.maximum(self.right, bins.c))
        steep = bins.a / (1 + 2 * bins.a * nearest * (1 - nearest) / bins.size)
        room = steep - b
        with np.errstate(divide="ignore", invalid="ignore"):
            top = (steep * bins.c - b * bins.s) / room

        def at(pi: FloatArray) -> FloatArray:
            return np.asarray(b * (pi - bins.s) ** 2 - steep * (pi - bins.c) ** 2)

        ends = np.maximum(at(self.left), at(self.right)) if convex_too else np.inf
        return np.where(room > 0, at(np.clip(top, self.left, self.right)), ends)

    def _inner_bounds(self) -> FloatArray:
        """Put the chord of log M in place of log M.

        What remains, chord(w) - N log(1 + e^w) + gain, is concave in the log-odds w unless q is
        large; then it lies below its two end tangents. Otherwise the gain is bounded by the larger
        end.
        """
        bins = self.owners
        size, left, right = bins.size, self.left, self.right
        w_left = special.logit(left)
        width = np.maximum(special.logit(right) - w_left, 1e-300)
        m_left = self.at_left - size * np.log1p(-left)
        slope = (self.at_right - size * np.log1p(-right) - m_left) / width
        g_left, g_right = bins.gain(left), bins.gain(right)
        pi = np.clip(slope / size, left, right)
        chord = m_left + slope * (special.logit(pi) - w_left) + size * np.log1p(-pi)
        crude = chord + np.maximum(g_left, g_right)

        f_left, f_right = self.at_left + g_left, self.at_right + g_right
        d_left, d_right = (slope + bins.slope(end) for end in (left, right))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (f_right - f_left - d_right * width) / (d_left - d_right)
            crossing = f_left + d_left * np.clip(t, 0.0, width)
        rising, falling = d_left > 0, d_right < 0
        tangent = np.where(rising & falling, crossing, np.maximum(f_left, f_right))
        return np.where(self._is_concave(), np.minimum(tangent, crude), crude)

    def _is_concave(self) -> BoolArray:
        """Tell where gain - N log(1 + e^w) is surely concave in w.

        With d = pi - s and v = pi (1 - pi) its second derivative is N v times
        2 q (v (1 + q d^2) / (1 - q d^2)^2 + d (1 - 2 pi) / (1 - q d^2)) - 1 if g is bent, and
        2 q (v + d (1 - 2 pi)) - 1 if not.
        """
        s, left, right = self.objective.s[self.index], self.left, self.right
        ends = np.stack([(left - s) ** 2, (right - s) ** 2])
        nearest = np.where((left <= s) & (s <= right), 0.0, ends.min(axis=0))
        low, high = (
            1 - self.objective.bend * self.objective.q * u for u in (ends.max(axis=0), nearest)
        )
        middle = np.clip(0.5, left, right)
        vertex = np.clip((1 + 2 * s) / 4, left, right)
        turn = (vertex - s) * (1 - 2 * vertex)
        turn = np.where(turn > 0, turn / low, turn / high)
        v = middle * (1 - middle)
        return np.asarray(2 * self.objective.q * (v * (2 - low) / low**2 + turn) <= 1)

    def _end_bounds(self) -> FloatArray:
        """Bound the log moment next to 0 or 1: all rows agree but for few; or by the tangent."""
        bins = self.owners
        at_zero = self.left == 0
        inner = np.where(at_zero, self.right, self.left)
        distance = np.minimum(np.where(at_zero, inner, 1 - inner), 1 - 1e-16)
        log_differ = np.log(-np.expm1(bins.size * np.log1p(-distance)) + 1e-300)
        agree = np.logaddexp(np.where(at_zero, self.at_left, self.at_right), log_differ)
        beyond = np.where(at_zero, inner < bins.c, inner > bins.c) & (self.right - self.left < 1)
        tangent, _ = _log_tangent(inner, bins.size, bins.a, bins.c)
        gain = np.maximum(bins.gain(self.left), bins.gain(self.right))
        return np.where(beyond, np.minimum(agree, tangent), agree) + gain


def _cover(objective: BinObjective, reach: FloatArray | float) -> FloatArray:
    """Return points of pi within reach of each s: dense near s, by growing steps beyond."""
    s = objective.s
    reach = np.broadcast_to(reach, s.shape)
    unit = np.sqrt(s * (1 - s) / objective.size) + 1 / objective.size
    farthest = math.log(float((reach / unit).max()) / _STEPS[-1], _GROWTH)
    beyond = _GROWTH ** np.arange(1, max(math.ceil(farthest), 0) + 1) * _STEPS[-1]
    away = np.minimum(unit[:, None] * np.append(_STEPS, beyond), reach[:, None])
    points = np.column_stack([(s[:, None] - away)[:, ::-1], s[:, None] + away])
    return np.asarray(np.clip(points, 0.0, 1.0))
