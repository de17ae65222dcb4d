"""Axes: their ends, their ticks, and the histogram under them."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import RARE, RARE_EVENTS

from calibrant.display import ReliabilityDisplay

pytestmark = pytest.mark.usefixtures("closed_figures")


def test_rare_events_are_looked_at_closely_unless_told_otherwise():
    near = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5)
    assert near.ax_.get_xlim()[1] < 0.25
    far = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, zoom=False)
    assert far.ax_.get_xlim()[1] > 1


def test_a_logit_axis_has_readable_ticks_and_no_infinite_value():
    display = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, scale="logit")
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "logit"
    ticks = list(display.ax_.xaxis.get_major_locator()())
    assert 0.01 in ticks
    assert np.isfinite(display.lines_[0].get_xydata()).all()


def test_the_histogram_is_split_by_outcome_if_asked():
    display = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, counts="outcome")
    filled = [patch.get_data().values for patch in display.counts_ax_.patches if patch.get_fill()]
    assert filled[0].sum() == pytest.approx(RARE_EVENTS.sum())
    assert -filled[1].sum() == pytest.approx((1 - RARE_EVENTS).sum())
