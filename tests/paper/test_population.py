"""The quick ways of the studies give the numbers of the public recalibrators and estimators."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import Distinct, EqualMass, EqualWidth, calibration_error
from calibrant.paper.population import (
    METHODS,
    Ranked,
    ResampledRanks,
    brier_score,
    draw_rows,
    multiplicities,
    resampled_binned_cells,
    resampled_cells,
    squared_error,
)
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
)
from calibrant.stats.estimators import error_of, raw_error

PUBLIC = {
    "histogram": lambda b: HistogramBinning(bins=b),
    "scaling-binning": lambda b: ScalingBinning(b, PlattScaling(smoothing=0)),
    "scaling-binning, hybrid bins": lambda b: ScalingBinning(
        f"hybrid:{b}", PlattScaling(smoothing=0)
    ),
    "scaling-binning, beta": lambda b: ScalingBinning(b, BetaScaling()),
    "scaling-binning, beta, hybrid bins": lambda b: ScalingBinning(f"hybrid:{b}", BetaScaling()),
    "scaling-binning, quadratic": lambda b: ScalingBinning(b, QuadraticScaling()),
}
ONE = np.ones(1)


def rows(n, seed=0, digits=None):
    rng = np.random.default_rng(seed)
    z = rng.beta(0.5, 1.5, size=n)
    z = z if digits is None else z.round(digits)
    return z, rng.uniform(size=n) < z**1.4


def test_every_method_has_a_public_twin():
    assert set(PUBLIC) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_bins", [1, 7, 40])
@pytest.mark.parametrize("digits", [None, 2])
def test_a_binned_model_has_the_error_and_score_of_the_public_one(name, n_bins, digits):
    z, y = rows(4000, 1, digits)
    draw = np.random.default_rng(2).integers(4000, size=600)
    method, population = METHODS[name], Ranked.of(z, y)
    scaler = method.fit_scaler(z[draw], y[draw])
    model = method.discretise(Ranked.of(z[draw], y[draw]).under(scaler), n_bins)
    judged = population.under(scaler)
    outputs = PUBLIC[name](n_bins).fit(z[draw], y[draw]).predict_proba(z)
    public = calibration_error(y, outputs, bins=Distinct(), debias=False)
    assert squared_error(judged, model) == pytest.approx(public.squared, abs=1e-12)
    assert brier_score(judged, model) == pytest.approx(np.mean((outputs - y) ** 2), abs=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("debias", [False, True])
def test_resampled_cells_have_the_errors_of_resampled_rows(norm, debias):
    z, y = rows(500)
    bins = EqualMass(9).choose(np.unique(z), np.ones(500))
    draws = draw_rows(np.random.default_rng(3), 500, 300, 5)
    cells = resampled_cells(bins.index(z), len(bins), z, y, multiplicities(draws, 500))
    power = float(norm[1])
    quick = error_of(cells, ONE, power, debias)
    slow = [calibration_error(y[d], z[d], bins=bins, norm=norm, debias=debias).value for d in draws]
    np.testing.assert_allclose(quick, slow, rtol=0, atol=1e-12)


def test_resampled_tables_of_a_binned_model_have_the_errors_of_resampled_rows():
    z, y = rows(400)
    model = ScalingBinning(bins=8).fit(*rows(300, 5))
    outputs = model.predict_proba(z)
    levels, index = np.unique(outputs, return_inverse=True)
    draws = draw_rows(np.random.default_rng(4), 400, 250, 6)
    cells = resampled_binned_cells(index, levels, y, multiplicities(draws, 400))
    slow = [calibration_error(y[d], outputs[d], bins=Distinct()).squared for d in draws]
    np.testing.assert_allclose(raw_error(cells, ONE, 2.0, True), slow, rtol=0, atol=1e-12)


def test_ranked_samples_have_the_counts_of_drawn_rows():
    z, y = rows(300)
    bins = EqualWidth(6).bins
    levels = (bins.edges[1:] + bins.edges[:-1]) / 2
    draws = draw_rows(np.random.default_rng(5), 300, 300, 4)
    drawn = multiplicities(draws, 300)
    ranks = ResampledRanks.of(z, y, drawn)
    expected = resampled_binned_cells(bins.index(z), levels, y, drawn)
    found = ranks.cells(bins, levels)
    for name in ("mass", "rate", "mean", "size", "square"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_blocks_of_samples_do_not_change_the_sums(monkeypatch):
    z, y = rows(200)
    drawn = multiplicities(draw_rows(np.random.default_rng(6), 200, 100, 9), 200)
    index = EqualWidth(5).bins.index(z)
    whole = resampled_cells(index, 5, z, y, drawn)
    monkeypatch.setattr("calibrant.paper.population.BLOCK", 450)
    parts = resampled_cells(index, 5, z, y, drawn)
    np.testing.assert_array_equal(whole.rate, parts.rate)


def test_multiplicities_count_the_rows_of_every_sample():
    draws = draw_rows(np.random.default_rng(6), 20, 30, 150)
    drawn = multiplicities(draws, 20)
    assert drawn.shape == (150, 20)
    for counts, draw in zip(drawn, draws, strict=True):
        np.testing.assert_array_equal(np.repeat(np.arange(20), counts.astype(int)), np.sort(draw))


def test_outputs_that_coincide_are_one_bin():
    population = Ranked.of(np.array([0.1, 0.4, 0.9]), np.array([1.0, 0.0, 1.0]))
    bins = EqualWidth(3).bins
    assert squared_error(population, (bins, np.array([0.5, 0.2, 0.5]))) == pytest.approx(
        (2 / 3) * 0.25 + (1 / 3) * 0.04
    )


@pytest.mark.parametrize("name", ["scaling-binning", "scaling-binning, hybrid bins"])
def test_scores_of_exactly_zero_and_one_are_clipped_as_in_the_paper(name):
    z, y = rows(600, 3, digits=1)
    assert (z == 0).any()
    scaler = METHODS[name].fit_scaler(z, y)
    inside = PlattScaling().fit(np.clip(z, 1e-12, 1 - 1e-12), y)
    np.testing.assert_allclose(scaler.predict_proba(z), inside.predict_proba(z), atol=1e-9)
