"""Lower bounds: the paper's bootstrap on one split of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from small_studies import DATA

from calibrant import EqualMass, EqualWidth, calibration_error
from calibrant.paper.lower_bounds import Split, reflected_errors, settings_for
from calibrant.paper.study import Context

SETTINGS = settings_for(DATA)
SPLIT = Split.draw(SETTINGS, Context(np.random.default_rng(0), DATA), 0)


def test_a_split_holds_every_row_once():
    n = SETTINGS.n_scale + SPLIT.chosen_from.size + SPLIT.scores.size
    assert n == len(DATA.labels)
    assert SPLIT.chosen_from.size == SETTINGS.n_choose
    assert SPLIT.right.size == SPLIT.scores.size


def test_bins_of_equal_mass_come_from_the_choosing_rows_and_those_of_equal_width_from_none():
    values, counts = np.unique(SPLIT.chosen_from, return_counts=True)
    assert SPLIT.bins("mass", 7) == EqualMass(7).choose(values, counts.astype(float))
    assert SPLIT.bins("width", 7) == EqualWidth(7).bins


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_resample_is_reflected_at_the_plug_in_error(norm):
    bins = SPLIT.bins("mass", 5)
    plug_in = calibration_error(SPLIT.right, SPLIT.scores, bins=bins, norm=norm, debias=False)
    drawn = np.ones((2, SPLIT.scores.size))
    drawn[1, : SPLIT.scores.size // 2 * 2] = np.tile([0, 2], SPLIT.scores.size // 2)
    whole, odd = reflected_errors(SPLIT, bins, norm, drawn)
    half = slice(1, None, 2)
    other = calibration_error(
        SPLIT.right[half], SPLIT.scores[half], bins=bins, norm=norm, debias=False
    )
    assert whole == pytest.approx(plug_in.value)
    assert odd == pytest.approx(2 * plug_in.value - other.value)
