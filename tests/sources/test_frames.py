"""Lazy frames are counted where they are, with the numbers of the NumPy engine."""

from __future__ import annotations

import datetime
import pickle
import re
from importlib.util import find_spec

import numpy as np
import pytest

import calibrant
from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.engines import frame as frame_engine
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
    MissingDependencyError,
)
from calibrant.sources import frames
from calibrant.sources.arrays import read_arrays
from calibrant.sources.frames import FrameSource, read_frame
from conftest import optional
from lazy_frames import arrow_table, lazy_frame, on_every_engine

pandas = optional("pandas")
collected = frame_engine.collected
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")

SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu")
NAMES = ["c0", "c1", "c2"]
MANY = Bins(np.linspace(0, 1, 51) ** 1.5)


def example(n=2000, n_classes=3):
    rng = np.random.default_rng(0)
    probs = np.round(rng.dirichlet(np.ones(n_classes), size=n), 2)
    columns = {f"c{k}": probs[:, k] for k in range(n_classes)}
    y, w = rng.integers(n_classes, size=n), rng.integers(4, size=n) / 2
    return pandas.DataFrame({"y": y, "won": y == 1, "w": w, "p": probs[:, 1], **columns})


def assert_same(source, columns, rule):
    """Equal edges, counts and levels, and sums to 1e-12."""
    assert isinstance(source, FrameSource)
    if isinstance(rule, Bins):
        bins = (rule,) * columns.problem.n_groups
    else:
        bins = source.choose(rule)
        assert bins == NumpyEngine().choose(columns, rule)
    table, expected = source.count(bins), NumpyEngine().count(columns, bins)
    assert table.problem == expected.problem
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.level, expected.level)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(table, name), getattr(expected, name), rtol=1e-12, atol=1e-14, err_msg=name
        )


@on_every_engine()
def test_two_columns_are_one_event_whose_column_is_the_second(engine):
    frame = example()
    frame["q"] = 1 - frame["p"]
    lazy = lazy_frame(engine, frame)
    for given in ({}, {"classes": (1, 0)}, {"pos_label": 0}):
        rows = read_arrays(frame["won"], frame[["q", "p"]], **given)
        assert_same(read_frame(lazy, "won", ["q", "p"], **given), rows, EqualWidth(10).bins)


@on_every_engine()
@pytest.mark.parametrize("bad", [None, 1.5, -0.1])
def test_both_of_two_columns_are_checked(engine, bad):
    frame = example(50).astype({"p": object})
    frame.loc[7, "p"] = bad
    lazy = lazy_frame(engine, frame.assign(p=frame["p"].astype("Float64")))
    for names in (["p", "c0"], ["c0", "p"]):
        with pytest.raises(InvalidProbabilitiesError, match="1 rows"):
            calibrant.tabulate("won", names, data=lazy)


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


SHAPES = {
    "uniform": lambda u: u,
    "log-uniform": lambda u: 10 ** (-300 * u),
    "two values": lambda u: np.where(u < 0.3, 0.2, np.nextafter(0.2, 1)),
    "beside one": lambda u: 1 - 1e-12 * u,
    "tiny": lambda u: u**40,
    "half tied": lambda u: np.where(u < 0.5, 0.25, u),
}


@on_every_engine(most=2, shape=list(SHAPES), n_bins=[15, 2])
def test_uniform_mass_edges_are_those_of_sorting(engine, shape, n_bins, monkeypatch):
    monkeypatch.setattr(frame_engine, "LISTED_ROWS", 20)
    p = SHAPES[shape](np.random.default_rng(1).uniform(size=3000))
    frame = pandas.DataFrame({"y": np.arange(3000) % 2, "p": p})
    given = read_frame(lazy_frame(engine, frame), "y", "p")
    assert_same(given, read_arrays(frame.y, frame.p), EqualMass(n_bins))


