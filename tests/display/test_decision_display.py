"""DecisionDisplay: the numbers are those of stats, and what is drawn is them."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from conftest import optional

matplotlib = optional("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
RNG = np.random.default_rng(0)
P = RNG.beta(1, 4, size=500)
Y = (RNG.uniform(size=500) < P).astype(int)


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    yield
    plt.close("all")


def test_what_is_drawn_is_the_curve_beside_both_plans():
    display = cb.DecisionDisplay.from_predictions(Y, P)
    curve = cb.decision_curve(Y, P)
    assert np.array_equal(display.lines_[0].get_ydata(), curve.net_benefit)
    everybody, nobody = display.ax_.get_lines()[1:]
    assert np.array_equal(everybody.get_ydata(), curve.treat_all)
    assert set(nobody.get_ydata()) == {0}
    low, high = display.ax_.get_ylim()
    assert low < 0 < curve.net_benefit.max() < high


def test_models_share_axes_and_have_names():
    display = cb.DecisionDisplay.from_predictions(Y, {"$a_1$": P, "b": P**2}, band=False)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == [r"\$a_1\$", "b", "act on everybody", "act on nobody"]
    assert not display.ax_.collections
    display.figure_.canvas.draw()
    assert display.plot(display.ax_).ax_ is display.ax_


def test_nonsense_is_refused():
    with pytest.raises(ex.InvalidArgumentError, match="at least one DecisionCurve"):
        cb.DecisionDisplay({})
    with pytest.raises(ex.InvalidArgumentError, match="matplotlib axes"):
        cb.DecisionDisplay.from_predictions(Y, P, draw=False).plot("here")
