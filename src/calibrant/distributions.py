"""Forecasts of real outcomes by whole distributions, normal or as samples: CRPS, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant import stats
from calibrant._options import is_real
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidShapeError,
    LengthMismatchError,
)
from calibrant.problem import Problem, read_problem
from calibrant.sources.arrays import as_array, read_some_weight
from calibrant.sources.events import read_real, read_real_columns


def crps(
    y_true: Any,
    *,
    mean: Any = None,
    std: Any = None,
    samples: Any = None,
    sample_weight: Any = None,
    data: Any = None,
) -> stats.MeanScore:
    """Score distributions by the continuous ranked probability score; lower is better.

    Of a normal forecast in closed form; of m samples by the fair estimate, mean abs(x - y) less
    half the mean distance of two different samples, whose expectation does not depend on m
    (Gneiting and Raftery, 2007; Ferro, 2014).

    Parameters
    ----------
    y_true : array_like of shape (n,)
        Real outcomes.
    mean, std : array_like of shape (n,), or a number
        Of normal forecasts, std above 0.
    samples : array_like of shape (n, m)
        In place of them, draws from each forecast, two at least.
    sample_weight : array_like of shape (n,), optional
    data : optional
        As in `calibration_error`: the others are then names of columns, of samples several or a
        pattern; one of mean and std may still be a number.

    Returns
    -------
    MeanScore

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    pinball_loss : of quantiles.
    skill_score : against a reference.

    Examples
    --------
    >>> print(crps([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]))
    CRPS = 0.4181 (standard error 0.1844), n = 2
      about 2 rows decide it: the interval may be too short
    """
    forecasts = {"mean": mean, "std": std, "samples": samples}
    came = [f"{name}=" for name, value in forecasts.items() if value is not None]
    if came not in (["mean=", "std="], ["samples="]):
        raise InvalidArgumentError(
            "crps needs mean= and std= of normal forecasts, or samples= of any other; got "
            f"{' and '.join(came) or 'neither'}."
        )
    if data is not None and samples is not None:
        y_true, samples, sample_weight = read_real_columns(data, y_true, samples, sample_weight)
    elif data is not None:
        names = [name for name in (mean, std) if not is_real(name)]
        if not names:
            raise InvalidArgumentError(
                "With data=, mean or std must name a column, or samples several; got numbers, "
                f"mean={mean:g} and std={std:g}. For one forecast of all rows pass y_true as an "
                "array, without data=."
            )
        y_true, table, sample_weight = read_real_columns(data, y_true, names, sample_weight)
        columns = iter(table.T)
        mean, std = (x if is_real(x) else next(columns) for x in (mean, std))
    y = _column(y_true, "y_true")
    if not y.size:
        raise EmptyInputError("y_true has no rows; at least one is needed.")
    weights = read_some_weight(sample_weight, len(y))
    if samples is None:
        mu, sigma = _normal(mean, std, len(y))
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused below
            z = (y - mu) / sigma
            density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
            scores = sigma * (z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
        return stats.MeanScore.of("CRPS", scores, weights)
    x = np.sort(_samples(samples, len(y)), axis=1)
    m = x.shape[1]
    pairs = x @ (2 * np.arange(1, m + 1) - m - 1) * 2 / (m * (m - 1))
    scores = np.abs(x - y[:, None]).mean(axis=1) - pairs / 2
    return stats.MeanScore.of("CRPS", scores, weights)


def normal_quantiles(mean: Any, std: Any, levels: npt.ArrayLike) -> FloatArray:
    """Return the quantiles of normal forecasts at these levels, of shape (n, L).

    Parameters
    ----------
    mean, std : array_like of shape (n,), or a number
        Standard deviations must be above 0.
    levels : array_like
        Ascending, between 0 and 1; pass the same as ``classes=``.

    Returns
    -------
    ndarray of shape (n, L)
        ``mean + std * z(level)`` with z the quantiles of the standard normal distribution.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    sample_quantiles : of forecasts that are samples.

    Examples
    --------
    >>> normal_quantiles([0.0, 10.0], 1.0, [0.5, 0.975]).round(2)
    array([[ 0.  ,  1.96],
           [10.  , 11.96]])
    """
    probabilities = _levels(levels)
    mu, sigma = _normal(mean, std, None)
    return np.asarray(mu[:, None] + sigma[:, None] * special.ndtri(probabilities))


def sample_quantiles(samples: Any, levels: npt.ArrayLike) -> FloatArray:
    """Return quantiles of forecasts that are given by m samples each, of shape (n, L).

    The outcome of a calibrated forecast is like one sample more: it is at most the j-th smallest of
    m samples with probability j / (m + 1). So the quantile at level tau is the sample of rank
    tau (m + 1), between two of them by linear interpolation; levels beyond the outermost ranks
    have none and are refused.

    Parameters
    ----------
    samples : array_like of shape (n, m)
    levels : array_like
        Ascending, between 1 / (m + 1) and m / (m + 1).

    Returns
    -------
    ndarray of shape (n, L)

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    normal_quantiles : of normal forecasts.

    Examples
    --------
    >>> sample_quantiles([[3.0, 1.0, 2.0]], [0.25, 0.5, 0.75])
    array([[1., 2., 3.]])
    """
    probabilities, x = _levels(levels), _samples(samples, None)
    m = x.shape[1]
    outside = (probabilities < (1 - 1e-12) / (m + 1)) | (probabilities > (m + 1e-12) / (m + 1))
    if outside.any():
        raise InvalidArgumentError(
            f"{m:,} samples have quantiles at levels from {1 / (m + 1):.4g} to {m / (m + 1):.4g}; "
            f"{int(outside.sum()):,} of {outside.size:,} levels are beyond (first: "
            f"{probabilities[outside][0]:g}). Leave them out, or draw more samples."
        )
    return np.quantile(x, probabilities, axis=1, method="weibull").T


def _levels(levels: npt.ArrayLike) -> FloatArray:
    """Return checked levels of quantiles."""
    values = list(np.ravel(levels if hasattr(levels, "dtype") else np.asarray(levels, object)))
    problem: Problem = read_problem("quantile", len(values) or 1, values or None)
    return np.array(problem.class_names, np.float64)


def _column(values: Any, name: str) -> FloatArray:
    """Return finite numbers of one column, checked; a single number is a column of one row."""
    single = is_real(values) or getattr(values, "ndim", None) == 0
    x = as_array([values] if single else values, name)
    if x.ndim > 1 and x.size != len(x):
        raise InvalidShapeError(
            f"{name} must be one column, shape (n,) or (n, 1); got {x.shape}. Score one outcome at "
            "a time."
        )
    return read_real(x.ravel(), name)


def _normal(mean: Any, std: Any, n: int | None) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of n rows, or of as many as they have, checked."""
    mu, sigma = _column(mean, "mean"), _column(std, "std")
    n = max(mu.size, sigma.size) if n is None else n
    for name, x in (("mean", mu), ("std", sigma)):
        if x.size not in (1, n):
            raise LengthMismatchError(
                f"{name} must be a number or have one value per row, {n:,}; got {x.size:,}."
            )
    wrong = ~(sigma > 0)
    if wrong.any():
        first = int(wrong.argmax())
        raise InvalidInputError(
            f"Standard deviations must be above 0; {int(wrong.sum()):,} of {sigma.size:,} are not "
            f"(first: std[{first}] = {sigma[first]:g}). Leave out forecasts without spread."
        )
    return np.broadcast_to(mu, n), np.broadcast_to(sigma, n)


def _samples(samples: Any, n: int | None) -> FloatArray:
    """Return samples as a table of n rows, checked."""
    x = as_array(samples, "samples")
    if x.ndim != 2 or x.shape[1] < 2 or len(x) != (len(x) if n is None else n):
        rows = "" if n is None else f" of {n:,} rows"
        raise InvalidInputError(
            f"samples must be a table{rows} with two samples a row at least; got shape {x.shape}. "
            "Put the draws of a row side by side."
        )
    return read_real(x.ravel(), "samples").reshape(x.shape)
