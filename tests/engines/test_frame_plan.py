"""Grids rise with the prediction, and number no cell beyond their last."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pytest

from calibrant.engines.frame_plan import LINEAR_BITS, Grid, Pass
from conftest import optional

TINY = 10.0 ** np.arange(-308, 0)
VALUES = np.unique(
    np.concatenate(
        [
            [0.0, 5e-324, 0.5, 1.0],
            TINY,
            np.nextafter(TINY, 1),
            1 - TINY[TINY > 1e-17],
            np.random.default_rng(0).random(20_000),
            np.random.default_rng(1).random(20_000) ** 30,
            1 - np.random.default_rng(2).random(20_000) ** 30,
        ]
    )
)


def numbers(grid):
    frame = nw.from_native(optional("polars").DataFrame({"p": VALUES}))
    return frame.select(grid.number(nw.col("p")))["p"].to_numpy()


@pytest.mark.parametrize("bits", [10, LINEAR_BITS, 24, 36, 42])
def test_cells_rise_with_the_prediction(bits):
    grid = Grid.of_bits(bits)
    found = numbers(grid)
    assert (np.diff(found) >= 0).all()
    assert found[0] >= 0
    assert found[-1] <= grid.largest + 1
    assert Pass(grid).largest_key < 2**53


def test_fine_grids_part_small_probabilities_and_those_near_one():
    found = numbers(Grid.of_bits(36))
    small = (VALUES > 1e-37) & (VALUES < 1e-30)
    assert np.unique(found[small]).size > 0.9 * small.sum()
    near = (VALUES > 1 - 1e-9) & (VALUES < 1 - 1e-14)
    assert np.unique(found[near]).size > 0.9 * near.sum()
