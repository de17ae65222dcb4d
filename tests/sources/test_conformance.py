"""One suite for all sources and engines: counts and edges equal, sums to 1e-12.

`home` is every place where predictions may live, `quick_home` those that answer quickly, `memory`
arrays and tensors, which alone have types such as float16 and messages with the place of a value.
"""

from __future__ import annotations

import dataclasses
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
from homes import ALL_HOMES, IN_MEMORY, QUICK_HOMES, Home

from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant._influences import Influence, InfluenceSums
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import (
    InvalidGroupsError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    LogitsError,
    NotFiniteError,
    SwappedArgumentsError,
)
from calibrant.sources import read
from calibrant.sources.arrays import read_arrays
from conftest import optional
from lazy_frames import QUICK, SLOW, lazy_frame

SUMS = ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_ww", "sum_wwuu")


@pytest.fixture(params=ALL_HOMES)
def home(request, monkeypatch, tmp_path):
    """Return every home there is."""
    return Home(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=QUICK_HOMES)
def quick_home(request, monkeypatch, tmp_path):
    """Return the homes that answer in milliseconds."""
    return Home(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=IN_MEMORY)
def memory(request, monkeypatch, tmp_path):
    """Return arrays and tensors: for many rows, and for types and messages of their own."""
    return Home(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=["numpy", "compiled"])
def arrays(request, monkeypatch, tmp_path):
    """Return arrays, whose memory Python can trace."""
    return Home(request.param, monkeypatch, tmp_path)


def assert_same_table(table, expected):
    """Counts and levels equal, sums to 1e-12."""
    assert (table.problem, table.bins) == (expected.problem, expected.bins)
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.level, expected.level)
    for name in SUMS:
        np.testing.assert_allclose(
            getattr(table, name), getattr(expected, name), rtol=1e-12, atol=0, err_msg=name
        )


def both(home, y, p, **options):
    """Return the source at a home, and the same rows as columns for the NumPy engine."""
    return home.read(y, p, **options), read_arrays(y, p, **options)


def on_and_beside(edges):
    """Every edge, and the next float on either side that is a probability."""
    beside = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
    return np.unique(beside[(beside >= 0) & (beside <= 1)])


def expected_sums(p, y, w, edges):
    """Sums row by row from the definition, in extended precision."""
    out = {name: np.zeros(len(edges) - 1, np.longdouble) for name in ("count", *SUMS)}
    for pi, yi, wi in zip(p.tolist(), y.tolist(), w.tolist(), strict=True):
        j = next(i for i in range(len(edges) - 1) if pi <= edges[i + 1])
        terms = (yi * wi, pi * wi, wi * pi * pi, wi * pi * yi, wi, wi * wi, (wi * (yi - pi)) ** 2)
        out["count"][j] += wi > 0
        for name, term in zip(SUMS, terms, strict=True):
            out[name][j] += np.longdouble(term)
    return out


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [1, 3, 10, 15, 200])
def test_values_on_and_beside_every_edge_are_counted_where_they_belong(quick_home, n_bins, dtype):
    edges = EqualWidth(n_bins).bins.edges
    p = on_and_beside(edges).astype(dtype)
    y = np.arange(p.size) % 2
    table = quick_home.read(y, p).count((EqualWidth(n_bins).bins,))
    expected = expected_sums(p.astype(float), y, np.ones(p.size), edges)
    assert table.count[0].tolist() == expected["count"].tolist()
    for name in SUMS:
        assert getattr(table, name)[0] == pytest.approx(expected[name].astype(float), rel=1e-12)


CROWDED = {
    "at zero": np.array([5e-324, 1e-308, 1e-300, 1e-100, 1e-12, 2e-12, 3e-12]),
    "beside a half": np.nextafter(0.5, [0, 1]),
    "at one": 1 - np.array([3e-16, 2e-16, 1.2e-16]),
    "everywhere": np.random.default_rng(0).uniform(size=3000) ** 9,
}


@pytest.mark.parametrize("where", CROWDED)
def test_edges_may_crowd_anywhere(quick_home, where):
    inner = np.unique(CROWDED[where])
    edges = np.concatenate([[0.0], inner[(inner > 0) & (inner < 1)], [1.0]])
    p = np.concatenate([on_and_beside(edges), np.random.default_rng(1).uniform(size=500)])
    table = quick_home.read(np.zeros(p.size), p).count((Bins(edges),))
    expected = np.bincount(np.searchsorted(edges[1:-1], p), minlength=edges.size - 1)
    assert table.count[0].tolist() == expected.tolist()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [1, 2, 100, 20_000])
