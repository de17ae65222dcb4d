"""Rows of a data frame, and that a lazy one gives their counts."""

from __future__ import annotations

import numpy as np

from calibrant import Bins
from calibrant.engines.numpy import NumpyEngine
from calibrant.sources.frames import FrameSource
from conftest import optional

pandas = optional("pandas")
SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu")
NAMES = ["c0", "c1", "c2"]
MANY = Bins(np.linspace(0, 1, 51) ** 1.5)


def example(n=2000, n_classes=3):
    """Return rows of two decimals, of an event "won" and of classes y."""
    rng = np.random.default_rng(0)
    probs = np.round(rng.dirichlet(np.ones(n_classes), size=n), 2)
    columns = {f"c{k}": probs[:, k] for k in range(n_classes)}
    y, w = rng.integers(n_classes, size=n), rng.integers(4, size=n) / 2
    return pandas.DataFrame({"y": y, "won": y == 1, "w": w, "p": probs[:, 1], **columns})


def assert_same(source, columns, rule):
    """Equal edges, counts and levels, and sums to 1e-12."""
    assert isinstance(source, FrameSource)
    if isinstance(rule, Bins):
        bins = (rule,) * columns.problem.n_groups
    else:
        bins = source.choose(rule)
        assert bins == NumpyEngine().choose(columns, rule)
    table, expected = source.count(bins), NumpyEngine().count(columns, bins)
    assert table.problem == expected.problem
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.level, expected.level)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(table, name), getattr(expected, name), rtol=1e-12, atol=1e-14, err_msg=name
        )
