"""Paired comparison of two models: proofs, hand-made cases and coverage; two tables of other rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

import calibrant as cb
from calibrant import (
    Bins,
    Distinct,
    EqualWidth,
    brier_decomposition,
    calibration_error,
    compare,
    compare_tables,
    tabulate,
)
from calibrant.exceptions import (
    CalibrantError,
    EmptyInputError,
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidBinsError,
    InvalidShapeError,
    InvalidWeightsError,
)
from calibrant.stats.comparison import BinnedResiduals, compare_errors, pair_variance

SAME = "no difference that these rows can show"
RNG = np.random.default_rng(11)
Q = RNG.uniform(size=800)
Y = (RNG.uniform(size=800) < Q).astype(float)


def sharpened(p, slope):
    """Predictions whose true event rate has logit slope * logit(prediction)."""
    return special.expit(special.logit(p) / slope)


def test_values_are_those_of_the_library():
    result = compare_errors(Y, Q, Q**2, bins_a=9, bins_b=EqualWidth(7))
    a, b = calibration_error(Y, Q, bins=9), calibration_error(Y, Q**2, bins=EqualWidth(7))
    assert result.squared_error.a == pytest.approx(a.squared, abs=1e-14)
    assert result.squared_error.b == pytest.approx(b.squared, abs=1e-14)
    assert result.brier.a == pytest.approx(brier_decomposition(Y, Q).value)
    expected = -np.mean(Y * np.log(Q) + (1 - Y) * np.log1p(-Q))
    assert result.log_loss.a == pytest.approx(expected)


def test_the_interval_of_a_score_is_that_of_a_paired_t_test():
    result = compare_errors(Y, Q, Q**2, confidence_level=0.9)
    found = stats.ttest_rel((Y - Q) ** 2, (Y - Q**2) ** 2).confidence_interval(0.9)
    assert (result.brier.low, result.brier.high) == pytest.approx((found.low, found.high))


@pytest.mark.parametrize("bins", ["auto", 10, EqualWidth(10), Distinct()])
def test_a_model_does_not_differ_from_itself(bins):
    for _, difference in compare_errors(Y, Q, Q, bins_a=bins, bins_b=bins):
        assert (difference.value, difference.low, difference.high) == (0, 0, 0)
        assert difference.verdict == SAME


def test_rounding_is_no_difference():
    same = special.expit(special.logit(Q))
    assert np.any(same != Q)
    for _, difference in compare_errors(Y, Q, same):
        assert difference.verdict == SAME


def test_swapping_the_models_turns_every_interval_round():
    there = compare_errors(Y, Q, Q**2, bins_a=5, bins_b=9)
    back = compare_errors(Y, Q**2, Q, bins_a=9, bins_b=5)
    for (_, a), (_, b) in zip(there, back, strict=True):
        assert (a.value, a.low, a.high) == pytest.approx((-b.value, -b.high, -b.low))


def test_models_of_the_same_bins_differ_in_calibration_as_in_brier_score():
    """Their discrimination is the same, so the Brier scores differ by the calibration errors."""
    q = np.round(Q, 1)
    result = compare_errors(Y, q, q**2, bins_a=Distinct(), bins_b=Distinct())
    assert result.squared_error.value == pytest.approx(result.brier.value)
    assert result.squared_error.low == pytest.approx(result.brier.low)


def test_the_pair_variance_is_a_sum_over_pairs():
    y, a, b = Y[:60], Q[:60], np.sqrt(Q[:60]) * RNG.uniform(size=60)
    bins_a, bins_b = EqualWidth(3).bins, EqualWidth(5).bins
    group_a, group_b = BinnedResiduals.of(y, a, bins_a), BinnedResiduals.of(y, b, bins_b)

    def products(group):
        together = group.cell[:, None] == group.cell
        e = group.u - group.gap[group.cell]
        return together * np.outer(e, e) / (group.size[group.cell] - 1)

    squares = (products(group_a) - products(group_b)) ** 2
    expected = 2 / 60**2 * (squares.sum() - np.trace(squares))
    assert pair_variance(group_a, group_b) == pytest.approx(expected)


def test_the_pair_variance_of_a_binned_model_at_calibration_is_known():
    """2 sum_j p_j^2 v_j^2 / (N_j (N_j - 1)) on average; b predicts with certainty and adds nothing."""
    p, certain = np.repeat([0.2, 0.5], [60, 40]), np.ones(100)
    found = []
    for _ in range(2000):
        y = (RNG.uniform(size=100) < p).astype(float)
        a = BinnedResiduals.of(y, p, Bins([0, 0.3, 1]))
        b = BinnedResiduals.of(np.ones(100), certain, Bins([0, 1]))
        found.append(pair_variance(a, b))
    mass, size, v = np.array([0.6, 0.4]), np.array([60, 40]), np.array([0.16, 0.25])
    expected = 2 * np.sum(mass**2 * v**2 / (size * (size - 1)))
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


def test_two_columns_of_one_event_are_compared_like_one():
    two = np.column_stack
    one = compare_errors(Y, Q, Q**2, bins_a=EqualWidth(8), bins_b=EqualWidth(8))
    both = compare_errors(
        two([1 - Y, Y]),
        two([1 - Q, Q]),
        two([1 - Q**2, Q**2]),
        bins_a=[Bins(1 - EqualWidth(8).bins.edges[::-1]), EqualWidth(8).bins],
        bins_b=[Bins(1 - EqualWidth(8).bins.edges[::-1]), EqualWidth(8).bins],
        weights=np.array([0.5, 0.5]),
    )
    for (_, a), (_, b) in zip(one, both, strict=True):
        assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high))


def test_the_log_loss_of_several_classes_is_that_of_the_label():
    p = RNG.dirichlet(np.ones(4), size=100)
    label = RNG.integers(4, size=100)
    other = np.full((100, 4), 0.25)
    result = compare_errors(np.eye(4)[label], p, other)
    assert result.log_loss.a == pytest.approx(-np.log(p[np.arange(100), label]).mean())
    assert result.log_loss.b == pytest.approx(math.log(4))
    assert result.brier.b == pytest.approx((0.75**2 + 3 * 0.25**2) / 4)


def test_a_class_of_weight_zero_does_not_count():
    y = np.column_stack([Y, 1 - Y])
    a, b = np.column_stack([Q, 1 - Q]), np.column_stack([Q, np.full(800, 0.5)])
    result = compare_errors(y, a, b, weights=np.array([1.0, 0.0]))
    assert result.squared_error.value == 0
    assert result.brier.value == 0


def test_top_labels_have_events_of_their_own():
    result = compare_errors(Y, Q, Q, y_b=1 - Y)
    assert result.brier.a < result.brier.b
    assert result.brier.verdict == "a is better"


def test_certain_and_wrong_predictions_cost_a_clipped_log_loss():
    result = compare_errors(np.ones(10), np.zeros(10), np.ones(10))
    assert result.log_loss.a == pytest.approx(-math.log(1e-12))
    assert result.log_loss.verdict == "b is better"


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((Y, Q[:9], Q), {}, InvalidShapeError, "one shape"),
        ((Y, Q, Q[:9]), {"y_b": Y[:9]}, InvalidShapeError, "same rows"),
        ((Y[:1], Q[:1], Q[:1]), {}, EmptyInputError, "at least 2 rows"),
        ((Y, Q, Q), {"confidence_level": 95}, InvalidArgumentError, "between 0 and 1"),
        ((Y, Q, Q), {"weights": np.array([2.0])}, InvalidWeightsError, "add up to 1"),
        ((Y, Q, Q), {"bins_a": [EqualWidth(2).bins] * 2}, InvalidBinsError, "got 2 for 1"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        compare_errors(*arguments, **options)


class Pair:
    """Two binned models of the same event, from features that agree with probability `agree`."""

    def __init__(self, slope_a, slope_b, agree, n_bins=10):
        self.agree, self.n_bins = agree, n_bins
        z = (np.arange(n_bins) + 0.5) / n_bins
        self.rate = (z[:, None] + z) / 2
        self.joint = agree * np.eye(n_bins) / n_bins + (1 - agree) / n_bins**2
        seen_a = (self.joint * self.rate).sum(axis=1) * n_bins
        seen_b = (self.joint * self.rate).sum(axis=0) * n_bins
        self.a, self.b = sharpened(seen_a, slope_a), sharpened(seen_b, slope_b)
        a, b = np.broadcast_to(self.a[:, None], self.rate.shape), self.b + 0 * self.rate
        self.truth = (
            np.mean((seen_a - self.a) ** 2) - np.mean((seen_b - self.b) ** 2),
            self._mean((1 - a) ** 2 - (1 - b) ** 2, a**2 - b**2),
            self._mean(np.log(b) - np.log(a), np.log1p(-b) - np.log1p(-a)),
        )

    def _mean(self, event, no_event):
        return float(np.sum(self.joint * (self.rate * event + (1 - self.rate) * no_event)))

    def draw(self, n, rng):
        z_a = rng.integers(self.n_bins, size=n)
        z_b = np.where(rng.uniform(size=n) < self.agree, z_a, rng.integers(self.n_bins, size=n))
        y = (rng.uniform(size=n) < self.rate[z_a, z_b]).astype(float)
        return y, self.a[z_a], self.b[z_b]


def covered(draw, truth, runs, **options):
    """Return the share of runs in which each interval covers, for three measures."""
    hits = np.zeros(len(truth))
    for _ in range(runs):
        result = compare_errors(*draw(), **options)
        hits += [d.low <= t <= d.high for (_, d), t in zip(result, truth, strict=False)]
    return hits / runs


@pytest.mark.slow
@pytest.mark.parametrize("n", [300, 1000, 10_000])
@pytest.mark.parametrize("agree", [0.0, 0.8])
@pytest.mark.parametrize(
    ("slope_a", "slope_b"),
    [
        pytest.param(1.0, 1.0, id="both calibrated"),
        pytest.param(1.0, 0.8, id="calibrated and mild"),
        pytest.param(0.45, 0.45, id="both strong"),
        pytest.param(0.45, 0.8, id="strong and mild"),
    ],
)
def test_intervals_cover_the_difference(slope_a, slope_b, agree, n):
    pair, rng = Pair(slope_a, slope_b, agree), np.random.default_rng(n)
    runs = 500 if n < 10_000 else 250
    found = covered(
        lambda: pair.draw(n, rng), pair.truth, runs, bins_a=Distinct(), bins_b=Distinct()
    )
    assert min(found) >= 0.95 - 0.015 - 2 * math.sqrt(0.05 * 0.95 / runs)


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, 0.97, 0.7])
def test_intervals_cover_for_continuous_predictions_in_bins(slope):
    """Calibrated p, and the same sharpened; in fixed bins the truth is an integral."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    bins = EqualWidth(8).bins

    def squared(p):
        cell = bins.index(p)
        gaps = np.bincount(cell, grid - p, 8) / np.maximum(np.bincount(cell, minlength=8), 1)
        return float(np.mean(gaps[cell] ** 2))

    rng, truth = np.random.default_rng(7), -squared(sharpened(grid, slope))

    def draw():
        q = rng.uniform(size=1000)
        return (rng.uniform(size=1000) < q).astype(float), q, sharpened(q, slope)

    found = covered(draw, (truth,), 500, bins_a=bins, bins_b=bins)
    assert found[0] >= 0.935 - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.15])
