"""Choosing by cross-validation, and the report on ranking and resolution."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from shared import binary_rows, class_rows
from sklearn.base import clone

from calibrant import tabulate
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import (
    BetaScaling,
    ByGroup,
    HistogramBinning,
    Identity,
    MatrixScaling,
    PlattScaling,
    QuantileRecalibration,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
    best_recalibrator,
)
from calibrant.recalibrators.selection import recalibrator_scores


def test_a_miscalibrated_model_gets_a_recalibrator_that_helps():
    p, y = binary_rows(3000, power=2)
    best = best_recalibrator(y, p)
    assert isinstance(best, PlattScaling | BetaScaling)
    assert best.fingerprint_ is not None
    fresh, happened = binary_rows(3000, seed=1, power=2)
    assert best.score(fresh, happened) > Identity().fit(p, y).score(fresh, happened) + 0.02


def test_an_overconfident_model_of_several_classes_gets_one_temperature():
    probs, y = class_rows(3000, seed=1)
    best = best_recalibrator(y, probs)
    assert isinstance(best, TemperatureScaling)
    assert best.temperature_ == pytest.approx(2, rel=0.1)


def test_a_model_far_from_any_family_gets_isotonic_probabilities_that_are_smoothed():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=20_000)
    y = rng.uniform(size=p.size) < np.where(p < 0.5, 0.1, 0.9)
    assert isinstance(best_recalibrator(y, p), VennAbers)


@pytest.mark.slow
@pytest.mark.parametrize("n", [500, 5000])
def test_a_calibrated_model_is_left_alone_at_the_stated_rate(n):
    """About 95%; see `best_recalibrator`."""
    alone = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        p = rng.beta(1.2, 0.8, size=n)
        best = best_recalibrator(rng.uniform(size=n) < p, p)
        alone += isinstance(best, Identity)
    assert alone >= 34  # of 40 at 95%: fewer in three of a thousand runs


def confused_rows(n, n_classes=8, seed=0):
    """Return predictions of a model that mistakes each class for the next one, and labels."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n)
    z = 2 * rng.normal(size=(n, n_classes))
    z[np.arange(n), y] += 2
    z[np.arange(n), (y + 1) % n_classes] += 3
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), y


def test_the_scores_hold_every_default_candidate_of_several_classes():
    probs, y = class_rows(300)
    scores = recalibrator_scores(y, probs)
    text = str(scores)
    for name in (
        "Identity()",
        "TemperatureScaling()",
        "TopLabel(recalibrator=PlattScaling())",
        "VectorScaling()",
        "OneVsRest(normalize=True, recalibrator=PlattScaling())",
        "OneVsRest(normalize=True, recalibrator=BetaScaling())",
        "MatrixScaling()",
        "OneVsRest(normalize=True, recalibrator=SplineCalibration())",
        "OneVsRest(normalize=True, recalibrator=VennAbers())",
    ):
        assert name in text
    assert len(scores.candidates) == len(scores.loss) == 9
    assert not scores.screened_out.any()


@pytest.mark.parametrize("n_classes", [8, 40])
def test_a_model_that_confuses_classes_gets_a_matrix_for_any_number_of_them(n_classes):
    probs, y = confused_rows(3000, n_classes)
    assert isinstance(best_recalibrator(y, probs), MatrixScaling)


@cache
def screened_scores():
    probs, y = confused_rows(8_400)
    return recalibrator_scores(y, probs)


def test_many_rows_are_screened_on_one_fold_and_the_scores_say_so():
    probs, y = confused_rows(8_400)
    scores = screened_scores()
    assert 4 <= scores.screened_out.sum() <= 5
    assert not scores.screened_out[0]
    assert not scores.screened_out[scores.chosen]
    assert str(scores).count("screened out") == scores.screened_out.sum()
    assert np.isfinite([scores.loss, scores.excess, scores.standard_error]).all()
    assert scores.loss[scores.screened_out].min() > scores.loss[scores.chosen]
    again = recalibrator_scores(y, probs)
    np.testing.assert_array_equal(scores.loss, again.loss)
    np.testing.assert_array_equal(scores.screened_out, again.screened_out)


def test_screening_does_not_change_the_choice():
    probs, y = confused_rows(8_400)
    screened = screened_scores()
    whole = recalibrator_scores(y, probs, screened.candidates)
    assert not whole.screened_out.any()
    assert screened.chosen == whole.chosen
    kept = ~screened.screened_out
    np.testing.assert_array_equal(screened.loss[kept], whole.loss[kept])


