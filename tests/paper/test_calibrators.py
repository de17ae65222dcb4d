"""Comparing recalibrators: who is beaten by none, how often to repeat, and what the paper found."""

from __future__ import annotations

import numpy as np
import pytest
from small_studies import DATA

from calibrant.paper import Predictions, run, stand_in
from calibrant.paper.calibrators import pareto, repeats_for


@pytest.mark.slow
def test_on_the_paper_s_predictions_scaling_binning_wins_with_many_bins(cifar10):
    labels, probs = cifar10
    data = Predictions(probs, labels, "cifar10-vgg16")
    result = run("calibrators-marginal", data=data, repeats=6, bins=(100,), seed=1)
    assert 0.2 < result.finding("gain").estimate.value < 0.5
    top = run("calibrators-top-label", data=data, repeats=40, bins=(10, 100), seed=1)
    assert top.finding("few-bins").estimate.high < 1 < top.finding("gain").estimate.low


def test_pareto_points_are_those_that_nothing_beats():
    x, y = np.array([1.0, 2.0, 3.0, 2.0]), np.array([3.0, 1.0, 2.0, 1.5])
    assert pareto(x, y).tolist() == [0, 1]


def test_many_classes_mean_fewer_repeats_and_never_none():
    many = stand_in(300, 200)
    assert repeats_for(DATA, 100) == 100
    assert repeats_for(many, 100) == 5
    assert repeats_for(many, 1000, 20) == 50
    assert repeats_for(None, 100) == 100
