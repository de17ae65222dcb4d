"""Patterns that stand for several columns."""

from __future__ import annotations

import pytest

from calibrant.exceptions import InvalidArgumentError
from calibrant.sources.patterns import is_pattern, matching, paired, shown_names


def test_a_column_may_be_called_like_a_pattern():
    assert is_pattern("p_*", ["p_a", "p_b"])
    assert not is_pattern("p_*", ["p_*", "p_a"])
    assert not is_pattern("p", ["p_a"])
    assert not is_pattern(3, [3])


def test_a_pattern_stands_for_columns_in_their_order():
    assert matching("p_?", ["p_b", 7, "q", "p_a", "p_10"]) == ["p_b", "p_a"]
    with pytest.raises(InvalidArgumentError, match=r"no column is like 'r_\*' among p_b, 7"):
        matching("r_*", ["p_b", 7])


def test_labels_and_predictions_are_paired_by_what_the_star_stands_for():
    assert paired(["y_b", "y_a"], ["p_a_1", "p_b_1"], "y_*", "p_*_1") == ["p_b_1", "p_a_1"]
    with pytest.raises(InvalidArgumentError, match=r"1 have only one of the two \(first: 'c'\)"):
        paired(["y_a", "y_c"], ["p_a"], "y_*", "p_*")
    for pattern in ("p_*_*", "p_?", "p_[ab]*"):
        with pytest.raises(InvalidArgumentError, match="one \\* each"):
            paired(["y_a"], ["p_a"], "y_*", pattern)


def test_names_of_several_labels_are_shown_as_one():
    assert shown_names(["y_a", "y_b"], ("p_a", "p_b")) == ("y_a, y_b", "p_a", "p_b")
    assert shown_names("y", "p") == ("y", "p")
