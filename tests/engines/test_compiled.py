"""What only the compiled engine does: quantiles without a sort, threads, vector forms, safety."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import subprocess
import sys
from threading import Event, Thread

import numpy as np
import pytest

from calibrant import Bins, EqualMass, EqualWidth, tabulate
from calibrant.engines.cells import SUMS_ROUND_BY, levels_of, named_sums
from calibrant.engines.numpy import NumpyEngine
from calibrant.exceptions import InvalidInputError
from calibrant.groups import GroupColumn, Groups
from calibrant.sources.arrays import ArraySource, read_arrays
from calibrant.table import ARRAYS, UNWEIGHTED, unit_squares
from conftest import kernels

kernels()
from calibrant.engines.compiled import CompiledEngine  # noqa: E402


def rows_of(kind, n=700_000):
    rng = np.random.default_rng(1)
    probs = rng.random((n, 3))
    if kind == "logits":
        return read_arrays(rng.integers(3, size=n), 9 * probs, kind="top-label", input="logits")
    weights = rng.exponential(size=n) if kind == "weighted" else None
    single = kind in ("binary", "weighted")
    labels, probs = rng.integers(2, size=n), probs[:, 0] if single else probs
    return read_arrays(labels, probs, kind="binary" if single else kind, sample_weight=weights)


KINDS = ["binary", "weighted", "top-label", "marginal", "logits"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_change_a_bit(monkeypatch, kind):
    rows = rows_of(kind)
    tables = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", str(threads))
        bins = CompiledEngine().choose(rows, EqualMass(9))
        tables.append(CompiledEngine().count(rows, bins))
    assert tables[0] == tables[1] == tables[2]


@pytest.mark.parametrize("rule", [EqualMass(9), EqualWidth(15), EqualWidth(400)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_the_vector_form_does_not_change_a_bit(forms, kind, rule):
    rows = rows_of(kind, 20_011)
    tables = []
    for form in forms:
        kernels().use_form(form)
        assert kernels().form() == form
        chosen = isinstance(rule, EqualMass)
        bins = CompiledEngine().choose(rows, rule) if chosen else (rule.bins,)
        bins = bins * (rows.problem.n_groups // len(bins))
        tables.append(CompiledEngine().count(rows, bins))
    assert all(table == tables[0] for table in tables)


@pytest.mark.parametrize("input_", ["probabilities", "logits"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_classes", [3, 10, 31, 32, 33, 71])
def test_the_first_of_the_largest_is_the_top_in_every_form(forms, n_classes, dtype, input_):
    rng = np.random.default_rng(n_classes)
    wide = rng.integers(5, size=(131, 2 * n_classes)).astype(dtype) / 8  # ties
    labels, bins = rng.integers(n_classes, size=131), (EqualWidth(15).bins,)
    tables = wide[:, :n_classes], wide[:, ::2], wide[:, :n_classes].copy()  # rows apart, steps
    for probs in tables:
        rows = read_arrays(labels, probs, kind="top-label", input=input_)
        events, confidence = rows.events()
        for form in forms:
            kernels().use_form(form)
            table = CompiledEngine().count(rows, bins)
            assert table.sum_y.sum() == events.sum() == (labels == probs.argmax(axis=1)).sum()
            assert table.sum_p.sum() == pytest.approx(confidence.sum(), rel=1e-12)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -0.25])
@pytest.mark.parametrize("n_classes", [3, 31, 33, 71])
def test_a_wrong_value_anywhere_is_seen_in_every_form(forms, n_classes, wrong):
    for dtype, form in itertools.product((np.float32, np.float64), forms):
        kernels().use_form(form)
        probs, out = np.full((40, n_classes), 0.25, dtype), np.empty(40)
        assert kernels().top_values(probs, False, out) == 0
        for place in range(0, probs.size, 7):
            bad = probs.copy()
            bad.flat[place] = wrong
            assert kernels().top_values(bad, False, out) == 1
            assert kernels().top_values(bad, True, out) == (0 if wrong == -0.25 else 1)


@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_arrays_of_a_table_are_those_of_the_other_engines(weighted, clear):
    rng = np.random.default_rng(0)
    first, second = rng.integers(4, size=(2, 2000, 4 + 4 * weighted)) / 4.0, rng.random((2000, 8))
    sums = np.concatenate([first[0], first[1], np.zeros((2, first.shape[2]))])
    if weighted:
        sums = np.concatenate([sums, second])
    if clear:
        level, _ = levels_of(sums, weighted)
        empty = sums.reshape(-1, 2, sums.shape[1])[:, :, 0].sum(axis=1) == 0
        told = sums.reshape(-1, 2, sums.shape[1])[np.isnan(level) | (level >= 0) | empty]
        sums = np.ascontiguousarray(told).reshape(-1, sums.shape[1])
    arrays = np.empty((9 if weighted else 7, len(sums) // 2))
    assert kernels().table_of(sums, weighted, SUMS_ROUND_BY, arrays) is not clear
    level, unclear = levels_of(sums, weighted)
    assert unclear is not clear
    expected = named_sums(sums.reshape(len(sums) // 2, 2, -1), level, weighted)
    if not weighted:
        expected["sum_wwuu"] = unit_squares(*(expected[n] for n in ("sum_y", "sum_pp", "sum_py")))
    for name, array in zip(ARRAYS if weighted else UNWEIGHTED, arrays, strict=True):
        if name == "level" and not clear:
            np.testing.assert_array_equal(array, level, "-1 where rows must be read again")
        else:
            np.testing.assert_array_equal(array, expected[name], name)


def test_an_empty_class_of_bins_is_padded():
    probs = np.array([[0.1, 0.9], [0.8, 0.2]])
    bins = (EqualWidth(2).bins, EqualWidth(5).bins)
    table = CompiledEngine().count(read_arrays([0, 1], probs, kind="marginal"), bins)
    assert table.count.tolist() == [[1, 1, 0, 0, 0], [1, 0, 0, 0, 1]]


@pytest.mark.parametrize("kind", ["binary", "top-label", "marginal", "logits"])
def test_values_that_change_while_they_are_read_crash_nothing(kind):
    rows = rows_of(kind, 100_000)
    stop = Event()

    def disturb():
        rng = np.random.default_rng(0)
        values, labels = rows.predictions.reshape(-1), rows.labels
        while not stop.is_set():
            values[rng.integers(values.size, size=1000)] = rng.choice([np.nan, -1e300, 7.0, 0.1])
            labels[rng.integers(labels.size, size=100)] = rng.integers(-(2**60), 2**60)

    other = Thread(target=disturb)
    other.start()
    try:
        for n_bins in (5, 15, 2000):
            bins = (EqualWidth(n_bins).bins,) * rows.problem.n_groups
            with contextlib.suppress(Exception):  # whatever they are by then
                CompiledEngine().choose(rows, EqualMass(n_bins))
            with contextlib.suppress(Exception):
                CompiledEngine().count(rows, bins)
    finally:
        stop.set()
        other.join()
    left, again = rows_of(kind, 1000), rows_of(kind, 1000)  # and nothing of ours was written over
    bins = (EqualWidth(15).bins,) * left.problem.n_groups
    counted = CompiledEngine().count(left, bins).count
    np.testing.assert_array_equal(counted, NumpyEngine().count(again, bins).count)


GROUPS = {
    "negative": np.int64(-3),
    "the least": np.int64(-(2**63)),
    "the greatest": np.int64(2**63 - 300),
    "beyond signed": np.uint64(2**64 - 300),
    "small": np.int16(-150),
    "short": np.int32(2**31 - 300),
    "unsigned": np.uint32(2**32 - 300),
    "bytes": np.int8(-128),
}


@pytest.mark.parametrize("least", GROUPS.values(), ids=GROUPS)
def test_whole_numbers_are_counted_as_groups_where_they_begin(forms, monkeypatch, least):
    rng = np.random.default_rng(3)
    n = 90_000
    column = least + rng.integers(250, size=n).astype(least.dtype)
    y, p = rng.integers(2, size=n), rng.random(n)
    given = {"bins": EqualWidth(15), "by": np.repeat(column, 2)[::2]}
    monkeypatch.setenv("CALIBRANT_ENGINE", "numpy")
    expected = tabulate(y, p, **given)
    monkeypatch.setenv("CALIBRANT_ENGINE", "compiled")
    tables = []
    for form in forms:
        kernels().use_form(form)
        tables.append(tabulate(y, p, **given))
    assert all(table == tables[0] for table in tables)
    assert list(tables[0]) == list(expected) == sorted({int(own) for own in column})
    for name in ("count", "sum_y"):
        assert np.array_equal(getattr(tables[0], name), getattr(expected, name))
    for name in ("sum_p", "sum_pp", "sum_py"):
        np.testing.assert_allclose(
            getattr(tables[0], name), getattr(expected, name), rtol=1e-12, atol=0
        )


@pytest.mark.parametrize("kind", ["binary", "weighted", "marginal"])
@pytest.mark.parametrize("other", [-1, 7, 4_000, 5_000, 2**40])
def test_a_group_that_neither_end_of_a_column_shows_is_counted(kind, other):
    rows = rows_of(kind, 100_000)
    column = np.random.default_rng(2).integers(7, size=len(rows))
    column[50_000] = other
    groups = Groups.of((GroupColumn("group"),), [column])
    assert groups.likely == range(7)
    tables = [
        ArraySource(rows, own).count_by((EqualWidth(4).bins,) * rows.problem.n_groups)
        for own in (groups, Groups(groups.by, groups.codes, groups.labels))
    ]
    assert tables[0] == tables[1]
    assert tables[0][other].n == 1


def test_labels_that_are_wrong_are_named_where_groups_lie_beyond_the_ends():
    n = 100_000
    y, column = np.zeros(n), np.zeros(n, int)
    column[40_000], y[60_000] = 9, 0.5
    with pytest.raises(InvalidInputError, match=r"y_true\[60000\] = 0.5"):
        tabulate(y, np.full(n, 0.5), by=column, bins="width:3")


def test_full_cells_of_a_large_table_lose_nothing(forms):
    rng = np.random.default_rng(4)
    p = np.where(rng.random(200_000) < 0.7, 0.1, rng.random(200_000))
    column = np.where(p == 0.1, 0, rng.integers(100, size=p.size))
    expected = [math.fsum(p[column == group]) for group in range(100)]
    for form in forms:
        kernels().use_form(form)
        tables = tabulate(rng.integers(2, size=p.size), p, bins=EqualWidth(15), by=column)
        assert tables.sizes.tolist() == np.bincount(column).tolist()
        np.testing.assert_allclose(tables.sum_p.sum(axis=(1, 2)), expected, rtol=1e-12)


def table_of_classes(n, n_classes, spread, dtype, beyond):
    """Rows of many classes, of which more than a few are likely from row `beyond` on."""
    rng = np.random.default_rng(n_classes)
    likely = np.exp(spread * rng.standard_normal((n, n_classes)))
    likely[beyond:] = np.exp(9 * rng.random((n - beyond, n_classes)))
    probs = (likely / likely.sum(axis=1, keepdims=True)).astype(dtype)
    probs[::97, 5], probs[1::89, n_classes - 1] = 1.0, 0.0
    probs[2::71, 3] = dtype(1 / 15)
    return read_arrays(rng.integers(n_classes, size=n), probs, kind="marginal")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [EqualWidth(15), EqualWidth(1), [0, 0.01, 0.02, 0.5, 1]], ids=str)
@pytest.mark.parametrize(
    ("n", "n_classes", "spread", "beyond"),
    [(9_000, 33, 0.1, 9_000), (5_000, 300, 2, 5_000), (9_000, 64, 0.1, 2_000), (40, 1_100, 1, 40)],
)
def test_predictions_of_many_classes_are_counted_in_vectors(
    forms, n, n_classes, spread, beyond, rule, dtype
):
    rows = table_of_classes(n, n_classes, spread, dtype, beyond)
    bins = (rule.bins if isinstance(rule, EqualWidth) else Bins(np.array(rule)),) * n_classes
    expected, tables = NumpyEngine().count(rows, bins), []
    for form in forms:
        kernels().use_form(form)
        tables.append(CompiledEngine().count(rows, bins))
    assert all(table == tables[0] for table in tables)
    for name in ARRAYS:
        got, right = (getattr(table, name) for table in (tables[0], expected))
        if name in ("count", "sum_y", "level"):
            assert np.array_equal(got, right, equal_nan=True)
        else:
            np.testing.assert_allclose(got, right, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -1e-9, 1.0000002])
@pytest.mark.parametrize("place", [(0, 0), (37, 31), (99, 299)])
def test_a_wrong_prediction_of_many_classes_is_named(forms, wrong, place):
    rows = table_of_classes(100, 300, 1, np.float32, 100)
    rows.predictions[place] = wrong
    rows.labels[:] = place[1]  # also where it is that of the label
    for form in forms:
        kernels().use_form(form)
        with pytest.raises(InvalidInputError, match=rf"y_prob\[{place[0]}, {place[1]}\]"):
            CompiledEngine().count(rows, (EqualWidth(15).bins,) * 300)


BAD_CALLS = {
    "labels too short": lambda k, a: k.count_column(
        a["p"], a["y"][1:], None, None, 0, 1, 2, 0, False, a["lookup"], a["sums"], None
    ),
    "sums too short": lambda k, a: k.count_column(
        a["p"], a["y"], None, None, 0, 1, 2, 0, False, a["lookup"], a["sums"][1:].copy(), None
    ),
    "levels too short": lambda k, a: k.count_column(
        a["p"], a["y"], None, None, 0, 1, 2, 0, False, a["lookup"], a["sums"], np.empty(1)
    ),
    "too many groups": lambda k, a: k.count_column(
        a["p"], a["y"], None, a["y"], 0, 2, 2, 0, False, a["lookup"], a["sums"], None
    ),
    "groups of floats": lambda k, a: k.count_column(
        a["p"], a["y"], None, a["p"], 0, 1, 2, 0, False, a["lookup"], a["sums"], None
    ),
    "a shorter term": lambda k, a: k.add_compensated(
        a["sums"], a["sums"].copy(), a["sums"][1:].copy()
    ),
    "half floats": lambda k, a: k.count_cells(a["p"].astype(np.float16), np.zeros(9, np.uint32)),
    "swapped bytes": lambda k, a: k.count_cells(a["p"].astype(">f8"), np.zeros(9, np.uint32)),
    "no cell": lambda k, a: k.count_cells(a["p"], np.zeros(0, np.uint32)),
    "two dimensions": lambda k, a: k.count_cells(a["p"][None], np.zeros(9, np.uint32)),
    "a list": lambda k, a: k.count_cells([0.5], np.zeros(9, np.uint32)),
    "one line of quantiles": lambda k, a: k.near_quantiles(a["p"], np.empty((1, 5, 3))),
    "quantiles of whole numbers": lambda k, a: k.near_quantiles(a["y"][None], np.empty((1, 5, 3))),
    "lines with gaps": lambda k, a: k.near_quantiles(np.zeros((3, 8))[:, ::2], np.empty((3, 5, 3))),
    "room for fewer lines": lambda k, a: k.near_quantiles(np.zeros((3, 8)), np.empty((2, 5, 3))),
    "room for four arrays": lambda k, a: k.near_quantiles(np.zeros((3, 8)), np.empty((3, 4, 3))),
    "quantiles of nothing": lambda k, a: k.near_quantiles(np.zeros((3, 0)), np.empty((3, 5, 3))),
    "room for fewer rows": lambda k, a: k.top_values(np.ones((3, 2)), False, np.empty(2)),
    "fewer slopes": lambda k, a: k.tangent_slopes(a["p"], a["p"], a["p"][1:].copy()),
    "fewer hashes": lambda k, a: k.hash_rows(
        a["p"][:, None],
        np.zeros(10, np.int64),
        np.zeros(2, np.uint64),
        1,
        1,
        1,
        np.zeros(9, np.uint64),
    ),
}


@pytest.mark.parametrize("what", BAD_CALLS)
def test_arrays_that_do_not_fit_together_are_refused_before_they_are_read(what):
    from calibrant.engines.cells import lookup

    arrays = {
        "p": np.linspace(0, 1, 10),
        "y": np.zeros(10, np.int64),
        "lookup": lookup((EqualWidth(5).bins,)).arguments,
        "sums": np.zeros((10, 4)),
    }
    with pytest.raises((TypeError, ValueError, BufferError)):
        BAD_CALLS[what](kernels(), arrays)


def test_a_form_can_be_forced_from_the_environment(forms):
    code = "from calibrant._compiled import engine_in_words; print(engine_in_words())"
    for form in [*forms, "mmx"]:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "CALIBRANT_SIMD": form, "CALIBRANT_ENGINE": ""},
            capture_output=True,
            text=True,
        )
        if form == "mmx":
            assert "CALIBRANT_SIMD must be one of" in done.stderr
        else:
            assert done.stdout == f"compiled engine ({form})\n"


def shapes(n):
    """Predictions of many shapes: spread, heaped at the ends, tied, almost equal, constant."""
    rng = np.random.default_rng(0)
    u = rng.uniform(size=n)
    return {
        "uniform": u,
        "float32": u.astype(np.float32),
        "both ends": rng.beta(0.05, 0.05, size=n),
        "tiny": u**40,
        "log-uniform": 10 ** (-300 * u),
        "beside one": 1 - 1e-12 * u,
        "tied": np.round(u, 2),
        "two values": np.where(u < 0.3, 0.2, np.nextafter(0.2, 1)),
        "constant": np.full(n, 0.3),
        "zeros and ones": np.round(u),
        "half tied": np.where(u < 0.5, 0.25, u),
    }


@pytest.mark.parametrize("n", [1000, 300_000, 600_000])
@pytest.mark.parametrize("n_bins", [1, 2, 15, 100, 5000])
@pytest.mark.parametrize("shape", shapes(1))
def test_uniform_mass_edges_are_those_of_sorting_to_the_last_bit(shape, n_bins, n):
    rows = read_arrays(np.zeros(n), shapes(n)[shape])
    chosen = CompiledEngine().choose(rows, EqualMass(n_bins))
    expected = NumpyEngine().choose(rows, EqualMass(n_bins))
    assert chosen[0].edges.tolist() == expected[0].edges.tolist()


@pytest.mark.parametrize("power", [1, 6])
def test_a_search_for_few_quantiles_sorts_few_values_heaped_ones_too(monkeypatch, power):
    sizes, sort = [], np.sort
    monkeypatch.setattr(np, "sort", lambda values: sizes.append(values.size) or sort(values))
    rows = read_arrays(np.zeros(600_000), shapes(600_000)["uniform"] ** power)
    CompiledEngine().choose(rows, EqualMass(15))
    assert 0 < sum(sizes) < 150_000


def near_of(line, n_bins):
    """Return what `near_quantiles` writes for one line, by brute force."""
    values, counts = np.unique(line.astype(np.float64), return_counts=True)
    up_to = np.cumsum(counts)
    holding = np.searchsorted(up_to, line.size * np.arange(1, n_bins) / n_bins)
    beside = np.pad(values, 1, constant_values=np.inf)
    near = beside[holding], values[holding], beside[holding + 2]
    return np.array([*near, (up_to - counts)[holding], up_to[holding]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_bins", [1, 2, 15, 400])
@pytest.mark.parametrize("n", [1, 2, 257, 5000, 70_001])
def test_values_next_to_quantiles_are_those_of_sorted_lines_in_every_form(forms, dtype, n_bins, n):
    rng = np.random.default_rng(n)
    spread = rng.random((5, n)) ** np.array([[1], [40], [0.01], [1], [1]])
    lines = np.clip(spread, 0, 1).astype(dtype)
    lines[3] = rng.choice([0.0, -0.0, np.finfo(dtype).tiny / 4, 0.5, 1.0], n)
    lines[4, : n // 2] = 0.3
    expected = [near_of(line, n_bins) for line in lines]
    for form in forms:
        kernels().use_form(form)
        near = np.full((5, 5, n_bins - 1), np.nan)
        assert kernels().near_quantiles(lines, near) == 0
        np.testing.assert_array_equal(near, expected)


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        (np.nan, "nan"),
        (-np.nan, "nan"),
        (-1e-300, "-1e-300"),
        (1 + 2.0**-52, "1.0000000000000002"),
        (-np.inf, "-inf"),
    ],
)
def test_a_line_with_a_wrong_value_is_refused_in_every_form(forms, wrong, shown):
    lines = np.full((2, 6000), 0.25)
    lines[1, 5999] = wrong
    for form in forms:
        kernels().use_form(form)
        assert kernels().near_quantiles(lines, np.empty((2, 5, 9))) == 1
        assert kernels().near_quantiles(lines.astype(np.float32), np.empty((2, 5, 9))) == int(
            np.float32(wrong) != 1 and np.float32(wrong) != 0
        )
    with pytest.raises(InvalidInputError, match=rf"y_prob\[5999\] = {shown}\)"):
        tabulate(np.arange(6000) % 2, lines[1], bins=EqualMass(10))
