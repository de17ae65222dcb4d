"""The front door for tests, and for bounds without bins: whether a model is off at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from calibrant import stats
from calibrant._types import FloatArray
from calibrant.bins import BinsLike
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Source, read
from calibrant.sources.groups import cluster_sums, clustered_rows, read_clustered
from calibrant.stats.estimators import class_weights
from calibrant.stats.hypothesis_tests import TestMethod, check_resamples
from calibrant.table import BinTable


def calibration_test(
    y_true: Any,
    y_prob: Any = None,
    *,
    method: TestMethod = "exact",
    bins: BinsLike = "auto",
    n_resamples: int = 1999,
    rng: np.random.Generator | int | None = None,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    cluster: Any = None,
) -> stats.CalibrationTestResult:
    r"""Test whether labels are what perfectly calibrated predictions would produce.

    A binary or top-label problem; for one class k of several pass ``y_true == k`` and its column.

    Parameters
    ----------
    method : str
        "exact" (standardised gaps in bins), "adaptive" (the same at several numbers of bins),
        "l2", "hosmer-lemeshow", "kuiper" (no bins), "spiegelhalter" (the Brier score) or "cox" (a
        logistic fit).
    bins : int, str, rule, Bins or array of edges
        For "exact", "l2" and "hosmer-lemeshow"; as in `calibration_error`. Rules see predictions
        only, so the level is kept.
    n_resamples : int
        Sets of labels drawn by all methods but "spiegelhalter" and "cox"; the p-value is at least
        ``1 / (n_resamples + 1)``, unless something happened that was predicted with probability 0.
    rng : numpy Generator or int, optional
        Source of these draws.
    y_true, y_prob, kind, classes, pos_label, data, input
        As in `calibration_error`. A table counted with ``bins="distinct"`` may stand in place of
        `y_true` and `y_prob`.
    cluster : array_like or column name, optional
        The patient, prompt or day of each row, where rows of one depend on each other. There is
        one test then, of the l2 error, and no other `method`; it needs many clusters.
        Of a log that repeats questions it is the question, unless False.

    Returns
    -------
    CalibrationTestResult
        With `statistic` and `pvalue`; "cox" returns a `CoxTestResult`, which has the fit as well.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    calibration_error : how large is the error?
    certify : is it larger, or smaller, than matters?

    Notes
    -----
    The statistic of "exact" adds up the squared gaps :math:`(\sum y - p)^2` of the bins, each
    standardised by its mean and variance if the model is calibrated. Methods that draw compare the
    statistic :math:`T` with the :math:`T_r` of :math:`R` (`n_resamples`) sets of labels that are
    drawn from the predictions themselves,

    .. math:: p = \frac{1 + \#\{r: T_r \ge T\}}{1 + R},

    which has the stated level at any number of rows. "spiegelhalter" and "cox" rest on large
    samples. Which one sees what is tabulated in the guide.

    References
    ----------
    Vaicenavicius et al. (2019), Evaluating model calibration in classification, AISTATS.
    Spiegelhalter (1986), Probabilistic prediction in patient management and clinical trials,
    Statistics in Medicine 5. Cox (1958), Two further applications of a model for binary regression,
    Biometrika 45. Hosmer, Lemeshow (1980), Goodness of fit tests for the multiple logistic
    regression model, Communications in Statistics 9.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=1000)
    >>> calibration_test(rng.uniform(size=1000) < p, p, method="spiegelhalter").pvalue > 0.01
    True
    """
    source, clustered = read_clustered(
        y_true, y_prob, kind, input, classes, pos_label, None, data, None, cluster
    )
    if clustered:
        if method != "exact":
            raise InvalidArgumentError(
                f"With cluster= there is one test, of the l2 error; got method={method!r:.60}. "
                "Leave the method out, or pass cluster=False if rows are independent."
            )
        rows = clustered_rows(source)
        table = rows.tabulate(bins)
        sums = cluster_sums(rows, table, class_weights(None, table.problem))
        check_resamples(n_resamples)
        return sums.test(n_resamples, rng)
    y, p = _events_or_table("calibration_test", source)
    return stats.calibration_test(y, p, method, bins, n_resamples, rng)


def bin_free_bounds(
    y_true: Any,
    y_prob: Any = None,
    *,
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.BinFreeBounds:
    """Bound the cumulative, cutoff and smooth calibration errors of any model, without bins.

    These are not the l1 or l2 calibration error, which no finite sample bounds from above for a
    continuous model. The statement is conditional on the predictions: it is about the average over
    these rows.

    Parameters
    ----------
    confidence_level : float
        Of all three at once.
    y_true, y_prob, kind, classes, pos_label, data, input
        As in `calibration_error`; binary and top-label problems. A table counted with
        ``bins="distinct"`` may stand in place of `y_true` and `y_prob`.

    Returns
    -------
    BinFreeBounds
        With the intervals `cumulative`, `cutoff` and `smooth`.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    certify : bounds of the l1 and l2 error for models with finitely many outputs.
    prequential_lower_bound : a lower bound of the l1 and l2 error for any model.

    Notes
    -----
    With D(a, b) the mean over rows of (E[y | p] - p) where a < p <= b and 0 elsewhere: the
    cumulative error is the largest D(0, b) in size, the cutoff error the largest D(a, b) of any
    interval, and the smooth error the largest mean of w(p) (E[y | p] - p) over weights w in
    [-1, 1] that change by at most one per unit of p. The proof is in `calibrant.stats.bin_free`.

    References
    ----------
    Blasiok, Gopalan, Hu, Nakkiran (2023), A unifying theory of distance from calibration, STOC.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=10_000)
    >>> bin_free_bounds(rng.uniform(size=10_000) < p, p).cutoff.high < 0.05
    True
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, data=data)
    y, p = _events_or_table("bin_free_bounds", source)
    return stats.bin_free_bounds(y, p, confidence_level)


