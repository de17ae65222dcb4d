"""Histogram binning and scaling-binning: levels, bins, splits, ties, the paper's experiment."""

from __future__ import annotations

import json

import numpy as np
import pytest
from shared import BINNED, binary_rows, class_rows
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid, calibration_error, tabulate
from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.recalibrators import (
    BetaScaling,
    HistogramBinning,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TemperatureScaling,
    resolution_report,
)
from calibrant.recalibrators.saving import from_json, to_json
from calibrant.stats import histogram_binning_bound


def test_histogram_binning_answers_with_the_mean_label_of_a_bin():
    p, y = binary_rows(1000)
    fitted = HistogramBinning(bins=10).fit(p, y)
    index = fitted.bins_.index(p)
    for j, level in enumerate(fitted.levels_):
        assert level == pytest.approx(y[index == j].mean(), abs=1e-15)
    np.testing.assert_array_equal(fitted.predict_proba(p), fitted.levels_[index])


@pytest.mark.parametrize("recalibrator", BINNED, ids=str)
def test_outputs_are_the_levels_and_no_others(recalibrator):
    p, y = binary_rows(900)
    fitted = clone(recalibrator).set_params(keep_order=False).fit(p, y)
    out = fitted.predict_proba(np.linspace(0, 1, 5001))
    assert set(out) <= set(fitted.levels_)
    assert fitted.effective_n_bins_ == len(set(fitted.levels_))
    assert len(fitted.bins_) == fitted.levels_.size


def test_the_outputs_of_a_binned_recalibrator_can_be_measured_exactly():
    p, y = binary_rows(4000)
    fitted = ScalingBinning(bins=10).fit(p[:1000], y[:1000])
    measured = calibration_error(y[1000:], fitted.predict_proba(p[1000:]), bins=Distinct())
    assert not measured.is_lower_bound
    assert measured.value < 0.05


def test_cuts_on_the_input_agree_with_bins_of_the_output_at_every_float():
    p, y = binary_rows(900)
    for scaler in (PlattScaling(), BetaScaling(), TemperatureScaling()):
        fitted = ScalingBinning(15, scaler).fit(p, y)
        near = np.concatenate(
            [fitted.cuts_, np.nextafter(fitted.cuts_, 2), np.nextafter(fitted.cuts_, -1)]
        )
        scaled = fitted.scaler_.predict_proba(near)
        expected = fitted.levels_[fitted.bins_.index(scaled)]
        agree = fitted.predict_proba(near) == expected
        edges = fitted.bins_.edges[1:-1]
        gap = np.abs(scaled[:, None] - edges).min(axis=1)
        assert (agree | (gap < 1e-15)).all()
        assert agree.mean() > 0.9


def test_an_empty_bin_answers_with_its_midpoint():
    fitted = HistogramBinning(bins="width:4").fit([0.1, 0.2, 0.9], [0, 1, 1])
    np.testing.assert_allclose(fitted.predict_proba([0.3, 0.6]), [0.375, 0.625])


def test_ties_can_leave_fewer_bins_than_asked_and_that_is_said():
    p = np.repeat([0.2, 0.5, 0.8], 20)
    y = np.tile([0, 1, 0, 1], 15)
    y[:20] = 0
    fitted = HistogramBinning(bins=10).fit(p, y)
    assert fitted.effective_n_bins_ == 2
    assert fitted.bins_.requested == 10


def test_neighbours_with_one_output_are_one_bin():
    fitted = HistogramBinning(bins=4).fit(np.linspace(0.1, 0.8, 8), [0, 0, 0, 0, 1, 0, 1, 1])
    np.testing.assert_array_equal(fitted.levels_, [0, 0.5, 1])
    assert len(fitted.bins_) == 3


@pytest.mark.parametrize("recalibrator", [HistogramBinning(5), ScalingBinning(bins=5)], ids=str)
def test_keep_order_breaks_ties_by_an_invisible_amount(recalibrator):
    p, y = binary_rows(900)
    plain = clone(recalibrator).fit(p, y)
    ordered = clone(recalibrator).set_params(keep_order=True).fit(p, y)
    a, b = plain.predict_proba(p), ordered.predict_proba(p)
    gap = np.diff(np.unique(plain.levels_)).min()
    assert 0 < np.abs(a - b).max() <= 1e-9 * gap
    assert ((b >= 0) & (b <= 1)).all()
    np.testing.assert_array_equal(plain.levels_, ordered.levels_)
    report = resolution_report(ordered, p, y)
    assert report.outputs_after > 850
    assert report.auc_after > resolution_report(plain, p, y).auc_after
    for j in range(5):
        own = (
            plain.bins_.index(
                p if isinstance(plain, HistogramBinning) else plain.scaler_.predict_proba(p)
            )
            == j
        )
        rank = np.argsort(p[own], kind="stable")
        assert (np.diff(b[own][rank]) >= 0).all()


