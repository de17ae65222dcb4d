"""SelectiveDisplay: accuracy against coverage, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.curves import selective_curve
from calibrant.display.drawing import plain
from calibrant.display.lines import LineDisplay
from calibrant.stats import SelectiveCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class SelectiveDisplay(LineDisplay[SelectiveCurve]):
    """How often the model is right, against the share of rows that it answers.

    Make one with `from_predictions`, which computes and draws; ``draw=False`` only computes.

    Parameters
    ----------
    curves : mapping from names to SelectiveCurve

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
    selective_curve : the numbers alone.

    Examples
    --------
    >>> display = SelectiveDisplay.from_predictions([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9], draw=False)
    >>> [curve.n for curve in display.curves.values()]
    [4]
    """

    _curve = SelectiveCurve
    _measure = staticmethod(selective_curve)
    _axes = ("coverage", "accuracy")
    _labels = ("coverage: share of rows that are answered", "share of answers that are right")
    _legend = "lower left"

    def _label(self, name: str | None, curve: SelectiveCurve) -> str:
        return "_" if name is None else f"{plain(name)}, AURC {curve.aurc:.3f}"

    def _finish(self, ax: Axes) -> None:
        ax.set_xlim(0, 1)
        # limits of the few surest rows reach far down and would flatten everything else
        lowest = min(
            float(curve.low[curve.coverage >= 0.05].min()) for curve in self.curves.values()
        )
        ax.set_ylim(max(lowest - 0.03, 0.0), 1.005)
