"""Lazy frames are counted where they are, with the numbers of the NumPy engine."""

from __future__ import annotations

import pickle
from importlib.util import find_spec

import numpy as np
import pytest

import calibrant
from calibrant import EqualWidth
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    MissingDependencyError,
)
from calibrant.sources import frames
from calibrant.sources.frames import FrameSource
from conftest import optional
from counted_frames import NAMES, example, pandas
from lazy_frames import arrow_table, lazy_frame, on_every_engine

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")


@on_every_engine()
def test_an_unknown_column_and_an_empty_frame_are_refused(engine):
    empty = lazy_frame(engine, {"y": np.array([], float), "p": np.array([], float)})
    with pytest.raises(InvalidArgumentError, match="no column 'q' among"):
        calibrant.tabulate("y", "q", data=empty)
    with pytest.raises(EmptyInputError):
        calibrant.tabulate("y", "p", data=empty, bins=EqualWidth(3))


@on_every_engine()
def test_measuring_a_lazy_frame_gives_the_answer_of_its_arrays(engine):
    frame = example()
    result = calibrant.calibration_error("won", "p", data=lazy_frame(engine, frame))
    expected = calibrant.calibration_error(frame.won, frame.p)
    assert result.value == pytest.approx(expected.value, rel=1e-12)
    assert str(result) == str(expected)


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


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize("name", ["*", "^.*$"])
def test_a_name_that_selects_several_columns_is_refused(engine, name):
    columns = {"y": [0, 1, 1], name: [0.2, 0.6, 0.7], "p": [0.1, 0.1, 0.1]}
    with pytest.raises(InvalidArgumentError, match="pattern of columns"):
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
