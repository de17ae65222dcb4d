"""What an option is, asked of any object."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from calibrant._options import check_flag, check_word, generator, is_among, is_integer, is_real
from calibrant.exceptions import InvalidArgumentError

WHOLE = [0, -3, 1 << 53, 1 << 80, np.int8(4), np.uint64(2**64 - 1)]
REAL = [0.5, -0.0, 1e308, np.float16(0.5), np.float64(2), Fraction(1, 3)]
NEITHER = [True, np.True_, None, "1", 1j, float("nan"), float("inf"), -np.float32("inf"),
           10**400, Decimal(1), np.array(1), np.array([1.0]), [1], int]  # fmt: skip


@pytest.mark.parametrize("value", WHOLE, ids=repr)
def test_whole_numbers_that_a_float_can_hold_are_integers_and_real(value):
    assert is_integer(value)
    assert is_real(value)


@pytest.mark.parametrize("value", REAL, ids=repr)
def test_other_numbers_are_real_alone(value):
    assert is_real(value)
    assert not is_integer(value)


@pytest.mark.parametrize("value", NEITHER, ids=lambda value: repr(value)[:20])
def test_booleans_text_arrays_and_numbers_beyond_every_float_are_neither(value):
    assert not is_real(value)
    assert not is_integer(value)


@pytest.mark.parametrize("value", [None, 1, ["l1"], np.array(["l1", "l2"]), "L1", "l"], ids=repr)
def test_what_is_none_of_the_words_is_refused_with_the_words(value):
    assert not is_among(value, ("l1", "l2", "max"))
    with pytest.raises(InvalidArgumentError, match='^norm must be "l1", "l2" or "max"; got '):
        check_word("norm", value, ("l1", "l2", "max"))


def test_a_word_and_a_flag_that_are_right_pass():
    assert is_among("l2", iter(("l1", "l2")))
    check_word("norm", "l2", ("l1", "l2"))
    for flag in (True, False, np.True_, np.False_):
        check_flag("debias", flag)


@pytest.mark.parametrize("value", [None, 0, 1, "yes", np.array(True), []], ids=repr)
def test_what_is_neither_true_nor_false_is_no_flag(value):
    with pytest.raises(InvalidArgumentError, match="^debias must be True or False; got "):
        check_flag("debias", value)


def test_a_generator_is_kept_and_a_seed_makes_the_same_one_again():
    given = np.random.default_rng(3)
    assert generator("rng", given) is given
    assert generator("rng", 3).uniform() == generator("rng", 3).uniform()


@pytest.mark.parametrize("seed", [-1, 0.5, "seed"], ids=repr)
def test_a_seed_that_numpy_does_not_take_is_refused_by_its_name(seed):
    with pytest.raises(InvalidArgumentError, match="^rng must be None, a whole number >= 0 or"):
        generator("rng", seed)
