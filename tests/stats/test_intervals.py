"""Intervals: limits, limiting cases, and the bootstrap's two ways of drawing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import calibrant as cb
from calibrant.exceptions import NoSuchEstimatorError
from calibrant.stats.estimators import cells_of
from calibrant.stats.intervals import clopper_pearson, score_interval

RNG = np.random.default_rng(31)
LEVELS = RNG.integers(1, 10, size=1000) / 10
Y = RNG.uniform(size=1000) < LEVELS**1.5
ERROR = cb.calibration_error(Y, LEVELS, bins=cb.Distinct())


@pytest.mark.parametrize("norm", ["l1", "l2", "max", 3])
@pytest.mark.parametrize("method", ["auto", "box", "percentile", "basic"])
def test_intervals_are_ordered_probabilities(norm, method):
    result = cb.calibration_error(Y, LEVELS, bins=cb.Distinct(), norm=norm)
    interval = result.confidence_interval(0.9, method=method, rng=0)
    assert 0 <= interval.low <= interval.high <= 1
    assert interval.confidence_level == 0.9


def test_an_interval_unpacks_and_contains():
    interval = ERROR.confidence_interval()
    low, high = interval
    assert ERROR.value in interval
    assert low in interval
    assert high + 1e-9 not in interval
    assert str(interval) == f"[{low:.4f}, {high:.4f}] at 95%"


@pytest.mark.parametrize("method", ["auto", "box", "percentile"])
def test_higher_levels_give_wider_intervals(method):
    widths = []
    for level in (0.5, 0.8, 0.95, 0.99):
        low, high = ERROR.confidence_interval(level, method=method, rng=0)
        widths.append(high - low)
    assert widths == sorted(widths)


def test_the_sample_target_has_no_bin_mass_noise():
    population = ERROR.confidence_interval()
    sample = ERROR.confidence_interval(target="sample")
    assert sample.high - sample.low < population.high - population.low


def test_agreement_of_certain_predictions_is_no_proof_of_certainty():
    """Fifty events predicted with 1.0 that all happened: the rule of three is about 3.9 / n."""
    result = cb.calibration_error(np.ones(50), np.ones(50), bins=cb.Distinct())
    assert result.value == 0
    assert result.confidence_interval().high == pytest.approx(2 * 1.96 / 50, rel=1e-3)


def test_a_lucky_sample_does_not_get_an_interval_of_zero_width():
    y = np.tile([0, 1], 50)
    result = cb.calibration_error(y, np.full(100, 0.5), bins=cb.Distinct())
    assert result.squared < 0
    assert result.confidence_interval().high > 0.05


@pytest.mark.parametrize(
    ("y", "p", "reading"),
    [
        ([1], [0.5], {}),
        ([0, 1, 1], [0.1, 0.4, 0.8], {"bins": "distinct"}),
        ([2], [[0.2, 0.3, 0.5]], {"kind": "marginal"}),
        ([[1, 0, 1]], [[0.2, 0.3, 0.5]], {"kind": "multi-label"}),
        ([0.3], [[-1.6, 0.0, 1.6]], {"kind": "quantile", "classes": [0.05, 0.5, 0.95]}),
    ],
)
@pytest.mark.filterwarnings("ignore::calibrant.exceptions.UnresolvedWarning")
def test_rows_that_are_all_alone_say_nothing_of_the_error(y, p, reading):
    interval = cb.calibration_error(y, p, **reading).confidence_interval()
    assert (interval.low, interval.high) == (0, 1)


def test_certain_and_always_wrong_is_the_worst():
    result = cb.calibration_error(np.zeros(100), np.ones(100), bins=cb.Distinct())
    assert result.value == 1
    low, high = result.confidence_interval()
    assert low > 0.7
    assert high == 1


def test_two_columns_of_one_event_bound_like_one():
    """Classes that mirror each other are perfectly dependent, so a table's bound is attained."""
    two = np.column_stack([1 - LEVELS, LEVELS])
    table = cb.tabulate(Y, two, kind="marginal", bins=cb.Distinct())
    marginal = cb.stats.calibration_error(table)
    assert tuple(marginal.confidence_interval()) == pytest.approx(
        tuple(ERROR.confidence_interval())
    )
    assert marginal.noise_floor == pytest.approx(ERROR.noise_floor, rel=0.02)


