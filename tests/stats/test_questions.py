"""What may be asked of a table, and how the error probability is divided."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from calibrant.stats.questions import (
    MOST_DRAWS,
    MOST_LOOKS,
    Question,
    checked_levels,
    error_probability,
)

P = np.repeat([0.2, 0.5, 0.9], 40)
Y = np.arange(120) % 3 == 0
TABLE = cb.tabulate(Y, P, bins="distinct")


def test_looks_and_draws_share_the_error_probability():
    assert error_probability(0.95, 1) == pytest.approx(0.05)
    assert error_probability(0.95, 5, 4) == pytest.approx(0.05 / 20)
    looks = sum(error_probability(0.9, i * (i + 1)) for i in range(1, 1000))
    assert looks < 0.1, "any number of looks"
    assert Question.of(TABLE, looks=3, draws=2).delta == pytest.approx(0.05 / 6)


@pytest.mark.parametrize(
    ("looks", "draws"),
    [(0, None), (MOST_LOOKS + 1, None), (1.5, None), (True, None), (1, 0), (1, MOST_DRAWS + 1),
     (1, 2.0), ("1", None), (np.nan, None)],
)  # fmt: skip
def test_looks_and_draws_are_whole_numbers(looks, draws):
    with pytest.raises(ex.InvalidArgumentError, match="must be a whole number from 1 to"):
        error_probability(0.95, looks, draws)


def test_an_error_probability_that_rounding_swallows_is_refused():
    with pytest.raises(ex.InvalidArgumentError, match="by more than rounding"):
        error_probability(1 - 1e-14, MOST_LOOKS)
    with pytest.raises(ex.InvalidArgumentError, match="at least 1e-15 away from 0"):
        Question.of(TABLE, confidence_level=1e-17)


def test_levels_are_distinct_probabilities_whatever_holds_them():
    for given in ([0.9, 0.2, 0.9], (0.2, 0.9), np.array([0.2, 0.9], np.float32).astype(float)):
        assert checked_levels(given) == pytest.approx([0.2, 0.9])
    masked = np.ma.array([0.2, 0.9], mask=[False, True])
    for wrong in ([], [[0.2]], [1.2], [np.nan], "0.2", [None], 0.2, masked):
        with pytest.raises(ex.InvalidArgumentError, match="levels must be all outputs"):
            checked_levels(wrong)


def test_levels_hold_all_outputs_of_the_rows():
    assert Question.of(TABLE, levels=[0.1, 0.2, 0.5, 0.9]).levels.tolist() == [0.1, 0.2, 0.5, 0.9]
    with pytest.raises(ex.InvalidArgumentError, match=r"1 of the rows' 3 outputs .* 0\.9 for one"):
        Question.of(TABLE, levels=[0.2, 0.5])
    with pytest.raises(ex.InvalidArgumentError, match="mix different predictions"):
        Question.of(cb.tabulate(Y, P, bins=[0, 0.6, 1]), levels=[0.2, 0.5, 0.9])


def test_a_share_of_rows_that_the_rows_contradict_is_refused():
    assert Question.of(TABLE, min_bin_mass=0.2).min_bin_mass == 0.2
    assert Question.of(TABLE, min_bin_mass="learned").min_bin_mass == "learned"
    with pytest.raises(ex.InvalidArgumentError, match="cannot exceed 1 / 3"):
        Question.of(TABLE, min_bin_mass=0.4)
    rare = cb.tabulate(
        np.append(np.tile(Y, 10), 0), np.append(np.tile(P, 10), 0.7), bins="distinct"
    )
    with pytest.raises(ex.InvalidArgumentError, match=r"only 1 of 1,201 have the rarest output"):
        Question.of(rare, min_bin_mass=0.2)


@pytest.mark.parametrize("wrong", [0, 1, -0.1, 2, "0.1", True, np.nan])
def test_a_limit_is_a_number_between_0_and_1(wrong):
    with pytest.raises(ex.InvalidArgumentError, match="max_error must lie between 0 and 1"):
        Question.of(TABLE, max_error=wrong)


def test_norms_targets_and_weights_without_a_theorem_are_refused():
    with pytest.raises(ex.NoSuchEstimatorError, match='"l1", "l2" and "max"'):
        Question.of(TABLE, norm=3)
    with pytest.raises(ex.InvalidArgumentError, match='"population" or "sample"'):
        Question.of(TABLE, target="all")
    with pytest.raises(ex.InvalidWeightsError, match="counts independent rows"):
        Question.of(cb.tabulate(Y, P, bins="distinct", sample_weight=1 + P))