LABELS = {
    "text": (lambda y: np.array(["no", "yes"])[y], {"classes": ("no", "yes")}),
    "an event": (lambda y: np.array(["no", "yes"])[y], {"pos_label": "yes"}),
    "numbers": (lambda y: np.array([5, -3])[y], {"classes": (5, -3)}),
    "a number": (lambda y: y * 7.0, {"pos_label": 7}),
    "floats": (lambda y: y.astype(float), {}),
}


@on_every_engine(most=3, given=list(LABELS))
def test_labels_of_every_type_are_counted_alike(engine, given):
    make, arguments = LABELS[given]
    frame = example(300)
    frame["y"] = make(frame.won.to_numpy().astype(int))
    assert_same(
        read_frame(lazy_frame(engine, frame), "y", "p", **arguments),
        read_arrays(frame.y.to_numpy(), frame.p, **arguments),
        EqualWidth(5).bins,
    )


@on_every_engine(kind=["marginal", "top-label"])
def test_classes_have_names(engine, kind):
    frame, classes = example(300), ["cat", "dog", "eel"]
    frame["y"] = np.take(classes, frame.y)
    assert_same(
        read_frame(lazy_frame(engine, frame), "y", NAMES, kind=kind, classes=classes),
        read_arrays(frame.y.to_numpy(), frame[NAMES].to_numpy(), kind=kind, classes=classes),
        EqualWidth(5).bins,
    )


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


@on_every_engine()
def test_an_unknown_column_and_an_empty_frame_are_refused(engine):
    empty = lazy_frame(engine, {"y": np.array([], float), "p": np.array([], float)})
    with pytest.raises(InvalidArgumentError, match="no column 'q' among"):
        calibrant.tabulate("y", "q", data=empty)
    with pytest.raises(EmptyInputError):
        calibrant.tabulate("y", "p", data=empty, bins=EqualWidth(3))


@on_every_engine()
def test_columns_of_another_type_are_refused(engine):
    frame = example(50)
    frame["text"] = "0.5"
    data = lazy_frame(engine, frame)
    with pytest.raises(InvalidLabelsError, match="column 'y'"):
        calibrant.tabulate("y", "p", data=data, pos_label="yes", bins=EqualWidth(3))
    with pytest.raises(InvalidProbabilitiesError, match="column 'text' is of type String"):
        calibrant.tabulate("won", "text", data=data, bins=EqualWidth(3))


@on_every_engine()
@pytest.mark.parametrize(
    "weight", ["1", datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1), datetime.timedelta(1)]
)
def test_weights_that_are_not_numbers_are_refused(engine, weight):
    if engine == "spark" and isinstance(weight, datetime.timedelta):
        pytest.skip("Spark reads durations as integers")
    data = lazy_frame(engine, {"y": [0, 1], "p": [0.1, 0.9], "w": [weight, weight]})
    with pytest.raises(InvalidWeightsError, match="must be numbers; column 'w' is of type"):
        calibrant.tabulate("y", "p", sample_weight="w", data=data, bins=EqualWidth(3))


@on_every_engine()
@pytest.mark.parametrize(
    "label", [b"n", datetime.date(2026, 1, 1), [1]], ids=["bytes", "date", "list"]
)
def test_labels_that_are_neither_numbers_nor_text_are_refused(engine, label):
    if engine == "dask":
        pytest.skip("Dask makes text of the objects of pandas")
    data = lazy_frame(engine, {"y": [label, label], "p": [0.1, 0.9]})
    for named in ({"classes": ("n", "é")}, {"pos_label": "é"}, {"classes": ("2026-01-01", "x")}):
        with pytest.raises(InvalidLabelsError, match="column 'y' are of type"):
            calibrant.tabulate("y", "p", data=data, bins=EqualWidth(3), **named)


