"""Mean scores, decompositions that add up, and skill: formulas, intervals, what these promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from scipy import special

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import CalibrantError, InvalidInputError
from calibrant.stats import MeanScore
from calibrant.stats.scores import row_scores

RNG = np.random.default_rng(8)
P = RNG.uniform(size=800)
Y = RNG.uniform(size=800) < P**1.5


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("bins", [1, 10, "distinct"])
def test_the_parts_of_the_brier_score_add_up(bins, debias):
    parts = cb.brier_decomposition(Y, P, bins=bins, debias=debias)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert total == pytest.approx(parts.value, abs=1e-14)
    assert float(parts) == pytest.approx(np.mean((Y - P) ** 2), abs=1e-12)
    assert (parts.rule, parts.is_debiased) == ("brier", debias)


def test_miscalibration_is_the_squared_error_of_the_same_bins():
    parts = cb.brier_decomposition(Y, P, bins=10, debias=True)
    assert parts.miscalibration == cb.calibration_error(Y, P, bins=10).squared


def test_scores_of_one_rule_compare_and_those_of_two_do_not():
    curve = cb.stats.isotonic_curve(cb.tabulate(Y, P, bins="distinct"))
    worse = cb.brier_decomposition(Y, P**3)
    assert curve.brier < worse
    with pytest.raises(cb.exceptions.InvalidArgumentError, match="brier score and log score"):
        assert curve.brier < curve.log


def test_limits_are_where_the_transformed_t_has_students_quantiles():
    """Hall's transformation, written as he did: T + c T^2 / 3 + c^2 T^3 / 27 + c / 6."""
    scores = np.random.default_rng(0).exponential(size=40)
    score = MeanScore.of("score", scores)
    skewness = np.mean((scores - scores.mean()) ** 3) / scores.std() ** 3
    assert score.skewness == pytest.approx(skewness / np.sqrt(40))
    quantile = special.stdtrit(39, 0.95)
    for limit, t in zip(score.confidence_interval(0.9), (quantile, -quantile), strict=True):
        c, x = score.skewness, (score.value - limit) / score.standard_error
        assert x + c * x**2 / 3 + c**2 * x**3 / 27 + c / 6 == pytest.approx(t)


def test_symmetric_scores_have_students_limits_and_any_level_holds_the_mean():
    low, high = MeanScore.of("score", np.arange(9.0)).confidence_interval()
    assert (low + high) / 2 == pytest.approx(4)
    assert high - 4 == pytest.approx(special.stdtrit(8, 0.975) * np.std(range(9), ddof=1) / 3)
    skewed = MeanScore.of("score", np.array([0.0, 0, 0, 0, 1]))
    assert skewed.value in skewed.confidence_interval(0.01)


def test_weights_scale_and_repeat():
    rng = np.random.default_rng(1)
    scores, weights = rng.gamma(1.0, size=60), rng.integers(0, 3, size=60)
    a, b = (MeanScore.of("score", scores, weights * k) for k in (1.0, 7.0))
    assert a.skewness == pytest.approx(b.skewness)
    assert tuple(a.confidence_interval()) == pytest.approx(tuple(b.confidence_interval()))


def test_rare_losses_are_not_covered_by_students_limits_and_are_now():
    """One row in twenty costs something: Student's 95% limits hold in 0.90 of samples."""
    rng, held, students = np.random.default_rng(2), 0, 0
    for _ in range(1000):
        score = MeanScore.of("score", (rng.uniform(size=150) < 0.05) * rng.exponential(size=150))
        held += 0.05 in score.confidence_interval()
        students += abs(score.value - 0.05) <= 1.976 * score.standard_error
    assert students / 1000 < 0.925
    assert held / 1000 >= 0.935


def test_few_rows_are_announced():
    rng = np.random.default_rng(3)
    y = rng.normal(size=300)
    assert not cb.crps(y, mean=np.zeros(300), std=1.0).confidence_interval().notes
    y[0] = 100.0
    score = cb.crps(y, mean=np.zeros(300), std=1.0)
    assert score.confidence_interval().notes == (
        "about 1 row decides it: the interval may be too short",
    )
    assert "about 1 row decides it" in str(score)
    tails = cb.normal_quantiles(np.zeros(300), 1.0, (0.01, 0.99))
    (note,) = (
        cb.pinball_loss(rng.normal(size=300) / 3, tails, classes=(0.01, 0.99))
        .confidence_interval()
        .notes
    )
    assert note.startswith("about 6 rows")  # expected beyond the two levels, though none was seen


SKILL_RNG = np.random.default_rng(0)
FORECAST = SKILL_RNG.uniform(0.01, 0.99, size=300)
OUTCOME = (SKILL_RNG.uniform(size=300) < FORECAST).astype(float)


def climatology(rule, y):
    return row_scores(rule, y, np.full(y.size, y.mean()))


def test_fieller_is_where_student_just_accepts_the_skill():
    own, other = row_scores("brier", OUTCOME, FORECAST), row_scores("brier", OUTCOME, FORECAST**2)
    low, high = stats.skill_score(own, other).confidence_interval(0.9)
    for end in (low, high):
        d = own - (1 - end) * other
        t = d.mean() / (d.std(ddof=1) / math.sqrt(d.size))
        assert abs(t) == pytest.approx(1.649966, rel=1e-5)  # R: qt(.95, 299)


def test_equal_weights_change_nothing_and_clusters_of_one_row_neither():
    own, other = row_scores("log", OUTCOME, FORECAST), climatology("log", OUTCOME)
    plain = stats.skill_score(own, other).confidence_interval()
    weighted = stats.skill_score(own, other, weights=np.full(300, 7.0)).confidence_interval()
    alone = stats.skill_score(own, other, clusters=SKILL_RNG.permutation(300)).confidence_interval()
    assert tuple(weighted) == pytest.approx(tuple(plain), rel=1e-9)
    assert tuple(alone) == pytest.approx(tuple(plain), rel=1e-9)


def test_repeated_rows_in_clusters_are_one_row():
    own, other = row_scores("brier", OUTCOME, FORECAST), climatology("brier", OUTCOME)
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
    skill = stats.skill_score(row_scores("brier", y, FORECAST[:40] / 9), climatology("brier", y))
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
    p = np.where(np.arange(300) == OUTCOME.argmax(), 0.0, FORECAST)
    skill = stats.skill_score(
        row_scores("log", OUTCOME, p), climatology("log", OUTCOME), rule="log"
    )
    assert skill.value == -math.inf
    assert tuple(skill.confidence_interval()) == (-math.inf, -math.inf)
    assert "it gave 0 to what happened" in str(skill)


def test_references_that_score_nothing_are_refused():
    with pytest.raises(InvalidInputError, match="all outcomes are the same"):
        stats.skill_score(row_scores("brier", np.ones(9), FORECAST[:9]), np.zeros(9))
    with pytest.raises(CalibrantError, match="at least 2 rows"):
        stats.skill_score(np.ones(1), np.ones(1))
    with pytest.raises(InvalidInputError, match="gave 0 to what happened"):
        stats.skill_score(np.ones(3), np.full(3, np.inf))
