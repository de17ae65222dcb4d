"""Limits of coverage and the PIT histogram: exact counts, known truth, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as scipy_stats

import calibrant
from calibrant import stats
from calibrant.exceptions import InvalidArgumentError, InvalidWeightsError
from calibrant.stats.proofs import bounds_of
from calibrant.stats.questions import Question

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def counted(n, n_levels=5, seed=0, spread=1.0):
    """Return the table of normal outcomes and quantiles of this spread."""
    levels = LEVELS if n_levels == 5 else np.arange(1, n_levels + 1) / (n_levels + 1)
    y = np.random.default_rng(seed).normal(size=n)
    q = calibrant.normal_quantiles(np.zeros(n), spread, levels)
    return calibrant.tabulate(y, q, kind="quantile", classes=levels), y, q


def test_each_limit_by_itself_is_that_of_clopper_and_pearson():
    table, y, q = counted(700)
    result = stats.certify_coverage(table, simultaneous=False)
    for k, level in enumerate(LEVELS):
        k_covered = int((y <= q[:, k]).sum())
        exact = scipy_stats.binomtest(k_covered, 700).proportion_ci(0.95, "exact")
        assert (result.low[k], result.high[k]) == pytest.approx((exact.low, exact.high), rel=1e-9)
        assert (result.level[k], result.covered[k]) == (level, k_covered / 700)
    inside = int(((y > q[:, 0]) & (y <= q[:, 4])).sum())
    exact = scipy_stats.binomtest(inside, 700).proportion_ci(0.95, "exact")
    assert result.interval_level == pytest.approx([0.9, 0.5])
    limits = (result.interval_low[0], result.interval_high[0])
    assert limits == pytest.approx((exact.low, exact.high), rel=1e-9)


def test_all_limits_at_once_share_the_error_probability_among_levels_and_intervals():
    table, y, q = counted(700)
    result = stats.certify_coverage(table)
    exact = scipy_stats.binomtest(int((y <= q[:, 1]).sum()), 700)
    each = exact.proportion_ci(1 - 0.05 / 7, "exact")
    assert (result.low[1], result.high[1]) == pytest.approx((each.low, each.high), rel=1e-9)


@pytest.mark.parametrize(("n_levels", "spread"), [(5, 1.0), (5, 0.6), (39, 1.0), (39, 1.5)])
def test_limits_of_all_levels_hold_at_once_as_often_as_they_say(n_levels, spread):
    truth_at = LEVELS if n_levels == 5 else np.arange(1, n_levels + 1) / (n_levels + 1)
    truth = scipy_stats.norm.cdf(spread * scipy_stats.norm.ppf(truth_at))
    missed = 0
    for seed in range(150):
        result = stats.certify_coverage(counted(200, n_levels, seed, spread)[0])
        inside = truth[::-1][: len(result.interval_level)] - truth[: len(result.interval_level)]
        fine = (result.low <= truth) & (truth <= result.high)
        within = (result.interval_low <= inside) & (inside <= result.interval_high)
        missed += not (fine.all() and within.all())
    assert missed <= 150 * 0.05 + 3 * np.sqrt(150 * 0.05 * 0.95)


def test_cells_of_calibrated_quantiles_leave_the_band_as_often_as_it_says():
    beyond = [
        stats.pit_histogram(counted(400, 9, seed)[0]).beyond_chance.any() for seed in range(150)
    ]
    assert np.mean(beyond) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)
    assert stats.pit_histogram(counted(2000, 9, 0, 0.7)[0]).beyond_chance.sum() >= 6


def test_the_histogram_adds_up_and_is_that_of_numpy():
    table, y, _ = counted(500, 9)
    cells = stats.pit_histogram(table)
    expected = np.histogram(scipy_stats.norm.cdf(y), np.linspace(0, 1, 11))[0]
    np.testing.assert_array_equal(cells.count, expected)
    assert cells.count.sum() == 500
    assert cells.density @ (cells.right - cells.left) == pytest.approx(1)


def test_groups_share_the_error_probability():
    _, y, q = counted(700)
    by = {"site": np.where(np.arange(700) < 300, "a", "b")}
    groups = calibrant.certify_coverage(y, q, classes=LEVELS, by=by)
    exact = scipy_stats.binomtest(int((y[:300] <= q[:300, 1]).sum()), 300)
    each = exact.proportion_ci(1 - 0.05 / 2 / 7, "exact")
    own = groups["a"]
    assert (own.low[1], own.high[1]) == pytest.approx((each.low, each.high), rel=1e-9)
    assert (own.n, own.n_groups, own.confidence_level) == (300, 2, 0.95)
    assert str(groups).endswith("all limits of 2 groups at once at 95%")
    tables = calibrant.tabulate(y, q, kind="quantile", classes=LEVELS, by=by)
    assert str(calibrant.certify_coverage(tables)) == str(groups)
    alone = calibrant.certify_coverage(y, q, classes=LEVELS, by=by, simultaneous=False)
    expected = calibrant.certify_coverage(y[300:], q[300:], classes=LEVELS, simultaneous=False)
    assert (alone["b"].low == expected.low).all()
    assert "each limit by itself" in str(alone)
    with pytest.raises(InvalidArgumentError):
        calibrant.certify_coverage(y, q, classes=LEVELS, by=by, confidence_level=2)


def test_the_group_that_covers_least_is_the_worst():
    _, y, q = counted(2000)
    site = np.repeat(["good", "narrow", "wide"], [800, 800, 400])
    q = q * np.where(site == "narrow", 0.5, np.where(site == "wide", 1.3, 1.0))[:, None]
    groups = calibrant.certify_coverage(y, q, classes=LEVELS, by=site)
    assert groups.worst[0] == "narrow"
    assert (groups["narrow"].miss > 0).sum() == 4
    assert not groups["good"].miss.any()
    assert groups.to_dict()["groups"][0]["group"] == ["narrow"]


def test_limits_of_all_groups_hold_at_once_as_often_as_they_say():
    missed, site = 0, np.arange(300) % 6
    for seed in range(150):
        _, y, q = counted(300, seed=seed)
        groups = calibrant.certify_coverage(y, q, classes=LEVELS, by=site)
        missed += any(result.miss.any() for result in groups.values())
    assert missed <= 150 * 0.05 + 3 * np.sqrt(150 * 0.05 * 0.95)


def test_a_table_of_a_certificate_tells_the_coverage_of_every_level():
    _, y, q = counted(900)
    certificate = calibrant.certify(
        y, q, kind="quantile", classes=LEVELS, max_error=0.1, norm="max"
    )
    assert certificate.verdict == "certified"
    again = calibrant.Certificate.from_json(certificate.to_json()).table
    assert str(calibrant.certify_coverage(again)) == str(
        calibrant.certify_coverage(y, q, classes=LEVELS)
    )


def test_a_table_tells_how_levels_depend_as_the_rows_do():
    table, y, q = counted(600)
    for norm in ("l1", "l2"):
        given = {"kind": "quantile", "classes": LEVELS, "sample_weight": np.full(600, 2.0)}
        rows = calibrant.calibration_error(y, q, norm=norm, **given)  # weights: the rows are read
        alone = calibrant.calibration_error(table, norm=norm)
        assert [*alone.confidence_interval()] == pytest.approx([*rows.confidence_interval()])
        assert alone.confidence_interval().notes == ()


def test_other_tables_and_weights_are_refused():
    with pytest.raises(InvalidArgumentError, match='kind="binary"'):
        stats.certify_coverage(calibrant.tabulate([0, 1], [0.2, 0.7]))
    _, y, q = counted(50)
    table = calibrant.tabulate(
        y, q, kind="quantile", classes=LEVELS, sample_weight=np.arange(1, 51)
    )
    with pytest.raises(InvalidWeightsError, match="count alike"):
        stats.pit_histogram(table)


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
@pytest.mark.parametrize(("n_levels", "spread"), [(5, 1.0), (5, 0.7), (39, 1.0), (39, 0.7)])
def test_certificates_of_levels_hold_as_often_as_they_say(n_levels, spread, norm):
    at = np.array(LEVELS) if n_levels == 5 else np.arange(1, n_levels + 1) / (n_levels + 1)
    off = np.abs(scipy_stats.norm.cdf(spread * scipy_stats.norm.ppf(at)) - at)
    truth = {"l1": off.mean(), "l2": np.sqrt(np.mean(off**2)), "max": off.max()}[norm]
    bounds = []
    for seed in range(60):
        table = counted(300, n_levels, seed, spread)[0]
        question = Question.of(table, norm=norm)
        bounds.append(bounds_of(table, question)[:2])
    upper, lower = np.transpose(bounds)
    most = 60 * 0.05 + 3 * np.sqrt(60 * 0.05 * 0.95)
    assert max((upper < truth).sum(), (lower > truth).sum()) <= most
    assert np.all(lower <= upper)


def test_limits_of_one_row_of_each_cluster_hold_where_those_of_all_rows_do_not():
    rng, shops = np.random.default_rng(8), np.repeat(np.arange(100), 10)
    levels = np.array([0.05, 0.5, 0.95])
    q = calibrant.normal_quantiles(np.zeros(1000), 1.0, levels)
    options = {"kind": "quantile", "classes": levels, "cluster": shops, "draws": 1}
    held = np.zeros(2)
    for _ in range(60):
        y = 0.9 * np.repeat(rng.normal(size=100), 10) + np.sqrt(0.19) * rng.normal(size=1000)
        drawn = calibrant.certify_coverage(calibrant.certify(y, q, **options).table)
        found = drawn, calibrant.certify_coverage(y, q, classes=levels)
        held += [np.all((one.low <= levels) & (levels <= one.high)) for one in found]
    assert drawn.n == 100
    assert held[0] >= 60 * 0.95 - 3 * np.sqrt(60 * 0.05 * 0.95)
    assert held[1] < 60 * 0.8
