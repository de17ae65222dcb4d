"""Rating grades: exact tests and limits, prudent PDs, and what they promise in simulations."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import stats
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidWeightsError

PD, N, D = [0.001, 0.01, 0.05], [800, 900, 300], [1, 21, 14]
TABLE = cb.BinTable.from_counts(PD, N, D)


def test_tests_and_limits_are_those_of_r():
    """R 4.2.2: pbinom(d - 1, n, pd, lower.tail = FALSE), pbeta(pd, d + .5, n - d + .5),
    qbeta(a / 2, d, n - d + 1) and qbeta(1 - a / 2, d + 1, n - d) with a = 1 - .95^(1/3)."""
    result = stats.grade_backtest(TABLE)
    binomial = [0.550850851389925, 0.000406168532282, 0.641711387845722]
    jeffreys = [0.340678226656552, 0.000255986982708, 0.589858334991245]
    np.testing.assert_allclose(result.p_binomial, binomial, rtol=1e-9)
    np.testing.assert_allclose(result.p_jeffreys, jeffreys, rtol=1e-9)
    np.testing.assert_allclose(
        result.low, [1.06403698257e-05, 1.29893093598e-02, 2.23842217221e-02], rtol=1e-9
    )
    np.testing.assert_allclose(
        result.high, [0.00850426022695, 0.03830747893249, 0.08426120563613], rtol=1e-9
    )
    np.testing.assert_allclose(result.p_adjusted, [1, 3 * binomial[1], 1], rtol=1e-9)
    assert result.light == ("green", "red", "green")


def test_correlated_tails_are_those_of_an_integral_over_the_factor():
    """R 4.2.2: integrate(function(y) dnorm(y) * pbinom(k, m, pnorm((qnorm(p) - sqrt(rho) * y) /
    sqrt(1 - rho))), -9, 9, rel.tol = 1e-11) with rho = .12; uniroot(..., tol = 1e-13) for PDs."""
    result = stats.grade_backtest(TABLE, correlation=0.12)
    np.testing.assert_allclose(
        result.p_binomial, [0.393068802960, 0.102762319325, 0.437994341767], rtol=1e-7
    )
    np.testing.assert_allclose(
        result.prudent_pd, [0.083458462538, 0.117283886250, 0.169545877185], rtol=1e-7
    )


def test_prudent_pds_are_those_of_the_published_examples():
    """Pluto and Tasche's portfolio of 100, 400 and 300 obligors without a default, where the
    limit is 1 - (1 - level)^(1 / n); and Windridge's of 9,810 with 35, whose answer is 3.34%."""
    for level in (0.5, 0.75, 0.9, 0.95, 0.99, 0.999):
        pds = stats.prudent_pds([100, 400, 300], [0, 0, 0], confidence_level=level)
        closed = [1 - (1 - level) ** (1 / n) for n in (800, 700, 300)]
        np.testing.assert_allclose(pds, closed, rtol=1e-12)
    assert stats.prudent_pds([9810], [35], correlation=0.15) == pytest.approx(0.0334, abs=5e-5)
    # probcal 0.4.0: pluto_tasche([800, 900, 300], [1, 21, 14], confidence=0.95)
    np.testing.assert_allclose(
        stats.prudent_pds(N, D), [0.0237016241822, 0.0384856713018, 0.0719940571463], rtol=1e-9
    )


@pytest.mark.parametrize("correlation", [1e-12, 1e-8, 1e-5])
def test_a_vanishing_correlation_is_independence(correlation):
    np.testing.assert_allclose(
        stats.prudent_pds(N, D, correlation=correlation), stats.prudent_pds(N, D), rtol=3e-3
    )


def test_prudent_pds_pool_worse_grades_and_reach_one():
    for correlation in (0.0, 0.2):
        pds = stats.prudent_pds([50, 40, 30], [0, 2, 3], correlation=correlation)
        assert (np.diff(pds) > 0).all()
        alone = stats.prudent_pds([70], [5], correlation=correlation)
        assert pds[1] == pytest.approx(alone[0], rel=1e-12)
        assert stats.prudent_pds([3], [3], correlation=correlation).tolist() == [1.0]


def test_the_portfolio_and_the_certificate_are_of_all_grades():
    result = stats.grade_backtest(TABLE)
    assert result.expected_defaults == pytest.approx(24.8)
    assert result.p_portfolio == pytest.approx(0.0196, abs=5e-5)
    assert result.certificate.upper_bound == cb.certify(TABLE).upper_bound
    assert result.certify(max_error=0.05).verdict == "certified"
    assert cb.certify(TABLE, levels=PD).upper_bound < result.certificate.upper_bound


def test_grades_without_rows_are_left_out_and_one_row_is_enough():
    table = cb.BinTable.from_counts([0.1, 0.2, 0.3], [0, 5, 0], [0, 1, 0])
    result = stats.grade_backtest(table, names=["A", "B", "C"])
    assert result.names == ("B",)
    alone = stats.grade_backtest(cb.BinTable.from_counts([0.0], [1], [1]))
    assert (alone.light, alone.p_binomial.tolist()) == (("red",), [0.0])


def test_a_scale_that_is_right_turns_amber_once_in_twenty():
    """And limits hold in all grades at once; 400 portfolios, so 0.05 is met within 0.03."""
    rng = np.random.default_rng(0)
    pd, n = np.array([0.002, 0.01, 0.03, 0.1, 0.25]), np.array([900, 700, 500, 300, 100])
    amber, outside = 0, 0
    for _ in range(400):
        result = stats.grade_backtest(cb.BinTable.from_counts(pd, n, rng.binomial(n, pd)))
        amber += set(result.light) != {"green"}
        outside += bool(((result.low > pd) | (result.high < pd)).any())
    assert amber / 400 <= 0.08
    assert outside / 400 <= 0.08


def test_tables_that_are_no_grades_are_refused():
    p, y, w = [0.1, 0.2], [0, 1], [1.0, 2.0]
    with pytest.raises(InvalidWeightsError, match="sample weights"):
        stats.grade_backtest(cb.tabulate(y, p, bins="distinct", sample_weight=w))
    with pytest.raises(InvalidArgumentError, match="one event"):
        stats.grade_backtest(cb.tabulate([0, 1, 2], np.eye(3), bins="distinct"))
    for names in (["A"], ["A", "A", "B"], "ABC", 3):
        with pytest.raises(InvalidArgumentError, match="a name for each of the 3 grades"):
            stats.grade_backtest(TABLE, names=names)
    for counts in (
        ([], []),
        ([1, 2], [0]),
        ([1, 0], [0, 0]),
        ([1.5], [0]),
        ([1], [2]),
        (["a"], [0]),
    ):
        with pytest.raises(CalibrantError):
            stats.prudent_pds(*counts)