def test_sums_are_exact_to_twelve_digits(quick_home, n, weighted):
    rng = np.random.default_rng(n)
    p = rng.beta(0.3, 0.3, size=n)
    y = rng.integers(2, size=n)
    w = rng.exponential(size=n) * (rng.uniform(size=n) < 0.9) + 1e-3 if weighted else np.ones(n)
    bins = Bins([0, 0.001, 0.2, 0.21, 0.9, 0.999999, 1])
    table = quick_home.read(y, p, sample_weight=w if weighted else None).count((bins,))
    expected = expected_sums(p, y, w, bins.edges)
    assert table.count[0].tolist() == expected["count"].tolist()
    for name in SUMS:
        assert getattr(table, name)[0] == pytest.approx(expected[name].astype(float), rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 16, 17, 40])
@pytest.mark.parametrize("weighted", [False, True])
def test_marginal_tables_are_those_of_each_class_alone(quick_home, n_classes, weighted):
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(n_classes), size=500).astype(np.float32)
    y = rng.integers(n_classes - 1, size=500)
    w = rng.exponential(size=500) if weighted else None
    bins = tuple(EqualWidth(3 + k % 4).bins for k in range(n_classes))
    table = quick_home.read(y, probs, kind="marginal", sample_weight=w).count(bins)
    for k in range(n_classes):
        alone = read(y == k, probs[:, k], sample_weight=w).count((bins[k],))
        for name in ("count", *SUMS, "level"):
            padded = np.zeros(table.count.shape[1]) + (np.nan if name == "level" else 0)
            padded[: len(bins[k])] = getattr(alone, name)[0]
            exact = name in ("count", "level")
            np.testing.assert_allclose(
                getattr(table, name)[k], padded, rtol=0 if exact else 1e-12, atol=0, err_msg=name
            )


def test_top_label_is_the_binary_problem_of_being_right(home):
    rng = np.random.default_rng(4)
    probs = np.round(rng.dirichlet(np.ones(4), size=3000), 1)
    y = rng.integers(4, size=3000)
    table = home.read(y, probs).count((EqualWidth(10).bins,))
    top = probs.argmax(axis=1)
    alone = home.read(top == y, probs.max(axis=1)).count((EqualWidth(10).bins,))
    for name in ("count", "sum_y", "level"):
        np.testing.assert_array_equal(getattr(table, name), getattr(alone, name))
    for name in SUMS:
        np.testing.assert_allclose(getattr(table, name), getattr(alone, name), rtol=1e-14)


@pytest.mark.parametrize(
    "rule", [EqualMass(7), Hybrid(7), Distinct()], ids=lambda r: type(r).__name__
)
def test_bins_are_those_of_the_sorted_values(home, rule):
    rng = np.random.default_rng(5)
    probs = np.round(rng.dirichlet(np.ones(3), size=400), 3)
    source = home.read(rng.integers(3, size=400), probs, kind="marginal")
    for k, bins in enumerate(source.choose(rule)):
        values, counts = np.unique(probs[:, k], return_counts=True)
        assert bins == rule.choose(values, counts.astype(float))


@pytest.mark.parametrize(
    "rule", [EqualMass(4), Hybrid(4), Distinct()], ids=lambda r: type(r).__name__
)
def test_whole_weights_choose_the_bins_of_repeated_rows(quick_home, rule):
    rng = np.random.default_rng(6)
    p, w = np.round(rng.uniform(size=80), 2), rng.integers(0, 4, size=80)
    weighted = quick_home.read(p > 2, p, sample_weight=w).choose(rule)
    repeated = quick_home.read(np.repeat(p > 2, w), np.repeat(p, w)).choose(rule)
    assert weighted == repeated


def test_row_order_does_not_matter(memory):
    rng = np.random.default_rng(8)
    p, order = rng.uniform(size=60_000), rng.permutation(60_000)
    y = rng.uniform(size=60_000) < p
    a = memory.read(y, p).count((EqualWidth(15).bins,))
    b = memory.read(y[order], p[order]).count((EqualWidth(15).bins,))
    assert a.count.tolist() == b.count.tolist()
    for name in SUMS:
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-12)


