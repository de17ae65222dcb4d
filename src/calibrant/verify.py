"""The other front door: what can be proved of predictions, and whether two models differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from calibrant import stats
from calibrant._digests import Digests, digest_of_columns
from calibrant._options import generator, is_among, is_real
from calibrant._types import FloatArray
from calibrant.bins import BinsLike, Distinct
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.groups import required
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Source, in_memory, read
from calibrant.sources.clusters import cluster_column, cluster_sums, clustered_rows, one_of_each
from calibrant.stats.estimators import ClassWeight, Norm, Target, cells_of, class_weights
from calibrant.stats.hypothesis_tests import TestMethod, check_resamples
from calibrant.stats.intervals import check_level
from calibrant.stats.label_shift import carried, carried_to_predictions
from calibrant.stats.questions import MinBinMass, Question
from calibrant.stats.results import UNRESOLVED_LIMIT
from calibrant.table import BinTable
from calibrant.tables import Tables


@overload
def certify(
    y_true: Any,
    y_prob: Any = ...,
    *,
    max_error: float | None = ...,
    norm: Norm = ...,
    confidence_level: float = ...,
    kind: Kind | None = ...,
    bins: BinsLike | None = ...,
    target: Target = ...,
    min_bin_mass: MinBinMass = ...,
    levels: ArrayLike | None = ...,
    looks: int = ...,
    class_weight: ClassWeight = ...,
    classes: Sequence[Label] | None = ...,
    pos_label: Label | None = ...,
    data: Any = ...,
    input: Input = ...,
    by: None = None,
    shared_bins: bool = ...,
    cluster: Any = ...,
) -> stats.Certificate: ...


@overload
def certify(
    y_true: Any,
    y_prob: Any = ...,
    *,
    max_error: float | None = ...,
    norm: Norm = ...,
    confidence_level: float = ...,
    kind: Kind | None = ...,
    bins: BinsLike | None = ...,
    target: Target = ...,
    min_bin_mass: MinBinMass = ...,
    levels: ArrayLike | None = ...,
    looks: int = ...,
    class_weight: ClassWeight = ...,
    classes: Sequence[Label] | None = ...,
    pos_label: Label | None = ...,
    data: Any = ...,
    input: Input = ...,
    by: Any,
    shared_bins: bool = ...,
    cluster: Any = ...,
) -> stats.GroupCertificates: ...


def certify(
    y_true: Any,
    y_prob: Any = None,
    *,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    bins: BinsLike | None = None,
    target: Target = "population",
    min_bin_mass: MinBinMass = None,
    levels: ArrayLike | None = None,
    looks: int = 1,
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",  # noqa: A002
    by: Any = None,
    shared_bins: bool = True,
    cluster: Any = None,
) -> stats.Certificate | stats.GroupCertificates:
    r"""Certify, refute, or leave undecided that a calibration error is at most `max_error`.

    The bounds hold at any sample size, without approximation, under the assumptions that the
    certificate lists: independent rows whose labels were not used to make the model's outputs.
    A model with finitely many outputs can be certified or refuted. One with continuous outputs can
    only be refuted, because no number of bins bounds its error from above (Example 3.1).

    Parameters
    ----------
    max_error : float, optional
        The tolerance; without it there is no verdict, only bounds.
    norm : {"l2", "l1", "max"}
    confidence_level : float
        Of each bound by itself: whatever the truth, only one of the two can mislead a verdict.
    bins : optional
        By default `Distinct()`: each distinct output its own bin. If more than 5% of the rows have
        an output that no other row has, the outputs are taken as continuous and counted in
        ``"auto"`` bins (for many classes also if most of the first million values differ).
    target : {"population", "sample"}
        The error in the population that the rows come from, or on inputs like these rows. With
        many classes the second has by far the lower bound (not for ``norm="max"``).
    min_bin_mass : float or "learned", optional
        A known lower bound of the probability of every output, or "learned" if the table has all
        outputs and the bound may be inferred from the counts. Either sharpens the bound.
    levels : array-like, optional
        All outputs that the model can give, such as ``recalibrator.levels_``, if they were known
        before these rows. Then bounds are tuned to them: outputs near 0 and 1 have little label
        noise, and few outputs are easier than many. Never pass the outputs that the rows happen to
        show, unless no others exist.
    looks : int
        How often these rows will be certified as they grow, this time included; it divides the
        error probability. Give k at each of k looks; or i * (i + 1) at the i-th of any number,
        since 1/2 + 1/6 + 1/12 + ... = 1. The numbers of rows must be fixed before the first look.
        Certifying a growing sample with ``looks=1`` until it passes proves less than it says.
    y_true, y_prob, kind, class_weight, classes, pos_label, data, input
        As in `calibration_error`; a `BinTable` may stand in place of `y_true` and `y_prob`.
    by, shared_bins
        As in `calibration_error`: a certificate for each group, each with its confidence by itself.
        `audit` gives statements that hold for all groups at once.
    cluster : array_like or column name, optional
        The patient, prompt or day of each row, where rows of one depend on each other. One row of
        each is drawn at random, always the same, and certified: those are independent, whatever
        the dependence. The statement is then about a random row of a random cluster.

    Returns
    -------
    Certificate
        With `by`, a `GroupCertificates`: a mapping from the key of each group to its certificate.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    Recalibrator.certify : applies a repair and certifies it, with the outputs that it declares.
    audit : verdicts for all groups at once.
    recheck : checks a certificate against its rows.
    samples_to_certify : how many rows will be needed?

    Notes
    -----
    A model that gives output :math:`s_j` with probability :math:`\pi_j`, after which events happen
    at the rate :math:`\theta_j`, has the l2 error

    .. math:: t = \left( \sum_j \pi_j (\theta_j - s_j)^2 \right)^{1/2}.

    Given how many rows each output has, the numbers of events are independent binomials. Every t
    for which the observed counts would be less probable than 1 - `confidence_level`, at the worst
    rates that t allows, is rejected; the largest t that is not rejected is the upper bound.

    References
    ----------
    Kumar, Liang, Ma (2019), Verified uncertainty calibration, NeurIPS: Proposition 3.2 and
    Example 3.1, why continuous outputs cannot be certified.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> y = rng.uniform(size=20_000) < p
    >>> print(certify(y, p, max_error=0.03))
    certified: with 95% confidence the binary error is at most 0.0059 <= 0.03 (n = 20,000, ...
    """
    source = read(
        y_true,
        y_prob,
        kind=kind,
        input=input,
        classes=classes,
        pos_label=pos_label,
        data=data,
        by=by if cluster is None else cluster_column(cluster, data, by),
    )
    options: dict[str, Any] = {"max_error": max_error, "norm": norm, "target": target}
    options |= {"confidence_level": confidence_level, "min_bin_mass": min_bin_mass}
    options |= {"levels": levels, "looks": looks, "class_weight": class_weight}
    if cluster is not None:
        source = one_of_each(clustered_rows(source))
        options["from_clusters"] = True
    elif source.by:
        return stats.group_certificates(tabulate_groups(source, bins, shared_bins), **options)
    source.keep_digest()
    table = tabulate_outputs(source) if bins is None else source.tabulate(bins)
    return stats.certify(table, **options, digests=_digests(source))


def recheck(
    certificate: stats.Certificate,
    y_true: Any,
    y_prob: Any = None,
    *,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",  # noqa: A002
) -> stats.Recheck:
    """Check a certificate against its own table, and its table against the rows themselves.

    The rows are counted again in the bins of the certificate: counts and levels must be equal, sums
    up to rounding. If the certificate carries a digest of rows, that of these rows must be
    the same. Rows may come in any order.

    Parameters
    ----------
    certificate : Certificate
    y_true, y_prob, data, input
        As in `certify`. What a recalibrator answered is checked by `Recalibrator.recheck`.
    classes, pos_label : optional
        As they were given to `certify`; by default those that the certificate names.

    Returns
    -------
    Recheck
        True if all agrees; as text it says what does not.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    Certificate.recheck : without the rows, from the document alone.
    Recalibrator.recheck : with the recalibrator whose outputs were certified.

    Examples
    --------
    >>> y, p = [0, 1, 0, 1] * 100, [0.25, 0.5, 0.5, 0.75] * 100
    >>> certificate = certify(y, p, max_error=0.5)
    >>> print(recheck(certificate, y[::-1], p[::-1]))
    agrees: the table proves what the certificate says, and these are its rows
    >>> bool(recheck(certificate, [1, *y[1:]], p))
    False
    """
    meaning = _meaning(certificate, classes, pos_label)
    source = read(y_true, y_prob, input=input, data=data, **meaning)
    source.keep_digest()
    return recheck_source(certificate, source)


def check_certificate(certificate: object) -> None:
    """Refuse what is no certificate."""
    if not isinstance(certificate, stats.Certificate):
        raise InvalidArgumentError(
            "certificate must be a Certificate, such as certify gives or Certificate.from_json "
            f"reads; got {certificate!r:.60}."
        )


def _meaning(
    certificate: stats.Certificate,
    classes: Sequence[Label] | None,
    pos_label: Label | None,
) -> dict[str, Any]:
    """Return how rows are to be read: as the certificate's problem."""
    check_certificate(certificate)
    problem = certificate.table.problem
    if classes is None and pos_label is None:
        classes, pos_label = problem.classes, problem.pos_label
    return {"kind": problem.kind, "classes": classes, "pos_label": pos_label}


def recheck_source(
    certificate: stats.Certificate, source: Source, digests: Digests | None = None
) -> stats.Recheck:
    """Check a certificate against rows that were read; the digests may be from before a repair."""
    own = certificate.table
    if source.problem != own.problem:
        check = certificate.recheck()
        other = f"the rows pose another problem: {source.problem}, the certificate {own.problem}"
        return replace(check, agrees=False, differences=(*check.differences, other))
    table = source.count(own.bins)
    return certificate.recheck(table, digests or _digests(source))


def _digests(source: Source) -> Digests:
    """Return the digests of the rows, and of the names of their columns; arrays have no names."""
    names = source.names
    columns = None if names is None else digest_of_columns(names[0], names[1:])
    return Digests(source.digest(), columns=columns)


def tabulate_outputs(source: Source) -> BinTable:
    """Count each distinct output in its own bin, or continuous outputs in ``"auto"`` bins.

    Outputs are continuous if more than 5% of the rows have one that no other row has, or if the
    source tells so without counting them all.
    """
    if not source.has_rows:
        return source.tabulate("auto")
    if not source.looks_continuous():
        table = source.tabulate(Distinct())
        if float(cells_of(table).unresolved_mass.max()) <= UNRESOLVED_LIMIT:
            return table
    return source.tabulate("auto")


def audit(
    y_true: Any,
    y_prob: Any = None,
    *,
    by: Any = None,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    bins: BinsLike | None = None,
    shared_bins: bool = True,
    target: Target = "population",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",  # noqa: A002
    rng: np.random.Generator | int | None = 0,
) -> stats.Audit:
    """Ask of every group whether its calibration error is at most `max_error`, all at once.

    With probability `confidence_level` none of the verdicts is wrong, however many groups there
    are: the error probability is split evenly among them. p-values against perfect calibration are
    adjusted by Holm's method, and one test asks whether the error is the same in all groups.

    Parameters
    ----------
    by
        What puts rows into groups, as in `calibration_error`; a column of several values that
        overlap is not one group but several audits.
    max_error : float, optional
        The tolerance; without it there are bounds and tests, and no verdicts.
    confidence_level : float
        Of all verdicts together.
    bins, shared_bins
        As in `certify` and `calibration_error`.
    rng : numpy Generator or int
        Of the test whether groups differ.
    y_true, y_prob, norm, kind, target, class_weight, classes, pos_label, data, input
        As in `certify`; `Tables` may stand in place of `y_true`, `y_prob` and `by`.

    Returns
    -------
    Audit
        A mapping from the key of a group to its certificate; the worst group is printed first.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    certify : one statement; with ``by=`` one for each group, each by itself.
    calibration_error : with ``by=`` the estimates of all groups.

    Notes
    -----
    Of G groups each has the error probability (1 - `confidence_level`) / G, so that by the union
    bound no verdict is wrong with probability `confidence_level`, whatever the dependence of
    groups. Holm's adjusted p-value of the k-th smallest of G is the largest of (G - i + 1) p_(i)
    over i <= k, at most 1.

    References
    ----------
    Holm (1979), A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=30_000) / 10
    >>> site = rng.choice(["east", "north", "west"], size=30_000)
    >>> y = rng.uniform(size=30_000) < np.where(site == "north", p**1.5, p)
    >>> result = audit(y, p, by=site, max_error=0.05)
    >>> [(group.group[0], group.verdict) for group in result.groups]
    [('north', 'refuted'), ('west', 'certified'), ('east', 'certified')]
    """
    source = read(
        y_true,
        y_prob,
        kind=kind,
        input=input,
        classes=classes,
        pos_label=pos_label,
        data=data,
        by=by,
    )
    if not source.by:
        raise InvalidArgumentError(
            "An audit needs groups: pass by=, the columns that put rows into them, or Tables."
        )
    return stats.audit(
        tabulate_groups(source, bins, shared_bins),
        max_error=max_error,
        norm=norm,
        confidence_level=confidence_level,
        target=target,
        class_weight=class_weight,
        rng=rng,
    )


def tabulate_groups(source: Source, bins: BinsLike | None, shared_bins: bool = True) -> Tables:
    """Count the rows of each group, by default in the bins that `tabulate_outputs` has for all."""
    if bins is not None or not source.has_rows:
        return source.tabulate_by("auto" if bins is None else bins, shared_bins)
    table = tabulate_outputs(source)
    if not (shared_bins or table.is_binned_model):
        return source.tabulate_by("auto", shared_bins)
    return source.count_by(table.bins)


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
    input: Input = "probabilities",  # noqa: A002
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

    Returns
    -------
    CalibrationTestResult
        With `statistic` and `pvalue`; "cox" returns a `CoxTestResult`, which has the fit as well.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    calibration_error : how large is the error?
    certify : is it larger, or smaller, than matters?

    Notes
    -----
    The statistic of "exact" adds up the squared gaps :math:`(\sum y - p)^2` of the bins, each
    standardised by its mean and variance if the model is calibrated. Methods that draw compare the
    statistic T with the :math:`T_r` of labels drawn from the predictions themselves,

    .. math:: p = \frac{1 + \#\{T_r \ge T\}}{1 + \text{n\_resamples}},

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
    reading: dict[str, Any] = {"kind": kind, "input": input, "classes": classes}
    reading |= {"pos_label": pos_label, "data": data}
    if cluster is not None:
        if method != "exact":
            raise InvalidArgumentError(
                f"With cluster= there is one test, of the l2 error; got method={method!r:.60}. "
                "Leave the method out."
            )
        source = read(y_true, y_prob, by=cluster_column(cluster, data), **reading)
        rows = clustered_rows(source)
        table = rows.tabulate(bins)
        sums = cluster_sums(rows, table, class_weights(None, table.problem))
        check_resamples(n_resamples)
        return sums.test(n_resamples, rng)
    source = read(y_true, y_prob, **reading)
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
    input: Input = "probabilities",  # noqa: A002
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
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

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
    source = read(
        y_true, y_prob, kind=kind, input=input, classes=classes, pos_label=pos_label, data=data
    )
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
    input: Input = "probabilities",  # noqa: A002
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
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

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
    source = read(
        y_true, y_prob, kind=kind, input=input, classes=classes, pos_label=pos_label, data=data
    )
    y, p = _events("prequential_lower_bound", source)
    return stats.prequential_lower_bound(y, p, norm, confidence_level, method, rng)


@overload
def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any,
    *,
    y_true_b: Any = ...,
    kind: Kind | None = ...,
    bins: BinsLike = ...,
    class_weight: ClassWeight = ...,
    classes: Sequence[Label] | None = ...,
    pos_label: Label | None = ...,
    confidence_level: float = ...,
    data: Any = ...,
    input: Input = ...,
    cluster: Any = ...,
) -> stats.Comparison: ...


@overload
def compare(
    y_true: Any,
    prob_a: Mapping[str, Any],
    prob_b: None = ...,
    *,
    y_true_b: None = ...,
    kind: Kind | None = ...,
    bins: BinsLike = ...,
    class_weight: ClassWeight = ...,
    classes: Sequence[Label] | None = ...,
    pos_label: Label | None = ...,
    confidence_level: float = ...,
    data: Any = ...,
    input: Input = ...,
    cluster: Any = ...,
) -> stats.Comparisons: ...


def compare(
    y_true: Any,
    prob_a: Any,
    prob_b: Any = None,
    *,
    y_true_b: Any = None,
    kind: Kind | None = None,
    bins: BinsLike = "auto",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    confidence_level: float = 0.95,
    data: Any = None,
    input: Input = "probabilities",  # noqa: A002
    cluster: Any = None,
) -> stats.Comparison | stats.Comparisons:
    """Compare models on the same rows: calibration error, Brier score, log loss.

    Differences are paired, so what both models share cancels, and each has an interval; if it
    holds 0, the answer is "no difference that these rows can show". For top-label problems the
    event of each model is that its own choice was right.

    Parameters
    ----------
    y_true : array_like of shape (n,)
        Labels, as in `calibration_error`.
    prob_a, prob_b
        Predictions of both models; or several models as one dict by name, of which every pair is
        compared, and intervals hold for all pairs at once.
    y_true_b : optional
        Labels of model b where they are its own: of two language models on the same questions each
        has its own answers, right or wrong. With a dict of models, `y_true` may be a dict too.
    confidence_level : float
        Of each interval by itself; of several models, of all pairs at once.
    cluster : array_like or column name, optional
        The patient, prompt or day of each row, where rows of one depend on each other.
    kind, bins, class_weight, classes, pos_label, data, input
        As in `calibration_error`.

    Returns
    -------
    Comparison
        With the differences `squared_error`, `brier` and `log_loss`; of several models
        `Comparisons`, a mapping from pairs of names.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    compare_tables : two tables of different rows, such as two months.

    Notes
    -----
    The difference of Brier scores, or log losses, is the mean of one number for each row, with
    Student's interval. That of squared calibration errors is the difference of the two debiased
    squares, whose variance has a part that is linear in the rows and one that is of pairs
    (Hoeffding's decomposition); the proof is in `calibrant.stats.comparison`.

    References
    ----------
    Hoeffding (1948), A class of statistics with asymptotically normal distribution, Annals of
    Mathematical Statistics 19.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=3000)
    >>> y = rng.uniform(size=3000) < p
    >>> compare(y, p, p**2).brier.verdict
    'a is better'
    >>> compare(y, {"plain": p, "cubed": p**3, "rooted": p**0.5}).models
    ('plain', 'rooted', 'cubed')
    """
    several = isinstance(prob_a, Mapping) and prob_b is None
    models = dict(prob_a) if several else {"a": prob_a, "b": prob_b}
    if isinstance(y_true, Mapping) and several and set(y_true) == set(models):
        labels = dict(y_true)
    else:
        labels = dict.fromkeys(models, y_true)
        labels |= {} if y_true_b is None else {"b": y_true_b}
    if (several and y_true_b is not None) or len(models) < 2 or models.get("b", 0) is None:
        raise InvalidArgumentError(
            "Two models are compared, prob_a and prob_b, or several as one dict by name, with a "
            f"dict of labels in place of y_true_b; got {len(models)} model(s)."
        )
    names = [*labels.values(), *models.values(), *([] if cluster is None else [cluster])]
    data = in_memory(data, *names)
    reading: dict[str, Any] = {"kind": kind, "input": input, "classes": classes}
    reading |= {"pos_label": pos_label, "data": data}
    if cluster is not None:
        reading["by"] = cluster_column(cluster, data)
    sources = {name: read(labels[name], probs, **reading) for name, probs in models.items()}
    options: dict[str, Any] = {"bins": bins, "class_weight": class_weight}
    if not several:
        return compare_sources(*sources.values(), confidence_level=confidence_level, **options)
    return _compare_several(sources, confidence_level, options)


def _compare_several(
    sources: dict[str, Source], confidence_level: float, options: dict[str, Any]
) -> stats.Comparisons:
    """Compare every pair of models, each at a share of the error probability."""
    check_level(confidence_level)
    found = list(combinations(sources, 2))
    level = 1 - (1 - confidence_level) / len(found)
    pairs = {
        (a, b): compare_sources(sources[a], sources[b], confidence_level=level, **options)
        for a, b in found
    }
    scores = {name: pair.brier.b for (_, name), pair in pairs.items()}
    scores |= {name: pair.brier.a for (name, _), pair in pairs.items()}
    ranked = tuple(sorted(sources, key=lambda name: scores[name]))
    return stats.Comparisons(ranked, pairs, confidence_level)


def compare_sources(
    a: Source,
    b: Source,
    *,
    bins: BinsLike = "auto",
    class_weight: ClassWeight = None,
    confidence_level: float = 0.95,
) -> stats.Comparison:
    """Compare two models whose predictions of the same rows are in two sources; see `compare`."""
    if a.problem != b.problem:
        raise InvalidArgumentError(
            f"Both models must predict the same classes; these are {a.problem} and {b.problem}."
        )
    if a.problem.kind == "quantile":
        raise InvalidArgumentError(
            'compare judges probabilities by Brier score and log loss; kind is "quantile". Compare '
            "pinball_loss of both models."
        )
    clusters = None
    if a.by:
        rows = clustered_rows(a)
        clusters = required(rows.groups).codes
    (y_a, p_a), (y_b, p_b) = a.columns().events(), b.columns().events()
    return stats.compare_errors(
        y_a,
        p_a,
        p_b,
        y_b=y_b,
        bins_a=bins,
        bins_b=bins,
        weights=class_weights(class_weight, a.problem),
        confidence_level=confidence_level,
        clusters=clusters,
        one_label=not a.problem.has_event_columns,
    )


def _events_or_table(
    function: str, source: Source
) -> tuple[FloatArray | BinTable, FloatArray | None]:
    """Return events and predictions, or a table that holds both."""
    if source.has_rows:
        return _events(function, source)
    return source.count(source.choose("auto")), None


def _events(function: str, source: Source) -> tuple[FloatArray, FloatArray]:
    """Return the events and predictions of a binary or top-label problem, checked."""
    _check_one_event(function, source)
    return source.columns().events()


def _check_one_event(function: str, source: Source) -> None:
    """Refuse a problem of several events a row, and say how to pass one of them."""
    kind = source.problem.kind
    if source.problem.is_marginal:
        one = {
            "marginal": "For class k pass y_true == k and y_prob[:, k].",
            "multi-label": "For label k pass y_true[:, k] and y_prob[:, k].",
            "ordinal": "For class k or a lower one pass y_true <= k and the sum of their columns.",
            "quantile": "Quantiles are judged by calibration_error, certify and certify_coverage.",
        }
        raise InvalidArgumentError(
            f'{function} needs a binary or top-label problem; kind is "{kind}". {one[kind]}'
        )


def certify_label_shift(
    y_true: Any,
    y_prob: Any = None,
    *,
    target_rate: float | None = None,
    target_prob: Any = None,
    max_error: float | None = None,
    norm: Literal["l1", "l2"] = "l2",
    confidence_level: float = 0.95,
    rng: np.random.Generator | int | None = 0,
    kind: Kind | None = None,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",  # noqa: A002
) -> stats.LabelShiftCertificate:
    """Certify a model for a population with another base rate, from labels of this one.

    Outputs are moved to the new rate, ``expit(logit(p) + result.offset)``, and their calibration
    error there is bounded. That holds if only the rates of the labels differ, and not what inputs
    look like given their label (label shift). The proof is in `calibrant.stats.label_shift`.

    Parameters
    ----------
    target_rate : float
        The base rate of the target, if it is known; the bounds are then exact.
    target_prob : array-like or BinTable
        Otherwise predictions of the target, without labels. Its base rate is estimated with an
        interval, which the bounds allow for; and whether they can have come about by a label shift
        is tested: if not (p < 0.01), this is refused.
    max_error, norm, confidence_level
        As in `certify`.
    rng : numpy Generator or int, optional
        Draws, out of the labelled rows, a sample of the target.
    y_true, y_prob, kind, classes, pos_label, data, input
        The labelled rows, as in `calibration_error`: one event, and finitely many outputs.

    Returns
    -------
    LabelShiftCertificate
        With `offset`, the base rate or its interval, and a verdict if `max_error` was given.

    Raises
    ------
    InvalidInputError
        If the rows cannot be read as predictions and labels; its subclasses say what is wrong.
    InvalidArgumentError
        If an option has an invalid value.

    See Also
    --------
    certify : for the population that the labels are from.

    Notes
    -----
    At the base rate q, odds are those of the source times the ratio of the odds of both rates:
    ``offset = logit(q) - logit(share of events in the labelled rows)``. A sample of the target is
    drawn from the labelled rows, events with probability q, and `certify` holds for it.

    References
    ----------
    Saerens, Latinne, Decaestecker (2002), Adjusting the outputs of a classifier to new a priori
    probabilities, Neural Computation 14.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.integers(1, 10, size=20_000) / 10
    >>> y = rng.uniform(size=20_000) < p
    >>> print(repr(certify_label_shift(y, p, target_rate=0.2, max_error=0.03)))
    <LabelShiftCertificate: certified: with 95% confidence the l2 error at a base rate of 0.2 ...
    """
    if (target_rate is None) == (target_prob is None):
        raise InvalidArgumentError(
            "Give target_rate= if the base rate of the target is known, or target_prob= to "
            f"estimate it; got {'neither' if target_rate is None else 'both'}."
        )
    if target_rate is not None and not (is_real(target_rate) and 0 < target_rate < 1):
        raise InvalidArgumentError(
            f"target_rate must lie between 0 and 1; got {target_rate!r:.60}. Write 0.1 for 10%."
        )
    if not is_among(norm, ("l1", "l2")):
        raise InvalidArgumentError(f'norm must be "l1" or "l2"; got {norm!r:.60}.')
    source = read(
        y_true, y_prob, kind=kind, input=input, classes=classes, pos_label=pos_label, data=data
    )
    _check_one_event("certify_label_shift", source)
    table = tabulate_outputs(source)
    options: dict[str, Any] = {"max_error": max_error, "norm": norm}
    options |= {"confidence_level": confidence_level}
    draw = generator("rng", rng)
    Question.of(table, **options)
    if target_rate is not None:
        return carried(table, float(target_rate), draw, **options)
    if isinstance(target_prob, BinTable):
        target = read(target_prob).count(table.bins)
    else:
        n = len(np.asarray(target_prob)) if np.ndim(target_prob) else 0
        reading: dict[str, Any] = {"kind": source.problem.kind, "input": input}
        target = read(np.zeros(n, np.int64), target_prob, **reading).count(table.bins)
    _check_outputs(table, target)
    return carried_to_predictions(table, target.count[0], draw, **options)


def _check_outputs(table: BinTable, target: BinTable) -> None:
    """Refuse predictions of the target that the labelled rows do not have."""
    known = (table.count[0] > 0) & (target.level[0] == table.level[0])
    other = (target.count[0] > 0) & ~known
    if table.is_binned_model and other.any():
        raise InvalidInputError(
            "Outputs of the target must be among those of the labelled rows; there are others in "
            f"{int(other.sum()):,} of {other.size:,} bins, which hold "
            f"{target.count[0][other].sum():,.0f} of its {target.n:,} rows. Apply the same "
            "recalibrator to both."
        )
