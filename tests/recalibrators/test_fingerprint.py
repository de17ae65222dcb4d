"""Fingerprints of rows, in any order and after a document."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows

from calibrant.exceptions import InvalidDocumentError
from calibrant.recalibrators import Fingerprint, fingerprint


@pytest.mark.parametrize("n", [1, 10, 1024, 5000, 300_000])
def test_the_same_rows_in_any_order_have_the_same_fingerprint(n):
    rng = np.random.default_rng(n)
    p, y = rng.uniform(size=n), rng.integers(0, 2, size=n)
    order = rng.permutation(n)
    assert Fingerprint.of(p, y).same_rows(Fingerprint.of(p[order], y[order]))


def test_one_other_label_prediction_or_count_makes_other_rows():
    p, y = binary_rows(5000)
    own = Fingerprint.of(p, y)
    flipped, moved = y.copy(), p.copy()
    flipped[17] = 1 - flipped[17]
    moved[17] = np.nextafter(moved[17], 1)
    assert not own.same_rows(Fingerprint.of(p, flipped))
    assert not own.same_rows(Fingerprint.of(moved, y))
    assert not own.same_rows(Fingerprint.of(p[:-1], y[:-1]))
    assert not own.same_rows(Fingerprint.of(np.append(p, p[0]), np.append(y, y[0])))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("sizes", [(500, 800), (20_000, 8000), (8000, 60_000)])
def test_the_overlap_is_estimated(share, sizes):
    rng = np.random.default_rng(0)
    a, b = rng.uniform(size=sizes[0]), rng.uniform(size=sizes[1])
    common = min(int(share * sizes[1]), sizes[0])
    b[:common] = a[:common]
    ones_a, ones_b = np.ones(sizes[0], int), np.ones(sizes[1], int)
    estimate = Fingerprint.of(a, ones_a).overlap(Fingerprint.of(b, ones_b))
    assert estimate == pytest.approx(common / sizes[1], abs=0.08)


def test_the_share_of_distinct_rows_is_estimated():
    rng = np.random.default_rng(0)
    p = rng.choice(rng.uniform(size=10_000), size=40_000)
    share = np.unique(p).size / p.size
    assert Fingerprint.of(p, np.ones(p.size, int)).distinct_share == pytest.approx(share, rel=0.12)
    assert Fingerprint.of(rng.uniform(size=50_000), np.ones(50_000, int)).distinct_share > 0.9


def test_rows_of_zeros_and_ones_do_not_collide():
    codes = np.zeros(1000, int)
    assert Fingerprint.of(np.eye(1000), codes).distinct_share == 1.0
    assert Fingerprint.of(np.eye(1000, dtype=np.float32), codes).same_rows(
        Fingerprint.of(np.eye(1000), codes)
    )


def test_minus_zero_is_zero():
    codes = np.zeros(2, int)
    assert Fingerprint.of(np.array([0.0, 1.0]), codes).same_rows(
        Fingerprint.of(np.array([-0.0, 1.0]), codes)
    )


def test_a_fingerprint_survives_a_document():
    own = Fingerprint.of(*binary_rows(3000))
    assert Fingerprint.from_dict(own.to_dict()).same_rows(own)
    for broken in (
        None,
        {},
        {"n": 1, "checksum": "x", "hashes": ""},
        {"n": 1, "checksum": "1", "hashes": "zz"},
    ):
        with pytest.raises(InvalidDocumentError):
            Fingerprint.from_dict(broken)


@pytest.mark.parametrize(
    "counts", [None, 3, "", "0 1", "1 1", "1 1 x", "-1 4 0", "9 9 9", "1e3 1 1"]
)
def test_counts_that_no_rows_can_have_are_refused(counts):
    document = Fingerprint.of(np.array([0.1, 0.2, 0.3]), np.array([0, 1, 1])).to_dict()
    assert document["counts"] == "1 1 1"
    with pytest.raises(InvalidDocumentError):
        Fingerprint.from_dict({**document, "counts": counts})


@pytest.mark.parametrize("n", [8191, 300_000])
@pytest.mark.parametrize("n_distinct", [3, 1500, 10**9])
def test_the_smallest_hashes_are_kept_however_many_rows_were_probed(n, n_distinct):
    p = np.random.default_rng(n).integers(n_distinct, size=n) / n_distinct
    own, codes = Fingerprint.of(p, np.ones(n, int)), np.ones(n, int)
    every = fingerprint.hash_rows(
        p[:, None], codes, fingerprint.factors_of(2), fingerprint.LARGEST
    )[1]
    hashes, counts = np.unique(every, return_counts=True)
    assert own.hashes.tolist() == hashes[: fingerprint.SKETCH_SIZE].tolist()
    assert own.counts.tolist() == counts[: fingerprint.SKETCH_SIZE].tolist()
