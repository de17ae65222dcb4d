"""Tests of calibration: values by hand, exactness by enumeration, level and power by simulation."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from scipy import special, stats

from calibrant import Bins, BinTable, Distinct, EqualMass, EqualWidth
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    LengthMismatchError,
)
from calibrant.stats import CoxTestResult
from calibrant.stats.hypothesis_tests import calibration_test, statistics_of
from calibrant.stats.logistic import logistic_fit
from calibrant.stats.samples import Atoms, cumulative_differences, kuiper

LEVELS, SIZES, EVENTS = np.array([0.2, 0.5, 0.9]), np.array([5, 4, 6]), np.array([2, 1, 5])
P = np.repeat(LEVELS, SIZES)
Y = np.concatenate([np.arange(n) < k for n, k in zip(SIZES, EVENTS, strict=True)]).astype(float)
TEN_P = np.array([0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9])
TEN_Y = np.array([0, 0, 1, 0, 0, 1, 1, 0, 1, 1], float)
METHODS = ["exact", "adaptive", "l2", "hosmer-lemeshow", "kuiper", "spiegelhalter", "cox"]
MONTE_CARLO = METHODS[:5]


def near(value, within=1e-9):
    return pytest.approx(value, rel=0, abs=within)


def distorted(p, slope, rng):
    """Labels of a model whose true event rate has logit slope * logit(p)."""
    return (rng.uniform(size=p.shape) < special.expit(slope * special.logit(p))).astype(float)


def test_spiegelhalter_has_its_published_form():
    result = calibration_test(Y, P, "spiegelhalter")
    assert result.statistic == near(1.1557934875)
    assert result.pvalue == near(0.2477656, 5e-8)


def test_hosmer_lemeshow_sums_squared_gaps_over_variances():
    result = calibration_test(Y, P, "hosmer-lemeshow", bins=Distinct())
    assert result.statistic == near(2.5462962963)


def test_cox_fits_intercept_and_slope_and_compares_likelihoods():
    result = calibration_test(Y, P, "cox")
    assert (result.intercept, result.slope) == near((-0.0807806009, 0.5971988388))
    assert (result.intercept_error, result.slope_error) == near((0.5812657, 0.3841165), 5e-8)
    assert result.statistic == near(1.0331694106)
    assert result.pvalue == near(0.5965545, 5e-8)
    assert result.in_the_large == near(-0.1713135782)


def test_cox_agrees_with_the_logistic_fit_of_ten_rows():
    fit = logistic_fit(Atoms.of(TEN_Y, TEN_P))
    assert (fit.intercept, fit.slope) == near((0.1600780194, 1.372328567))
    assert -fit.log_likelihood / 10 == near(0.4948658220)


def test_cumulative_statistics_of_ten_rows():
    s = cumulative_differences(Atoms.of(TEN_Y, TEN_P))
    assert np.abs(s).max() == near(0.055)
    assert kuiper(s) == near(0.09)
    assert calibration_test(TEN_Y, TEN_P, "kuiper", n_resamples=9).statistic == near(0.09)


def debiased_square(events):
    d = events / SIZES - LEVELS
    within = SIZES * d**2 - LEVELS * (1 - LEVELS) - d * (1 - 2 * LEVELS)
    return float(np.sum(SIZES / 15 * within / (SIZES - 1)))


def chi_square(events):
    return float(np.sum((events - SIZES * LEVELS) ** 2 / (SIZES * LEVELS * (1 - LEVELS))))


def standardised_excess(events):
    """Each squared gap less its mean over its deviation, both from the binomial law itself."""
    terms = []
    for k, n, s in zip(events, SIZES, LEVELS, strict=True):
        squares, chance = (np.arange(n + 1) - n * s) ** 2, stats.binom.pmf(np.arange(n + 1), n, s)
        mean = squares @ chance
        terms.append(((k - n * s) ** 2 - mean) / math.sqrt(squares**2 @ chance - mean**2))
    return sum(terms) / math.sqrt(len(terms))


@pytest.mark.parametrize(
    ("method", "statistic", "value"),
    [
        ("exact", standardised_excess, -0.1397737094),
        ("l2", debiased_square, -0.016),
        ("hosmer-lemeshow", chi_square, 2.5462962963),
    ],
)
def test_binned_tests_estimate_the_p_value_of_full_enumeration(method, statistic, value):
    observed, exact = statistic(EVENTS), 0.0
    for events in itertools.product(*(range(n + 1) for n in SIZES)):
        if statistic(np.array(events)) >= observed - 1e-12:
            exact += np.prod(stats.binom.pmf(events, SIZES, LEVELS))
    result = calibration_test(Y, P, method, bins=Distinct(), n_resamples=99_999, rng=1)
    assert result.statistic == near(value) == near(observed)
    assert result.pvalue == near(exact, 3 * math.sqrt(exact * (1 - exact) / 1e5))


def test_kuiper_estimates_the_p_value_of_full_enumeration():
    atoms = Atoms.of(TEN_Y, TEN_P)
    labels = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
    chance = np.prod(np.where(labels == 1, TEN_P, 1 - TEN_P), axis=1)
    exact = chance[kuiper(cumulative_differences(atoms, labels)) >= 0.09 - 1e-12].sum()
    result = calibration_test(TEN_Y, TEN_P, "kuiper", n_resamples=99_999, rng=2)
    assert result.pvalue == near(exact, 3 * math.sqrt(exact * (1 - exact) / 1e5 + 1e-11))


def test_draws_by_counts_and_by_rows_give_the_same_test():
    """Predictions that differ by 1e-12 are drawn row by row, equal ones bin by bin."""
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=500) / 10
    y = distorted(p, 0.8, rng)
    apart = p + 1e-12 * rng.uniform(size=500)
    edges = Bins(np.concatenate([[0], np.arange(1, 9) / 10 + 0.05, [1]]))
    a = calibration_test(y, p, "exact", bins=edges, n_resamples=20_000, rng=1)
    b = calibration_test(y, apart, "exact", bins=edges, n_resamples=20_000, rng=2)
    assert a.statistic == near(b.statistic)
    assert a.pvalue == near(b.pvalue, 0.02)


def test_the_adaptive_test_looks_at_two_four_eight_and_more_bins():
    rng = np.random.default_rng(4)
    p = rng.uniform(size=100)
    atoms = Atoms.of(distorted(p, 1.0, rng), p)
    found = statistics_of(atoms, "adaptive", "auto")(atoms.events[None, :])[0]
    levels = [
        statistics_of(atoms, "exact", EqualWidth(2**level))(atoms.events[None, :])[0, 0]
        for level in range(1, 7)
    ]
    assert found == near(np.array(levels), 1e-14)


def test_the_l2_statistic_is_the_debiased_square_of_the_library():
    from calibrant import calibration_error

    rng = np.random.default_rng(5)
    p = rng.uniform(size=400)
    y = distorted(p, 0.5, rng)
    for bins in (7, EqualWidth(9), EqualMass(4), "auto"):
        result = calibration_test(y, p, "l2", bins=bins, n_resamples=9)
        assert result.statistic == near(calibration_error(y, p, bins=bins).squared, 1e-14)


@pytest.mark.parametrize("method", MONTE_CARLO)
def test_the_same_seed_gives_the_same_p_value(method):
    a, b = (calibration_test(Y, P, method, n_resamples=99, rng=3) for _ in range(2))
    assert a == b
    assert a.pvalue >= 1 / 100


@pytest.mark.parametrize("method", METHODS)
def test_results_are_one_line_and_turn_into_json(method):
    result = calibration_test(Y, P, method, n_resamples=99, rng=0)
    assert result.n == 15
    assert 0 <= result.pvalue <= 1
    assert str(result).startswith(f"{method}: statistic = ")
    assert "\n" not in repr(result)
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert document["pvalue"] == result.pvalue


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("y", "p"),
    [
        pytest.param([1.0], [0.7], id="one row"),
        pytest.param([0.0, 0.0, 0.0], [0.1, 0.2, 0.3], id="one class"),
        pytest.param([0.0, 1.0, 1.0, 0.0], [0.5, 0.5, 0.5, 0.5], id="all one half"),
        pytest.param([0.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], id="certain and right"),
        pytest.param([0.0, 1.0, 1.0, 1.0], [5e-324, 1 - 2**-53, 0.5, 0.3], id="next to certain"),
    ],
)
def test_degenerate_rows_give_a_p_value_that_does_not_refute(method, y, p):
    result = calibration_test(np.array(y), np.array(p), method, n_resamples=199, rng=0)
    assert result.pvalue > 0.05
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("method", ["exact", "adaptive", "hosmer-lemeshow", "spiegelhalter", "cox"])
def test_an_event_of_probability_zero_refutes_calibration(method):
    p = np.concatenate([np.zeros(20), np.full(20, 0.5)])
    y = np.concatenate([np.eye(20)[0], np.tile([0.0, 1.0], 10)])
    result = calibration_test(y, p, method, bins=Distinct())
    assert result.pvalue == 0 if method != "spiegelhalter" else result.pvalue < 1e-9
    if method != "spiegelhalter":
        assert result.statistic == math.inf
        assert result.to_dict()["statistic"] is None


def test_certain_and_right_rows_do_not_change_the_statistics():
    p, y = np.concatenate([P, [0, 0, 1]]), np.concatenate([Y, [0, 0, 1]])
    for method in ("exact", "hosmer-lemeshow", "cox"):
        with_them = calibration_test(y, p, method, bins=Distinct(), n_resamples=9, rng=0)
        without = calibration_test(Y, P, method, bins=Distinct(), n_resamples=9, rng=0)
        assert with_them.statistic == near(without.statistic, 1e-12)


@pytest.mark.parametrize("flip", [False, True])
def test_cox_says_when_a_threshold_separates_the_labels(flip):
    p = np.array([0.1, 0.2, 0.6, 0.7])
    y = np.array([0.0, 0.0, 1.0, 1.0])
    result = calibration_test(1 - y if flip else y, p, "cox")
    assert result.is_separated
    assert result.slope == (-math.inf if flip else math.inf)
    null = np.log(np.where((y == 1) ^ flip, p, 1 - p)).sum()
    assert result.statistic == near(-2 * null)
    assert result.pvalue == near(stats.chi2.sf(-2 * null, 2))
    assert tuple(result.confidence_interval()) == (-math.inf, math.inf)
    assert "separated" in str(result)
    assert math.isfinite(result.in_the_large)


def test_cox_of_labels_that_meet_in_one_point_has_the_supremum_of_the_likelihood():
    p = np.array([0.1, 0.4, 0.4, 0.4, 0.7])
    y = np.array([0.0, 0.0, 1.0, 1.0, 1.0])
    fit = logistic_fit(Atoms.of(y, p))
    assert fit.is_separated
    assert fit.log_likelihood == near(2 * math.log(2 / 3) + math.log(1 / 3))


def test_cox_of_one_distinct_prediction_has_one_degree_of_freedom():
    y = np.array([0.0, 1.0, 1.0, 1.0])
    result = calibration_test(y, np.full(4, 0.4), "cox")
    ratio = 2 * (3 * math.log(0.75 / 0.4) + math.log(0.25 / 0.6))
    assert result.statistic == near(ratio)
    assert result.pvalue == near(stats.chi2.sf(ratio, 1))
    assert result.in_the_large == near(special.logit(0.75) - special.logit(0.4))
    assert math.isnan(result.slope)


def test_the_newton_fit_cannot_diverge():
    """Rows at the ends of floating point, some of which contradict their predictions."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(3, 30))
        p = special.expit(rng.normal(scale=rng.choice([0.01, 1, 30, 300]), size=n))
        y = (rng.uniform(size=n) < rng.choice([0.1, 0.5])).astype(float)
        inside = (p > 0) & (p < 1)
        if not inside.any():
            continue
        atoms = Atoms.of(y[inside], p[inside])
        fit = logistic_fit(atoms)
        x = special.logit(atoms.p)
        if math.isfinite(fit.slope):
            rate = special.expit(fit.intercept + fit.slope * x)
            score = atoms.events - atoms.count * rate
            assert abs(score.sum()) < 1e-6
            assert abs(score @ x) < 1e-6 * max(1.0, np.abs(x).max())
        else:
            assert fit.is_separated or atoms.p.size == 1


