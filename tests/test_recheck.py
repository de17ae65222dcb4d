"""Whoever has the rows can check that a certificate speaks of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

import calibrant as cb
from calibrant.__main__ import main
from calibrant.exceptions import InvalidArgumentError, InvalidLabelsError
from calibrant.recalibrators import HistogramBinning, OneVsRest, PlattScaling, TopLabel

RNG = np.random.default_rng(3)
P = RNG.integers(1, 10, size=2000) / 10
Y = (RNG.uniform(size=2000) < P).astype(int)
THREE = np.round(RNG.dirichlet(np.ones(3), size=2000), 1)
CLASS = RNG.integers(3, size=2000)
CERTIFICATE = cb.certify(Y, P, max_error=0.1)


def read_again(certificate):
    return cb.Certificate.from_json(certificate.to_json())


def words_of(check):
    """Return what a check prints, on one line."""
    return " ".join(str(check).split())


def test_rows_in_place_of_a_table_are_refused_with_the_way_to_compare_them():
    with pytest.raises(InvalidArgumentError, match=r"got ndarray. calibrant.recheck\("):
        CERTIFICATE.recheck(P)


def test_the_rows_in_any_order_are_recognised():
    order = RNG.permutation(2000)
    check = cb.recheck(read_again(CERTIFICATE), Y[order], P[order])
    assert check
    assert check.scope == "rows"
    assert str(check) == (
        "agrees: the table proves what the certificate says, and these are its rows"
    )


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_rows_of_several_classes_are_recognised(kind):
    certificate = cb.certify(CLASS, THREE, kind=kind)
    assert cb.recheck(certificate, CLASS, THREE).scope == "rows"
    moved = THREE[:, [0, 2, 1]]
    assert not cb.recheck(certificate, CLASS, moved)


def test_a_digest_sees_what_the_table_does_not():
    # the confidence and the hit of row 0 stay as they are, another class's probability does not
    probs = np.column_stack([P, (1 - P) / 2, (1 - P) / 2])
    labels = probs.argmax(axis=1)
    certificate = cb.certify(labels, probs)
    other = probs.copy()
    other[0, probs[0].argmin()] += 1e-9
    check = cb.recheck(certificate, labels, other)
    assert not check
    assert "they are not the rows counted" in words_of(check)


def test_equal_numbers_have_equal_digests():
    p = np.array([0.0, 0.25, 0.5, 1.0] * 50)
    y = np.arange(200) % 2
    digest = cb.certify(y, p).digests.rows
    same = [p.astype(np.float32), p.astype(np.float16), np.where(p == 0, -0.0, p), p.tolist()]
    for values in same:
        assert cb.certify(y, values).digests.rows == digest
    for labels in (y.astype(bool), y.astype(np.float32), y.astype(np.uint8), y.tolist()):
        assert cb.certify(labels, p).digests.rows == digest
    words = np.where(y == 1, "yes", "no")
    assert cb.certify(words, p, classes=["no", "yes"]).digests.rows == digest
    assert cb.certify(words, p, pos_label="yes").digests.rows == digest


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y, p: (y[:-1], p[:-1]), "the table has 2,000 rows, the data 1,999"),
        (lambda y, p: (1 - y, p), "sum_y differs in 9 bins (first: bin 1 has"),
        (lambda y, p: (y, np.where(p == 0.1, 0.10000001, p)), "level differs in 1 bins"),
        (lambda y, p: (np.append(y, 1), np.append(p, 0.3)), "count differs in 1 bins"),
    ],
)
def test_other_rows_are_noticed(change, words):
    check = cb.recheck(CERTIFICATE, *change(Y, P))
    assert not check
    assert words in words_of(check)
    assert "digest of these rows is another" in words_of(check)


def test_swapping_two_labels_between_bins_is_noticed():
    y = Y.copy()
    i = np.flatnonzero((P == 0.3) & (Y == 1))[0]
    j = np.flatnonzero((P == 0.7) & (Y == 0))[0]
    y[[i, j]] = y[[j, i]]
    assert not cb.recheck(CERTIFICATE, y, P)


def test_a_forged_document_does_not_pass_with_its_own_rows():
    document = json.loads(CERTIFICATE.to_json())
    document["upper_bound"] = 0.001
    check = cb.recheck(cb.Certificate.from_json(json.dumps(document)), Y, P)
    assert not check
    assert "upper_bound is 0.001" in words_of(check)


def test_another_problem_is_a_difference_and_wrong_labels_are_refused():
    certificate = cb.certify(CLASS, THREE)
    four = np.column_stack([THREE, THREE[:, 0]])
    assert "pose another problem" in words_of(cb.recheck(certificate, CLASS, four))
    with pytest.raises(InvalidLabelsError):
        cb.recheck(CERTIFICATE, Y + 5, P)


def test_columns_of_a_frame_are_recognised_by_name():
    frame = {"label": Y, "score": P, "copy": P}
    certificate = read_again(cb.certify("label", "score", data=frame))
    assert certificate.digests.columns is not None
    assert cb.recheck(certificate, "label", "score", data=frame)
    assert cb.recheck(certificate, Y, P), "arrays have no names to compare"
    check = cb.recheck(certificate, "label", "copy", data=frame)
    assert "the columns have other names" in words_of(check)


def test_lazy_frames_are_counted_again_without_a_digest():
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({"label": Y, "score": P})
    check = cb.recheck(CERTIFICATE, "label", "score", data=lazy)
    assert check
    assert check.scope == "counts"
    assert "this data source has no digest of rows" in words_of(check)
    certificate = cb.certify("label", "score", data=lazy)
    assert certificate.digests.rows is None
    assert "carries no digest of rows" in words_of(cb.recheck(certificate, Y, P))
    assert not cb.recheck(certificate, Y, 1 - P)


def test_a_certificate_of_a_table_is_checked_by_counting():
    certificate = cb.stats.certify(cb.tabulate(Y, P, bins=cb.EqualWidth(10)))
    assert certificate.digests.rows is None
    assert cb.recheck(certificate, Y, P).scope == "counts"
    assert not cb.recheck(certificate, 1 - Y, P)


def test_a_certificate_of_an_event_in_the_first_of_two_columns_is_checked():
    both = np.column_stack([P, 1 - P])
    words = np.where(Y == 1, "yes", "no")
    options = {"classes": ["yes", "no"], "pos_label": "yes"}
    certificate = cb.certify(words, both, kind="binary", **options)
    assert cb.recheck(certificate, words, both, **options)


@pytest.mark.parametrize(
    ("recalibrator", "probs", "labels"),
    [
        (HistogramBinning(5), P, Y),
        (OneVsRest(HistogramBinning(3)), THREE, CLASS),
        (TopLabel(HistogramBinning(3)), THREE, CLASS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_recalibrator_recognises_its_certificate(recalibrator, probs, labels, tmp_path):
    recalibrator.fit(probs[:1000], labels[:1000])
    held_out = probs[1000:], labels[1000:]
    certificate = read_again(recalibrator.certify(*held_out))
    recalibrator.save(tmp_path / "cal.json")
    check = cb.load(tmp_path / "cal.json").recheck(certificate, *held_out)
    assert check
    assert check.scope == "rows"
    assert not recalibrator.recheck(certificate, probs[1000:], labels[::2])
    other = clone(recalibrator)
    other.fit(probs[:999], labels[:999])
    assert "another recalibrator" in words_of(other.recheck(certificate, *held_out))


def test_names_of_classes_survive_the_recheck_of_a_recalibrator():
    names = np.array(["a", "b", "c"])[CLASS]
    wrapped = OneVsRest(PlattScaling()).fit(THREE[:1000], names[:1000], classes=["a", "b", "c"])
    certificate = wrapped.certify(THREE[1000:], names[1000:])
    assert wrapped.recheck(certificate, THREE[1000:], names[1000:])


def test_the_answers_of_a_recalibrator_alone_are_only_counted():
    binning = HistogramBinning(5).fit(P[:1000], Y[:1000])
    certificate = binning.certify(P[1000:], Y[1000:])
    check = cb.recheck(certificate, Y[1000:], binning.predict_proba(P[1000:]))
    assert check
    assert check.scope == "counts"
    assert "which was not given" in words_of(check)
    check = binning.recheck(CERTIFICATE, P, Y)
    assert "made without a recalibrator" in words_of(check)


def test_files_and_arrays_give_the_same_digests(tmp_path, capsys):
    half = tmp_path / "a.csv", tmp_path / "b.csv"
    for path, part in zip(half, (slice(700), slice(700, None)), strict=True):
        rows = "\n".join(f"{y},{p}" for y, p in zip(Y[part], P[part], strict=True))
        path.write_text(f"label,score\n{rows}\n")
    saved = tmp_path / "certificate.json"
    names = ["--y-true", "label", "--y-prob", "score"]
    files = [str(half[1]), str(half[0])]
    main(["certify", *files, *names, "--max-error", "0.1", "-o", str(saved)])
    certificate = cb.Certificate.from_json(saved.read_bytes())
    assert (
        certificate.digests == cb.certify("label", "score", data={"label": Y, "score": P}).digests
    )
    assert cb.recheck(certificate, Y, P).scope == "rows"
    capsys.readouterr()


def test_a_table_in_place_of_the_rows_is_refused():
    table = cb.tabulate([0, 1, 1], [0.2, 0.6, 0.9], bins="distinct")
    with pytest.raises(InvalidArgumentError, match=r"of sums has none.*certificate.recheck\(\)"):
        cb.recheck(cb.certify(table, max_error=0.5), table)