def test_strided_and_reversed_arrays_are_read_as_they_are(memory):
    rng = np.random.default_rng(9)
    wide = np.asfortranarray(rng.uniform(size=(1000, 6)).astype(np.float32))
    y = rng.integers(2, size=1000)
    a = memory.read(y[::-2], wide[::-2, 3]).count((EqualWidth(5).bins,))
    b = memory.read(y[::-2].copy(), wide[::-2, 3].copy()).count((EqualWidth(5).bins,))
    assert a == b


LABELS = {
    "booleans": (lambda y: y == 1, {}),
    "small integers": (lambda y: y.astype(np.int8), {}),
    "unsigned": (lambda y: y.astype(np.uint64), {}),
    "floats": (lambda y: y.astype(np.float32), {}),
    "half floats": (lambda y: y.astype(np.float16), {}),
    "big endian": (lambda y: y.astype(">i4"), {}),
    "an event": (lambda y: y * 7, {"pos_label": 7}),
    "named numbers": (lambda y: np.array([5, -3])[y], {"classes": (5, -3)}),
    "text": (lambda y: np.array(["no", "yes"])[y], {"classes": ("no", "yes")}),
    "objects": (lambda y: np.array(["no", "yes"], object)[y], {"pos_label": "yes"}),
}


@pytest.mark.parametrize("given", LABELS)
def test_labels_of_every_type_are_counted_alike(quick_home, given):
    rng = np.random.default_rng(10)
    p, y = rng.uniform(size=500), rng.integers(2, size=500)
    make, arguments = LABELS[given]
    table = quick_home.read(make(y), p, **arguments).count((EqualWidth(7).bins,))
    expected = NumpyEngine().count(read_arrays(y, p), (EqualWidth(7).bins,))
    np.testing.assert_array_equal(table.count, expected.count)
    np.testing.assert_array_equal(table.sum_y, expected.sum_y)


@pytest.mark.parametrize("dtype", [bool, np.int64, np.float16, ">f4", np.float64, np.longdouble])
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_predictions_of_every_type_are_counted_as_float64(memory, kind, dtype):
    rng = np.random.default_rng(11)
    probs = rng.uniform(size=(300, 5))
    probs = (np.round(probs) if np.dtype(dtype).kind in "bi" else probs).astype(dtype)
    probs = probs[:, 0] if kind == "binary" else probs
    source, rows = both(memory, rng.integers(2, size=300), probs, kind=kind)
    bins = (EqualWidth(10).bins,) * rows.problem.n_groups
    assert_same_table(source.count(bins), NumpyEngine().count(rows, bins))
    assert source.choose(EqualMass(4)) == NumpyEngine().choose(rows, EqualMass(4))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_many_rows_are_counted_as_by_numpy(memory, kind, weighted):
    rng = np.random.default_rng(12)
    n = 600_000
    probs = np.round(rng.random((n, 3), dtype=np.float32), 4)
    w = rng.integers(3, size=n) * rng.uniform(size=n) if weighted else None
    probs = probs[:, 0] if kind == "binary" else probs
    source, rows = both(memory, rng.integers(2, size=n), probs, kind=kind, sample_weight=w)
    bins = source.choose(EqualMass(50))
    assert bins == NumpyEngine().choose(rows, EqualMass(50))
    assert_same_table(source.count(bins), NumpyEngine().count(rows, bins))


DECIMAL_HOMES = ["arrays", "pyarrow", "pandas", "parquet", *QUICK, *SLOW]


