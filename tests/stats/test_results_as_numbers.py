"""An error reads as its value, and compares with what it can be compared with."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

RNG = np.random.default_rng(5)
P = RNG.uniform(size=3000)
Y = RNG.uniform(size=3000) < P**2
WORSE = RNG.uniform(size=3000) < P**3


@pytest.fixture(scope="module")
def result():
    return cb.calibration_error(Y, P, bins=10)


@pytest.mark.parametrize("spec", [".3f", ".1%", "e", ">12.4f", "g"])
def test_formats_are_those_of_the_number(result, spec):
    assert f"{result:{spec}}" == f"{result.value:{spec}}"


def test_no_format_is_the_whole_line(result):
    assert f"{result}" == str(result)
    with pytest.raises(ValueError, match="format code"):
        f"{result:d}"


def test_rounding_is_that_of_the_number(result):
    assert round(result, 3) == round(result.value, 3)
    assert round(result) == 0
    assert isinstance(round(result), int)
    assert math.isclose(result, result.value)


@pytest.mark.parametrize("convert", [float, np.float64, np.float32, Fraction])
def test_results_compare_with_numbers_on_either_side(result, convert):
    below, above = convert(result.value - 0.01), convert(result.value + 0.01)
    assert below < result < above
    assert below <= result <= above
    assert above > result > below
    assert above >= result >= below
    assert result not in (below, above)
    assert [result < below, result > above, result <= below, result >= above] == [False] * 4


def test_a_result_equals_its_value_and_hashes_like_it(result):
    assert result == result.value == result
    assert result.value == result
    assert {result.value: "found"}[result] == "found"
    assert result.value <= result <= result.value
    assert result != result.value + 0.1


def test_nothing_is_larger_smaller_or_equal_to_nan(result):
    nan = float("nan")
    assert [result < nan, result <= nan, result > nan, result >= nan, result == nan] == [False] * 5


def test_results_of_one_norm_compare_by_value(result):
    worse = cb.calibration_error(WORSE, P, bins=10)
    assert result < worse
    assert result <= worse
    assert worse > result
    assert worse >= result
    assert sorted([worse, result]) == [result, worse]
    assert max([result, worse], key=float) is worse
    assert cb.calibration_error(Y, P, bins=10) == result


def test_results_of_different_norms_are_neither_equal_nor_ordered():
    y, p = [0, 1], [0.5, 0.5]
    a, b = (cb.calibration_error(y, p, norm=norm, debias=False) for norm in ("l1", "l2"))
    assert a.value == b.value
    assert a != b
    with pytest.raises(ex.InvalidArgumentError, match=r"same norm .* l1 and l2\. Measure both"):
        a < b  # noqa: B015


@pytest.mark.parametrize("other", ["0.1", None, [0.1], 0.1j])
def test_what_is_no_number_does_not_compare(result, other):
    assert other != result
    with pytest.raises(TypeError):
        result < other  # noqa: B015


def test_arrays_compare_element_by_element(result):
    assert (np.array([0.0, 1.0]) > result).tolist() == [False, True]


def test_a_lower_bound_formats_and_rounds_too():
    bound = cb.prequential_lower_bound(Y.astype(float), P)
    assert (f"{bound:.3f}", f"{bound}") == (f"{bound.value:.3f}", str(bound))
    assert round(bound, 3) == round(bound.value, 3)
    assert 0 < bound < 1


def test_a_notebook_shows_a_small_table(result):
    shown = result._repr_html_()
    low, high = result.confidence_interval()
    assert shown.startswith("<table><tr><th>binary l2 error</th>")
    assert f"<td>{result.value:.4f}</td>" in shown
    assert f"<td>{low:.4f} to {high:.4f}</td>" in shown
    assert "lower bound: bins mix different predictions" in shown


def test_a_notebook_runs_nothing_that_a_name_contains():
    hostile = cb.Bins([0.0, 0.5, 1.0], rule="<script>alert(1)</script>")
    shown = cb.calibration_error(Y, P, bins=hostile)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
