"""Compiled loops of worst tails give the numbers of their NumPy forms, in every form of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrant.stats.binomial_laws import Blocks, Scale
from calibrant.stats.tail_loops import add_blocks, block_weights, tail_step
from calibrant.stats.tails import Penalty, Tail


@pytest.fixture(params=["plain", "avx2", "avx512"])
def compiled(request, monkeypatch):
    """Run what it is given with NumPy and compiled, and return both answers."""
    kernels = pytest.importorskip("calibrant._kernels")
    if request.param not in kernels.forms():
        pytest.skip("not on this processor")
    usual = kernels.form()
    kernels.use_form(request.param)

    def both(function, *arguments):
        answers = []
        for engine in ("numpy", "compiled"):
            monkeypatch.setenv("CALIBRANT_ENGINE", engine)
            answers.append(function(*arguments))
        return answers

    yield both
    kernels.use_form(usual)


@pytest.mark.parametrize("n_cells", [1, 2, 3, 4, 5, 63])
@pytest.mark.parametrize("n_nodes", [2, 3, 9, 16, 37])
def test_a_step_is_the_same(compiled, n_cells, n_nodes):
    rng = np.random.default_rng([n_cells, n_nodes])
    share = rng.uniform(size=(n_cells, n_nodes))
    share[rng.uniform(size=n_cells) < 0.3] = 0.0
    nodes = rng.integers(n_nodes, size=3)
    log_scale, left, right = (rng.normal(scale=50, size=n_nodes - i) for i in (0, 1, 1))
    bulge = np.where(rng.uniform(size=n_nodes - 1) < 0.3, -1.0, rng.exponential(size=n_nodes - 1))
    rows = np.flatnonzero(share.any(axis=1))
    grown = np.sort(rng.exponential(size=n_cells) ** 9)
    fallen = np.cumsum(share[::-1], axis=0)[::-1] - share
    cap = np.maximum(left, right) + rng.exponential(size=n_nodes - 1)
    for before, above, most in ((grown, None, None), (grown[::-1].copy(), fallen, cap)):
        arguments = (before, share, above, log_scale, (left, right, bulge, most), rows, nodes)
        (mean, tops), (fast_mean, fast_tops) = compiled(tail_step, *arguments)
        np.testing.assert_allclose(fast_mean, mean, rtol=1e-14, atol=1e-13)
        np.testing.assert_allclose(fast_tops, tops, rtol=1e-13, atol=1e-12)


def test_logarithms_are_right_at_every_size(compiled):
    values = np.concatenate([np.geomspace(1e-299, 1e300, 4001), 1 + np.linspace(-1e-3, 1e-3, 2001)])
    share, none = values[None, :].copy(), np.full(values.size - 1, -1.0)
    arguments = (np.ones(1), share, None, np.zeros(values.size))
    arguments = (*arguments, (none, none, none, None), np.arange(1), np.arange(values.size))
    _, (logs, tops) = compiled(tail_step, *arguments)
    np.testing.assert_allclose(logs[0], np.log(values), rtol=4e-16, atol=1e-18)
    assert tops[0] == -np.inf


def test_blocks_weigh_and_add_up_the_same(compiled):
    rng = np.random.default_rng(0)
    first = np.arange(-40.0, 41.0, 4.0)
    last = np.minimum(first + 3, 41.0)
    top, chord = -(first**2) / 300, tuple(rng.uniform(size=(2, first.size)))
    tilt = np.sort(np.append(rng.normal(size=30), 0.0))
    scale = np.abs(tilt) * 40
    weight, fast = compiled(block_weights, (first, last), top, chord, tilt, scale)
    np.testing.assert_allclose(fast, weight, rtol=1e-13)
    cell = np.abs(np.arange(first.size) - 8) // 2
    share, fast = compiled(add_blocks, weight, cell, 9)
    np.testing.assert_allclose(fast, share, rtol=1e-14)


@pytest.mark.parametrize(("side", "q"), [("left", 0.5), ("right", -0.5)])
def test_whole_tails_are_the_same(compiled, side, q):
    def bounds():
        scales = [Scale.squared(n, s, 0.05, 0.6) for n, s in ((9, 0.2), (50_000, 0.5), (800, 0.99))]
        return Tail.of(scales, 60, side).log_bounds(Penalty(2, q, True))

    slow, fast = compiled(bounds)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-9)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_the_last_block_may_be_a_single_number_of_events(engine, monkeypatch):
    if engine == "compiled":
        pytest.importorskip("calibrant._kernels")
    monkeypatch.setenv("CALIBRANT_ENGINE", engine)
    n = 40_000
    scale = Scale.squared(n, 0.7, 1.0, 0.0)
    assert scale.block == 2  # so that the last block begins, and ends, at n
    start = np.arange(n - 20.0, n + 1, scale.block)
    w, weight, log_scale = Blocks().of(scale, start, 0.15)
    steep = int(np.searchsorted(w, 8.0))  # where nearly all labels agree
    truth = stats.binom.logpmf(n, n, 1 / (1 + np.exp(-w[steep])))
    assert np.log(weight[-1, steep]) + log_scale[steep] >= truth - 1e-9