def test_keep_order_stays_within_zero_and_one_at_extreme_levels():
    fitted = HistogramBinning(2, keep_order=True).fit([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    out = fitted.predict_proba([0.0, 0.3, 0.7, 1.0])
    assert (np.diff(out) > 0).all()
    assert out[0] >= 0
    assert out[-1] <= 1


@pytest.mark.parametrize(
    "wrong",
    [
        HistogramBinning(bins="quantile"),
        HistogramBinning(bins=0),
        HistogramBinning(bins=2.5),
        ScalingBinning(split=(1, 1)),
        ScalingBinning(split=(1, 0, 1)),
        ScalingBinning(scaler="platt"),
        ScalingBinning(scaler=OneVsRest(PlattScaling())),
        ScalingBinning(keep_order="yes"),
        PlattScaling(loss="hinge"),
        PlattScaling(input="scores"),
        BetaScaling("ab"),
    ],
    ids=str,
)
def test_options_that_mean_nothing_are_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        wrong.fit(*binary_rows(100))


def test_the_number_of_bins_grows_with_the_rows():
    small, large = binary_rows(200), binary_rows(20_000)
    assert (
        HistogramBinning().fit(*small).effective_n_bins_
        < HistogramBinning().fit(*large).effective_n_bins_
    )
    assert ScalingBinning().fit(*large).effective_n_bins_ == 42


@pytest.mark.parametrize(("a", "b"), [(6, 0.8), (0.3, 4)])
def test_hybrid_bins_lose_less_than_half_the_brier_score_of_uniform_mass(a, b):
    """At the same number of bins; no bin is lighter than a third of the average."""
    rng = np.random.default_rng(0)
    p = rng.beta(a, b, size=10_000)
    y = rng.uniform(size=p.size) < p
    cost = {}
    for rule in ("mass", "hybrid"):
        fitted = ScalingBinning(bins=f"{rule}:10").fit(p[:5000], y[:5000])
        cost[rule] = resolution_report(fitted, p[5000:], y[5000:]).coarseness_cost
        mass = np.bincount(fitted.bins_.index(fitted.scaler_.predict_proba(p[:5000]))) / 5000
        assert mass.min() >= 1 / 30 - 1e-12
    assert cost["mass"] >= 2 * cost["hybrid"]


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(6, 0.8), (0.3, 4)])
def test_hybrid_bins_lose_less_than_half_the_brier_score_at_an_equal_certificate(a, b):
    """Ten bins, 5,000 rows to fit and 5,000 to certify; certificates are 4 to 6% looser."""
    bounds, costs = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p = rng.beta(a, b, size=10_000)
        y = rng.uniform(size=p.size) < p
        pair = [
            ScalingBinning(bins=f"{rule}:10").fit(p[:5000], y[:5000]) for rule in ("mass", "hybrid")
        ]
        bounds.append([each.certify(p[5000:], y[5000:]).upper_bound for each in pair])
        reports = [resolution_report(each, p[5000:], y[5000:]) for each in pair]
        costs.append([report.coarseness_cost for report in reports])
    mass, hybrid = np.mean(bounds, axis=0)
    assert 0.99 * mass <= hybrid <= 1.07 * mass
    mass, hybrid = np.mean(costs, axis=0)
    assert mass >= 2 * hybrid


@pytest.mark.slow
def test_the_cost_of_coarseness_is_the_loss_of_brier_score():
    rng = np.random.default_rng(0)
    p = rng.beta(6, 0.8, size=2_000_000)
    y = rng.uniform(size=p.size) < p
    fitted = ScalingBinning(bins=10).fit(p[:5000], y[:5000])
    smooth, binned = fitted.scaler_.predict_proba(p), fitted.predict_proba(p)
    lost = (binned - y) ** 2 - (smooth - y) ** 2
    report = resolution_report(fitted, p, y)
    assert lost.mean() == pytest.approx(
        report.coarseness_cost, abs=4 * lost.std() / np.sqrt(lost.size)
    )


def test_equal_width_bins_are_those_of_the_rule():
    p, y = binary_rows(5000)
    fitted = HistogramBinning("width:5").fit(p, y)
    np.testing.assert_array_equal(fitted.bins_.edges, EqualWidth(5).bins.edges)


