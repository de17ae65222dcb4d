"""SelectiveDisplay: the numbers are those of stats, and what is drawn is them."""

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
P = RNG.uniform(size=500)
Y = (RNG.uniform(size=500) < P).astype(int)


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    yield
    plt.close("all")


def test_what_is_drawn_is_the_curve():
    display = cb.SelectiveDisplay.from_predictions(Y, P)
    curve = cb.selective_curve(Y, P)
    assert np.array_equal(display.lines_[0].get_xdata(), curve.coverage)
    assert np.array_equal(display.lines_[0].get_ydata(), curve.accuracy)
    assert display.ax_.get_legend() is None
    assert len(display.ax_.collections) == 1


def test_models_share_axes_and_have_names():
    display = cb.SelectiveDisplay.from_predictions(Y, {"$a_1$": P, "b": P**2}, band=False)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert [text.split(",")[0] for text in texts] == [r"\$a_1\$", "b"]
    assert not display.ax_.collections
    display.figure_.canvas.draw()
    again = display.plot(display.ax_)
    assert again.ax_ is display.ax_


def test_groups_are_drawn_by_their_names_and_nonsense_is_refused():
    groups = cb.selective_curve(Y, P, by=np.where(P > 0.3, "a", "b"))
    display = cb.SelectiveDisplay({str(key): curve for key, curve in groups.items()}).plot()
    assert len(display.lines_) == 2
    with pytest.raises(ex.InvalidArgumentError, match="curves by their names"):
        cb.SelectiveDisplay.from_predictions(Y, P, by=np.where(P > 0.3, "a", "b"))
    with pytest.raises(ex.InvalidArgumentError, match="at least one SelectiveCurve"):
        cb.SelectiveDisplay({})
