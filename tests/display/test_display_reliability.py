"""ReliabilityDisplay: what it reads, computes once, and draws on shared axes."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from drawn import many_classes, plt, rendered, rows
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from calibrant import Distinct, EqualWidth, exceptions, reliability_curve, stats, tabulate
from calibrant.display import PitDisplay, ReliabilityDisplay, SelectiveDisplay

pytestmark = pytest.mark.usefixtures("closed_figures")


Figure = pytest.importorskip("matplotlib.figure").Figure


def gids(ax, gid):
    return [line for line in ax.lines if line.get_gid() == gid]


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


def test_axes_of_ones_own_need_no_pyplot_figure():
    y, p = rows()
    figure = Figure(figsize=(8, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    ReliabilityDisplay.from_predictions(y, p, ax=left)
    ReliabilityDisplay.from_predictions(y, p, ax=right, counts=False)
    assert plt.get_fignums() == []
    assert figure.get_size_inches().tolist() == [8, 5]
    figure.savefig(io.BytesIO())


def test_a_display_can_be_drawn_twice():
    display = ReliabilityDisplay.from_predictions(*rows(), draw=False)
    first = display.plot().figure_
    assert display.plot(counts=False).figure_ is not first


def test_a_display_of_nothing_is_refused():
    with pytest.raises(exceptions.InvalidArgumentError, match="at least one curve"):
        ReliabilityDisplay.from_predictions([0, 1], {})


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


def test_weights_and_data_frames_are_read_as_everywhere_else():
    y, p = rows(300)
    data = {"happened": y, "said": p, "weight": 1 + np.arange(300) % 2}
    display = ReliabilityDisplay.from_predictions(
        "happened", "said", data=data, sample_weight="weight", isotonic=True
    )
    table = tabulate(y, p, sample_weight=data["weight"])
    curve = stats.reliability_curve(table, simultaneous=True)
    np.testing.assert_array_equal(display.curves[0].curve.event_rate, curve.event_rate)


def test_a_marginal_problem_needs_a_class_label_or_a_grid():
    with pytest.raises(exceptions.InvalidArgumentError, match="class_label must be one of"):
        ReliabilityDisplay.from_predictions(*many_classes(), kind="marginal")


def test_tables_of_groups_are_drawn_as_curves_of_their_names():
    y, p = rows()
    by = {"a": np.arange(len(y)) % 2, "b": np.where(np.arange(len(y)) < 50, None, "x")}
    display = ReliabilityDisplay.from_table(tabulate(y, p, by=by, bins=4), draw=False)
    assert [curve.name for curve in display.curves] == ["0, x", "0, missing", "1, x", "1, missing"]


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
