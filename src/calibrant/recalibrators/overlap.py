"""Overlap: whether rows to certify on are fresh, or were seen by the fit or copied."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from calibrant._documents import check_names, is_number, is_whole, shown
from calibrant._scipy import special
from calibrant._types import AnyArray, IntArray
from calibrant.bins import Bins
from calibrant.exceptions import InvalidDocumentError
from calibrant.recalibrators.fingerprint import Fingerprint, HashArray
from calibrant.table import BinTable

OVERLAP_LIMIT = 0.1
"""A tenth of the rows seen before is worth a warning; fewer hardly move a certificate."""
UNIQUE_LIMIT = 0.9
"""For fingerprints without counts: overlap by chance is negligible if so many rows differ."""
MANY_CELLS = 20
"""Cells whose counts agree by chance practically never."""
CHANCE = 5.0
"""Standard deviations beyond which agreement is not chance. Cantelli's inequality leaves honest
rows of any distribution a false alarm in at most 1 of 26 cases; nearly normal numbers of pairs, in
1 of 3 million."""
DRIFT = 3.0
"""How many times as often as those of the fit rows may agree for honest reasons: rounded scores
agree more often where their distribution has become narrower."""


class OverlapWarning(UserWarning):
    """Many of the rows to certify on were also used to fit the recalibrator."""


class RepeatedRowsWarning(UserWarning):
    """Rows to certify on repeat each other as independent ones would not."""


def warn_of_overlap(own: Fingerprint, rows: Fingerprint, stacklevel: int) -> None:
    """Warn of rows that repeat each other, and of rows that the fit has seen."""
    pairs = EqualPairs.between(own, rows)
    if pairs is not None and pairs.are_repeated:
        warnings.warn(
            "A certificate counts independent rows; these repeat each other far more than "
            f"those of the fit: as if each had been counted about {pairs.copies:.1f} times. If "
            "rows were copied (by a bootstrap, a join or oversampling), certify on those "
            "before the copying. Different cases with equal scores, as of rounding, are no "
            "copies and must stay.",
            RepeatedRowsWarning,
            stacklevel=stacklevel + 1,
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
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True)
class EqualPairs:
    """Pairs of equal rows within and across two data sets, beside what chance would make of them.

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
    both = [a + b for a, b in zip(ours, theirs, strict=True)]
    pairs, chains = _pairs(both), sum(math.comb(c, 3) for c in both) * 6
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
    known = np.isin(rows.hashes, hashes)
    out[np.searchsorted(hashes, rows.hashes[known])] = np.asarray(rows.counts)[known]
    return out


@dataclass(frozen=True, eq=False)
class TableFingerprint:
    """What is kept of a table that a recalibrator was fitted from, to know its rows again.

    Attributes
    ----------
    bins : Bins
        The cells of the table.
    digest : str
        Of the rows in each cell and, without sample weights, of the events.
    sums : tuple of float
        The sums of p, p^2 and p y over all rows; empty with sample weights.
    n_cells : int
        The cells that have rows.
    """

    bins: Bins
    digest: str
    sums: tuple[float, ...]
    n_cells: int

    @classmethod
    def of(cls, table: BinTable) -> TableFingerprint:
        """Return the fingerprint of a table of one group."""
        events = None if table.is_weighted else table.sum_y[0]
        sums = () if table.is_weighted else (table.sum_p, table.sum_pp, table.sum_py)
        totals = tuple(float(term.sum()) for term in sums)
        n_cells = int((table.count[0] > 0).sum())
        return cls(table.bins[0], _digest_of_cells(table.count[0], events), totals, n_cells)

    def same_rows(self, probs: AnyArray, codes: IntArray) -> bool:
        """Tell whether these rows would make the same table.

        Of weighted rows the cells are all there is to compare: that takes many of them.
        """
        p = probs.astype(np.float64)
        index, n = self.bins.index(p), len(self.bins)
        count = np.bincount(index, minlength=n)
        if not self.sums:
            return self.n_cells >= MANY_CELLS and self.digest == _digest_of_cells(count, None)
        if self.digest != _digest_of_cells(count, np.bincount(index, codes == 1, n)):
            return False
        sums = (p.sum(), p @ p, p @ (codes == 1))
        return all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(sums, self.sums, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {
            "bins": self.bins.to_dict(),
            "digest": self.digest,
            "sums": list(self.sums),
            "n_cells": self.n_cells,
        }

    @classmethod
    def from_dict(cls, document: Any) -> TableFingerprint:
        """Rebuild a fingerprint from `to_dict`."""
        check_names(document, ("bins", "digest", "sums", "n_cells"), "A fingerprint of a table")
        digest, sums, n_cells = document["digest"], document["sums"], document["n_cells"]
        well_formed = (
            isinstance(digest, str)
            and re.fullmatch("sha256:[0-9a-f]{64}", digest)
            and isinstance(sums, list)
            and len(sums) in (0, 3)
            and all(is_number(x, 0, math.inf) for x in sums)
            and is_whole(n_cells, 1)
        )
        if not well_formed:
            raise InvalidDocumentError(f"Not a valid fingerprint of a table: {shown(document)}.")
        return cls(Bins.from_dict(document["bins"]), digest, tuple(map(float, sums)), n_cells)


def _digest_of_cells(count: AnyArray, events: AnyArray | None) -> str:
    parts = [count] if events is None else [count, events]
    whole = np.concatenate(parts).astype("<i8")
    return "sha256:" + hashlib.sha256(whole.tobytes()).hexdigest()
