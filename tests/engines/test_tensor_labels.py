"""Tensors: which class each label is, whatever its type."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.engines.tensors import codes_of
from calibrant.problem import Problem
from conftest import optional

torch = optional("torch")

TYPES = ["int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]
PROBLEMS = [
    Problem("marginal", 3),
    Problem("marginal", 300),
    Problem("marginal", 3, (300, 1, 0)),
    Problem("marginal", 3, (-212, 1, 0)),
    Problem("binary", pos_label=300),
    Problem("binary", pos_label=1.5),
    Problem("binary", pos_label=1),
]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_labels_have_the_classes_that_numpy_gives_them(problem, dtype):
    labels = torch.tensor([0, 1, 2, 3, 44, 127]).to(getattr(torch, dtype))
    array = labels.double().numpy() if labels.is_floating_point() else labels.numpy()
    np.testing.assert_array_equal(codes_of(problem, labels).numpy(), problem.codes(array))
