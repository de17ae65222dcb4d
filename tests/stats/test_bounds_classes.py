"""Bounds of several classes on the inputs at hand: values, and miss rates by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import calibrant as cb


def rows_of(n, k, seed=0, curve=1.0):
    """Return labels and rounded probabilities of a model whose logits are `curve` times right."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (n, k))
    probs = np.round(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), 1)
    probs += (1 - probs.sum(axis=1, keepdims=True)) / k
    probs = np.round(np.clip(probs, 0, 1), 2)
    truth = probs**curve / (probs**curve).sum(axis=1, keepdims=True)
    y = (rng.uniform(size=n)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    return np.minimum(y, k - 1), probs


def sample(y, probs, **options):
    return cb.certify(y, probs, kind="marginal", target="sample", **options)


@pytest.mark.parametrize(("norm", "power"), [("l1", 1), ("l2", 2)])
def test_the_bound_is_the_plug_in_error_and_a_radius_by_the_two_largest_weights(norm, power):
    y, probs = rows_of(2000, 4)
    weights = {0: 0.5, 1: 0.2, 2: 0.2, 3: 0.1}
    found = sample(y, probs, norm=norm, class_weight=weights)
    plug_in = cb.calibration_error(
        y, probs, kind="marginal", norm=norm, bins=cb.Distinct(), debias=False, class_weight=weights
    ).value
    radius = math.sqrt(math.log(20) / 4000) * 0.7 ** (1 / power)
    assert found.upper_bound == pytest.approx(plug_in + radius)
    assert found.lower_bound <= plug_in
    assert found.recheck()
    assert any("inputs like these" in each for each in found.assumptions)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_more_classes_lower_the_bound_of_these_inputs(norm):
    found = []
    for k in (3, 10, 50):
        y = np.random.default_rng(k).integers(k, size=5000)
        found.append(sample(y, np.full((5000, k), 1 / k), norm=norm))
    bounds = [each.upper_bound for each in found]
    assert bounds[0] > bounds[1] > bounds[2]
    assert bounds[2] < found[2].trivial_error


def test_a_wrong_model_is_refuted_on_its_inputs():
    y, probs = rows_of(4000, 3, curve=3.0)
    found = sample(y, probs, max_error=0.03)
    assert found.verdict == "refuted"
    assert found.upper_bound > found.lower_bound


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("seed", range(2))
def test_no_event_rates_make_the_bounds_fail_more_often_than_promised(norm, seed):
    # All labels of four rows with fixed inputs, at a level that leaves room for misses.
    rng, level = np.random.default_rng(seed), 0.5
    outputs = np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])
    which = np.array([0, 0, 1, 1])
    probs, power = outputs[which], {"l1": 1, "l2": 2}[norm]
    labels = list(itertools.product(range(3), repeat=4))
    found = [
        sample(np.array(y), probs, norm=norm, confidence_level=level, classes=[0, 1, 2])
        for y in labels
    ]
    upper = np.array([each.upper_bound for each in found])
    lower = np.array([each.lower_bound for each in found])

    def error(rates):
        total = 0.0
        for k in range(3):
            for s in np.unique(probs[:, k]):
                same = probs[:, k] == s
                total += same.sum() / 4 * abs(rates[same, k].mean() - s) ** power / 3
        return total ** (1 / power)

    worst = 0.0
    for step in range(150):
        sharp = 10 ** rng.uniform(-2, 0.5)
        rates = rng.dirichlet(np.full(3, sharp), size=4)
        if step % 3 == 0:
            rates = np.tile(rates[:1], (4, 1))
        chance = np.array([np.prod(rates[np.arange(4), y]) for y in labels])
        t = error(rates)
        worst = max(worst, chance @ (upper < t - 1e-12), chance @ (lower > t + 1e-12))
    assert worst <= 1 - level
