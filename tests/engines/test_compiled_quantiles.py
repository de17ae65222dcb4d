"""Bins that the compiled engine chooses are those of sorting, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import EqualMass, tabulate
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import InvalidInputError
from calibrant.sources.arrays import read_arrays
from conftest import kernels

kernels()
from calibrant.engines.compiled import CompiledEngine  # noqa: E402


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


@pytest.mark.parametrize("n", [1000, 300_000, 600_000])
@pytest.mark.parametrize("n_bins", [1, 2, 15, 100, 5000])
@pytest.mark.parametrize("shape", shapes(1))
def test_uniform_mass_edges_are_those_of_sorting_to_the_last_bit(shape, n_bins, n):
    rows = read_arrays(np.zeros(n), shapes(n)[shape])
    chosen = CompiledEngine().choose(rows, EqualMass(n_bins))
    expected = NumpyEngine().choose(rows, EqualMass(n_bins))
    assert chosen[0].edges.tolist() == expected[0].edges.tolist()


@pytest.mark.parametrize("power", [1, 6])
def test_a_search_for_few_quantiles_sorts_few_values_heaped_ones_too(monkeypatch, power):
    sizes, sort = [], np.sort
    monkeypatch.setattr(np, "sort", lambda values: sizes.append(values.size) or sort(values))
    rows = read_arrays(np.zeros(600_000), shapes(600_000)["uniform"] ** power)
    CompiledEngine().choose(rows, EqualMass(15))
    assert 0 < sum(sizes) < 150_000


def near_of(line, n_bins):
    """Return what `near_quantiles` writes for one line, by brute force."""
    values, counts = np.unique(line.astype(np.float64), return_counts=True)
    up_to = np.cumsum(counts)
    holding = np.searchsorted(up_to, line.size * np.arange(1, n_bins) / n_bins)
    beside = np.pad(values, 1, constant_values=np.inf)
    near = beside[holding], values[holding], beside[holding + 2]
    return np.array([*near, (up_to - counts)[holding], up_to[holding]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [1, 2, 15, 400])
@pytest.mark.parametrize("n", [1, 2, 257, 5000, 70_001])
def test_values_next_to_quantiles_are_those_of_sorted_lines_in_every_form(forms, dtype, n_bins, n):
    rng = np.random.default_rng(n)
    spread = rng.random((5, n)) ** np.array([[1], [40], [0.01], [1], [1]])
    lines = np.clip(spread, 0, 1).astype(dtype)
    lines[3] = rng.choice([0.0, -0.0, np.finfo(dtype).tiny / 4, 0.5, 1.0], n)
    lines[4, : n // 2] = 0.3
    expected = [near_of(line, n_bins) for line in lines]
    for form in forms:
        kernels().use_form(form)
        near = np.full((5, 5, n_bins - 1), np.nan)
        assert kernels().near_quantiles(lines, near) == 0
        np.testing.assert_array_equal(near, expected)


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (np.nan, "nan"),
        (-np.nan, "nan"),
        (-1e-300, "-1e-300"),
        (1 + 2.0**-52, "1.0000000000000002"),
        (-np.inf, "-inf"),
    ],
)
def test_a_line_with_a_wrong_value_is_refused_in_every_form(forms, wrong, shown):
    lines = np.full((2, 6000), 0.25)
    lines[1, 5999] = wrong
    for form in forms:
        kernels().use_form(form)
        assert kernels().near_quantiles(lines, np.empty((2, 5, 9))) == 1
        assert kernels().near_quantiles(lines.astype(np.float32), np.empty((2, 5, 9))) == int(
            np.float32(wrong) != 1 and np.float32(wrong) != 0
        )
    with pytest.raises(InvalidInputError, match=rf"y_prob\[5999\] = {shown}\)"):
        tabulate(np.arange(6000) % 2, lines[1], bins=EqualMass(10))
