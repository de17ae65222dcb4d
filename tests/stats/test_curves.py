"""Reliability curves: joined bins, and their diagrams in notebooks."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant
from calibrant.stats.curves import join_bins


def event_rows(n, seed=7):
    """Return labels that happen as often as was predicted, and the predictions."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.2, 2.5, size=n)
    return rng.uniform(size=n) < p, p


def class_rows(n, names, seed=8):
    """Return labels with hostile names, and probabilities of the classes."""
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(len(names)), size=n)
    return np.array(names, object)[rng.integers(len(names), size=n)], probs


def svg_of(result):
    """Return the picture in what a notebook shows of a result; all of it must be well formed."""
    tree = ElementTree.fromstring(f"<div>{result._repr_html_()}</div>")
    (picture,) = tree.iter("svg")
    return picture


def drawn_points(picture):
    (path,) = (p for p in picture.iter("path") if p.get("class") == "points")
    return path.get("d").count("M")


def test_joining_bins_keeps_every_sum_and_the_outer_edges():
    y, p = event_rows(5000)
    table = calibrant.tabulate(y, p, bins=50)
    few = join_bins(table, 12)
    assert few.count.shape == (1, 12)
    for name in ("count", "sum_y", "sum_p", "sum_pp", "sum_py", "sum_w"):
        assert getattr(few, name).sum() == pytest.approx(getattr(table, name).sum())
    again = calibrant.tabulate(y, p, bins=few.bins[0])
    assert few.count.tolist() == again.count.tolist()
    assert few.sum_wwuu == pytest.approx(again.sum_wwuu)
    assert join_bins(table, 50) is table


def test_a_notebook_shows_the_diagram_of_error_certificate_and_curve():
    y, p = event_rows(500)
    for result in (
        calibrant.calibration_error(y, p, bins=7),
        calibrant.reliability_curve(y, p, bins=7),
        calibrant.certify(y, p.round(1), max_error=0.2),
    ):
        assert drawn_points(svg_of(result)) in (7, 10, 11)


def test_a_notebook_shows_the_differences_of_a_comparison():
    y, p = event_rows(500)
    picture = svg_of(calibrant.compare(y, p, p**2))
    assert len([path for path in picture.iter("path") if path.get("class") == "bars"]) == 3


def test_of_several_classes_the_worst_is_shown_and_its_name_is_text():
    names = ["<script>1</script>", "b", "c"]
    y, probs = class_rows(300, names)
    result = calibrant.calibration_error(y, probs, kind="marginal", classes=names, bins=5)
    worst = max(result.per_class, key=result.per_class.get)
    shown = result._repr_html_()
    assert "<script" not in shown
    texts = [text.text for text in svg_of(result).iter("text")]
    assert f"predicted: {worst} →" in texts


def test_very_many_outputs_are_joined_in_the_picture_and_only_there():
    y, p = event_rows(3000)
    result = calibrant.calibration_error(y, p, bins="distinct")
    assert result.table.count.shape[1] == 3000
    assert drawn_points(svg_of(result)) == 200
    curve = calibrant.reliability_curve(y, p, bins="distinct")
    assert len(curve) == 3000
    assert "<svg" not in curve._repr_html_()


@pytest.mark.parametrize(("y", "p"), [([1], [1.0]), ([0], [0.0]), ([0, 1], [0.5, 0.5])])
def test_one_row_and_certain_predictions_have_a_diagram(y, p):
    assert drawn_points(svg_of(calibrant.calibration_error(y, p))) == 1
    svg_of(calibrant.certify(y, p))
