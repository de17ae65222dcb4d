"""Lazy frames are counted where they are, with the numbers of the NumPy engine."""

from __future__ import annotations

import numpy as np
import pytest

import calibrant
from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.engines.frame import FrameEngine, FrameRows, read_frame
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import (
    EmptyInputError,
    InvalidArgumentError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.problem import read_rows
from conftest import optional

pandas = optional("pandas")

SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu")


def as_polars(frame):
    return optional("polars").from_pandas(frame).lazy()


def as_duckdb(frame):
    return optional("duckdb").from_df(frame)


def as_dask(frame):
    return optional("dask.dataframe").from_pandas(frame, npartitions=3)


@pytest.fixture(params=[as_polars, as_duckdb, as_dask], ids=["polars", "duckdb", "dask"])
def lazy(request):
    return request.param


def example(n=2000, n_classes=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    probs = np.round(rng.dirichlet(np.ones(n_classes), size=n), 2).astype(dtype)
    columns = {f"c{k}": probs[:, k] for k in range(n_classes)}
    y, w = rng.integers(n_classes, size=n), rng.integers(4, size=n) / 2
    return pandas.DataFrame({"y": y, "won": y == 1, "w": w, "p": probs[:, 1], **columns})


def assert_same(lazy_rows, rows, rule):
    """Equal edges, counts and levels, and sums to 1e-12."""
    assert isinstance(lazy_rows, FrameRows)
    bins = (
        (rule,) * rows.problem.n_groups
        if isinstance(rule, Bins)
        else FrameEngine().choose_bins(lazy_rows, rule)
    )
    if not isinstance(rule, Bins):
        assert bins == NumpyEngine().choose_bins(rows, rule)
    table, expected = FrameEngine().tabulate(lazy_rows, bins), NumpyEngine().tabulate(rows, bins)
    assert table.problem == expected.problem
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.level, expected.level)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(table, name), getattr(expected, name), rtol=1e-12, atol=1e-14, err_msg=name
        )


RULES = [
    EqualWidth(1).bins,
    EqualWidth(15).bins,
    Bins([0, 0.01, 0.5, 0.51, 1]),
    EqualMass(7),
    Distinct(),
    Hybrid(5),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("weight", [None, "w"])
def test_a_column_is_counted_as_by_numpy(lazy, rule, weight):
    frame = example()
    rows = read_rows(frame.won, frame.p, sample_weight=None if weight is None else frame.w)
    given = read_frame(lazy(frame), "won", "p", sample_weight=weight)
    assert_same(given, rows, rule)


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("rule", [EqualWidth(10).bins, EqualMass(4)], ids=str)
def test_several_columns_are_counted_as_by_numpy_and_ties_go_to_the_lowest(
    lazy, kind, weight, rule
):
    frame, names = example(), ["c0", "c1", "c2"]
    weights = None if weight is None else frame.w
    rows = read_rows(frame.y, frame[names].to_numpy(), kind=kind, sample_weight=weights)
    given = read_frame(lazy(frame), "y", names, kind=kind, sample_weight=weight)
    assert_same(given, rows, rule)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [3, 10, 15, 200])
def test_values_on_and_beside_every_edge_are_counted_where_they_belong(lazy, n_bins, dtype):
    edges = EqualWidth(n_bins).bins.edges
    p = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    p = np.unique(p[(p >= 0) & (p <= 1)]).astype(dtype)
    frame = pandas.DataFrame({"y": np.arange(p.size) % 2, "p": p})
    irregular = Bins(np.delete(edges, 1))
    for bins in (EqualWidth(n_bins).bins, irregular):
        assert_same(read_frame(lazy(frame), "y", "p"), read_rows(frame.y, frame.p), bins)


