"""PitDisplay: every cell is drawn, and those beyond chance are marked."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import plt

import calibrant

pytestmark = pytest.mark.usefixtures("closed_figures")


def test_a_display_draws_every_cell_and_marks_those_beyond_chance():
    rng = np.random.default_rng(5)
    mean, std = rng.normal(size=200), rng.uniform(0.5, 2, size=200)
    y = mean + std * rng.normal(size=200)
    narrow = calibrant.normal_quantiles(mean, std / 3, np.arange(1, 10) / 10)
    shown = calibrant.PitDisplay.from_predictions(y, narrow, classes=np.arange(1, 10) / 10)
    heights = [bar.get_height() for bar in shown.bars_]
    np.testing.assert_array_equal(heights, shown.histogram.density)
    assert len(shown.ax_.texts) == shown.histogram.beyond_chance.sum() > 0


def test_pit_histograms_that_share_an_axis_are_both_whole():
    _, axes = plt.subplots(1, 2, sharey=True)
    levels = (0.25, 0.5, 0.75)
    quantiles = np.tile([-0.7, 0.0, 0.7], (400, 1))
    outcome = np.random.default_rng(0).normal(size=400)
    for ax, spread in zip(axes, (4.0, 1.0), strict=True):
        drawn = calibrant.PitDisplay.from_predictions(
            spread * outcome, quantiles, classes=levels, ax=ax
        )
        if spread > 1:
            tallest = drawn.histogram.density.max()
    assert axes[0].get_ylim()[0] == 0
    assert axes[0].get_ylim()[1] > tallest
