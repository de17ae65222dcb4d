"""Every study runs, is seeded, and shows what the paper reports at a small scale."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from calibrant.exceptions import InvalidArgumentError, InvalidInputError
from calibrant.paper import STUDIES, Predictions, run, stand_in, study
from calibrant.paper.calibrators import pareto, repeats_for
from calibrant.paper.choosing import best_allowed
from calibrant.paper.claims import lines_of
from calibrant.paper.study import Context
from calibrant.paper.synthetic import Synthetic

SMALL = {
    "lower-bounds": {"bins": (2, 8), "resamples": 20, "splits": 2},
    "lower-bounds-l1": {"bins": (2, 8), "resamples": 20, "splits": 2},
    "calibrators-marginal": {"bins": (5, 20), "repeats": 3, "n_calibration": 300},
    "calibrators-top-label": {"bins": (5, 20), "repeats": 5, "n_calibration": 300},
    "estimators-marginal": {"repeats": 20, "n": (100, 300), "splits": 2},
    "estimators-ece": {"repeats": 20, "n": (200, 500), "splits": 2},
    "choosing-bins": {"splits": 2, "bins": (5, 20), "resamples": 10},
    "synthetic-n": {"repeats": 5, "n": (500, 1000), "cells": 5000},
    "synthetic-bins": {"repeats": 5, "bins": (5, 20), "cells": 5000},
    "synthetic-noisy": {"repeats": 5, "n": (500,), "cells": 5000},
    "beyond-calibrators": {"bins": (5,), "repeats": 2, "n_calibration": 300},
    "beyond-bounds": {"bins": (5,), "resamples": 10, "splits": 2},
    "beyond-coverage": {"repeats": 20, "certificates": 2, "bins": (5,), "n": 300},
}


@pytest.fixture(scope="module")
def data():
    return stand_in(2000, 4, accuracy=0.8, seed=1)


@pytest.fixture(scope="module")
def cifar10_claims(cifar10):
    """Return quick results of the studies that split the paper's own file, on few settings."""
    labels, probs = cifar10
    file = Predictions(probs, labels, "cifar10-vgg16")
    return [
        run("lower-bounds", data=file, bins=(2, 128), resamples=100, splits=2),
        run("lower-bounds-l1", data=file, bins=(2, 128), resamples=100, splits=2),
        run("estimators-ece", data=file, repeats=300, n=(2000, 7000), splits=3),
        run("estimators-marginal", data=file, repeats=50, n=(2000, 7000), splits=2),
        run("choosing-bins", data=file, splits=2, bins=(15, 100), resamples=20),
    ]


def test_on_the_paper_s_predictions_the_authors_split_bears_out_their_claims(cifar10_claims):
    l2, l1, ece, marginal, _ = cifar10_claims
    assert l2.finding("growth").splits[0].low > 0
    assert l1.finding("gap-width").splits[0].high < 0, "inconclusive, as the paper says"
    least, small_n = ece.finding("least-15"), ece.finding("small-n-100")
    assert least.splits[0].value > 1, "the debiased ECE is closer in the authors' split"
    assert min(one.value for one in least.splits[1:]) < 1, "and not in every other"
    assert small_n.estimate.value > 1, "more so for small n, from 2,000 rows to 7,000"
    assert marginal.finding("least-100").splits[0].low > 2


def small(name, data, seed=0):
    return run(name, data=data, seed=seed, **SMALL.get(name, {}))


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning")
@pytest.mark.parametrize("name", ["calibrators-marginal", "calibrators-top-label", "choosing-bins"])
def test_predictions_in_which_there_is_nothing_to_compare_are_refused(name):
    """They ended in a division by zero, or in NaN that JSON does not have."""
    perfect = Predictions(np.eye(3)[np.arange(300) % 3], np.arange(300) % 3, "perfect")
    with pytest.raises(InvalidInputError, match="in perfect there is nothing to compare"):
        run(name, data=perfect, quick=True)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_and_gives_finite_numbers(name, data):
    result = small(name, data)
    json.loads(result.to_json())
    assert result.rows
    assert all(panel.title for panel in result.output.panels)
    assert result.output.panels
    assert result.output.findings
    for finding in result.output.findings:
        assert np.isfinite(finding.estimate.value)
        assert finding.estimate.low <= finding.estimate.value <= finding.estimate.high


