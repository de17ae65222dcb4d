"""Displays of one line for each model: of net benefit and of accuracy against coverage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np

from calibrant._options import check_flag
from calibrant.curves import decision_curve, selective_curve
from calibrant.display.drawing import SIZE, axes_or_new, look_of, plain, write
from calibrant.exceptions import InvalidArgumentError
from calibrant.stats import DecisionCurve, SelectiveCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


C = TypeVar("C", DecisionCurve, SelectiveCurve)


class LineDisplay(Generic[C]):
    """Curves by their names, each drawn as a line with a band."""

    ax_: Axes
    figure_: Figure
    lines_: list[Line2D]

    _curve: ClassVar[type]
    """The class of the curves."""
    _measure: ClassVar[Callable[..., Any]]
    """The function that computes one."""
    _name: ClassVar[str | None] = None
    """The name of a curve that was given none."""
    _axes: ClassVar[tuple[str, str]]
    """The names of a curve's attributes along x and y."""
    _labels: ClassVar[tuple[str, str]]
    """What stands beside the axes."""
    _legend: ClassVar[Literal["upper right", "lower left"]]
    """The corner of the legend."""

    def __init__(self, curves: Mapping[str | None, C]) -> None:
        curve_type, named = self._curve, dict(curves) if isinstance(curves, Mapping) else {}
        if not named or not all(isinstance(curve, curve_type) for curve in named.values()):
            raise InvalidArgumentError(
                f"A display needs a dict of at least one {curve_type.__name__} by its name; got "
                f"{curves!r:.60}. Make it with from_predictions."
            )
        self.curves: dict[str | None, C] = named

    def __repr__(self) -> str:
        curves = (
            f"{name}: {curve!r}" if name else repr(curve) for name, curve in self.curves.items()
        )
        return f"<{type(self).__name__}: {'; '.join(curves)}>"

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
    ) -> Self:
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
            As in the function that computes the curve, less `by`.
        """
        check_flag("draw", draw)
        if options.get("by") is not None:
            raise InvalidArgumentError(
                "by= gives a curve for each group; a display has curves by their names. Make it "
                f"of them: {cls.__name__}({{str(key): curve for key, curve in curves.items()}})"
                ".plot()."
            )
        model = cls._name if name is None else str(name)
        models = y_prob if isinstance(y_prob, Mapping) else {model: y_prob}
        display = cls({key: cls._measure(y_true, p, **options) for key, p in models.items()})
        return display.plot(ax, band=band) if draw else display

    def plot(self, ax: Axes | None = None, *, band: bool = True) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure.
        band : bool
            Whether to draw the limits.
        """
        check_flag("band", band)
        ax = axes_or_new(ax, figsize=SIZE, layout="constrained")
        self.lines_ = []
        for number, (name, curve) in enumerate(self.curves.items()):
            style = look_of(ax, number)
            look = {"color": style["color"], "linestyle": style["linestyle"]}
            x, y = (getattr(curve, attribute) for attribute in self._axes)
            if band:
                ax.fill_between(x, curve.low, curve.high, color=style["color"], alpha=0.15, lw=0)
            self.lines_ += ax.plot(x, y, label=self._label(name, curve), **look)
        self._finish(ax)
        write(ax.set_xlabel(self._labels[0]))
        write(ax.set_ylabel(self._labels[1]))
        ax.spines[["top", "right"]].set_visible(False)
        if any(not str(line.get_label()).startswith("_") for line in ax.lines):
            for text in ax.legend(frameon=False, loc=self._legend).get_texts():
                write(text)
        self.ax_, self.figure_ = ax, ax.figure  # type: ignore[assignment]
        return self

    def _label(self, name: str | None, curve: C) -> str:
        """Return what the legend says of a curve; an underscore leaves it out."""
        raise NotImplementedError

    def _finish(self, ax: Axes) -> None:
        """Set the limits of the axes, and draw what the curves are compared with."""
        raise NotImplementedError


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


class SelectiveDisplay(LineDisplay[SelectiveCurve]):
    """How often the model is right, against the share of rows that it answers.

    Make one with `from_predictions`, which computes and draws; ``draw=False`` only computes.

    Parameters
    ----------
    curves : mapping from names to SelectiveCurve

    Attributes
    ----------
    curves, ax_, figure_, lines_
        As of `DecisionDisplay`.

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
