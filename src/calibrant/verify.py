"""The front door for certificates: what can be proved of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack, overload

from numpy.typing import ArrayLike

from calibrant import stats
from calibrant._digests import Digests, digest_of_columns
from calibrant.bins import BinsLike, Distinct
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Input, Kind, Label
from calibrant.sources import Reading, Source
from calibrant.sources.arrays import ArraySource
from calibrant.sources.groups import (
    clustered_rows,
    one_of_each,
    one_of_each_by_group,
    read_clustered,
)
from calibrant.stats.clusters import best_draws
from calibrant.stats.estimators import ClassWeight, Norm, Target, cells_of
from calibrant.stats.questions import Asked, MinBinMass, error_probability
from calibrant.stats.results import UNRESOLVED_LIMIT
from calibrant.table import BinTable
from calibrant.tables import Tables

ONE_DRAW: dict[str, Any] = {"draws": 1, "drawn": [0, 0]}
DRAWS = 4
"""Of one row of each cluster. Chosen on 500 clusters and ten outputs (docs/groups.md): from two
rows a cluster on upper bounds are about level with those of one draw and lower bounds a tenth
higher; with one row upper bounds are a quarter higher. 8 gain nothing. Affects tightness only,
never validity."""


class _CertifyOptions(Reading, Asked, total=False):
    bins: BinsLike | None
    shared_bins: bool
    cluster: Any


@overload
def certify(
    y_true: Any, y_prob: Any = ..., *, by: None = None, **options: Unpack[_CertifyOptions]
) -> stats.Certificate: ...
@overload
def certify(
    y_true: Any, y_prob: Any = ..., *, by: Any, **options: Unpack[_CertifyOptions]
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
    input: Input = "probabilities",
    by: Any = None,
    shared_bins: bool = True,
    cluster: Any = None,
    draws: int | None = None,
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
        each is drawn at random and certified: those are independent, whatever the dependence. The
        statement is then about a random row of a random cluster. Of an `EvaluationLog` that asked
        questions several times it is the question, unless False.
    draws : int, optional
        How often one row of each cluster is drawn, by default 4, with the same seeds always: rows
        in another order have the same certificate, clusters with other names may not. Each bound is
        that of the best draw, with an equal share of the error probability: an average of e-values
        is one, whatever their dependence. Several draws are sharper than one where clusters have
        many rows; 1 is best where most have one or two. The number must be fixed before the rows
        are seen. With `by`, each group has one draw.

    Returns
    -------
    Certificate
        With `by`, a `GroupCertificates`: a mapping from the key of each group to its certificate.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

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
    certified: with 95% confidence the binary error is at most 0.0059 <= 0.03
      (n = 20,000, ...
    """
    source, clustered = read_clustered(
        y_true, y_prob, kind, input, classes, pos_label, None, data, by, cluster
    )
    options: dict[str, Any] = {"max_error": max_error, "norm": norm, "target": target}
    options |= {"confidence_level": confidence_level, "min_bin_mass": min_bin_mass}
    options |= {"levels": levels, "looks": looks, "class_weight": class_weight}
    if clustered and by is None:
        return _certify_clusters(clustered_rows(source), bins, draws, options)
    if clustered:
        if draws not in (None, 1):
            raise InvalidArgumentError(
                "With by= one row of each cluster of a group is drawn once; got "
                f"draws={draws!r:.20}. "
                "Leave it out, or pass the rows of one group at a time."
            )
        drawn, _ = one_of_each_by_group(clustered_rows(source), 0)
        tables = tabulate_groups(drawn, bins, shared_bins)
        return stats.group_certificates(tables, **options, **ONE_DRAW)
    if draws is not None:
        raise InvalidArgumentError(
            f"draws are of one row of each cluster; got draws={draws!r:.20} without cluster=. Pass "
            "the column of clusters too, or leave it out."
        )
    if source.by:
        return stats.group_certificates(tabulate_groups(source, bins, shared_bins), **options)
    source.keep_digest()
    table = tabulate_outputs(source) if bins is None else source.tabulate(bins)
    return stats.certify(table, **options, digests=_digests(source))


