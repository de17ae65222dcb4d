"""Do the intervals cover? The requirement, cell by cell; docs/coverage.md has the tables."""

from __future__ import annotations

import math

import numpy as np
import pytest
from make_coverage_table import (
    INTERVALS,
    PAGE,
    RUNS,
    bootstrap,
    oracle,
    parsed,
    runs_of,
    study,
    weighted,
)
from simulate import (
    BINARY,
    BinnedModel,
    ContinuousModel,
    MarginalModel,
    calibrated,
    coverage,
    grid,
    mean_width,
    mild,
    rare_classes,
    softmax_model,
    strong,
)

from calibrant import Distinct, calibration_error, stats
from calibrant.stats.influences import FEWEST_INFLUENTIAL, influential_rows_of
from calibrant.stats.intervals import box_interval, normal_interval, score_interval

LEVELS = (0.9, 0.95)
SLACK = 0.015
ROWS_A_BIN = 10

CELLS = [
    (name, n_bins, n)
    for name in BINARY
    for n_bins in (10, 100)
    for n in (300, 1_000, 10_000)
    if n / n_bins >= ROWS_A_BIN
]


def assert_covers(cells, model, truths, method: str) -> None:
    """Hold one kind of interval to the requirement at both levels."""
    power, interval = INTERVALS[method]
    for level in LEVELS:
        share = coverage(interval(cells, model.weights, level), truths(power))
        assert share >= level - SLACK, f"{method} covers {share:.3f} at {level}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_bins", "n"), CELLS)
def test_closed_form_intervals_cover_binned_models(name, n_bins, n):
    model = BINARY[name](n_bins)
    cells = model.draw(n, 4000, np.random.default_rng(21))
    assert_covers(cells, model, model.error, "score")
    assert_covers(cells, model, model.error, "normal")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_bins", "n"), CELLS)
def test_box_intervals_cover_the_largest_error_of_binned_models(name, n_bins, n):
    model = BINARY[name](n_bins)
    runs = 4000 if n_bins == 10 else 1000
    cells = model.draw(n, runs, np.random.default_rng(22))
    assert_covers(cells, model, model.error, "box")


@pytest.mark.slow
@pytest.mark.parametrize("method", INTERVALS)
@pytest.mark.parametrize("n", [1_000, 10_000])
@pytest.mark.parametrize("sharpen", [1.0, 1.5, 2.5])
def test_intervals_of_tables_cover_ten_classes_that_share_their_rows(sharpen, n, method):
    model = softmax_model(10, sharpen)
    assert n * model.smallest_mass >= ROWS_A_BIN
    cells = model.draw(n, 1000, np.random.default_rng(23))
    assert_covers(cells, model, model.error, method)


CLASSES = {
    **{
        f"{n_classes} classes, sharpened {sharpen} times": softmax_model(n_classes, sharpen)
        for n_classes in (2, 3, 10, 30)
        for sharpen in (1.0, 1.5, 2.5)
    },
    "100 classes": softmax_model(100),
    "100 classes, sharpened 1.5 times": softmax_model(100, 1.5),
    "100 classes, 99 rare, a third": rare_classes(100, 0.3),
    "20 classes, 19 rare, threefold": rare_classes(20, 3.0),
}


def widths_and_shares(model, n: int, runs: int, level: float = 0.95):
    """Return the coverage of the score interval of rows, and its width beside the oracle's."""
    cells, spread, rows = model.draw_with_influences(n, runs, np.random.default_rng(27), 2.0)
    limits = score_interval(cells, model.weights, level, spread=spread)
    held = (limits[0] <= model.error(2.0)) & (model.error(2.0) <= limits[1])
    known = oracle(cells, model, level)
    announced = rows < FEWEST_INFLUENTIAL
    return float(np.mean(held | announced)), mean_width(limits) / mean_width(known)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_intervals_of_rows_cover_classes_and_are_hardly_wider_than_with_a_known_variance(name):
    model = CLASSES[name]
    runs = 1000 if model.n_groups <= 30 else 300
    share, ratio = widths_and_shares(model, 3_000 if "rare" in name else 1_000, runs)
    assert share >= 0.95 - SLACK - 2.5 * math.sqrt(0.05 * 0.95 / runs)
    assert ratio <= (1.3 if model.n_groups <= 30 else 1.5)


@pytest.mark.slow
def test_normal_intervals_of_rows_cover_classes():
    for model in (softmax_model(3, 1.5), softmax_model(10), softmax_model(30, 1.5)):
        cells, spread, _ = model.draw_with_influences(1_000, 500, np.random.default_rng(28), 1.0)
        limits = normal_interval(cells, model.weights, 0.9, spread=spread)
        assert coverage(limits, model.error(1.0)) >= 0.9 - SLACK


