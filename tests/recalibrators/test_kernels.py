"""The compiled loops give the answers of NumPy, on any number of cores."""

from __future__ import annotations

import numpy as np
import pytest
from shared import ISOTONIC, ON_LOGITS, SCALING, SEVERAL, binary_rows, class_rows
from sklearn.base import clone

from calibrant.recalibrators import (
    Fingerprint,
    HistogramBinning,
    PlattScaling,
    ScalingBinning,
    fingerprint,
)
from calibrant.recalibrators.isotonic import Blocks, gap_slopes
from calibrant.recalibrators.optimise import Design
from calibrant.recalibrators.saving import to_json
from calibrant.recalibrators.scores import Scores
from conftest import kernels

kernels()

ONE_SCORE = [*SCALING, *ISOTONIC, HistogramBinning(20), ScalingBinning(bins=20)]


def with_engine(monkeypatch, engine, work):
    monkeypatch.setenv("CALIBRANT_ENGINE", engine)
    return work()


def both(monkeypatch, work):
    return [with_engine(monkeypatch, engine, work) for engine in ("numpy", "compiled")]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("recalibrator", ONE_SCORE, ids=str)
def test_a_fit_is_the_same_with_and_without_compiled_loops(monkeypatch, recalibrator, weighted):
    p, y = binary_rows(30_000)
    w = np.random.default_rng(0).exponential(size=y.size) if weighted else None
    plain, fast = both(monkeypatch, lambda: clone(recalibrator).fit(p, y, w))
    np.testing.assert_allclose(fast.predict_proba(p), plain.predict_proba(p), atol=1e-10)
    assert fast.fit_result_.loss == pytest.approx(plain.fit_result_.loss, abs=1e-12)
    assert fast.fit_result_.flags == plain.fit_result_.flags
    assert fast.fingerprint_.same_rows(plain.fingerprint_)


@pytest.mark.parametrize("recalibrator", [*SEVERAL, *ON_LOGITS], ids=str)
def test_other_fits_are_the_same_with_and_without_compiled_loops(monkeypatch, recalibrator):
    p, y = class_rows(3000)
    if getattr(recalibrator, "input", "") == "logits":
        p, y = np.log(p[:, 0]), y == 0
    plain, fast = both(monkeypatch, lambda: clone(recalibrator).fit(p, y))
    np.testing.assert_allclose(fast.predict_proba(p), plain.predict_proba(p), atol=1e-10)


@pytest.mark.parametrize("features", [1, 2])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e3])
@pytest.mark.parametrize("n", [1, 1023, 1025, 5000])
def test_the_compiled_loss_and_its_derivatives_are_those_of_numpy(monkeypatch, features, size, n):
    rng = np.random.default_rng(n)
    phi = rng.normal(size=(features, n))
    events = rng.integers(2, size=n).astype(float)
    design = Design(phi, np.full(features, 0.5), events, None, float(n), "log")
    theta = size * rng.normal(size=features + 1)
    plain, fast = both(monkeypatch, lambda: design.evaluate(theta))
    for a, b in zip(plain, fast, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-13 * max(size, 1))


def test_equal_terms_do_not_overflow_the_product_of_the_compiled_loss(monkeypatch):
    design = Design(np.zeros((1, 4096)), np.ones(1), np.zeros(4096), None, 4096.0, "log")
    loss, _, _ = with_engine(monkeypatch, "compiled", lambda: design.evaluate(np.zeros(2)))
    assert loss == pytest.approx(np.log(2), rel=1e-15)


def test_the_compiled_exponential_is_right_to_one_ulp_in_every_form(forms):
    x = -np.concatenate(([0.0, 5e-324, 1e-300, 708.0], np.geomspace(1e-9, 708, 20_000)))
    for form in forms:
        kernels().use_form(form)
        found = x.copy()
        kernels().exps(found)
        assert np.abs(found - np.exp(x)).max() <= 2.3e-16
        assert (np.abs(found - np.exp(x)) <= 1.01 * np.spacing(np.exp(x))).all()
        ends = np.array([-1e300, -np.inf, -708.0])
        kernels().exps(ends)
        assert ends[0] == ends[1] == ends[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1000, 1), (700, 3), (40, 300)])
def test_hashes_are_those_of_numpy_in_every_form(forms, shape, dtype):
    rng = np.random.default_rng(0)
    rows = rng.random((2 * shape[0], shape[1])).astype(dtype)[::2]
    rows[5], codes = -0.0, rng.integers(5, size=shape[0])
    factors = fingerprint.factors_of(shape[1] + 1)
    for bound in (fingerprint.LARGEST, fingerprint.LARGEST // np.uint64(9)):
        checksum, small = fingerprint.hash_rows(rows, codes, factors, bound)
        for form in forms:
            kernels().use_form(form)
            own = fingerprint.hash_rows_compiled(rows, codes, factors, bound)
            assert own[0] == checksum
            assert own[1].tolist() == small.tolist()


@pytest.mark.parametrize("levels", [2, 50, 10**9])
@pytest.mark.parametrize("weighted", [False, True])
def test_pooled_values_and_gaps_are_the_same_with_and_without_compiled_loops(
    monkeypatch, levels, weighted
):
    rng = np.random.default_rng(levels)
    p = rng.integers(levels + 1, size=4000) / levels
    w = rng.integers(1, 5, size=4000) / 4 if weighted else None
    scores = Scores.of_rows(p, rng.uniform(size=4000) < p, w)

    def work():
        some, blocks = scores.distinct(), Blocks.of(scores)
        fitted = blocks.levels[np.searchsorted(blocks.high, some.values)]
        x, y = np.zeros((2, some.values.size + 1))
        np.cumsum(some.weight, out=x[1:])
        np.cumsum(some.events, out=y[1:])
        return some.values, some.events, fitted, gap_slopes(x, y)

    for plain, fast in zip(*both(monkeypatch, work), strict=True):
        np.testing.assert_allclose(fast, plain, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(20_000,), (3000, 7), (40, 1000)])
def test_fingerprints_are_the_same_with_and_without_compiled_loops(monkeypatch, dtype, shape):
    rng = np.random.default_rng(0)
    probs, codes = rng.random(shape).astype(dtype), rng.integers(2, size=shape[0])
    plain, fast = both(monkeypatch, lambda: Fingerprint.of(probs, codes))
    assert plain.same_rows(fast)
    assert not plain.same_rows(Fingerprint.of(probs, 1 - codes))


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize(
    "recalibrator", [PlattScaling(), PlattScaling("squared"), ISOTONIC[0]], ids=str
)
def test_the_number_of_threads_does_not_change_a_bit_of_a_fit(monkeypatch, engine, recalibrator):
    p, y = binary_rows(300_000)
    monkeypatch.setenv("CALIBRANT_ENGINE", engine)
    texts = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        texts.append(to_json(clone(recalibrator).fit(p, y)))
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("recalibrator", SEVERAL[1:3], ids=str)
def test_the_number_of_threads_does_not_change_a_bit_of_several_classes(monkeypatch, recalibrator):
    probs, y = class_rows(12_000, 100)
    texts = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        texts.append(to_json(clone(recalibrator).fit(probs, y)))
    assert texts[0] == texts[1]
