"""Mean scores: intervals without their skewness; decompositions that add up and read as the score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import calibrant as cb
from calibrant.stats import MeanScore

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
