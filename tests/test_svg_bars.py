"""Error bars and differences with their intervals."""

from __future__ import annotations

from xml.etree import ElementTree

from calibrant._svg_bars import ErrorBar, differences_svg, error_bar


def test_the_error_bar_shows_bounds_on_the_scale_of_the_interval():
    def proved(bar):
        tree = ElementTree.fromstring(str(error_bar(bar, str, "")))
        return next(path.get("d") for path in tree.iter("path") if path.get("class") == "proved")

    bar = ErrorBar(0.02, (0.01, 0.03), 0.005, (0.01, 0.04), 0.05)
    assert bar.end == 0.05
    assert proved(bar) == "M174 60v36m0 -18H697m0 -18v36"
    assert proved(bar._replace(bounds=(0.01, 1.0))).endswith("H871m-16 -13l16 13l-16 13")


def test_differences_are_hollow_unless_their_interval_excludes_zero():
    rows = [("<error>", -0.02, -0.03, -0.01), ("Brier", 0.0, -1.0, 1.0), ("none", 0.0, 0.0, 0.0)]
    tree = ElementTree.fromstring(differences_svg(rows))
    assert "<error>" in [text.text for text in tree.iter("text")]
    drawn = [path.get("d") for path in tree.iter("path") if path.get("class") == "bars"]
    assert drawn == ["M380 30H527", "M380 85H820", "M600 140H600"]
    assert sum(path.get("class") == "points inner" for path in tree.iter("path")) == 2
