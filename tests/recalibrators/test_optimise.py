"""Newton steps to reference values; L-BFGS against SciPy's, and where evaluations fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_der
from shared import Y, Z, binary_rows

from calibrant.recalibrators import PlattScaling, QuadraticScaling
from calibrant.recalibrators.formulas import NUMPY, log_odds
from calibrant.recalibrators.optimise import fit_logistic, minimise_smooth
from calibrant.recalibrators.scores import Scores

RULES = {"most_steps": 500, "tolerance": 1e-15, "slope_tolerance": 1e-9}


def quadratic(d: int, condition: float):
    rng = np.random.default_rng(d)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    hessian = axes * np.geomspace(1, condition, d) @ axes.T
    centre = rng.normal(size=d)

    def objective(x):
        off = x - centre
        return 0.5 * float(off @ hessian @ off), hessian @ off

    return objective, centre


@pytest.mark.parametrize(("d", "condition"), [(1, 1.0), (5, 10.0), (40, 1e2)])
def test_the_centre_of_a_quadratic_is_found(d, condition):
    objective, centre = quadratic(d, condition)
    found = minimise_smooth(objective, np.zeros(d), **RULES)
    assert found.converged
    np.testing.assert_allclose(found.x, centre, atol=1e-5)


@pytest.mark.parametrize("d", [2, 10])
def test_a_bent_valley_is_followed_as_far_as_scipy_does(d):
    start = np.full(d, -1.0)
    found = minimise_smooth(lambda x: (rosen(x), rosen_der(x)), start, **RULES)
    theirs = minimize(rosen, start, jac=rosen_der, method="L-BFGS-B", tol=1e-14)
    assert found.value <= theirs.fun + 1e-10


def test_a_start_at_the_minimum_takes_no_step():
    objective, centre = quadratic(3, 10.0)
    found = minimise_smooth(objective, centre, **RULES)
    assert (found.converged, found.steps) == (True, 0)


def test_steps_that_overflow_are_shortened():
    def objective(x):
        if abs(x[0]) > 1.5:
            return np.nan, np.full(1, np.nan)
        return float((x[0] - 1) ** 4), 4 * (x - 1) ** 3

    found = minimise_smooth(objective, np.array([-1.4]), **RULES)
    assert found.x[0] == pytest.approx(1, abs=1e-2)
    assert np.isfinite(found.value)


def test_steps_that_run_out_are_said():
    objective, _ = quadratic(40, 1e6)
    found = minimise_smooth(objective, np.zeros(40), **{**RULES, "most_steps": 3})
    assert (found.converged, found.steps) == (False, 3)


def test_platts_targets_give_the_reference_values():
    scores = Scores.of_rows(Z, Y == 1)
    found = fit_logistic(log_odds(NUMPY, Z)[None], scores.with_platt_targets())
    np.testing.assert_allclose(found.theta, [0.7833548877, 0.0773195218], atol=1e-8)


def test_many_rows_go_through_a_short_start_to_the_same_minimum():
    p, y = binary_rows(400_000)
    rough = np.round(p, 3)
    few = PlattScaling(smoothing=0).fit(rough, y)
    table = Scores.of_rows(rough, y == 1).distinct()
    found = fit_logistic(log_odds(NUMPY, table.values)[None], table)
    np.testing.assert_allclose(few.coef_, found.theta, rtol=1e-9)
    fitted = PlattScaling().fit(p, y)
    slope = fitted.predict_proba(p) - y
    assert abs(slope.mean()) < 1e-10
    assert abs((slope * log_odds(NUMPY, p)).mean()) < 1e-10


def test_many_separable_rows_are_fitted_with_platts_targets():
    p = np.linspace(0.01, 0.99, 140_000)
    y = np.abs(p - 0.5) < 0.2
    fitted = QuadraticScaling().fit(p, y)
    features = np.stack((log_odds(NUMPY, p), log_odds(NUMPY, p) ** 2))
    found = fit_logistic(features, Scores.of_rows(p, y).with_platt_targets())
    assert "separable" in fitted.fit_result_.flags
    np.testing.assert_allclose(fitted.coef_, found.theta, rtol=1e-6, atol=1e-6)