def _certify_clusters(
    rows: ArraySource, bins: BinsLike | None, draws: int | None, options: dict[str, Any]
) -> stats.Certificate:
    """Certify one row of each cluster, by the best of several draws."""
    draws = DRAWS if draws is None else draws
    error_probability(options["confidence_level"], options["looks"], draws)
    # bins are those of each draw: predictions of rows that were not drawn tell of labels too
    sources = [one_of_each(rows, seed) for seed in range(draws)]
    tables = [tabulate_outputs(s) if bins is None else s.tabulate(bins) for s in sources]
    upper, lower = best_draws(tables, options["norm"], options["class_weight"])
    return stats.certify(
        tables[upper],
        **options,
        draws=draws,
        lower_table=None if lower == upper else tables[lower],
        drawn=[upper, lower],
        digests=_digests(sources[upper]),
    )


def recheck(
    certificate: stats.Certificate,
    y_true: Any,
    y_prob: Any = None,
    *,
    classes: Sequence[Label] | None = None,
    pos_label: Label | None = None,
    data: Any = None,
    input: Input = "probabilities",
    cluster: Any = None,
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
    cluster : optional
        As it was given to `certify`, with the rows in the same order: the same row of each cluster
        is drawn.

    Returns
    -------
    Recheck
        True if all agrees; as text it says what does not.

    Raises
    ------
    InvalidInputError, InvalidArgumentError
        As in `calibration_error`.

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
    check_certificate(certificate)
    if isinstance(y_true, BinTable | Tables):
        raise InvalidArgumentError(
            "recheck counts the rows of a certificate again; a table of sums has none. Pass y_true "
            "and y_prob, or check it without them: certificate.recheck()."
        )
    problem = certificate.table.problem
    if classes is None and pos_label is None:
        classes, pos_label = problem.classes, problem.pos_label
    source, clustered = read_clustered(
        y_true, y_prob, problem.kind, input, classes, pos_label, None, data, None, cluster
    )
    if not clustered:
        source.keep_digest()
        return recheck_source(certificate, source)
    rows = clustered_rows(source)
    upper, lower = certificate.drawn or (0, 0)
    return recheck_source(certificate, one_of_each(rows, upper), other=one_of_each(rows, lower))


def check_certificate(certificate: object) -> None:
    """Refuse anything but a certificate."""
    if not isinstance(certificate, stats.Certificate):
        raise InvalidArgumentError(
            "certificate must be a Certificate, such as certify gives or Certificate.from_json "
            f"reads; got {certificate!r:.60}."
        )


def recheck_source(
    certificate: stats.Certificate,
    source: Source,
    digests: Digests | None = None,
    other: Source | None = None,
) -> stats.Recheck:
    """Check a certificate against rows that were read; the digests may be from before a repair.

    `other` are those of the draw from clusters that gave the lower bound.
    """
    table = certificate.table
    if source.problem != table.problem:
        check = certificate.recheck()
        problems = f"{source.problem}, the certificate {table.problem}"
        differences = (*check.differences, f"the rows pose another problem: {problems}")
        return replace(check, agrees=False, differences=differences)
    lower = certificate.lower_table
    counted = None if lower is None or other is None else other.count(lower.bins)
    return certificate.recheck(source.count(table.bins), digests or _digests(source), counted)


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


def tabulate_groups(source: Source, bins: BinsLike | None, shared_bins: bool = True) -> Tables:
    """Count the rows of each group, by default in the bins that `tabulate_outputs` has for all."""
    if bins is not None or not source.has_rows:
        return source.tabulate_by("auto" if bins is None else bins, shared_bins)
    table = tabulate_outputs(source)
    if not (shared_bins or table.is_binned_model):
        return source.tabulate_by("auto", shared_bins)
    return source.count_by(table.bins)
