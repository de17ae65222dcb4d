"""Decompositions of a score add up, and read as the score."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb

RNG = np.random.default_rng(8)
P = RNG.uniform(size=800)
Y = RNG.uniform(size=800) < P**1.5


@pytest.mark.parametrize("debias", [False, True])
@pytest.mark.parametrize("bins", [1, 10, "distinct"])
def test_the_parts_of_the_brier_score_add_up(bins, debias):
    parts = cb.brier_decomposition(Y, P, bins=bins, debias=debias)
    total = parts.miscalibration - parts.discrimination + parts.uncertainty
    assert total == pytest.approx(parts.value, abs=1e-14)
    assert float(parts) == pytest.approx(np.mean((Y - P) ** 2), abs=1e-12)
    assert (parts.rule, parts.is_debiased) == ("brier", debias)


def test_miscalibration_is_the_squared_error_of_the_same_bins():
    parts = cb.brier_decomposition(Y, P, bins=10, debias=True)
    assert parts.miscalibration == cb.calibration_error(Y, P, bins=10).squared


def test_scores_of_one_rule_compare_and_those_of_two_do_not():
    curve = cb.stats.isotonic_curve(cb.tabulate(Y, P, bins="distinct"))
    worse = cb.brier_decomposition(Y, P**3)
    assert curve.brier < worse
    with pytest.raises(cb.exceptions.InvalidArgumentError, match="brier score and log score"):
        assert curve.brier < curve.log
