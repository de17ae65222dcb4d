"""How far groups follow the repair of all rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import calibrant as cb
from calibrant.recalibrators.pooling import Candidate, worth_it
from recalibrators.shared import ONE_EVENT, class_rows, rows_of_sites

P, Y, SITE, _ = rows_of_sites()


def log_loss(y, q):
    return -np.log(np.where(y == 1, q, 1 - q).clip(1e-12)).mean()


@pytest.mark.parametrize("own", ["auto", "shift", "map"])
@pytest.mark.parametrize("recalibrator", ONE_EVENT, ids=str)
def test_it_is_never_worse_than_pooled_in_cross_validation(recalibrator, own):
    fitted = cb.ByGroup(recalibrator, own=own).fit(P, Y, by=SITE)
    assert fitted.cv_loss_ <= fitted.cv_loss_pooled_
    if own != "map":
        assert fitted.own_ != "nothing"
        p, y, site, _ = rows_of_sites(4000, seed=1)
        pooled = fitted.pooled_.predict_proba(p)
        assert log_loss(y, fitted.predict_proba(p, by=site)) < log_loss(y, pooled) - 0.005
    again = clone(fitted).fit(P, Y, by=SITE)
    assert again.cv_loss_ == fitted.cv_loss_
    assert np.array_equal(again.shifts_, fitted.shifts_)


def test_shifts_that_are_surely_better_than_nothing_are_not_lost_to_maps_that_may_be():
    noise = np.random.default_rng(0).normal(size=400)
    noise -= noise.mean()
    nothing = Candidate("nothing", np.inf, np.ones(400))
    shift = Candidate("shift", 30.0, 0.9 + 0.4 * noise)  # better by 5 standard errors
    maps = Candidate("map", 30.0, 0.89 + 4 * noise)  # of which nothing is within one
    even = np.ones(400)
    assert worth_it([nothing, shift, maps], even) is shift
    assert worth_it([nothing, maps], even) is nothing
    assert worth_it([nothing, replace(shift, losses=nothing.losses)], even) is nothing
    surely = replace(maps, losses=shift.losses - 0.05)
    assert worth_it([nothing, shift, surely], even) is surely


@pytest.mark.parametrize("recalibrator", ONE_EVENT, ids=str)
def test_without_pooling_a_map_is_that_of_the_group_alone(recalibrator):
    fitted = cb.ByGroup(recalibrator, pool=0, own="map").fit(P, Y, by=SITE)
    own = SITE == "east"
    alone = clone(recalibrator).fit(P[own], Y[own])
    expected = alone.predict_proba(P[own])
    assert np.array_equal(fitted.predict_proba(P[own], by=SITE[own]), expected)
    assert fitted.sizes_[0] == own.sum()
    assert fitted.pool_ == 0


@pytest.mark.parametrize(
    "recalibrator",
    [cb.VectorScaling(), cb.TopLabel(cb.HistogramBinning(4)), cb.OneVsRest(cb.PlattScaling())],
    ids=str,
)
def test_without_pooling_a_map_of_several_classes_is_that_of_the_group_alone(recalibrator):
    """It was fitted with weights of 1 each, which some flagged as weighted."""
    probs, y = class_rows(900)
    by = np.where(np.arange(900) % 3, "a", "b")
    fitted = cb.ByGroup(recalibrator, pool=0).fit(probs, y, by=by)
    alone = clone(recalibrator).fit(probs[by == "a"], y[by == "a"])
    assert np.array_equal(
        fitted.predict_proba(probs, by=by)[by == "a"], alone.predict_proba(probs[by == "a"])
    )
    assert "weighted" not in fitted.fit_result_.flags


@pytest.mark.parametrize("own", ["shift", "map"])
def test_with_much_pooling_every_group_has_the_pooled_repair(own):
    fitted = cb.ByGroup(cb.PlattScaling(), pool=1e9, own=own).fit(P, Y, by=SITE)
    pooled = cb.PlattScaling().fit(P, Y).predict_proba(P)
    assert np.allclose(fitted.predict_proba(P, by=SITE), pooled, atol=2e-4)


def test_the_pull_is_that_of_a_penalised_likelihood():
    few = np.flatnonzero(SITE == "no'rth")[:40]
    slopes = []
    for pool in (1, 30, 1000):
        place = np.full(P.size, "rest")
        place[few] = "few"
        fitted = cb.ByGroup(cb.PlattScaling(), pool=pool, own="map").fit(P, Y, by=place)
        slopes.append(fitted.recalibrators_[0].coef_)
    pooled = fitted.pooled_.coef_
    distance = [np.abs(coef - pooled).sum() for coef in slopes]
    assert distance[0] > distance[1] > distance[2]
    # The gradient of the penalised loss is 0 where the fit says so.
    z = np.log(P / (1 - P))
    coef, features = slopes[1], np.stack((z, np.ones_like(z)))
    off = 1 / (1 + np.exp(-(coef @ features))) - Y
    gradient = features[:, few] @ off[few] + 30 / P.size * (features @ off)
    assert np.abs(gradient).max() < 0.05  # of sums over 40 rows; the prior is in 512 cells