def test_intervals_cover_for_several_classes(shift):
    """Cells of a finite model with calibrated class probabilities, and a mixture with uniform."""
    rng = np.random.default_rng(9)
    cells = rng.dirichlet(np.ones(3), size=12)
    mixed = (1 - shift) * cells + shift / 3
    truth = -float(np.mean((cells - mixed) ** 2))

    def draw():
        z_a = rng.integers(12, size=600)
        label = (rng.uniform(size=(600, 1)) > cells[z_a].cumsum(axis=1)).sum(axis=1)
        y = np.eye(3)[np.minimum(label, 2)]
        return y, cells[z_a], mixed[z_a]

    options = {"bins_a": Distinct(), "bins_b": Distinct()}
    assert covered(draw, (truth,), 500, **options)[0] >= 0.935 - 0.02


@pytest.mark.slow
def test_a_mild_distortion_is_found_in_ten_thousand_rows():
    rng = np.random.default_rng(3)
    pair = Pair(1.0, 0.8, 0.8)
    found = [
        compare_errors(*pair.draw(10_000, rng), bins_a=Distinct(), bins_b=Distinct())
        for _ in range(50)
    ]
    assert np.mean([r.squared_error.verdict == "a is better" for r in found]) > 0.9


def test_wrong_predictions_are_called_by_their_model():
    wrong = np.where(np.arange(800) == 3, np.nan, Q)
    with pytest.raises(CalibrantError, match=r"prob_b must not be missing.*first: prob_b\[3\]"):
        cb.compare(Y, Q, wrong)
    with pytest.raises(CalibrantError, match="y_true and prob_a must have the same number"):
        cb.compare(Y, Q[1:], Q)
    with pytest.raises(CalibrantError, match="predictions of 'new' must not be missing"):
        cb.compare(Y, {"old": Q, "new": wrong})


