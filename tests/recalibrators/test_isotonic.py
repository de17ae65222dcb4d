"""Isotonic calibration equals scikit-learn's; Venn-Abers equals its definition."""

from __future__ import annotations

import numpy as np
import pytest
from shared import Y, Z, binary_rows
from sklearn.isotonic import IsotonicRegression

from calibrant.recalibrators import IsotonicCalibration, VennAbers, best_recalibrator
from calibrant.recalibrators.isotonic import gap_slopes


def tied_rows(seed, n=60, levels=12):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, levels + 1, size=n) / levels
    return p, (rng.uniform(size=n) < p).astype(int), rng.exponential(size=n)


def test_isotonic_calibration_equals_the_reference_values():
    out = IsotonicCalibration().fit(Z, Y).predict_proba(Z)
    np.testing.assert_allclose(out, np.array([0, 0, 1, 1, 1, 2, 2, 2, 3, 3]) / 3, atol=1e-15)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("weighted", [False, True])
def test_isotonic_calibration_equals_scikit_learns_everywhere(seed, weighted):
    p, y, w = tied_rows(seed)
    w = w if weighted else None
    theirs = IsotonicRegression(out_of_bounds="clip").fit(p, y, w)
    grid = np.linspace(0, 1, 501)
    ours = IsotonicCalibration().fit(p, y, w)
    np.testing.assert_allclose(ours.predict_proba(grid), theirs.predict(grid), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_pooled_values_are_the_max_min_of_means(seed):
    p, y, w = tied_rows(seed, n=25)
    values = np.unique(p)
    total = np.array([w[p == v].sum() for v in values])
    happened = np.array([(w * y)[p == v].sum() for v in values])
    k = values.size
    expected = [
        max(
            min(happened[a:b].sum() / total[a:b].sum() for b in range(i + 1, k + 1))
            for a in range(i + 1)
        )
        for i in range(k)
    ]
    for interpolation in ("linear", "step"):
        fitted = IsotonicCalibration(interpolation).fit(p, y, w)
        np.testing.assert_allclose(fitted.predict_proba(values), expected, atol=1e-12)


def test_steps_are_finitely_many_and_lines_between_centres_have_no_plateau():
    p, y = binary_rows(500)
    grid = np.linspace(p.min(), p.max(), 2001)
    steps = IsotonicCalibration("step").fit(p, y)
    assert set(steps.predict_proba(grid)) <= set(steps.levels_)
    np.testing.assert_array_equal(steps.predict_proba(grid), steps.levels_[steps.bins_.index(grid)])
    assert steps.effective_n_bins_ == steps.levels_.size
    centred = IsotonicCalibration("centred").fit(p, y)
    inside = (grid > centred.x_[0]) & (grid < centred.x_[-1])
    assert (np.diff(centred.predict_proba(grid[inside])) > 0).all()


def test_levels_belong_to_steps_only():
    fitted = IsotonicCalibration().fit(Z, Y)
    with pytest.raises(AttributeError, match="step"):
        _ = fitted.levels_
    assert not hasattr(fitted, "bins_")


def test_venn_abers_equals_the_reference_values():
    venn = VennAbers().fit(Z, Y)
    p0, p1 = venn.predict_interval([0.55, 0.05, 0.95])
    np.testing.assert_allclose(p0, [0.5, 0, 2 / 3], atol=1e-15)
    np.testing.assert_allclose(p1, [0.75, 1 / 3, 1], atol=1e-15)
    np.testing.assert_allclose(
        venn.predict_proba([0.55, 0.05, 0.95]), [0.6, 0.25, 0.75], atol=1e-15
    )


def by_definition(p, y, s):
    """Fit isotonic regression with the new row, once for each label, and read it off there."""
    both = []
    for label in (0, 1):
        model = IsotonicRegression().fit(np.append(p, s), np.append(y, label))
        both.append(model.predict([s])[0])
    return both


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("levels", [5, 12, 1000])
def test_venn_abers_equals_its_definition_on_sets_with_ties(seed, levels):
    p, y, _ = tied_rows(seed, n=40, levels=levels)
    queries = np.unique(np.concatenate((p, np.linspace(0, 1, 23))))
    expected = np.array([by_definition(p, y, s) for s in queries])
    p0, p1 = VennAbers().fit(p, y).predict_interval(queries)
    np.testing.assert_allclose(p0, expected[:, 0], atol=1e-12)
    np.testing.assert_allclose(p1, expected[:, 1], atol=1e-12)
    assert (p0 <= p1 + 1e-12).all()


@pytest.mark.parametrize("seed", range(200))
def test_gap_slopes_equal_the_max_min_formula(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, 14))
    weight = [np.ones(k), rng.integers(1, 5, size=k) * 1.0, rng.exponential(size=k)][seed % 3]
    events = weight * (rng.integers(0, 3, size=k) / 2)
    x, y = np.append(0, np.cumsum(weight)), np.append(0, np.cumsum(events))
    expected = [
        max(
            min((y[r] - y[a] + 1) / (x[r] - x[a] + 1) for r in range(i, k + 1))
            for a in range(i + 1)
        )
        for i in range(k + 1)
    ]
    np.testing.assert_allclose(gap_slopes(x, y), expected, atol=1e-12)


def test_the_interval_of_venn_abers_narrows_with_more_rows():
    widths = []
    for n in (100, 10_000):
        p0, p1 = VennAbers().fit(*binary_rows(n)).predict_interval(np.linspace(0.2, 0.8, 20))
        widths.append((p1 - p0).mean())
    assert widths[1] < widths[0] / 5


@pytest.mark.parametrize("interpolation", ["linear", "step", "centred"])
def test_scores_that_are_almost_zero_are_answered_with_probabilities(interpolation):
    # the slope between two such scores is beyond every float
    p = np.array([0.0, 1e-320, 2e-320, 3e-320, 4e-320, 1e-310] * 10)
    y = np.array([0, 0, 1, 0, 1, 1] * 10)
    fitted = IsotonicCalibration(interpolation=interpolation).fit(p, y)
    answers = fitted.predict_proba(np.concatenate([p, p / 2, 1.5 * p]))
    assert np.all((answers >= 0) & (answers <= 1))
    assert best_recalibrator(y, p).predict_proba(p).max() <= 1
