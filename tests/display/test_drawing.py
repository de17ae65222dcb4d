"""Every option draws, and every name is drawn letter by letter."""

from __future__ import annotations

import builtins
import io

import numpy as np
import pytest
from drawn import HOSTILE, RARE, RARE_EVENTS, many_classes, matplotlib, plt, rendered, rows

from calibrant import EqualWidth, exceptions, reliability_curve
from calibrant.display import ReliabilityDisplay
from calibrant.display import drawing as drawing_module

pytestmark = pytest.mark.usefixtures("closed_figures")


def test_the_line_and_the_counts_that_are_drawn_are_these_numbers():
    display = ReliabilityDisplay.from_predictions(*rows(), bins=8)
    curve = display.curves[0].curve
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), curve.mean_prediction)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), curve.event_rate)
    bars = display.counts_ax_.patches[0].get_data().values
    assert bars.sum() == pytest.approx(curve.count.sum())
    segments = display.ax_.collections[1].get_segments()
    np.testing.assert_allclose([s[:, 1] for s in segments], np.c_[curve.low, curve.high])


def test_without_matplotlib_drawing_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    display = ReliabilityDisplay.from_predictions(*rows(), draw=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(exceptions.MissingDependencyError, match=r"pip install calibrant\[plot\]"):
        display.plot()


OPTIONS = [
    {},
    {"band": False},
    {"band": "ribbon"},
    {"band": "bars"},
    {"consistency": True},
    {"counts": False},
    {"error": False},
    {"legend": False},
    {"isotonic": True},
    {"isotonic": True, "consistency": True, "name": "all of it"},
    {"simultaneous": False, "confidence_level": 0.8},
    {"line_kw": {"c": "black", "lw": 3, "ls": ":"}},
    {"line_kw": {"marker": None}},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_draws(options):
    display = ReliabilityDisplay.from_predictions(*rows(300), bins=5, **options)
    assert len(set(rendered(display.figure_))) > 1
    assert display.ax_.figure is display.figure_
    assert (display.counts_ax_ is None) == (options.get("counts") is False)
    assert (display.ax_.get_legend() is None) == (options.get("legend") is False)


@pytest.mark.parametrize(
    ("options", "collections", "lines"),
    [
        ({"band": False}, 0, 2),
        ({"band": "ribbon"}, 1, 2),
        ({"band": "bars"}, 1, 2),
        ({}, 2, 2),
        ({"consistency": True}, 3, 2),
        ({"isotonic": True}, 2, 3),
    ],
)
def test_the_number_of_artists_is_what_the_options_say(options, collections, lines):
    ax = ReliabilityDisplay.from_predictions(*rows(300), **options).ax_
    assert (len(ax.collections), len(ax.lines)) == (collections, lines)


def test_the_legend_says_what_the_limits_are():
    def legend(**options):
        display = ReliabilityDisplay.from_predictions(*rows(300), name="model", **options)
        found = display.ax_.get_legend()
        return found.get_title().get_text(), [text.get_text() for text in found.get_texts()]

    note, labels = legend()
    assert note == "bars: 95% limits, all bins at once"
    assert labels[0].splitlines()[0] == "model"
    assert labels[0].splitlines()[1].startswith("l2 error ≥ ")
    assert legend(simultaneous=False, confidence_level=0.9)[0] == (
        "bars: 90% limits, each bin by itself"
    )
    assert legend(band="ribbon", consistency=True)[0].splitlines() == [
        "band: 95% limits, all bins at once",
        "grey: 95% range of a calibrated model",
    ]
    assert legend(isotonic=True, error=False)[1][0] == "model"
    assert legend(isotonic=True)[1][1].startswith("isotonic: MCB 0.0")


def test_nothing_of_a_figure_of_ours_is_cut_off():
    y, p = rows(300)
    for options in OPTIONS:
        display = ReliabilityDisplay.from_predictions(y, p, **options)
        more = {**options, "name": "one more", "ax": display.ax_}
        ReliabilityDisplay.from_predictions(y, p**2, **more)
        figure = display.figure_
        box = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
        plt.close(figure)


def test_every_curve_can_be_seen_on_a_dark_ground():
    y, p = rows()
    curves = {str(power): p**power for power in range(1, 8)}

    def brightness(color):
        return np.dot((0.3, 0.59, 0.11), matplotlib.colors.to_rgb(color))

    with plt.style.context("dark_background"):
        dark = ReliabilityDisplay.from_predictions(y, curves)
    light = ReliabilityDisplay.from_predictions(y, curves)
    assert min(brightness(line.get_color()) for line in dark.lines_) > 0.4
    assert min(brightness(line.get_color()) for line in light.lines_) == 0
    assert len({line.get_color() for line in dark.lines_}) == 7


def test_there_are_more_models_than_styles():
    y, p = rows(300)
    models = {f"model {i}": p ** (0.5 + i / 4) for i in range(9)}
    display = ReliabilityDisplay.from_predictions(y, models, bins=5)
    looks = [(line.get_color(), line.get_marker()) for line in display.lines_]
    assert len(set(looks)) == 9


def test_the_axis_of_a_numbered_class_names_the_class():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(3), size=200)
    labels = rng.integers(0, 3, size=200)
    for y, options, label in (
        (labels, {"kind": "marginal"}, "class 1"),
        (labels, {"kind": "ordinal"}, "class 1 or lower"),
        (np.eye(3)[labels], {"kind": "multi-label"}, "label 1"),
    ):
        display = ReliabilityDisplay.from_predictions(y, probs, class_label=1, **options)
        assert display.counts_ax_.get_xlabel() == f"predicted probability of {label}"


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_pictures_are_saved_in_every_format(kind):
    sink = io.BytesIO()
    ReliabilityDisplay.from_predictions(*rows(), name="$a_b$").figure_.savefig(sink, format=kind)
    assert len(sink.getvalue()) > 1_000


def test_an_unknown_band_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match='"ribbon" or "bars"; got \'box\''):
        ReliabilityDisplay.from_predictions(*rows(), band="box")