def test_models_with_labels_of_their_own_are_compared():
    rng = np.random.default_rng(31)
    p_a, p_b = rng.uniform(size=(2, 2000))
    right_a, right_b = rng.uniform(size=2000) < p_a, rng.uniform(size=2000) < p_b**2
    found = cb.compare(right_a, p_a, p_b, y_true_b=right_b)
    assert found.squared_error.verdict == "a is better"
    assert found.squared_error.b == pytest.approx(cb.calibration_error(right_b, p_b).squared)
    assert found.brier.b == pytest.approx(np.mean((right_b - p_b) ** 2))


def test_several_models_hold_for_all_pairs_at_once():
    rng = np.random.default_rng(32)
    p = rng.uniform(size=1500)
    y = rng.uniform(size=1500) < p
    models = {"good": p, "bad": p**2, "worse": p**4}
    found = cb.compare(y, models)
    assert found.models == ("good", "bad", "worse")
    assert list(found) == [("good", "bad"), ("good", "worse"), ("bad", "worse")]
    alone = cb.compare(y, p, p**2, confidence_level=1 - 0.05 / 3)
    assert found["good", "bad"] == alone
    assert found.to_dict()["pairs"][0]["a"] == "good"
    assert "95% for all pairs at once" in str(found)
    own = cb.compare(dict.fromkeys(models, y), models)
    assert str(own) == str(found)


