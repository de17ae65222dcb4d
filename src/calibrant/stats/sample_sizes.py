"""How many rows a recalibrator needs, and how many bins suit them: formulas, before any label."""

from __future__ import annotations

import math
from typing import Literal

from calibrant._bins_argument import auto_n_bins
from calibrant._options import is_among, is_integer, is_real
from calibrant._scipy import special
from calibrant.bins import MOST_BINS
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats.intervals import check_level

MOST_ROWS = 10**15
"""Rows that may be planned for: beyond, whole numbers are no longer told apart by floats."""


def samples_to_balance(n_bins: int, *, balance: float = 2.0, confidence_level: float = 0.95) -> int:
    """Return how many rows make uniform-mass bins well-balanced: the constant of Lemma 4.3.

    A bin that holds k of n independent scores has probability Beta(k, n + 1 - k). All bins lie
    between 1 / (balance B) and balance / B with probability at least
    ``1 - B (P(Beta < 1 / (balance B)) + P(Beta > balance / B))``.

    Parameters
    ----------
    n_bins : int
        The number B of bins.
    balance : float
        Above 1.
    confidence_level : float

    Returns
    -------
    int

    Examples
    --------
    >>> samples_to_balance(10) / 10, samples_to_balance(100) / 100
    (18.0, 30.0)
    """
    check_level(confidence_level)
    check_bins(n_bins)
    if not (is_real(balance) and balance > 1):
        raise InvalidArgumentError(f"balance must exceed 1; got {balance!r}.")
    if n_bins == 1:
        return 1

    def enough(k: int) -> bool:
        if n_bins * k > 2 * MOST_ROWS:
            raise InvalidArgumentError(
                f"balance must be far enough from 1; with {balance!r} more than 1e15 rows would be "
                "needed. Ask for a larger balance, such as 2."
            )
        beta = n_bins * k + 1 - k
        light = special.betainc(k, beta, 1 / (balance * n_bins))
        heavy = special.betaincc(k, beta, min(balance / n_bins, 1.0))
        return bool(n_bins * (light + heavy) <= 1 - confidence_level)

    high = 1  # the least k that is enough, by doubling and bisection
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > max(1, low // 2000):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return n_bins * high


def samples_to_calibrate(
    max_error: float,
    *,
    n_bins: int = 10,
    method: Literal["scaling-binning", "histogram-binning"] = "scaling-binning",
    n_parameters: int = 2,
    confidence_level: float = 0.95,
) -> int:
    """Return how many rows a recalibrator needs to reach an l2 error of `max_error`.

    Parameters
    ----------
    max_error : float
        The l2 error to reach.
    n_bins : int
        The number B of bins.
    method : {"scaling-binning", "histogram-binning"}
    n_parameters : int
        Of the function that scaling-binning fits: 2 for Platt scaling, 3 for beta scaling.
    confidence_level : float
        The probability 1 - delta that the error is reached.

    Returns
    -------
    int
        The number of rows.

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value.

    See Also
    --------
    samples_to_certify : the rows that prove it, which must be others.
    recommended_bins : how many bins?

    Notes
    -----
    Histogram binning estimates B rates: its squared error is at most
    ``(B + 2 sqrt(B L) + 2 L) / (4 n)`` with ``L = log(1 / delta)``, for n rows spread evenly over
    bins that were fixed beforehand (sub-Gaussian labels). Scaling-binning estimates
    `n_parameters`: its squared error is at most about ``chi2 quantile / (4 n)`` in large samples,
    if some function of the family is calibrated; its bins only need to be well-balanced
    (`samples_to_balance`). That is Theorem 4.1 of the paper, O(1 / max_error^2 + B) against
    O(B / max_error^2), with numbers.

    References
    ----------
    Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS. Laurent, Massart (2000),
    Adaptive estimation of a quadratic functional by model selection, Annals of Statistics 28.

    Examples
    --------
    >>> samples_to_calibrate(0.02, n_bins=100), samples_to_calibrate(
    ...     0.02, n_bins=100, method="histogram-binning")
    (6745, 87880)
    """
    check_level(confidence_level)
    check_bins(n_bins)
    if not (is_real(max_error) and 1e-100 <= max_error < 1):
        raise InvalidArgumentError(f"max_error must lie between 0 and 1; got {max_error!r}.")
    if not (is_count(n_parameters)):
        raise InvalidArgumentError(
            f"n_parameters must be a whole number >= 1; got {n_parameters!r:.60}."
        )
    if is_among(method, ("histogram-binning",)):
        tail = -math.log1p(-confidence_level)
        return math.ceil((n_bins + 2 * math.sqrt(n_bins * tail) + 2 * tail) / (4 * max_error**2))
    if not is_among(method, ("scaling-binning",)):
        raise InvalidArgumentError(
            f'method must be "scaling-binning" or "histogram-binning"; got {method!r}.'
        )
    quantile = special.chdtri(n_parameters, 1 - confidence_level)
    fit = math.ceil(quantile / (4 * max_error**2))
    return fit + samples_to_balance(n_bins, confidence_level=confidence_level)


def histogram_binning_bound(n: int, n_bins: int, *, confidence_level: float = 0.95) -> float:
    """Bound the l2 error of histogram binning by its own training labels, without other rows.

    Given the predictions, the label mean of bin j has a sub-Gaussian error of variance
    1 / (4 N_j), so ``4 n`` times the squared error has exponential moments of at most those of a
    chi-square variable with `n_bins` degrees of freedom, and Chernoff's bound applies. Bins must
    have been chosen without labels, rows must be independent and unweighted. The statement is
    about the error on inputs like the training rows (``target="sample"``).

    Parameters
    ----------
    n, n_bins : int
        The numbers of rows and bins.
    confidence_level : float

    Returns
    -------
    float

    Examples
    --------
    >>> round(histogram_binning_bound(10_000, 10), 4)
    0.0251
    """
    check_level(confidence_level)
    check_bins(n_bins)
    _check_rows(n)
    tail = -2 * math.log1p(-confidence_level) / n_bins
    low, high = 1.0, 2 + 2 * tail + 2 * math.sqrt(tail)
    for _ in range(100):  # solve u - 1 - log u = tail for u > 1
        u = (low + high) / 2
        low, high = (u, high) if u - 1 - math.log(u) < tail else (low, u)
    return min(math.sqrt(n_bins * high / (4 * n)), 1.0)


def recommended_bins(
    n: int, *, purpose: Literal["evaluation", "histogram-binning"] = "evaluation"
) -> int:
    """Return how many bins suit n rows.

    Parameters
    ----------
    n : int
        The number of rows.
    purpose : {"evaluation", "histogram-binning"}
        To evaluate, or for scaling-binning: about ``0.8 n^(2/5)``, which balances what bins hide
        against what verification costs. For histogram binning: about ``n^(1/3)``, which balances
        the noise of the bin rates against the sharpness that bins lose.

    Returns
    -------
    int

    Raises
    ------
    InvalidArgumentError
        If an argument has an invalid value.

    See Also
    --------
    calibrant.calibration_error : takes the first by default, as ``bins="auto"``.
    samples_to_balance : the rows that uniform-mass bins need.

    Notes
    -----
    With B bins the squared error that bins hide falls as ``1 / B^2``, and the noise of its estimate
    grows as ``sqrt(B) / n``; both are equal at B of the order of ``n^(2/5)``.

    Examples
    --------
    >>> recommended_bins(10_000), recommended_bins(10_000, purpose="histogram-binning")
    (32, 22)
    """
    _check_rows(n)
    if is_among(purpose, ("evaluation",)):
        return auto_n_bins(n)
    if is_among(purpose, ("histogram-binning",)):
        return max(2, int(n ** (1 / 3) + 0.5))
    raise InvalidArgumentError(
        f'purpose must be "evaluation" or "histogram-binning"; got {purpose!r}.'
    )


def _check_rows(n: int) -> None:
    if not is_count(n):
        raise InvalidArgumentError(
            f"n must be at least 1, a whole number up to 1e15; got {n!r:.60}."
        )


def check_bins(n_bins: int) -> None:
    """Refuse anything but a number of bins that a table can have."""
    if not is_count(n_bins):
        raise InvalidArgumentError(
            f"n_bins must be at least 1, a whole number; got {n_bins!r:.60}."
        )
    if n_bins > MOST_BINS:
        raise InvalidArgumentError(
            f"n_bins must be at most {MOST_BINS:,}; got {n_bins:,}. No table has more bins."
        )


def is_count(n: object) -> bool:
    """Return whether n is a whole number of rows or bins that can be planned for."""
    return is_integer(n) and 1 <= n <= MOST_ROWS  # type: ignore[operator]
