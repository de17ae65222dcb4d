"""DecisionDisplay and SelectiveDisplay: the numbers are those of stats, and what is drawn is them."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex

pytestmark = pytest.mark.usefixtures("closed_figures")

RARE = np.random.default_rng(0).beta(1, 4, size=500)
RARE_EVENTS = (np.random.default_rng(1).uniform(size=500) < RARE).astype(int)
P = np.random.default_rng(0).uniform(size=500)
Y = (np.random.default_rng(1).uniform(size=500) < P).astype(int)


def test_what_is_drawn_is_the_decision_curve_beside_both_plans():
    display = cb.DecisionDisplay.from_predictions(RARE_EVENTS, RARE)
    curve = cb.decision_curve(RARE_EVENTS, RARE)
    assert np.array_equal(display.lines_[0].get_ydata(), curve.net_benefit)
    everybody, nobody = display.ax_.get_lines()[1:]
    assert np.array_equal(everybody.get_ydata(), curve.treat_all)
    assert set(nobody.get_ydata()) == {0}
    low, high = display.ax_.get_ylim()
    assert low < 0 < curve.net_benefit.max() < high


def test_decision_curves_of_models_share_axes_and_have_names():
    display = cb.DecisionDisplay.from_predictions(
        RARE_EVENTS, {"$a_1$": RARE, "b": RARE**2}, band=False
    )
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [r"\$a_1\$", "b", "act on everybody", "act on nobody"]
    assert not display.ax_.collections
    display.figure_.canvas.draw()
    assert display.plot(display.ax_).ax_ is display.ax_


def test_decision_curves_of_nothing_and_axes_of_words_are_refused():
    with pytest.raises(ex.InvalidArgumentError, match="at least one DecisionCurve"):
        cb.DecisionDisplay({})
    with pytest.raises(ex.InvalidArgumentError, match="matplotlib axes"):
        cb.DecisionDisplay.from_predictions(RARE_EVENTS, RARE, draw=False).plot("here")


def test_what_is_drawn_is_the_selective_curve():
    display = cb.SelectiveDisplay.from_predictions(Y, P)
    curve = cb.selective_curve(Y, P)
    assert np.array_equal(display.lines_[0].get_xdata(), curve.coverage)
    assert np.array_equal(display.lines_[0].get_ydata(), curve.accuracy)
    assert display.ax_.get_legend() is None
    assert len(display.ax_.collections) == 1


def test_selective_curves_of_models_share_axes_and_have_names():
    display = cb.SelectiveDisplay.from_predictions(Y, {"$a_1$": P, "b": P**2}, band=False)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert [text.split(",")[0] for text in texts] == [r"\$a_1\$", "b"]
    assert not display.ax_.collections
    display.figure_.canvas.draw()
    again = display.plot(display.ax_)
    assert again.ax_ is display.ax_


def test_selective_curves_of_groups_are_drawn_by_their_names_and_nonsense_is_refused():
    groups = cb.selective_curve(Y, P, by=np.where(P > 0.3, "a", "b"))
    display = cb.SelectiveDisplay({str(key): curve for key, curve in groups.items()}).plot()
    assert len(display.lines_) == 2
    with pytest.raises(ex.InvalidArgumentError, match="curves by their names"):
        cb.SelectiveDisplay.from_predictions(Y, P, by=np.where(P > 0.3, "a", "b"))
    with pytest.raises(ex.InvalidArgumentError, match="at least one SelectiveCurve"):
        cb.SelectiveDisplay({})
