"""Columns: rows in memory whose values are checked when they are read."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from calibrant import exceptions as ex
from calibrant.columns import Columns
from calibrant.problem import Problem
from calibrant.sources import read

RNG = np.random.default_rng(0)
Z = RNG.normal(scale=3, size=(70_000, 4)).astype(np.float32)
PROBS = special.softmax(Z.astype(float), axis=1)
CLASS = RNG.integers(4, size=len(Z))


def test_the_event_of_a_top_label_problem_is_that_the_choice_was_right():
    happened, predicted = read(CLASS, PROBS).columns().events()
    np.testing.assert_array_equal(happened, PROBS.argmax(axis=1) == CLASS)
    np.testing.assert_array_equal(predicted, PROBS.max(axis=1))


def test_logits_have_the_events_of_their_probabilities():
    columns = read(CLASS, Z, input="logits").columns()
    happened, predicted = columns.events()
    np.testing.assert_array_equal(happened, PROBS.argmax(axis=1) == CLASS)
    np.testing.assert_allclose(predicted, PROBS.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(columns.group(0), PROBS.max(axis=1), rtol=1e-12)
    np.testing.assert_allclose(columns.probabilities(), PROBS, rtol=1e-12)
    np.testing.assert_allclose(columns.as_marginal().group(3), PROBS[:, 3], rtol=1e-12)


def test_a_marginal_problem_has_an_event_for_every_class():
    happened, predicted = read(CLASS, PROBS, kind="marginal").columns().events()
    assert happened.shape == predicted.shape == PROBS.shape
    np.testing.assert_array_equal(happened.argmax(axis=1), CLASS)
    np.testing.assert_array_equal(happened.sum(axis=1), 1)


@pytest.mark.parametrize("place", [0, 69_999])
@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (Columns(Problem("top-label", 4), CLASS, Z, are_logits=True), ex.NotFiniteError),
        (Columns(Problem("marginal", 4), CLASS, PROBS), ex.NotFiniteError),
        (Columns(Problem("binary"), CLASS % 2, PROBS[:, 0]), ex.NotFiniteError),
    ],
    ids=["logits", "marginal", "binary"],
)
def test_a_value_that_is_missing_is_refused_wherever_it_is(columns, error, place):
    columns.check()
    predictions = columns.predictions.copy()
    predictions[place] = np.nan
    bad = Columns(columns.problem, columns.labels, predictions, None, columns.are_logits)
    with pytest.raises(error, match=f"first: y_prob.{place}"):
        bad.check()


def test_labels_are_checked_too():
    with pytest.raises(ex.InvalidLabelsError, match=r"first: y_true\[1\] = 2"):
        Columns(Problem("binary"), np.array([0, 2]), np.array([0.5, 0.5])).check()


def test_rows_come_home_with_every_check():
    for given, error in [
        ({"pos_label": 7}, ex.InvalidLabelsError),
        ({"sample_weight": [0, 0]}, ex.InvalidWeightsError),
        ({"sample_weight": [1e-200, 0]}, ex.InvalidWeightsError),
    ]:
        with pytest.raises(error):
            read([0, 1], [0.2, 0.7], **given).columns()


def test_taking_rows_takes_their_weights():
    columns = read([0, 1, 1], [0.2, 0.7, 0.9], sample_weight=[1, 2, 3]).columns()
    taken = columns.take(np.array([2, 2, 0]))
    assert taken.weights.tolist() == [3, 3, 1]
    assert taken.predictions.tolist() == [0.9, 0.9, 0.2]
    assert len(taken) == 3
