"""The loess calibration curve and the smooth ECE, with intervals of what is read off a curve.

A loess curve is a linear function of the events: at a prediction x, the value at x of the quadratic
that fits the nearest share of the rows best, tricube weights falling with the distance
(Cleveland, 1979; R's ``loess`` with its defaults and ``surface = "direct"``). Quadratics are
reproduced, so a calibrated model has the diagonal for its expected curve, without a bias; of others
it is the calibration curve as smoothed by the same weights, and that is what is estimated.

The integrated calibration index and its companions (Austin and Steyerberg, 2019) are the mean, the
quantiles and the largest of |curve - prediction|. Chance alone makes them positive: a bootstrap
never covers a calibrated model. `functional_limits` allows for it.

The smooth ECE is the calibration error with a kernel in place of bins. Residuals p - y are smoothed
with a Gaussian kernel, reflected at 0 and 1, and the absolute value of the result is integrated.
The kernel's width is the one that equals the error it gives, so there is nothing to choose, and the
error changes continuously with the predictions (Blasiok and Nakkiran, 2023). Steps and grids are
those of their package relplot, whose numbers these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calibrant._scipy import signal, special
from calibrant._types import FloatArray, IntArray
from calibrant.stats.samples import Sample

SPAN = 0.75
"""The share of the rows in a window: R's default, and that of Austin and Steyerberg."""
MOST_POINTS = 2048
"""Predictions that are smoothed one by one. More are pooled first, equally many rows a point: of
10,000 rows that moved a value of the curve by 0.0007 at most between the extreme 0.1%."""
GRID = 64
"""Points at which the noise of a curve is simulated; the curve itself has four times as many."""
SPREAD_CAUTION = 1.1
"""Times the standard deviation of quantiles and maxima, whose noise is not normal: without it 95%
intervals of E50 and E90 covered down to 92% in simulation."""
DRAWS = 500
"""Of the noise: a tail of 2.5% is met to 0.7 points, the same for all rows alike."""
SEED = 20190904
"""Noise is drawn from this seed, so that the same rows always have the same interval."""
LEAST_WIDTH = 0.001
HALVINGS = 10
MESH = 200
"""relplot's own: least width of the kernel, steps of the search for it, points of the integral."""
DENSITY_FLOOR = 1e-4
"""Added to the number of rows around a point; relplot's, so that none is divided by 0."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """Rows pooled at equal, or of very many at neighbouring, predictions.

    Attributes
    ----------
    x, rate, weight, rows : ndarray of shape (m,)
        Weighted mean prediction, event rate, sum of weights, and number of rows of each point.
    place : ndarray of shape (n,)
        The point of every row.
    """

    x: FloatArray
    rate: FloatArray
    weight: FloatArray
    rows: FloatArray
    place: IntArray

    @classmethod
    def of(cls, sample: Sample, most: int = MOST_POINTS) -> Pooled:
        """Pool the rows of a sample, in rising order of predictions."""
        values, place, count = np.unique(sample.p, return_inverse=True, return_counts=True)
        first = np.arange(values.size)
        if values.size > most:
            middle = np.cumsum(count) - count / 2
            share = (middle / len(sample) * most).astype(np.intp)
            _, first, cell = np.unique(share, return_index=True, return_inverse=True)
            place = cell[place]
        weight = np.bincount(place, sample.weight).astype(float)
        x = np.bincount(place, sample.weight * sample.p) / weight
        # the mean of equal predictions is that prediction, which rounded sums miss by a digit
        x = x.clip(values[first], values[np.append(first[1:], values.size) - 1])
        rate = np.bincount(place, sample.weight * sample.y) / weight
        return cls(x, rate, weight, np.bincount(place).astype(float), place)

    def quantiles(self, n: int) -> IntArray:
        """Return the points at n shares of the rows, spread evenly; fewer if there are fewer."""
        reached = (np.cumsum(self.rows) - self.rows / 2) / self.rows.sum()
        places = np.searchsorted(reached, (np.arange(n) + 0.5) / n)
        return np.unique(places.clip(0, self.x.size - 1))


def loess_weights(pooled: Pooled, at: FloatArray) -> FloatArray:
    """Return the matrix that smooths event rates: a line for each of `at`, a column a point."""
    distance = np.abs(at[:, None] - pooled.x)
    width = _bandwidths(distance, pooled.rows)[:, None]
    near = np.clip(1 - (distance / width) ** 3, 0.0, None) ** 3 * pooled.weight
    z = (pooled.x - at[:, None]) / width
    moments = [near.sum(axis=1)]
    power = near
    for _ in range(4):
        power = power * z
        moments.append(power.sum(axis=1))
    gram = np.stack([np.stack(moments[i : i + 3], axis=-1) for i in range(3)], axis=-1)
    # a window of one or two predictions holds no parabola: the pseudo-inverse takes what there is
    a, b, c = np.linalg.pinv(gram, rcond=1e-12, hermitian=True)[:, 0, :].T[:, :, None]
    return np.asarray((a + z * (b + z * c)) * near)


def _bandwidths(distance: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the distance to the row at which the span is filled, a little beyond for ties."""
    needed = max(np.floor(rows.sum() * SPAN + 1e-5), 1.0)
    if rows.max() == 1:
        place = int(needed) - 1
        width = np.partition(distance, place, axis=1)[:, place]
    else:
        order = np.argsort(distance, axis=1)
        last = np.argmax(np.cumsum(rows[order], axis=1) >= needed - 1e-9, axis=1)
        width = np.take_along_axis(distance, order, axis=1)[np.arange(len(distance)), last]
    # where ties fill the window it has no width: it reaches half way to the next prediction
    beyond = np.where(distance > 0, distance, np.inf).min(axis=1, initial=np.inf)
    return np.where(width > 0, width, np.where(np.isfinite(beyond), beyond / 2, 1.0))


