"""Comparing estimators of the error: sizes of samples, and what the paper found."""

from __future__ import annotations

import pytest
from small_studies import DATA

from calibrant.paper import STUDIES, Predictions, run


def test_samples_are_as_large_as_the_authors_or_the_same_shares():
    study = STUDIES["estimators-ece"]
    assert study.settings_for().n == (2000, 3000, 4000, 5000, 6000, 7000)
    assert study.settings_for(DATA).n == (400, 600, 800, 1000, 1200, 1400)


@pytest.mark.slow
def test_on_the_paper_s_predictions_the_debiased_estimate_is_closer(cifar10):
    labels, probs = cifar10
    data = Predictions(probs, labels, "cifar10-vgg16")
    result = run("estimators-marginal", data=data, repeats=100, n=(200, 2000), seed=1, splits=2)
    assert result.finding("least-10").estimate.low > 1.5
    assert result.finding("least-100").estimate.low > 5
