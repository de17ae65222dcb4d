"""Bias, variance and noise floor of the estimators, against simulated tables."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from simulate import (
    BinnedModel,
    ContinuousModel,
    calibrated,
    cells_of_counts,
    estimates,
    grid,
    in_hundredths,
    mild,
    one_run,
    overconfident,
    rare,
    rare_calibrated,
    softmax_model,
    strong,
)

from calibrant import Bins, Distinct, EqualMass, tabulate
from calibrant.stats.estimators import cells_of, noise_floor, null_variance, raw_error

ONE = np.ones(1)
SIGMAS = 4.0

UNBIASED = {
    "calibrated": calibrated(20),
    "mild": mild(20),
    "strong": strong(20),
    "overconfident": overconfident(20),
    "rare": rare(20),
    "continuous calibrated": ContinuousModel(1.0, 20),
    "continuous miscalibrated": ContinuousModel(0.45, 20),
    "marginal calibrated": softmax_model(10),
    "marginal sharpened": softmax_model(10, sharpen=1.5),
}


def z_score(values, truth: float) -> float:
    """Distance of the mean from the truth in Monte-Carlo standard errors."""
    return float((np.mean(values) - truth) / (np.std(values) / math.sqrt(np.size(values))))


def squares(cells, weights, debiased: bool):
    return raw_error(cells, weights, 2.0, debiased)


# The simulation itself


def test_simulated_cells_are_those_that_the_front_door_counts():
    model = strong(7)
    size, events = model.draw_counts(200, 3, np.random.default_rng(0))
    cells = cells_of_counts(size[:, None], events[:, None], model.levels)
    for run in range(3):
        counted = cells_of(model.table(size[run], events[run]))
        for name in ("mass", "rate", "mean", "size", "square", "noise"):
            np.testing.assert_allclose(
                getattr(one_run(cells, run), name), getattr(counted, name), atol=1e-12
            )


def test_simulated_marginal_cells_are_those_of_their_rows():
    model = softmax_model(4, sharpen=1.5, n_vectors=12)
    counts = model.draw_counts(500, 1, np.random.default_rng(0))[0]
    vector, label = (np.repeat(place.ravel(), counts.ravel()) for place in np.indices(counts.shape))
    table = tabulate(label, model.outputs[vector], kind="marginal", bins=Distinct())
    counted = cells_of(table)
    cells = one_run(model.draw(500, 1, np.random.default_rng(0)), 0)
    for name in ("mass", "rate", "square", "noise"):
        np.testing.assert_allclose(getattr(cells, name), getattr(counted, name), atol=1e-12)


def test_simulated_continuous_cells_are_those_of_their_rows():
    model = ContinuousModel(0.5, 8)
    f, y = model.draw_rows(400, 1, np.random.default_rng(0))
    cells, edges = model.draw_equal_mass(400, 1, np.random.default_rng(0))
    table = tabulate(y[0], f[0], bins=EqualMass(8))
    np.testing.assert_allclose(table.bins[0].edges, edges[0], atol=1e-12)
    np.testing.assert_allclose(cells.square[0], cells_of(table).square, atol=1e-12)
    wide = tabulate(y[0], f[0], bins=Bins(np.arange(9) / 8))
    drawn = model.draw(400, 1, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.square[0], cells_of(wide).square, atol=1e-12)


def test_percents_of_discretised_vectors_add_up_to_one():
    probs = np.random.default_rng(0).dirichlet(np.ones(10), size=1000)
    rounded = in_hundredths(probs)
    np.testing.assert_allclose(rounded.sum(axis=1), 1, atol=1e-12)
    assert np.abs(rounded - probs).max() < 0.01


# Squared l2: the debiased estimate is unbiased, the plug-in is not


@pytest.mark.slow
@pytest.mark.parametrize("name", UNBIASED)
def test_debiased_square_is_unbiased(name):
    model = UNBIASED[name]
    cells = model.draw(1000, 4000, np.random.default_rng(11))
    values = squares(cells, model.weights, debiased=True)
    assert abs(z_score(values, model.error(2.0) ** 2)) < SIGMAS


@pytest.mark.slow
@pytest.mark.parametrize("make", [calibrated, mild, strong, overconfident, rare])
def test_plug_in_square_is_too_large_by_the_label_variances_over_n(make):
    model, n = make(20), 1000
    cells = model.draw(n, 4000, np.random.default_rng(12))
    values = squares(cells, ONE, debiased=False)
    bias = (model.rates * (1 - model.rates)).sum() / n
    assert z_score(values, model.error(2.0) ** 2) > 10
    assert abs(z_score(values, model.error(2.0) ** 2 + bias)) < SIGMAS


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, 0.45])
def test_plug_in_square_of_a_continuous_model_is_too_large_too(slope):
    model = ContinuousModel(slope, 20)
    values = squares(model.draw(1000, 4000, np.random.default_rng(13)), ONE, debiased=False)
    assert z_score(values, model.error(2.0) ** 2) > 10


@pytest.mark.slow
def test_clipping_each_class_before_averaging_brings_the_bias_back():
    model = softmax_model(10)
    cells = model.draw(1000, 4000, np.random.default_rng(14))
    per_class = squares(cells, np.eye(10), debiased=True)
    assert abs(z_score(per_class @ model.weights, 0.0)) < SIGMAS
    assert z_score(np.maximum(per_class, 0) @ model.weights, 0.0) > 10


# The paper's sample-size advantage


def alternating(n_bins: int) -> BinnedModel:
    """Predictions between 0.3 and 0.7, each 0.05 off, up and down in turn."""
    levels = 0.3 + 0.4 * grid(n_bins)
    return BinnedModel(levels, levels + 0.05 * (-1.0) ** np.arange(n_bins))


def relative_error(model, n: int, debiased: bool) -> float:
    runs = 1000 if model.levels.size < 500 else 200
    cells = model.draw(n, runs, np.random.default_rng(15))
    truth = model.error(2.0) ** 2
    return float(np.mean(np.abs(squares(cells, ONE, debiased) / truth - 1)))


def rows_needed(model, debiased: bool) -> float:
    """Rows for a mean relative error of 1/2 in the squared error, by bisection of log n."""
    low, high = 2.0, 6.0
    for _ in range(9):
        middle = (low + high) / 2
        enough = relative_error(model, round(10**middle), debiased) < 0.5
        low, high = (low, middle) if enough else (middle, high)
    return 10**high


def exponent(n_bins, rows) -> float:
    return float(np.polyfit(np.log(n_bins), np.log(rows), 1)[0])


@pytest.mark.slow
def test_rows_needed_grow_like_b_for_plug_in_and_at_most_like_its_root_for_debiased():
    # Plug-in: bias B v / n against theta^2 / 2, so n ~ B.
    # Debiased: variance 2 B v^2 / n^2 + 4 theta^2 v / n. With x = n theta^2 / v, a mean absolute
    # error of theta^2 / 2 (0.8 standard deviations) means 0.393 = 2 B / x^2 + 4 / x. The second
    # term knows nothing of B, so from 10 to 160 bins the exponent is 0.32, below its limit 1/2.
    n_bins = [10, 40, 160]
    plug_in = [rows_needed(alternating(b), debiased=False) for b in n_bins]
    debiased = [rows_needed(alternating(b), debiased=True) for b in n_bins]
    assert 0.85 < exponent(n_bins, plug_in) < 1.1
    assert 0.25 < exponent(n_bins, debiased) < 0.5
    assert plug_in[-1] / debiased[-1] > 5


@pytest.mark.slow
def test_rows_needed_by_the_debiased_square_approach_the_root_of_b_with_many_bins():
    # The equation above gives a slope of 0.47 between 640 and 2560 bins.
    n_bins = [640, 2560]
    rows = [rows_needed(alternating(b), debiased=True) for b in n_bins]
    assert 0.4 < exponent(n_bins, rows) < 0.55


# l1


@pytest.mark.slow
def test_debiased_l1_removes_about_41_percent_of_the_bias_at_calibration():
    # Per bin sqrt(2 / pi) tau = 0.798 tau for plug-in, (2 - sqrt 2) of that for debiased.
    # Levels are wide of 0 and 1, where 1,000 rows a bin make the bin means normal.
    model = BinnedModel(0.1 + 0.8 * grid(20), 0.1 + 0.8 * grid(20))
    cells = model.draw(20_000, 10_000, np.random.default_rng(16))
    tau = float(np.mean(np.sqrt(model.levels * (1 - model.levels) / 1000)))
    plug_in = np.mean(raw_error(cells, ONE, 1.0, debiased=False))
    debiased = np.mean(raw_error(cells, ONE, 1.0, debiased=True))
    assert plug_in / tau == pytest.approx(0.798, rel=0.02)
    assert debiased / tau == pytest.approx(0.467, rel=0.02)
    assert 1 - debiased / plug_in == pytest.approx(0.414, abs=0.02)


# Variance


def variance_z(values, variance: float) -> float:
    """Distance of the sample variance from `variance` in its own standard errors."""
    centred = (values - values.mean()) ** 2
    return float((centred.mean() - variance) / (centred.std() / math.sqrt(values.size)))


@pytest.mark.slow
@pytest.mark.parametrize("make", [calibrated, rare_calibrated])
def test_null_variance_is_the_exact_variance_of_the_debiased_square(make):
    model, size = make(10), np.arange(5, 105, 10)
    events = np.random.default_rng(17).binomial(size, model.levels, size=(100_000, 10))
    cells = cells_of_counts(np.broadcast_to(size, events.shape)[:, None], events[:, None],
                            model.levels)  # fmt: skip
    expected = float(null_variance(one_run(cells, 0), model.levels * (1 - model.levels))[0])
    assert abs(variance_z(squares(cells, ONE, debiased=True), expected)) < SIGMAS


@pytest.mark.slow
def test_a_true_error_adds_four_e_squared_v_over_n_to_the_variance():
    model, size = strong(10), np.arange(5, 105, 10)
    events = np.random.default_rng(18).binomial(size, model.rates, size=(100_000, 10))
    cells = cells_of_counts(np.broadcast_to(size, events.shape)[:, None], events[:, None],
                            model.levels)  # fmt: skip
    v, gap, mass = model.rates * (1 - model.rates), model.rates - model.levels, size / size.sum()
    added = float((mass**2 * 4 * gap**2 * v / size).sum())
    expected = float(null_variance(one_run(cells, 0), v)[0]) + added
    assert abs(variance_z(squares(cells, ONE, debiased=True), expected)) < SIGMAS


# The noise floor

ESTIMATORS = {
    "plug-in l1": (1.0, False),
    "plug-in l2": (2.0, False),
    "plug-in max": (math.inf, False),
    "debiased l1": (1.0, True),
    "debiased l2": (2.0, True),
}
FLOOR_MODELS = {
    "binary, 10 bins": calibrated(10),
    "binary, 30 bins": calibrated(30),
    "binary, 10 bins of rare events": rare_calibrated(10),
    "2 classes": softmax_model(2),
    "2 classes, 200 vectors": softmax_model(2, n_vectors=200),
    "10 classes": softmax_model(10),
}


@cache
def floor_cells(name: str):
    runs = 200_000 if "10 bins" in name else 10_000
    return FLOOR_MODELS[name].draw(10_000, runs, np.random.default_rng(19))


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOOR_MODELS)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_noise_floor_is_the_mean_score_of_a_calibrated_model(name, estimator):
    model, (power, debiased) = FLOOR_MODELS[name], ESTIMATORS[estimator]
    cells = floor_cells(name)
    floors = [noise_floor(one_run(cells, i), model.weights, power, debiased) for i in range(10)]
    ratio = np.mean(floors) / np.mean(estimates(cells, model.weights, power, debiased))
    # the maximum counts the errors of two classes that mirror each other twice, as documented
    doubled = estimator == "plug-in max" and name.startswith("2 classes")
    assert 0.9 < ratio < (1.2 if doubled else 1.1)
