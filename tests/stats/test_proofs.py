"""Which bounds a table gets: by its norm, its classes, and what is known of its outputs."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

RNG = np.random.default_rng(41)
LEVELS = RNG.integers(1, 10, size=4000) / 10
GOOD = RNG.uniform(size=4000) < LEVELS
BAD = RNG.uniform(size=4000) < LEVELS**1.5
SCORES = RNG.uniform(size=4000)


def test_a_continuous_model_can_be_refuted_but_never_certified():
    refuted = cb.certify(RNG.uniform(size=4000) < SCORES**2, SCORES, max_error=0.05)
    assert refuted.verdict == "refuted"
    assert refuted.upper_bound == 1.0
    calibrated = cb.certify(RNG.uniform(size=4000) < SCORES, SCORES, max_error=0.9)
    assert calibrated.verdict == "undecided"
    assert "can be refuted, never certified" in calibrated.reason
    assert any("Proposition 3.2" in each for each in calibrated.assumptions)


@pytest.mark.parametrize("bins", [cb.EqualWidth(5), cb.EqualMass(5)])
@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_bins_that_mix_predictions_never_certify(bins, norm):
    certificate = cb.certify(SCORES > 2, SCORES, max_error=0.99, bins=bins, norm=norm)
    assert certificate.verdict != "certified"


@pytest.mark.parametrize("bins", [5, cb.EqualWidth(5)])
@pytest.mark.parametrize("target", ["population", "sample"])
def test_a_continuous_model_is_judged_on_the_target_that_was_asked_for(bins, target):
    assert cb.certify(GOOD, SCORES, bins=bins, target=target).target == target


def test_norms_are_ordered():
    bounds = [cb.certify(BAD, LEVELS, norm=norm).upper_bound for norm in ("l1", "l2", "max")]
    assert bounds == sorted(bounds)


def test_knowing_outputs_and_masses_sharpens_the_bound_of_confident_models():
    rng, outputs = np.random.default_rng(5), np.array([0.002, 0.004, 0.01, 0.99, 0.998])
    p = rng.choice(outputs, p=[0.3, 0.1, 0.05, 0.1, 0.45], size=50_000)
    y = rng.uniform(size=p.size) < p
    free = cb.certify(y, p).upper_bound
    declared = cb.certify(y, p, levels=outputs).upper_bound
    known = cb.certify(y, p, levels=outputs, min_bin_mass=0.05).upper_bound
    sample = cb.certify(y, p, target="sample").upper_bound
    assert max(sample, known, declared) < 0.5 * free
    assert free < 0.0095  # no bound without masses can lie below sqrt(3 / n) = 0.0077 for sure


def test_three_classes_are_bounded_one_by_one():
    rng = np.random.default_rng(6)
    probs = np.array([[0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])[
        rng.integers(3, size=5000)
    ]
    y = (rng.uniform(size=(5000, 1)) > np.cumsum(probs, axis=1)).sum(axis=1)
    found = cb.certify(y, probs, kind="marginal")
    assert "class by class" in found.method
    alone = [
        cb.certify(y == k, probs[:, k], confidence_level=1 - 0.05 / 3).upper_bound for k in range(3)
    ]
    assert found.upper_bound == pytest.approx(np.sqrt(np.mean(np.square(alone))))


def test_learned_masses_assume_that_all_outputs_are_in_the_table():
    learned = cb.certify(GOOD, LEVELS, min_bin_mass="learned")
    assert any("no outputs besides" in each for each in learned.assumptions)
    empty = cb.certify(GOOD, LEVELS, min_bin_mass="learned", bins=cb.EqualWidth(100))
    free = cb.certify(GOOD, LEVELS, bins=cb.EqualWidth(100))
    assert free.upper_bound < empty.upper_bound < 1.4 * free.upper_bound, "an empty bin: no gain"


def test_top_label_and_marginal_are_certified():
    probs = np.round(RNG.dirichlet(np.ones(3), size=4000), 1)
    y = (probs.cumsum(axis=1) / probs.sum(axis=1)[:, None] < RNG.uniform(size=(4000, 1))).sum(
        axis=1
    )
    for kind in ("top-label", "marginal"):
        assert cb.certify(y, probs, kind=kind, max_error=0.1).verdict == "certified"
        assert cb.certify((y + 1) % 3, probs, kind=kind, max_error=0.1).verdict == "refuted"
    one = cb.certify(y, probs, kind="marginal", class_weight={0: 1})
    alone = cb.certify(y == 0, probs[:, 0])
    assert one.upper_bound == pytest.approx(alone.upper_bound, abs=1e-4)


def test_tables_of_parts_are_certified_together():
    bins = cb.EqualWidth(10)
    parts = [cb.tabulate(GOOD[i::4], LEVELS[i::4], bins=bins) for i in range(4)]
    whole = cb.certify(GOOD, LEVELS, bins=bins, max_error=0.08)
    assert cb.stats.certify(sum(parts), max_error=0.08).upper_bound == pytest.approx(
        whole.upper_bound
    )


@pytest.mark.parametrize("max_error", [0.05, None])
@pytest.mark.parametrize("norm", ["l2", "l1", "max"])
def test_labels_that_agree_too_well_do_not_pass(norm, max_error):
    levels = np.arange(1, 10) / 10
    p = np.repeat(levels, 100)
    y = np.concatenate([np.arange(100) < round(100 * level) for level in levels])
    certificate = cb.certify(y, p, max_error=max_error, norm=norm)
    assert certificate.agrees_too_well
    assert certificate.verdict == (None if max_error is None else "undecided")
    assert "were not used before" in certificate.reason
    assert cb.Certificate.from_json(certificate.to_json()).recheck()


def test_rare_events_of_which_none_happened_do_not_agree_too_well():
    """No bin expected a whole event; that none happened is no agreement but a lower rate."""
    p = np.repeat(np.arange(1, 51) / 10_000, 100)
    certificate = cb.certify(np.zeros(p.size), p, norm="max", target="sample")
    assert not certificate.agrees_too_well


def test_the_largest_error_of_the_sample_is_for_one_class_at_a_time():
    probs = np.column_stack([1 - LEVELS, LEVELS])
    with pytest.raises(ex.NoSuchEstimatorError, match="one class at a time"):
        cb.certify(GOOD.astype(int), probs, kind="marginal", target="sample", norm="max")
