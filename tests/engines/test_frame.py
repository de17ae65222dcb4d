"""Lazy frames are counted where they are, in few passes, with the numbers of the NumPy engine."""

from __future__ import annotations

import re

import numpy as np
import pytest

import calibrant
from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.engines import frame as frame_engine
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import (
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.sources.arrays import read_arrays
from calibrant.sources.frames import FrameSource, read_frame
from counted_frames import MANY, NAMES, assert_same, example, pandas
from lazy_frames import lazy_frame, on_every_engine

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")


collected = frame_engine.collected

SHAPES = {
    "uniform": lambda u: u,
    "log-uniform": lambda u: 10 ** (-300 * u),
    "two values": lambda u: np.where(u < 0.3, 0.2, np.nextafter(0.2, 1)),
    "beside one": lambda u: 1 - 1e-12 * u,
    "tiny": lambda u: u**40,
    "half tied": lambda u: np.where(u < 0.5, 0.25, u),
}


@on_every_engine(
    rule=[
        EqualWidth(1).bins,
        EqualWidth(15).bins,
        Bins([0, 0.01, 0.5, 0.51, 1]),
        MANY,
        EqualMass(7),
        Distinct(),
        Hybrid(5),
    ],
    weight=[None, "w"],
)
def test_a_column_is_counted_as_by_numpy(engine, rule, weight):
    frame = example()
    rows = read_arrays(frame.won, frame.p, sample_weight=None if weight is None else frame.w)
    given = read_frame(lazy_frame(engine, frame), "won", "p", sample_weight=weight)
    assert_same(given, rows, rule)


@on_every_engine(
    rule=[EqualWidth(10).bins, EqualMass(4), Distinct()],
    kind=["marginal", "top-label"],
    weight=["w", None, "w"],
)
def test_several_columns_are_counted_as_by_numpy_and_ties_go_to_the_lowest(
    engine, rule, kind, weight
):
    frame = example()
    weights = None if weight is None else frame.w
    rows = read_arrays(frame.y, frame[NAMES].to_numpy(), kind=kind, sample_weight=weights)
    given = read_frame(lazy_frame(engine, frame), "y", NAMES, kind=kind, sample_weight=weight)
    assert_same(given, rows, rule)


@on_every_engine()
def test_every_class_may_have_bins_of_its_own(engine):
    frame = example(300)
    rows = read_arrays(frame.y, frame[NAMES].to_numpy(), kind="marginal")
    given = read_frame(lazy_frame(engine, frame), "y", NAMES, kind="marginal")
    bins = (EqualWidth(3).bins, EqualWidth(200).bins, MANY)
    table, expected = given.count(bins), NumpyEngine().count(rows, bins)
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.sum_y, expected.sum_y)


@on_every_engine(n_bins=[3, 15, 85], dtype=[np.float32, np.float64, np.float64])
def test_values_on_and_beside_every_edge_are_counted_where_they_belong(engine, n_bins, dtype):
    edges = EqualWidth(n_bins).bins.edges
    p = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    p = np.unique(p[(p >= 0) & (p <= 1)]).astype(dtype)
    frame = pandas.DataFrame({"y": np.arange(p.size) % 2, "p": p})
    data, rows = lazy_frame(engine, frame), read_arrays(frame.y, frame.p)
    for bins in (EqualWidth(n_bins).bins, Bins(np.delete(edges, 1))):
        assert_same(read_frame(data, "y", "p"), rows, bins)


@on_every_engine(most=2, shape=list(SHAPES), n_bins=[15, 2])
def test_uniform_mass_edges_are_those_of_sorting(engine, shape, n_bins, monkeypatch):
    monkeypatch.setattr(frame_engine, "LISTED_ROWS", 20)
    p = SHAPES[shape](np.random.default_rng(1).uniform(size=3000))
    frame = pandas.DataFrame({"y": np.arange(3000) % 2, "p": p})
    given = read_frame(lazy_frame(engine, frame), "y", "p")
    assert_same(given, read_arrays(frame.y, frame.p), EqualMass(n_bins))


