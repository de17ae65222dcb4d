"""Exact sums: the same bits in any order and in parts, whatever the type of the predictions."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import calibrant as cb
from calibrant.engines import exact_sums
from calibrant.engines.exact_sums import ExactSums
from calibrant.exceptions import (
    InvalidLabelsError,
    InvalidProbabilitiesError,
    NotFiniteError,
)
from calibrant.problem import read_problem
from conftest import optional

torch = optional("torch")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
N, K = 4000, 5
RNG = np.random.default_rng(0)
LOGITS = torch.tensor(RNG.normal(size=(N, K)) * 4).to(DEVICE)
LABELS = torch.tensor(RNG.integers(K, size=N)).to(DEVICE)
EVENTS = torch.tensor(RNG.integers(2, size=(N, K))).to(DEVICE)
KINDS = ["binary", "top-label", "marginal", "multi-label"]
TYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def sums_of(kind, **given):
    problem = read_problem(kind, 2 if kind == "binary" else K)
    return ExactSums(problem, (cb.EqualWidth(15).bins,) * problem.n_groups, **given)


def rows_of(kind, dtype=torch.float64):
    if kind == "binary":
        return LABELS % 2, LOGITS[:, 0].to(dtype)
    if kind == "multi-label":
        return EVENTS, LOGITS.to(dtype)
    return LABELS, LOGITS.to(dtype)


def counted(sums, labels, predictions, cuts=()):
    state = sums.zeros(DEVICE)
    for part in np.split(np.arange(len(labels)), cuts):
        rows = torch.tensor(part, device=DEVICE)
        sums.add(state, labels[rows], predictions[rows])
    return state


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_order_and_any_parts_give_the_same_bits(kind, dtype):
    sums = sums_of(kind, are_logits=True)
    y, z = rows_of(kind, dtype)
    whole = sums.table(counted(sums, y, z))
    order = torch.tensor(RNG.permutation(N), device=DEVICE)
    assert sums.table(counted(sums, y[order], z[order], cuts=[1, 1, 7, 3000])) == whole
    parts = counted(sums, y[:1234], z[:1234]) + counted(sums, y[1234:], z[1234:])
    assert sums.table(parts) == whole


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("are_logits", [False, True])
def test_a_table_is_that_of_the_host(kind, dtype, are_logits):
    y, z = rows_of(kind, dtype)
    x = z if are_logits else (z.softmax(1) if z.ndim == 2 else z.sigmoid())
    table = sums_of(kind, are_logits=are_logits)
    found = table.table(counted(table, y, x))
    host = x.float() if dtype == torch.bfloat16 else x
    expected = cb.tabulate(
        y.cpu().numpy(),
        host.cpu().numpy(),
        kind=kind,
        bins="width:15",
        input="logits" if are_logits else "probabilities",
    )
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_array_equal(np.isnan(found.level), np.isnan(expected.level))
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-100, 2.0**-144, 0.3, 2 / 3, 1.0])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_level_is_told_by_the_sums_alone(value, dtype):
    p = torch.full((1000,), value, dtype=torch.float64, device=DEVICE).to(dtype)
    sums = ExactSums(read_problem("binary"), (cb.EqualWidth(1).bins,))
    (level,) = sums.table(counted(sums, LABELS[:1000] % 2, p)).level[0]
    told = dtype != torch.float64 or value == 0 or value >= 2.0**-144
    assert level == float(p[0]) if told else np.isnan(level)
    p[17] = torch.nextafter(p[17].double(), torch.tensor(0.5).to(p.device).double())
    p[17] = p[17] if dtype == torch.float64 else p[16] / 2 + 0.1
    assert np.isnan(sums.table(counted(sums, LABELS[:1000] % 2, p)).level[0, 0])


def test_more_rows_than_small_integers_count_are_told_apart():
    """Sums of so many rows are beyond 64 bits, and are still exact."""
    sums = sums_of("binary")
    p = torch.tensor([0.7, 0.7], device=DEVICE)
    state = counted(sums, torch.tensor([0, 1], device=DEVICE), p) * (1 << 36)
    table = sums.table(state)
    assert table.n == 1 << 37
    assert table.level[0, 10] == float(p[0])
    assert table.sum_p.sum() == float(p[0]) * 2.0**37


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float32])
def test_columns_of_events_are_read_in_any_type_and_under_any_name(dtype):
    problem = read_problem("multi-label", classes=("a", "b", "c", "d", "e"))
    sums = ExactSums(problem, (cb.EqualWidth(40).bins,) * K, are_logits=True)
    expected = sums.table(counted(sums, EVENTS, LOGITS))
    assert sums.table(counted(sums, EVENTS.to(dtype), LOGITS)) == expected
    np.testing.assert_array_equal(expected.sum_y.sum(axis=1), EVENTS.sum(0).cpu().numpy())


@pytest.mark.parametrize("wrong", [("prediction", float("nan")), ("event", 2), ("ignored", -100)])
def test_a_row_of_events_with_a_wrong_value_is_left_out(wrong):
    what, value = wrong
    sums = sums_of("multi-label", are_logits=True, ignore_index=-100)
    y, z = EVENTS.clone(), LOGITS.clone()
    (z if what == "prediction" else y)[5, 3] = value
    state = counted(sums, y, z)
    assert state[:4].tolist() == [what == "prediction", 0, what == "event", 0]
    state[:4] = 0
    assert sums.table(state).n == N - 1


BAD = {
    "NaN": (3, 1, float("nan"), False, NotFiniteError, "1 rows hold NaN"),
    "a logit of infinity": (3, 1, float("inf"), True, InvalidProbabilitiesError, "infinity"),
    "a probability above 1": (3, 1, 1.5, False, InvalidProbabilitiesError, r"\[0, 1\]"),
    "a label": (3, None, K, False, InvalidLabelsError, "1 are not"),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("kind", ["top-label", "marginal"])
def test_wrong_values_are_left_out_and_refused_in_the_end(kind, what):
    row, column, value, are_logits, error, words = BAD[what]
    sums = sums_of(kind, are_logits=are_logits)
    y, x = LABELS.clone(), LOGITS if are_logits else LOGITS.softmax(1)
    x = x.clone()
    if column is None:
        y[row] = value
    else:
        x[row, column] = value
    state = counted(sums, y, x)
    with pytest.raises(error, match=words):
        sums.table(state)
    state[:4] = 0
    assert sums.table(state).n == N - 1


def test_ignored_rows_do_not_count_whatever_they_hold():
    sums = sums_of("top-label", are_logits=True, ignore_index=-100)
    y, z = LABELS.clone(), LOGITS.clone()
    y[::3], z[::3] = -100, float("nan")
    expected = sums.table(counted(sums, LABELS, LOGITS)).n - len(y[::3])
    assert sums.table(counted(sums, y, z)).n == expected


def test_layouts_pickle():
    sums = sums_of("marginal", are_logits=True)
    state = counted(sums, LABELS, LOGITS)
    again = pickle.loads(pickle.dumps(sums))
    assert torch.equal(counted(again, LABELS, LOGITS), state)


def test_no_rows_change_nothing():
    sums = sums_of("top-label")
    state = counted(sums, LABELS[:0], LOGITS[:0])
    assert not state.any()
    terms, level = sums.sums(state)
    assert not terms.any()
    assert np.isnan(level).all()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copies", [1, 1 << 20])
def test_sums_finished_on_the_device_are_those_of_the_host(kind, dtype, copies):
    y, z = rows_of(kind, dtype)
    z = torch.where(torch.arange(len(z), device=DEVICE)[(...,) + (None,) * (z.ndim - 1)] < 9, z, 0)
    for value in (z, z - 300):  # also of logits so small that predictions are rounded
        sums = sums_of(kind, are_logits=True)
        state = counted(sums, y, value)
        state[exact_sums.FLAGS :] *= copies  # as of so many times the rows: of 2^31 in one cell
        for found, expected in zip(sums.sums(state), sums.sums(state.cpu()), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("small", [0, 1 << 30])
def test_small_states_are_finished_on_the_host_with_the_same_bits(small, monkeypatch):
    sums = sums_of("marginal", are_logits=True)
    state = counted(sums, LABELS, LOGITS)
    expected = sums.table(state)
    monkeypatch.setattr(exact_sums, "SMALL_STATE", small)
    assert sums.table(state) == expected


WIDE_ROWS = {
    "plain": lambda z: z,
    "masked": lambda z: np.where(RNG.uniform(size=z.shape) < 0.9, -np.inf, z),
    "large": lambda z: z * 100,
    "all far below 0": lambda z: z - 500,
    "tiny": lambda z: z * 1e-5,
    "equal": lambda z: np.full_like(z, 2.71),
    "two equal": lambda z: np.where(np.arange(z.shape[1]) % 7000 == 5, 60.0, -1000.0) + 0 * z,
}


@pytest.mark.parametrize("what", WIDE_ROWS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("n_classes", [130, 1001, 3000, 9001])
def test_rows_of_many_classes_are_read_as_on_the_host(n_classes, dtype, what):
    z = torch.tensor(WIDE_ROWS[what](RNG.normal(size=(20, n_classes)) * 3)).to(dtype).to(DEVICE)
    y = torch.where(torch.arange(20, device=DEVICE) % 2 == 0, z.float().argmax(1), 5)
    problem = read_problem("top-label", n_classes)
    sums = ExactSums(problem, (cb.EqualWidth(50).bins,), are_logits=True)
    found = sums.table(counted(sums, y, z))
    logits = z.float().cpu().numpy()
    expected = cb.tabulate(y.cpu().numpy(), logits, input="logits", bins="width:50")
    np.testing.assert_array_equal(found.count, expected.count)
    np.testing.assert_array_equal(found.sum_y, expected.sum_y)
    np.testing.assert_allclose(found.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_adding_neither_waits_for_the_device_nor_breaks_a_graph(kind, dtype):
    sums = sums_of(kind, are_logits=True)
    y, z = rows_of(kind, dtype)
    state = counted(sums, y, z)
    once = sums.table(state)
    try:
        torch.cuda.set_sync_debug_mode("error")
        sums.add(state, y, z)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sums.add(state, y, z)
    state.zero_()
    graph.replay()
    assert sums.table(state) == once


@pytest.mark.parametrize("kind", KINDS)
def test_a_thread_whose_first_work_on_a_device_this_is_adds_too(kind):
    sums = sums_of(kind, are_logits=True)
    y, z = rows_of(kind, torch.float32)
    states = [sums.zeros(DEVICE) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda state: sums.add(state, y, z), states))
    expected = sums.table(counted(sums, y, z))
    assert all(sums.table(state) == expected for state in states)
