"""PitDisplay: the histogram of the probability integral transform, as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._options import check_flag
from calibrant.display.drawing import SIZE, axes_or_new, look_of, write
from calibrant.exceptions import InvalidArgumentError
from calibrant.regression import pit_histogram
from calibrant.stats import PitHistogram

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure

BEYOND = "#b2182b"
"""Cells that chance does not explain; they have a star as well, for those who do not see red."""


class PitDisplay:
    """Outcomes between predicted quantiles: level if calibrated, a cup if forecasts are too narrow.

    Make one with `from_predictions`, which computes and draws; ``draw=False`` only computes.

    Parameters
    ----------
    histogram : PitHistogram

    Attributes
    ----------
    histogram : PitHistogram
        All the numbers of the picture.
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    bars_ : matplotlib BarContainer
        One for each cell.

    See Also
    --------
    pit_histogram : the numbers alone.

    Examples
    --------
    >>> options = {"classes": (0.25, 0.75), "draw": False}
    >>> PitDisplay.from_predictions([0.0, 5.0], [[-1, 1], [-1, 1]], **options).histogram.count
    array([0., 1., 1.])
    """

    ax_: Axes
    figure_: Figure
    bars_: BarContainer

    def __init__(self, histogram: PitHistogram) -> None:
        if not isinstance(histogram, PitHistogram):
            raise InvalidArgumentError(
                f"A display needs a PitHistogram, such as pit_histogram gives; got "
                f"{histogram!r:.60}. Make it with from_predictions."
            )
        self.histogram = histogram

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.histogram!r}>"

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any = None,
        *,
        ax: Axes | None = None,
        draw: bool = True,
        band: bool = True,
        **options: Any,
    ) -> PitDisplay:
        """Compute and draw the histogram of outcomes among predicted quantiles.

        Parameters
        ----------
        ax, band
            As in `plot`.
        draw : bool
            False computes only.
        y_true, y_prob, **options
            As in `calibrant.pit_histogram`.
        """
        check_flag("draw", draw)
        display = cls(pit_histogram(y_true, y_prob, **options))
        return display.plot(ax, band=band) if draw else display

    def plot(self, ax: Axes | None = None, *, band: bool = True) -> PitDisplay:
        """Draw the density of each cell, and the band in which chance keeps all of them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        band : bool
            Whether to draw the band of calibrated quantiles.
        """
        check_flag("band", band)
        ax = axes_or_new(ax, figsize=SIZE, layout="constrained")
        cells, beyond = self.histogram, self.histogram.beyond_chance
        edges = np.append(cells.left, 1.0)
        self.bars_ = ax.bar(
            cells.left,
            cells.density,
            cells.right - cells.left,
            align="edge",
            color=np.where(beyond, BEYOND, look_of(ax, 0)["color"]).tolist(),
            edgecolor=ax.get_facecolor(),
            linewidth=0.8,
            alpha=0.75,
        )
        if band:  # in a grey that is seen on any ground
            low, high = (np.append(limit, limit[-1]) for limit in (cells.low, cells.high))
            ax.fill_between(edges, low, high, step="post", color="0.5", alpha=0.3, lw=0)
            ax.axhline(1.0, color="0.5", lw=1, ls="--")
        for place in np.flatnonzero(beyond):
            middle = (cells.left[place] + cells.right[place]) / 2
            at = (middle, cells.density[place])
            ax.annotate("*", at, (0, -1), textcoords="offset points", ha="center")
        ax.set_xlim(0, 1)
        ax.margins(y=0.12)  # room for the stars; bars stand on 0, and axes that share it fit all
        write(ax.set_xlabel("level of the outcome in its forecast (PIT)"))
        write(ax.set_ylabel("density"))
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self