def test_cox_intervals_are_wald_intervals():
    result = calibration_test(Y, P, "cox")
    assert isinstance(result, CoxTestResult)
    low, high = result.confidence_interval(0.9, of="slope")
    assert (low + high) / 2 == near(result.slope)
    assert (high - low) / 2 == near(special.ndtri(0.95) * result.slope_error)
    assert result.in_the_large in result.confidence_interval(of="in_the_large")
    with pytest.raises(InvalidArgumentError, match='of must be "intercept"'):
        result.confidence_interval(of="shape")


@pytest.mark.parametrize(
    ("y", "p", "error"),
    [
        ([0.0, 1.0], [0.5], LengthMismatchError),
        ([], [], EmptyInputError),
        ([0.0, 2.0], [0.5, 0.5], InvalidLabelsError),
        ([0.0, 1.0], [0.5, 1.5], InvalidProbabilitiesError),
        ([0.0, 1.0], [0.5, np.nan], InvalidProbabilitiesError),
    ],
)
def test_rows_that_are_not_events_and_probabilities_are_refused(y, p, error):
    with pytest.raises(error):
        calibration_test(np.array(y), np.array(p))


def test_unknown_options_are_refused():
    with pytest.raises(InvalidArgumentError, match='method must be "exact"'):
        calibration_test(Y, P, "t")
    with pytest.raises(InvalidArgumentError, match="n_resamples must be a whole number"):
        calibration_test(Y, P, n_resamples=0)
    with pytest.raises(InvalidArgumentError, match="bins must be"):
        calibration_test(Y, P, bins="many")


