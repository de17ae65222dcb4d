"""Digests: short texts by which data, a recalibrator and column names are recognised again.

The digest of rows is a sum over rows, so that chunks and order do not matter: each row is mixed
to 4 numbers of 64 bits, and those of all rows are added modulo 2^64. It finds every accident and
casual change (a row left out, a digit, a label: missed with a chance of about 2^-128). It is not a
cryptographic commitment: an adversary can construct other rows with the same sum. What proves a
table is counting the rows again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calibrant._documents import check_names, shown
from calibrant._threads import in_pieces
from calibrant._types import AnyArray, IntArray
from calibrant.exceptions import InvalidDocumentError

HashArray = npt.NDArray[np.uint64]

LANES = 4
"""Sums of 64 bits in a digest, each with factors of its own: no other rows have all four by
chance. Part of the form of digests, and of every certificate saved."""
BLOCK_VALUES = 1 << 16
"""Values that are mixed at a time: half a megabyte, for a cache."""
_FORMS = {
    "rows": re.compile(r"sum64x4:[0-9a-f]{64}"),
    "recalibrator": re.compile(r"sha256:[0-9a-f]{64}"),
    "columns": re.compile(r"sha256:[0-9a-f]{64}"),
}
# Odd numbers without pattern: the golden ratio, and the multipliers of splitmix64 (Vigna, 2015).
_STEP = 0x9E3779B97F4A7C15
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass(frozen=True)
class Digests:
    """Digests of the data behind a certificate; None where one is unknown.

    Attributes
    ----------
    rows : str or None
        Of all predictions and labels, in any order: as they were before the recalibrator, where
        there is one. None for tables, lazy frames and tensors on a device.
    recalibrator : str or None
        Of the document of the recalibrator whose answers were certified.
    columns : str or None
        Of the names of the columns: that of the labels, then those of the predictions.
    """

    rows: str | None = None
    recalibrator: str | None = None
    columns: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"rows": self.rows, "recalibrator": self.recalibrator, "columns": self.columns}

    @classmethod
    def from_dict(cls, document: Any) -> Digests:
        """Rebuild digests from `to_dict`; raise InvalidDocumentError if that cannot be done."""
        check_names(document, tuple(_FORMS), '"digests"')
        for name, form in _FORMS.items():
            value = document[name]
            if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
                raise InvalidDocumentError(
                    f"The digest of {name} must be null or like {form.pattern!r}; "
                    f"got {shown(value)}."
                )
        return cls(**document)


NO_DIGESTS = Digests()


class RowDigest:
    """A digest of rows that come in chunks, in any order.

    A row is its predictions as float64 (-0.0 is 0.0) and the code of its class.

    Examples
    --------
    >>> whole, parts = RowDigest(), RowDigest()
    >>> whole.update(np.array([0.1, 0.2, 0.2]), np.array([0, 1, 0]))
    >>> parts.update(np.array([0.2]), np.array([1]))
    >>> parts.update(np.array([0.2, 0.1]), np.array([0, 0]))
    >>> str(parts) == str(whole), len(str(whole))
    (True, 72)
    """

    def __init__(self) -> None:
        self.n = 0
        self._sums = np.zeros(LANES, np.uint64)

    def update(self, probs: AnyArray, codes: IntArray) -> None:
        """Add predictions (n,) or (n, K) with these codes of classes, or (n, K) events."""
        rows, codes = _values_and_codes(probs, codes)
        factors = _factors(rows.shape[1] + 1)

        def sums_of(piece: slice) -> HashArray:
            lanes = _lanes(rows[piece], codes[piece], factors, LANES)
            return np.array([lane.sum(dtype=np.uint64) for lane in lanes])

        for sums in in_pieces(len(rows), max(1, BLOCK_VALUES // rows.shape[1]), sums_of):
            self._sums += sums
        self.n += len(rows)

    def __str__(self) -> str:
        return "sum64x4:" + "".join(f"{int(lane):016x}" for lane in self._sums)


def row_hashes(probs: AnyArray, codes: IntArray) -> HashArray:
    """Return 64 bits of each row, the first lane of its digest.

    Examples
    --------
    >>> one, two, three = row_hashes(np.array([0.1, 0.2, 0.1]), np.array([0, 1, 0]))
    >>> bool(one == three), bool(one == two)
    (True, False)
    """
    rows, codes = _values_and_codes(probs, codes)
    factors, size = _factors(rows.shape[1] + 1), max(1, BLOCK_VALUES // rows.shape[1])
    parts = in_pieces(len(rows), size, lambda i: _lanes(rows[i], codes[i], factors, 1)[0])
    return np.concatenate([np.zeros(0, np.uint64), *parts])


def _values_and_codes(probs: AnyArray, codes: IntArray) -> tuple[AnyArray, IntArray]:
    """Return the values of each row and the code of its class; events are values."""
    if codes.ndim == 2:
        probs, codes = np.column_stack([probs, codes]), np.zeros(len(codes), np.intp)
    return probs.reshape(len(probs), -1), codes


def _lanes(rows: AnyArray, codes: IntArray, factors: HashArray, n_lanes: int) -> list[HashArray]:
    """Return the first lanes of each row.

    Every value is mixed by itself, multiplied by the factors of its column and added; two such
    sums make 128 bits a row, which are spread over the lanes.
    """
    values = np.array(rows, np.float64, order="C")  # a copy, to be mixed in place
    values += 0.0  # -0.0 becomes 0.0
    keys = _mix(values.view(np.uint64))
    classes = _mix(codes.astype(np.uint64))
    first, second = (keys @ column[:-1] + classes * column[-1] for column in factors)
    steps = [np.uint64((lane + 1) * _STEP % 2**64) for lane in range(n_lanes)]
    return [_mix(_mix(first + step) + second) for step in steps]


def _mix(keys: HashArray) -> HashArray:
    """Mix 64 bits in place, one to one: the finisher of splitmix64."""
    keys ^= keys >> np.uint64(30)
    keys *= _FIRST
    keys ^= keys >> np.uint64(27)
    keys *= _SECOND
    keys ^= keys >> np.uint64(31)
    return keys


def _factors(n: int) -> HashArray:
    """Return two rows of n fixed odd factors, one for each column and one for the class."""
    mixed = _mix(np.arange(1, 2 * n + 1, dtype=np.uint64) * np.uint64(_STEP))
    # interleaved, so that the factors of a column do not depend on how many there are
    return np.ascontiguousarray((mixed | np.uint64(1)).reshape(n, 2).T)


def digest_of_document(document: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a document: sorted names, no spaces.

    >>> digest_of_document({"b": 1, "a": 2}) == digest_of_document({"a": 2, "b": 1})
    True
    """
    text = json.dumps(document, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def digest_of_columns(y_true: str, y_prob: Sequence[str]) -> str:
    """Return the digest of the name of the labels and those of the predictions, in order."""
    return digest_of_document([y_true, *y_prob])
