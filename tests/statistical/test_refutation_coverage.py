"""Lower bounds of continuous models in simulated samples: they hold, and reach what the page says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from make_certificate_tables import PAGE
from make_refutation_tables import MODELS, column, lower_bounds, sloped

import calibrant as cb

pytestmark = pytest.mark.slow

OURS = ("certificate, population", "certificate, sample", "with bets")


def allowed(delta: float, runs: int) -> float:
    return delta + 4 * math.sqrt(delta * (1 - delta) / runs)


@pytest.mark.parametrize("delta", [0.05, 0.4])
@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("slope", [1.0, 0.9, 0.75])
def test_bounds_of_models_that_are_right_or_hardly_wrong_hold(slope, target, norm, delta):
    """A model is refuted falsely if the bound exceeds its error, however small that is."""
    runs, n, rng = 80, 300, np.random.default_rng([int(100 * slope), int(100 * delta)])
    power, misses = {"l1": 1, "l2": 2}[norm], 0
    grid = (np.arange(100_000) + 0.5) / 100_000
    for _ in range(runs):
        p = rng.uniform(size=n)
        y = rng.uniform(size=n) < sloped(slope)(p)
        of = p if target == "sample" else grid
        truth = np.mean(np.abs(sloped(slope)(of) - of) ** power) ** (1 / power)
        found = cb.certify(y, p, norm=norm, target=target, confidence_level=1 - delta)
        misses += found.lower_bound > truth + 1e-12
    assert misses / runs <= allowed(delta, runs)


def test_a_few_rows_that_are_very_wrong_are_part_of_the_population():
    """They are seen in some samples and not in others; the error of the population has them all."""
    rng, runs, misses = np.random.default_rng(0), 200, 0
    share, delta = 0.01, 0.4
    for _ in range(runs):
        p = rng.uniform(0, 0.2, size=400)
        wrong = rng.uniform(size=400) < share
        p[wrong] = rng.uniform(0, 0.01, size=wrong.sum())
        y = rng.uniform(size=400) < np.where(wrong, 1.0, p)
        low = cb.certify(y, p, confidence_level=1 - delta).lower_bound
        # rates where p < 0.01, to which calibrated rows belong as well
        few = share / (share + (1 - share) * 0.05)
        misses += low > math.sqrt((share + (1 - share) * 0.05) * (few * 0.99) ** 2)
    assert misses / runs <= allowed(delta, runs)


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_page_says_that_our_bounds_held(norm):
    said = lower_bounds(PAGE.read_text(encoding="utf-8"))[norm]
    for method in OURS:
        for low, held in said[method].values():
            assert held >= 0.95
            assert low >= 0


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("name", ["p^2", "slope 0.6"])
def test_the_page_reports_the_bounds_that_a_fresh_simulation_gives(name, norm):
    said = lower_bounds(PAGE.read_text(encoding="utf-8"))[norm]
    model, fresh = MODELS[name], column(name, norm, 12)
    title = f"{name}, n={model.n:,}"
    assert said["true error"][title][0] == pytest.approx(model.error(norm), abs=6e-5)
    for method, low in fresh.items():
        if method != "rows":
            spread = 4.5 * low.std() * math.sqrt(1 / low.size + 1 / model.runs)
            assert said[method][title][0] == pytest.approx(low.mean(), abs=spread + 1e-4)


def test_the_page_reports_what_was_asked_for():
    said = lower_bounds(PAGE.read_text(encoding="utf-8"))["l2"]
    for method in OURS:
        assert said[method]["rare, n=40,000"][0] >= 0.012
        known = said["score interval"]["p^1.2, n=20,000"][0]
        assert said[method]["p^1.2, n=20,000"][0] >= 0.85 * known
