"""Forecasts of real outcomes: coverage, PIT, pinball loss, CRPS.

Quantiles are the one form that all of these read. A normal forecast, or samples of any other, is
turned into quantiles by `normal_quantiles` and `sample_quantiles`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from calibrant import stats
from calibrant._scipy import special
from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidInputError, LengthMismatchError
from calibrant.problem import Kind, Problem, read_problem
from calibrant.sources import Source, read
from calibrant.sources.arrays import as_array, read_weights
from calibrant.sources.events import read_forecasts, read_outcomes, read_real
from calibrant.stats.quantile_coverage import central_intervals


@overload
def certify_coverage(
    y_true: Any,
    y_prob: Any = ...,
    *,
    classes: Sequence[float] | None = ...,
    confidence_level: float = ...,
    simultaneous: bool = ...,
    data: Any = ...,
    by: None = None,
) -> stats.CoverageCertificate: ...


@overload
def certify_coverage(
    y_true: Any,
    y_prob: Any = ...,
    *,
    classes: Sequence[float] | None = ...,
    confidence_level: float = ...,
    simultaneous: bool = ...,
    data: Any = ...,
    by: Any,
) -> stats.GroupCoverage: ...


def certify_coverage(
    y_true: Any,
    y_prob: Any = None,
    *,
    classes: Sequence[float] | None = None,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    data: Any = None,
    by: Any = None,
) -> stats.CoverageCertificate | stats.GroupCoverage:
    """Bound the coverage of predicted quantiles and central intervals, exactly.

    The share of outcomes that are at most a predicted quantile, and of those between the quantiles
    at tau and 1 - tau, with limits that hold at any number of rows; see
    `calibrant.stats.quantile_coverage` for the proof. ``certify(kind="quantile")`` gives one
    verdict on the distance of all coverages from their levels.

    Parameters
    ----------
    y_true : array_like of shape (n,), or BinTable
        Real outcomes; or a table of kind "quantile", such as that of a certificate, or the `Tables`
        of groups.
    y_prob : array_like of shape (n, L)
        Predicted quantiles, in the order of their levels. An outcome at the quantile is covered.
    classes : sequence of float
        The levels, ascending, between 0 and 1.
    confidence_level : float
        Of all limits at once.
    simultaneous : bool
        False: of each limit by itself.
    data, by : optional
        As in `calibration_error`. Of groups, all limits of all groups hold at once.

    Returns
    -------
    CoverageCertificate
        With `by`, a `GroupCoverage`: a mapping from the key of each group to its certificate.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    certify : one verdict for all levels.
    pit_histogram : where outcomes fall between the levels.

    Notes
    -----
    The number of covered outcomes is binomial, so the limits of Clopper and Pearson are exact;
    several statements share the error probability, and so do groups.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.random.default_rng(0).normal(size=2000)
    >>> q = normal_quantiles(np.zeros(2000), np.ones(2000), (0.05, 0.5, 0.95))
    >>> print(certify_coverage(y, q, classes=(0.05, 0.5, 0.95)))
    with 95% confidence the 90% intervals cover 88.6% to 92.0% (observed 90.4%)
       level  covered   limits
        0.05   0.0500   [0.0386, 0.0635]
         0.5   0.5170   [0.4888, 0.5451]
        0.95   0.9540   [0.9410, 0.9649]
    all limits at once at 95%, n = 2,000
    """
    source = _source(y_true, y_prob, classes, data, by)
    options: Any = {"confidence_level": confidence_level, "simultaneous": simultaneous}
    if source.by:
        return stats.group_coverage(source.tabulate_by("auto"), **options)
    return stats.certify_coverage(source.tabulate("auto"), **options)


def pit_histogram(
    y_true: Any,
    y_prob: Any = None,
    *,
    classes: Sequence[float] | None = None,
    confidence_level: float = 0.95,
    simultaneous: bool = True,
    data: Any = None,
) -> stats.PitHistogram:
    """Count outcomes between predicted quantiles: the histogram of the PIT, with bands.

    If quantiles are calibrated, a share of ``levels[k + 1] - levels[k]`` of all outcomes lies
    between two of them. A hump in the middle means forecasts that are too wide, a cup too narrow
    ones, a slope biased ones (Dawid, 1984; Gneiting, Balabdaoui and Raftery, 2007).

    Parameters
    ----------
    y_true, y_prob, classes, data
        As in `certify_coverage`. Levels 0.1, 0.2, ..., 0.9 give the usual ten cells.
    confidence_level : float
        Calibrated quantiles leave the band of all cells with the probability that is left.
    simultaneous : bool
        False: the band of each cell by itself.

    Returns
    -------
    PitHistogram

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    PitDisplay : draws it.

    Examples
    --------
    >>> import numpy as np
    >>> y, levels = np.random.default_rng(0).normal(size=2000), (0.25, 0.5, 0.75)
    >>> print(pit_histogram(y, normal_quantiles(np.zeros(2000), 0.7, levels), classes=levels))
                  cell      rows  density   if calibrated
             [0, 0.25]       666    1.332   [0.904, 1.098] *
           (0.25, 0.5]       368    0.736   [0.904, 1.098] *
           (0.5, 0.75]       346    0.692   [0.904, 1.098] *
             (0.75, 1]       620    1.240   [0.904, 1.098] *
    4 of 4 cells beyond chance, n = 2,000
    """
    table = _source(y_true, y_prob, classes, data).tabulate("auto")
    return stats.pit_histogram(table, confidence_level=confidence_level, simultaneous=simultaneous)


def _source(y_true: Any, y_prob: Any, classes: Any, data: Any, by: Any = None) -> Source:
    kind: Kind | None = "quantile" if y_prob is not None else None  # a table knows its kind
    return read(y_true, y_prob, kind=kind, classes=classes, data=data, by=by)


def pinball_loss(
    y_true: Any,
    y_prob: Any,
    *,
    classes: Sequence[float] | None = None,
    sample_weight: Any = None,
    data: Any = None,
) -> stats.MeanScore:
    """Score predicted quantiles by the pinball loss, averaged over rows and levels.

    The loss of a quantile q at level tau is ``(y - q) (tau - [y < q])``, which the true quantile
    minimises (Koenker and Bassett, 1978). Twice the mean over evenly spaced levels approximates
    the CRPS. The result has the mean loss at each level and the sharpness: the mean width of each
    central interval.

    Parameters
    ----------
    y_true, y_prob, classes, data
        As in `certify_coverage`; quantiles must be finite.
    sample_weight : array_like of shape (n,), optional
        Importance weights; their scale does not matter.

    Returns
    -------
    MeanScore

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    crps : of whole distributions.
    certify_coverage : whether levels are what they say.

    Examples
    --------
    >>> print(pinball_loss([0.0, 1.0, 5.0], [[-1, 2], [0, 2], [1, 3]], classes=(0.1, 0.9)))
    pinball loss = 0.4500 (standard error 0.3253), n = 3
      level 0.1: 0.2000
      level 0.9: 0.7000
      80% intervals are 2.333 wide on average
    """
    problem, y, q, weights = read_forecasts(y_true, y_prob, classes, sample_weight, data)
    if not np.isfinite(q).all():
        row, column = np.argwhere(~np.isfinite(q))[0]
        raise InvalidInputError(
            f"The pinball loss needs finite quantiles; {int((~np.isfinite(q)).sum()):,} of "
            f"{q.size:,} are infinite (first: y_prob[{row}, {column}] = {q[row, column]:g}). "
            "Leave out the levels at which they are."
        )
    levels = np.array(problem.class_names, np.float64)
    above = y[:, None] - q
    losses = np.maximum(levels * above, (levels - 1) * above)
    means = np.average(losses, axis=0, weights=weights)
    widths = {
        float(levels[j] - levels[i]): float(np.average(q[:, j] - q[:, i], weights=weights))
        for i, j in central_intervals(levels)
    }
    per_level = dict(zip(levels.tolist(), means.tolist(), strict=True))
    return stats.MeanScore.of("pinball loss", losses.mean(axis=1), weights, per_level, widths)


def crps(
    y_true: Any,
    *,
    mean: Any = None,
    std: Any = None,
    samples: Any = None,
    sample_weight: Any = None,
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

    Returns
    -------
    MeanScore

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    pinball_loss : of quantiles.
    skill_score : against a reference.

    Examples
    --------
    >>> print(crps([0.0, 1.0], mean=[0.0, 0.0], std=[1.0, 1.0]))
    CRPS = 0.4181 (standard error 0.1844), n = 2
    """
    y = read_outcomes(as_array(y_true, "y_true").ravel())
    weights = read_weights(sample_weight, len(y))
    if (samples is None) == (mean is None or std is None):
        raise InvalidArgumentError(
            "crps needs mean= and std= of normal forecasts, or samples= of any other; got "
            f"{'neither' if samples is None else 'both'}."
        )
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
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

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
    n = max(np.size(mean), np.size(std))
    mu, sigma = _normal(mean, std, n)
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
    InvalidInputError
        If the rows cannot be read as outcomes and forecasts; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

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
    given = np.ravel(np.asarray(levels, object)).tolist()
    problem: Problem = read_problem("quantile", len(given) or 1, given or None)
    return np.array(problem.class_names, np.float64)


def _normal(mean: Any, std: Any, n: int) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of n rows, checked."""
    mu, sigma = (
        read_real(np.atleast_1d(np.asarray(x)).ravel(), name)
        for x, name in ((mean, "mean"), (std, "std"))
    )
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
