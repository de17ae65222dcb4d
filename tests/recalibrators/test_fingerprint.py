"""Fingerprints, and what certify does with them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from shared import binary_rows, class_rows

from calibrant import verify
from calibrant.exceptions import InvalidDocumentError, InvalidInputError
from calibrant.recalibrators import (
    Fingerprint,
    HistogramBinning,
    OneVsRest,
    OverlapWarning,
    PlattScaling,
    ScalingBinning,
    TopLabel,
)


@pytest.fixture
def certified(monkeypatch):
    """Catch what is passed on to certify."""
    calls = []

    def certify(digests, y_true, y_prob, **options):
        calls.append((np.asarray(y_true), np.asarray(y_prob), options))
        return "certificate"

    monkeypatch.setattr(verify, "certify_answers", certify)
    return calls


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
    "recalibrator",
    [PlattScaling(), ScalingBinning(n_bins=5), ScalingBinning(n_bins=5, split=(1, 1, 1))],
    ids=str,
)
def test_certify_refuses_the_rows_of_the_fit(recalibrator, certified):
    p, y = binary_rows(900)
    fitted = recalibrator.fit(p, y)
    order = np.random.default_rng(0).permutation(900)
    with pytest.raises(InvalidInputError, match="very rows it was fitted on"):
        fitted.certify(p[order], y[order], max_error=0.1)
    assert not certified


def test_certify_warns_of_a_large_overlap_of_near_unique_rows(certified):
    p, y = binary_rows(2000)
    fitted = ScalingBinning(n_bins=5).fit(p[:1000], y[:1000])
    with pytest.warns(OverlapWarning, match=r"About 50% of these rows"):
        fitted.certify(p[500:1500], y[500:1500])
    assert len(certified) == 1


def test_certify_is_silent_about_rows_that_agree_by_chance(certified):
    p, y = binary_rows(2000)
    fitted = HistogramBinning(n_bins=5).fit(np.round(p[:1000], 1), y[:1000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.certify(np.round(p[1000:], 1), y[1000:]) == "certificate"


def test_labels_that_a_split_left_unused_can_be_certified_on(certified):
    p, y = binary_rows(900)
    fitted = ScalingBinning(n_bins=5, split=(1, 1, 1), random_state=0).fit(p, y)
    fresh = fitted.fold_ != 1
    fitted.certify(p[fresh], y[fresh], max_error=0.1, confidence_level=0.9)
    labels, probs, options = certified[0]
    np.testing.assert_array_equal(probs, fitted.predict_proba(p[fresh]))
    np.testing.assert_array_equal(labels, y[fresh])
    assert options == {"max_error": 0.1, "confidence_level": 0.9}


def test_the_certificate_speaks_of_levels_also_where_order_is_kept(certified):
    p, y = binary_rows(2000)
    fitted = ScalingBinning(n_bins=5, keep_order=True).fit(p[:1000], y[:1000])
    fitted.certify(p[1000:], y[1000:])
    assert set(certified[0][1]) == set(fitted.levels_)


def test_one_versus_rest_is_certified_class_by_class(certified):
    probs, y = class_rows(2000)
    inner = ScalingBinning(n_bins=5, keep_order=True)
    fitted = OneVsRest(inner).fit(probs[:1000], y[:1000])
    fitted.certify(probs[1000:], y[1000:])
    _, out, options = certified[0]
    assert options["kind"] == "marginal"
    assert all(set(out[:, k]) <= set(r.levels_) for k, r in enumerate(fitted.recalibrators_))


def test_the_top_label_is_certified_as_one_event(certified):
    probs, y = class_rows(2000)
    names = np.array(["a", "b", "c", "d"])
    fitted = TopLabel(HistogramBinning(n_bins=5)).fit(probs[:1000], names[y[:1000]], classes=names)
    fitted.certify(probs[1000:], names[y[1000:]])
    right, confidence, options = certified[0]
    np.testing.assert_array_equal(right, probs[1000:].argmax(axis=1) == y[1000:])
    np.testing.assert_array_equal(confidence, fitted.predict_confidence(probs[1000:])[1])
    assert options == {"max_error": None, "kind": "binary"}


def test_names_of_classes_are_passed_on(certified):
    p, y = binary_rows(400)
    names = np.array(["no", "yes"])
    fitted = HistogramBinning(3).fit(p[:200], names[y[:200]], classes=["no", "yes"])
    fitted.certify(p[200:], names[y[200:]])
    assert certified[0][2]["classes"] == ["no", "yes"]


def test_a_recalibrated_model_is_certified_end_to_end():
    p, y = binary_rows(12_000)
    fitted = ScalingBinning(n_bins=10).fit(p[:2000], y[:2000])
    certificate = fitted.certify(p[2000:], y[2000:], max_error=0.1)
    assert certificate.verdict == "certified"
    assert (
        PlattScaling().fit(p[:2000], y[:2000]).certify(p[2000:], y[2000:], max_error=0.1).verdict
        == "undecided"
    )
    probs, labels = class_rows(8000)
    for recalibrator in (TopLabel(ScalingBinning(n_bins=10)), OneVsRest(ScalingBinning(n_bins=10))):
        fitted = recalibrator.fit(probs[:2000], labels[:2000])
        assert fitted.certify(probs[2000:], labels[2000:], max_error=0.1).verdict == "certified"


def test_repeated_rows_are_not_taken_for_independent_ones():
    rng = np.random.default_rng(9)
    z = rng.uniform(size=3000)
    y = rng.uniform(size=3000) < z
    fitted = ScalingBinning(n_bins=5).fit(z[:1000], y[:1000])
    with pytest.raises(InvalidInputError, match="% of these are. Drop the repeats"):
        fitted.certify(np.tile(z[1000:], 2), np.tile(y[1000:], 2), max_error=0.1)
    assert fitted.certify(z[1000:], y[1000:], max_error=0.1).verdict == "certified"
