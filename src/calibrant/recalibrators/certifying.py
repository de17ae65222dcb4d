"""Certifying a recalibrator: on rows that the fit has not seen, each counted once."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from calibrant import stats, verify
from calibrant._digests import Digests, digest_of_document
from calibrant._scipy import special
from calibrant._types import FloatArray, IntArray
from calibrant.bins import BinsLike
from calibrant.columns import Columns
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.groups import GroupKey
from calibrant.problem import Kind, Label
from calibrant.recalibrators.fingerprint import Fingerprint, HashArray
from calibrant.recalibrators.reading import groups_again, places, read_again
from calibrant.sources.arrays import ArraySource
from calibrant.stats import Certificate, Recheck
from calibrant.stats.estimators import ClassWeight, Norm, Target
from calibrant.stats.questions import MinBinMass
from calibrant.tables import Tables

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator
    from calibrant.recalibrators.by_group import ByGroup

OVERLAP_LIMIT = 0.1
"""A tenth of the rows seen before is worth a warning; fewer hardly move a certificate."""
UNIQUE_LIMIT = 0.9
"""For fingerprints without counts: overlap by chance is negligible if so many rows differ."""
CHANCE = 5.0
"""Standard deviations beyond which agreement is not chance. Cantelli's inequality leaves honest
rows of any distribution a false alarm in at most 1 of 26 cases; nearly normal numbers of pairs, in
1 of 3 million."""
DRIFT = 3.0
"""How many times as often as rows of the fit these may agree for honest reasons: rounded scores
agree more often where their distribution has become narrower."""


class OverlapWarning(UserWarning):
    """Many of the rows to certify on were also used to fit the recalibrator."""


class RepeatedRowsWarning(UserWarning):
    """Rows to certify on repeat each other as independent ones would not."""


def certify(
    self: Recalibrator,
    y_prob: Any,
    y_true: Any,
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
) -> Certificate:
    """Recalibrate fresh predictions and certify the result; see `calibrant.certify`.

    Outputs that the fit has fixed (`levels_`) are declared to the certificate, which is the
    sharper for it. The very rows of the fit are refused: their labels shaped the answer. Rows
    that repeat each other more than chance explains, given those of the fit, are a
    `RepeatedRowsWarning`, many rows that the fit has seen an `OverlapWarning`; rounded scores
    are neither. Of a recalibrator fitted from a table only the very rows of the table are
    known again, and the certificate says so among its assumptions.

    Parameters
    ----------
    y_prob, y_true
        Predictions before recalibration, and their labels: other rows than those of the fit.
    kind : optional
        What is certified; by default what the recalibrator repairs.
    classes : sequence, optional
        As in `fit`; by default those of the fit.
    max_error, norm, confidence_level, bins, target, min_bin_mass, levels, looks, class_weight
        As in `calibrant.certify`.

    Returns
    -------
    Certificate
    """
    rows = read_again(self, y_prob, y_true, classes=classes)
    sketch, table = Fingerprint.of(rows.predictions, rows.codes()), self.table_fingerprint_
    all_rows = self.rows_fingerprint_  # of a split, where the labels of one part alone were used
    seen = table is not None and table.same_rows(rows.predictions, rows.codes())
    seen = seen or (all_rows is not None and all_rows.same_rows(sketch))
    check_fresh(self.fingerprint_, sketch, seen=seen)
    answers = self._certifiable(rows, kind)
    fixed, outputs = self._all_levels(), answers.predictions
    if fixed is not None and levels is None and bins is None and np.isin(outputs, fixed).all():
        levels = fixed
    source = ArraySource(answers)
    return stats.certify(
        verify.tabulate_outputs(source) if bins is None else source.tabulate(bins),
        max_error=max_error,
        norm=norm,
        confidence_level=confidence_level,
        target=target,
        min_bin_mass=min_bin_mass,
        levels=levels,
        looks=looks,
        class_weight=class_weight,
        digests=_digests(self, rows),
        overlap_unchecked=self.table_fingerprint_ is not None,
    )


def certify_groups(
    self: ByGroup,
    y_prob: Any,
    y_true: Any,
    *,
    by: Any = None,
    max_error: float | None = None,
    norm: Norm = "l2",
    confidence_level: float = 0.95,
    kind: Kind | None = None,
    bins: BinsLike | None = None,
    target: Target = "population",
    class_weight: ClassWeight = None,
    classes: Sequence[Label] | None = None,
) -> stats.Audit:
    """Recalibrate fresh predictions and audit the result, group by group.

    The result has a certificate for each group, which hold all at once, and bounds of the
    worst group's error; see `calibrant.audit`. Groups that the fit has not seen, and rows
    that are in none, are groups too. The very rows of the fit are refused. Outputs that the
    fit has fixed are declared of each group, which makes bounds sharper.

    Parameters
    ----------
    by
        As in `predict_proba`.
    y_prob, y_true, kind, classes
        As in `Recalibrator.certify`.
    max_error, norm, confidence_level, bins, target, class_weight
        As in `calibrant.audit`.
    """
    rows = read_again(self, y_prob, y_true, classes=classes)
    groups = groups_again(self, by, len(rows))
    check_fresh(self.fingerprint_, Fingerprint.of(rows.predictions, rows.codes()))
    answers = self._repair.certifiable(rows, kind, places(groups, self.groups_))
    tables = verify.tabulate_groups(ArraySource(answers, groups), bins)
    return stats.audit(
        tables,
        max_error=max_error,
        norm=norm,
        confidence_level=confidence_level,
        target=target,
        class_weight=class_weight,
        levels=dict(_levels_of_groups(self, tables)),
    )


def _levels_of_groups(repair: ByGroup, tables: Tables) -> Iterator[tuple[GroupKey, FloatArray]]:
    """Yield all outputs of a group, fixed by the fit, where its rows have no others."""
    number = {labels: i for i, labels in enumerate(repair.groups_)}
    for place, (key, labels) in enumerate(zip(tables, tables.labels, strict=True)):
        fixed, table = repair._repair.levels(number.get(labels, -1)), tables.at(place)
        if fixed is not None and table.n_groups == 1 and table.is_binned_model:
            outputs = table.level[table.count > 0]
            if np.isin(outputs, fixed).all():
                yield key, fixed


def recheck(
    self: Recalibrator,
    certificate: Certificate,
    y_prob: Any,
    y_true: Any,
    classes: Sequence[Label] | None = None,
) -> Recheck:
    """Check a certificate that `certify` gave against the predictions it was given.

    They are recalibrated and counted again, and compared with the certificate's table; its
    digests must be those of these predictions, as they came in, and of this recalibrator.

    Parameters
    ----------
    certificate : Certificate
    y_prob, y_true, classes
        As they were given to `certify`.

    Returns
    -------
    Recheck
        As `calibrant.recheck` returns it.
    """
    verify.check_certificate(certificate)
    rows = read_again(self, y_prob, y_true, classes=classes)
    answers, kind = self._certifiable(rows, None), certificate.table.problem.kind
    if answers.problem.kind != kind:
        answers = self._certifiable(rows, kind)
    return verify.recheck_source(certificate, ArraySource(answers), _digests(self, rows))


def _digests(recalibrator: Recalibrator, rows: Columns) -> Digests:
    """Return the digests of rows and of the document that `save` writes, where there is one."""
    from calibrant.recalibrators.saving import to_dict

    try:
        digest = digest_of_document(to_dict(recalibrator))
    except InvalidArgumentError:
        digest = None
    return Digests(ArraySource(rows).digest(), digest)


def check_fresh(
    own: Fingerprint | None,
    rows: Fingerprint,
    name: str = "recalibrator",
    labels: str = "labels",
    seen: bool = False,
) -> None:
    """Refuse the rows of a fit; warn of rows that it has seen, and of rows that repeat each other.

    `seen` says that they are known from elsewhere. Warnings point to the caller of the method that
    calls this.
    """
    if seen or (own is not None and own.same_rows(rows)):
        raise InvalidInputError(
            f"A certificate needs rows that the {name} has not seen; these are the very rows it "
            f"was fitted on, and their {labels} shaped its answers. Hold out other rows."
        )
    if own is None:
        return
    pairs = EqualPairs.between(own, rows)
    if pairs is not None and pairs.are_repeated:
        warnings.warn(
            "A certificate counts independent rows; these repeat each other far more than "
            f"those of the fit: as if each had been counted about {pairs.copies:.1f} times. If "
            "rows were copied (by a bootstrap, a join or oversampling), certify on those "
            "before the copying. Different cases with equal scores, as of rounding, are no "
            "copies and must stay.",
            RepeatedRowsWarning,
            stacklevel=3,
        )
    share = own.overlap(rows)
    if pairs is None:
        shared = min(own.distinct_share, rows.distinct_share) >= UNIQUE_LIMIT
    else:
        shared = pairs.are_shared
    if share > OVERLAP_LIMIT and shared:
        warnings.warn(
            f"About {share:.0%} of these rows were also used to fit the recalibrator; the "
            "certificate is too good by what it learned from them. Hold out other rows.",
            OverlapWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class EqualPairs:
    """Pairs of equal rows within and across two data sets, compared with chance.

    If both are independent draws from one population, then given all rows together, which of them
    are in the second set is a random choice. That gives mean and variance of the number of pairs
    exactly, whatever the population: rounded scores, or many at 0 and 1, are expected.

    Attributes
    ----------
    repeats, common : float
        By how many standard deviations the equal pairs within the second set, and across the two,
        exceed their expectation.
    copies : float
        How often each row of the second set seems to have been counted: the variance of its means
        beside that of independent rows, if those agree as often as the rows of the first set.
    is_drift : bool
        Whether rows of the second set agree at most three times as often as those of the first
        may (at the 99% limit): then another distribution of scores explains it.
    """

    repeats: float
    common: float
    copies: float
    is_drift: bool

    @classmethod
    def between(cls, first: Fingerprint, second: Fingerprint) -> EqualPairs | None:
        """Compare two sets of rows by their fingerprints; None where one has no counts."""
        if first.counts is None or second.counts is None:
            return None
        end = first.horizon(second)
        hashes = np.union1d(*(x.hashes[x.hashes <= end] for x in (first, second)))
        ours, theirs = (_counts_at(hashes, x).tolist() for x in (first, second))
        repeats, common = _beyond_chance(ours, theirs, first.n, second.n)
        (rate, limit), (rate_of_second, _) = _pair_rate(first), _pair_rate(second)
        copies = 1 + (rate_of_second - rate) * (second.n - 1)
        return cls(repeats, common, copies, rate_of_second <= DRIFT * limit)

    @property
    def are_repeated(self) -> bool:
        """Whether rows of the second set repeat each other beyond chance and drift."""
        return self.repeats > CHANCE and self.copies > 1.1 and not self.is_drift

    @property
    def are_shared(self) -> bool:
        """Whether more rows are common to both sets than chance makes so."""
        return self.common > CHANCE


def _beyond_chance(ours: list[int], theirs: list[int], n1: int, n2: int) -> tuple[float, float]:
    """Return `EqualPairs.repeats` and `common` of the rows of each set that have each hash."""
    total = [a + b for a, b in zip(ours, theirs, strict=True)]
    pairs, chains = _pairs(total), sum(math.comb(c, 3) for c in total) * 6
    # Two pairs are the same, share a row, or have none in common.
    apart = pairs * pairs - pairs - chains

    def share(first: int, second: int) -> Fraction:
        """Return the chance that as many given rows are in the first and the second set."""
        ways = math.perm(n1, first) * math.perm(n2, second)
        return Fraction(ways, max(math.perm(n1 + n2, first + second), 1))

    within, across = share(0, 2), 2 * share(1, 1)
    square = pairs * within + chains * share(0, 3) + apart * share(0, 4)
    square_across = pairs * across + chains * (share(1, 2) + share(2, 1)) + apart * 4 * share(2, 2)
    common = sum(a * b for a, b in zip(ours, theirs, strict=True))
    return (
        _deviations(_pairs(theirs), pairs * within, square),
        _deviations(common, pairs * across, square_across),
    )


def _pairs(counts: list[int]) -> int:
    return sum(math.comb(c, 2) for c in counts)


def _deviations(value: int, mean: Fraction, mean_square: Fraction) -> float:
    variance = float(mean_square - mean * mean)
    return float(value - mean) / math.sqrt(variance) if variance > 0 else 0.0


def _pair_rate(rows: Fingerprint) -> tuple[float, float]:
    """Return how often two rows are equal, and the 99% limit of that if pairs are rare."""
    pairs = _pairs(np.asarray(rows.counts).tolist())
    possible = math.comb(rows.n, 2) * rows.seen
    if possible == 0:
        return 0.0, math.inf
    return pairs / possible, float(special.gammaincinv(pairs + 1, 0.99)) / possible


def _counts_at(hashes: HashArray, rows: Fingerprint) -> IntArray:
    """Return the rows that have each hash, 0 for hashes that none has."""
    out = np.zeros(hashes.size, np.int64)
    shared = np.isin(rows.hashes, hashes)
    out[np.searchsorted(hashes, rows.hashes[shared])] = np.asarray(rows.counts)[shared]
    return out
