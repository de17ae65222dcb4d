"""Digests: the same rows have one, however they come; any change makes another."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant._digests import (
    Digests,
    RowDigest,
    digest_of_columns,
    digest_of_document,
    row_hashes,
)
from calibrant.exceptions import InvalidDocumentError

RNG = np.random.default_rng(5)
PROBS = RNG.dirichlet(np.ones(3), size=400)
CODES = RNG.integers(3, size=400)


def digest_of(probs, codes, *cuts):
    digest = RowDigest()
    for part in zip(np.split(probs, cuts), np.split(codes, cuts), strict=True):
        digest.update(*part)
    return str(digest)


def test_order_and_chunks_of_rows_do_not_matter():
    order = RNG.permutation(400)
    whole = digest_of(PROBS, CODES)
    assert digest_of(PROBS[order], CODES[order], 1, 7, 300) == whole
    assert digest_of(np.asfortranarray(PROBS), CODES.astype(np.int8)) == whole


def test_zero_has_one_sign():
    assert digest_of(np.array([0.0]), np.array([1])) == digest_of(np.array([-0.0]), np.array([1]))


@pytest.mark.parametrize(
    "change",
    [
        lambda p, y: (p[1:], y[1:]),
        lambda p, y: (np.append(p, p[:1], axis=0), np.append(y, y[:1])),
        lambda p, y: (p[:, ::-1], y),
        lambda p, y: (p, (y + 1) % 3),
        lambda p, y: (np.nextafter(p, 2), y),
        lambda p, y: (np.vstack([p[:2][::-1], p[2:]]), y),
    ],
    ids=["left out", "twice", "columns", "labels", "last digits", "labels of other rows"],
)
def test_any_change_makes_another_digest(change):
    codes = np.append([0, 1], CODES[2:])
    assert digest_of(*change(PROBS, codes)) != digest_of(PROBS, codes)


def test_a_row_is_known_by_its_values_and_its_label():
    both = row_hashes(np.vstack([PROBS, PROBS]), np.append(CODES, (CODES + 1) % 3))
    assert np.unique(both).size == 800
    np.testing.assert_array_equal(row_hashes(PROBS[5:9], CODES[5:9]), both[5:9])


def test_events_are_a_part_of_their_row():
    events = CODES[:, None] <= np.arange(3)
    assert digest_of(PROBS, events) != digest_of(PROBS, ~events)
    assert digest_of(PROBS, events, 100) == digest_of(PROBS, events)


def test_the_order_of_columns_is_a_part_of_their_digest_and_that_of_entries_is_not():
    assert digest_of_columns("y", ["a", "b"]) != digest_of_columns("y", ["b", "a"])
    assert digest_of_document({"b": 1, "a": [2]}) == digest_of_document({"a": [2], "b": 1})


@pytest.mark.parametrize("value", ["", "sum64x4:", "sum64x4:" + "G" * 64, 7, ["x"]])
def test_what_is_no_digest_is_refused(value):
    document = {"rows": value, "recalibrator": None, "columns": None}
    with pytest.raises(InvalidDocumentError, match="digest of rows must be null or like"):
        Digests.from_dict(document)
    rows = Digests(rows=digest_of(PROBS, CODES))
    assert Digests.from_dict(rows.to_dict()) == rows
