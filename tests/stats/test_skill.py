"""Skill scores: published formulas, Fieller's interval, and what it promises in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest

from calibrant import stats
from calibrant.exceptions import CalibrantError, InvalidInputError
from calibrant.stats.skill import row_scores

RNG = np.random.default_rng(0)
P = RNG.uniform(0.01, 0.99, size=300)
Y = (RNG.uniform(size=300) < P).astype(float)


def climatology(rule, y):
    return row_scores(rule, y, np.full(y.size, y.mean()))


def test_fieller_is_where_student_just_accepts_the_skill():
    own, other = row_scores("brier", Y, P), row_scores("brier", Y, P**2)
    low, high = stats.skill_score(own, other).confidence_interval(0.9)
    for end in (low, high):
        d = own - (1 - end) * other
        t = d.mean() / (d.std(ddof=1) / math.sqrt(d.size))
        assert abs(t) == pytest.approx(1.649966, rel=1e-5)  # R: qt(.95, 299)


def test_equal_weights_change_nothing_and_clusters_of_one_row_neither():
    own, other = row_scores("log", Y, P), climatology("log", Y)
    plain = stats.skill_score(own, other).confidence_interval()
    weighted = stats.skill_score(own, other, weights=np.full(300, 7.0)).confidence_interval()
    alone = stats.skill_score(own, other, clusters=RNG.permutation(300)).confidence_interval()
    assert tuple(weighted) == pytest.approx(tuple(plain), rel=1e-9)
    assert tuple(alone) == pytest.approx(tuple(plain), rel=1e-9)


def test_repeated_rows_in_clusters_are_one_row():
    own, other = row_scores("brier", Y, P), climatology("brier", Y)
    once = stats.skill_score(own, other)
    clusters = np.tile(np.arange(300), 4)
    four = stats.skill_score(np.tile(own, 4), np.tile(other, 4), clusters=clusters)
    assert tuple(four.confidence_interval()) == pytest.approx(tuple(once.confidence_interval()))
    narrow = stats.skill_score(np.tile(own, 4), np.tile(other, 4)).confidence_interval()
    assert narrow.high - narrow.low < 0.55 * (
        once.confidence_interval().high - once.confidence_interval().low
    )


@pytest.mark.parametrize("rule", ["brier", "log"])
def test_intervals_hold_the_truth(rule):
    """Nominal 95%; 400 samples of 200 rows, of which 91% is four standard errors away."""
    rng = np.random.default_rng(1)

    def draw(n):
        p = rng.uniform(0.01, 0.99, size=n)
        return (rng.uniform(size=n) < p**1.3).astype(float), p

    y, p = draw(10**6)
    truth = 1 - row_scores(rule, y, p).mean() / climatology(rule, y).mean()
    held = 0
    for _ in range(400):
        y, p = draw(200)
        skill = stats.skill_score(row_scores(rule, y, p), climatology(rule, y), rule=rule)
        held += truth in skill.confidence_interval()
    assert held / 400 >= 0.91


def test_few_rows_that_decide_are_named_and_an_open_interval_is_open():
    y = np.zeros(40)
    y[0] = 1
    skill = stats.skill_score(row_scores("brier", y, np.full(40, 0.02)), climatology("brier", y))
    interval = skill.confidence_interval()
    assert "rows decide it" in interval.notes[0]
    assert (interval.low, interval.high) == (-math.inf, 1.0)
    assert skill.to_dict()["confidence_interval"]["low"] is None


def test_an_impossible_event_has_no_skill_at_all():
    p = np.where(np.arange(300) == Y.argmax(), 0.0, P)
    skill = stats.skill_score(row_scores("log", Y, p), climatology("log", Y), rule="log")
    assert skill.value == -math.inf
    assert tuple(skill.confidence_interval()) == (-math.inf, -math.inf)


def test_references_that_score_nothing_are_refused():
    with pytest.raises(InvalidInputError, match="all outcomes are the same"):
        stats.skill_score(row_scores("brier", np.ones(9), P[:9]), np.zeros(9))
    with pytest.raises(CalibrantError, match="at least 2 rows"):
        stats.skill_score(np.ones(1), np.ones(1))
    with pytest.raises(InvalidInputError, match="gave 0 to what happened"):
        stats.skill_score(np.ones(3), np.full(3, np.inf))
