"""Grids: the worst class or group comes first."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import many_classes, rendered, rows

from calibrant import EqualWidth, exceptions, tabulate
from calibrant.display import ReliabilityDisplay, ReliabilityGrid

pytestmark = pytest.mark.usefixtures("closed_figures")


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


def test_a_grid_of_groups_needs_one_curve_a_group():
    y, probs = many_classes(300)
    with pytest.raises(exceptions.InvalidArgumentError, match="one curve"):
        ReliabilityDisplay.grid(y, probs, kind="marginal", by=y % 2)