def test_the_public_interval_of_classes_is_the_one_that_was_simulated():
    model, rng = softmax_model(3, 1.5), np.random.default_rng(29)
    vectors, labels = np.divmod(
        rng.choice(model.truths.size, size=500, p=model.truths.ravel() / model.truths.sum()), 3
    )
    counts = np.bincount(3 * vectors + labels, minlength=model.truths.size)
    model = replayed(model, counts.reshape(model.truths.shape))
    for norm, power, interval in (("l2", 2.0, score_interval), ("l1", 1.0, normal_interval)):
        result = calibration_error(
            labels, model.outputs[vectors], kind="marginal", bins=Distinct(), norm=norm
        )
        cells, spread, _ = model.draw_with_influences(500, 1, rng, power)
        simulated = interval(cells, model.weights, 0.9, spread=spread)
        found = result.confidence_interval(0.9)
        np.testing.assert_allclose(list(found), np.ravel(simulated), atol=1e-12)


def replayed(model: MarginalModel, counts) -> MarginalModel:
    """Return the model that draws these counts."""

    class Replayed(MarginalModel):
        def draw_counts(self, n, runs, rng):
            return counts[None]

    return Replayed(model.outputs, model.truths)


@pytest.mark.slow
@pytest.mark.parametrize("weight", [10.0, 0.1])
@pytest.mark.parametrize("slope", [1.0, 0.8, 0.45])
@pytest.mark.parametrize(("n_bins", "n"), [(2, 1_000), (10, 1_000), (10, 10_000)])
def test_intervals_cover_where_weights_depend_on_the_label(n_bins, n, slope, weight):
    model = weighted(n_bins, weight, slope)
    cells = model.draw(n, 3000, np.random.default_rng(30))
    for method in ("score", "normal"):
        assert_covers(cells, model, model.error, method)


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "weight"), [(3, 10.0), (10, 0.1)])
def test_intervals_of_classes_cover_where_weights_depend_on_the_label(n_classes, weight):
    model, rng = softmax_model(n_classes, 1.5), np.random.default_rng(33)
    weight_of = np.where(np.arange(n_classes) == n_classes - 1, weight, 1.0)
    shares = model.truths * weight_of
    truth = 0.0
    for k, said in enumerate(model.outputs.T):
        for level in np.unique(said):
            own = shares[said == level]
            gap = own[:, k].sum() / own.sum() - level
            truth += own.sum() / shares.sum() * gap**2 / n_classes
    held = 0
    for _ in range(200):
        vectors = rng.integers(len(model.outputs), size=2_000)
        below = model.truths[vectors].cumsum(axis=1) < rng.uniform(size=(2_000, 1))
        labels = below.sum(axis=1).clip(0, n_classes - 1)
        result = calibration_error(
            labels,
            model.outputs[vectors],
            kind="marginal",
            bins=Distinct(),
            sample_weight=weight_of[labels],
        )
        held += math.sqrt(truth) in result.confidence_interval(0.9)
    assert held / 200 >= 0.9 - SLACK - 2.5 * math.sqrt(0.09 / 200)


BOXES = {
    "certain": BinnedModel(np.array([0.1, 0.6]), np.array([0.0, 1.0])),
    "large errors": BinnedModel(grid(4), 1 - grid(4)),
    "strong": strong(10),
}


