"""Forecasts of real outcomes by quantiles: coverage, PIT, pinball loss.

A normal forecast, or samples of any other, is turned into quantiles by `normal_quantiles` and
`sample_quantiles` of `calibrant.distributions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from calibrant import stats
from calibrant.exceptions import InvalidInputError
from calibrant.problem import Kind
from calibrant.sources import read
from calibrant.sources.events import read_forecasts
from calibrant.sources.groups import (
    clustered_rows,
    one_of_each,
    one_of_each_by_group,
    read_clustered,
)
from calibrant.stats.quantile_coverage import central_intervals, nominal_coverage


class _CoverageOptions(TypedDict, total=False):
    classes: Sequence[float] | None
    confidence_level: float
    simultaneous: bool
    data: Any
    cluster: Any


@overload
def certify_coverage(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_CoverageOptions]
) -> stats.CoverageCertificate: ...
@overload
def certify_coverage(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_CoverageOptions]
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
    cluster: Any = None,
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
        of groups. Not that of a certificate of clusters, which is the best of several draws.
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
    cluster : array_like or column name, optional
        The series, patient or shop of each row, where rows of one depend on each other. One row of
        each is drawn at random, with the same seed always: those are independent, whatever the
        dependence, and the limits are about a random row of a random cluster. With `by`, one row
        of each cluster of a group is drawn.

    Returns
    -------
    CoverageCertificate
        With `by`, a `GroupCoverage`: a mapping from the key of each group to its certificate.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

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
    >>> from calibrant import normal_quantiles
    >>> q = normal_quantiles(np.zeros(2000), np.ones(2000), (0.05, 0.5, 0.95))
    >>> print(certify_coverage(y, q, classes=(0.05, 0.5, 0.95)))
    with 95% confidence the 90% intervals cover 88.6% to 92.0% (observed 90.4%)
       level  covered   limits
        0.05   0.0500   [0.0386, 0.0635]
         0.5   0.5170   [0.4888, 0.5451]
        0.95   0.9540   [0.9410, 0.9649]
    all limits at once at 95%, n = 2,000
    """
    kind: Kind | None = None if y_prob is None else "quantile"  # tables carry their kind
    source, clustered = read_clustered(
        y_true, y_prob, kind, "probabilities", classes, None, None, data, by, cluster
    )
    options: Any = {"confidence_level": confidence_level, "simultaneous": simultaneous}
    if clustered:
        # One draw, as `certify` has by groups: of several, each limit would be that of another
        # draw, and need not hold the share that is printed beside it.
        rows, options["draws"] = clustered_rows(source), 1
        source = one_of_each(rows, 0) if by is None else one_of_each_by_group(rows, 0)[0]
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
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    PitDisplay : draws it.

    Examples
    --------
    >>> import numpy as np
    >>> y, levels = np.random.default_rng(0).normal(size=2000), (0.25, 0.5, 0.75)
    >>> from calibrant import normal_quantiles
    >>> print(pit_histogram(y, normal_quantiles(np.zeros(2000), 0.7, levels), classes=levels))
                  cell      rows  density   if calibrated
             [0, 0.25]       666    1.332   [0.904, 1.098] *
           (0.25, 0.5]       368    0.736   [0.904, 1.098] *
           (0.5, 0.75]       346    0.692   [0.904, 1.098] *
             (0.75, 1]       620    1.240   [0.904, 1.098] *
    4 of 4 cells beyond chance, n = 2,000
    """
    kind: Kind | None = None if y_prob is None else "quantile"
    source = read(y_true, y_prob, kind=kind, classes=classes, data=data)
    options: Any = {"confidence_level": confidence_level, "simultaneous": simultaneous}
    return stats.pit_histogram(source.tabulate("auto"), **options)


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
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

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
      about 1 row decides it: the interval may be too short
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
    pairs = central_intervals(levels)
    widths = {
        float(nominal): float(np.average(q[:, j] - q[:, i], weights=weights))
        for nominal, (i, j) in zip(nominal_coverage(levels, pairs), pairs, strict=True)
    }
    per_level = dict(zip(levels.tolist(), means.tolist(), strict=True))
    return stats.MeanScore.of("pinball loss", losses.mean(axis=1), weights, per_level, widths)