def test_clopper_pearson_agrees_with_scipy():
    for k, n in [(0, 10), (3, 10), (10, 10), (1, 1000)]:
        low, high = clopper_pearson(np.array(float(k)), np.array(float(n)), 0.05)
        expected = stats.binomtest(k, n).proportion_ci(0.95, method="exact")
        assert (low, high) == pytest.approx((expected.low, expected.high), rel=1e-10)


def test_bootstrap_of_cells_and_of_rows_have_the_same_law():
    cells = ERROR.confidence_interval(method="percentile", rng=1, n_resamples=4000)
    rows = cb.calibration_error(
        Y, LEVELS + 1e-12 * RNG.uniform(size=1000), bins=ERROR.table.bins[0]
    )
    assert not rows.table.is_binned_model
    drawn = rows.confidence_interval(method="percentile", rng=2, n_resamples=4000)
    assert tuple(drawn) == pytest.approx(tuple(cells), abs=2.5e-3)


def test_basic_reflects_percentile_at_the_estimate():
    percentile = ERROR.confidence_interval(method="percentile", rng=5)
    basic = ERROR.confidence_interval(method="basic", rng=5)
    assert basic.low == pytest.approx(max(2 * ERROR.value - percentile.high, 0))
    assert basic.high == pytest.approx(max(2 * ERROR.value - percentile.low, 0))


def test_the_same_seed_draws_the_same_bootstrap():
    a, b = (ERROR.confidence_interval(method="percentile", rng=3) for _ in range(2))
    assert a == b
    assert ERROR.confidence_interval(method="percentile", rng=np.random.default_rng(3)) == a


def test_a_bootstrap_of_a_binned_model_needs_no_rows():
    from_table = cb.stats.calibration_error(ERROR.table)
    assert from_table.source is None
    assert from_table.confidence_interval(method="percentile", rng=3) == (
        ERROR.confidence_interval(method="percentile", rng=3)
    )


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_a_bootstrap_of_several_classes_resamples_rows(kind):
    probs = RNG.dirichlet(np.ones(3), size=200)
    y = RNG.integers(3, size=200)
    result = cb.calibration_error(y, probs, kind=kind, bins=5, debias=False)
    low, high = result.confidence_interval(method="percentile", rng=0, n_resamples=200)
    assert low < high
    table_only = cb.stats.calibration_error(result.table, debias=False)
    with pytest.raises(NoSuchEstimatorError, match="resamples rows; a table has none"):
        table_only.confidence_interval(method="percentile")


def test_weights_that_vary_widen_the_interval():
    w = RNG.exponential(size=1000) ** 2
    weighted = cb.calibration_error(Y, LEVELS, bins=cb.Distinct(), sample_weight=w)
    low, high = weighted.confidence_interval()
    plain_low, plain_high = ERROR.confidence_interval()
    assert high - low > plain_high - plain_low
    scaled = cb.calibration_error(Y, LEVELS, bins=cb.Distinct(), sample_weight=1e6 * w)
    assert tuple(scaled.confidence_interval()) == pytest.approx((low, high), rel=1e-9)


@pytest.mark.parametrize("n_bins", [2, 5])
def test_a_calibrated_model_is_missed_as_rarely_as_high_levels_say(n_bins):
    """Of normal tails the 99% interval of 5 bins missed 2.2% of calibrated models."""
    rng, missed, runs = np.random.default_rng(n_bins), 0, 2000
    outputs = (np.arange(n_bins) + 0.5) / n_bins
    size = np.full(n_bins, 100)
    for _ in range(runs):
        table = cb.BinTable.from_counts(outputs, size, rng.binomial(size, outputs))
        missed += score_interval(cells_of(table), np.ones(1), 0.99)[0] > 0
    assert missed / runs <= 0.01 + 3 * np.sqrt(0.01 / runs)
