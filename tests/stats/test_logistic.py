"""Logistic regression: the penalised fit is a maximum, and rows with counts are rows repeated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import chi2

from calibrant.stats.logistic import LogisticModel, in_the_large, logistic_fit
from calibrant.stats.samples import Atoms

X = np.array([-2.1, -1.4, -0.9, -0.2, 0.1, 0.4, 1.3, 2.2])
Y = np.array([0.0, 0, 1, 0, 0, 1, 0, 1])
COUNT = np.array([3.0, 1, 2, 4, 1, 1, 2, 5])
OFFSET = np.linspace(-0.5, 0.5, 8)


def model(penalised, count=COUNT, repeat=1):
    x, y, offset, count = (np.repeat(values, repeat) for values in (X, Y, OFFSET, count))
    return LogisticModel(np.stack([np.ones(x.size), x]), y, count, offset, penalised)


@pytest.mark.parametrize("penalised", [False, True])
def test_the_fit_is_where_a_search_finds_the_largest_likelihood(penalised):
    own = model(penalised)
    found = minimize(lambda theta: -own.likelihood(theta), np.zeros(2), method="Nelder-Mead",
                     options={"xatol": 1e-9, "fatol": 1e-12})  # fmt: skip
    assert own.fit() == pytest.approx(found.x, abs=1e-6)


def test_a_count_is_so_many_rows():
    counted, repeated = model(True), model(True, np.ones(8), COUNT.astype(int))
    theta = counted.fit()
    assert repeated.fit() == pytest.approx(theta)
    assert repeated.likelihood(theta) == pytest.approx(counted.likelihood(theta))
    assert repeated.leverage(theta).sum() == pytest.approx(counted.leverage(theta).sum())
    assert counted.leverage(theta).sum() == pytest.approx(2), "a hat matrix of two coefficients"


def test_separated_rows_have_a_finite_penalised_fit_and_no_other():
    y = (X > 0).astype(float)
    own = LogisticModel(np.stack([np.ones(8), X]), y, np.ones(8), np.zeros(8), True)
    theta = own.fit()
    assert 0 < theta[1] < 20
    low, high = own.profile_limits(theta, 1, 0.95)
    assert low < theta[1] < high < np.inf
    assert logistic_fit(Atoms.of(y, 1 / (1 + np.exp(-X)))).slope == np.inf


def test_limits_are_where_the_profile_has_fallen_by_half_of_chi_squared():
    own = model(True)
    theta = own.fit()
    for index, confidence_level in ((0, 0.95), (1, 0.8)):
        for limit in own.profile_limits(theta, index, confidence_level):
            held = theta.copy()
            held[index] = limit
            fallen = own.likelihood(theta) - own.likelihood(own.fit(held, fixed=index))
            assert fallen == pytest.approx(chi2.ppf(confidence_level, 1) / 2, rel=1e-5)


@pytest.mark.parametrize("shift", [-30.0, -1.0, 0.0, 2.0, 30.0])
def test_calibration_in_the_large_predicts_as_many_events_as_there_are(shift):
    p = 1 / (1 + np.exp(-(X + shift)))
    a, error = in_the_large(Atoms.of(Y, p))
    x = np.log(p / (1 - p)) if shift < 30 else X + shift
    assert (1 / (1 + np.exp(-(x + a)))).sum() == pytest.approx(
        Y.sum(), abs=1e-2 if shift == 30 else 1e-9
    )
    assert 0 < error < 2


def test_without_events_calibration_in_the_large_is_beyond_all_numbers():
    assert in_the_large(Atoms.of(np.zeros(8), np.full(8, 0.3))) == (-np.inf, np.inf)
    assert in_the_large(Atoms.of(np.ones(8), np.full(8, 0.3))) == (np.inf, np.inf)