def rejections(method, n, slope, runs, seed, binned=False):
    """Shares of p-values at most .05 and .10."""
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(runs):
        p = rng.integers(1, 10, size=n) / 10 if binned else rng.beta(0.7, 1.3, size=n)
        y = distorted(p, slope, rng)
        values.append(calibration_test(y, p, method, n_resamples=199, rng=rng).pvalue)
    return np.mean(np.array(values)[:, None] <= [0.05, 0.10], axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("binned", [False, True])
@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("method", MONTE_CARLO)
def test_monte_carlo_tests_keep_their_level_at_any_n(method, n, binned):
    runs = 400 if n < 1000 else 200
    found = rejections(method, n, 1.0, runs, seed=n, binned=binned)
    for share, level in zip(found, (0.05, 0.10), strict=True):
        assert share <= level + 3 * math.sqrt(level * (1 - level) / runs)
        assert share >= level / 3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spiegelhalter", "cox"])
def test_tests_of_the_limit_keep_their_level_at_a_thousand_rows(method):
    found = rejections(method, 1000, 1.0, 800, seed=1)
    assert found == pytest.approx([0.05, 0.10], abs=0.025)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "least"),
    [
        ("exact", 0.90),
        ("adaptive", 0.90),
        ("l2", 0.75),
        ("hosmer-lemeshow", 0.90),
        ("kuiper", 0.85),
        ("spiegelhalter", 0.95),
        ("cox", 0.95),
    ],
)
def test_overconfidence_of_slope_seven_tenths_is_found_in_a_thousand_rows(method, least):
    assert rejections(method, 1000, 0.7, 120, seed=2)[0] >= least