@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning])
@pytest.mark.parametrize(
    "ways",
    [
        (7, "7", "mass:7", EqualMass(7)),
        (
            "width:5",
            EqualWidth(5),
            Bins(np.arange(6) / 5),
            np.arange(6) / 5,
            [0, 0.2, 0.4, 0.6, 0.8, 1],
        ),
        ("hybrid:6", Hybrid(6)),
        ("distinct", Distinct()),
    ],
    ids=str,
)
def test_bins_are_said_as_everywhere(cls, ways):
    p, y = binary_rows(900)
    p = np.round(p, 2)
    first, *others = (cls(bins=way).fit(p, y) for way in ways)
    for other in others:
        np.testing.assert_array_equal(other.levels_, first.levels_)
        np.testing.assert_array_equal(other.predict_proba(p), first.predict_proba(p))


@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning])
@pytest.mark.parametrize("bins", ["mass", "mass:0", "height:3", "", [0.1, 0.9], None, True, 2.5])
def test_bins_that_mean_nothing_are_stored_and_refused_by_fit(cls, bins):
    made = clone(cls(bins=bins))
    assert made.get_params()["bins"] is bins or made.get_params()["bins"] == bins
    with pytest.raises(InvalidArgumentError, match="[Bb]in"):
        made.fit(*binary_rows(50))


@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning])
def test_a_number_of_bins_is_hybrid_in_one_versus_rest_and_a_named_rule_stays(cls):
    probs, y = class_rows(600)
    number, text, rule = (OneVsRest(cls(bins=b)).fit(probs, y) for b in (5, "5", "mass:5"))
    assert {part.bins_.rule for part in number.recalibrators_} == {"hybrid"}
    assert {part.bins_.rule for part in rule.recalibrators_} == {"uniform-mass"}
    np.testing.assert_array_equal(text.predict_proba(probs), number.predict_proba(probs))


def test_a_grid_search_goes_through_texts_of_bins():
    p, y = binary_rows(600)
    search = GridSearchCV(ScalingBinning(), {"bins": [2, "hybrid:8", "auto"]}, cv=3).fit(p, y)
    assert search.best_estimator_.bins in ("hybrid:8", "auto")


@pytest.mark.parametrize(("n", "n_bins"), [(300, 10), (1000, 10), (1000, 50)])
@pytest.mark.parametrize("rule", ["mass", "width", "hybrid"])
def test_the_training_bound_covers(n, n_bins, rule):
    rng = np.random.default_rng(n + n_bins)
    misses = 0
    for _ in range(200):
        z = rng.beta(0.7, 0.7, size=n)
        rate = np.where(rng.uniform() < 0.5, z**2, 0.5 + 0 * z)
        binned = HistogramBinning(f"{rule}:{n_bins}").fit(z, rng.uniform(size=n) < rate)
        index = binned.bins_.index(z)
        size = np.maximum(np.bincount(index, minlength=len(binned.bins_)), 1)
        mean_rate = np.bincount(index, rate, minlength=len(binned.bins_)) / size
        error = np.sqrt(np.mean((mean_rate - binned.levels_)[index] ** 2))
        misses += error > binned.training_bound(0.9)
    assert misses <= 0.1 * 200


@pytest.mark.parametrize("bins", ["distinct", np.linspace(0, 1, 401)], ids=["distinct", "edges"])
def test_the_training_bound_counts_bins_before_equal_neighbours_are_joined(bins):
    rng = np.random.default_rng(0)
    p, y = rng.uniform(size=400), rng.uniform(size=400) < 0.1
    binned = HistogramBinning(bins).fit(p, y)
    error = np.sqrt(np.mean((binned.predict_proba(p) - 0.1) ** 2))
    assert binned.levels_.size < 300
    assert error <= binned.training_bound() == histogram_binning_bound(400, 400)


def test_a_document_without_the_number_of_bins_has_no_training_bound():
    document = json.loads(to_json(HistogramBinning(bins="distinct").fit(*binary_rows(50))))
    document["learned"]["bins"]["requested"] = None
    with pytest.raises(InvalidInputError, match="saved without"):
        from_json(json.dumps(document)).training_bound()


def test_the_bound_falls_with_rows_and_rises_with_bins():
    bounds = [histogram_binning_bound(n, 10) for n in (100, 1000, 10_000)]
    assert bounds == sorted(bounds, reverse=True)
    assert histogram_binning_bound(1000, 50) > bounds[1]
    assert histogram_binning_bound(1, 10) == 1


def test_weighted_fits_and_fits_from_tables_have_no_training_bound():
    z = np.linspace(0, 1, 100)
    weighted = HistogramBinning(5).fit(z, z > 0.5, sample_weight=z + 1)
    with pytest.raises(ValueError, match="counts independent rows"):
        weighted.training_bound()
    table = tabulate(z > 0.5, z, bins=EqualWidth(100))
    with pytest.raises(ValueError, match="from a table"):
        HistogramBinning(5).fit_table(table).training_bound()
