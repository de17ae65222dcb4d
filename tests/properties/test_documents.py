"""Documents: every table that was counted is read again, and what no rows can have is refused."""

from __future__ import annotations

import copy
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import calibrant as cb
from calibrant.exceptions import InvalidDocumentError

NUMBERS = st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 1e-160, 0.1, 0.5, 1 - 1e-9, 1.0])
WEIGHTS = st.floats(0, 1e100) | st.sampled_from([0.0, 1e-300, 1 - 1e-16, 1.0, 1 + 3e-16, 3.0])
BINS = st.sampled_from(
    [3, cb.EqualWidth(7), cb.Distinct(), cb.Hybrid(3), cb.Bins([0, 1e-200, 0.1, 0.5, 1])]
)


@st.composite
def counted(draw):
    n, kind = draw(st.integers(1, 30)), draw(st.sampled_from(["binary", "top-label", "marginal"]))
    k = draw(st.integers(2, 4))
    dtype = draw(st.sampled_from([np.float64, np.float32, np.float16]))
    p = draw(hnp.arrays(np.float64, n if kind == "binary" else (n, k), elements=NUMBERS))
    y = draw(hnp.arrays(np.intp, n, elements=st.integers(0, 1 if kind == "binary" else k - 1)))
    w = draw(st.none() | hnp.arrays(np.float64, n, elements=WEIGHTS))
    if w is not None and not 1e-100 < w.max() <= 1e100:
        w = None
    return cb.tabulate(y, p.astype(dtype), kind=kind, bins=draw(BINS), sample_weight=w)


@given(counted(), st.integers(1, 3))
def test_every_table_that_was_counted_is_read_again(table, times):
    table = sum([table] * times)
    assert cb.BinTable.from_json(table.to_json()) == table


RNG = np.random.default_rng(12)
LEVELS = RNG.integers(0, 11, size=3000) / 10
EVENTS = RNG.uniform(size=3000) < LEVELS


@pytest.mark.parametrize("n", [1, 1000, 100_000])
def test_many_rows_of_one_number_are_read_again(n):
    for p in (0.1, 1 / 3, np.float32(0.7), 1e-200, 1.0):
        table = cb.tabulate(np.arange(n) % 2, np.full(n, p), bins=cb.EqualWidth(10))
        big = table
        for _ in range(12):
            big = big + big
        for each in (table, big):
            assert cb.BinTable.from_json(each.to_json()) == each


def forged(table, change):
    document = copy.deepcopy(table.to_dict())
    change(document)
    return json.dumps(document)


def scaled(name, factor, place=4):
    def change(document):
        document[name][0][place] *= factor

    return change


def added(name, step, place=4):
    def change(document):
        document[name][0][place] += step

    return change


def put(name, value, place=4):
    def change(document):
        document[name][0][place] = value

    return change


def both(*changes):
    def change(document):
        for each in changes:
            each(document)

    return change


MIXED = cb.tabulate(EVENTS, RNG.uniform(size=3000), bins=cb.EqualWidth(11))
OUTPUTS = cb.tabulate(EVENTS, LEVELS, bins=cb.Distinct())
WEIGHTED = cb.tabulate(
    EVENTS, LEVELS, bins=cb.EqualWidth(11), sample_weight=RNG.exponential(size=3000)
)


@pytest.mark.parametrize("table", [OUTPUTS, MIXED, WEIGHTED], ids=["outputs", "mixed", "weighted"])
@pytest.mark.parametrize(
    "change",
    [
        put("count", 1e300),
        put("count", -1),
        put("count", 0),
        added("count", 0.5),
        scaled("count", 1e15),
        scaled("sum_p", 1.2),
        scaled("sum_p", 0.5),
        scaled("sum_pp", 1.1),
        scaled("sum_pp", 0.9),
        scaled("sum_py", 1.5),
        scaled("sum_py", 0.5),
        put("sum_py", 0.0),
        put("sum_y", 0.0),
        scaled("sum_y", 10),
        put("level", 0.99),
        put("level", 0.0),
        put("level", -1.0),
    ],
)
def test_a_forged_sum_is_refused(table, change):
    with pytest.raises(InvalidDocumentError, match="contradict"):
        cb.BinTable.from_json(forged(table, change))


