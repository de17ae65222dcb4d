"""The diagram: one geometry for reports and notebooks."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import calibrant
from calibrant._svg import (
    Histogram,
    Window,
    closer_window,
    diagram,
    diagram_svg,
    frame_of,
    paths,
    ticks,
    window_of,
)


def curve_of(said, happened, low=None, high=None, count=None, edges=None):
    """Return a curve of these numbers, with limits of 0.1 on both sides by default.

    Bins meet in the middle between two points, unless the edges (left, right) are given.
    """
    said, happened = np.array(said, float), np.array(happened, float)
    middle = np.concatenate([[0.0], (said[1:] + said[:-1]) / 2, [1.0]])[: said.size + 1]
    return SimpleNamespace(
        mean_prediction=said,
        event_rate=happened,
        low=happened - 0.1 if low is None else np.array(low, float),
        high=happened + 0.1 if high is None else np.array(high, float),
        count=np.full(said.size, 10.0) if count is None else np.array(count, float),
        left=middle[:-1] if edges is None else np.array(edges[0], float),
        right=middle[1:] if edges is None else np.array(edges[1], float),
    )


def drawn_of(curve, at_once=None, **options):
    return paths(curve, at_once or curve, frame_of(curve, **options))


def test_points_lie_where_the_axes_say():
    drawn = drawn_of(curve_of([0.0, 0.5, 1.0], [1.0, 0.5, 0.25]))
    assert drawn["points"] == "M0 0h0M400 400h0M800 600h0"
    assert drawn["filled"] == "M0 0h0M800 600h0"


def test_bars_and_band_have_their_own_limits_and_stay_in_the_frame():
    alone = curve_of([0.2, 1.0], [0.2, 0.9], low=[0.1, 0.8], high=[0.3, 1.2])
    at_once = curve_of([0.2, 1.0], [0.2, 0.9], low=[0.0, 0.7], high=[0.4, 1.3])
    drawn = drawn_of(alone, at_once)
    assert drawn["bars"] == "M160 720V560M800 160V0"
    assert drawn["band"] == "M160 480L800 0L800 240L160 800Z"


def test_the_histogram_spreads_the_rows_of_a_bin_between_its_edges_by_outcome():
    curve = curve_of([0.3, 0.8], [0.5, 0.25], count=[50, 100], edges=([0.0, 0.5], [0.5, 1.0]))
    events, others = vars(frame_of(curve).histogram).values()
    assert events == pytest.approx([25 / 20] * 20 + [25 / 20] * 20)
    assert others == pytest.approx([25 / 20] * 20 + [75 / 20] * 20)
    assert drawn_of(curve)["events"] == "M0 936V862H800V936Z"
    assert drawn_of(curve)["others"] == "M0 936V961H400V1010H800V936Z"


def test_a_model_of_few_outputs_has_a_bar_at_each_and_no_ribbon_between_them():
    curve = curve_of([0.25, 0.75], [0.25, 0.75], count=[40, 20])
    drawn = drawn_of(curve, is_binned=True)
    assert drawn["events"] == "M193 936v-50h14V936ZM593 936v-74h14V936Z"
    assert drawn["band"].count("M") == 2
    assert drawn["band"].count("h14") == 2


def test_the_ribbon_is_broken_where_there_are_no_predictions():
    assert drawn_of(curve_of([0.2, 0.4, 0.6], [0.2, 0.4, 0.6]))["band"].count("M") == 1
    apart = curve_of([0.2, 0.4, 0.9], [0.2] * 3, edges=([0.1, 0.3, 0.8], [0.3, 0.5, 1.0]))
    assert drawn_of(apart)["band"].count("M") == 2  # an empty bin
    meeting = curve_of([0.1, 0.9], [0.1, 0.9])
    assert drawn_of(meeting)["band"].count("M") == 1
    frame = frame_of(meeting)
    rows = np.zeros(40)
    rows[[3, 4, 35, 36]] = 1  # bins meet, but nobody is in the middle
    frame = frame._replace(histogram=Histogram(rows, 0 * rows))
    assert paths(meeting, meeting, frame)["band"].count("M") == 2


def test_axes_of_rare_events_end_where_the_points_do():
    y = np.arange(10_000) % 500 == 0
    curve = calibrant.reliability_curve(y, np.linspace(0, 0.004, 10_000), bins=4)
    assert window_of(curve) == Window(0, 0.005, 0, 0.005)
    assert ticks(0, 0.005) == ["0%", "0.1%", "0.2%", "0.3%", "0.4%", "0.5%"]


def test_axes_of_a_sure_model_begin_where_the_points_do():
    assert window_of(curve_of([0.93, 0.99], [0.92, 1.0])) == Window(0.9, 1, 0.9, 1)
    assert ticks(0.9, 1.0) == ["90%", "92%", "94%", "96%", "98%", "100%"]
    assert window_of(curve_of([0.02, 0.99], [0.02, 1.0])) == Window(0, 1, 0, 1)


def test_rows_that_crowd_in_a_corner_get_a_closer_look_with_all_their_points():
    crowded = curve_of([0.001, 0.002, 0.004, 0.3], [0.0, 0.008, 0.004, 0.3], count=[9, 9, 9, 1])
    closer = closer_window(crowded, window_of(crowded))
    assert closer == Window(0, 0.005, 0, 0.01)
    assert closer.holds(crowded).tolist() == [True, True, True, False]
    assert drawn_of(crowded, window=closer)["points"].count("M") == 3
    sure = curve_of([0.3, 0.97, 0.98, 0.99], [0.3, 0.97, 0.98, 0.99], count=[1, 9, 9, 9])
    assert closer_window(sure, window_of(sure))[:2] == (0.95, 1)
    even = curve_of([0.1, 0.3, 0.5, 0.7], [0.1, 0.3, 0.5, 0.7])
    assert closer_window(even, window_of(even)) is None


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
    assert "NaN" not in diagram_svg(curve_of([], []))


def test_ids_of_a_page_begin_with_the_name_that_was_given():
    tree = ElementTree.fromstring(str(diagram(*[curve_of([0.5], [0.5])] * 2, "t", name="one")))
    assert tree.get("aria-labelledby") == "one-title one-description"
    assert {node.get("id") for node in tree.iter()} == {
        None, "one-svg", "one-title", "one-description"
    }  # fmt: skip
