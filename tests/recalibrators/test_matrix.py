"""Fits of a matrix: the same bits on any number of threads, with any remainder of rows."""

import numpy as np
import pytest

from calibrant import MatrixScaling
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
