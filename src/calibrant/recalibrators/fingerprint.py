"""Fingerprints of rows: small sketches that tell whether two data sets share rows."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from calibrant._documents import check_names, is_number, is_whole, shown
from calibrant._read_only import ReadOnlyArrays
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, IntArray
from calibrant.bins import Bins
from calibrant.engines import compiles
from calibrant.exceptions import InvalidDocumentError
from calibrant.table import BinTable

SKETCH_SIZE = 1024
PROBE = 8 * SKETCH_SIZE
BLOCK_VALUES = 1 << 17
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_ALL = 2.0**64
MANY_CELLS = 20
"""Cells whose counts agree by chance practically never."""
CHANCE = 5.0
"""Standard deviations beyond which agreement is not chance. Cantelli's inequality leaves honest
rows of any distribution a false alarm in at most 1 of 26 cases; nearly normal numbers of pairs, in
1 of 3 million."""
DRIFT = 3.0
"""How many times as often as those of the fit rows may agree for honest reasons: rounded scores
agree more often where their distribution has become narrower."""

HashArray = npt.NDArray[np.uint64]


class OverlapWarning(UserWarning):
    """Many of the rows to certify on were also used to fit the recalibrator."""


class RepeatedRowsWarning(UserWarning):
    """Rows to certify on repeat each other as independent ones would not."""


@dataclass(frozen=True, eq=False)
class Fingerprint(ReadOnlyArrays):
    """The smallest 1,024 distinct hashes of the rows, how many rows have each, and sums of all.

    A row is its predictions, as float64, and its label. Two equal sets of rows have equal
    fingerprints in any order; the share of common rows, and how often rows are equal by chance,
    are estimated from the hashes that both sketches can see (Broder, 1997).

    Attributes
    ----------
    n : int
        The number of rows.
    checksum : int
        The sum of the hashes of all rows.
    hashes, counts : ndarray
        The smallest distinct hashes in rising order, and the rows that have each. Counts are None
        in documents from before they were kept.

    Examples
    --------
    >>> p, y = np.linspace(0, 1, 5000), np.arange(5000) % 2
    >>> a, b = Fingerprint.of(p, y), Fingerprint.of(p[::-1], y[::-1])
    >>> a.same_rows(b), a.overlap(Fingerprint.of(p**2, y)) < 0.01
    (True, True)
    """

    n: int
    checksum: int
    hashes: HashArray
    counts: IntArray | None = None

    @classmethod
    def of(cls, probs: AnyArray, codes: IntArray) -> Fingerprint:
        """Return the fingerprint of predictions (n,) or (n, K) with these label codes."""
        rows = probs.reshape(len(probs), -1)
        factors = _factors(rows.shape[1] + 1)
        hashed = _compiled_hash if compiles(rows.size) else _hash
        size = max(1, BLOCK_VALUES // rows.shape[1])

        bound = _bound(hashed(rows[:PROBE], codes[:PROBE], factors))

        def sketch(part: slice) -> tuple[int, HashArray, IntArray]:
            hashes = hashed(rows[part], codes[part], factors)
            return int(hashes.sum(dtype=np.uint64)), *_smallest(hashes[hashes <= bound])

        checksums, sketches, counts = zip(*in_pieces(len(rows), size, sketch), strict=True)
        # A hash among the smallest of all rows is among the smallest of every part that has it.
        hashes, place = np.unique(np.concatenate(sketches), return_inverse=True)
        total = np.zeros(hashes.size, np.int64)
        np.add.at(total, place, np.concatenate(counts))
        smallest = slice(SKETCH_SIZE)
        return cls(len(rows), sum(checksums) % 2**64, hashes[smallest], total[smallest])

    @property
    def distinct_share(self) -> float:
        """The estimated share of distinct rows among all rows."""
        if self.hashes.size < SKETCH_SIZE:
            return self.hashes.size / self.n
        return min(1.0, (SKETCH_SIZE - 1) / (float(self.hashes[-1]) / _ALL) / self.n)

    def same_rows(self, other: Fingerprint) -> bool:
        """Tell whether the two are the very same rows, in any order."""
        return (
            self.n == other.n
            and self.checksum == other.checksum
            and np.array_equal(self.hashes, other.hashes)
        )

    def overlap(self, other: Fingerprint) -> float:
        """Return the estimated share of the other's distinct rows that are among these."""
        visible = other.hashes[other.hashes <= self._horizon(other)]
        return float(np.isin(visible, self.hashes).mean()) if visible.size else 0.0

    def pairs_with(self, other: Fingerprint) -> EqualPairs | None:
        """Compare pairs of equal rows with those that chance makes; None without counts."""
        if self.counts is None or other.counts is None:
            return None
        end = self._horizon(other)
        hashes = np.union1d(self.hashes[self.hashes <= end], other.hashes[other.hashes <= end])
        ours, theirs = (_counts_at(hashes, x.hashes, x.counts) for x in (self, other))
        repeats, common = _beyond_chance(ours.tolist(), theirs.tolist(), self.n, other.n)
        (rate, limit), (rate_of_other, _) = self._pair_rate(), other._pair_rate()
        copies = 1 + (rate_of_other - rate) * (other.n - 1)
        return EqualPairs(repeats, common, copies, rate_of_other <= DRIFT * limit)

    def _pair_rate(self) -> tuple[float, float]:
        """Return how often two rows are equal, and the 99% limit of that if pairs are rare."""
        seen = 1.0 if self.hashes.size < SKETCH_SIZE else float(self.hashes[-1]) / _ALL
        pairs, possible = _pairs(np.asarray(self.counts).tolist()), math.comb(self.n, 2) * seen
        if possible == 0:
            return 0.0, math.inf
        return pairs / possible, float(special.gammaincinv(pairs + 1, 0.99)) / possible

    def _horizon(self, other: Fingerprint) -> np.uint64:
        """Return the hash up to which both sketches see everything."""
        ends = [x.hashes[-1] for x in (self, other) if x.hashes.size == SKETCH_SIZE]
        return min(ends, default=np.uint64(2**64 - 1))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        document = {
            "n": self.n,
            "checksum": f"{self.checksum:016x}",
            "hashes": "".join(f"{int(h):016x}" for h in self.hashes),
        }
        if self.counts is not None:
            document["counts"] = " ".join(map(str, self.counts.tolist()))
        return document

    @classmethod
    def from_dict(cls, document: Any) -> Fingerprint:
        """Rebuild a fingerprint from `to_dict`; raise InvalidDocumentError if it cannot be one."""
        names = (
            "n",
            "checksum",
            "hashes",
            *(["counts"] if isinstance(document, dict) and "counts" in document else []),
        )
        check_names(document, names, "A fingerprint of rows")
        n, checksum, text = document["n"], document["checksum"], document["hashes"]
        well_formed = (
            is_whole(n, 1)
            and isinstance(checksum, str)
            and re.fullmatch("[0-9a-f]{16}", checksum)
            and isinstance(text, str)
            and len(text) <= 16 * min(n, SKETCH_SIZE)
            and re.fullmatch("(?:[0-9a-f]{16})+", text)
        )
        if not well_formed:
            raise InvalidDocumentError(f"This is no fingerprint of rows: {shown(document)}.")
        hashes = np.frombuffer(bytes.fromhex(text), ">u8").astype(np.uint64)
        if np.any(hashes[1:] <= hashes[:-1]):
            raise InvalidDocumentError("The hashes of a fingerprint must rise; these do not.")
        counts = _read_counts(document["counts"], n, hashes.size) if "counts" in names else None
        return cls(n, int(checksum, 16), hashes, counts)