@pytest.mark.parametrize("scale", [2, 9, 18, 30, 37])
@pytest.mark.parametrize("where", DECIMAL_HOMES)
def test_decimals_are_the_floats_that_they_read_as(where, scale, tmp_path):
    pyarrow = optional("pyarrow")
    texts = ["0.1", "0.2", "0.3", "0.6", "0.7", "0.9"]
    exact = np.array(texts, float)
    column = pyarrow.array(map(Decimal, texts), pyarrow.decimal128(38, scale))
    label = pyarrow.array(map(Decimal, [0, 1, 0, 1, 0, 1]), pyarrow.decimal128(38, scale))
    data = pyarrow.table({"y": label, "p": column, "w": column})
    if where == "dask":  # which makes text of the objects of pandas
        pandas = optional("pandas")
        frame = data.to_pandas(types_mapper=pandas.ArrowDtype)
        data = optional("dask.dataframe").from_pandas(frame, npartitions=1)
    elif where == "pandas":
        data = data.to_pandas()
    elif where == "arrays":
        data = {name: np.array(data[name].to_pylist()) for name in data.column_names}
    elif where == "parquet":
        optional("pyarrow.parquet").write_table(data, tmp_path / "rows.parquet")
        data = tmp_path / "rows.parquet"
    elif where != "pyarrow":
        data = lazy_frame(where, data)
    source = read("y", "p", data=data, sample_weight="w")
    table = source.count((Bins([0.0, *exact, 1.0]),))
    assert table.level.tolist() == [[*exact, pytest.approx(np.nan, nan_ok=True)]]
    assert table.sum_w.tolist() == [[*exact, 0]]
    assert table.sum_y.tolist() == [[0, 0.2, 0, 0.6, 0, 0.9, 0]]


def test_ties_for_the_top_go_to_the_lowest_class(home):
    probs = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3]])
    table = home.read([0, 2, 0], probs).count((EqualWidth(1).bins,))
    assert table.sum_y[0, 0] == 2


def test_one_distinct_prediction_in_a_bin_is_its_level(memory):
    p = np.tile([0.1, 0.3, 0.3, 0.71, 0.72], 300_000)
    table = memory.read(p > 0.5, p).count((EqualWidth(4).bins,))
    np.testing.assert_array_equal(table.level, [[0.1, 0.3, np.nan, np.nan]])


@pytest.mark.parametrize("weight", [None, 1.0, 1e-100, 1e100])
def test_a_level_is_exact_where_sums_alone_could_not_tell(quick_home, weight):
    """Zeros, values whose squares vanish, values that differ in the last bit, and single rows."""
    next_to = np.nextafter(0.65, 1)
    p = np.concatenate(
        [
            np.zeros(900),
            np.tile([1e-200, 2e-200], 500),
            np.full(3000, 0.3),
            np.tile([0.65, 0.65, next_to], 1000),
            [0.81],
            np.full(5000, 1 / 1.1),
        ]
    )
    bins = Bins([0, 1e-250, 1e-100, 0.5, 0.7, 0.82, 0.85, 1])
    p = np.random.default_rng(0).permutation(p)
    weights = None if weight is None else np.full(p.size, weight)
    table = quick_home.read(np.arange(p.size) % 2, p, sample_weight=weights).count((bins,))
    expected = [[0, np.nan, 0.3, np.nan, 0.81, np.nan, 1 / 1.1]]
    np.testing.assert_array_equal(table.level, expected)


def test_a_row_of_no_weight_has_no_level(home):
    p = np.array([0.1, 0.1, 0.2, 0.8])
    table = home.read([0, 1, 0, 1], p, sample_weight=[1, 2, 0, 0]).count((EqualWidth(2).bins,))
    np.testing.assert_array_equal(table.level, [[0.1, np.nan]])