def test_rows_without_weight_change_nothing_in_the_screening():
    probs, y = confused_rows(8_400)
    weights = np.ones(8_400)
    weights[6_000:] = 0
    some = recalibrator_scores(y, probs, sample_weight=weights)
    assert np.isfinite(some.loss).all()
    assert isinstance(some.candidates[some.chosen], MatrixScaling)
    six_rows = np.zeros(8_400)
    six_rows[:6] = 1
    few = recalibrator_scores(y, probs, sample_weight=six_rows, cv=2)
    assert few.chosen < 8


def test_a_calibrated_model_of_several_classes_is_not_harmed_by_few_rows():
    harm = []
    for seed in range(4):
        probs, y = class_rows(3000, n_classes=10, seed=seed, temperature=1.0)
        best = best_recalibrator(y[:300], probs[:300])
        own = best.predict_proba(probs[300:])[np.arange(2700), y[300:]]
        harm.append(np.mean(np.log(probs[300:][np.arange(2700), y[300:]]) - np.log(own)))
    assert np.mean(harm) < 0.001


def test_candidates_warn_of_nothing_while_they_are_compared():
    """Warnings are errors here; a fit of Venn-Abers for each of 40 classes is less accurate."""
    probs, y = confused_rows(400, 40)
    assert isinstance(best_recalibrator(y, probs), VectorScaling | MatrixScaling)


def test_the_papers_network_gets_what_is_best_on_fresh_rows(cifar10):
    y, probs = cifar10
    scores = recalibrator_scores(y[:4000], probs[:4000])
    losses = [
        -np.log(
            c.fit(probs[:4000], y[:4000]).predict_proba(probs[4000:])[np.arange(6000), y[4000:]]
        )
        for c in scores.candidates
    ]
    means = np.mean(np.maximum(losses, 0), axis=1)
    assert means[scores.chosen] < means.min() + 0.002
    assert means[scores.chosen] < means[1]


def test_the_scores_are_those_of_rows_not_fitted_on():
    p, y = binary_rows(600)
    candidates = [Identity(), PlattScaling(), HistogramBinning(200)]
    scores = recalibrator_scores(y, p, candidates, scoring="brier")
    assert scores.loss[0] == pytest.approx(np.mean((p - y) ** 2))
    assert scores.loss[2] > scores.loss[1]
    assert scores.excess.min() == 0
    assert "<- chosen" in str(scores)
    again = recalibrator_scores(y, p, candidates, scoring="brier")
    np.testing.assert_array_equal(scores.loss, again.loss)


def test_weights_and_names_are_used_in_choosing():
    p, y = binary_rows(1500, power=2)
    w = (np.arange(1500) < 1000).astype(float)
    names = np.array(["no", "yes"])[y]
    best = best_recalibrator(names, p, sample_weight=w, classes=["no", "yes"])
    assert list(best.classes_) == ["no", "yes"]
    scores = recalibrator_scores(y, p, [Identity()], sample_weight=w, scoring="brier")
    assert scores.loss[0] == pytest.approx(np.mean((p[:1000] - y[:1000]) ** 2))


def test_options_of_choosing_are_checked():
    p, y = binary_rows(50)
    for options in ({"cv": 1}, {"cv": 51}, {"scoring": "accuracy"}, {"candidates": []}):
        with pytest.raises(InvalidArgumentError):
            best_recalibrator(y, p, **options)


def test_the_choice_holds_the_scores_of_all_candidates():
    p, y = binary_rows(1500, power=2)
    candidates = [Identity(), PlattScaling(), BetaScaling()]
    best = best_recalibrator(y, p, candidates, cv=3)
    assert best.scores_.candidates == tuple(candidates)
    assert str(best.scores_.candidates[best.scores_.chosen]) == str(best)
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.scores_.loss, best.scores_.loss)
    assert not hasattr(clone(best), "scores_")


def test_a_table_has_no_rows_to_choose_on():
    table = tabulate([0, 1, 1], [0.2, 0.6, 0.9])
    with pytest.raises(InvalidArgumentError, match=r"a table of sums has none. Pass .* fit_table"):
        best_recalibrator(table)


def test_repairs_of_quantiles_are_no_candidates():
    rng = np.random.default_rng(0)
    quantiles = np.tile([-1.0, 0.0, 1.0], (100, 1))
    with pytest.raises(InvalidArgumentError, match=r"repairs quantiles.*pinball_loss"):
        best_recalibrator(rng.normal(size=100), quantiles, [QuantileRecalibration()])


def test_candidates_that_need_groups_are_refused_by_their_name():
    with pytest.raises(InvalidArgumentError, match="ByGroup needs groups too"):
        best_recalibrator(*reversed(binary_rows(60)), [Identity(), ByGroup(PlattScaling())])