@pytest.mark.parametrize(
    "name", ["synthetic-bins", "calibrators-top-label", "estimators-ece", "lower-bounds-l1"]
)
def test_the_seed_decides_every_number(name, data):
    first, again, other = small(name, data), small(name, data), small(name, data, seed=1)
    assert first.rows == again.rows
    assert first.output == again.output
    assert first.rows != other.rows


def test_a_study_of_its_own_does_not_depend_on_global_random_state(data):
    np.random.seed(0)  # noqa: NPY002
    first = small("synthetic-n", data)
    np.random.seed(1)  # noqa: NPY002
    assert small("synthetic-n", data).rows == first.rows


def test_settings_are_frozen_and_unknown_ones_are_named():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Synthetic().repeats = 3  # type: ignore[misc]
    with pytest.raises(InvalidArgumentError, match="'repeat'"):
        run("synthetic-n", repeat=3)
    with pytest.raises(InvalidArgumentError, match="no study 'synthetic'"):
        study("synthetic")


@pytest.mark.parametrize("name", ["lower-bounds", "estimators-ece", "choosing-bins"])
def test_a_study_of_no_split_is_refused(name, data):
    with pytest.raises(InvalidArgumentError, match="at least one split of the rows; splits is 0"):
        run(name, data=data, splits=0)


def test_a_study_of_predictions_asks_for_them():
    with pytest.raises(InvalidInputError, match="--probs"):
        run("lower-bounds")


def test_settings_may_be_given_whole():
    result = run("synthetic-bins", Synthetic(n=(300,), bins=(5, 20), repeats=3, cells=2000))
    assert result.settings["n"] == [300]


def test_progress_ends_at_the_whole(data):
    seen = []
    run("synthetic-bins", repeats=3, bins=(5, 20), progress=lambda *done: seen.append(done))
    assert seen[-1] == (3, 3)


SPLIT = ("lower-bounds", "lower-bounds-l1", "estimators-marginal", "estimators-ece",
         "choosing-bins", "beyond-bounds")  # fmt: skip


@pytest.mark.parametrize("name", SPLIT)
def test_a_study_that_splits_the_rows_gives_the_number_of_every_split(name, data):
    result = small(name, data)
    assert {row["split"] for row in result.rows} == {0, 1}
    for finding in result.output.findings:
        assert len(finding.splits) == 2
        assert finding.estimate.value == np.median([one.value for one in finding.splits])
        assert not finding.has_authors_split


@pytest.mark.parametrize("name", SPLIT)
def test_more_splits_do_not_change_the_first(name, data):
    one = run(name, data=data, **{**SMALL[name], "splits": 1})
    two = run(name, data=data, **{**SMALL[name], "splits": 2})
    first = [row for row in two.rows if row["split"] == 0]
    assert first == one.rows


def test_every_claim_from_one_split_of_the_paper_is_judged_in_several(cifar10_claims):
    for result in cifar10_claims:
        for line in lines_of(result):
            if line.verdict != "beyond the paper":
                assert " splits" in line.worded, line.statement


def test_the_first_split_of_the_paper_s_file_is_that_of_the_authors_scripts(cifar10):
    labels, probs = cifar10
    context = Context(np.random.default_rng(1), Predictions(probs, labels))
    first = context.order(0)
    assert first[:5].tolist() == [9394, 898, 2398, 5906, 2343], "NumPy's legacy stream of seed 0"
    np.testing.assert_array_equal(context.order(0, shuffles=2), first[first])
    assert context.order(1)[:5].tolist() != first[:5].tolist()
    other = Context(np.random.default_rng(1), Predictions(probs[:5000], labels[:5000]))
    assert not other.has_authors_split


def test_samples_are_as_large_as_the_authors_or_the_same_shares(data):
    study = STUDIES["estimators-ece"]
    assert study.settings_for().n == (2000, 3000, 4000, 5000, 6000, 7000)
    assert study.settings_for(data).n == (400, 600, 800, 1000, 1200, 1400)


