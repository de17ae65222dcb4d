"""Do certificates hold? By simulation, by exact enumeration, and against an adversary."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from make_certificate_tables import (
    PAGE,
    TIGHTNESS,
    coverage_cell,
    parsed,
    sections,
    study,
    tightness_column,
)
from simulate import ContinuousModel, grid, sloped, softmax_model
from simulate_certificates import (
    DELTA,
    MODELS,
    SETTINGS,
    UnevenModel,
    evidence_of_counts,
    exact_misses,
    marginal_misses,
    miss_rates,
    population_misses,
    rejected,
    upper_bounds,
    worst_found,
)

from calibrant import EqualWidth, certify, samples_to_certify, tabulate
from calibrant.stats import certificates, proofs
from calibrant.stats.questions import Question, Setting, evidence_of
from calibrant.stats.tail_bounds import sharp_lower_bound, sharp_upper_bound
from calibrant.stats.tail_tuning import Absolute, Squared

pytestmark = pytest.mark.slow


def slack(draws: int) -> float:
    """Four standard errors of a share of DELTA."""
    return 4 * math.sqrt(DELTA * (1 - DELTA) / draws)


# The simulation speaks of the bounds themselves


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_simulated_bounds_are_the_public_ones(setting):
    rng = np.random.default_rng(1)
    model, chosen = MODELS["mild"](10), SETTINGS[setting](10)
    size = rng.multinomial(400, model.masses)
    events = rng.binomial(size, model.rates, (12, 10))
    tables = [evidence_of_counts(model, size, each) for each in events]
    found = [sharp_upper_bound(table, chosen, Squared) for table in tables]
    np.testing.assert_allclose(upper_bounds(tables[0], chosen, events), found)
    by_certify = evidence_of(model.table(size, events[0]), np.ones(1))
    assert by_certify.n_planned == tables[0].n_planned
    assert sharp_upper_bound(by_certify, chosen, Squared) == pytest.approx(found[0], rel=1e-9)


@pytest.mark.parametrize("error", [Squared, Absolute])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_bound_misses_only_if_the_test_rejects(setting, error):
    rng = np.random.default_rng(2)
    model, chosen = MODELS["strong"](5), SETTINGS[setting](5)
    size = rng.multinomial(200, model.masses)
    events = rng.binomial(size, model.levels, (15, 5))
    tables = [evidence_of_counts(model, size, each) for each in events]
    for t in (0.03, 0.09, 0.15):
        above = rejected(tables[0], chosen, t, events, "left", error)
        below = rejected(tables[0], chosen, t, events, "right", error)
        for table, is_above, is_below in zip(tables, above, below, strict=True):
            assert (sharp_upper_bound(table, chosen, error) >= t - 1e-12) or is_above
            assert (sharp_lower_bound(table, chosen, error) <= t + 1e-12) or is_below


# Coverage


MANY_BINS = ("calibrated", "strong", "sparse", "rare")


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize(
    ("name", "n_bins"), [*((name, 10) for name in MODELS), *((name, 100) for name in MANY_BINS)]
)
def test_bounds_hold_as_often_as_they_promise(name, setting, n_bins):
    for n in (300, 1_000, 10_000) if n_bins == 10 else (1_000,):
        shares = coverage_cell(
            MODELS[name](n_bins), n, SETTINGS[setting](n_bins), 0.2, ("test", name, n)
        )
        assert min(shares) >= 1 - DELTA - slack(1500), (n, shares)


@pytest.mark.parametrize("target", ["population", "sample"])
@pytest.mark.parametrize("name", ["calibrated", "mild", "strong", "rare"])
def test_bounds_of_the_absolute_error_hold_as_often_as_they_promise(name, target):
    model, rng, misses = MODELS[name](10), np.random.default_rng(6), np.zeros(2)
    for size in rng.multinomial(500, model.masses, size=4):
        misses += miss_rates(model, size, SETTINGS[target](10), 500, rng, Absolute)
    assert np.all(misses / 4 <= DELTA + slack(2000))


@pytest.mark.parametrize("lightest", [0.002, 0.01, 0.03])
def test_bounds_hold_when_the_masses_are_learned(lightest):
    # All of the error sits in the lightest output.
    n_bins, n, rng = 8, 1000, np.random.default_rng(3)
    shares = np.append(np.full(n_bins - 1, (1 - lightest) / (n_bins - 1)), lightest)
    model = UnevenModel(grid(n_bins), np.append(grid(n_bins)[:-1], 0.2), shares)
    misses = np.zeros(2)
    for size in rng.multinomial(n, shares, size=25):
        table = model.table(size, size // 2)
        question = Question.of(table, confidence_level=1 - DELTA, min_bin_mass="learned")
        setting, parts = proofs.settings_of(table, question)
        assert sum(part.delta for part in parts) == pytest.approx(setting.delta)
        assert setting.delta < DELTA
        misses[1] += miss_rates(model, size, setting, 300, rng)[1]
        misses[0] += sum(miss_rates(model, size, part, 300, rng)[0] for part in parts)
    assert np.all(misses / 25 <= DELTA + slack(7500))


@pytest.mark.parametrize("setting", ["population", "sample"])
@pytest.mark.parametrize("sharpen", [1.0, 1.7])
def test_bounds_hold_for_five_classes_that_share_their_labels(setting, sharpen):
    model, rng, n = softmax_model(5, sharpen), np.random.default_rng(4), 1000
    vectors = model.outputs.shape[0]
    misses = np.zeros(2)
    for rows in rng.multinomial(n, np.full(vectors, 1 / vectors), size=4):
        labels = np.stack([rng.multinomial(k, t, size=300) for k, t in zip(rows, model.truths, strict=True)], 1)  # fmt: skip
        misses += marginal_misses(model, rows, labels, SETTINGS[setting](1))
    assert np.all(misses / 4 <= DELTA + slack(1200))


# Continuous predictions


@pytest.mark.parametrize(
    ("slope", "n", "n_bins"), [(1.0, 500, 10), (0.6, 500, 10), (0.3, 2000, 30)]
)
def test_continuous_models_are_refuted_falsely_at_most_as_often_as_allowed(slope, n, n_bins):
    # In fixed bins the tolerance is the error of the population in those bins.
    model, runs = ContinuousModel(slope, n_bins), 250
    truth = max(model.error(2.0), 1e-6)
    f, y = model.draw_rows(n, runs, np.random.default_rng(5))
    tables = (tabulate(*rows, bins=EqualWidth(n_bins)) for rows in zip(y, f, strict=True))
    verdicts = [certificates.certify(table, max_error=truth).verdict for table in tables]
    assert "certified" not in verdicts
    assert verdicts.count("refuted") / runs <= DELTA + slack(runs)


@pytest.mark.parametrize("slope", [1.0, 0.6])
def test_bins_chosen_by_the_predictions_are_refuted_falsely_at_most_as_often_as_allowed(slope):
    # There the tolerance is the error at these very predictions, in these very bins.
    model, runs = ContinuousModel(slope, 1), 100
    f, y = model.draw_rows(1000, runs, np.random.default_rng(6))
    wrong = 0
    for p, labels in zip(f, y, strict=True):
        found = certify(labels, p, target="sample")
        bin_of = found.table.bins[0].index(p)
        gap = np.bincount(bin_of, sloped(p, slope) - p)
        truth = math.sqrt(np.sum(gap**2 / np.bincount(bin_of)) / 1000)
        wrong += found.lower_bound > truth + 1e-12
        assert found.upper_bound == 1.0
        assert found.target == "sample"
    assert wrong / runs <= DELTA + slack(runs)


@pytest.mark.parametrize("n", [1_000, 10_000])
def test_continuous_models_that_are_far_off_are_refuted(n):
    f, y = ContinuousModel(0.3, 1).draw_rows(n, 20, np.random.default_rng(7))
    verdicts = [certify(*rows, max_error=0.05).verdict for rows in zip(y, f, strict=True)]
    assert verdicts.count("refuted") >= 19


# An adversary: exact miss rates by enumeration, made as large as a search can make them


@pytest.mark.parametrize("error", [Squared, Absolute])
@pytest.mark.parametrize("side", ["left", "right"], ids=["upper", "lower"])
@pytest.mark.parametrize("size", [(4,), (9,), (40,), (5, 20), (10, 10, 10), (1, 1, 1, 30)])
def test_no_adversary_makes_a_bound_of_the_sample_miss_too_often(side, size, error):
    counts = np.array(size)
    rng = np.random.default_rng([8, len(side), *size])
    setting = Setting("sample", DELTA)
    worst = worst_found(
        lambda model: exact_misses(model, counts, setting, side, error), counts.size, rng, 30, 50
    )
    assert worst <= DELTA


@pytest.mark.parametrize("error", [Squared, Absolute])
@pytest.mark.parametrize("side", ["left", "right"], ids=["upper", "lower"])
@pytest.mark.parametrize(("n", "n_bins"), [(5, 2), (15, 2), (5, 3)])
def test_no_adversary_makes_a_bound_of_the_population_miss_too_often(side, n, n_bins, error):
    rng = np.random.default_rng([9, len(side), n])
    setting = Setting("population", DELTA)

    def misses(model):
        known = replace(setting, least_mass=model.shares.min())
        settings = (setting, known) if error is Squared else (setting,)
        return max(population_misses(model, n, each, side, error) for each in settings)

    assert worst_found(misses, n_bins, rng, 4, 6) <= DELTA


# The page


def test_the_page_has_every_table_and_no_other():
    assert list(sections(PAGE.read_text(encoding="utf-8"))) == list(study())


@pytest.mark.parametrize(("name", "n", "n_bins"), [("calibrated", 1_000, 10)])
def test_the_page_reports_the_bounds_that_a_fresh_simulation_gives(name, n, n_bins):
    said = parsed(sections(PAGE.read_text(encoding="utf-8"))[f"Mean bound, {name}"])
    fresh = tightness_column(TIGHTNESS[name](n_bins), n, 0.15, ("test", name))
    for method, found in fresh.items():
        mean = said[method][f"n={n:,} B={n_bins}"][0]
        spread = 4.5 * found.std() * math.sqrt(1 / found.size + 1 / 1000)
        assert mean == pytest.approx(found.mean(), abs=spread + 0.0006), method


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_page_reports_the_coverage_that_a_fresh_simulation_gives(setting):
    said = parsed(sections(PAGE.read_text(encoding="utf-8"))[f"Coverage, {setting}"])
    assert min(min(cell) for row in said.values() for cell in row.values()) >= 1 - DELTA
    for name in ("mild", "sparse"):
        fresh = coverage_cell(MODELS[name](10), 300, SETTINGS[setting](10), 0.3, ("page", name))
        np.testing.assert_allclose(said[name]["n=300 B=10"], fresh, atol=0.012)


def test_the_tightness_is_what_was_asked_for():
    said = sections(PAGE.read_text(encoding="utf-8"))
    upper = parsed(said["Mean bound, calibrated"])["certificate, population"]
    limits = (("n=300 B=10", 0.1), ("n=1,000 B=10", 0.053), ("n=10,000 B=10", 0.0168))
    for column, most in limits:
        assert upper[column][0] <= most, column
    lower = parsed(said["Mean lower bound, strong"])
    assert lower["l2"]["n=1,000 B=10"][0] >= 0.083
    assert lower["l1"]["n=1,000 B=10"][0] >= 0.055


@pytest.mark.parametrize(("error", "n_bins"), [(0.1, 5), (0.05, 10)])
def test_the_page_reports_the_rows_that_planning_asks_for(error, n_bins):
    said = parsed(sections(PAGE.read_text(encoding="utf-8"))["Rows needed"])
    assert said[f"{error:g}"][f"{n_bins} bins"][0] == samples_to_certify(error, n_bins)
