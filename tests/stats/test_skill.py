"""Skill scores: published formulas, Fieller's interval, and what it promises in simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

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


def two_events():
    p = np.linspace(0.001, 0.05, 300)
    y = np.zeros(300)
    y[[5, 200]] = 1
    return row_scores("brier", y, p), climatology("brier", y)


def test_few_events_have_an_interval_that_ends_and_a_note():
    own, other = two_events()
    skill = stats.skill_score(own, other, reference="climatology")
    interval = skill.confidence_interval()
    gap = own - own.mean() / other.mean() * (other - other.mean()) - own.mean()
    freedom = (gap**2).sum() ** 2 / (gap**4).sum() - 1
    t = float(scipy.stats.t.ppf(0.975, max(freedom, 1)))
    reach = t * gap.std(ddof=1) / math.sqrt(300) / own.mean()
    ratio = own.mean() / other.mean()
    ends = (1 - ratio * math.exp(reach), 1 - ratio * math.exp(-reach))
    assert (interval.low, interval.high) == pytest.approx(ends, rel=1e-9)
    assert interval.method == "log ratio"
    assert interval.notes == ("about 2 rows decide it: the interval may be too short",)
    assert "inf" not in str(skill) + repr(skill)


def test_a_single_row_that_decides_is_one_row():
    y = np.zeros(40)
    y[0] = 1
    skill = stats.skill_score(row_scores("brier", y, P[:40] / 9), climatology("brier", y))
    low, high = skill.confidence_interval()
    assert math.isfinite(low)
    assert low < skill.value < high < 1
    assert "about 1 row decides it" in str(skill)


def test_intervals_of_few_events_hold_the_truth():
    """2,000 samples of 100 rows with an event of 2%: in four of five Fieller's set has no end."""
    rng = np.random.default_rng(2)
    big = rng.beta(1, 50, size=10**6)
    truth = 1 - np.mean(big * (1 - big)) / (big.mean() * (1 - big.mean()))
    held = []
    for _ in range(2000):
        p = rng.beta(1, 50, size=100)
        y = (rng.uniform(size=100) < p).astype(float)
        if y.any():
            skill = stats.skill_score(row_scores("brier", y, p), climatology("brier", y))
            interval = skill.confidence_interval()
            if interval.method == "log ratio":
                held.append(truth in interval)
    assert len(held) > 1000
    assert np.mean(held) >= 0.95


def test_scores_without_any_spread_are_said_to_have_none():
    y = np.tile([0.0, 1.0], 20)
    skill = stats.skill_score(row_scores("brier", y, y), climatology("brier", y))
    assert "the rows show no spread" in str(skill)


def test_an_impossible_event_has_no_skill_at_all():
    p = np.where(np.arange(300) == Y.argmax(), 0.0, P)
    skill = stats.skill_score(row_scores("log", Y, p), climatology("log", Y), rule="log")
    assert skill.value == -math.inf
    assert tuple(skill.confidence_interval()) == (-math.inf, -math.inf)
    assert "it gave 0 to what happened" in str(skill)


def test_references_that_score_nothing_are_refused():
    with pytest.raises(InvalidInputError, match="all outcomes are the same"):
        stats.skill_score(row_scores("brier", np.ones(9), P[:9]), np.zeros(9))
    with pytest.raises(CalibrantError, match="at least 2 rows"):
        stats.skill_score(np.ones(1), np.ones(1))
    with pytest.raises(InvalidInputError, match="gave 0 to what happened"):
        stats.skill_score(np.ones(3), np.full(3, np.inf))