@dataclass(frozen=True, eq=False)
class LoessCurve:
    """A loess curve at some predictions, and its noise at some of them.

    Attributes
    ----------
    x, rate : ndarray
        The curve at quantiles of the predictions; the first and last are the least and greatest.
    nodes : ndarray of int
        Every fourth of these points, and the first and the last.
    covariance : ndarray
        Of the curve's noise at those.
    size : ndarray
        As many independent rows as would tell the rate as well at those.
    share : ndarray
        What share of the rows, by weight, is nearest to each of those but the first and the last.
    """

    x: FloatArray
    rate: FloatArray
    nodes: IntArray
    covariance: FloatArray
    size: FloatArray
    share: FloatArray

    @property
    def gap(self) -> FloatArray:
        """The curve less the diagonal where the noise is known."""
        return self.rate[self.nodes] - self.x[self.nodes]

    def raised(self, confidence_level: float) -> FloatArray:
        """Return factors of the noise: what it would be at the rates' upper limits, Wilson's."""
        z2 = float(special.ndtri((1 + confidence_level) / 2)) ** 2
        rate, size = np.clip(self.rate[self.nodes], 0.0, 1.0), self.size
        spread = np.sqrt(z2 * (rate * (1 - rate) / size + z2 / (4 * size**2)))
        upper = (rate + z2 / (2 * size) + spread) / (1 + z2 / size)
        upper = np.minimum(upper, np.maximum(rate, 0.5))
        current = np.maximum(rate * (1 - rate), np.diag(self.covariance) * size)
        return np.asarray(np.sqrt(np.maximum(upper * (1 - upper) / current, 1.0)))


