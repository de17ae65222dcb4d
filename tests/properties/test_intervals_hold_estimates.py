"""A printed estimate never lies outside its own printed interval."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import calibrant as cb
from calibrant.cli.measure import describe

PRINTED = re.compile(r"= ([\d.]+) \[([\d.]+), ([\d.]+)\]")
CASES = settings(max_examples=150, deadline=None)


@st.composite
def measured(draw):
    """Return a result of few rows: any kind, norm, debiasing, weights and number of bins."""
    n = draw(st.integers(1, 40))
    n_classes = draw(st.sampled_from([1, 1, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    outputs = draw(st.sampled_from(["continuous", "few", "sure"]))
    if n_classes == 1:
        p, kind = rng.uniform(size=n), "binary"
        agree = draw(st.sampled_from(["calibrated", "right", "wrong", "biased"]))
        p = {"continuous": p, "few": np.round(p * 4) / 4, "sure": np.round(p)}[outputs]
        chance = {"calibrated": p, "right": np.round(p), "wrong": 1 - np.round(p), "biased": p**3}
        y = (rng.uniform(size=n) < chance[agree]).astype(int)
    else:
        p = rng.dirichlet(np.full(3, 0.5), size=n)
        y, kind = rng.integers(3, size=n), draw(st.sampled_from(["top-label", "marginal"]))
    norm = draw(st.sampled_from(["l1", "l2", "max", 1.5, 3, 400]))
    options = {
        "kind": kind,
        "norm": norm,
        "debias": draw(st.sampled_from([None, False, *[True] * (norm in ("l1", "l2"))])),
        "bins": draw(st.sampled_from(["auto", 1, 2, 7, cb.EqualWidth(5), cb.Distinct()])),
        "sample_weight": draw(st.sampled_from([None, rng.exponential(size=n) + 1e-3])),
    }
    if kind == "marginal":
        options["class_weight"] = draw(st.sampled_from([None, [1, 0, 0], [0.2, 5, 1]]))
    return cb.calibration_error(y, p, **options)


@given(result=measured())
@CASES
def test_estimates_are_printed_inside_their_intervals(result):
    value, low, high = map(float, PRINTED.search(str(result)).groups())
    assert 0 <= low <= value <= high <= 1
    facts = result.to_dict(0.5)
    assert facts["confidence_interval"][0] <= facts["value"] <= facts["confidence_interval"][1]


@pytest.mark.filterwarnings("ignore::calibrant.exceptions.UnresolvedWarning")
@given(
    result=measured(),
    level=st.sampled_from([0.01, 0.3, 0.5, 0.9, 0.999999]),
    target=st.sampled_from(["population", "sample"]),
    method=st.sampled_from(["auto", "box"]),
)
@CASES
def test_estimates_lie_inside_their_intervals_at_every_level(result, level, target, method):
    interval = result.confidence_interval(level, method, target=target)
    assert 0 <= interval.low <= interval.high <= 1
    assert result.value in interval


def inflated():
    """Return rows of a calibrated model whose plug-in error lies above every plausible one."""
    rng = np.random.default_rng(0)
    p = np.repeat(rng.uniform(size=200), 5)
    y = rng.uniform(size=p.size) < p
    return y, p


def test_a_plug_in_estimate_above_every_plausible_error_says_so():
    y, p = inflated()
    debiased = cb.calibration_error(y, p, bins=cb.Distinct())
    plug_in = cb.calibration_error(y, p, bins=cb.Distinct(), debias=False)
    reach = debiased.confidence_interval().high
    assert plug_in.value > reach, "these rows are what the test is about"
    assert plug_in.confidence_interval().high == plug_in.value
    assert "the interval ends at the plug-in estimate, which chance inflates" in str(plug_in)
    assert "The interval ends at the plug-in estimate, which chance" in describe(plug_in, 0.95)
    for other in (str(debiased), describe(debiased, 0.95)):
        assert "inflates" not in other


def test_a_plug_in_estimate_inside_its_interval_needs_no_word():
    rng = np.random.default_rng(1)
    p = np.round(rng.uniform(size=2000), 1)
    result = cb.calibration_error(
        rng.uniform(size=2000) < p**2, p, bins=cb.Distinct(), debias=False
    )
    assert "inflates" not in str(result) + describe(result, 0.95)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    weighted=st.booleans(),
    simultaneous=st.booleans(),
    level=st.sampled_from([0.01, 0.5, 0.95, 0.999]),
)
@example(seed=0, n=1, weighted=True, simultaneous=True, level=0.01)
@CASES
def test_event_rates_lie_inside_their_limits(seed, n, weighted, simultaneous, level):
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    curve = cb.reliability_curve(
        rng.uniform(size=n) < p,
        p,
        sample_weight=rng.exponential(size=n) + 1e-3 if weighted else None,
        confidence_level=level,
        simultaneous=simultaneous,
    )
    assert (curve.low <= curve.event_rate).all()
    assert (curve.event_rate <= curve.high).all()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 60), level=st.sampled_from([0.05, 0.95]))
@CASES
def test_differences_and_bin_free_errors_lie_inside_their_limits(seed, n, level):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(size=(2, n))
    y = rng.uniform(size=n) < a
    for _, found in cb.compare(y, a, b, bins=4, confidence_level=level):
        assert found.low <= found.value <= found.high
    free = cb.bin_free_bounds(y, a, confidence_level=level)
    for bound in (free.cumulative, free.cutoff, free.smooth):
        assert bound.low <= bound.value <= bound.high