BAD = {
    "a NaN": (
        [0, 1, 0],
        [0.5, np.nan, 0.1],
        NotFiniteError,
        r"1 of 3 values are NaN .*y_prob\[1\]",
    ),
    "infinity": ([0, 1, 0], [0.5, np.inf, 0.1], NotFiniteError, "infinite"),
    "logits": ([0, 1, 0], [-0.5, 3.0, 0.1], LogitsError, "both sides"),
    "percentages": ([0, 1, 0], [50.0, 30.0, 0.1], InvalidProbabilitiesError, "percentages"),
    "a label 2": ([0, 2, 0], [0.5, 0.5, 0.1], InvalidLabelsError, r"1 of 3 .*y_true\[1\] = 2"),
    "a label -1": ([0, -1, 0], [0.5, 0.5, 0.1], InvalidLabelsError, "pos_label"),
    "a NaN label": ([0, np.nan, 0], [0.5, 0.5, 0.1], InvalidLabelsError, "nan"),
    "swapped": ([0.5, 0.5, 0.1], [0.0, 1.0, 0.0], SwappedArgumentsError, "Swap"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_values_are_refused_with_the_same_words(memory, what):
    y, p, exception, words = BAD[what]
    with pytest.raises(exception, match=words):
        memory.read(y, p).count((EqualWidth(5).bins,))


@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_bad_values_of_tables_are_refused_with_their_place(memory, kind):
    probs = np.full((4, 3), 0.25)
    probs[2, 1] = np.nan
    source = memory.read([0, 1, 2, 0], probs, kind=kind)
    bins = (EqualWidth(5).bins,) * source.problem.n_groups
    with pytest.raises(NotFiniteError, match=r"y_prob\[2, 1\]"):
        source.count(bins)
    for rule in (EqualMass(2), Distinct()):
        with pytest.raises(NotFiniteError, match=r"y_prob\[2, 1\]"):
            source.choose(rule)
    with pytest.raises(InvalidLabelsError, match=r"y_true\[3\] = 3"):
        memory.read([0, 1, 2, 3], np.full((4, 3), 0.25), kind=kind).count(bins)


def traced_peak(work):
    """Return the most bytes that Python and NumPy held at once while they worked."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_temporaries_do_not_grow_with_the_rows(arrays, kind, monkeypatch):
    """1,500,000 rows more may take less than one byte each: no array of them is ever made.

    Threads hold the sums of their segments, and the more of them the more run at once: on two
    threads whatever the order of segments, that is at most 0.8 MB.
    """
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    n_classes = 2 if kind == "binary" else 20

    def peak(n):
        rng = np.random.default_rng(0)
        probs = rng.random(n if kind == "binary" else (n, n_classes), dtype=np.float32)
        source = arrays.read(rng.integers(2, size=n), probs, kind=kind)
        bins = (EqualWidth(15).bins,) * source.problem.n_groups
        arrays.read(np.zeros(100, int), probs[:100], kind=kind).count(bins)
        return traced_peak(lambda: source.count(bins))

    assert peak(1_600_000) < peak(100_000) + 1_500_000


def test_a_thousand_classes_take_no_temporaries_of_the_size_of_the_input(arrays, monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")  # each holds the sums of a segment
    rng = np.random.default_rng(0)
    probs = rng.random((20_000, 1000), dtype=np.float32)
    y = rng.integers(1000, size=20_000)
    bins = (EqualWidth(15).bins,) * 1000
    few = arrays.read(y[:100], probs[:100], kind="marginal")
    assert few.count(bins).count.sum() == 100 * 1000
    source = arrays.read(y, probs, kind="marginal")
    assert traced_peak(lambda: source.count(bins)) < 0.3 * probs.nbytes
    assert source.count(bins).count.sum() == 20_000 * 1000


def test_sums_of_millions_of_equal_terms_keep_thirteen_digits(memory):
    n = 5_000_000
    table = memory.read(np.ones(n), np.full(n, 1 / 3)).count((EqualWidth(1).bins,))
    assert table.sum_p[0, 0] == pytest.approx(n / 3, rel=1e-13)


def test_a_large_table_keeps_the_digits_of_a_crowded_bin(memory):
    n = 1_000_000
    table = memory.read(np.ones(n), np.full(n, 1 / 3)).count((EqualWidth(5000).bins,))
    used = np.flatnonzero(table.count[0])
    assert used.tolist() == [1666]
    assert table.count[0, used] == n
    assert table.sum_p[0, used] == pytest.approx(n / 3, rel=1e-12)
    assert table.sum_pp[0, used] == pytest.approx(n / 9, rel=1e-12)


@pytest.mark.parametrize("n_classes", [2, 1100])
def test_classes_with_bins_of_their_own_are_counted_as_by_numpy(memory, n_classes):
    rng = np.random.default_rng(13)
    probs = rng.dirichlet(np.full(n_classes, 0.05), size=300)
    source, rows = both(memory, rng.integers(n_classes, size=300), probs, kind="marginal")
    bins = source.choose(EqualMass(6))
    assert bins == NumpyEngine().choose(rows, EqualMass(6))
    assert_same_table(source.count(bins), NumpyEngine().count(rows, bins))


def assert_groups_as_alone(tables, rows, groups, bins):
    """The table of each group is that of its rows alone."""
    assert list(tables) == sorted(set(groups), key=str)
    for key, table in tables.items():
        own = np.flatnonzero([group == key for group in groups])
        assert_same_table(table, NumpyEngine().count(rows.take(own), bins))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal"])
def test_rows_of_each_group_are_counted_as_if_alone(quick_home, kind, weighted):
    rng = np.random.default_rng(20)
    n = 3000
    probs = np.round(rng.dirichlet(np.ones(3), size=n), 2)
    probs = probs[:, 0] if kind == "binary" else probs
    y, sites = rng.integers(2, size=n), rng.choice(["north", "south", "x y"], size=n)
    w = rng.exponential(size=n) * (rng.uniform(size=n) < 0.9) if weighted else None
    by = {"site": sites}
    source = quick_home.read(y, probs, kind=kind, sample_weight=w, by=by)
    rows = read_arrays(y, probs, kind=kind, sample_weight=w)
    for rule in (EqualWidth(10), EqualMass(5), Distinct()):
        tables = source.tabulate_by(rule)
        assert_groups_as_alone(tables, rows, sites.tolist(), tables.bins[0])


def test_columns_cross_are_cut_and_may_be_missing(home):
    rng = np.random.default_rng(21)
    n = 900
    p, y = rng.uniform(size=n), rng.integers(2, size=n)
    sex = rng.choice(np.array(["f", "m"]), size=n)
    age = np.where(rng.uniform(size=n) < 0.1, np.nan, rng.integers(0, 121, size=n))
    source = home.read(y, p, by={"sex": sex, "age": (age, [0, 40, 65, 120])})
    tables = source.tabulate_by("width:4")
    names = np.array(["[0, 40]", "(40, 65]", "(65, 120]", None])
    cut = np.where(np.isnan(age), 3, np.searchsorted([40, 65], age))
    keys = list(zip(sex.tolist(), names[cut].tolist(), strict=True))
    assert list(tables) == [(s, a) for s in ("f", "m") for a in names.tolist()]
    for key, table in tables.items():
        own = np.flatnonzero([other == key for other in keys])
        expected = NumpyEngine().count(read_arrays(y, p).take(own), (EqualWidth(4).bins,))
        assert_same_table(table, expected)


@pytest.mark.parametrize("numbers", [[7, -3, 2], [0.5, -1.5, np.nan], [True, False]])
def test_numbers_tell_groups_apart_as_they_are(quick_home, numbers):
    if quick_home.name == "csv":
        pytest.skip("in a CSV, what tells groups apart is text")
    rng = np.random.default_rng(22)
    p, y, codes = rng.uniform(size=200), rng.integers(2, size=200), rng.integers(2, size=200)
    codes[0] = len(numbers) - 1
    tables = quick_home.read(y, p, by={"g": np.array(numbers)[codes]}).tabulate_by("width:3")
    used = [None if numbers[i] != numbers[i] else numbers[i] for i in np.unique(codes)]
    assert list(tables) == sorted(used, key=lambda x: (x is None, x))
    assert sum(table.n for table in tables.values()) == 200


def test_groups_with_bins_of_their_own_are_those_of_their_rows(home):
    rng = np.random.default_rng(23)
    p, y, g = rng.uniform(size=300), rng.integers(2, size=300), rng.choice(["a", "b"], size=300)
    tables = home.read(y, p * (1 + (g == "a")) / 2, by={"g": g}).tabulate_by(4, shared_bins=False)
    for key in "ab":
        own = read(y[g == key], (p * (1 + (g == "a")) / 2)[g == key]).tabulate(4)
        assert_same_table(tables[key], own)


def test_values_outside_the_cuts_are_refused_with_their_number(home):
    age = np.arange(100.0) % 99
    by = {"age": (age, [0, 50, 97])}
    with pytest.raises(InvalidGroupsError, match="between its cuts, 0 to 97; of 1 that is not so"):
        home.read(np.arange(100) % 2, np.full(100, 0.5), by=by).tabulate_by("width:2")


def test_a_group_without_weight_is_left_out(quick_home):
    y, p, w = [0, 1, 0, 1], [0.2, 0.7, 0.4, 0.9], [1.0, 2.0, 0.0, 0.0]
    by = {"g": np.array(["a", "a", "b", "b"])}
    tables = quick_home.read(y, p, sample_weight=w, by=by).tabulate_by("width:2")
    assert list(tables) == ["a"]
    assert tables["a"].sum_w.sum() == 3


def test_bad_rows_of_a_group_are_refused_as_of_all(quick_home):
    by = {"g": np.array(["a", "b", "b"])}
    source = quick_home.read([0, 1, 1], [0.5, 0.5, 1.5], by=by)
    with pytest.raises(InvalidProbabilitiesError):
        source.tabulate_by("width:2")


@pytest.mark.parametrize("n_groups", [3, 20_000])
def test_many_groups_are_counted_as_one_table_in_all(memory, n_groups):
    rng = np.random.default_rng(24)
    n = 60_000
    p, y = np.round(rng.uniform(size=n), 3), rng.integers(2, size=n)
    g = rng.integers(n_groups, size=n) * 1000
    source = memory.read(y, p, by={"g": g})
    tables = source.tabulate_by("width:15")
    assert len(tables) == np.unique(g).size
    assert_same_table(tables.pooled(), source.tabulate("width:15"))
    key = int(g[0])
    alone = NumpyEngine().count(read_arrays(y[g == key], p[g == key]), (EqualWidth(15).bins,))
    assert_same_table(tables[key], alone)


def row_by_row(rows, bins, influence):
    """Sums of row influences from the definition, in extended precision."""
    total = np.zeros(6, np.longdouble)
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights / influence.mean_weight
    codes = rows.problem.codes(rows.labels)
    for p, code, w in zip(rows.predictions.astype(np.longdouble), codes, weights, strict=True):
        place = [int(each.index(np.float64(x))) for each, x in zip(bins, p, strict=True)]
        slope = [influence.slope[k, j] for k, j in enumerate(place)]
        offset = [influence.offset[k, j] for k, j in enumerate(place)]
        a = sum(s * ((k == code) - x) for k, (s, x) in enumerate(zip(slope, p, strict=True)))
        wa, wm = w * (a - influence.mean_a), w * (sum(offset) - influence.mean_m)
        total += [w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4]
    return InfluenceSums(*map(float, total))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [EqualWidth(7), EqualMass(4), Bins([0, 0.001, 0.21, 0.9, 1])])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_influences_of_rows_are_summed_as_defined(quick_home, rule, dtype, weighted):
    rng = np.random.default_rng(17)
    probs = rng.dirichlet(np.full(5, 0.3), size=700).astype(dtype)
    weights = rng.exponential(size=700) * (rng.uniform(size=700) < 0.9) if weighted else None
    y = rng.integers(5, size=700)
    source, rows = both(quick_home, y, probs, kind="marginal", sample_weight=weights)
    bins = (rule,) * 5
    if not isinstance(rule, Bins):
        bins = (rule.bins,) * 5 if isinstance(rule, EqualWidth) else source.choose(rule)
    shape = (5, max(map(len, bins)))
    influence = Influence(rng.normal(size=shape), rng.uniform(size=shape), 0.1, 0.7, 1.3)
    found, expected = (
        source.influence_sums(bins, influence),
        row_by_row(rows, bins, influence),
    )
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(expected), rel=1e-11)


@pytest.mark.parametrize("n_classes", [2, 300, 1100])
def test_influences_of_many_classes_are_summed_over_all_of_them(memory, n_classes):
    rng = np.random.default_rng(18)
    probs = rng.dirichlet(np.full(n_classes, 0.05), size=50)
    source, rows = both(memory, rng.integers(n_classes, size=50), probs, kind="marginal")
    bins = source.choose(EqualMass(3))
    shape = (n_classes, max(map(len, bins)))
    influence = Influence(rng.normal(size=shape), rng.uniform(size=shape), 0.0, 0.0)
    found, expected = (
        source.influence_sums(bins, influence),
        row_by_row(rows, bins, influence),
    )
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(expected), rel=1e-11)


def test_reading_again_takes_no_temporaries_of_the_size_of_the_input(arrays, monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    rng = np.random.default_rng(19)
    probs = rng.random((400_000, 20), dtype=np.float32)
    y = rng.integers(20, size=400_000)
    source, few = (arrays.read(y[:n], probs[:n], kind="marginal") for n in (400_000, 100))
    bins = (EqualWidth(15).bins,) * 20
    influence = Influence(rng.normal(size=(20, 15)), rng.uniform(size=(20, 15)), 0.0, 0.0)
    few.influence_sums(bins, influence)
    peak = traced_peak(lambda: source.influence_sums(bins, influence))
    assert peak < 0.1 * probs.nbytes
