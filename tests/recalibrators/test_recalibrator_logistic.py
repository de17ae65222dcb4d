"""Families of logistic maps: their features, the maps that change nothing, and degenerate rows."""

from __future__ import annotations

import numpy as np
import pytest
from shared import binary_rows
from sklearn.base import clone

from calibrant.recalibrators import BetaScaling, PlattScaling, QuadraticScaling
from calibrant.recalibrators.formulas import NUMPY
from calibrant.recalibrators.logistic import (
    BETA,
    BETA_WITH_ONE_SLOPE,
    PLATT,
    QUADRATIC,
    fit_family,
)
from calibrant.recalibrators.scores import Scores

FAMILIES = {
    "Platt": PLATT, "quadratic": QUADRATIC, "beta": BETA, "one slope": BETA_WITH_ONE_SLOPE,
}  # fmt: skip
RECALIBRATORS = {
    "Platt": PlattScaling(), "quadratic": QuadraticScaling(), "beta": BetaScaling(),
    "one slope": BetaScaling("log-odds"),
}  # fmt: skip
P = np.linspace(0.001, 0.999, 501)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_coefficients_that_change_nothing_change_nothing(name):
    family = FAMILIES[name]
    out = family.formula(NUMPY, P, family.identity, 0.0)
    np.testing.assert_allclose(out, P, rtol=1e-12)
    fitted = clone(RECALIBRATORS[name]).fit(*binary_rows())
    fitted.coef_, fitted.smoothing_ = np.array(family.identity), 0.0
    assert fitted.is_identity_
    fitted.smoothing_ = 0.01
    assert not fitted.is_identity_


@pytest.mark.parametrize(
    ("name", "share"),
    [
        *((name, share) for name in FAMILIES for share in (0.0, 0.1)),
        ("Platt", None),
        ("quadratic", None),
    ],
)
def test_a_matrix_of_features_is_made_of_the_features(name, share):
    family, values = FAMILIES[name], np.tile(P, 200)
    matrix = family.matrix(values, share)
    np.testing.assert_array_equal(matrix, np.stack(family.features(NUMPY, values, share)))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rows_of_one_label_get_a_shift_and_no_slope(name, rate):
    p, _ = binary_rows(100)
    coef, _, result = fit_family(
        FAMILIES[name], Scores.of_rows(p, np.full(100, bool(rate))), smoothing="auto"
    )
    assert "one class" in result.flags
    assert coef[:-1].tolist() == list(FAMILIES[name].identity[:-1])
    mean = FAMILIES[name].formula(NUMPY, p, coef, 0.0).mean()
    assert mean == pytest.approx((100 * rate + 1) / 102, abs=0.01)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_fit_loses_no_more_than_leaving_the_scores_alone(name):
    for seed in range(5):
        p, y = binary_rows(30, seed)
        result = fit_family(FAMILIES[name], Scores.of_rows(p, y == 1), smoothing="auto")[2]
        assert result.loss <= result.loss_identity