@pytest.mark.slow
@pytest.mark.parametrize("method", MONTE_CARLO)
@pytest.mark.parametrize(
    "p",
    [
        pytest.param(special.betaincinv(0.5, 30, (np.arange(200) + 0.5) / 200), id="rare"),
        pytest.param(special.betaincinv(0.2, 0.2, (np.arange(200) + 0.5) / 200), id="confident"),
    ],
)
def test_rare_and_confident_predictions_are_not_rejected_too_often(method, p):
    """The chi-square law rejected 4% to 8% of such samples at a level of 1%."""
    rng, runs, level = np.random.default_rng(8), 600, 0.01
    values = [
        calibration_test(rng.uniform(size=p.size) < p, p, method, n_resamples=199, rng=rng).pvalue
        for _ in range(runs)
    ]
    assert np.mean(np.array(values) <= level) <= level + 3 * math.sqrt(level / runs)


@pytest.mark.slow
def test_the_default_finds_a_slope_of_eight_tenths_in_a_thousand_rows_twice_as_often_as_l2():
    default, l2 = (rejections(method, 1000, 0.8, 200, seed=3)[0] for method in ("exact", "l2"))
    assert default >= 0.6
    assert default >= 1.5 * l2


@pytest.mark.parametrize("method", ["exact", "adaptive", "hosmer-lemeshow"])
def test_one_event_where_nearly_none_was_possible_refutes_calibration(method):
    p = np.concatenate([np.full(50, 1e-12), np.full(50, 0.5)])
    y = np.concatenate([np.eye(50)[0], np.tile([0.0, 1.0], 25)])
    result = calibration_test(y, p, method, n_resamples=999, rng=0)
    assert result.pvalue <= (0.01 if method == "adaptive" else 0.001)


def test_the_adaptive_test_takes_a_table_of_any_number_of_rows():
    size = 5 * 10**11
    table = BinTable.from_counts([0.25, 0.7], [size, size], [size // 4, round(0.7 * size) + 10**7])
    assert calibration_test(table, method="adaptive", n_resamples=99, rng=0).pvalue == 0.01


def test_bins_of_the_adaptive_test_hold_their_upper_edge():
    p = np.array([0.0, 5e-324, 0.125, 0.25, np.nextafter(0.25, 1), 0.75, 1.0])
    atoms = Atoms.of(np.zeros(8), np.append(p, 0.3))
    found = statistics_of(atoms, "adaptive", "auto")(atoms.events[None, :])[0]
    alone = [
        statistics_of(atoms, "exact", EqualWidth(2**k))(atoms.events[None, :])[0, 0]
        for k in (1, 2, 3)
    ]
    np.testing.assert_allclose(found, alone)
