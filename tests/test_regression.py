"""Scores of forecasts, and quantiles of normal forecasts and of samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as scipy_stats
from sklearn.metrics import mean_pinball_loss

import calibrant
from calibrant.exceptions import (
    CalibrantError,
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    InvalidWeightsError,
    NotFiniteError,
)

rng = np.random.default_rng(5)
N, LEVELS = 200, (0.1, 0.5, 0.9)
MEAN, STD = rng.normal(size=N), rng.uniform(0.5, 2, size=N)
Y = MEAN + STD * rng.normal(size=N)
Q = calibrant.normal_quantiles(MEAN, STD, LEVELS)
WEIGHTS = rng.uniform(0, 2, size=N)
MASKED = np.ma.array(STD, mask=np.arange(N) < 3)


def test_the_pinball_loss_of_each_level_is_that_of_scikit_learn():
    for weights in (None, WEIGHTS):
        score = calibrant.pinball_loss(Y, Q, classes=LEVELS, sample_weight=weights)
        for k, level in enumerate(LEVELS):
            expected = mean_pinball_loss(Y, Q[:, k], alpha=level, sample_weight=weights)
            assert score.per_level[level] == pytest.approx(expected, rel=1e-12)
        assert float(score) == pytest.approx(np.mean(list(score.per_level.values())))
        expected = np.average(Q[:, 2] - Q[:, 0], weights=weights)
        assert score.sharpness[0.8] == pytest.approx(expected)


def test_the_standard_error_of_a_score_is_that_of_a_mean():
    score = calibrant.crps(Y, mean=MEAN, std=STD)
    rows = [float(calibrant.crps([y], mean=m, std=s)) for y, m, s in zip(Y, MEAN, STD, strict=True)]
    assert score.standard_error == pytest.approx(np.std(rows, ddof=1) / np.sqrt(N))
    low, high = replace(score, skewness=0.0).confidence_interval(0.9)
    expected = scipy_stats.t.interval(0.9, N - 1, np.mean(rows), score.standard_error)
    assert (low, high) == pytest.approx(expected)


def test_the_ranked_probability_score_is_its_definition_and_a_mean_brier_score():
    probs = rng.dirichlet(np.ones(4), size=N)
    y = rng.integers(4, size=N)
    up_to = probs.cumsum(axis=1)[:, :3]
    rows = ((up_to - (y[:, None] <= np.arange(3))) ** 2).sum(axis=1)
    score = calibrant.ranked_probability_score(y, probs)
    assert float(score) == pytest.approx(rows.mean())
    parts = calibrant.brier_decomposition(y, probs, kind="ordinal")
    assert float(parts) == pytest.approx(float(score) / 3)
    weighted = calibrant.ranked_probability_score(y, probs, sample_weight=WEIGHTS)
    assert float(weighted) == pytest.approx(np.average(rows, weights=WEIGHTS))
    perfect = calibrant.ranked_probability_score([0, 2], [[1, 0, 0], [0, 0, 1]])
    assert float(perfect) == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: calibrant.sample_quantiles(Q, [0.01, 0.5]), InvalidArgumentError, "0.25 to 0.75"),
        (lambda: calibrant.sample_quantiles([1.0, 2.0], [0.5]), InvalidInputError, "side by side"),
        (lambda: calibrant.normal_quantiles(0.0, 0.0, [0.5]), InvalidInputError, r"std\[0\] = 0"),
        (lambda: calibrant.normal_quantiles(0.0, 1.0, [50]), InvalidArgumentError, "0.9 for 90%"),
        (lambda: calibrant.normal_quantiles([0, 1], [1, 1, 1], [0.5]), CalibrantError, "per row"),
        (lambda: calibrant.crps(Y), InvalidArgumentError, "neither"),
        (lambda: calibrant.crps(Y, mean=MEAN), InvalidArgumentError, "got mean=."),
        (lambda: calibrant.crps(Y, mean=MEAN, samples=Q), InvalidArgumentError,
         "got mean= and samples="),
        (lambda: calibrant.crps(Y, mean=MEAN[:5], std=1.0), CalibrantError, "per row"),
        (lambda: calibrant.pinball_loss([1.0], [[-np.inf, 0.0]], classes=(0.1, 0.5)),
         InvalidInputError, r"y_prob\[0, 0\] = -inf"),
        (lambda: calibrant.crps([], mean=0.0, std=1.0), EmptyInputError, "no rows"),
        (lambda: calibrant.crps(Y, mean=MEAN, std=1.0, sample_weight=0 * Y),
         InvalidWeightsError, "zero on every row"),
        (lambda: calibrant.pinball_loss(Y, Q, classes=LEVELS, sample_weight=0 * Y),
         InvalidWeightsError, "zero on every row"),
        (lambda: calibrant.crps(Y, mean=MASKED, std=1.0), NotFiniteError, "mean must not be masked"),
        (lambda: calibrant.normal_quantiles(0.0, MASKED, [0.5]), NotFiniteError, "std must not be"),
        (lambda: calibrant.normal_quantiles(Q, 1.0, [0.5]), InvalidShapeError, "one column"),
        (lambda: calibrant.crps(Q, mean=0.0, std=1.0), InvalidShapeError, "one outcome at a time"),
        (lambda: calibrant.pinball_loss(Y, Q[:, ::-1], classes=LEVELS),
         InvalidProbabilitiesError, "in 200 of 200 rows they do"),
        (lambda: calibrant.pinball_loss([1e308] * 2, [[-1e308]] * 2, classes=[0.5]),
         InvalidInputError, "larger unit"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(call, error, message):
    with np.errstate(over="ignore"), pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_levels_of_short_floats_are_the_decimals_that_were_meant(dtype):
    levels = (0.05, 0.25, 0.75, 0.95)
    q = calibrant.normal_quantiles(MEAN, STD, levels)
    expected = calibrant.certify_coverage(Y, q, classes=levels)
    for given in (np.array(levels, dtype), [dtype(level) for level in levels]):
        found = calibrant.certify_coverage(Y, q, classes=given)
        assert str(found) == str(expected)
        assert found.level.tolist() == list(levels)
        np.testing.assert_array_equal(calibrant.normal_quantiles(MEAN, STD, given), q)
        score = calibrant.pinball_loss(Y, q, classes=given)
        assert list(score.sharpness) == [0.9, 0.5]
    assert expected.interval_level.tolist() == [0.9, 0.5]


def test_one_row_has_a_score_and_no_standard_error():
    score = calibrant.pinball_loss([1.0], [[0.0, 2.0]], classes=(0.1, 0.9))
    assert np.isnan(score.standard_error)
    assert score.to_dict()["standard_error"] is None


def test_scores_read_frames_and_files(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"y": Y, "w": WEIGHTS} | {f"q_{k}": Q[:, k] for k in range(3)}
    expected = calibrant.pinball_loss(Y, Q, classes=LEVELS, sample_weight=WEIGHTS)
    pd.DataFrame(columns).to_parquet(tmp_path / "rows.parquet")
    homes = [columns, pd.DataFrame(columns), pl.LazyFrame(columns), str(tmp_path / "rows.parquet")]
    for data in homes:
        score = calibrant.pinball_loss("y", "q_*", classes=LEVELS, sample_weight="w", data=data)
        assert float(score) == pytest.approx(float(expected), rel=1e-12)
        cells = calibrant.pit_histogram("y", "q_*", classes=LEVELS, data=data)
        assert cells.n == N


def clustered(rng, n_clusters=60, size=8, share=0.9):
    """Return outcomes that share most of their variance in clusters, quantiles, and clusters."""
    common = np.repeat(rng.normal(size=n_clusters), size)
    y = np.sqrt(share) * common + np.sqrt(1 - share) * rng.normal(size=n_clusters * size)
    q = calibrant.normal_quantiles(np.zeros(y.size), 1.0, LEVELS)
    return y, q, np.repeat(np.arange(n_clusters), size)


def test_of_clusters_the_row_is_covered_that_certify_draws():
    y, q, cluster = clustered(np.random.default_rng(0))
    found = calibrant.certify_coverage(y, q, classes=LEVELS, cluster=cluster)
    drawn = calibrant.certify(y, q, kind="quantile", classes=LEVELS, cluster=cluster, draws=1)
    np.testing.assert_array_equal(found.table.sum_y, drawn.table.sum_y)
    np.testing.assert_array_equal(found.low, calibrant.certify_coverage(drawn.table).low)
    assert (found.n, found.draws) == (60, 1)
    assert "random row of a random cluster" in found.assumptions[-1]
    assert str(found).endswith("at 95%, a random row of each cluster, n = 60")
    again = calibrant.certify_coverage(y, q, classes=LEVELS, cluster=False)
    assert (again.n, again.draws, len(again.assumptions)) == (480, None, 2)


def test_of_clusters_in_groups_one_row_is_drawn_in_each_group():
    y, q, cluster = clustered(np.random.default_rng(1))
    half = cluster < 20
    groups = calibrant.certify_coverage(y, q, classes=LEVELS, cluster=cluster, by=half)
    assert {key: (own.n, own.n_groups, own.draws) for key, own in groups.items()} == {
        False: (40, 2, 1), True: (20, 2, 1)
    }  # fmt: skip
    assert "a random row of each cluster" in str(groups)
    columns = {"y": y, "shop": cluster} | {f"q{k}": column for k, column in enumerate(q.T)}
    named = calibrant.certify_coverage("y", "q*", classes=LEVELS, data=columns, cluster="shop")
    np.testing.assert_array_equal(
        named.low, calibrant.certify_coverage(y, q, classes=LEVELS, cluster=cluster).low
    )
    with pytest.raises(CalibrantError):
        calibrant.certify_coverage(named.table, cluster=cluster)


@pytest.mark.slow
def test_limits_of_clusters_hold_as_often_as_they_say_and_those_of_their_rows_do_not():
    rng, runs = np.random.default_rng(2), 300
    held = np.zeros(2)
    for _ in range(runs):
        y, q, cluster = clustered(rng)
        for i, given in enumerate((cluster, None)):
            found = calibrant.certify_coverage(y, q, classes=LEVELS, cluster=given)
            inside = (found.interval_low <= 0.8) & (found.interval_high >= 0.8)
            held[i] += not found.miss.any() and inside.all()
    assert held[0] >= runs * 0.95 - 3 * np.sqrt(runs * 0.05 * 0.95)
    assert held[1] < runs / 2
