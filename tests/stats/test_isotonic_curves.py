"""The isotonic curve, its decomposition with intervals for the parts, and consistency limits."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from scipy import stats as scipy_stats
from sklearn.isotonic import isotonic_regression
from sklearn.metrics import brier_score_loss, log_loss

import calibrant as cb
from calibrant import Distinct, EqualWidth, exceptions, stats, tabulate
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidWeightsError
from calibrant.stats import consistency_limits, isotonic_curve

Z = [0.1, 0.2, 0.3, 0.35, 0.4, 0.5, 0.6, 0.65, 0.8, 0.9]
Y = [0, 0, 1, 0, 0, 1, 1, 0, 1, 1]


def three_levels():
    """Levels .2, .5, .9 with 5, 4, 6 rows and 2, 1, 5 events."""
    p = np.repeat([0.2, 0.5, 0.9], [5, 4, 6])
    y = np.concatenate([[1, 1, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1, 1, 0]])
    return y, p


def random_rows(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 1.2, size=n)
    return (rng.uniform(size=n) < p**1.5).astype(int), p


def test_the_three_level_example_has_its_known_parts():
    y, p = three_levels()
    curve = isotonic_curve(tabulate(y, p, bins=Distinct()))
    np.testing.assert_allclose(curve.event_rate, [1 / 3, 1 / 3, 5 / 6], rtol=1e-12)
    # exact fractions: 0.0284444444, 0.06 and 0.2488888889
    expected = (0.2173333333333333, 0.64 / 22.5, 0.06, 0.56 / 2.25)
    parts = curve.brier
    found = (parts.value, parts.miscalibration, parts.discrimination, parts.uncertainty)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_ten_row_example_has_its_known_parts():
    curve = isotonic_curve(tabulate(Y, Z, bins=Distinct()))
    brier, log = curve.brier, curve.log
    np.testing.assert_allclose(
        (brier.miscalibration, brier.discrimination, brier.uncertainty, brier.value),
        (0.0371666666667, 0.1166666666667, 0.25, 0.1705),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        (log.miscalibration, log.discrimination, log.uncertainty),
        (0.12372994, 0.31123868, 0.69314718),
        atol=5e-9,
    )
    assert log.value == pytest.approx(0.5056384407, abs=1e-9)
    best = 0.6 * (np.log(3) / 3 + 2 / 3 * np.log(3 / 2))  # six rows at 1/3 or 2/3, four certain
    assert log.discrimination == pytest.approx(np.log(2) - best, abs=1e-12)
    assert log.miscalibration == pytest.approx(log_loss(Y, Z) - best, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_curve_and_scores_agree_with_scikit_learn(seed):
    y, p = random_rows(500, seed)
    p = np.round(p, 2 + seed % 2).clip(0.01, 0.99)
    curve = isotonic_curve(tabulate(y, p, bins=Distinct()))
    levels, which, count = np.unique(p, return_inverse=True, return_counts=True)
    rate = np.bincount(which, weights=y) / count
    fitted = isotonic_regression(rate, sample_weight=count)
    np.testing.assert_array_equal(curve.prediction, levels)
    np.testing.assert_array_equal(curve.count, count)
    np.testing.assert_allclose(curve.event_rate, fitted, atol=1e-12)
    assert curve.brier.value == pytest.approx(brier_score_loss(y, p), abs=1e-12)
    assert curve.log.value == pytest.approx(log_loss(y, p), abs=1e-12)
    best = fitted[which]
    assert curve.brier.miscalibration == pytest.approx(
        brier_score_loss(y, p) - brier_score_loss(y, best), abs=1e-12
    )


@pytest.mark.parametrize("rule", ["brier", "log"])
@pytest.mark.parametrize("seed", range(5))
def test_the_parts_add_up_and_none_is_negative(rule, seed):
    y, p = random_rows(300, seed)
    parts = getattr(isotonic_curve(tabulate(y, p, bins=Distinct())), rule)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert total == pytest.approx(parts.value, abs=1e-14)
    assert min(parts.miscalibration, parts.discrimination, parts.uncertainty) >= 0


def test_weights_of_two_are_rows_twice():
    y, p = random_rows(200)
    weight = np.arange(200) % 3
    a = isotonic_curve(tabulate(y, p, bins=Distinct(), sample_weight=weight))
    b = isotonic_curve(tabulate(np.repeat(y, weight), np.repeat(p, weight), bins=Distinct()))
    np.testing.assert_allclose(a.event_rate, b.event_rate, atol=1e-12)
    np.testing.assert_allclose(a.log.value, b.log.value, atol=1e-12)


def test_a_wrong_certainty_has_an_infinite_log_score_and_nothing_else_breaks():
    log = isotonic_curve(tabulate([0, 1, 1, 0], [0.0, 0.0, 1.0, 0.5], bins=Distinct())).log
    assert np.isinf(log.value)
    assert np.isinf(log.miscalibration)
    assert np.isfinite(log.discrimination)
    assert log.to_dict()["value"] is None
    json.dumps(log.to_dict(), allow_nan=False)


def test_right_certainties_cost_nothing():
    curve = isotonic_curve(tabulate([0, 1], [0.0, 1.0], bins=Distinct()))
    assert curve.log.value == curve.brier.value == 0
    assert curve.log.discrimination == pytest.approx(np.log(2))


@pytest.mark.parametrize("label", [0, 1])
def test_a_single_row_and_a_single_class_have_defined_answers(label):
    for n in (1, 7):
        curve = isotonic_curve(tabulate([label] * n, np.linspace(0.2, 0.8, n), bins=Distinct()))
        np.testing.assert_array_equal(curve.event_rate, label)
        assert curve.brier.uncertainty == curve.brier.discrimination == 0
        assert curve.brier.miscalibration == pytest.approx(curve.brier.value)


def test_bins_that_mix_predictions_give_the_curve_of_the_binned_predictions():
    y, p = random_rows()
    table = tabulate(y, p, bins=EqualWidth(10))
    coarse = isotonic_curve(table)
    binned = (table.sum_p[0] / table.count[0])[table.bins[0].index(p)]
    direct = isotonic_curve(tabulate(y, binned, bins=Distinct()))
    assert (coarse.is_exact, direct.is_exact) == (False, True)
    assert coarse.brier.miscalibration == pytest.approx(direct.brier.miscalibration, abs=1e-12)
    assert coarse.log.value == pytest.approx(direct.log.value, abs=1e-12)


def test_empty_bins_are_left_out():
    assert len(isotonic_curve(tabulate([0, 1], [0.05, 0.95], bins=EqualWidth(10)))) == 2


def test_corners_draw_the_same_curve_with_fewer_points():
    y, p = random_rows()
    curve = isotonic_curve(tabulate(y, p, bins=Distinct()))
    x, rate = curve.corners
    assert x.size < 200 < len(curve)
    np.testing.assert_allclose(np.interp(curve.prediction, x, rate), curve.event_rate, atol=1e-12)


def test_one_class_of_a_marginal_problem_is_its_binary_problem():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet([1, 1, 1], size=300)
    y = rng.integers(3, size=300)
    one = isotonic_curve(
        tabulate(y, probs, kind="marginal", bins=Distinct()),
        class_label=2,
    )
    binary = isotonic_curve(tabulate(y == 2, probs[:, 2], bins=Distinct()))
    np.testing.assert_allclose(one.event_rate, binary.event_rate)
    assert one.brier == binary.brier
    with pytest.raises(exceptions.InvalidArgumentError, match="class_label"):
        isotonic_curve(tabulate(y, probs, kind="marginal", bins=Distinct()))


def test_the_curve_prints_both_decompositions():
    text = str(isotonic_curve(tabulate(Y, Z, bins=Distinct())))
    brier, rest, log, _ = text.splitlines()
    assert brier.startswith("Brier ")
    assert rest.startswith("  + uncertainty ")
    assert log.startswith("log score 0.5056 = miscalibration 0.1237")


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_consistency_limits_are_binomial_quantiles(level):
    y, p = random_rows(3_000)
    table = tabulate(y, np.round(p, 1), bins=Distinct())
    low, high = consistency_limits(table, confidence_level=level, simultaneous=False)
    n, s = table.count[0], table.level[0]
    law = scipy_stats.binom(n, s)
    np.testing.assert_array_equal(low, law.ppf((1 - level) / 2) / n)
    upper = n - scipy_stats.binom(n, 1 - s).ppf((1 - level) / 2)
    np.testing.assert_allclose(high, upper / n, atol=1e-12)
    inside = law.cdf(np.round(high * n)) - law.cdf(np.round(low * n) - 1)
    assert (inside >= level - 1e-12).all()


def test_simultaneous_consistency_limits_hold_in_all_bins_together():
    y, p = random_rows(3_000)
    table = tabulate(y, np.round(p, 1).clip(0.05, 0.95), bins=Distinct())
    low, high = consistency_limits(table)
    n, s = table.count[0], table.level[0]
    law = scipy_stats.binom(n, s)
    inside = law.cdf(np.round(high * n)) - law.cdf(np.round(low * n) - 1)
    assert inside.prod() >= 0.95
    narrow_low, narrow_high = consistency_limits(table, simultaneous=False)
    assert (low <= narrow_low).all()
    assert (high >= narrow_high).all()


def test_consistency_limits_of_certain_predictions_are_points_and_of_one_row_are_wide():
    low, high = consistency_limits(tabulate([0, 1, 0], [0.0, 1.0, 0.5], bins=Distinct()))
    assert low.tolist() == [0.0, 0.0, 1.0]
    assert high.tolist() == [0.0, 1.0, 1.0]


def test_consistency_limits_of_many_rows_shrink_to_the_prediction():
    table = tabulate([0, 1], [0.3, 0.3], bins=Distinct())
    many = cb.BinTable.from_dict(
        table.to_dict()
        | {"count": [[1e9]], "sum_y": [[3e8]], "sum_p": [[3e8]], "sum_pp": [[9e7]]}
        | {"sum_py": [[9e7]]}
    )
    low, high = consistency_limits(many)
    half = 1.96 * np.sqrt(0.21 / 1e9)
    np.testing.assert_allclose([low[0], high[0]], [0.3 - half, 0.3 + half], rtol=1e-5)


def test_a_percentage_as_confidence_level_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match="0.95 for 95 percent"):
        consistency_limits(tabulate([0, 1], [0.3, 0.3], bins=Distinct()), confidence_level=95)


PARTS = ("miscalibration", "discrimination", "uncertainty")


def test_parts_are_those_of_the_isotonic_curve():
    parts = cb.brier_decomposition(Y, Z, method="corp")
    curve = stats.isotonic_curve(cb.tabulate(Y, Z, bins="distinct"))
    assert parts == curve.brier
    # scikit-learn: brier_score_loss(y, IsotonicRegression().fit_transform(z, y)) = 0.1333...
    assert parts.value - parts.miscalibration == pytest.approx(2 / 15, rel=1e-12)
    assert parts.uncertainty - parts.discrimination == pytest.approx(2 / 15, rel=1e-12)
    log = stats.corp_decomposition(cb.tabulate(Y, Z, bins="distinct"), rule="log")
    assert log == curve.log


def test_a_table_stands_in_place_of_rows():
    rng = np.random.default_rng(0)
    p = np.round(rng.uniform(size=500), 2)
    y = rng.uniform(size=500) < p
    rows = cb.brier_decomposition(y, p, method="corp")
    table = cb.brier_decomposition(cb.tabulate(y, p, bins="distinct"), method="corp")
    assert rows.to_dict() == table.to_dict()
    assert pickle.loads(pickle.dumps(rows)).to_dict() == rows.to_dict()


@pytest.mark.parametrize(
    ("rate", "n"), [(lambda p: p, 400), (lambda p: p**1.5, 400), (lambda p: 0.25 + p / 2, 150)]
)
def test_intervals_hold_the_truth(rate, n):
    """Nominal 95%; 150 samples, of which 89% is five standard errors away from 97%."""
    rng = np.random.default_rng(0)
    many = rng.uniform(size=10**6)
    q = rate(many)
    truth = [((many - q) ** 2).mean(), q.var(), q.mean() * (1 - q.mean())]
    held = np.zeros(3)
    for _ in range(150):
        p = rng.uniform(size=n)
        parts = cb.brier_decomposition(rng.uniform(size=n) < rate(p), p, method="corp")
        held += [x in parts.confidence_interval(part) for x, part in zip(truth, PARTS, strict=True)]
    assert (held / 150 >= 0.89).all()


def test_uncertainty_is_exact_and_bends_at_one_half():
    """R 4.2.2: binom.test(5, 10)$conf.int is 0.187086 to 0.812914; of 1 in 10 0.002529 to 0.445016."""
    half = cb.brier_decomposition(Y, Z, method="corp").confidence_interval("uncertainty")
    assert (half.low, half.high) == pytest.approx((0.187086 * 0.812914, 0.25), rel=1e-5)
    one = cb.brier_decomposition([1] + [0] * 9, Z, method="corp").confidence_interval("uncertainty")
    ends = 0.002528579 * (1 - 0.002528579), 0.4450161 * (1 - 0.4450161)
    assert (one.low, one.high) == pytest.approx(ends, rel=1e-5)


@pytest.mark.parametrize("labels", [Y, [0] * 10, [1] * 10])
@pytest.mark.parametrize("rule", ["brier", "log"])
def test_intervals_are_ordered_and_printed(labels, rule):
    parts = stats.corp_decomposition(cb.tabulate(labels, Z, bins="distinct"), rule=rule)
    for part in PARTS:
        low, high = parts.confidence_interval(part, 0.9)
        assert 0 <= low <= high < math.inf
        wider = parts.confidence_interval(part, 0.99)
        assert wider.low <= low <= high <= wider.high
    assert [line.split()[0] for line in str(parts).splitlines()[-3:]] == list(PARTS)
    assert "-0.0000" not in str(parts)


def test_an_infinite_log_loss_has_an_infinite_miscalibration():
    table = cb.tabulate([1, 0, 1], [0.0, 0.5, 0.9], bins="distinct")
    parts = stats.corp_decomposition(table, rule="log")
    assert parts.confidence_interval().low == math.inf
    assert parts.confidence_interval("discrimination").high < math.inf


def test_what_has_no_interval_is_refused():
    with pytest.raises(InvalidWeightsError, match="sample weights"):
        cb.brier_decomposition(Y, Z, method="corp", sample_weight=np.arange(1, 11))
    for options in ({"bins": 5}, {"debias": True}, {"class_weight": {0: 1}}):
        with pytest.raises(InvalidArgumentError, match="chooses no bins"):
            cb.brier_decomposition(Y, Z, method="corp", **options)
    with pytest.raises(CalibrantError, match='kind="marginal" has 3 classes. Pass one class'):
        cb.brier_decomposition([0, 1, 2], np.eye(3), kind="marginal", method="corp")
    with pytest.raises(CalibrantError, match="at least 2 rows; got 1"):
        cb.brier_decomposition([1], [0.5], method="corp")
    for part in ("brier", None, ["miscalibration"]):
        with pytest.raises(InvalidArgumentError, match="part must be"):
            cb.brier_decomposition(Y, Z, method="corp").confidence_interval(part)


def test_subnormal_predictions_have_intervals():
    p = np.random.default_rng(0).uniform(size=300)
    y = np.random.default_rng(1).uniform(size=300) < p
    low, high = cb.brier_decomposition(y, p * 1e-310, method="corp").confidence_interval(
        "miscalibration"
    )
    assert 0 <= low < high < 1