SHAPES = {
    "uniform": lambda u: u,
    "tiny": lambda u: u**40,
    "log-uniform": lambda u: 10 ** (-300 * u),
    "beside one": lambda u: 1 - 1e-12 * u,
    "two values": lambda u: np.where(u < 0.3, 0.2, np.nextafter(0.2, 1)),
    "half tied": lambda u: np.where(u < 0.5, 0.25, u),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_uniform_mass_edges_are_those_of_sorting(lazy, shape, monkeypatch):
    monkeypatch.setattr("calibrant.engines.frame.LISTED_ROWS", 20)
    p = SHAPES[shape](np.random.default_rng(1).uniform(size=3000))
    frame = pandas.DataFrame({"y": np.zeros(3000), "p": p})
    given = read_frame(lazy(frame), "y", "p")
    for n_bins in (2, 15):
        chosen = FrameEngine().choose_bins(given, EqualMass(n_bins))
        assert chosen == NumpyEngine().choose_bins(read_rows(frame.y, p), EqualMass(n_bins))


LABELS = {
    "text": (lambda y: np.array(["no", "yes"])[y], {"classes": ("no", "yes")}),
    "an event": (lambda y: np.array(["no", "yes"])[y], {"pos_label": "yes"}),
    "numbers": (lambda y: np.array([5, -3])[y], {"classes": (5, -3)}),
    "floats": (lambda y: y.astype(float), {}),
}


@pytest.mark.parametrize("given", LABELS)
def test_labels_of_every_type_are_counted_alike(lazy, given):
    make, arguments = LABELS[given]
    frame = example()
    frame["y"] = make(frame.won.to_numpy().astype(int))
    assert_same(
        read_frame(lazy(frame), "y", "p", **arguments),
        read_rows(frame.y.to_numpy(), frame.p, **arguments),
        EqualWidth(5).bins,
    )


BAD = {
    "missing prediction": ("p", [None, 0.2], InvalidProbabilitiesError, "'p'.*1 rows are missing"),
    "outside": ("p", [-3.0, 7.0], InvalidProbabilitiesError, r"'p'.*2 rows are .*outside \[0, 1\]"),
    "missing label": ("y", [None, 1.0], InvalidLabelsError, "'y' is missing in 1 rows"),
    "unknown label": ("y", [2.0, 0.5], InvalidLabelsError, "'y' is not among the classes in 2"),
    "bad weight": ("w", [-1.0, np.inf], InvalidWeightsError, "'w'.*2 rows are not"),
    "missing weight": ("w", [None, 1.0], InvalidWeightsError, "'w'.*1 rows are not"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("bins", [EqualWidth(4), EqualMass(2), Distinct()], ids=str)
def test_bad_values_are_counted_and_their_column_is_named(lazy, what, bins):
    name, values, exception, words = BAD[what]
    columns = {"y": np.arange(10) % 2.0, "p": np.arange(10) / 10, "w": np.ones(10)}
    columns[name] = np.array([*values, *columns[name][2:]], float)
    data = lazy(pandas.DataFrame(columns))
    with pytest.raises(exception, match=words):
        calibrant.tabulate("y", "p", data=data, bins=bins, sample_weight="w")


def test_an_unknown_column_and_an_empty_frame_are_refused(lazy):
    data = lazy(example())
    with pytest.raises(InvalidArgumentError, match="no column 'q' among"):
        calibrant.tabulate("won", "q", data=data)
    empty = lazy(pandas.DataFrame({"y": np.array([], float), "p": np.array([], float)}))
    with pytest.raises(EmptyInputError):
        calibrant.tabulate("y", "p", data=empty, bins=EqualWidth(3))


def test_labels_of_another_type_than_the_classes_are_refused(lazy):
    with pytest.raises(InvalidLabelsError, match="column 'y'"):
        calibrant.tabulate("y", "p", data=lazy(example()), pos_label="yes", bins=EqualWidth(3))


def test_measuring_a_lazy_frame_gives_the_answer_of_its_arrays(lazy):
    frame = example()
    result = calibrant.calibration_error("won", "p", data=lazy(frame))
    expected = calibrant.calibration_error(frame.won, frame.p)
    assert result.value == pytest.approx(expected.value, rel=1e-12)
    assert str(result) == str(expected)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_in_memory_give_their_columns_to_the_array_engines(library):
    frame = example()
    data = {
        "pandas": lambda: frame,
        "polars": lambda: optional("polars").from_pandas(frame),
        "pyarrow": lambda: optional("pyarrow").Table.from_pandas(frame),
    }[library]()
    table = calibrant.tabulate("y", ["c0", "c1", "c2"], data=data, bins=EqualWidth(10))
    expected = calibrant.tabulate(frame.y, frame[["c0", "c1", "c2"]], bins=EqualWidth(10))
    assert table == expected


@pytest.mark.parametrize("library", ["polars", "duckdb"])
def test_a_parquet_file_is_scanned_without_reading_other_columns(library, tmp_path):
    optional("pyarrow")
    frame = example()
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    scan = {"polars": "scan_parquet", "duckdb": "read_parquet"}[library]
    data = getattr(optional(library), scan)(str(path))
    table = calibrant.tabulate("won", "p", data=data, bins=EqualWidth(10))
    np.testing.assert_array_equal(
        table.count, calibrant.tabulate(frame.won, frame.p, bins=EqualWidth(10)).count
    )
