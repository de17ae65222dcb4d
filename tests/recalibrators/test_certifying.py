"""What a recalibrator is certified on: other rows than its own, and each once."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest
from shared import binary_rows, class_rows

from calibrant import stats, tabulate
from calibrant.exceptions import InvalidInputError
from calibrant.recalibrators import (
    Fingerprint,
    HistogramBinning,
    OneVsRest,
    OverlapWarning,
    PlattScaling,
    RepeatedRowsWarning,
    ScalingBinning,
    TopLabel,
)
from calibrant.recalibrators.saving import from_json, to_dict


@pytest.fixture
def certified(monkeypatch):
    """Catch what is passed on to certify."""
    calls = []

    def certify(table, **options):
        calls.append((table, options))
        return "certificate"

    monkeypatch.setattr(stats, "certify", certify)
    return calls


@pytest.mark.parametrize(
    "recalibrator",
    [PlattScaling(), ScalingBinning(bins=5), ScalingBinning(bins=5, split=(1, 1, 1))],
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
    fitted = ScalingBinning(bins=5).fit(p[:1000], y[:1000])
    with pytest.warns(OverlapWarning, match=r"About 50% of these rows"):
        fitted.certify(p[500:1500], y[500:1500])
    assert len(certified) == 1


def test_certify_is_silent_about_rows_that_agree_by_chance(certified):
    p, y = binary_rows(2000)
    fitted = HistogramBinning(bins=5).fit(np.round(p[:1000], 1), y[:1000])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fitted.certify(np.round(p[1000:], 1), y[1000:]) == "certificate"


def test_labels_that_a_split_left_unused_can_be_certified_on(certified):
    p, y = binary_rows(900)
    fitted = ScalingBinning(bins=5, split=(1, 1, 1), random_state=0).fit(p, y)
    fresh = fitted.fold_ != 1
    fitted.certify(p[fresh], y[fresh], max_error=0.1, confidence_level=0.9)
    table, options = certified[0]
    counted = tabulate(y[fresh], fitted.predict_proba(p[fresh]), bins="distinct")
    assert table.to_dict() == counted.to_dict()
    np.testing.assert_array_equal(options["levels"], fitted.levels_)
    assert options["max_error"] == 0.1
    assert options["confidence_level"] == 0.9


def test_the_certificate_speaks_of_levels_also_where_order_is_kept(certified):
    p, y = binary_rows(2000)
    fitted = ScalingBinning(bins=5, keep_order=True).fit(p[:1000], y[:1000])
    fitted.certify(p[1000:], y[1000:])
    assert set(certified[0][0].level[0]) == set(fitted.levels_)


def test_one_versus_rest_is_certified_class_by_class(certified):
    probs, y = class_rows(2000)
    inner = ScalingBinning(bins=5, keep_order=True)
    fitted = OneVsRest(inner).fit(probs[:1000], y[:1000])
    fitted.certify(probs[1000:], y[1000:])
    table, _ = certified[0]
    assert table.problem.kind == "marginal"
    for level, count, part in zip(table.level, table.count, fitted.recalibrators_, strict=True):
        assert set(level[count > 0]) <= set(part.levels_)


def test_the_top_label_is_certified_as_one_event(certified):
    probs, y = class_rows(2000)
    names = np.array(["a", "b", "c", "d"])
    fitted = TopLabel(HistogramBinning(bins=5)).fit(probs[:1000], names[y[:1000]], classes=names)
    fitted.certify(probs[1000:], names[y[1000:]])
    table, options = certified[0]
    right = probs[1000:].argmax(axis=1) == y[1000:]
    counted = tabulate(right, fitted.predict_confidence(probs[1000:])[1], bins="distinct")
    assert table.to_dict() == counted.to_dict()
    np.testing.assert_array_equal(options["levels"], fitted.pooled_.levels_)
    assert options["max_error"] is None


def test_names_of_classes_are_passed_on(certified):
    p, y = binary_rows(400)
    names = np.array(["no", "yes"])
    fitted = HistogramBinning(3).fit(p[:200], names[y[:200]], classes=["no", "yes"])
    fitted.certify(p[200:], names[y[200:]])
    assert certified[0][0].problem.classes == ("no", "yes")


def test_a_recalibrated_model_is_certified_end_to_end():
    p, y = binary_rows(12_000)
    fitted = ScalingBinning(bins=10).fit(p[:2000], y[:2000])
    certificate = fitted.certify(p[2000:], y[2000:], max_error=0.1)
    assert certificate.verdict == "certified"
    assert (
        PlattScaling().fit(p[:2000], y[:2000]).certify(p[2000:], y[2000:], max_error=0.1).verdict
        == "undecided"
    )
    probs, labels = class_rows(8000)
    for recalibrator in (TopLabel(ScalingBinning(bins=10)), OneVsRest(ScalingBinning(bins=10))):
        fitted = recalibrator.fit(probs[:2000], labels[:2000])
        assert fitted.certify(probs[2000:], labels[2000:], max_error=0.1).verdict == "certified"


def rounded_rows(n, digits, seed, a=1.2, b=0.8):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(a, b, size=n), digits)
    return p, (rng.uniform(size=n) < p).astype(int)


def certify_in_silence(fitted, p, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fitted.certify(p, y, max_error=0.1)


SIZES = [(1000, 100_000), (100_000, 1000), (1000, 1000), (150, 150), (20, 5000)]


@pytest.mark.parametrize("digits", [1, 2, 3, 4])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rounded_scores_of_honest_rows_pass_in_silence(sizes, digits, certified):
    fitted = HistogramBinning(5).fit(*rounded_rows(sizes[0], digits, 1))
    certify_in_silence(fitted, *rounded_rows(sizes[1], digits, 2))
    assert len(certified) == 1


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rounded_scores_of_a_narrower_distribution_pass_in_silence(sizes, certified):
    fitted = HistogramBinning(5).fit(*rounded_rows(sizes[0], 2, 1))
    certify_in_silence(fitted, *rounded_rows(sizes[1], 2, 2, a=4, b=4))
    assert len(certified) == 1


def test_many_scores_of_exactly_one_pass_in_silence(certified):
    rows = []
    for n, seed in ((1000, 1), (100_000, 2)):
        p, y = binary_rows(n, seed=seed)
        p[np.random.default_rng(seed).uniform(size=n) < 0.03] = 1.0
        rows.append((p, y))
    certify_in_silence(HistogramBinning(5).fit(*rows[0]), *rows[1])
    assert len(certified) == 1


def test_a_true_certificate_of_rounded_scores_stays():
    fit, fresh = rounded_rows(1000, 4, 1), rounded_rows(100_000, 2, 2)
    fitted = HistogramBinning(10).fit(*rounded_rows(1000, 2, 1))
    assert certify_in_silence(fitted, *fresh).verdict == "certified"
    with pytest.warns(RepeatedRowsWarning):
        other = HistogramBinning(10).fit(*fit).certify(*fresh, max_error=0.1)
    assert other.verdict == "certified"


@pytest.mark.parametrize("n_fit", [300, 1000, 5000, 50_000])
@pytest.mark.parametrize(("n", "copies"), [(1000, 2), (1000, 5), (5000, 5), (20_000, 5)])
def test_rows_that_were_copied_are_a_warning(n_fit, n, copies, certified):
    if n_fit == 300 and n * copies > 10_000:
        pytest.skip("300 rows cannot tell: that few of 100,000 might agree by chance")
    fitted = HistogramBinning(5).fit(*binary_rows(n_fit, seed=1))
    p, y = binary_rows(n, seed=2)
    with pytest.warns(RepeatedRowsWarning, match="as if each had been counted") as seen:
        fitted.certify(np.tile(p, copies), np.tile(y, copies), max_error=0.1)
    said = re.search(r"about ([\d.]+) times", str(seen[0].message))
    assert float(said[1]) == pytest.approx(copies, rel=0.15)
    assert [one.filename for one in seen] == [__file__]
    assert "rop the repeats" not in str(seen[0].message)
    assert len(certified) == 1


def test_a_bootstrap_is_a_warning(certified):
    p, y = binary_rows(3000)
    fitted = HistogramBinning(5).fit(p[:1000], y[:1000])
    drawn = np.random.default_rng(0).integers(1000, 3000, size=2000)
    with pytest.warns(RepeatedRowsWarning, match=r"counted about [12]\.\d times"):
        fitted.certify(p[drawn], y[drawn])


def test_copies_of_rows_of_several_classes_are_a_warning(certified):
    probs, y = class_rows(2000)
    fitted = TopLabel(HistogramBinning(5)).fit(probs[:1000], y[:1000])
    certify_in_silence(fitted, probs[1000:], y[1000:])
    with pytest.warns(RepeatedRowsWarning):
        fitted.certify(np.repeat(probs[1000:], 5, axis=0), np.repeat(y[1000:], 5))


def test_copies_in_the_fit_alone_are_no_concern_of_a_certificate(certified):
    p, y = binary_rows(2000)
    fitted = HistogramBinning(5).fit(np.tile(p[:1000], 5), np.tile(y[:1000], 5))
    certify_in_silence(fitted, p[1000:], y[1000:])
    assert len(certified) == 1


@pytest.mark.parametrize("digits", [2, 3])
def test_common_values_of_few_rounded_rows_are_no_overlap(digits, certified):
    for seed in range(20):
        fitted = HistogramBinning(2).fit(*rounded_rows(150, digits, 2 * seed))
        certify_in_silence(fitted, *rounded_rows(150, digits, 2 * seed + 1))
    assert len(certified) == 20


def test_counts_of_equal_rows_do_not_depend_on_order_or_pieces():
    p, y = rounded_rows(400_000, 3, 0)
    order = np.random.default_rng(0).permutation(p.size)
    one, two = Fingerprint.of(p, y), Fingerprint.of(p[order], y[order])
    np.testing.assert_array_equal(one.counts, two.counts)
    _, counts = np.unique(np.column_stack((p, y)), axis=0, return_counts=True)
    complete = Fingerprint.of(np.round(p, 2), y)
    assert complete.counts.sum() == p.size
    assert one.counts.max() <= counts.max()


def test_documents_from_before_counts_were_kept_still_load(certified):
    p, y = binary_rows(2000)
    document = to_dict(HistogramBinning(5).fit(p[:1000], y[:1000]))
    del document["fingerprint"]["counts"]
    old = from_json(json.dumps(document))
    certify_in_silence(old, np.tile(p[1000:], 5), np.tile(y[1000:], 5))
    with pytest.warns(OverlapWarning):
        old.certify(p[500:1500], y[500:1500])
    with pytest.raises(InvalidInputError, match="very rows"):
        old.certify(p[:1000], y[:1000])
    assert json.dumps(to_dict(old)) == json.dumps(document)


def test_a_recalibrator_passes_looks_on():
    p, y = binary_rows(2000)
    fitted = ScalingBinning(bins=5).fit(p[:1000], y[:1000])
    certificate = fitted.certify(p[1000:], y[1000:], max_error=0.3, looks=4)
    assert certificate.looks == 4
    assert fitted.recheck(certificate, p[1000:], y[1000:])
