"""Smooth ECE: the calibration error with a kernel in place of bins.

Residuals p - y are smoothed with a Gaussian kernel, reflected at 0 and 1, and the absolute value of
the result is integrated. The kernel's width is the one that equals the error it gives, so there is
nothing to choose, and the error changes continuously with the predictions (Blasiok and Nakkiran,
2023). Steps and grids are those of their package relplot, whose numbers these are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calibrant._scipy import signal
from calibrant._types import FloatArray, IntArray
from calibrant.stats.samples import Sample
from calibrant.stats.smoothing import GRID, functional_limits, noise_draws

LEAST_WIDTH = 0.001
HALVINGS = 10
MESH = 200
"""relplot's own: least width of the kernel, steps of the search for it, points of the integral."""
DENSITY_FLOOR = 1e-4
"""Added to the number of rows around a point; relplot's, so that none is divided by 0."""


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