@pytest.mark.parametrize(
    "change",
    [
        added("count", 1),
        added("sum_y", 1),
        added("sum_y", 0.5),
        scaled("sum_p", 1 + 1e-6),
        scaled("sum_pp", 1 + 1e-6),
        scaled("sum_py", 1 + 1e-6),
        scaled("level", 1 + 1e-6),
        both(scaled("count", 1e12), scaled("sum_y", 1e12)),
    ],
)
def test_outputs_leave_no_freedom_to_a_forger(change):
    with pytest.raises(InvalidDocumentError, match="contradict"):
        cb.BinTable.from_json(forged(OUTPUTS, change))


def test_one_row_cannot_hide_its_prediction():
    table = cb.tabulate([0, 1, 1], [0.1, 0.1, 0.6], bins=cb.Distinct())
    with pytest.raises(InvalidDocumentError, match="a bin of one row must have a level"):
        cb.BinTable.from_json(forged(table, put("level", None, 1)))


def test_the_labels_of_all_classes_add_up_to_the_rows():
    probs = RNG.dirichlet(np.ones(3), size=300)
    table = cb.tabulate(RNG.integers(3, size=300), probs, kind="marginal", bins=cb.EqualWidth(1))
    move = both(added("sum_y", 1, 0), added("sum_py", 0.3, 0))
    with pytest.raises(InvalidDocumentError, match="every row has one label"):
        cb.BinTable.from_json(forged(table, move))
    with pytest.raises(InvalidDocumentError, match="different numbers of rows"):
        cb.BinTable.from_json(forged(table, added("count", 1, 0)))


@pytest.mark.parametrize("name", ["sum_w", "sum_ww", "sum_wwuu"])
@pytest.mark.parametrize("factor", [0.01, 1e4])
def test_forged_weights_are_refused(name, factor):
    with pytest.raises(InvalidDocumentError, match="contradict"):
        cb.BinTable.from_json(forged(WEIGHTED, scaled(name, factor)))


def test_a_short_document_cannot_ask_for_much_memory():
    document = cb.tabulate([0, 1], [0.2, 0.8], bins=cb.EqualWidth(1)).to_dict()
    for kind in ("marginal", "top-label"):
        problem = {"kind": kind, "n_classes": 10**8, "classes": None, "pos_label": None}
        with pytest.raises(InvalidDocumentError):
            cb.BinTable.from_dict(document | {"problem": problem})
    problem["n_classes"] = 4_000_000
    with pytest.raises(InvalidDocumentError, match="each of the 4,000,000 groups"):
        cb.BinTable.from_dict(document | {"problem": problem | {"kind": "marginal"}})


@pytest.mark.parametrize("norm", ["l1", "l2", "max"])
def test_a_certificate_takes_no_more_memory_for_more_rows(norm):
    table = OUTPUTS
    for _ in range(40):
        table = table + table
    assert table.n == 3000 * 2**40
    tracemalloc.start()
    try:
        certificate = cb.stats.certify(table, norm=norm, max_error=0.2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200 << 20, "of what NumPy asked for; an array of 0.8 n^(2/5) outputs has 10 MB"
    assert certificate.verdict in ("certified", "refuted")
    assert certificate.recheck()


def test_more_rows_than_can_be_counted_are_refused():
    def change(document):
        for name in ("count", "sum_y", "sum_p", "sum_pp", "sum_py"):
            document[name] = [[x * 2.0**50 for x in row] for row in document[name]]

    with pytest.raises(InvalidDocumentError, match="more than 9,007,199,254,740,992 rows"):
        cb.BinTable.from_json(forged(OUTPUTS, change))