BAD = {
    "missing prediction": ("p", [None, 0.2], InvalidProbabilitiesError, "'p'.*1 rows are missing"),
    "missing label": ("y", [None, 1.0], InvalidLabelsError, "'y' is missing in 1 rows"),
    "outside": ("p", [-3.0, 7.0], InvalidProbabilitiesError, r"'p'.*2 rows are .*outside \[0, 1\]"),
    "unknown label": ("y", [2.0, 0.5], InvalidLabelsError, "'y' is not among the classes in 2"),
    "bad weight": ("w", [-1.0, np.inf], InvalidWeightsError, "'w'.*2 rows are not"),
    "missing weight": ("w", [None, 1.0], InvalidWeightsError, "'w'.*1 rows are not"),
}


@on_every_engine(what=list(BAD), bins=[EqualWidth(4), EqualMass(2), Distinct()])
def test_bad_values_are_counted_and_their_column_is_named(engine, what, bins):
    name, values, exception, words = BAD[what]
    columns = {"y": np.arange(10) % 2.0, "p": np.arange(10) / 10, "w": np.ones(10)}
    columns[name] = [*values, *columns[name][2:].tolist()]
    data = lazy_frame(engine, columns)
    with pytest.raises(exception, match=words):
        calibrant.tabulate("y", "p", data=data, bins=bins, sample_weight="w")


@on_every_engine(name=["p", "y", "w"])
def test_nan_that_is_not_null_is_refused(engine, name):
    columns = {"y": np.arange(10) % 2.0, "p": np.arange(10) / 10, "w": np.ones(10)}
    columns[name] = np.append(columns[name][:9], np.nan)
    data = lazy_frame(engine, columns)
    with pytest.raises(calibrant.exceptions.InvalidInputError, match=f"column '{name}'.*1 rows"):
        calibrant.tabulate("y", "p", data=data, bins=EqualWidth(3), sample_weight="w")


@on_every_engine(kind=["marginal", "top-label"])
def test_a_bad_value_in_one_of_several_columns_is_refused(engine, kind):
    frame = example(50)
    columns = {name: frame[name].to_numpy() for name in ("y", *NAMES)}
    columns["c1"] = [None, *frame.c1[1:].tolist()]
    with pytest.raises(InvalidProbabilitiesError, match="'c1'.* 1 rows are missing"):
        calibrant.tabulate(
            "y", NAMES, kind=kind, data=lazy_frame(engine, columns), bins=EqualWidth(3)
        )


@on_every_engine()
def test_weights_of_zero_on_every_row_are_refused(engine):
    data = lazy_frame(engine, {"y": np.ones(4), "p": np.ones(4), "w": np.zeros(4)})
    with pytest.raises(InvalidWeightsError, match="zero on every row"):
        calibrant.tabulate("y", "p", data=data, sample_weight="w", bins=EqualWidth(2))


PASSES = {
    "equal width": (EqualWidth(15), 1),
    "few irregular": (Bins([0, 0.01, 0.5, 0.51, 1]), 1),
    "many irregular": (MANY, 2),
    "uniform mass": (EqualMass(15), 2),
    "distinct": (Distinct(), 1),
}


@pytest.mark.parametrize("what", PASSES)
@pytest.mark.parametrize("kind", ["binary", "marginal"])
def test_passes_are_few_and_shared_by_all_classes(what, kind, monkeypatch):
    bins, passes = PASSES[what]
    collected = frame_engine.collected
    made = []
    monkeypatch.setattr(frame_engine, "collected", lambda *a: made.append(1) or collected(*a))
    rng = np.random.default_rng(2)
    columns = {"y": rng.integers(2, size=5000)} | {f"c{k}": rng.random(5000) for k in range(2)}
    probs = "c1" if kind == "binary" else ["c0", "c1"]
    data = lazy_frame("polars", columns)
    calibrant.tabulate("y", probs, kind=kind, data=data, bins=bins)
    assert len(made) == passes