@on_every_engine()
def test_measuring_a_lazy_frame_gives_the_answer_of_its_arrays(engine):
    frame = example()
    result = calibrant.calibration_error("won", "p", data=lazy_frame(engine, frame))
    expected = calibrant.calibration_error(frame.won, frame.p)
    assert result.value == pytest.approx(expected.value, rel=1e-12)
    assert str(result) == str(expected)


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


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_in_memory_give_their_columns_to_the_array_engines(library):
    frame = example()
    data = {
        "pandas": lambda: frame,
        "polars": lambda: optional("polars").from_pandas(frame),
        "pyarrow": lambda: arrow_table(frame),
    }[library]()
    table = calibrant.tabulate("y", NAMES, data=data, bins=EqualWidth(10))
    assert table == calibrant.tabulate(frame.y, frame[NAMES], bins=EqualWidth(10))


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
@pytest.mark.parametrize("library", ["polars", "duckdb", "pyarrow.dataset", "ibis"])
def test_a_parquet_file_is_scanned(library, tmp_path):
    optional("pyarrow")
    frame = example()
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    scan = {"polars": "scan_parquet", "pyarrow.dataset": "dataset"}.get(library, "read_parquet")
    data = getattr(optional(library), scan)(str(path))
    if library == "pyarrow.dataset" and not find_spec("polars"):
        optional("duckdb")  # either of them scans it
    table = calibrant.tabulate("won", "p", data=data, bins=EqualWidth(10))
    np.testing.assert_array_equal(
        table.count, calibrant.tabulate(frame.won, frame.p, bins=EqualWidth(10)).count
    )


def test_a_dataset_is_read_by_polars_where_there_is_no_duckdb(monkeypatch):
    optional("polars")
    monkeypatch.setattr(
        frames, "DATASET_READERS", {"no_duckdb": "", "polars": "scan_pyarrow_dataset"}
    )
    data = lazy_frame("pyarrow dataset", example())
    table = calibrant.tabulate("won", "p", data=data, bins=EqualWidth(4))
    assert table.n == 2000
    monkeypatch.setattr(frames, "DATASET_READERS", {"no_duckdb": ""})
    with pytest.raises(MissingDependencyError, match="DuckDB or Polars"):
        calibrant.tabulate("won", "p", data=data, bins=EqualWidth(4))


HOMES = {
    "dict": lambda frame: dict(frame),
    "pandas": lambda frame: frame,
    "polars": lambda frame: optional("polars").from_pandas(frame),
    "lazy": lambda frame: lazy_frame("polars", frame),
}


@pytest.mark.parametrize("home", HOMES)
def test_names_that_name_no_column_are_refused_alike(home):
    data = HOMES[home](example(20))
    column = optional("polars").col("p")
    for y, p in (("won", []), ("won", ()), ([], "p"), ("won", column), ("won", example(20).p)):
        with pytest.raises(InvalidArgumentError, match="With data=, .*won"):
            calibrant.tabulate(y, p, data=data)


@pytest.mark.parametrize("home", HOMES)
def test_several_columns_of_labels_are_refused_where_one_is_needed(home):
    for kind, p in ((None, "p"), ("binary", "p"), ("top-label", NAMES), ("marginal", NAMES)):
        with pytest.raises(InvalidLabelsError, match="got 2: won, y"):
            calibrant.tabulate(["won", "y"], p, data=HOMES[home](example(20)), kind=kind)


def test_what_is_no_frame_is_refused():
    with pytest.raises(InvalidArgumentError, match="must be a data frame"):
        calibrant.tabulate("won", "p", data=object())


@on_every_engine(named=[{"classes": (2**53, 2**53 + 1)}, {"pos_label": 2**53 + 1}])
def test_integers_that_floats_cannot_tell_apart_are_told_apart(engine, named):
    y = 2**53 + np.array([0, 1, 1, 0])
    columns = {"y": y, "p": np.array([0.1, 0.8, 0.6, 0.4])}
    table = calibrant.tabulate("y", "p", data=lazy_frame(engine, columns), bins=2, **named)
    assert table.sum_y.tolist() == [[0, 2]]


