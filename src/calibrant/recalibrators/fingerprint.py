"""Fingerprints of rows: small sketches by which a recalibrator knows its rows again."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant._compiled import compiles
from calibrant._documents import check_names, is_number, is_whole, shown
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, IntArray, ReadOnlyArrays
from calibrant.bins import Bins
from calibrant.exceptions import InvalidDocumentError
from calibrant.table import BinTable

SKETCH_SIZE = 1024
"""Hashes that are kept: a share of common rows is estimated to three points."""
PROBES = 8 * SKETCH_SIZE, 64 * SKETCH_SIZE
BLOCK_VALUES = 1 << 17
"""Rows hashed first, for a bound of the smallest hashes, where they are at most a quarter of all,
and values hashed at once. A 64th of the hashes is listed then, which costs less than hashing. Both
affect speed only."""
# Multipliers of the hash: the golden ratio, and one of splitmix64. Saved fingerprints rest on them.
ODD = np.uint64(0x9E3779B97F4A7C15)
MIX = np.uint64(0xBF58476D1CE4E5B9)
_ALL = 2.0**64
LARGEST = np.uint64(2**64 - 1)
MANY_CELLS = 20
"""Cells whose counts agree by chance practically never."""

HashArray = npt.NDArray[np.uint64]


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
        """Return the fingerprint of predictions with label codes (n,), or labels (n, K)."""
        rows = probs.reshape(len(probs), -1)
        if codes.ndim == 2:  # of labels: one number for the set that a row has
            codes = (codes.astype(np.uint64) @ factors_of(codes.shape[1])).view(np.int64)
        factors = factors_of(rows.shape[1] + 1)
        hashed = hash_rows_compiled if compiles() else hash_rows
        size = max(1, BLOCK_VALUES // rows.shape[1])
        bound = LARGEST
        for probe in PROBES:
            if 4 * probe <= len(rows):
                # with more rows the 1,024th smallest hash is no larger
                smallest, _ = _smallest(hashed(rows[:probe], codes[:probe], factors, bound)[1])
                bound = smallest[-1] if smallest.size == SKETCH_SIZE else LARGEST

        def sketch(part: slice) -> tuple[int, HashArray, IntArray]:
            checksum, small = hashed(rows[part], codes[part], factors, bound)
            return checksum, *_smallest(small)

        return fingerprint_of_hashes(len(rows), in_pieces(len(rows), size, sketch))

    @property
    def seen(self) -> float:
        """The share of all possible hashes that are small enough to be in the sketch."""
        return 1.0 if self.hashes.size < SKETCH_SIZE else float(self.hashes[-1]) / _ALL

    @property
    def distinct_share(self) -> float:
        """The estimated share of distinct rows among all rows."""
        if self.hashes.size < SKETCH_SIZE:
            return self.hashes.size / self.n
        return min(1.0, (SKETCH_SIZE - 1) / self.seen / self.n)

    def same_rows(self, other: Fingerprint) -> bool:
        """Tell whether the two are the very same rows, in any order."""
        return (
            self.n == other.n
            and self.checksum == other.checksum
            and np.array_equal(self.hashes, other.hashes)
        )

    def overlap(self, other: Fingerprint) -> float:
        """Return the estimated share of the other's distinct rows that are among these."""
        visible = other.hashes[other.hashes <= self.horizon(other)]
        return float(np.isin(visible, self.hashes).mean()) if visible.size else 0.0

    def horizon(self, other: Fingerprint) -> np.uint64:
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
        has_counts = isinstance(document, dict) and "counts" in document
        names = ("n", "checksum", "hashes", *(("counts",) if has_counts else ()))
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
            raise InvalidDocumentError(f"Not a valid fingerprint of rows: {shown(document)}.")
        hashes = np.frombuffer(bytes.fromhex(text), ">u8").astype(np.uint64)
        if np.any(hashes[1:] <= hashes[:-1]):
            raise InvalidDocumentError("The hashes of a fingerprint must rise; these do not.")
        counts = _read_counts(document["counts"], n, hashes.size) if has_counts else None
        return cls(n, int(checksum, 16), hashes, counts)


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
        return {**vars(self), "bins": self.bins.to_dict(), "sums": list(self.sums)}

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


def fingerprint_of_hashes(
    n: int, sketches: Sequence[tuple[int, HashArray, IntArray]]
) -> Fingerprint:
    """Join checksums, smallest hashes and their counts of parts of n rows."""
    checksums, parts, counts = zip(*sketches, strict=True)
    # A hash among the smallest of all rows is among the smallest of every part that has it.
    hashes, place = np.unique(np.concatenate(parts), return_inverse=True)
    total = np.zeros(hashes.size, np.int64)
    np.add.at(total, place, np.concatenate(counts))
    smallest = slice(SKETCH_SIZE)
    return Fingerprint(n, sum(checksums) % 2**64, hashes[smallest], total[smallest])


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


def factors_of(n: int) -> HashArray:
    """Return n fixed odd numbers, one for each column of a row."""
    return np.random.default_rng(20190923).integers(1, 2**63, n, np.uint64) * np.uint64(
        2
    ) + np.uint64(1)


def hash_rows(
    rows: AnyArray, codes: IntArray, factors: HashArray, bound: np.uint64
) -> tuple[int, HashArray]:
    """Return the sum of the hashes of all rows, and the hashes up to a bound."""
    bits = np.ascontiguousarray(rows, np.float64) + 0.0
    keys = bits.view(np.uint64)
    keys ^= keys >> np.uint64(32)
    mixed = keys[:, 0] * factors[0] if keys.shape[1] == 1 else keys @ factors[:-1]
    mixed += (codes.astype(np.uint64) + np.uint64(1)) * factors[-1]
    mixed ^= mixed >> np.uint64(29)
    mixed *= MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= ODD
    return int(mixed.sum(dtype=np.uint64)), mixed[mixed <= bound]


def hash_rows_compiled(
    rows: AnyArray, codes: IntArray, factors: HashArray, bound: np.uint64
) -> tuple[int, HashArray]:
    """Return the same from the compiled loop."""
    from calibrant import _kernels

    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    out = np.empty(len(rows), np.uint64)
    codes = np.ascontiguousarray(codes, np.int64)
    mixers = int(MIX), int(ODD)
    checksum, n_small = _kernels.hash_rows(rows, codes, factors, *mixers, int(bound), out)
    return checksum, out[:n_small]


def _smallest(hashes: HashArray) -> tuple[HashArray, IntArray]:
    """Return the smallest 1,024 distinct hashes, in order, and how many rows have each."""
    if hashes.size > 4 * SKETCH_SIZE:
        distinct, counts = np.unique(
            np.partition(hashes, 4 * SKETCH_SIZE)[: 4 * SKETCH_SIZE], return_counts=True
        )
        # The largest of them may have lost rows to the cut.
        if distinct.size > SKETCH_SIZE:
            return distinct[:SKETCH_SIZE], counts[:SKETCH_SIZE]
    distinct, counts = np.unique(hashes, return_counts=True)
    return distinct[:SKETCH_SIZE], counts[:SKETCH_SIZE]
