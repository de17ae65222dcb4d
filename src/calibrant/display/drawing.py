"""How the numbers of a curve become lines, bars and text on matplotlib axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

import numpy as np

from calibrant._html import short
from calibrant._options import check_flag, is_among
from calibrant._types import FloatArray
from calibrant.display.axes import NEAREST, Scale, axis_range, bar_edges, set_axes, shares
from calibrant.display.curves import DisplayedCurve
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.stats import ReliabilityCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

Band: TypeAlias = bool | Literal["ribbon", "bars"]


# Okabe and Ito's palette; markers and dashes tell the curves apart without any colour.
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    {"color": "#009E73", "marker": "^", "linestyle": "-."},
    {"color": "#CC79A7", "marker": "D", "linestyle": ":", "markerfacecolor": "white"},
    {"color": "#000000", "marker": "X", "linestyle": (0, (6, 2, 1, 2, 1, 2))},
    {"color": "#E69F00", "marker": "v", "linestyle": (0, (8, 2)), "markerfacecolor": "white"},
    {"color": "#56B4E9", "marker": "P", "linestyle": (0, (3, 1))},
)
ON_DARK = {"#0072B2": "#56B4E9", "#000000": "#FFFFFF", "#56B4E9": "#9AA7FF"}
"""What takes the place of colours that are hard to see, or not at all, on a dark ground."""
NAME_LENGTH = 36  # letters of a name in a legend, so that it stays within the figure
WIDTH = 4.0  # inches: 300 px at 75 dots an inch, where text is still 10 px high
SIZE = (5.0, 3.6)  # inches, of a picture that need not be square
COUNTS_BOX = (0.0, -0.26, 1.0, 0.18)
CURVE, ISOTONIC = "calibrant-curve", "calibrant-isotonic"
COUNTS, FIGURE = "calibrant-counts", "calibrant-figure"
CLIMATOLOGY = "calibrant-climatology"
BESIDE = 4
"""From so many curves on the legend stands beside the diagram, not above it."""


class PlotOptions(TypedDict, total=False):
    """What `ReliabilityDisplay.plot` takes beside `ax`."""

    band: Band
    consistency: bool
    counts: bool | Literal["outcome"]
    error: bool
    legend: bool
    line_kw: Mapping[str, Any] | None
    scale: Scale
    zoom: bool
    climatology: bool


def pyplot() -> Any:
    """Import pyplot, or say how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingDependencyError(
            "Drawing needs matplotlib, which is not installed: pip install calibrant[plot]. "
            "The numbers are there without it: pass draw=False and read .curves."
        ) from error
    return plt


def arrange(ax: Axes) -> None:
    """Give a figure of ours the height that axes, counts and legend need; leave others alone."""
    figure = ax.figure
    if figure.get_gid() != FIGURE:
        return
    em = float(ax.yaxis.label.get_fontsize()) / 72
    legend = ax.get_legend()
    above = right = 0.0
    if legend is not None:
        extent = legend.get_window_extent()
        if len(drawn_lines(ax)) >= BESIDE:
            right = extent.width / figure.dpi + em
        else:
            above = extent.height / figure.dpi
    below_ax = any_counts(ax)
    side = WIDTH - 5.4 * em
    below = 3.3 * em - (COUNTS_BOX[1] * side if below_ax else 0.0)
    height = below + side + above + 1.2 * em
    left, width = 4.3 * em, WIDTH + right
    figure.set_size_inches(width, height)  # type: ignore[union-attr]
    ax.set_position((left / width, below / height, side / width, side / height))
    # long tick labels push names of axes out of the figure
    drawn = ax.get_tightbbox(figure.canvas.get_renderer())  # type: ignore[attr-defined]
    missing = em / 3 - (0.0 if drawn is None else drawn.x0 / figure.dpi)
    if missing > 0:
        left, width = left + missing, width + missing
        figure.set_size_inches(width, height)  # type: ignore[union-attr]
        ax.set_position((left / width, below / height, side / width, side / height))


