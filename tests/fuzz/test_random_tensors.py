"""Random tensors are counted as arrays are, or refused in the same words."""

from __future__ import annotations

import pytest

from conftest import optional

torch = optional("torch")
from tensors import differences  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_tables_and_refusals_are_those_of_the_host(first):
    failures = [differences(seed, DEVICE, 100_000) for seed in range(first, first + 10)]
    assert not any(failures), "\n".join(filter(None, failures))