def prequential_lower_bound(
    y_true: Any,
    y_prob: Any = None,
    *,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    method: Literal["mixture", "betting", "normal"] = "mixture",
    rng: np.random.Generator | int | None = 0,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
) -> stats.MiscalibrationBound:
    r"""Prove miscalibration of any model: bound its true calibration error from below.

    Curves fitted to the past bet on the next labels, and likelihood ratios look at 1, 2, 4, ..., 64
    bins, under one error probability. The statement is about the population.

    Parameters
    ----------
    norm : {"l1", "l2"}
    confidence_level : float
        One-sided: the error is at least `value` with this probability.
    method : {"mixture", "betting", "normal"}
        "mixture" shares the error probability between bets and likelihood ratios in bins: mostly
        the largest bound that holds at any n. "betting" has the bets alone. "normal" is larger,
        and right in the limit only.
    rng : numpy Generator or int, optional
        Draws the order of the rows; by default the same rows give the same bound.
    y_true, y_prob, kind, classes, pos_label, data, input
        As in `calibration_error`; binary and top-label problems.

    Returns
    -------
    MiscalibrationBound
        A number with `value`, `norm`, `method` and `n`.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

    See Also
    --------
    certify : its lower bound can be checked again from a table; bets cannot.
    CalibrationMonitor : bets on batches as they come.

    Notes
    -----
    Before its label is seen, row i gets a weight :math:`w_i \in \{-1, 1\}`, the sign of what a
    curve fitted to earlier rows expects of y - p. Whatever the weights,

    .. math:: E[w_i (y_i - p_i)] \le E|E[y | p] - p|,

    so the mean gain exceeds the l1 error, and thereby the l2 error, by chance only. How much by
    chance is bounded by betting.

    References
    ----------
    Waudby-Smith, Ramdas (2024), Estimating means of bounded random variables by betting, Journal of
    the Royal Statistical Society B 86.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> p = rng.uniform(size=10_000)
    >>> float(prequential_lower_bound(rng.uniform(size=10_000) < p**2, p)) > 0.1
    True
    """
    source = read(y_true, y_prob, kind, input, classes, pos_label, data=data)
    check_one_event("prequential_lower_bound", source)
    y, p = source.columns().events()
    return stats.prequential_lower_bound(y, p, norm, confidence_level, method, rng)


def _events_or_table(
    function: str, source: Source
) -> tuple[FloatArray | BinTable, FloatArray | None]:
    """Return events and predictions of a binary or top-label problem, or a table of both."""
    if not source.has_rows:
        return source.tabulate("auto"), None
    check_one_event(function, source)
    return source.columns().events()


def check_one_event(function: str, source: Source) -> None:
    """Refuse a problem of several events a row, and say how to pass one of them."""
    kind = source.problem.kind
    advice = {
        "marginal": "For class k pass y_true == k and y_prob[:, k].",
        "multi-label": "For label k pass y_true[:, k] and y_prob[:, k].",
        "ordinal": "For class k or a lower one pass y_true <= k and the sum of their columns.",
        "quantile": "Quantiles are judged by calibration_error, certify and certify_coverage.",
    }
    if kind in advice:
        raise InvalidArgumentError(
            f'{function} needs a binary or top-label problem; kind is "{kind}". {advice[kind]}'
        )
