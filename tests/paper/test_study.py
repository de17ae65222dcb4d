"""Studies: settings, splits of the rows, progress, and results as documents."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from small_studies import DATA, SMALL, result, splits

from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.paper import Finding, Predictions, run, study
from calibrant.paper.study import Context, StudyResult
from calibrant.paper.synthetic import Synthetic
from calibrant.paper.uncertainty import about


def test_results_survive_the_round_trip():
    found = result(findings=[Finding("histogram", about(2.0, 0.1), 10, note="<b>"), splits(1, 2)])
    again = StudyResult.from_json(found.to_json())
    assert again == found
    assert json.loads(found.to_json())["output"]["findings"][0]["estimate"]["se"] == 0.1


def test_settings_are_frozen_and_unknown_ones_are_named():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Synthetic().repeats = 3  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="'repeat'"):
        run("synthetic-n", repeat=3)
    with pytest.raises(InvalidArgumentError, match="no study 'synthetic'"):
        study("synthetic")


@pytest.mark.parametrize("name", ["lower-bounds", "estimators-ece", "choosing-bins"])
def test_a_study_of_no_split_is_refused(name):
    with pytest.raises(InvalidArgumentError, match="at least one split of the rows; splits is 0"):
        run(name, data=DATA, splits=0)


def test_a_study_of_predictions_asks_for_them():
    with pytest.raises(InvalidInputError, match="--probs"):
        run("lower-bounds")


def test_progress_ends_at_the_whole():
    seen = []
    run("synthetic-bins", repeats=3, bins=(5, 20), progress=lambda *done: seen.append(done))
    assert seen[-1] == (3, 3)


def test_the_first_split_of_the_paper_s_file_is_that_of_the_authors_scripts(cifar10):
    labels, probs = cifar10
    context = Context(np.random.default_rng(1), Predictions(probs, labels))
    first = context.order(0)
    assert first[:5].tolist() == [9394, 898, 2398, 5906, 2343], "NumPy's legacy stream of seed 0"
    np.testing.assert_array_equal(context.order(0, shuffles=2), first[first])
    assert context.order(1)[:5].tolist() != first[:5].tolist()
    other = Context(np.random.default_rng(1), Predictions(probs[:5000], labels[:5000]))
    assert not other.has_authors_split


def test_progress_of_several_splits_is_one_count():
    seen = []
    settings = SMALL["estimators-ece"]
    run("estimators-ece", data=DATA, progress=lambda *done: seen.append(done), **settings)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
