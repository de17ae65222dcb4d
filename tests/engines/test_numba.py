"""What only the compiled engine does: quantiles without a sort, threads, and being chosen."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import EqualMass, EqualWidth
from calibrant.engines import MANY_VALUES, engine_for
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import InvalidArgumentError
from calibrant.sources.arrays import read_arrays
from conftest import optional

optional("numba")
from calibrant.engines.numba import NumbaEngine  # noqa: E402


def shapes(n):
    """Predictions of many shapes: spread, heaped at the ends, tied, almost equal, constant."""
    rng = np.random.default_rng(0)
    u = rng.uniform(size=n)
    return {
        "uniform": u,
        "float32": u.astype(np.float32),
        "both ends": rng.beta(0.05, 0.05, size=n),
        "tiny": u**40,
        "log-uniform": 10 ** (-300 * u),
        "beside one": 1 - 1e-12 * u,
        "tied": np.round(u, 2),
        "two values": np.where(u < 0.3, 0.2, np.nextafter(0.2, 1)),
        "constant": np.full(n, 0.3),
        "zeros and ones": np.round(u),
        "half tied": np.where(u < 0.5, 0.25, u),
    }


@pytest.mark.parametrize("n_bins", [1, 2, 15, 100, 5000])
@pytest.mark.parametrize("shape", shapes(1))
def test_uniform_mass_edges_are_those_of_sorting_to_the_last_bit(shape, n_bins):
    rows = read_arrays(np.zeros(300_000), shapes(300_000)[shape])
    chosen = NumbaEngine().choose(rows, EqualMass(n_bins))
    expected = NumpyEngine().choose(rows, EqualMass(n_bins))
    assert chosen[0].edges.tolist() == expected[0].edges.tolist()


@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_the_number_of_threads_does_not_change_a_bit(monkeypatch, kind):
    rng = np.random.default_rng(1)
    probs = rng.random((700_000, 3))
    probs = probs[:, 0] if kind == "binary" else probs
    rows = read_arrays(rng.integers(2, size=700_000), probs, kind=kind)
    tables = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("NUMBA_NUM_THREADS", str(threads))
        bins = NumbaEngine().choose(rows, EqualMass(9))
        tables.append(NumbaEngine().count(rows, bins))
    assert tables[0] == tables[1] == tables[2]


def test_many_values_are_counted_by_numba_and_few_by_numpy(monkeypatch):
    monkeypatch.delenv("CALIBRANT_ENGINE", raising=False)
    assert isinstance(engine_for(MANY_VALUES), NumbaEngine)
    assert isinstance(engine_for(MANY_VALUES - 1), NumpyEngine)


def test_the_environment_can_force_an_engine(monkeypatch):
    few, many = 1, MANY_VALUES
    monkeypatch.setenv("CALIBRANT_ENGINE", "numba")
    assert isinstance(engine_for(few), NumbaEngine)
    monkeypatch.setenv("CALIBRANT_ENGINE", "numpy")
    assert isinstance(engine_for(many), NumpyEngine)
    monkeypatch.setenv("CALIBRANT_ENGINE", "numby")
    with pytest.raises(InvalidArgumentError, match="numby"):
        engine_for(few)


def test_an_empty_class_of_bins_is_padded():
    probs = np.array([[0.1, 0.9], [0.8, 0.2]])
    bins = (EqualWidth(2).bins, EqualWidth(5).bins)
    table = NumbaEngine().count(read_arrays([0, 1], probs, kind="marginal"), bins)
    assert table.count.tolist() == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 1]]