def test_a_comparison_needs_two_models():
    y, p = [0, 1, 0], [0.2, 0.7, 0.4]
    for arguments in ((y, {"a": p}), (y, p), (y, p, None)):
        with pytest.raises(InvalidArgumentError, match="Two models"):
            cb.compare(*arguments)
    with pytest.raises(InvalidArgumentError, match="Two models"):
        cb.compare(y, {"a": p, "c": p}, y_true_b=y)


@pytest.mark.parametrize("case", ["identical", "correlated", "own labels"])
def test_equal_models_are_told_apart_no_more_often_than_promised(case):
    rng, told = np.random.default_rng(33), 0
    for _ in range(200):
        p = rng.integers(1, 10, size=400) / 10
        y = y_b = rng.uniform(size=400) < p
        q = p
        if case == "correlated":
            q = np.where(rng.uniform(size=400) < 0.9, p, rng.permutation(p))
            y = y_b = rng.uniform(size=400) < (p + q) / 2  # either is wrong as much as the other
        if case == "own labels":
            y_b = rng.uniform(size=400) < p
        found = cb.compare(y, p, q, y_true_b=y_b, bins="distinct")
        told += found.squared_error.verdict != "no difference that these rows can show"
    assert told <= 20  # of 200 at 5%: more has a probability below 0.002


def draw(rng, n, slope, levels=10):
    p = (rng.integers(levels, size=n) + 0.5) / levels
    rate = 0.5 + slope * (p - 0.5)
    return rng.uniform(size=n) < rate, p


def true_square(slope, levels=10):
    p = (np.arange(levels) + 0.5) / levels
    return float(np.mean(((slope - 1) * (p - 0.5)) ** 2))