@on_every_engine(dtype=[bool, np.int8, np.float32, np.float64])
def test_classes_may_be_numbers_of_another_type_than_the_labels(engine, dtype):
    columns = {"y": np.array([0, 1, 1, 0]).astype(dtype), "p": np.array([0.1, 0.8, 0.6, 0.4])}
    data = lazy_frame(engine, columns)
    for classes in ((0, 1), (0.0, 1.0), (False, True)):
        table = calibrant.tabulate("y", "p", data=data, bins=2, classes=classes)
        assert table.sum_y.tolist() == [[0, 2]]


@on_every_engine(prefix=["_calibrant_", "_CALIBRANT_"])
def test_columns_may_have_any_name(engine, prefix):
    frame = example(200)
    names = [f"{prefix}{name}" for name in ("top", "best", "0")]
    renamed = frame.rename(columns=dict(zip(NAMES, names, strict=True)))
    renamed = renamed.assign(**{f"{prefix}1": 0.5, "p": 0.5, "key": 1.0, "group": 2.0})
    rows = read_arrays(frame.y, frame[NAMES])
    assert_same(read_frame(lazy_frame(engine, renamed), "y", names), rows, EqualWidth(10).bins)


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


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("name", ["*", "^.*$"])
def test_a_name_that_selects_several_columns_is_refused(engine, name):
    columns = {"y": [0, 1, 1], name: [0.2, 0.6, 0.7], "p": [0.1, 0.1, 0.1]}
    with pytest.raises(InvalidArgumentError, match="pattern of columns"):
        calibrant.tabulate("y", name, data=lazy_frame(engine, columns), bins=EqualWidth(2))


@pytest.mark.parametrize(("engine", "name"), [("ibis", ""), ("ibis", "p\0"), ("spark", "a.b")])
def test_a_name_that_the_engine_cannot_read_is_named(engine, name):
    columns = {"y": [0, 1, 1], name: [0.2, 0.6, 0.7], "q": [0.1, 0.1, 0.1]}
    with pytest.raises(InvalidInputError, match=re.escape(f"cannot read column {name!r}")):
        calibrant.tabulate("y", name, data=lazy_frame(engine, columns), bins=EqualWidth(2))


@pytest.fixture
def collects(monkeypatch):
    """Return a list that grows whenever Polars runs a plan."""
    polars, made = optional("polars"), []
    collect = polars.LazyFrame.collect
    monkeypatch.setattr(
        polars.LazyFrame, "collect", lambda *args, **kw: made.append(1) or collect(*args, **kw)
    )
    return made


@pytest.mark.parametrize("kind", ["binary", "marginal"])
def test_two_models_in_a_lazy_frame_are_collected_once(collects, kind):
    frame = example(400)
    others = {f"d{k}": frame[name] for k, name in enumerate(NAMES[::-1])}
    frame = frame.assign(**others)
    names = ("p", "c0") if kind == "binary" else (NAMES, list(others))
    result = calibrant.compare(
        "won" if kind == "binary" else "y", *names, data=lazy_frame("polars", frame), kind=kind
    )
    assert len(collects) == 1
    y = frame.won if kind == "binary" else frame.y
    arrays = (frame[name].to_numpy() for name in names)
    assert result.to_dict() == calibrant.compare(y, *arrays, kind=kind).to_dict()


def test_auto_takes_no_query_for_the_number_of_rows(collects):
    frame = pandas.DataFrame({"y": np.arange(9000) % 2, "p": np.random.default_rng(5).random(9000)})
    frame["w"] = np.arange(9000) % 3  # rows without weight are rows
    for weight in (None, "w"):
        collects.clear()
        data = lazy_frame("polars", frame)
        table = calibrant.tabulate("y", "p", data=data, sample_weight=weight)
        assert len(collects) == 2
        w = None if weight is None else frame.w
        assert table.bins == calibrant.tabulate(frame.y, frame.p, sample_weight=w).bins