def test_empty_bins_have_no_point():
    display = ReliabilityDisplay.from_predictions([0, 1], [0.05, 0.95], bins=EqualWidth(10))
    assert display.lines_[0].get_xdata().size == 2


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name[:12]))
def test_a_hostile_name_is_drawn_letter_by_letter(name):
    y, p = rows(100)
    display = ReliabilityDisplay.from_predictions(y, p, name=name, bins=3)
    rendered(display.figure_)
    text = display.ax_.get_legend().get_texts()[0]
    shown = text.get_text().splitlines()[0]
    assert not matplotlib.cbook.is_math_text(shown)
    assert text.get_usetex() is False
    assert len(shown) <= 2 * drawing_module.NAME_LENGTH
    assert shown.isprintable()


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name[:12]))
def test_a_hostile_class_name_does_no_harm_on_axes_and_in_grids(name):
    y, probs = many_classes(300, 4)
    classes = [name, "b", "c", "d"]
    labels = np.array(classes, object)[y]
    one = ReliabilityDisplay.from_predictions(
        labels, probs, kind="marginal", classes=classes, class_label=name
    )
    rendered(one.figure_)
    for text in (one.counts_ax_.xaxis.label, one.ax_.yaxis.label):
        assert text.get_usetex() is False
        assert not matplotlib.cbook.is_math_text(text.get_text())
    grid = ReliabilityDisplay.grid(labels, probs, classes=classes)
    rendered(grid.figure_)
    assert all(not matplotlib.cbook.is_math_text(ax.get_title()) for ax in grid.axes_.flat)


def test_a_dollar_is_shown_as_a_dollar():
    y, p = rows(100)
    a = ReliabilityDisplay.from_predictions(y, p, name="cost $5_a$", bins=3)
    assert a.ax_.get_legend().get_texts()[0].get_text().startswith(r"cost \$5_a\$")


def test_top_label_axes_say_confidence_and_share_right():
    display = ReliabilityDisplay.from_predictions(*many_classes())
    assert display.counts_ax_.get_xlabel() == "confidence in the top label"
    assert display.ax_.get_ylabel() == "share that was right"


def test_short_counts_stay_short():
    counts = [0, 7, 950, 9_999, 12_345, 999_499, 999_600, 4_000_000, 2.5e9]
    assert [drawing_module.short_count(c) for c in counts] == [
        "0", "7", "950", "10k", "12.3k", "999k", "1M", "4M", "2.5G",
    ]  # fmt: skip


@pytest.mark.parametrize("method", ["isotonic", "spline", "loess"])
def test_curves_without_bins_are_drawn_as_they_are_computed(method):
    display = ReliabilityDisplay.from_predictions(*rows(), method=method)
    curve = reliability_curve(*rows(), method=method)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), curve.event_rate)
    assert display.lines_[0].get_marker() == ""
    assert f"{method}, p = " in display.lines_[0].get_label()


@pytest.mark.parametrize("method", ["isotonic", "loess", "spline"])
@pytest.mark.parametrize("band", [True, "ribbon", "bars", False])
def test_points_without_neighbours_are_seen(method, band):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 10, size=900) / 10
    y = rng.uniform(size=900) < p
    display = ReliabilityDisplay.from_predictions(y, p, method=method, band=band)
    line = display.lines_[0]
    x, _ = line.get_data()
    assert line.get_marker() == "o"
    assert x[line.get_markevery()] == pytest.approx(np.arange(1, 10) / 10)
    bars = sum(len(bars.get_segments()) for bars in display.ax_.collections if is_bars(bars))
    assert bars == (9 if band else 0)


def is_bars(collection):
    return isinstance(collection, matplotlib.collections.LineCollection)


def test_ribbons_and_smooth_lines_break_where_there_are_no_rows():
    p = np.concatenate([np.linspace(0.01, 0.2, 300), np.linspace(0.8, 0.99, 300)])
    y = (np.random.default_rng(1).uniform(size=600) < p).astype(int)
    display = ReliabilityDisplay.from_predictions(y, p, method="loess")
    assert len(display.ax_.collections) == 2
    assert np.isnan(display.lines_[0].get_xdata()).sum() == 1


def test_forecasters_have_climatology_and_the_line_of_no_skill():
    display = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, climatology=True)
    rate = RARE_EVENTS.mean()
    level = [line for line in display.ax_.lines if line.get_gid() == "calibrant-climatology"]
    assert level[0].get_ydata()[0] == pytest.approx(rate)
    assert "no skill" in display.ax_.get_legend().get_title().get_text()


def test_many_models_have_their_legend_beside_and_nothing_leaves_the_figure():
    models = {f"model {i}": RARE ** (1 + i / 10) for i in range(5)}
    for given in (models, RARE):
        display = ReliabilityDisplay.from_predictions(RARE_EVENTS, given, bins=5)
        figure = display.figure_
        figure.canvas.draw()
        box = figure.get_tightbbox(figure.canvas.get_renderer())
        assert box.x0 >= 0
        assert box.x1 <= figure.get_size_inches()[0]
