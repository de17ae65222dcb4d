"""What kernels of a GPU are given to read; the kernels themselves are tested where there is one."""

from __future__ import annotations

import pytest

from calibrant.engines.cuda import readable_events, readable_labels
from calibrant.problem import Problem
from conftest import optional

torch = optional("torch")

READ = {torch.uint8, torch.int32, torch.int64}
TYPES = ["bool", "int8", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]


def left_out(labels, ignored):
    """Return which labels a kernel leaves out, as it compares them."""
    is_used, number = ignored
    return (labels.long() == number) & bool(is_used)


@pytest.mark.parametrize("ignore_index", [None, -100, 1, 255])
@pytest.mark.parametrize("n_classes", [2, 3, 300])
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_read_the_same_classes_of_labels_of_every_type(dtype, n_classes, ignore_index):
    given = [0, 1] if dtype == "bool" else [0, 1, 2, 44, 127]
    given += {"uint8": [156, 255], "int8": [-100, -1]}.get(dtype, [])
    labels = torch.tensor(given).to(getattr(torch, dtype))
    problem = Problem("top-label", n_classes)
    read, ignored = readable_labels(problem, labels, ignore_index)
    assert read.dtype in READ
    dropped = left_out(read, ignored)
    assert dropped.tolist() == [label == ignore_index for label in given]
    codes = torch.where((read >= 0) & (read.long() < n_classes), read.long(), -1)
    expected = [label if 0 <= label < n_classes else -1 for label in given]
    assert codes[~dropped].tolist() == [
        code for code, gone in zip(expected, dropped.tolist(), strict=True) if not gone
    ]


@pytest.mark.parametrize("ignore_index", [None, -100, 255])
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_read_the_same_events_of_marks_of_every_type(dtype, ignore_index):
    given = [[0, 1], [1, 1]]
    given += {"uint8": [[156, 1], [255, 0]], "int8": [[-100, 1], [-1, 0]]}.get(dtype, [])
    marks = torch.tensor(given).to(getattr(torch, dtype))
    read, ignored = readable_events(marks, ignore_index)
    assert read.dtype in READ
    dropped = left_out(read, ignored)
    assert dropped.tolist() == [[mark == ignore_index for mark in row] for row in given]
    is_mark = [[mark in (0, 1) for mark in row] for row in given]
    assert (((read == 0) | (read == 1)) & ~dropped).tolist() == is_mark
