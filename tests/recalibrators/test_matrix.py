"""Vector and matrix scaling: their minimum, and the same bits on any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
from shared import class_rows

from calibrant import MatrixScaling, VectorScaling
from calibrant.recalibrators.matrix import FullWeights


@pytest.mark.parametrize("k", [2, 7, 100, 181, 182, 300])
@pytest.mark.parametrize("n", [0, 1, 25, 26, 27, 700])
def test_products_in_runs_are_products(n, k):
    rng = np.random.default_rng(n)
    z, residual, weight = rng.normal(size=(n, k)), rng.normal(size=(n, k)), rng.normal(size=(k, k))
    np.testing.assert_allclose(FullWeights().scaled(z, weight), z @ weight.T, atol=1e-10)
    np.testing.assert_allclose(FullWeights().slope(residual, z), residual.T @ z, atol=1e-10)


def test_fits_do_not_depend_on_the_number_of_threads(monkeypatch):
    rng = np.random.default_rng(0)
    z = rng.normal(size=(9001, 40)) * 2
    y = (z / 1.5 + rng.gumbel(size=z.shape)).argmax(axis=1)
    fits = []
    for threads in ("1", "3"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        fits.append(MatrixScaling(input="logits").fit(z, y))
    np.testing.assert_array_equal(fits[0].weight_, fits[1].weight_)


@pytest.mark.parametrize("cls", [VectorScaling, MatrixScaling])
def test_structured_scaling_lowers_the_loss_of_an_overconfident_model(cls):
    probs, y = class_rows(3000)
    fitted = cls().fit(probs[:1500], y[:1500])
    after = fitted.predict_proba(probs[1500:])
    np.testing.assert_allclose(after.sum(axis=1), 1)
    own = np.arange(1500), y[1500:]
    assert -np.log(after[own]).mean() < -np.log(probs[1500:][own]).mean() - 0.1


@pytest.mark.parametrize("cls", [VectorScaling, MatrixScaling])
def test_structured_scaling_is_at_its_minimum(cls):
    probs, y = class_rows(400)
    fitted = cls().fit(probs, y)
    assert fitted.fit_result_.converged
    wanted = np.bincount(y, minlength=4) / y.size
    slack = 2 * 4 / 400 * np.abs(fitted.bias_)
    np.testing.assert_allclose(
        fitted.predict_proba(probs).mean(axis=0), wanted, atol=slack.max() + 1e-4
    )


def test_a_class_without_rows_keeps_a_finite_answer():
    probs, y = class_rows()
    y = np.where(y == 3, 0, y)
    for cls in (VectorScaling, MatrixScaling):
        fitted = cls().fit(probs, y)
        assert np.isfinite(fitted.bias_).all()
        assert fitted.predict_proba(probs)[:, 3].max() < 0.2
