"""Panels of results and their figures: readable without colour, by line styles and markers."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from calibrant.display.drawing import is_dark
from calibrant.exceptions import MissingDependencyError
from calibrant.paper.uncertainty import Estimate

Style: TypeAlias = Literal["line", "points", "curve", "steps"]

COLOURS = ("#1b4f9c", "#c0392b", "#222222", "#2e8b57", "#8e44ad", "#b8860b")
ON_DARK = ("#7fb0ff", "#ff8a7a", "#e6e6e6", "#66cc99", "#c99be0", "#e0b84c")
"""The same hues for a dark ground."""
LINES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))
MARKERS = ("o", "s", "^", "D", "v", "x")
FONT: Any = {
    "font.size": 9,
    "axes.titlesize": 9,
    "legend.fontsize": 8,
    "svg.hashsalt": "calibrant",
    "svg.fonttype": "none",
}


@dataclass(frozen=True)
class Series:
    """Points of one name, with intervals where there are any."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None
    style: Style = "line"


@dataclass(frozen=True)
class Panel:
    """One set of axes; `x_names` are written in place of the numbers 0, 1, ..."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Literal["linear", "log", "log2"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    from_zero: bool = True
    x_names: tuple[str, ...] = ()


def series(
    label: str, x: npt.ArrayLike, y: Sequence[Estimate] | npt.ArrayLike, style: Style = "line"
) -> Series:
    """Return a series of estimates or of plain numbers."""
    xs = tuple(float(value) for value in np.asarray(x))
    if len(y) and isinstance(y[0], Estimate):  # type: ignore[arg-type,index]
        estimates: Sequence[Estimate] = y  # type: ignore[assignment]
        middle, low, high = (
            tuple(getattr(x, name) for x in estimates) for name in ("value", "low", "high")
        )
        return Series(label, xs, middle, low, high, style)
    return Series(label, xs, tuple(float(value) for value in np.asarray(y)), style=style)


def draw(panels: Sequence[Panel]) -> dict[str, bytes]:
    """Return the figure of a result's panels as PNG and SVG."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "Drawing figures needs Matplotlib: pip install 'calibrant[plot]'."
        ) from error
    columns = min(len(panels), 3 if len(panels) != 4 else 2)
    lines = -(-len(panels) // columns)
    with matplotlib.rc_context(FONT):
        figure = Figure(figsize=(4.0 * columns, 3.1 * lines), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            _draw_panel(ax, panel)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        _add_legends(figure, axes, panels)
        files = {"png": io.BytesIO(), "svg": io.BytesIO()}
        for kind, stream in files.items():
            unstamped = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
            figure.savefig(stream, format=kind, dpi=110, metadata=unstamped)
        return {kind: stream.getvalue() for kind, stream in files.items()}


def _draw_panel(ax: Any, panel: Panel) -> None:
    for i, line in enumerate(panel.series):
        _draw_series(ax, line, i)
    for axis, scale in ((ax.xaxis, panel.x_scale), (ax.yaxis, panel.y_scale)):
        if scale != "linear":
            axis._set_axes_scale("log", **({"base": 2} if scale == "log2" else {}))
    if panel.x_names:
        ax.set_xticks(range(len(panel.x_names)), panel.x_names)
        ax.margins(x=0.15)
    elif panel.x_scale == "linear":
        ax.locator_params(axis="x", nbins=5)
    else:  # name the points themselves
        x = panel.series[0].x
        ax.set_xticks(x, [f"{value:,.0f}" for value in x], rotation=30 if max(x) >= 1000 else 0)
        ax.set_xticks([], minor=True)
    if panel.from_zero and panel.y_scale == "linear":
        low, high = ax.get_ylim()
        ax.set_ylim(min(0.0, low if low < -0.05 * high else 0.0), high)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25, linewidth=0.5)


def _add_legends(figure: Any, axes: Any, panels: Sequence[Panel]) -> None:
    """Explain the lines once below the figure where all panels share them, else in each."""
    shown = [i for i, panel in enumerate(panels) if len(panel.series) > 1]
    labels = {i: tuple(line.label for line in panels[i].series) for i in shown}
    most = max(shown, key=lambda i: len(labels[i]), default=0)
    if shown and all(labels[most][: len(x)] == x for x in labels.values()):
        handles, names = axes[most].get_legend_handles_labels()
        columns = min(len(names), 2 if len(panels) == 1 else 3)
        figure.legend(
            handles, names, loc="outside lower center", ncols=columns, frameon=False,
            handlelength=3.5,
        )  # fmt: skip
        return
    for i in shown:
        axes[i].legend(frameon=False, handlelength=3.5)


def _draw_series(ax: Any, line: Series, i: int) -> None:
    colours = ON_DARK if is_dark(ax) else COLOURS
    look: dict[str, Any] = {
        "color": colours[i % len(colours)],
        "linestyle": LINES[i % len(LINES)],
        "label": line.label,
        "linewidth": 1.4,
    }
    if line.style == "steps":
        ax.step(line.x, line.y, where="post", **look)
        ax.fill_between(line.x, line.y, step="post", color=look["color"], alpha=0.12)
        return
    if line.style == "curve":
        ax.plot(line.x, line.y, **look)
        return
    look |= {"marker": MARKERS[i % len(MARKERS)], "markersize": 4.5}
    if line.style == "points":
        look |= {"linestyle": "none"}
    if line.low is None or line.high is None:
        ax.plot(line.x, line.y, **look)
        return
    below = [max(y - low, 0.0) for y, low in zip(line.y, line.low, strict=True)]
    above = [max(high - y, 0.0) for y, high in zip(line.y, line.high, strict=True)]
    ax.errorbar(line.x, line.y, yerr=[below, above], capsize=2.5, elinewidth=0.9, **look)