@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_mass_takes_at_most_four_passes_and_lists_few_values(shape, monkeypatch):
    monkeypatch.setattr(frame_engine, "LISTED_ROWS", 100)
    collected = frame_engine.collected
    sizes = []

    def watched(lazy, *by):
        found = collected(lazy, *by)
        sizes.append(found["count"].size)
        return found

    monkeypatch.setattr(frame_engine, "collected", watched)
    p = SHAPES[shape](np.random.default_rng(3).uniform(size=200_000))
    data = lazy_frame("polars", {"y": np.zeros(p.size), "p": p})
    calibrant.tabulate("y", "p", data=data, bins=EqualMass(4))
    assert len(sizes) <= 4
    assert max(sizes) < 80_000 or shape == "log-uniform"


@on_every_engine(weight=[None, "w"], norm=["l1", "l2"], rule=[EqualWidth(7), EqualMass(4), MANY])
def test_intervals_of_several_classes_are_those_of_arrays(engine, weight, norm, rule):
    frame = example(500)
    options = {"kind": "marginal", "bins": rule, "norm": norm}
    lazy = calibrant.calibration_error(
        "y", NAMES, data=lazy_frame(engine, frame), sample_weight=weight, **options
    )
    arrays = calibrant.calibration_error(
        frame.y, frame[NAMES], sample_weight=None if weight is None else frame.w, **options
    )
    for level in (0.5, 0.95):
        found, expected = lazy.confidence_interval(level), arrays.confidence_interval(level)
        assert tuple(found) == pytest.approx(tuple(expected), rel=1e-9)
        assert found.notes == expected.notes


def test_the_interval_of_classes_is_one_more_query_and_collects_nothing(monkeypatch):
    asked = []
    monkeypatch.setattr(frame_engine, "collected", lambda *a: asked.append(1) or collected(*a))
    monkeypatch.setattr(FrameSource, "columns", lambda self: pytest.fail("collected"))
    lazy = lazy_frame("polars", example(500))
    calibrant.tabulate("y", NAMES, data=lazy, kind="marginal", bins=EqualWidth(5))
    counting = len(asked)
    result = calibrant.calibration_error("y", NAMES, data=lazy, kind="marginal", bins=EqualWidth(5))
    assert len(asked) == 2 * counting + 1
    assert not result.confidence_interval().notes
    assert len(asked) == 2 * counting + 1


def test_a_query_of_too_many_bins_is_not_asked_and_the_interval_says_so(monkeypatch):
    monkeypatch.setattr(frame_engine, "MOST_STEPS", 14)
    lazy = lazy_frame("polars", example(500))
    options = {"data": lazy, "kind": "marginal", "bins": EqualWidth(5)}
    result = calibrant.calibration_error("y", NAMES, **options)
    assert result.confidence_interval() == (
        calibrant.stats.calibration_error(result.table).confidence_interval()
    )
    assert "how classes depend on each other" in str(result)


@on_every_engine(weight=[0.0, 1e-101, 1e101])
def test_weights_that_cannot_be_squared_are_refused_as_of_arrays(engine, weight):
    columns = {"y": [0, 1, 1], "p": [0.2, 0.6, 0.7], "w": [weight, weight / 2, 0.0]}
    for data in (columns, lazy_frame(engine, columns)):
        for bins in (EqualWidth(2), 2):
            with pytest.raises(InvalidWeightsError, match="largest|zero on every row"):
                calibrant.tabulate("y", "p", data=data, sample_weight="w", bins=bins)


@on_every_engine()
def test_one_weight_of_a_normal_size_is_enough(engine):
    columns = {"y": [0, 1, 1], "p": [0.2, 0.6, 0.7], "w": [1e-200, 1e-300, 1.0]}
    table = calibrant.tabulate(
        "y", "p", data=lazy_frame(engine, columns), sample_weight="w", bins=Distinct()
    )
    assert table.n == 3


@pytest.mark.parametrize(("engine", "name"), [("ibis", ""), ("ibis", "p\0"), ("spark", "a.b")])
def test_a_name_that_the_engine_cannot_read_is_named(engine, name):
    columns = {"y": [0, 1, 1], name: [0.2, 0.6, 0.7], "q": [0.1, 0.1, 0.1]}
    with pytest.raises(InvalidInputError, match=re.escape(f"cannot read column {name!r}")):
        calibrant.tabulate("y", name, data=lazy_frame(engine, columns), bins=EqualWidth(2))