@dataclass(frozen=True)
class EqualPairs:
    """Pairs of equal rows within and across two data sets, beside what chance would make of them.

    If both are independent draws from one population, then given all rows together, which of them
    are in the second set is a random choice. That gives mean and variance of the number of pairs
    exactly, whatever the population: rounded scores, or many at 0 and 1, are no surprise.

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


def _counts_at(hashes: HashArray, own: HashArray, counts: IntArray | None) -> IntArray:
    """Return the rows that have each hash, 0 for hashes that none has."""
    out = np.zeros(hashes.size, np.int64)
    known = np.isin(own, hashes)
    out[np.searchsorted(hashes, own[known])] = np.asarray(counts)[known]
    return out


def _read_counts(text: Any, n: int, n_hashes: int) -> IntArray:
    """Read how many rows have each hash; refuse what n rows cannot have."""
    if isinstance(text, str) and re.fullmatch("(?:[1-9][0-9]{0,17} )*[1-9][0-9]{0,17}", text):
        counts = [int(x) for x in text.split()]
        total = sum(counts)
        if len(counts) == n_hashes and (total == n or (total < n and n_hashes == SKETCH_SIZE)):
            return np.array(counts, np.int64)
    raise InvalidDocumentError(
        "The counts of a fingerprint must be one for each hash and add up to its rows; got "
        f"{shown(text)}."
    )


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
        totals = tuple(float(each.sum()) for each in sums)
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
        found = (p.sum(), p @ p, p @ (codes == 1))
        return all(math.isclose(a, b, rel_tol=1e-9) for a, b in zip(found, self.sums, strict=True))

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
            raise InvalidDocumentError(f"This is no fingerprint of a table: {shown(document)}.")
        return cls(Bins.from_dict(document["bins"]), digest, tuple(map(float, sums)), n_cells)


def _digest_of_cells(count: AnyArray, events: AnyArray | None) -> str:
    parts = [count] if events is None else [count, events]
    whole = np.concatenate(parts).astype("<i8")
    return "sha256:" + hashlib.sha256(whole.tobytes()).hexdigest()


def _factors(n: int) -> HashArray:
    """Return n fixed odd numbers, one for each column of a row."""
    return np.random.default_rng(20190923).integers(1, 2**63, n, np.uint64) * np.uint64(
        2
    ) + np.uint64(1)


def _hash(rows: AnyArray, codes: IntArray, factors: HashArray) -> HashArray:
    bits = np.ascontiguousarray(rows, np.float64) + 0.0
    keys = bits.view(np.uint64)
    keys ^= keys >> np.uint64(32)
    mixed = keys[:, 0] * factors[0] if keys.shape[1] == 1 else keys @ factors[:-1]
    mixed += (codes.astype(np.uint64) + np.uint64(1)) * factors[-1]
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _ODD
    return np.asarray(mixed, np.uint64)


def _compiled_hash(rows: AnyArray, codes: IntArray, factors: HashArray) -> HashArray:
    from calibrant.recalibrators.kernels import hash_rows

    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    out = np.empty(len(rows), np.uint64)
    hash_rows(rows, codes, factors, _MIX, _ODD, out)
    return out


def _smallest(hashes: HashArray) -> tuple[HashArray, IntArray]:
    """Return the smallest 1,024 distinct hashes, in order, and how many rows have each."""
    if hashes.size > 4 * SKETCH_SIZE:
        few, counts = np.unique(
            np.partition(hashes, 4 * SKETCH_SIZE)[: 4 * SKETCH_SIZE], return_counts=True
        )
        # The largest of them may have lost rows to the cut.
        if few.size > SKETCH_SIZE:
            return few[:SKETCH_SIZE], counts[:SKETCH_SIZE]
    distinct, counts = np.unique(hashes, return_counts=True)
    return distinct[:SKETCH_SIZE], counts[:SKETCH_SIZE]


def _bound(hashes: HashArray) -> np.uint64:
    """Return a number that the 1,024th smallest distinct hash of these and more rows is below."""
    smallest, _ = _smallest(hashes)
    return smallest[-1] if smallest.size == SKETCH_SIZE else np.uint64(2**64 - 1)
