"""DecisionDisplay: net benefit against the threshold of acting, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibrant.curves import decision_curve
from calibrant.display.drawing import plain
from calibrant.display.lines import LineDisplay
from calibrant.stats import DecisionCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DecisionDisplay(LineDisplay[DecisionCurve]):
    """Net benefit of acting on predictions, beside acting on everybody and on nobody.

    Make one with `from_predictions`, which computes and draws; ``draw=False`` only computes.

    Parameters
    ----------
    curves : mapping from names to DecisionCurve
        Of the same rows: acting on everybody is drawn once.

    Attributes
    ----------
    curves : dict
        All the numbers of the picture.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    lines_ : list of matplotlib Line2D
        One for each curve.

    See Also
    --------
    decision_curve : the numbers alone.

    Examples
    --------
    >>> display = DecisionDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9], draw=False)
    >>> [curve.n for curve in display.curves.values()]
    [4]
    """

    _curve = DecisionCurve
    _measure = staticmethod(decision_curve)
    _name = "model"
    _axes = ("threshold", "net_benefit")
    _labels = ("threshold: act from this probability on", "net benefit, events found a row")
    _legend = "upper right"

    def _label(self, name: str | None, curve: DecisionCurve) -> str:
        return plain("model" if name is None else name)

    def _finish(self, ax: Axes) -> None:
        first = next(iter(self.curves.values()))
        ax.plot(first.threshold, first.treat_all, color="0.45", lw=1, label="act on everybody")
        ax.axhline(0, color="0.45", lw=1, ls=":", label="act on nobody")
        # Acting on everybody falls without limit, and bands of rare alarms are wide: the model and
        # the base rate say what is worth seeing.
        top = max(
            first.n_events / first.n, *(float(c.net_benefit.max()) for c in self.curves.values())
        )
        top = max(top, 0.01)
        lowest = min(float(curve.net_benefit.min()) for curve in self.curves.values())
        ax.set_ylim(max(lowest, -top) - 0.1 * top, 1.1 * top)
        ax.set_xlim(0, float(np.ceil(10 * first.threshold[-1]) / 10))
