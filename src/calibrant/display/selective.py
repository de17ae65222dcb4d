"""SelectiveDisplay: accuracy against coverage, as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from calibrant._options import check_flag
from calibrant.curves import selective_curve
from calibrant.display.drawing import STYLES, axes_or_new, named_curves, plain, write
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats import SelectiveCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


class SelectiveDisplay:
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

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]

    def __init__(self, curves: Mapping[str | None, SelectiveCurve]) -> None:
        self.curves = named_curves(curves, SelectiveCurve)

    @classmethod
    def from_predictions(
        cls,
        y_true: Any,
        y_prob: Any = None,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        draw: bool = True,
        band: bool = True,
        **options: Any,
    ) -> SelectiveDisplay:
        """Compute and draw the curve of predictions, or of several models.

        Parameters
        ----------
        y_true : array_like of shape (n,)
            Labels.
        y_prob : array_like, or dict of them
            Probabilities, or several models' as ``{name: y_prob}``.
        name : str, optional
            How the legend calls the curve.
        ax, band
            As in `plot`.
        draw : bool
            False computes only.
        **options
            As in `calibrant.selective_curve`, less `by`.
        """
        check_flag("draw", draw)
        if options.get("by") is not None:
            raise InvalidArgumentError(
                "by= gives a curve for each group; a display has curves by their names. Make it of "
                "them: SelectiveDisplay({str(key): curve for key, curve in curves.items()}).plot()."
            )
        own = None if name is None else str(name)
        models = y_prob if isinstance(y_prob, Mapping) else {own: y_prob}
        display = cls({key: selective_curve(y_true, p, **options) for key, p in models.items()})
        return display.plot(ax, band=band) if draw else display

    def plot(self, ax: Axes | None = None, *, band: bool = True) -> SelectiveDisplay:
        """Draw accuracy against coverage.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        band : bool
            Whether to draw the limits that hold at all thresholds at once.
        """
        check_flag("band", band)
        ax = axes_or_new(ax)
        self.lines_ = []
        for number, (name, curve) in enumerate(self.curves.items()):
            style = STYLES[number % len(STYLES)]
            look = {"color": style["color"], "linestyle": style["linestyle"]}
            if band:
                ax.fill_between(
                    curve.coverage, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0
                )
            label = "_" if name is None else f"{plain(name)}, AURC {curve.aurc:.3f}"
            self.lines_ += ax.plot(curve.coverage, curve.accuracy, label=label, **look)
        ax.set_xlim(0, 1)
        # limits of the few surest rows reach far down and would flatten everything else
        lowest = min(
            float(curve.low[curve.coverage >= 0.05].min()) for curve in self.curves.values()
        )
        ax.set_ylim(max(lowest - 0.03, 0.0), 1.005)
        write(ax.set_xlabel("coverage: share of rows that are answered"))
        write(ax.set_ylabel("share of answers that are right"))
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        if any(name is not None for name in self.curves):
            for text in ax.legend(frameon=False, loc="lower left").get_texts():
                write(text)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self
