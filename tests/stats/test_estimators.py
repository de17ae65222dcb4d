"""Any norm from l1 to the maximum gives a number that is right: nothing underflows."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant import exceptions as ex

POWERS = (1, 1.5, 2, 3, 10, 400, 1e4, 1e6, 1e300, 1.7e308, "max")
HUGE = [power for power in POWERS if power not in (1, 2)]


def off_by(gaps, rows=1000):
    """Return labels and predictions of one output for each gap: 0.5 said, 0.5 + gap happened."""
    levels = 0.2 + 0.05 * np.arange(len(gaps))
    p = np.repeat(levels, rows)
    events = np.round((levels + gaps) * rows).astype(int)
    y = np.concatenate([np.arange(rows) < n for n in events])
    return y, p


def exact_norm(gaps, masses, power):
    with localcontext() as context:
        context.prec = 60
        total = sum(
            Decimal(mass) * Decimal(gap) ** Decimal(power)
            for mass, gap in zip(masses, gaps, strict=True)
            if gap > 0
        )
        return float(total ** (1 / Decimal(power))) if total else 0.0


@pytest.mark.parametrize("norm", HUGE)
def test_one_gap_is_the_error_in_every_norm(norm):
    y, p = off_by([0.1])
    assert cb.calibration_error(y, p, bins=1, norm=norm).value == pytest.approx(0.1, rel=1e-12)


@pytest.mark.parametrize("norm", [1.5, 3, 10, 400, 1e4, 1e6])
def test_norms_agree_with_sixty_digits(norm):
    gaps = [0.3, 0.1, 0.299, 0.0]
    y, p = off_by(gaps)
    result = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm)
    assert result.value == pytest.approx(exact_norm(gaps, [0.25] * 4, norm), rel=1e-9)


@given(
    gaps=st.lists(st.integers(0, 500), min_size=1, max_size=6),
    power=st.floats(1, 1e6),
)
@settings(max_examples=60, deadline=None)
def test_any_norm_lies_between_the_largest_gap_and_its_share(gaps, power):
    y, p = off_by(np.array(gaps) / 1000)
    value = cb.calibration_error(y, p, bins=cb.Distinct(), norm=power, debias=False).value
    largest = max(gaps) / 1000
    assert value <= largest + 1e-9
    assert value >= largest * (1 / len(gaps)) ** (1 / power) - 1e-9


def test_errors_intervals_and_floors_rise_with_the_norm():
    rng = np.random.default_rng(5)
    probs = rng.dirichlet(np.ones(3), size=900)
    y = rng.integers(3, size=900)
    results = [
        cb.calibration_error(
            y, probs, kind="marginal", bins=7, norm=norm, debias=False, class_weight=[1, 0, 2]
        )
        for norm in POWERS
    ]
    boxes = [each.confidence_interval(method="box", target="sample") for each in results]
    rising = [
        [each.value for each in results],
        [each.noise_floor for each in results],
        [each.per_class[0] for each in results],
        *zip(*boxes, strict=True),
    ]
    for values in rising:
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) >= -1e-12)
        assert 0 < values[0] <= values[-1] <= 1
    assert results[-2].value == pytest.approx(results[-1].value, rel=1e-9)
    assert results[-2].noise_floor == results[-1].noise_floor


def test_a_class_of_no_weight_has_no_say_in_a_high_norm():
    probs = np.tile([0.9, 0.05, 0.05], (300, 1))
    y = np.arange(300) % 3
    result = cb.calibration_error(
        y, probs, kind="marginal", norm=500, bins=cb.Distinct(), class_weight=[0, 1, 1]
    )
    assert result.value == pytest.approx(1 / 3 - 0.05)
    assert result.per_class[0] == pytest.approx(0.9 - 1 / 3)


@pytest.mark.parametrize("norm", [3, 400, 1e6])
@pytest.mark.parametrize("method", ["box", "percentile", "basic"])
def test_intervals_of_high_norms_do_not_collapse(norm, method):
    y, p = off_by([0.1, 0.02])
    result = cb.calibration_error(y, p, bins=cb.Distinct(), norm=norm)
    low, high = result.confidence_interval(method=method, rng=0, n_resamples=200)
    assert 0.05 < low < 0.1 < high < 0.15


def test_predictions_that_are_all_right_score_zero_in_every_norm():
    y, p = np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 1.0, 0.0])
    for norm in POWERS:
        result = cb.calibration_error(y, p, bins=2, norm=norm)
        assert (result.value, result.noise_floor) == (0, 0)


def test_a_single_row_scores_its_gap_in_every_norm():
    for norm in HUGE:
        result = cb.calibration_error([1], [0.3], norm=norm)
        assert result.value == pytest.approx(0.7)
        assert 0 < result.noise_floor < 1


@pytest.mark.parametrize(
    ("norm", "name"),
    [(3, "l3"), (1.5, "l1.5"), (400, "l400"), (1 + 1e-9, "l1.000000001"), (10**400, "max")],
)
def test_a_norm_is_named_with_all_its_digits(norm, name):
    assert cb.calibration_error([0, 1], [0.2, 0.7], norm=norm).norm == name


@pytest.mark.parametrize("norm", [None, [2], 1j, "400"])
def test_what_is_no_number_is_no_norm(norm):
    with pytest.raises(ex.InvalidArgumentError, match="norm must be"):
        cb.calibration_error([0, 1], [0.2, 0.7], norm=norm)