def plain(name: object, length: int = NAME_LENGTH) -> str:
    """Return a name that matplotlib draws letter by letter, on one line of bounded length.

    Dollar signs are escaped so that they start no formula, and a leading underscore cannot hide a
    legend entry.
    """
    text = short(name, length).replace("$", r"\$")
    return " " + text if text.startswith("_") else text


def write(text: Text) -> None:
    """Keep TeX, where a user has switched it on, away from text with names in it."""
    text.set_usetex(False)


def drawn_lines(ax: Axes) -> list[Line2D]:
    """Return the curves that earlier displays have drawn on these axes."""
    return [line for line in ax.lines if line.get_gid() == CURVE]


def prepare(ax: Axes, curves: Sequence[DisplayedCurve], scale: Scale, zoom: bool) -> None:
    """Draw the diagonal, and say what the axes are."""
    x_label, y_label = axis_labels(curves[0])
    set_axes(ax, axis_range(curves, scale, zoom), scale)
    ends = [NEAREST, 1 - NEAREST] if scale == "logit" else [0, 1]
    ax.plot(ends, ends, color="0.5", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
    write(ax.set_xlabel(x_label))
    write(ax.set_ylabel(y_label))
    ax.spines[["top", "right"]].set_visible(False)


def axis_labels(curve: DisplayedCurve) -> tuple[str, str]:
    """Say what was predicted and what happened."""
    if curve.kind == "top-label":
        return "confidence in the top label", "share that was right"
    if curve.class_label is not None:
        if curve.kind == "quantile":
            return "level of the quantile", "share covered"
        lower = " or lower" * (curve.kind == "ordinal")
        name = plain(curve.class_label, 16)
        if name[:1].isdigit():  # "probability of 1" reads as certainty
            name = f"{'label' if curve.kind == 'multi-label' else 'class'} {name}"
        return f"predicted probability of {name}{lower}", "event rate"
    return "predicted probability", "event rate"


def any_counts(ax: Axes) -> Axes | None:
    """Return the small axes below, if they are there."""
    below = [child for child in ax.child_axes if child.get_gid() == COUNTS]
    return below[0] if below else None  # type: ignore[return-value]


def counts_axes(ax: Axes) -> Axes:
    """Return the small axes below, made on the first call."""
    below = any_counts(ax)
    if below is not None:
        return below
    below = ax.inset_axes(COUNTS_BOX, sharex=ax, gid=COUNTS)
    write(below.set_xlabel(ax.get_xlabel()))
    below.set_ylabel("rows")
    ax.set_xlabel("")
    ax.tick_params(labelbottom=False)
    below.spines[["top", "right"]].set_visible(False)
    return below


def look_of(ax: Axes, position: int) -> dict[str, Any]:
    """Return colour, marker and dashes of the curve at this position, to be seen on these axes."""
    turn, place = divmod(position, len(STYLES))
    # beyond the palette, colours come again with the marker and dashes of another
    look = STYLES[(place + turn) % len(STYLES)] | {"color": STYLES[place]["color"]}
    return look | {"color": ON_DARK.get(look["color"], look["color"])} if is_dark(ax) else look


def is_dark(ax: Axes) -> bool:
    """Return whether axes have a dark ground, by its brightness (ITU-R BT.601)."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(ax.get_facecolor())
    return 0.3 * red + 0.59 * green + 0.11 * blue < 0.4


def style_of(ax: Axes | None, position: int, line_kw: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return how the curve at this position looks, a user's wishes on top."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    base = {"linewidth": 1.3, "markersize": 4.5, "zorder": 3}
    try:
        wishes = normalize_kwargs({} if line_kw is None else {**line_kw}, Line2D)
        Line2D([], [], **wishes)  # tells what no line has before anything is drawn
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"line_kw must be a dict of what matplotlib's Axes.plot takes, such as "
            f'{{"linewidth": 2}}; got {line_kw!r:.60} ({error!s:.100}).'
        ) from error
    return base | ({} if ax is None else look_of(ax, position)) | wishes


def draw_curve(
    ax: Axes, displayed: DisplayedCurve, style: dict[str, Any], band: Band, error: bool
) -> Line2D:
    """Draw one curve with its limits; beside an isotonic curve it is points without a line."""
    curve, color = displayed.curve, style["color"]
    x, rate, low, high = (
        on_scale(ax, values)
        for values in (curve.mean_prediction, curve.event_rate, curve.low, curve.high)
    )
    is_smooth = curve.method != "bins"
    histogram = displayed.histogram
    breaks = histogram.breaks(curve.mean_prediction, shares(ax, histogram.edges))
    parts = np.split(np.arange(x.size), breaks)
    # of forecasts in tenths every point is one, which neither line nor ribbon would show
    lone = np.array([part[0] for part in parts if part.size == 1], int)
    if band in (True, "ribbon"):
        for part in parts:
            how = {"color": color, "alpha": 0.13, "linewidth": 0, "zorder": 2}
            ax.fill_between(x[part], low[part], high[part], **how)
    all_bars = band == "bars" or (band is True and not is_smooth)
    at = np.arange(x.size) if all_bars else lone
    if band and at.size:
        ax.vlines(x[at], low[at], high[at], color=color, linewidth=0.9, alpha=0.8, zorder=2.5)
    look = style if displayed.isotonic is None else style | {"linestyle": "none"}
    if is_smooth:
        shown = lone + np.searchsorted(breaks, lone, side="right")
        look = style | ({"markevery": shown.tolist()} if lone.size else {"marker": ""})
        x, rate = np.insert(x, breaks, np.nan), np.insert(rate, breaks, np.nan)
    line = ax.plot(x, rate, **look)[0]
    lines = [plain(displayed.name) if displayed.name else "", displayed.pvalue_line]
    lines += [displayed.error_line, displayed.alone_line] if error else []
    line.set(gid=CURVE, label="\n".join(filter(None, lines)) or "event rate")
    if displayed.isotonic is not None:
        corners = (on_scale(ax, values) for values in displayed.isotonic.corners)
        steps = ax.plot(*corners, **(style | {"marker": "", "zorder": 2.8}))[0]
        steps.set(gid=ISOTONIC, label=displayed.isotonic_line)
    return line


def draw_consistency(ax: Axes, displayed: DisplayedCurve) -> None:
    """Draw where the event rates of a calibrated model would lie."""
    low, high = (on_scale(ax, limits) for limits in displayed.consistency)
    x = on_scale(ax, displayed.binned.mean_prediction)
    ax.vlines(x, low, high, color="0.72", linewidth=4, zorder=1)


def on_scale(ax: Axes, values: FloatArray) -> FloatArray:
    """Return values as they can be drawn: a logit axis has no 0 and no 1."""
    return np.clip(values, NEAREST, 1 - NEAREST) if ax.get_xscale() == "logit" else values


def draw_climatology(ax: Axes, rate: float) -> None:
    """Draw the event rate, and half way from it to the diagonal the line of no skill."""
    how: dict[str, Any] = {"color": "0.45", "linewidth": 0.8, "zorder": 1.4}
    ax.axhline(rate, linestyle=(0, (5, 3)), gid=CLIMATOLOGY, **how)
    ax.axvline(rate, linestyle=(0, (5, 3)), **how)
    x = np.linspace(NEAREST, 1 - NEAREST, 2001)
    ax.plot(x, (x + rate) / 2, linestyle=(0, (5, 2, 1, 2)), **how)


def draw_counts(
    ax: Axes,
    displayed: DisplayedCurve,
    style: Mapping[str, Any],
    by_outcome: bool,
    is_alone: bool = True,
) -> None:
    """Draw the histogram of predictions; by outcome, events upwards and the others downwards."""
    edges = bar_edges(ax)
    rows = displayed.histogram.bars(edges)
    events = displayed.histogram.bars(edges, events=True)
    up, down = (events, rows - events) if by_outcome else (rows, np.zeros_like(rows))
    top, bottom = float(up.max()), float(down.max())
    if ax.patches:
        top, bottom = max(top, ax.get_ylim()[1] / 1.1), max(bottom, -ax.get_ylim()[0] / 1.1)
    edges = on_scale(ax, edges)
    for heights, alpha in ((up, 0.35), (-down, 0.15)):
        if heights.any():
            ax.stairs(heights, edges, color=style["color"], linewidth=0.8)
        if is_alone:  # outlines of several can be told apart, areas cannot
            ax.stairs(heights, edges, fill=True, color=style["color"], alpha=alpha, linewidth=0)
    ticks = [top] if bottom == 0 else [-bottom, top]
    ax.set(ylim=(-1.1 * bottom, 1.1 * top), yticks=ticks)
    ax.set_yticklabels([short_count(abs(tick)) for tick in ticks])
    if by_outcome:
        ax.axhline(0, color="0.4", linewidth=0.6)


def short_count(count: float) -> str:
    """Return a count in at most four letters and a unit: 950, 12.3k, 4M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= 0.9995 * size:  # what would be rounded to a thousand is one of the next unit
            return f"{count / size:.3g}{unit}"
    return f"{count:,.0f}"


def draw_legend(ax: Axes, note: str) -> None:
    """Put the legend of all curves above the axes, or beside them, where it hides nothing."""
    beside = len(drawn_lines(ax)) >= BESIDE
    legend = ax.legend(
        handles=[line for line in ax.lines if line.get_gid() in (CURVE, ISOTONIC)],
        title=note,
        loc="upper left" if beside else "lower left",
        bbox_to_anchor=(1.02, 1.02) if beside else (-0.03, 1.01),
        borderaxespad=0.2,
        frameon=False,
        fontsize="small",
        title_fontsize="small",
        alignment="left",
        handlelength=3.2,
    )
    for text in (legend.get_title(), *legend.get_texts()):
        write(text)


def limits_note(
    curve: ReliabilityCurve,
    band: Band,
    consistency: bool,
    climatology: bool = False,
    by_outcome: bool = False,
) -> str:
    """Say what the limits mean."""
    unit = "bin" if curve.method == "bins" else "point"
    where = f"all {unit}s at once" if curve.is_simultaneous else f"each {unit} by itself"
    level = f"{100 * curve.confidence_level:g}%"
    shape = "band" if band == "ribbon" or unit == "point" else "bars"
    notes = [f"{shape}: {level} limits, {where}"] if band else []
    notes += [f"grey: {level} range of a calibrated model"] if consistency else []
    notes += ["dashes: event rate; dash-dots: no skill"] if climatology else []
    notes += ["histogram: events up, others down"] if by_outcome else []
    return "\n".join(notes)


def check_options(options: PlotOptions) -> None:
    """Refuse options that mean nothing, before anything is drawn."""
    pyplot()
    band = options.get("band", True)
    if not (isinstance(band, bool) or is_among(band, ("ribbon", "bars"))):
        raise InvalidArgumentError(
            f'band must be True, False, "ribbon" or "bars"; got {band!r:.60}.'
        )
    for name in ("consistency", "error", "legend", "zoom", "climatology"):
        check_flag(name, options.get(name, True))
    counts = options.get("counts", True)
    if not (isinstance(counts, bool) or is_among(counts, ("outcome",))):
        raise InvalidArgumentError(f'counts must be True, False or "outcome"; got {counts!r:.60}.')
    scale = options.get("scale", "probability")
    if not is_among(scale, ("probability", "logit")):
        raise InvalidArgumentError(f'scale must be "probability" or "logit"; got {scale!r:.60}.')
    style_of(None, 0, options.get("line_kw"))


def axes_or_new(ax: Any, **figure: Any) -> Axes:
    """Return the axes that were given, or those of a new figure; refuse anything else."""
    plt = pyplot()
    if ax is None:
        return plt.subplots(**figure)[1]  # type: ignore[no-any-return]
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise InvalidArgumentError(
            "ax must be matplotlib axes, such as plt.subplots() makes, or None for new ones; got "
            f"{ax!r:.60}."
        )
    return ax
