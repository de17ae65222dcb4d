"""What may be asked of a table, how the error probability is divided, and what bounds see."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant import EqualWidth, tabulate
from calibrant import exceptions as ex
from calibrant._bins_argument import auto_n_bins
from calibrant.stats.questions import (
    MOST_DRAWS,
    MOST_LOOKS,
    Evidence,
    Question,
    Setting,
    checked_levels,
    error_probability,
    evidence_of,
)

P = np.repeat([0.2, 0.5, 0.9], 40)
Y = np.arange(120) % 3 == 0
TABLE = cb.tabulate(Y, P, bins="distinct")
RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


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


@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
@pytest.mark.parametrize("looks", [2, 20, 1_000_000])
def test_looks_divide_the_error_probability(norm, looks):
    planned = cb.certify(GOOD, LEVELS, norm=norm, looks=looks)
    once = cb.certify(GOOD, LEVELS, norm=norm, confidence_level=1 - 0.05 / looks)
    assert planned.upper_bound == pytest.approx(once.upper_bound, rel=1e-9)
    assert planned.lower_bound == pytest.approx(once.lower_bound, rel=1e-9)
    assert planned.upper_bound > cb.certify(GOOD, LEVELS, norm=norm).upper_bound
    assert planned.confidence_level == 0.95


def test_looks_are_said_and_kept_and_checked():
    planned = cb.certify(GOOD, LEVELS, max_error=0.08, looks=np.int64(3))
    assert "with 95% confidence over 3 looks" in planned.reason
    assert any("At most 3 certificates are asked of these rows" in a for a in planned.assumptions)
    again = cb.Certificate.from_json(planned.to_json())
    assert again.looks == 3
    assert again.recheck()
    document = json.loads(planned.to_json()) | {"looks": 1}
    assert not cb.Certificate.from_json(json.dumps(document)).recheck()
    alone = cb.certify(GOOD, LEVELS, max_error=0.08)
    assert any("the only certificate asked of these rows" in each for each in alone.assumptions)


def test_levels_must_be_all_outputs_of_the_rows():
    whole = np.arange(1, 10) / 10
    declared = cb.certify(GOOD, LEVELS, levels=whole)
    assert declared.levels == whole.tolist()
    assert any("no outputs but the 9 that were declared" in x for x in declared.assumptions)
    assert cb.Certificate.from_json(declared.to_json()).recheck()
    more = cb.certify(GOOD, LEVELS, levels=[*whole, 0.95])
    assert more.n == 4000
    with pytest.raises(ex.InvalidArgumentError, match="1 of the rows' 9 outputs are not among"):
        cb.certify(GOOD, LEVELS, levels=whole[:-1])
    with pytest.raises(ex.InvalidArgumentError, match="one by one.*looks=3 for all to hold"):
        cb.certify(np.arange(9) % 3, np.full((9, 3), 1 / 3), kind="marginal", levels=[1 / 3])
    with pytest.raises(ex.InvalidArgumentError, match="bins that mix"):
        cb.certify(GOOD, SCORES, levels=whole)
    for nonsense in ([], [0.1, np.nan], [1.2], "all", [[0.1]], 0.5):
        with pytest.raises(ex.InvalidArgumentError, match="levels must be all outputs"):
            cb.certify(GOOD, LEVELS, levels=nonsense)


def test_a_mask_hides_no_level_from_the_check():
    levels = np.ma.array([0.1, 0.3, 0.9], mask=[False, True, False])
    with pytest.raises(ex.InvalidArgumentError, match="one or more probabilities"):
        cb.certify([0, 1, 1], [0.1, 0.3, 0.9], levels=levels)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_error": 2}, "max_error must lie between 0 and 1"),
        ({"max_error": 0}, "max_error must lie between 0 and 1"),
        ({"norm": 3}, "Certificates exist for"),
        ({"confidence_level": 95}, "Write 0.95"),
        ({"target": "all"}, "target must be"),
        ({"min_bin_mass": 2}, "min_bin_mass must be"),
        ({"min_bin_mass": "guessed"}, "min_bin_mass must be"),
        ({"min_bin_mass": True}, "min_bin_mass must be"),
        ({"looks": 0}, "looks must be a whole number from 1 to 1,000,000; got 0"),
        ({"looks": 2.0}, "looks must be a whole number"),
        ({"looks": True}, "looks must be a whole number"),
        ({"looks": 10**7}, "looks must be a whole number"),
        ({"looks": "two"}, "1 for once"),
        ({"looks": 100, "confidence_level": 1 - 2e-15}, "by more than rounding"),
        ({"min_bin_mass": 0.2}, "cannot exceed 1 / 9 with 9 outputs"),
    ],
)
def test_settings_that_mean_nothing_are_refused(options, words):
    with pytest.raises(ex.InvalidArgumentError, match=words):
        cb.certify(GOOD, LEVELS, **options)


def test_a_least_mass_may_be_a_number_of_any_width():
    narrow = cb.certify(GOOD, LEVELS, min_bin_mass=np.float32(0.0625))
    assert narrow.to_dict() == cb.certify(GOOD, LEVELS, min_bin_mass=0.0625).to_dict()


def test_a_least_mass_that_the_rows_contradict_is_refused():
    p = np.where(np.arange(4000) < 5, 0.9, 0.1)
    with pytest.raises(ex.InvalidArgumentError, match="only 5 of 4,000 have the rarest output"):
        cb.certify(GOOD, p, min_bin_mass=0.1)


def test_weighted_rows_are_refused():
    table = cb.tabulate(GOOD, LEVELS, bins=cb.Distinct(), sample_weight=LEVELS)
    with pytest.raises(ex.InvalidWeightsError, match="counts independent rows"):
        cb.stats.certify(table)


def test_bins_that_are_fixed_say_how_many_outputs_to_plan_for():
    p = np.repeat([0.25, 0.75], 500)
    fixed = evidence_of(tabulate(p > 0.5, p, bins=EqualWidth(10)), np.ones(1))
    chosen = evidence_of(tabulate(p > 0.5, p, bins=10), np.ones(1))
    assert (fixed.n_planned, chosen.n_planned) == (10, auto_n_bins(1000))


def test_empty_bins_and_classes_without_weight_are_left_out():
    probs = np.array([[0.1, 0.3, 0.6], [0.5, 0.3, 0.2]] * 10)
    table = tabulate([2, 0] * 10, probs, kind="marginal", bins=EqualWidth(10))
    evidence = evidence_of(table, np.array([0.5, 0.0, 0.5]))
    assert evidence.size.tolist() == [10, 10, 10, 10]
    assert evidence.weight.tolist() == [0.5] * 4
    np.testing.assert_allclose(evidence.s, [0.1, 0.5, 0.2, 0.6])


def test_a_bin_can_be_off_by_no_more_than_its_least_mass_allows():
    one = np.ones(2)
    evidence = Evidence(100, 50 * one, 0.5 * one, 0.5 * one, one, 2)
    assert Setting("population", 0.05).largest_squares(evidence, 0.1).tolist() == [1, 1]
    known = Setting("population", 0.05, 0.1).largest_squares(evidence, 0.1)
    assert known.tolist() == pytest.approx([0.1, 0.1])
    sample = Setting("sample", 0.05).largest_squares(evidence, 0.1)
    assert sample.tolist() == pytest.approx([0.02, 0.02])
