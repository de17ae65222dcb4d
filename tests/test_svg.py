"""The diagram: one geometry for reports and notebooks."""

from __future__ import annotations

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant
from calibrant._svg import axis_limit, diagram, diagram_svg, differences_svg, paths, ticks


def curve_of(said, happened, low=None, high=None, count=None):
    """Return a curve of these numbers, with limits of 0.1 on both sides by default."""
    said, happened = np.array(said, float), np.array(happened, float)
    return SimpleNamespace(
        mean_prediction=said,
        event_rate=happened,
        low=happened - 0.1 if low is None else np.array(low, float),
        high=happened + 0.1 if high is None else np.array(high, float),
        count=np.full(said.size, 10.0) if count is None else np.array(count, float),
    )


def test_points_lie_where_the_axes_say():
    drawn = paths(*[curve_of([0.0, 0.5, 1.0], [1.0, 0.5, 0.25])] * 2)
    assert drawn["points"] == "M0 0h0M400 400h0M800 600h0"
    assert drawn["filled"] == "M0 0h0M800 600h0"


def test_bars_and_band_have_their_own_limits_and_stay_in_the_frame():
    alone = curve_of([0.2, 1.0], [0.2, 0.9], low=[0.1, 0.8], high=[0.3, 1.2])
    at_once = curve_of([0.2, 1.0], [0.2, 0.9], low=[0.0, 0.7], high=[0.4, 1.3])
    drawn = paths(alone, at_once)
    assert drawn["bars"] == "M160 720V560M800 160V0"
    assert drawn["band"] == "M160 480L800 0L800 240L160 800Z"


def test_counts_are_in_proportion():
    drawn = paths(*[curve_of([0.1, 0.9], [0.1, 0.9], count=[50, 100])] * 2)
    heights = re.findall(r"v-(\d+)", drawn["counts"])
    assert int(heights[1]) == 2 * int(heights[0])


def test_axes_of_rare_events_end_where_the_points_do():
    y = np.arange(10_000) % 500 == 0
    curve = calibrant.reliability_curve(y, np.linspace(0, 0.004, 10_000), bins=4)
    assert axis_limit(curve) == 0.005
    assert ticks(0.005) == ["0%", "0.1%", "0.2%", "0.3%", "0.4%", "0.5%"]


@pytest.mark.parametrize("n", [1, 2, 200])
def test_a_notebook_gets_one_well_formed_picture_that_needs_no_style_sheet(n):
    rng = np.random.default_rng(0)
    p = rng.uniform(size=1000)
    curve = calibrant.reliability_curve(rng.uniform(size=1000) < p, p, bins=n)
    tree = ElementTree.fromstring(diagram_svg(curve, "<b> & more"))
    assert "predicted: <b> & more →" in [text.text for text in tree.iter("text")]
    painted = [path for path in tree.iter("path") if path.get("class") != "here"]
    assert all(path.get("stroke") or path.get("fill") != "none" for path in painted)
    assert not [node for node in tree.iter() if node.get("id") or node.get("style")]


def test_a_curve_without_a_bin_is_an_empty_frame():
    tree = ElementTree.fromstring(diagram_svg(curve_of([], [])))
    drawn = {path.get("class"): path.get("d") for path in tree.iter("path")}
    assert {name for name, path in drawn.items() if path} == {"grid", "diagonal", "here"}


def test_ids_of_a_page_begin_with_the_name_that_was_given():
    tree = ElementTree.fromstring(str(diagram(*[curve_of([0.5], [0.5])] * 2, "t", name="one")))
    assert tree.get("aria-labelledby") == "one-title one-description"
    assert {node.get("id") for node in tree.iter()} == {
        None, "one-svg", "one-title", "one-description"
    }  # fmt: skip


def test_differences_are_hollow_unless_their_interval_excludes_zero():
    rows = [("<error>", -0.02, -0.03, -0.01), ("Brier", 0.0, -1.0, 1.0), ("none", 0.0, 0.0, 0.0)]
    tree = ElementTree.fromstring(differences_svg(rows))
    assert "<error>" in [text.text for text in tree.iter("text")]
    drawn = [path.get("d") for path in tree.iter("path") if path.get("class") == "bars"]
    assert drawn == ["M380 30H527", "M380 85H820", "M600 140H600"]
    assert sum(path.get("class") == "points inner" for path in tree.iter("path")) == 2
