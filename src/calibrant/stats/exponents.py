"""Exponential moments of a bin's squared error, bounded from above: the engine of certificates.

For K ~ Bin(N, pi) and x = K / N, a certificate needs, for each bin, the largest value over pi of

    log E exp(-a (x - c)^2) + b (pi - s)^2

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
from scipy import special

from calibrant._types import BoolArray, FloatArray, IntArray

TOLERANCE = 5e-4
_REACH = 6.5
_MOST_NODES = 200
_MOST_ROUNDS = 30
_MOST_PIECES = 64
_BLOCK = 1 << 13


@dataclass(frozen=True, eq=False)
class Bumps:
    """The functions ``log E exp(-a (x - c)^2) + b (pi - s)^2`` of pi, one for each bin.

    Attributes
    ----------
    size, a, c, b, s : ndarray
        Arrays of one value per bin; size is N.
    v : float
        A bound on pi (1 - pi) for all pi in question; fast if ``a / (1 + 2 a v / N) > b``.
    """

    size: FloatArray
    a: FloatArray
    c: FloatArray
    b: FloatArray
    s: FloatArray
    v: float

    def take(self, index: IntArray) -> Bumps:
        """Return the bumps of these bins."""
        size, a, c, b, s = (each[index] for each in (self.size, self.a, self.c, self.b, self.s))
        return Bumps(size, a, c, b, s, self.v)

    def at(self, pi: FloatArray) -> FloatArray:
        """Return an upper bound of the function of each bin at one pi each."""
        return log_moment(pi, self.size, self.a, self.c) + self.b * (pi - self.s) ** 2

    def highest(self, reach: float) -> FloatArray:
        """Return an upper bound of each maximum over pi in [0, 1] within `reach` of s.

        It exceeds the maximum by at most about `TOLERANCE`, unless the function is so flat that
        too many intervals would have to be told apart; it is an upper bound all the same.
        """
        near = np.minimum(self._near(), reach)
        low, high = np.maximum(self.s - near, 0.0), np.minimum(self.s + near, 1.0)
        best = self.at(self.s)
        settled = best.copy()
        pieces = _Pieces.cover(self, low, high)
        for _ in range(_MOST_ROUNDS):
            np.maximum.at(best, pieces.bin_of, pieces.values())
            bound = pieces.bounds()
            open_ = bound > best[pieces.bin_of] + TOLERANCE
            np.maximum.at(settled, pieces.bin_of[~open_], bound[~open_])
            if not open_.any():
                return np.maximum(settled, best)
            pieces = pieces.keep(open_)
            if pieces.bin_of.size > _MOST_PIECES * self.s.size:
                break
            pieces = pieces.split()
        np.maximum.at(settled, pieces.bin_of, pieces.bounds())
        return np.minimum(np.maximum(settled, best), self.ceiling())

    def ceiling(self) -> FloatArray:
        """Return a cruder upper bound of each maximum, in closed form."""
        steep, room = self._steepness()
        with np.errstate(divide="ignore"):
            return np.where(room > 0, steep * self.b * (self.s - self.c) ** 2 / room, np.inf)

    def _near(self) -> FloatArray:
        """Return the distance from s beyond which the value at s cannot be exceeded."""
        steep, room = self._steepness()
        shift = steep * np.abs(self.s - self.c)
        below = np.maximum(-self.at(self.s), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = (shift + np.sqrt(shift**2 + np.maximum(room, 0.0) * below)) / room
        return np.where(room > 0, near, np.inf)

    def _steepness(self) -> tuple[FloatArray, FloatArray]:
        """Return a / (1 + 2 a v / N), and by how much it exceeds b."""
        steep = self.a / (1 + 2 * self.a * self.v / self.size)
        return steep, steep - self.b


def log_moment(pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray) -> FloatArray:
    """Return an upper bound of log E exp(-a (K/N - c)^2), K ~ Bin(N, pi); all arrays 1-D."""
    blocks = [slice(i, i + _BLOCK) for i in range(0, pi.size, _BLOCK)]
    return np.concatenate([_log_moment(pi[b], size[b], a[b], c[b]) for b in blocks])


def _log_moment(pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray) -> FloatArray:
    tangent, touch = _log_tangent(pi, size, a, c)
    tilted = _tilt(pi, 2 * a * (touch - c) / size)
    return tangent + np.minimum(_log_quadrature(tilted, size, a, touch), 0.0) + 1e-9 + 4e-16 * size


def _log_tangent(
    pi: FloatArray, size: FloatArray, a: FloatArray, c: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the bound with a tangent in the place of the parabola, and where it touches.

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


def _log_quadrature(
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


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Intervals of pi, each of some bin, with the log moments at their ends."""

    bumps: Bumps
    bin_of: IntArray
    left: FloatArray
    right: FloatArray
    log_left: FloatArray
    log_right: FloatArray

    @classmethod
    def cover(cls, bumps: Bumps, low: FloatArray, high: FloatArray, parts: int = 24) -> _Pieces:
        points = low[:, None] + (high - low)[:, None] * (np.arange(parts + 1) / parts)
        points = np.sort(np.column_stack([points, bumps.s]), axis=1)
        points[:, 0], points[:, -1] = low, high
        bin_of = np.broadcast_to(np.arange(low.size)[:, None], points.shape)
        return cls._between(bumps, bin_of, points)

    @classmethod
    def _between(cls, bumps: Bumps, bin_of: IntArray, points: FloatArray) -> _Pieces:
        each = bumps.take(bin_of.ravel())
        logs = log_moment(points.ravel(), each.size, each.a, each.c).reshape(points.shape)
        left, right = points[:, :-1].ravel(), points[:, 1:].ravel()
        return cls(
            bumps, bin_of[:, 1:].ravel(), left, right, logs[:, :-1].ravel(), logs[:, 1:].ravel()
        )

    def keep(self, which: BoolArray) -> _Pieces:
        return _Pieces(
            self.bumps,
            self.bin_of[which],
            self.left[which],
            self.right[which],
            self.log_left[which],
            self.log_right[which],
        )

    def split(self) -> _Pieces:
        """Cut each interval into four; the one at 0 or 1 also very near to it."""
        points = self.left[:, None] + (self.right - self.left)[:, None] * (np.arange(5) / 4)
        points[:, -1] = self.right
        at_zero, at_one = self.left == 0, self.right == 1
        points[at_zero, 1] = self.right[at_zero] * 1e-6
        points[at_one, 3] = 1 - (1 - self.left[at_one]) * 1e-3
        bin_of = np.broadcast_to(self.bin_of[:, None], points.shape)
        return self._between(self.bumps, bin_of, points)

    def values(self) -> FloatArray:
        """Return the larger of the two end values."""
        b, s = self.bumps.b[self.bin_of], self.bumps.s[self.bin_of]
        return np.maximum(
            self.log_left + b * (self.left - s) ** 2, self.log_right + b * (self.right - s) ** 2
        )

    def bounds(self) -> FloatArray:
        """Return an upper bound of the function inside each interval."""
        b, s = self.bumps.b[self.bin_of], self.bumps.s[self.bin_of]
        farthest = b * np.maximum((self.left - s) ** 2, (self.right - s) ** 2)
        inner = (self.left > 0) & (self.right < 1)
        bound = np.empty_like(self.left)
        bound[~inner] = self.keep(~inner)._end_moment() + farthest[~inner]
        bound[inner] = self.keep(inner)._inner_bounds(farthest[inner])
        return bound

    def _inner_bounds(self, farthest: FloatArray) -> FloatArray:
        """Put the chord of log M in the place of log M.

        What remains, chord(w) - N log(1 + e^w) + b (pi - s)^2, is concave in the log-odds w unless
        b is large; then it lies below its two end tangents. Otherwise the square is bounded by
        the larger end.
        """
        size, b, s = (each[self.bin_of] for each in (self.bumps.size, self.bumps.b, self.bumps.s))
        left, right = self.left, self.right
        w_left = special.logit(left)
        width = np.maximum(special.logit(right) - w_left, 1e-300)
        m_left = self.log_left - size * np.log1p(-left)
        slope = (self.log_right - size * np.log1p(-right) - m_left) / width
        pi = np.clip(slope / size, left, right)
        crude = m_left + slope * (special.logit(pi) - w_left) + size * np.log1p(-pi) + farthest

        f_left = self.log_left + b * (left - s) ** 2
        f_right = self.log_right + b * (right - s) ** 2
        d_left = slope - size * left + 2 * b * (left - s) * left * (1 - left)
        d_right = slope - size * right + 2 * b * (right - s) * right * (1 - right)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (f_right - f_left - d_right * width) / (d_left - d_right)
            crossing = f_left + d_left * np.clip(t, 0.0, width)
        rising, falling = d_left > 0, d_right < 0
        tangent = np.where(rising & falling, crossing, np.maximum(f_left, f_right))
        middle = left + np.clip(0.5 - left, 0.0, right - left)
        bend = np.maximum(np.abs(left - s), np.abs(right - s)) * np.maximum(
            np.abs(1 - 2 * left), np.abs(1 - 2 * right)
        )
        concave = size >= 2 * b * (middle * (1 - middle) + bend)
        return np.where(concave, np.minimum(tangent, crude), crude)

    def _end_moment(self) -> FloatArray:
        """Bound the log moment next to 0 or 1: all rows agree but for few; or by the tangent."""
        each = self.bumps.take(self.bin_of)
        at_zero = self.left == 0
        inner = np.where(at_zero, self.right, self.left)
        distance = np.minimum(np.where(at_zero, inner, 1 - inner), 1 - 1e-16)
        other = -np.expm1(each.size * np.log1p(-distance))
        agree = np.logaddexp(
            np.where(at_zero, self.log_left, self.log_right), np.log(other + 1e-300)
        )
        beyond = np.where(at_zero, inner < each.c, inner > each.c) & (self.right - self.left < 1)
        tangent, _ = _log_tangent(inner, each.size, each.a, each.c)
        return np.where(beyond, np.minimum(agree, tangent), agree)
