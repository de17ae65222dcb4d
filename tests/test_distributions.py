"""Whole distributions as forecasts: their CRPS, and their quantiles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy import stats as scipy_stats

import calibrant

rng = np.random.default_rng(5)
N, LEVELS = 200, (0.1, 0.5, 0.9)
MEAN, STD = rng.normal(size=N), rng.uniform(0.5, 2, size=N)
Y = MEAN + STD * rng.normal(size=N)


def test_the_crps_is_the_integral_of_squared_errors_of_the_distribution_function():
    for y, mean, std in [(0.3, 0.0, 1.0), (-4.0, 1.0, 0.5)]:
        law = scipy_stats.norm(mean, std)
        below = integrate.quad(lambda x, law=law: law.cdf(x) ** 2, -30, y)[0]
        above = integrate.quad(lambda x, law=law: law.sf(x) ** 2, y, 30)[0]
        assert float(calibrant.crps([y], mean=mean, std=std)) == pytest.approx(below + above)


def test_the_crps_of_samples_is_unbiased_for_that_of_their_distribution():
    draws = MEAN[:, None] + STD[:, None] * rng.normal(size=(N, 5))
    fair = calibrant.crps(Y, samples=draws)
    pairs = np.abs(draws[:, :, None] - draws[:, None, :]).sum(axis=(1, 2)) / (5 * 4)
    expected = np.abs(draws - Y[:, None]).mean(axis=1) - pairs / 2
    assert float(fair) == pytest.approx(expected.mean())
    many = MEAN[:, None] + STD[:, None] * rng.normal(size=(N, 4000))
    exact = float(calibrant.crps(Y, mean=MEAN, std=STD))
    assert float(calibrant.crps(Y, samples=many)) == pytest.approx(exact, abs=0.01)


def test_an_outcome_is_below_the_quantile_of_exchangeable_samples_as_often_as_its_level():
    draws = rng.normal(size=(4000, 20))  # the first is the outcome, 19 are the forecast
    q = calibrant.sample_quantiles(draws[:, 1:], LEVELS)
    covered = calibrant.certify_coverage(draws[:, 0], q, classes=LEVELS)
    assert np.all((covered.low <= LEVELS) & (covered.high >= LEVELS))
    np.testing.assert_array_equal(q[:, 1], np.sort(draws[:, 1:], axis=1)[:, 9])


def test_forecasts_and_levels_may_be_tensors():
    torch = pytest.importorskip("torch")
    mean, std = torch.tensor(MEAN, requires_grad=True), torch.tensor(STD)
    levels = (0.05, 0.5, 0.95)
    q = calibrant.normal_quantiles(mean, std, levels)
    np.testing.assert_array_equal(q, calibrant.normal_quantiles(MEAN, STD, levels))
    found = calibrant.crps(torch.tensor(Y), mean=mean, std=std)
    assert float(found) == float(calibrant.crps(Y, mean=MEAN, std=STD))
    covered = calibrant.certify_coverage(torch.tensor(Y), q, classes=torch.tensor(levels))
    assert covered.interval_level.tolist() == [0.9]
