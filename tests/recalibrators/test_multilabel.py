"""Several labels a row: each is repaired by itself, saved, exported and certified."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidShapeError,
    NotFiniteError,
)
from calibrant.recalibrators.fingerprint import Fingerprint
from conftest import optional

RNG = np.random.default_rng(7)
N, K = 1200, 3
P = RNG.uniform(size=(N, K))
Y = (RNG.uniform(size=(N, K)) < P ** [1.0, 2.0, 0.5]).astype(int)
NAMES = ["cat", "dog", "eel"]
METHODS = [cb.PlattScaling(), cb.ScalingBinning(bins=4), cb.IsotonicCalibration(), cb.Identity()]


def fitted(method=None, labels=Y, probs=P, **options):
    return cb.MultiLabel(method or cb.ScalingBinning(bins=4)).fit(probs, labels, **options)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_every_label_is_repaired_as_an_event_of_its_own(method):
    weights = RNG.uniform(0.5, 2, size=N)
    for options in ({}, {"sample_weight": weights}):
        answers = fitted(method, **options).predict_proba(P)
        for k in range(K):
            alone = clone(method).fit(P[:, k], Y[:, k], **options)
            np.testing.assert_array_equal(answers[:, k], alone.predict_proba(P[:, k]))


def test_rows_need_not_add_up_to_one_and_two_labels_are_not_one_event():
    p = np.full((400, 2), 0.5)
    y = np.column_stack([np.arange(400) % 4 > 0, np.arange(400) % 10 > 0])
    repair = fitted(cb.HistogramBinning(bins=1), y, p)
    np.testing.assert_allclose(repair.predict_proba(p[:1]), [[0.75, 0.9]])
    assert repair.predict(p[:2]).tolist() == [[1, 1], [1, 1]]
    assert repair.score(p, y) == pytest.approx(-(0.75 * 0.25 + 0.9 * 0.1) / 2)
    with pytest.raises(InvalidShapeError, match="fitted on 2 labels; y_prob has 1 column"):
        repair.predict_proba(p[:, 0])


def test_a_thousand_labels_and_one_that_no_row_has(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=(300, 1000)).astype(np.float32)
    y = rng.uniform(size=p.shape) < p
    y[:, 17] = False
    y[:, 18] = True
    repair = fitted(cb.PlattScaling(), y, p)
    answers = repair.predict_proba(p)
    assert answers.shape == p.shape
    assert ((answers >= 0) & (answers <= 1)).all()
    assert answers[:, 17].mean() < 0.02 < 0.98 < answers[:, 18].mean()
    assert "one class" in repair.fit_result_.flags
    repair.save(tmp_path / "labels.json")
    np.testing.assert_array_equal(cb.load(tmp_path / "labels.json").predict_proba(p), answers)
    torch = optional("torch")
    module = repair.to_torch(dtype=torch.float64)
    np.testing.assert_allclose(module(torch.tensor(p)).numpy(), answers, rtol=1e-12)


def test_one_label_is_a_table_of_one_column(tmp_path):
    repair = fitted(labels=Y[:, :1], probs=P[:, :1], classes=["cat"])
    alone = cb.ScalingBinning(bins=4).fit(P[:, 0], Y[:, 0]).predict_proba(P[:, 0])
    np.testing.assert_array_equal(repair.predict_proba(P[:, :1])[:, 0], alone)
    np.testing.assert_array_equal(repair.predict_proba(P[:, 0]), alone)
    repair.save(tmp_path / "one.json")
    assert cb.load(tmp_path / "one.json").classes_.tolist() == ["cat"]
    torch = optional("torch")
    module = repair.to_torch()
    np.testing.assert_array_equal(module(torch.tensor(P[:, :1])).numpy()[:, 0], alone)


def test_names_of_labels_are_kept(tmp_path):
    repair = fitted(classes=NAMES)
    repair.save(tmp_path / "labels.json")
    again = cb.load(tmp_path / "labels.json")
    assert (again.classes_.tolist(), repr(again)) == (NAMES, repr(repair))
    np.testing.assert_array_equal(again.predict_proba(P), repair.predict_proba(P))


def test_it_is_certified_as_what_it_answers_is():
    rng = np.random.default_rng(11)
    p = rng.uniform(size=(4000, K))
    y = (rng.uniform(size=p.shape) < p ** [1.0, 2.0, 0.5]).astype(int)
    repair = fitted()
    own = repair.certify(p, y, max_error=0.1)
    direct = cb.certify(y, repair.predict_proba(p), kind="multi-label", max_error=0.1)
    assert own.verdict == "certified"
    assert own.table.problem.kind == "multi-label"
    assert own.upper_bound == direct.upper_bound
    assert repair.recheck(own, p, y).agrees
    with pytest.raises(InvalidArgumentError, match="multi-label error; kind is"):
        repair.certify(p, y, kind="marginal", max_error=0.1)


def test_the_rows_of_the_fit_are_known_again_by_their_labels_too():
    repair = fitted()
    with pytest.raises(InvalidInputError, match="very rows it was fitted on"):
        repair.certify(P[::-1], Y[::-1], max_error=0.1)
    other = Y.copy()
    other[5, 1] = 1 - other[5, 1]
    assert not repair.fingerprint_.same_rows(Fingerprint.of(P, other))
    swapped = Y[:, [1, 0, 2]]
    assert not repair.fingerprint_.same_rows(Fingerprint.of(P, swapped))


def test_sql_and_frames_answer_as_predict_proba_does():
    duckdb, pl = optional("duckdb"), optional("polars")
    repair, names = fitted(), ["p_cat", "p_dog", "p_eel"]
    frame = pl.DataFrame({name: P[:200, k] for k, name in enumerate(names)})
    columns = ", ".join(f"{x} AS c{k}" for k, x in enumerate(repair.to_sql(names)))
    answers = repair.predict_proba(P[:200])
    got = duckdb.sql(f"SELECT {columns} FROM frame").fetchnumpy()
    for k in range(K):
        np.testing.assert_array_equal(got[f"c{k}"], answers[:, k])
    for data in (frame, frame.lazy()):
        out = repair.apply_to_frame(data, names)
        out = out.collect() if data is not frame else out
        assert out.columns[K:] == [f"{name}_calibrated" for name in names]
        np.testing.assert_array_equal(out.to_numpy()[:, K:], answers)
    assert repair.apply_to_frame(frame, names, output=names).columns == names
    assert len(repair.to_expression(names)) == K
    for wrong in ("p_cat", names[:2], ["p_cat", "p_cat", "p_eel"]):
        with pytest.raises(InvalidShapeError, match="3 labels"):
            repair.to_sql(wrong)
    with pytest.raises(InvalidArgumentError, match="a new column for each"):
        repair.apply_to_frame(frame, names, output="calibrated")


@pytest.mark.parametrize("method", [cb.PlattScaling(), cb.ScalingBinning(bins=4)])
def test_torch_and_onnx_answer_as_predict_proba_does(method, tmp_path):
    torch, runtime = optional("torch"), optional("onnxruntime")
    optional("onnx")
    repair, rows = fitted(method), P[:50].copy()
    answers = repair.predict_proba(rows)
    rows[3, 1], answers[3] = np.nan, np.nan
    module = repair.to_torch()
    np.testing.assert_allclose(module(torch.tensor(rows)).numpy(), answers, rtol=1e-14)
    repair.to_onnx(tmp_path / "labels.onnx", dtype="float64")
    session = runtime.InferenceSession(tmp_path / "labels.onnx")
    (got,) = session.run(None, {"probabilities": rows})
    np.testing.assert_allclose(got, answers, rtol=1e-14)


def test_anything_with_fit_and_predict_proba_may_repair_labels():
    answers = fitted(LogisticRegression()).predict_proba(P)
    alone = LogisticRegression().fit(P[:, [1]], Y[:, 1]).predict_proba(P[:, [1]])[:, 1]
    np.testing.assert_allclose(answers[:, 1], alone)


def test_what_cannot_be_labels_is_refused():
    with pytest.raises(InvalidShapeError, match='kind="multi-label" needs a column'):
        fitted(labels=Y[:, 0])
    missing = Y.astype(float)
    missing[4, 2] = np.nan
    with pytest.raises(InvalidLabelsError, match=r"y_true\[4, 2\] = nan"):
        fitted(labels=missing)
    with pytest.raises(InvalidLabelsError, match=r"y_true\[0, 0\] = [23]"):
        fitted(labels=Y + 2)
    unknown = P.copy()
    unknown[7, 1] = np.nan
    with pytest.raises(NotFiniteError, match=r"y_prob\[7, 1\] = nan"):
        fitted().predict_proba(unknown)
    with pytest.raises(InvalidShapeError, match="fitted on 3 labels; y_prob has 2 columns"):
        fitted().predict_proba(P[:, :2])
    for wrong in (cb.VectorScaling(), cb.OneVsRest(cb.PlattScaling()), "platt"):
        with pytest.raises(InvalidArgumentError, match="a recalibrator of one score"):
            fitted(wrong)
    with pytest.raises(InvalidArgumentError, match="column of each label"):
        cb.ByGroup(cb.MultiLabel(cb.PlattScaling())).fit(P, Y, by=np.arange(N) % 2)
    for call in (lambda r: r.inverse([0.5]), lambda r: r.fit_table(cb.tabulate(Y[:, 0], P[:, 0]))):
        with pytest.raises(CalibrantError):
            call(fitted())
