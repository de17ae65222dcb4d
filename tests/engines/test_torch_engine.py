"""Bins that are chosen on a device: the edges of all distinct values."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant.engines.tensors import Tensors
from calibrant.engines.torch import TorchEngine
from calibrant.problem import read_problem
from conftest import optional

torch = optional("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DRAWN = {
    "spread": lambda rng, shape: rng.beta(0.2, 0.9, size=shape),
    "float32": lambda rng, shape: rng.beta(0.2, 0.9, size=shape).astype(np.float32),
    "tied": lambda rng, shape: np.round(rng.uniform(size=shape), 2),
    "few": lambda rng, shape: rng.choice([0.0, 1e-300, 0.5, 1.0], size=shape),
    "one": lambda rng, shape: np.full(shape, 0.25),
}


def tensors_of(table):
    problem = read_problem("marginal", table.shape[1])
    labels = torch.zeros(len(table), dtype=torch.int64, device=DEVICE)
    return Tensors(problem, labels, torch.tensor(table).to(DEVICE))


@pytest.mark.parametrize("n_bins", [1, 2, 15, 60])
@pytest.mark.parametrize("n", [1, 3, 700, 20_000])
@pytest.mark.parametrize("drawn", DRAWN)
def test_edges_are_those_of_all_distinct_values(drawn, n, n_bins):
    table = DRAWN[drawn](np.random.default_rng(n), (n, 3))
    rule = cb.EqualMass(n_bins)
    chosen = TorchEngine().choose(tensors_of(table), rule)
    for bins, column in zip(chosen, table.T.astype(np.float64), strict=True):
        values, counts = np.unique(column, return_counts=True)
        assert bins == rule.choose(values, counts.astype(float))


def test_columns_of_events_have_the_edges_of_their_probabilities():
    torch.manual_seed(0)
    z = torch.randn(3000, 11, device=DEVICE).double()
    events = torch.rand(3000, 11, device=DEVICE) < 0.3
    problem = read_problem("multi-label", classes=tuple("abcdefghijk"))
    rule = cb.EqualMass(15)
    chosen = TorchEngine().choose(Tensors(problem, events, z, None, True), rule)
    for bins, column in zip(chosen, z.T, strict=True):
        alone = Tensors(read_problem("binary"), events[:, 0], column.contiguous(), None, True)
        assert bins == TorchEngine().choose(alone, rule)[0]