@pytest.mark.parametrize("bins", [Distinct(), EqualWidth(4)])
def test_the_spread_is_that_of_the_rows(bins):
    # Against a model that is right whatever the label, a paired comparison has the same variance.
    rng = np.random.default_rng(0)
    y, p = draw(rng, 3000, 0.5)
    sure = y.astype(float)
    other = tabulate(y, sure, bins=Distinct())
    found = compare_tables(tabulate(y, p, bins=bins), other).squared_error
    paired = compare(y, p, sure, bins=bins).squared_error
    assert (found.a, found.b) == pytest.approx((paired.a, 0.0), abs=1e-12)
    assert found.low == pytest.approx(paired.low, rel=1e-6)
    assert found.high == pytest.approx(paired.high, rel=1e-6)


def test_the_order_of_tables_and_of_rows_does_not_matter():
    rng = np.random.default_rng(1)
    (y, p), (z, q) = draw(rng, 500, 0.8), draw(rng, 700, 1.0)
    a, b = tabulate(y, p, bins=Distinct()), tabulate(z[::-1], q[::-1], bins=EqualWidth(7))
    one, other = compare_tables(a, b), compare_tables(b, a)
    assert one.squared_error.low == pytest.approx(-other.squared_error.high)
    assert (one.n_a, one.n_b) == (500, 700)
    assert "n = 500, 10 distinct-value bins; b: n = 700, 7 equal-width bins" in str(one)


def test_several_classes_have_at_least_the_spread_of_independent_ones():
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.ones(4), size=2000)
    labels = (probs.cumsum(axis=1) < rng.uniform(size=(2000, 1))).sum(axis=1)
    halves = [
        tabulate(labels[half], probs[half], kind="marginal", bins=EqualWidth(5))
        for half in (slice(0, 1000), slice(1000, None))
    ]
    found = compare_tables(*halves).squared_error
    assert found.low < 0 < found.high
    skewed = compare_tables(*halves, class_weight=[1, 0, 0, 0]).squared_error
    single = [
        tabulate(labels[half] == 0, probs[half, 0], bins=EqualWidth(5))
        for half in (slice(0, 1000), slice(1000, None))
    ]
    assert skewed.high == pytest.approx(compare_tables(*single).squared_error.high)


def test_what_cannot_be_compared_is_refused():
    y, p = np.arange(40) % 2, np.linspace(0.05, 0.95, 40)
    table = tabulate(y, p, bins=3)
    with pytest.raises(InvalidWeightsError, match="has sample weights"):
        compare_tables(table, tabulate(y, p, bins=3, sample_weight=p))
    with pytest.raises(EmptyInputError, match="at least 2 rows in each table; got 1"):
        compare_tables(tabulate(y[:1], p[:1], bins=3), table)
    top = tabulate(y, np.column_stack([p, 1 - p, 0 * p]), bins=3)
    with pytest.raises(IncompatibleTablesError, match="binary of 2 classes and top-label of 3"):
        compare_tables(table, top)
    with pytest.raises(IncompatibleTablesError, match="takes two tables"):
        compare_tables(table, p)
    with pytest.raises(InvalidArgumentError):
        compare_tables(table, table, confidence_level=95)


def test_tables_without_any_error_have_an_interval_that_is_not_empty():
    rng = np.random.default_rng(3)
    y, p = draw(rng, 2000, 1.0)
    found = compare_tables(*(tabulate(y, p, bins=Distinct()) for _ in range(2))).squared_error
    assert found.low < found.value == 0 < found.high


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "m", "slope_a", "slope_b"),
    [(300, 300, 1.0, 1.0), (300, 3000, 1.0, 0.8), (1000, 1000, 0.7, 0.7), (1000, 500, 0.5, 0.9),
     (300, 300, 0.3, 1.0)],
)  # fmt: skip
def test_the_interval_holds_as_often_as_it_says(n, m, slope_a, slope_b):
    rng, runs, held = np.random.default_rng([n, m]), 1000, 0
    truth = true_square(slope_a) - true_square(slope_b)
    for _ in range(runs):
        tables = (
            tabulate(*draw(rng, size, slope), bins=Distinct())
            for size, slope in ((n, slope_a), (m, slope_b))
        )
        found = compare_tables(*tables).squared_error
        held += found.low <= truth <= found.high
    # 1.5 points below the nominal level is what `compare` promises from 300 rows on
    assert held / runs >= 0.935 - 3 * math.sqrt(0.05 * 0.95 / runs)
