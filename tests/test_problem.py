"""Problems: shapes and names decide what predictions mean, and documents keep it."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import exceptions as ex
from calibrant.problem import Problem


@pytest.mark.parametrize(
    ("shape", "given", "problem", "column"),
    [
        ((9,), {}, Problem("binary"), None),
        ((9, 1), {}, Problem("binary"), 0),
        ((9, 2), {}, Problem("binary"), 1),
        ((9, 2), {"pos_label": 0}, Problem("binary", 2, (1, 0)), 0),
        ((9, 2), {"classes": ("b", "a")}, Problem("binary", 2, ("b", "a")), 1),
        ((9, 2), {"classes": ("b", "a"), "pos_label": "b"}, Problem("binary", 2, ("a", "b")), 0),
        ((9, 2), {"kind": "marginal"}, Problem("marginal", 2), None),
        ((9, 3), {}, Problem("top-label", 3), None),
        ((9, 1000), {"kind": "marginal"}, Problem("marginal", 1000), None),
    ],
)
def test_a_shape_and_names_say_what_is_predicted(shape, given, problem, column):
    assert Problem.of(shape, **given) == (problem, column)


@pytest.mark.parametrize(
    ("shape", "given", "words"),
    [
        ((9,), {"kind": "top-label"}, "needs one column per class"),
        ((9, 3), {"kind": "binary"}, r"got \(9, 3\). Pick the column"),
        ((9, 3), {"classes": ("a", "b")}, "every one of the 3 classes; got 2 names"),
        ((9, 2), {"pos_label": "yes"}, "does not say which is the event's"),
        ((9, 3), {"pos_label": 1}, "Name the classes with classes= instead"),
        ((9,), {"kind": "trinary"}, 'kind must be "binary"'),
    ],
)
def test_a_shape_that_does_not_fit_its_names_is_refused(shape, given, words):
    with pytest.raises((ex.InvalidShapeError, ex.InvalidArgumentError), match=words):
        Problem.of(shape, **given)


def test_labels_that_are_no_class_have_the_code_minus_one():
    problem = Problem("marginal", 3, ("a", "b", "c"))
    labels = np.array(["c", "a", "d", None], object)
    assert problem.codes(labels).tolist() == [2, 0, -1, -1]
    assert Problem("top-label", 3).codes(np.array([0.0, 2.0, 1.5, np.nan, 3.0])).tolist() == [
        *(0, 2, -1, -1, -1)
    ]


@pytest.mark.parametrize(
    "problem",
    [
        Problem("binary"),
        Problem("binary", pos_label="yes"),
        Problem("marginal", 3, ("a", "b", "c")),
        Problem("top-label", 2, (False, True)),
    ],
)
def test_problems_survive_the_round_trip(problem):
    assert Problem.from_dict(problem.to_dict()) == problem


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"kind": "other", "n_classes": 2, "classes": None, "pos_label": None},
        {"kind": "marginal", "n_classes": 3, "classes": ["a"], "pos_label": None},
        {"kind": "marginal", "n_classes": True, "classes": None, "pos_label": None},
        {"kind": "binary", "n_classes": 2, "classes": None, "pos_label": [1]},
        {"kind": "binary", "n_classes": 3, "classes": None, "pos_label": None},
        {"kind": "marginal", "n_classes": 2, "classes": None, "pos_label": 1},
        {"kind": "marginal", "n_classes": 2, "classes": ["a", "a"], "pos_label": None},
        {"kind": "marginal", "n_classes": 2, "classes": ["a", 1], "pos_label": None},
        {"kind": "marginal", "n_classes": 2, "classes": [1, float("nan")], "pos_label": None},
        {"kind": "marginal", "n_classes": 2.0, "classes": None, "pos_label": None},
        {"kind": ["marginal"], "n_classes": 2, "classes": None, "pos_label": None},
        {"kind": "top-label", "n_classes": 10**8, "classes": None, "pos_label": None},
        {"kind": "binary", "n_classes": 2, "classes": None, "pos_label": None, "more": 1},
    ],
)
def test_damaged_problems_are_refused(document):
    with pytest.raises(ex.InvalidDocumentError, match="problem"):
        Problem.from_dict(document)
