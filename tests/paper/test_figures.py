"""Figures are the same twice, and are seen on any ground."""

from __future__ import annotations

import pytest

from calibrant.paper import run
from calibrant.paper.batch import Store
from calibrant.paper.figures import COLOURS, ON_DARK, draw
from conftest import optional

styles = optional("matplotlib.style")


@pytest.fixture
def example():
    return run("example-3-1")


def test_figures_are_the_same_bytes_twice(tmp_path, example):
    for folder in ("a", "b"):
        Store(tmp_path / folder).save(example)
    for kind in ("png", "svg"):
        first, second = ((tmp_path / f / f"example-3-1.{kind}").read_bytes() for f in "ab")
        assert first == second


def test_figures_on_a_dark_ground_have_lines_that_are_seen(example):
    light = draw(example.output.panels)["svg"].decode()
    with styles.context("dark_background"):
        dark = draw(example.output.panels)["svg"].decode()
    assert COLOURS[0] in light
    assert ON_DARK[0] not in light
    assert ON_DARK[0] in dark
    assert COLOURS[0] not in dark
