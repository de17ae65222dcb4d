"""Reliability diagrams: the numbers are those of stats, and every option draws."""

from __future__ import annotations

import builtins
import io
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from calibrant import Distinct, EqualWidth, exceptions, reliability_curve, stats, tabulate
from calibrant.display import PitDisplay, ReliabilityDisplay, ReliabilityGrid, SelectiveDisplay
from calibrant.display import drawing as drawing_module
from calibrant.stats import consistency_limits, isotonic_curve
from conftest import optional

matplotlib = optional("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
Figure = pytest.importorskip("matplotlib.figure").Figure

HOSTILE = [
    "$x_1^2$",
    "$unclosed",
    r"$\frac{1}{",
    "_hidden",
    "a_b & 50% #1 {curly} ~^",
    r"\input{secrets} \$",
    "<b>bold</b>&amp;",
    "=SUM(A1)",
    "tab\tnew\nline\x00\x07\x1b[31m",
    "\u202egnirts \u05e9\u05dc\u05d5\u05dd",
    "\ud800 lone surrogate",
    "x" * 10_000,
    "",
    "   ",
]


@pytest.fixture(autouse=True)
def _no_figure_is_left_open():
    settings = dict(matplotlib.rcParams)
    yield
    plt.close("all")
    assert dict(matplotlib.rcParams) == settings


def rows(n=1_000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.beta(1, 1, size=n)
    return (rng.uniform(size=n) < p**1.3).astype(int), p


def many_classes(n=3_000, n_classes=10, seed=0):
    """Predictions of which class 3, and then class 1, are the worst."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_classes, 0.7), size=n)
    y = (truth.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(0, n_classes - 1)
    said = truth.copy()
    said[:, 3] = said[:, 3] ** 0.3
    said[:, 1] = said[:, 1] ** 0.5
    return y, said


def rendered(figure) -> bytes:
    """Draw the whole figure and return its pixels."""
    figure.canvas.draw()
    return bytes(figure.canvas.buffer_rgba())


def gids(ax, gid):
    return [line for line in ax.lines if line.get_gid() == gid]


# The numbers


@pytest.mark.parametrize("simultaneous", [True, False])
@pytest.mark.parametrize("bins", ["auto", 1, 7, EqualWidth(10), Distinct()])
def test_the_numbers_are_those_of_stats(bins, simultaneous):
    y, p = rows(300)
    how = {"confidence_level": 0.9, "simultaneous": simultaneous}
    display = ReliabilityDisplay.from_predictions(y, p, bins=bins, draw=False, **how)
    table = tabulate(y, p, bins=bins)
    curve = stats.reliability_curve(table, **how)
    shown = display.curves[0]
    for name in ("count", "mean_prediction", "event_rate", "low", "high", "left", "right"):
        np.testing.assert_array_equal(getattr(shown.curve, name), getattr(curve, name))
    np.testing.assert_array_equal(shown.consistency, consistency_limits(table, **how))
    error = stats.calibration_error(table)
    assert shown.error.value == error.value
    if error.unresolved_mass == 0:
        assert shown.interval == error.confidence_interval(0.9)


def test_the_line_and_the_counts_that_are_drawn_are_these_numbers():
    display = ReliabilityDisplay.from_predictions(*rows(), bins=8)
    curve = display.curves[0].curve
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), curve.mean_prediction)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), curve.event_rate)
    bars = display.counts_ax_.patches[0].get_data().values
    assert bars.sum() == pytest.approx(curve.count.sum())
    segments = display.ax_.collections[1].get_segments()
    np.testing.assert_allclose([s[:, 1] for s in segments], np.c_[curve.low, curve.high])


def test_the_isotonic_numbers_are_those_of_distinct_predictions():
    y, p = rows(400)
    shown = ReliabilityDisplay.from_predictions(y, p, isotonic=True, draw=False).curves[0]
    expected = isotonic_curve(tabulate(y, p, bins=Distinct()))
    np.testing.assert_array_equal(shown.isotonic.event_rate, expected.event_rate)
    assert shown.isotonic.brier == expected.brier
    assert shown.isotonic.is_exact


def test_a_table_gives_the_isotonic_curve_of_its_own_bins():
    table = tabulate(*rows(), bins=10)
    shown = ReliabilityDisplay.from_table(table, isotonic=True, draw=False).curves[0]
    assert len(shown.isotonic) == 10
    assert not shown.isotonic.is_exact


def test_bars_do_not_collapse_where_all_rows_agree():
    y, p = np.repeat([0, 1], 50), np.repeat([0.02, 0.98], 50)
    curve = ReliabilityDisplay.from_predictions(y, p, bins=Distinct(), draw=False).curves[0].curve
    assert curve.high[0] > 0.05
    assert curve.low[1] < 0.95


def test_the_error_line_marks_lower_bounds_and_rows_alone_in_their_bin():
    y, p = rows()
    bound = ReliabilityDisplay.from_predictions(y, p, draw=False).curves[0]
    exact = ReliabilityDisplay.from_predictions(y, p.round(1), bins=Distinct(), draw=False)
    alone = ReliabilityDisplay.from_predictions(y, p, bins=Distinct(), draw=False)
    assert bound.error_line.startswith("l2 error ≥ 0.0")
    assert exact.curves[0].error_line.startswith("l2 error = 0.0")
    assert alone.curves[0].alone_line == "100% of the rows alone in their bin"
    assert bound.alone_line == ""


def test_predictions_are_read_once_even_with_an_isotonic_curve():
    y, p = rows()
    read = []

    class Predictions:
        def __array__(self, dtype=None, copy=None):
            read.append(1)
            return p

    ReliabilityDisplay.from_predictions(y, Predictions(), isotonic=True, draw=False)
    assert len(read) == 1


def test_of_two_columns_the_second_is_the_event():
    y, p = rows()
    two = ReliabilityDisplay.from_predictions(y, np.stack([1 - p, p], axis=1), draw=False)
    one = ReliabilityDisplay.from_predictions(y, p, draw=False)
    assert two.curves[0].curve.event_rate.tolist() == one.curves[0].curve.event_rate.tolist()


def test_drawing_computes_nothing(monkeypatch):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p, isotonic=True, draw=False)
    grid = ReliabilityDisplay.grid(*many_classes(), draw=False)

    def refuse(*args, **kwargs):
        raise AssertionError("plot must not compute")

    for name in ("reliability_curve", "calibration_error"):
        monkeypatch.setattr(stats, name, refuse)
    computing = ("displayed_curve", "read", "isotonic_curve", "consistency_limits")
    patched = set()
    for module in ("calibrant.display.curves", "calibrant.display.reliability"):
        for name in computing:
            if hasattr(sys.modules[module], name):
                monkeypatch.setattr(f"{module}.{name}", refuse)
                patched.add(name)
    monkeypatch.setattr(stats.CalibrationErrorResult, "confidence_interval", refuse)
    display.plot(consistency=True)
    grid.plot()
    assert patched == set(computing)
    assert display.ax_.lines


def test_computing_needs_no_matplotlib():
    code = (
        "import sys; from calibrant.display import ReliabilityDisplay as R;"
        "d = R.from_predictions([0, 1, 1], [.1, .5, .9], bins=1, isotonic=True, draw=False);"
        "assert d.curves[0].curve.count.tolist() == [3];"
        "print('matplotlib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


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


# What is drawn

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


def test_several_models_share_axes_and_differ_in_colour_marker_and_dashes():
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, {"before": p, "after": p**1.3, "flat": p**3})
    lines = display.lines_
    assert len(lines) == 3
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert len({str(getattr(line, look)()) for line in lines}) == 3
    labels = [text.get_text().splitlines()[0] for text in display.ax_.get_legend().get_texts()]
    assert labels == ["before", "after", "flat"]
    rendered(display.figure_)


def test_a_later_display_joins_the_axes_of_an_earlier_one():
    y, p = rows()
    first = ReliabilityDisplay.from_predictions(y, p, name="a")
    height = first.figure_.get_size_inches()[1]
    second = ReliabilityDisplay.from_predictions(y, p**2, name="b", ax=first.ax_)
    assert second.figure_ is first.figure_
    assert second.counts_ax_ is first.counts_ax_
    assert second.lines_[0].get_color() != first.lines_[0].get_color()
    assert len(first.ax_.get_legend().get_texts()) == 2
    assert len(gids(first.ax_, "calibrant-curve")) == 2
    assert len(first.ax_.lines) == 3
    assert first.figure_.get_size_inches()[1] > height


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


def test_a_pvalue_below_the_smallest_number_is_not_zero():
    p = np.linspace(0.05, 0.95, 3000)
    display = ReliabilityDisplay.from_predictions(
        np.zeros(3000), p, method="spline", draw=False
    ).curves[0]
    assert display.curve.pvalue == 0
    assert display.pvalue_line == "spline, p < 1e-300"
    assert "p < 1e-300 if calibrated" in str(display.curve)


def test_axes_of_ones_own_need_no_pyplot_figure():
    y, p = rows()
    figure = Figure(figsize=(8, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    ReliabilityDisplay.from_predictions(y, p, ax=left)
    ReliabilityDisplay.from_predictions(y, p, ax=right, counts=False)
    assert plt.get_fignums() == []
    assert figure.get_size_inches().tolist() == [8, 5]
    figure.savefig(io.BytesIO())


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_pictures_are_saved_in_every_format(kind):
    sink = io.BytesIO()
    ReliabilityDisplay.from_predictions(*rows(), name="$a_b$").figure_.savefig(sink, format=kind)
    assert len(sink.getvalue()) > 1_000


def test_a_display_can_be_drawn_twice():
    display = ReliabilityDisplay.from_predictions(*rows(), draw=False)
    first = display.plot().figure_
    assert display.plot(counts=False).figure_ is not first


def test_an_unknown_band_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match='"ribbon" or "bars"; got \'box\''):
        ReliabilityDisplay.from_predictions(*rows(), band="box")


def test_a_display_of_nothing_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match="at least one curve"):
        ReliabilityDisplay.from_predictions([0, 1], {})


# Edge cases


@pytest.mark.parametrize(
    ("y", "p", "bins"),
    [
        ([1], [0.7], "auto"),
        ([0], [0.0], Distinct()),
        ([1], [1.0], EqualWidth(15)),
        ([0, 1], [0.5, 0.5], 1),
        ([0, 1, 1], [0.05, 0.95, 0.96], EqualWidth(10)),
        ([0, 0, 0], [0.1, 0.2, 0.3], 2),
    ],
)
def test_single_rows_single_bins_empty_bins_and_single_classes_draw(y, p, bins):
    display = ReliabilityDisplay.from_predictions(y, p, bins=bins, isotonic=True, consistency=True)
    assert len(display.curves[0].curve) == len(set(np.flatnonzero(display.curves[0].curve.count)))
    rendered(display.figure_)


def test_empty_bins_have_no_point():
    display = ReliabilityDisplay.from_predictions([0, 1], [0.05, 0.95], bins=EqualWidth(10))
    assert display.lines_[0].get_xdata().size == 2


def test_weights_and_data_frames_are_read_as_everywhere_else():
    y, p = rows(300)
    data = {"happened": y, "said": p, "weight": 1 + np.arange(300) % 2}
    display = ReliabilityDisplay.from_predictions(
        "happened", "said", data=data, sample_weight="weight", isotonic=True
    )
    table = tabulate(y, p, sample_weight=data["weight"])
    curve = stats.reliability_curve(table, simultaneous=True)
    np.testing.assert_array_equal(display.curves[0].curve.event_rate, curve.event_rate)


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


# Kinds of problems


def test_top_label_axes_say_confidence_and_share_right():
    display = ReliabilityDisplay.from_predictions(*many_classes())
    assert display.counts_ax_.get_xlabel() == "confidence in the top label"
    assert display.ax_.get_ylabel() == "share that was right"


def test_one_class_of_a_marginal_problem_has_its_own_curve_and_error():
    y, probs = many_classes()
    how = {"kind": "marginal", "class_label": 3, "isotonic": True, "draw": False}
    shown = ReliabilityDisplay.from_predictions(y, probs, **how).curves[0]
    table = tabulate(y == 3, probs[:, 3])
    binary = stats.reliability_curve(table, simultaneous=True)
    np.testing.assert_allclose(shown.curve.event_rate, binary.event_rate)
    assert shown.error.value == pytest.approx(stats.calibration_error(table).value)
    assert shown.isotonic.brier.value == pytest.approx(np.mean(((y == 3) - probs[:, 3]) ** 2))


def test_a_marginal_problem_needs_a_class_label_or_a_grid():
    with pytest.raises(exceptions.InvalidArgumentError, match="class_label must be one of"):
        ReliabilityDisplay.from_predictions(*many_classes(), kind="marginal")


# Grids


def test_a_grid_shows_the_worst_classes_first():
    y, probs = many_classes()
    grid = ReliabilityDisplay.grid(y, probs, n_max=4)
    assert isinstance(grid, ReliabilityGrid)
    assert [display.curves[0].class_label for display in grid.displays[:2]] == [3, 1]
    errors = [display.curves[0].error.value for display in grid.displays]
    assert errors == sorted(errors, reverse=True)
    assert grid.axes_.shape == (2, 2)
    assert grid.figure_.get_suptitle().startswith("4 worst of 10 classes: l2 error, a lower bound")
    assert grid.axes_[0, 0].get_title().startswith("class 3\n0.")


def test_the_limits_of_a_grid_hold_over_all_classes_shown_or_not():
    y, probs = many_classes()
    at_once = ReliabilityDisplay.grid(y, probs, n_max=2, draw=False)
    alone = ReliabilityDisplay.grid(y, probs, n_max=2, draw=False, simultaneous=False)
    assert at_once.displays[0].curves[0].curve.confidence_level == pytest.approx(1 - 0.05 / 10)
    assert alone.displays[0].curves[0].curve.confidence_level == 0.95
    wide, narrow = at_once.displays[0].curves[0], alone.displays[0].curves[0]
    assert (wide.curve.low < narrow.curve.low).any()
    assert wide.interval.high > narrow.interval.high


@pytest.mark.parametrize("n_classes", [2, 3, 5, 7])
def test_a_grid_has_one_panel_a_class_and_no_empty_ones(n_classes):
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(n_classes), size=400)
    grid = ReliabilityDisplay.grid(rng.integers(n_classes, size=400), probs, counts=True)
    panels = [ax for ax in grid.figure_.axes if ax.get_title()]
    assert len(panels) == len(grid.displays) == n_classes
    assert grid.figure_.get_suptitle().startswith(f"all {n_classes} classes")
    rendered(grid.figure_)


def test_a_grid_of_a_thousand_classes_picks_the_worst():
    rng = np.random.default_rng(0)
    n, n_classes = 1_500, 1_000
    probs = rng.dirichlet(np.full(n_classes, 0.05), size=n)
    y = (probs.cumsum(axis=1) < rng.uniform(size=(n, 1))).sum(axis=1).clip(0, n_classes - 1)
    said = probs.copy()
    said[:, [123, 777]] = said[:, [123, 777]] * 0.5 + [[0.4, 0.2]]
    grid = ReliabilityDisplay.grid(y, said, bins=EqualWidth(10))
    assert len(grid.displays) == 9
    assert [display.curves[0].class_label for display in grid.displays[:2]] == [123, 777]
    assert "9 worst of 1,000 classes" in grid.figure_.get_suptitle()


def test_a_grid_can_be_made_from_a_table():
    y, probs = many_classes()
    table = tabulate(y, probs, kind="marginal")
    a, b = (ReliabilityDisplay.grid(*of, n_max=3, draw=False) for of in ((table,), (y, probs)))
    for x, z in zip(a.displays, b.displays, strict=True):
        np.testing.assert_array_equal(x.curves[0].curve.low, z.curves[0].curve.low)


def test_a_grid_of_a_table_that_is_not_marginal_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match="from_table"):
        ReliabilityDisplay.grid(tabulate(*rows()))
    with pytest.raises(exceptions.InvalidArgumentError, match="n_max must be at least 1"):
        ReliabilityDisplay.grid(*many_classes(), n_max=0)


def test_a_grid_of_groups_has_the_worst_first():
    rng = np.random.default_rng(2)
    p = rng.uniform(size=3_000)
    site = rng.choice(["good", "bad", None], size=3_000)
    y = rng.uniform(size=3_000) < np.where(site == "bad", p**3, p)
    grid = ReliabilityDisplay.grid(y, p, by={"site": site}, n_max=2)
    names = [display.curves[0].name for display in grid.displays]
    assert names[0] == "bad"
    assert "2 worst of 3 groups by site" in grid.figure_.get_suptitle()
    rendered(grid.figure_)
    again = ReliabilityDisplay.grid(tabulate(y, p, by={"site": site}), n_max=2, draw=False)
    assert [display.curves[0].name for display in again.displays] == names


def test_tables_of_groups_are_drawn_as_curves_of_their_names():
    y, p = rows()
    by = {"a": np.arange(len(y)) % 2, "b": np.where(np.arange(len(y)) < 50, None, "x")}
    display = ReliabilityDisplay.from_table(tabulate(y, p, by=by, bins=4), draw=False)
    assert [curve.name for curve in display.curves] == ["0, x", "0, missing", "1, x", "1, missing"]


def test_a_grid_of_groups_needs_one_curve_a_group():
    y, probs = many_classes(300)
    with pytest.raises(exceptions.InvalidArgumentError, match="one curve"):
        ReliabilityDisplay.grid(y, probs, kind="marginal", by=y % 2)


# Estimators


def test_an_estimator_of_two_classes_is_drawn_as_the_probability_of_the_second():
    x, y = load_breast_cancer(return_X_y=True)
    model = GaussianNB().fit(x[::2], y[::2])
    display = ReliabilityDisplay.from_estimator(model, x[1::2], y[1::2], consistency=True)
    expected = tabulate(y[1::2], model.predict_proba(x[1::2])[:, 1])
    curve = stats.reliability_curve(expected, simultaneous=True)
    np.testing.assert_array_equal(display.curves[0].curve.event_rate, curve.event_rate)
    assert display.curves[0].name == "GaussianNB"
    other = ReliabilityDisplay.from_estimator(model, x[1::2], y[1::2], pos_label=0, draw=False)
    np.testing.assert_allclose(
        other.curves[0].error.table.sum_p.sum(), (1 - model.predict_proba(x[1::2])[:, 1]).sum()
    )
    assert other.curves[0].error.table.sum_y.sum() == (y[1::2] == 0).sum()


def test_estimators_with_named_classes_and_several_at_once_draw():
    x, y = load_digits(return_X_y=True)
    x = x / 16
    names = np.array([f"digit {i}" for i in range(10)])
    labels = names[y]
    models = {
        "bayes": GaussianNB().fit(x[::2], labels[::2]),
        "logistic": LogisticRegression(C=0.01).fit(x[::2], labels[::2]),
    }
    display = ReliabilityDisplay.from_estimator(models, x[1::2], labels[1::2], counts=False)
    assert [curve.name for curve in display.curves] == ["bayes", "logistic"]
    assert display.curves[0].kind == "top-label"
    one = ReliabilityDisplay.from_estimator(
        models["bayes"], x[1::2], labels[1::2], kind="marginal", class_label="digit 8", name="8"
    )
    assert one.counts_ax_.get_xlabel() == "predicted probability of digit 8"
    rendered(one.figure_)


def test_an_estimator_without_probabilities_is_refused():
    x, y = load_breast_cancer(return_X_y=True)
    model = RidgeClassifier().fit(x, y)
    with pytest.raises(exceptions.InvalidArgumentError, match="RidgeClassifier has none"):
        ReliabilityDisplay.from_estimator(model, x, y)


def test_short_counts_stay_short():
    counts = [0, 7, 950, 9_999, 12_345, 999_499, 999_600, 4_000_000, 2.5e9]
    assert [drawing_module.short_count(c) for c in counts] == [
        "0", "7", "950", "10k", "12.3k", "999k", "1M", "4M", "2.5G",
    ]  # fmt: skip


RARE = np.random.default_rng(8).beta(1, 40, size=1500)
RARE_EVENTS = (np.random.default_rng(9).uniform(size=1500) < RARE).astype(int)


@pytest.mark.parametrize("method", ["isotonic", "spline", "loess"])
def test_curves_without_bins_are_drawn_as_they_are_computed(method):
    display = ReliabilityDisplay.from_predictions(*rows(), method=method)
    curve = reliability_curve(*rows(), method=method)
    np.testing.assert_array_equal(display.lines_[0].get_ydata(), curve.event_rate)
    assert display.lines_[0].get_marker() == ""
    assert f"{method}, p = " in display.lines_[0].get_label()


def test_rare_events_are_looked_at_closely_unless_told_otherwise():
    near = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5)
    assert near.ax_.get_xlim()[1] < 0.25
    far = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, zoom=False)
    assert far.ax_.get_xlim()[1] > 1


def test_a_logit_axis_has_readable_ticks_and_no_infinite_value():
    display = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, scale="logit")
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "logit"
    ticks = list(display.ax_.xaxis.get_major_locator()())
    assert 0.01 in ticks
    assert np.isfinite(display.lines_[0].get_xydata()).all()


def test_the_histogram_is_split_by_outcome_if_asked():
    display = ReliabilityDisplay.from_predictions(RARE_EVENTS, RARE, bins=5, counts="outcome")
    filled = [patch.get_data().values for patch in display.counts_ax_.patches if patch.get_fill()]
    assert filled[0].sum() == pytest.approx(RARE_EVENTS.sum())
    assert -filled[1].sum() == pytest.approx((1 - RARE_EVENTS).sum())


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


def test_groups_are_drawn_as_one_curve_each():
    y, p = rows()
    site = np.where(np.arange(len(y)) % 3 == 0, "east", "west")
    display = ReliabilityDisplay.from_predictions(y, p, by=site, bins=5)
    assert [curve.name for curve in display.curves] == ["east", "west"]
    own = tabulate(y, p, by=site, bins=5)
    for curve in display.curves:
        np.testing.assert_array_equal(
            curve.curve.event_rate, reliability_curve(own[curve.name]).event_rate
        )
    for options in ({"method": "isotonic"}, {"isotonic": True}):
        with pytest.raises(
            exceptions.InvalidArgumentError, match="With by=, the bins of one model's groups"
        ):
            ReliabilityDisplay.from_predictions(y, p, by=site, **options)
    with pytest.raises(exceptions.InvalidArgumentError, match="With by="):
        ReliabilityDisplay.from_predictions(y, {"a": p, "b": p}, by=site)


def test_a_display_says_in_one_line_what_it_shows():
    y, p = rows()
    one = ReliabilityDisplay.from_predictions(y, p, draw=False)
    two = ReliabilityDisplay.from_predictions(y, {"raw": p, "squared": p**2}, draw=False)
    assert repr(one) == f"<ReliabilityDisplay: {one.curves[0].error_line}>"
    assert repr(two).startswith("<ReliabilityDisplay: raw: l2 error ")
    assert "; squared: l2 error " in repr(two)
    groups = ReliabilityDisplay.grid(y, p, by={"half": p > 0.5}, draw=False)
    assert repr(groups) == "<ReliabilityGrid: all 2 groups by half>"
    pit = PitDisplay.from_predictions([0, 5], [[-1, 1]] * 2, classes=(0.25, 0.75), draw=False)
    assert repr(pit) == f"<PitDisplay: {pit.histogram!r}>"
    answers = SelectiveDisplay.from_predictions(y, p, draw=False)
    assert repr(answers) == f"<SelectiveDisplay: {answers.curves[None]!r}>"
