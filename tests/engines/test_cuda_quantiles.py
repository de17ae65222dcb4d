"""Quantiles of many classes on a GPU: block by block, in little memory."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.engines import cuda_quantiles
from calibrant.engines.tensors import Tensors
from calibrant.engines.torch import near_quantiles
from calibrant.problem import read_problem
from conftest import optional

torch = optional("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("are_logits", [False, True])
def test_blocks_of_classes_give_the_quantiles_of_all(monkeypatch, are_logits, dtype):
    torch.manual_seed(0)
    x = torch.randn(5000, 33, device="cuda").to(dtype)
    x = x if are_logits else x.sigmoid()
    labels = torch.zeros(len(x), dtype=torch.int64, device="cuda")
    tensors = Tensors(read_problem("marginal", 33), labels, x, None, are_logits)
    together = near_quantiles(tensors, 15)
    monkeypatch.setattr(cuda_quantiles, "BLOCK_BYTES", 1)
    monkeypatch.setattr(
        cuda_quantiles, "BLOCK_SHARE", 1 << 40
    )  # eight at a time, and the last alone
    for a, b in zip(near_quantiles(tensors, 15), together, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("n_bins", [15, 60])
def test_quantiles_of_many_classes_take_a_twentieth_of_the_input(n_bins):
    x = torch.randn(50_000, 1000, device="cuda")
    labels = torch.zeros(len(x), dtype=torch.int64, device="cuda")
    tensors = Tensors(read_problem("marginal", 1000), labels, x, None, True)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    near_quantiles(tensors, n_bins)
    extra = torch.cuda.max_memory_allocated() - before
    assert extra < x.nbytes / 20