def loess_curve(sample: Sample, pooled: Pooled) -> LoessCurve:
    """Return the loess curve with the covariance of its noise.

    Of independent rows the variance is that of events at the fitted rates, weights included; of
    clusters that of their residuals, each as it would be had the curve been fitted without its row
    (else Emax of clusters covered 90% at a nominal 95%: at the ends curves follow few of them).
    """
    inner = pooled.quantiles(4 * GRID)
    at = np.concatenate([pooled.x[:1], pooled.x[inner], pooled.x[-1:]])
    matrix = loess_weights(pooled, at)
    smooth = matrix @ pooled.rate
    fitted = np.interp(pooled.x, at, smooth)
    step = 4 if inner.size >= GRID else 1
    heavy = np.flatnonzero(pooled.weight[inner] > pooled.weight.sum() / GRID)
    # a prediction of many rows stands for itself: its neighbours may be far away
    middles = 1 + np.union1d(np.arange(step // 2, inner.size, step), heavy)
    chosen = inner[middles - 1]
    nearest = np.searchsorted((chosen[1:] + chosen[:-1]) / 2, np.arange(pooled.x.size))
    share = np.bincount(nearest, pooled.weight) / pooled.weight.sum()
    nodes = np.unique(np.concatenate([[0], middles, [at.size - 1]]))
    scaled = matrix[nodes] / pooled.weight
    # squares of residuals would be a rough guess of the same
    squares = np.bincount(pooled.place, sample.weight**2)
    inner_rate = np.clip(fitted, 0.5 / len(sample), 1 - 0.5 / len(sample))
    noise = (scaled * squares * inner_rate * (1 - inner_rate)) @ scaled.T
    if sample.cluster is not None:
        near = np.minimum(np.searchsorted(at, pooled.x), at.size - 1)
        # short of 1, because residuals are divided by what is left
        leverage = np.minimum(matrix[near, np.arange(pooled.x.size)], 0.9)
        residual = (sample.y - fitted[pooled.place]) / (1 - leverage)[pooled.place]
        of_clusters = scaled @ sample.scatter(pooled.place, pooled.x.size, residual) @ scaled.T
        seen = np.diag(of_clusters) > 0  # no residuals, as of hard predictions that were right
        noise = np.where(seen & seen[:, None], of_clusters, noise * ~(seen | seen[:, None]))
    size = 1 / (matrix[nodes] ** 2 / pooled.rows).sum(axis=1)
    # residuals vanish where nearly all events agree: variances are at least Agresti and Coull's
    added = (np.clip(smooth[nodes], 0.0, 1.0) * size + 2) / (size + 4)
    floor = added * (1 - added) / (size + 4)
    factor = np.sqrt(np.maximum(floor / np.diag(noise).clip(1e-300), 1.0))
    noise *= factor * factor[:, None]
    size = np.maximum(added * (1 - added) / np.diag(noise) - 4, 1.0)
    return LoessCurve(at, smooth, nodes, noise, size, share)


def noise_draws(covariance: FloatArray, draws: int = DRAWS) -> FloatArray:
    """Return draws of normal noise of this covariance, one a line, always the same."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    used = values > 1e-12 * max(float(values[-1]), 1e-300)
    normal = np.random.default_rng(SEED).standard_normal((draws, int(used.sum())))
    return np.asarray(normal @ root[:, used].T)


Functionals = Callable[[FloatArray], FloatArray]
"""Of absolute gaps along the last axis, one for each entry of the result's last axis."""


def functional_limits(
    gap: FloatArray, noise: FloatArray, functionals: Functionals, confidence_level: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return intervals of functionals T of |gap|, and what noise alone gives on average.

    The observed gap is the true one plus noise, and |.| makes T larger by that. Adding the noise
    once more shows by how much, and how T varies. Below, the interval ends where T less that bias
    and z standard deviations does, or at the lower percentile, if that is less; at 0, a calibrated
    model, unless noise alone rarely gives as much as T. Above, the bias is left in, for where the
    gap has one sign there is none: T and z standard deviations, or the upper percentile. Where
    noise lowers T, as it can a median, T is raised by twice as much: once more moves it by half.
    """
    tail = (1 - confidence_level) / 2
    z = float(special.ndtri(1 - tail))
    observed, alone = functionals(np.abs(gap)), functionals(np.abs(noise))
    moved = functionals(np.abs(gap + noise))
    percentiles = np.quantile(moved, [tail, 1 - tail], axis=0)
    spread = z * SPREAD_CAUTION * moved.std(axis=0)
    bias = moved.mean(axis=0) - observed
    low = np.maximum(np.minimum(observed - np.maximum(bias, 0.0) - spread, percentiles[0]), 0.0)
    low = np.where(observed <= np.quantile(alone, 1 - tail, axis=0), 0.0, np.minimum(low, observed))
    high = np.maximum(observed + 2 * np.maximum(-bias, 0.0) + spread, percentiles[1])
    high = np.minimum(high, np.maximum(observed, 1.0))
    return low, high, alone.mean(axis=0)


@dataclass(frozen=True)
class SmoothECE:
    """The smooth ECE and the width of its kernel."""

    value: float
    width: float


def smooth_ece(sample: Sample) -> SmoothECE:
    """Return the smooth ECE at the width that it equals.

    >>> sample = Sample.of(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.2, 0.6, 0.4, 0.8]))
    >>> round(smooth_ece(sample).value, 4)
    0.1299
    """

    def is_wide(width: float) -> bool:
        return width < LEAST_WIDTH or width < _error(sample, width)

    high, low = 1.0, 0.0
    if not is_wide(1.0):
        for _ in range(HALVINGS):
            middle = (high + low) / 2
            high, low = (high, middle) if is_wide(middle) else (middle, low)
    return SmoothECE(_error(sample, high), high)


def _error(sample: Sample, width: float) -> float:
    """Return the integral of the smoothed absolute residuals, by relplot's grids."""
    points = max(2000, round(20 / width)) // 2 + 1
    at = np.linspace(0, 1, max(round(10 / width), MESH))
    place, share = _places(sample.p, points)

    def smoothed(values: FloatArray) -> FloatArray:
        added = np.bincount(place, (1 - share) * values, minlength=points)
        added += np.bincount(place + 1, share * values, minlength=points)
        mirrored = np.concatenate([added[:0:-1], added, added[-2::-1]])
        offset = np.linspace(0, 1, points) - 0.5
        kernel = np.exp(-(offset**2) / (2 * width**2)) / (np.sqrt(2 * np.pi) * width)
        half = points // 2
        return np.interp(
            at, np.linspace(0, 1, points),
            signal.fftconvolve(mirrored, kernel, "valid")[half : half + points],
        )  # fmt: skip

    residual = smoothed(sample.weight * (sample.p - sample.y))
    density = smoothed(sample.weight) + DENSITY_FLOOR
    return float(np.abs(residual).sum() / density.sum())


def _places(p: FloatArray, points: int) -> tuple[IntArray, FloatArray]:
    """Return the grid point below each prediction, and how far on the next it is."""
    place = (p * (points - 1)).astype(np.intp).clip(0, points - 2)
    return place, p * (points - 1) - place


def smooth_ece_limits(
    sample: Sample, found: SmoothECE, confidence_level: float
) -> tuple[float, float]:
    """Return the interval of the smooth ECE.

    At the width that was found, the error is the mean of |gap + noise| along [0, 1], and
    `functional_limits` gives its limits. The error falls with the width, so that the one that
    equals its own width lies between the width found and the error at that width: limits that
    hold the width and hold the error at it hold the smooth ECE.
    """
    points = 1001
    at = np.linspace(0, 1, GRID)
    place, share = _places(sample.p, points)
    place = place + (share > 0.5)
    grid = np.linspace(0, 1, points)
    matrix = np.zeros((GRID, points))
    for mirror in (grid, -grid, 2 - grid):
        distance = np.abs(at[:, None] - mirror)  # the kernel of `_error` ends at a half
        matrix += np.exp(-(distance**2) / (2 * found.width**2)) * (distance <= 0.5)
    density = matrix @ np.bincount(place, sample.weight, minlength=points)
    matrix, density = matrix / density.mean(), density / density.mean()
    residual = sample.p - sample.y
    gap = matrix @ np.bincount(place, sample.weight * residual, minlength=points)
    # around their smooth part: what is left of residuals is noise
    trend = gap / density.clip(1e-12)
    noise = residual - np.interp(sample.p, at, trend)
    scatter = sample.scatter(place, points, noise)
    covariance = (matrix * scatter) @ matrix.T if scatter.ndim == 1 else matrix @ scatter @ matrix.T
    low, high, _ = functional_limits(
        gap, noise_draws(covariance), lambda x: x.mean(axis=-1, keepdims=True), confidence_level
    )
    return min(float(low[0]), found.value), max(float(high[0]), found.value)