def test_progress_of_several_splits_is_one_count(data):
    seen = []
    settings = SMALL["estimators-ece"]
    run("estimators-ece", data=data, progress=lambda *done: seen.append(done), **settings)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_quick_look_never_asks_for_more_than_the_study():
    from calibrant.paper import stand_in

    many = stand_in(n=2000, n_classes=200)
    for each in STUDIES.values():
        quick, whole = each.settings_for(many, quick=True), each.settings_for(many)
        for name in each.quick:
            small, full = getattr(quick, name), getattr(whole, name)
            assert (len(small) <= len(full)) if isinstance(small, tuple) else (small <= full)


def test_every_quick_setting_exists(data):
    for each in STUDIES.values():
        settings = each.settings_for(data, quick=True)
        assert all(getattr(settings, name) == value for name, value in each.quick.items())


def test_the_hidden_error_of_example_3_1_grows_to_a_half_and_bins_see_nothing():
    for n_bins in (1, 10, 15):
        result = run("example-3-1", n_bins=n_bins, spread=0.001)
        assert result.finding("error").estimate.value > 0.499
        assert result.finding("binned").estimate.value < 1e-12


def test_the_bins_of_proposition_3_2_are_nested_and_approach_the_error():
    rows = run("proposition-3-2").rows
    for truth in {row["truth"] for row in rows}:
        own = [row for row in rows if row["truth"] == truth]
        assert own[-1]["binned_error"] == pytest.approx(own[-1]["error"], rel=1e-3)


@pytest.mark.slow
def test_histogram_binning_pays_for_bins_and_scaling_binning_does_not():
    result = run("synthetic-bins", repeats=150, bins=(5, 20), seed=4)
    histogram = result.finding("histogram").estimate
    change = result.finding("scaling-binning").estimate
    assert 3.2 < histogram.value < 4.4
    assert abs(change.value) < 0.15


@pytest.mark.slow
def test_twice_the_rows_halve_the_squared_error():
    result = run("synthetic-n", repeats=150, n=(1000, 2000), cells=20_000, seed=5)
    for name in ("histogram", "scaling-binning"):
        assert 1.5 < result.finding(name).estimate.value < 2.6


@pytest.mark.slow
def test_on_the_paper_s_predictions_scaling_binning_wins_with_many_bins(cifar10):
    labels, probs = cifar10
    data = Predictions(probs, labels, "cifar10-vgg16")
    result = run("calibrators-marginal", data=data, repeats=6, bins=(100,), seed=1)
    assert 0.2 < result.finding("gain").estimate.value < 0.5
    top = run("calibrators-top-label", data=data, repeats=40, bins=(10, 100), seed=1)
    assert top.finding("few-bins").estimate.high < 1 < top.finding("gain").estimate.low


@pytest.mark.slow
def test_on_the_paper_s_predictions_the_debiased_estimate_is_closer(cifar10):
    labels, probs = cifar10
    data = Predictions(probs, labels, "cifar10-vgg16")
    result = run("estimators-marginal", data=data, repeats=100, n=(200, 2000), seed=1, splits=2)
    assert result.finding("least-10").estimate.low > 1.5
    assert result.finding("least-100").estimate.low > 5


def test_pareto_points_are_those_that_nothing_beats():
    x, y = np.array([1.0, 2.0, 3.0, 2.0]), np.array([3.0, 1.0, 2.0, 1.5])
    assert pareto(x, y).tolist() == [0, 1]


def test_the_best_allowed_is_the_least_squared_error_under_the_bound():
    bounds, brier = np.array([0.01, 0.02, 0.03]), np.array([3.0, 2.0, 1.0])
    assert best_allowed(bounds, brier, 0.02) == 1
    assert best_allowed(bounds, brier, 0.001) == 0


def test_many_classes_mean_fewer_repeats_and_never_none(data):
    many = stand_in(300, 200)
    assert repeats_for(data, 100) == 100
    assert repeats_for(many, 100) == 5
    assert repeats_for(many, 1000, 20) == 50
    assert repeats_for(None, 100) == 100
