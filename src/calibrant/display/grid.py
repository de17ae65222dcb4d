"""ReliabilityGrid: one diagram for each of the worst classes or groups."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from calibrant.display.drawing import (
    WIDTH,
    PlotOptions,
    axis_labels,
    check_options,
    plain,
    pyplot,
    write,
)
from calibrant.problem import part_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from calibrant.display.reliability import ReliabilityDisplay


@dataclass(eq=False, repr=False)
class ReliabilityGrid:
    """One reliability diagram for each of the worst classes of a marginal problem, or groups.

    Attributes
    ----------
    displays : tuple of ReliabilityDisplay
        The worst first; all numbers are in their ``curves``.
    n_panels : int
        How many classes or groups there are, shown or not.
    confidence_level, is_simultaneous : float, bool
        Of the limits, over all bins of all panels at once or in each bin by itself.
    by : str
        What panels are of: "classes", "labels", "thresholds" or "levels"; or the columns that tell
        groups apart.
    figure_, axes_ : matplotlib Figure and array of Axes
    """

    displays: tuple[ReliabilityDisplay, ...]
    n_panels: int
    confidence_level: float
    is_simultaneous: bool
    by: str = "classes"
    figure_: Figure = field(init=False)
    axes_: Any = field(init=False)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._shown()}>"

    def plot(self, **options: Unpack[PlotOptions]) -> ReliabilityGrid:
        """Draw the panels on a new figure; the options are those of `ReliabilityDisplay.plot`."""
        check_options(options)
        n = len(self.displays)
        columns = min(math.ceil(math.sqrt(n)), 3)
        rows = -(-n // columns)
        settings: PlotOptions = {"counts": False, **options, "legend": False, "zoom": False}
        settings["line_kw"] = {"markersize": 3, **(settings.get("line_kw") or {})}
        panel = WIDTH / columns + (0.55 if settings["counts"] else 0.25)
        self.figure_, self.axes_ = pyplot().subplots(
            rows, columns, figsize=(WIDTH, panel * rows + 0.8), squeeze=False, layout="constrained"
        )
        for ax in self.axes_.flat[n:]:
            ax.remove()
        for i, (display, ax) in enumerate(zip(self.displays, self.axes_.flat, strict=False)):
            display.plot(ax, **settings)
            _title(display, settings.get("error", True))
            _trim(display, left=i % columns == 0, bottom=i + columns >= n)
        self._label()
        return self

    def _label(self) -> None:
        curve = self.displays[0].curves[0]
        what = "groups" if self._of_groups else self.by
        bound = any(display.curves[0].error.is_lower_bound for display in self.displays)
        error = f"l2 error{', a lower bound' if bound else ''}"
        where = f"all bins and {what} at once" if self.is_simultaneous else "each bin by itself"
        text = f"{self._shown()}: {error}\n{100 * self.confidence_level:g}% limits, {where}"
        write(self.figure_.suptitle(text, fontsize="medium"))
        x_label, y_label = "predicted probability", "event rate"
        if curve.kind == "quantile":
            x_label, y_label = axis_labels(curve)
        elif not self._of_groups:
            x_label += f" of the {part_of(curve.kind)}"
        self.figure_.supxlabel(x_label, fontsize="medium")
        self.figure_.supylabel(y_label, fontsize="medium")

    @property
    def _of_groups(self) -> bool:
        return self.displays[0].curves[0].class_label is None

    def _shown(self) -> str:
        named = f"groups by {self.by}" if self._of_groups else self.by
        if len(self.displays) == self.n_panels:
            return f"all {self.n_panels:,} {named}"
        return f"{len(self.displays)} worst of {self.n_panels:,} {named}"


def _title(display: ReliabilityDisplay, error: bool) -> None:
    """Name the class above its panel instead of below."""
    curve = display.curves[0]
    low, high = curve.interval
    # without its zeros the interval leaves room between neighbours
    interval = f"[{low:.3f}, {high:.3f}]".replace("0.", ".")
    numbers = f"{curve.error.value:.3f} {interval}"
    name = plain(
        curve.name if curve.class_label is None else f"{part_of(curve.kind)} {curve.name}", 20
    )
    write(display.ax_.set_title(f"{name}\n{numbers}" if error else name, fontsize="small"))


def _trim(display: ReliabilityDisplay, left: bool, bottom: bool) -> None:
    """Keep the few numbers that a small panel has room for, on the outer panels only."""
    ax, counts_ax = display.ax_, display.counts_ax_
    ax.set(xlabel="", ylabel="")
    if ax.get_xscale() != "logit":
        ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.set(xticklabels=["0", ".5", "1"], yticklabels=["0", ".5", "1"])
    ax.tick_params(labelleft=left, labelbottom=bottom and counts_ax is None, labelsize="small")
    if counts_ax is not None:
        counts_ax.set(xlabel="", ylabel="")
        counts_ax.tick_params(labelbottom=bottom, labelsize="small")