@on_every_engine()
def test_an_event_that_never_occurs_is_refused_and_nothing_collected(engine, monkeypatch):
    monkeypatch.setattr(FrameSource, "columns", lambda self: pytest.fail("collected"))
    data = lazy_frame(engine, {"y": ["no", "yes", "no"], "p": [0.1, 0.5, 0.2], "w": [1, 0, 1]})
    with pytest.raises(
        InvalidLabelsError, match="pos_label='Yes' is the label of no row .labels: "
    ):
        calibrant.tabulate("y", "p", data=data, pos_label="Yes", bins=EqualWidth(2))
    table = calibrant.tabulate(
        "y", "p", data=data, pos_label="yes", sample_weight="w", bins=EqualWidth(2)
    )
    assert table.sum_y.sum() == 0  # it occurs, in a row without weight


def test_an_interval_does_not_need_the_frame_again():
    polars = optional("polars")
    frame = example(300)
    data = polars.from_pandas(frame).lazy()
    result = calibrant.calibration_error("y", NAMES, kind="marginal", data=data)
    expected = calibrant.calibration_error(frame.y, frame[NAMES], kind="marginal")
    result = pickle.loads(pickle.dumps(result))
    assert result.source is None
    assert tuple(result.confidence_interval()) == pytest.approx(
        tuple(expected.confidence_interval()), rel=1e-9
    )


@pytest.mark.parametrize(
    "name", ["is_repeated", "holds_answers", "detach", "device", "count", "columns", "dtype", "T"]
)
def test_columns_may_have_the_names_of_attributes(name):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    y = (rng.uniform(size=200) < p).astype(int)
    frame = pd.DataFrame({"y": y, name: p, "other": 1 - p})
    expected = calibrant.calibration_error(y, p)
    assert calibrant.calibration_error("y", name, data=frame).value == expected.value
    assert calibrant.calibration_error(frame["y"], frame[[name]]).value == expected.value
    assert calibrant.calibration_error(y, frame[["other", name]]).value == expected.value
    assert calibrant.selective_curve("y", name, data=frame).aurc > 0


HALF_HOMES = ["pandas", "polars", "lazy", "table", "dataset", "duckdb", "scan", "parquet", "arrow"]


@pytest.mark.parametrize("home", [*HALF_HOMES, "ibis"])
def test_half_floats_give_the_numbers_of_arrays_or_are_refused_in_words(home, tmp_path):
    """DuckDB reads none of Arrow's; PyArrow datasets are then scanned by Polars."""
    pl, rng = optional("polars"), np.random.default_rng(0)
    y, p = rng.integers(0, 2, 200), rng.random(200).astype(np.float16)
    table = arrow_table({"y": y, "p": p})
    path = tmp_path / f"f.{'arrow' if home == 'arrow' else 'parquet'}"
    if home == "arrow":
        optional("pyarrow.feather").write_feather(table, path)
    else:
        optional("pyarrow.parquet").write_table(table, path)
    data = {
        "pandas": table.to_pandas,
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        "table": lambda: table,
        "dataset": lambda: optional("pyarrow.dataset").dataset(table),
        "duckdb": lambda: optional("duckdb").connect().from_df(table.to_pandas()),
        "scan": lambda: optional("duckdb").connect().read_parquet(str(path)),
        "ibis": lambda: lazy_frame("ibis", table),
    }.get(home, lambda: path)()
    if home == "ibis":
        with pytest.raises(InvalidInputError, match="cannot read column 'p'.*convert it"):
            calibrant.tabulate("y", "p", data=data, bins=5)
        return
    found, expected = (
        calibrant.tabulate("y", "p", data=data, bins=5),
        calibrant.tabulate(y, p, bins=5),
    )
    assert found.bins == expected.bins
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)


def test_a_dataset_that_nothing_scans_is_refused_in_words(monkeypatch):
    dataset = optional("pyarrow.dataset").dataset(arrow_table({"y": [0, 1], "p": [0.2, 0.9]}))
    monkeypatch.setattr(frames, "DATASET_READERS", {"numpy": "no_such_reader"})
    with pytest.raises(InvalidInputError, match="cannot be scanned. numpy: .*Cast columns"):
        calibrant.tabulate("y", "p", data=dataset)
