"""ONNX models that are written without torch give the answers of predict_proba."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from shared import binary_rows, class_rows, exported_cases, float64_error
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators import (
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    OneVsRest,
    PlattScaling,
    TemperatureScaling,
    TopLabel,
)

EXPORTED = [pytest.param(*case, id=str(case[0])) for case in exported_cases()]


@pytest.fixture
def run(tmp_path):
    """Return a function that exports a recalibrator and asks onnxruntime for its answers."""
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")

    def ask(fitted, *batches, **options):
        fitted.to_onnx(tmp_path / "model.onnx", **options)
        session = runtime.InferenceSession(tmp_path / "model.onnx")
        return [session.run(["calibrated"], {fitted.input: rows})[0] for rows in batches]

    return ask


@pytest.mark.parametrize(("fitted", "x"), EXPORTED)
def test_onnx_is_predict_proba_at_and_beside_every_edge(fitted, x, run):
    short = x.astype(np.float32)
    found, first = run(fitted, short, short[:1])
    assert found.dtype == np.float32
    np.testing.assert_array_max_ulp(found, fitted.predict_proba(short).astype(np.float32), 1)
    np.testing.assert_array_equal(first, found[:1])


@pytest.mark.parametrize(("fitted", "x"), EXPORTED)
def test_onnx_in_float64_is_predict_proba_to_an_ulp_of_one(fitted, x, run):
    (found,) = run(fitted, x, dtype="float64")
    steps = hasattr(fitted, "cuts_") or isinstance(fitted, IsotonicCalibration)
    atol = 0 if steps else float64_error(fitted)
    np.testing.assert_allclose(found, fitted.predict_proba(x), rtol=0, atol=atol)


@pytest.mark.parametrize(("fitted", "x"), EXPORTED)
def test_impossible_predictions_become_nan_in_onnx(fitted, x, run):
    wrong = [np.nan, np.inf, -np.inf]
    if fitted.input == "probabilities":
        wrong += [-5e-324, 1 + 2**-52, -0.1, 1.7]
    rows = np.repeat(x[:1], len(wrong) + 1, axis=0)
    rows.reshape(len(rows), -1)[1:, -1] = wrong
    (found,) = run(fitted, rows, dtype="float64")
    missing = np.isnan(found.reshape(len(rows), -1))
    assert not missing[0].any()
    assert missing[1:].all()


@pytest.mark.parametrize("recalibrator", [HistogramBinning(5), PlattScaling(), Identity()], ids=str)
def test_onnx_reads_both_columns_of_a_classifier(recalibrator, run):
    fitted = clone(recalibrator).fit(*binary_rows(200))
    event = np.linspace(0, 1, 50, dtype=np.float32)
    both = np.column_stack((1 - event, event))
    (found,) = run(fitted, both, columns=2)
    np.testing.assert_array_max_ulp(found, fitted.predict_proba(both).astype(np.float32), 1)


def test_onnx_reads_both_columns_of_logits(run):
    both = np.random.default_rng(0).normal(size=(300, 2))
    fitted = PlattScaling(input="logits").fit(both, both[:, 1] > both[:, 0] + 0.3)
    (found,) = run(fitted, both, columns=2, dtype="float64")
    np.testing.assert_allclose(found, fitted.predict_proba(both), rtol=0, atol=1e-15)


def test_a_thousand_classes_are_written(run):
    probs, y = class_rows(300, 1000)
    probs = probs.astype(np.float32)
    for recalibrator in (TemperatureScaling(), TopLabel(PlattScaling())):
        fitted = recalibrator.fit(probs, y)
        (found,) = run(fitted, probs[:20])
        exact = fitted.predict_proba(probs[:20]).astype(np.float32)
        np.testing.assert_array_max_ulp(found, exact, 1)


def test_the_same_recalibrator_is_written_in_the_same_bytes(tmp_path):
    pytest.importorskip("onnx")
    fitted = PlattScaling().fit(*binary_rows(200))
    for name in ("a", "b"):
        fitted.to_onnx(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_written_is_refused_and_leaves_no_file(tmp_path):
    pytest.importorskip("onnx")
    path = tmp_path / "model.onnx"
    one = PlattScaling().fit(*binary_rows(200))
    several = OneVsRest(PlattScaling()).fit(*class_rows(200))
    for fitted, columns in ((one, 3), (one, 0), (one, "2"), (one, True), (several, 2)):
        with pytest.raises(InvalidArgumentError, match="columns must be"):
            fitted.to_onnx(path, columns=columns)
    with pytest.raises(InvalidArgumentError, match="dtype must be"):
        one.to_onnx(path, dtype="float16")
    with pytest.raises(InvalidArgumentError, match="has no form in ONNX"):
        OneVsRest(LogisticRegression()).fit(*class_rows(100)).to_onnx(path)
    with pytest.raises(NotFittedError):
        PlattScaling().to_onnx(path)
    assert list(tmp_path.iterdir()) == []


def test_without_onnx_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "calibrant.recalibrators.exports.onnx", raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install calibrant\[onnx\]"):
        PlattScaling().fit(*binary_rows(50)).to_onnx(tmp_path / "model.onnx")
