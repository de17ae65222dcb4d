"""The numbers of other libraries on docs/coming-from.md, from the calibrant calls given there.

Expected values were printed by the library named beside them, at the versions named on the page.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from calibrant import (
    Bins,
    Distinct,
    EqualWidth,
    PlattScaling,
    VarianceScaling,
    brier_decomposition,
    calibration_error,
    calibration_test,
    certify_coverage,
    crps,
    normal_quantiles,
    pinball_loss,
    reliability_curve,
    validate,
)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    z = rng.normal(size=1000)
    y = (rng.uniform(size=1000) < 1 / (1 + np.exp(-z))).astype(int)
    p = 1 / (1 + np.exp(-2 * z))
    p[:400] = p[:400].round(1)
    return y, p


def left_closed(edges, one_apart=False):
    apart = [np.nextafter(1.0, 0.0)] if one_apart else []
    return Bins(np.r_[0.0, np.nextafter(edges[1:-1], 0.0), apart, 1.0])


def torch_linspace_10():
    """torch.linspace(0, 1, 11, dtype=torch.float64): counted from both ends."""
    return np.r_[np.arange(5) * 0.1, 1 - np.arange(5, -1, -1) * 0.1]


def with_zero_bin(edges):
    return Bins(np.r_[0.0, np.nextafter(0.0, 1.0), edges[1:]])


@pytest.mark.parametrize(
    ("bins", "norm", "expected"),
    [
        (EqualWidth(10), "l1", 0.13023366516752521),  # calibration.get_ece(p, y, num_bins=10)
        (EqualWidth(15), "l1", 0.13285555893536763),  # calibration.get_ece(p, y)
        (10, "l1", 0.13155247971715336),  # calibration.get_ece_em(p, y, num_bins=10)
        (left_closed(np.linspace(0, 1, 11)), "l1", 0.13823366516752528),  # netcal ECE(10)
        (left_closed(np.linspace(0, 1, 16)), "l1", 0.13048839843226664),  # netcal ECE(15)
        (left_closed(np.linspace(0, 1, 11)), "max", 0.19109415256118623),  # netcal MCE(10)
        (left_closed(torch_linspace_10(), True), "l1", 0.13823366516752517),  # torchmetrics
        (left_closed(torch_linspace_10(), True), "l2", 0.15232083109764952),
        (left_closed(torch_linspace_10(), True), "max", 0.4),
        (with_zero_bin(np.linspace(0, 1, 50)), "l1", 0.14913316258775516),  # MAPIE's default
    ],
)
def test_the_call_on_the_page_gives_the_number_of_the_other_library(rows, bins, norm, expected):
    y, p = rows
    result = calibration_error(y, p, bins=bins, norm=norm, debias=False)
    assert result.value == pytest.approx(expected, rel=1e-10)


def test_the_debiased_error_of_a_binned_model_is_that_of_the_papers_library(rows):
    y, p = rows
    result = calibration_error(y, p.round(1), bins=Distinct())
    assert result.value == pytest.approx(0.14038258604586035, rel=1e-10)  # get_binning_ce


@pytest.mark.parametrize("n_bins", [5, 10, 15, 20])
def test_the_curve_is_that_of_scikit_learn(rows, n_bins):
    y, p = rows
    curve = reliability_curve(y, p, bins=EqualWidth(n_bins))
    rate, mean = calibration_curve(y, p, n_bins=n_bins)
    np.testing.assert_allclose(curve.event_rate, rate, rtol=1e-12)
    np.testing.assert_allclose(curve.mean_prediction, mean, rtol=1e-12)


def test_the_brier_score_is_that_of_scikit_learn(rows):
    y, p = rows
    assert brier_decomposition(y, p).value == pytest.approx(brier_score_loss(y, p), rel=1e-12)


def test_the_tests_of_probcal_have_its_numbers(rows):
    y, p = rows
    z = calibration_test(y, p, method="spiegelhalter")
    assert z.statistic == pytest.approx(13.990670492774624, rel=1e-10)  # spiegelhalter_z(y, p)
    slope = calibration_test(y, p.clip(0.01, 0.99), method="cox").slope
    assert slope == pytest.approx(0.40458513716185435, rel=1e-6)  # calibration_slope


def test_validation_has_the_numbers_of_r(rows):
    """R 4.2.2, options(digits = 15), the rows of the page in d$y and d$p, clipped to [0.01, 0.99].

    library(rms); val.prob(d$p, d$y, pl = FALSE); somers2(d$p, d$y)["C"]
    a <- abs(predict(loess(y ~ p, d, control = loess.control(surface = "direct"))) - d$p)
    c(mean(a), median(a), quantile(a, 0.9), max(a))
    o <- order(d$p, -d$y); y <- d$y[o]; p <- d$p[o]; f <- ave(isoreg(seq_along(o), y)$yf, p)
    S <- mean((p - y)^2); C <- mean((f - y)^2); R <- mean((mean(y) - y)^2); c(S - C, R - C, R)
    """
    y, p = rows[0], rows[1].clip(0.01, 0.99)
    table = validate(y, p)
    exact = {
        "brier": 0.236242478888030,
        "c_statistic": 0.705527153737839,
        "e50": 0.141574383725458,
        "e90": 0.175701115392801,
        "emax": 0.207436542567449,
    }
    for name, expected in exact.items():
        assert table[name].value == pytest.approx(expected, rel=1e-11), name
    assert table["slope"].value == pytest.approx(0.404585137154152, rel=1e-7)
    assert table["intercept"].value == pytest.approx(0.0164130006010708, rel=1e-6)
    # their curve is computed at every row, ours at 256 quantiles and between them on lines
    assert table["ici"].value == pytest.approx(0.131706792668572, rel=1e-4)
    cox, z = (calibration_test(y, p, method=name) for name in ("cox", "spiegelhalter"))
    assert cox.statistic == pytest.approx(170.194863884869, rel=1e-9)
    assert (z.statistic, z.pvalue) == pytest.approx(
        (13.7660213377567, 4.08076100999964e-43), rel=1e-9
    )
    parts = brier_decomposition(y, p, method="corp")
    told = parts.miscalibration, parts.discrimination, parts.uncertainty
    assert told == pytest.approx((0.0233461012862463, 0.0370876223982159, 0.249984), rel=1e-11)


def test_platts_targets_as_weights_give_the_sigmoid_of_scikit_learn(rows):
    y, p = rows
    features = np.log(p.clip(0.01, 0.99) / (1 - p.clip(0.01, 0.99)))[:, None]
    frozen = FrozenEstimator(LogisticRegression().fit(features, y))
    sk = CalibratedClassifierCV(frozen, method="sigmoid").fit(features, y)
    scores = frozen.decision_function(features)
    target = np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2))
    ours = PlattScaling(input="logits").fit(
        np.r_[scores, scores], np.repeat([1, 0], y.size), sample_weight=np.r_[target, 1 - target]
    )
    expected = sk.predict_proba(features)[:, 1]
    np.testing.assert_allclose(ours.predict_proba(scores), expected, atol=1e-5)


@pytest.fixture(scope="module")
def forecasts():
    """Normal forecasts, too sure of themselves; the expected numbers are those of these rows."""
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=1000), rng.uniform(0.5, 1.5, size=1000)
    return mean, std, mean + 1.3 * std * rng.normal(size=1000)


def test_calibration_errors_of_uncertainty_toolbox(forecasts):
    mean, std, y = forecasts
    levels = np.arange(1, 99) / 99  # its 100 levels from 0 to 1 without the two ends
    q = normal_quantiles(mean, std, levels)
    found = {
        norm: calibration_error(y, q, kind="quantile", classes=levels, norm=norm, debias=False)
        for norm in ("l1", "l2")
    }
    # uncertainty_toolbox 0.1.1: root_mean_squared_calibration_error(mean, std, y,
    # prop_type="quantile") and mean_absolute_calibration_error(mean, std, y, prop_type="quantile")
    assert found["l2"].value * np.sqrt(0.98) == pytest.approx(0.05373129993395467, rel=1e-12)
    assert found["l1"].value * 0.98 == pytest.approx(0.04812424242424246, rel=1e-12)


def test_scores_and_coverage_of_uncertainty_toolbox_and_netcal(forecasts):
    mean, std, y = forecasts
    levels = np.linspace(0.01, 0.99, 99)
    loss = pinball_loss(y, normal_quantiles(mean, std, levels), classes=levels)
    # uncertainty_toolbox 0.1.1: crps_gaussian(mean, std, y), check_score(mean, std, y)
    assert crps(y, mean=mean, std=std).value == pytest.approx(0.728025358856888, rel=1e-12)
    assert loss.value == pytest.approx(0.3676198200927613, rel=1e-12)
    # get_proportion_in_interval(mean, std, y, 0.9), and of netcal 1.4.0
    # PICP(bins=1).measure((mean, std), y, q=0.9, kind="meanstd").picp
    ends = (0.05, 0.95)
    coverage = certify_coverage(y, normal_quantiles(mean, std, ends), classes=ends)
    assert coverage.inside[0] == pytest.approx(0.793, abs=1e-12)


def test_variance_scaling_of_netcal(forecasts):
    mean, std, y = forecasts
    levels = (0.05, 0.25, 0.5, 0.75, 0.95)
    repair = VarianceScaling().fit(normal_quantiles(mean, std, levels), y, classes=levels)
    # netcal 1.4.0: netcal.regression.VarianceScaling().fit((mean, std), y)._weight
    assert repair.factor_ == pytest.approx(1.2753063293566955, rel=1e-12)