@pytest.mark.slow
@pytest.mark.parametrize("power", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("name", BOXES)
def test_boxes_cover_the_error_of_the_population(name, power):
    # Given the masses of the sample the box of the first two models covers almost never: their
    # rates are all but known, so that the masses are what chance moves.
    model = BOXES[name]
    cells = model.draw(10_000, 1000, np.random.default_rng(31))
    limits = box_interval(cells, model.weights, power, 0.95, "population")
    assert coverage(limits, model.error(power)) >= 0.95
    if name == "certain":
        given_masses = box_interval(cells, model.weights, power, 0.95, "sample")
        assert coverage(given_masses, model.error(power)) < 0.7


SETTINGS = [
    (n_bins, size, scale, wrong, error)
    for n_bins in (2, 5, 30)
    for size in (10, 20, 100)
    for scale in ((0.0, 0.02), (0.0, 0.1), (0.9, 1.0), (0.3, 0.7))
    for wrong in (1, n_bins)
    for error in (0.05, 0.15, 0.35, -0.35)
]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["score", "normal"])
def test_intervals_that_miss_too_often_say_that_they_may(method):
    power, interval = INTERVALS[method]
    rng, unannounced = np.random.default_rng(32), {}
    for setting in SETTINGS:
        n_bins, size, (low, high), wrong, error = setting
        levels = low + (high - low) * grid(n_bins)
        rates = np.where(np.arange(n_bins) < wrong, np.clip(levels + error, 0, 1), levels)
        model = BinnedModel(levels, rates)
        cells = model.draw(n_bins * size, 1000, rng)
        few = influential_rows_of(cells, power) < FEWEST_INFLUENTIAL
        for level in LEVELS:
            limits = interval(cells, model.weights, level)
            missed = (limits[0] > model.error(power)) | (model.error(power) > limits[1])
            unannounced[level, *setting] = np.mean(missed & ~few) - (1 - level)
    assert max(unannounced.values()) < SLACK + 3.5 * math.sqrt(0.09 / 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_bins"), [(300, 10), (1_000, 10), (1_000, 100), (10_000, 20)])
@pytest.mark.parametrize("slope", [1.0, 0.8, 0.45])
def test_intervals_cover_the_binned_error_of_a_continuous_model(slope, n, n_bins):
    # Bins of equal mass, chosen anew by each sample: the target is the error in those bins.
    model = ContinuousModel(slope, n_bins)
    runs = 2000 if n < 10_000 else 1000
    cells, edges = model.draw_equal_mass(n, runs, np.random.default_rng(24))
    for method in INTERVALS:
        assert_covers(cells, model, lambda power: model.error_in(edges, power), method)


@pytest.mark.slow
@pytest.mark.parametrize(("n_bins", "below"), [(10, 0.9), (100, 0.2)])
def test_percentile_intervals_miss_the_error_of_a_calibrated_model(n_bins, below):
    # A resample draws its labels from the observed rates, which already scatter about the truth
    # by B v / n in square; drawing again adds as much once more. The debiased estimate subtracts
    # one such dose of the two, so resampled values sit above the truth and their quantiles miss
    # zero: 0.85 instead of 0.95 with 10 bins, 0.00 with 100. So this is not the default.
    model = calibrated(n_bins)
    cell = bootstrap("percentile", 0.95, model, 1000, ("test", n_bins))
    assert cell(120).share < below


@pytest.mark.slow
@pytest.mark.parametrize(("n_bins", "below"), [(10, 0.9), (100, 0.2)])
def test_basic_intervals_miss_the_error_of_a_mildly_miscalibrated_model(n_bins, below):
    # Reflection turns the same excess downwards. At calibration that is hidden, for limits below
    # zero are clipped to zero, which happens to be the truth. A small error is missed instead:
    # 0.72 instead of 0.95 with 10 bins, 0.05 with 100.
    model = mild(n_bins)
    cell = bootstrap("basic", 0.95, model, 1000, ("test", n_bins))
    assert cell(120).share < below


def test_the_public_interval_is_the_one_that_was_simulated():
    model = calibrated(10)
    size, events = (a[0] for a in model.draw_counts(1000, 1, np.random.default_rng(25)))
    cells = model.draw(1000, 1, np.random.default_rng(25))
    for norm, method in (("l2", "score"), ("l1", "normal"), ("max", "box")):
        result = stats.calibration_error(model.table(size, events), norm=norm)
        interval = result.confidence_interval(0.9)
        simulated = INTERVALS[method][1](cells, model.weights, 0.9)
        np.testing.assert_allclose(list(interval), np.ravel(simulated), atol=1e-12)
        assert interval.method == method


# The tables of docs/coverage.md


def tolerance(share: float, runs: int, fresh_runs: int) -> float:
    """4.5 standard errors of a difference of two shares, one success short of certainty."""
    wary = (share * fresh_runs + 2) / (fresh_runs + 4)
    return 4.5 * math.sqrt(wary * (1 - wary) * (1 / runs + 1 / fresh_runs)) + 0.0005


@pytest.mark.slow
@pytest.mark.parametrize("title", study())
def test_the_page_reports_what_the_simulation_gives(title):
    committed = parsed(PAGE.read_text(encoding="utf-8"))[title]
    table = study()[title]
    assert {row: list(cells) for row, cells in committed.items()} == {
        row: list(cells) for row, cells in table.items()
    }
    for row, cells in table.items():
        runs, fresh_runs = runs_of(title, row, RUNS), runs_of(title, row, 200)
        for column, cell in cells.items():
            said, seen = committed[row][column], cell(fresh_runs)
            where = f"{title}, {row}, {column}"
            assert abs(said.share - seen.share) < tolerance(said.share, runs, fresh_runs), where
            spread = 4.5 * seen.width_sd * math.sqrt(1 / runs + 1 / fresh_runs) + 0.001
            assert abs(said.width - seen.width) < spread, where


def test_the_page_has_every_table_and_no_other():
    assert list(parsed(PAGE.read_text(encoding="utf-8"))) == list(study())
