"""Tables add up, survive the round trip, and refuse what does not fit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import CalibrantError, IncompatibleTablesError, InvalidDocumentError

RNG = np.random.default_rng(7)
P = RNG.uniform(size=300)
Y = RNG.uniform(size=300) < P


def table(y=Y, p=P, **kw):
    return cb.tabulate(y, p, **({"bins": cb.EqualWidth(5)} | kw))


def marginal(y=None, kind="marginal", **kw):
    probs = RNG.dirichlet(np.ones(3), size=200)
    y = RNG.integers(3, size=200) if y is None else y
    return cb.tabulate(y, probs, kind=kind, bins=6, **kw)


def test_sums_are_what_they_are_called():
    t = table()
    j = cb.EqualWidth(5).bins.index(P)
    for name, term in {
        "count": 1 + 0 * P,
        "sum_y": Y,
        "sum_p": P,
        "sum_pp": P**2,
        "sum_py": P * Y,
    }.items():
        assert getattr(t, name)[0] == pytest.approx(np.bincount(j, term), rel=1e-14)
    assert t.sum_wwuu[0] == pytest.approx(np.bincount(j, (Y - P) ** 2), rel=1e-12)


def test_weighted_sums_are_what_they_are_called():
    w = RNG.exponential(size=300)
    w[:10] = 0
    t, j = table(sample_weight=w), cb.EqualWidth(5).bins.index(P)
    terms = {
        "count": w > 0, "sum_w": w, "sum_ww": w**2, "sum_y": w * Y, "sum_p": w * P,
        "sum_pp": w * P**2, "sum_py": w * P * Y, "sum_wwuu": (w * (Y - P)) ** 2,
    }  # fmt: skip
    for name, term in terms.items():
        assert getattr(t, name)[0] == pytest.approx(np.bincount(j, term), rel=1e-12)


def test_level_is_the_one_prediction_of_a_bin():
    t = table([0, 1, 1, 0], [0.1, 0.1, 0.5, 0.55])
    assert t.level[0][[0, 1, 2]].tolist() == pytest.approx([0.1, np.nan, np.nan], nan_ok=True)
    assert not t.is_binned_model
    assert table([0, 1, 1], [0.1, 0.1, 0.5]).is_binned_model


def test_level_is_noticed_across_blocks():
    p = np.full(40_000, 0.3)
    assert table(np.zeros(40_000), p).is_binned_model
    p[39_999] = np.nextafter(0.3, 0)
    assert not table(np.zeros(40_000), p).is_binned_model


def test_adding_tables_of_parts_gives_the_table_of_the_whole():
    parts = [table(Y[i : i + 70], P[i : i + 70]) for i in range(0, 300, 70)]
    whole, added = table(), sum(parts)
    assert added.count.tolist() == whole.count.tolist()
    for name in ("sum_y", "sum_p", "sum_pp", "sum_py", "sum_wwuu"):
        assert getattr(added, name) == pytest.approx(getattr(whole, name), rel=1e-12)


def test_levels_of_added_tables_agree_with_the_whole():
    parts = [([0, 1], [0.1, 0.3]), ([1, 1], [0.1, 0.9]), ([0, 0], [0.15, 0.9])]
    added = sum(table(y, p) for y, p in parts)
    assert added.level[0].tolist() == pytest.approx([np.nan, 0.3, np.nan, np.nan, 0.9], nan_ok=True)


def test_weighted_and_unweighted_tables_add():
    w = np.full(300, 2.0)
    both = table() + table(sample_weight=w)
    assert both.sum_w.sum() == 900
    assert both.is_weighted
    assert not (table() + table()).is_weighted


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: table(bins=cb.EqualWidth(6)), "same bins"),
        (lambda: table(bins=cb.EqualMass(5)), "Bins chosen from the data differ"),
        (lambda: table(np.where(Y, "y", "n"), pos_label="y"), "same problem"),
        (marginal, "same problem"),
    ],
)
def test_tables_that_do_not_fit_are_refused(other, message):
    with pytest.raises(IncompatibleTablesError, match=message):
        table() + other()


def test_adding_something_else_is_a_type_error():
    with pytest.raises(TypeError):
        table() + 1


@pytest.mark.parametrize(
    "make",
    [
        table,
        marginal,
        lambda: table(sample_weight=RNG.exponential(size=300)),
        lambda: table(np.where(Y, "y", "n"), pos_label="y"),
        lambda: table(bins=cb.Distinct()),
        lambda: marginal(kind="ordinal"),
        lambda: marginal(kind="ordinal", sample_weight=RNG.exponential(size=200)),
        lambda: marginal(kind="multi-label", y=RNG.integers(2, size=(200, 3))),
    ],
)
def test_json_round_trip_is_exact(make):
    before = make()
    after = cb.BinTable.from_json(before.to_json())
    assert after == before
    assert after.bins[0].rule == before.bins[0].rule
    assert after.to_json() == before.to_json()


@pytest.mark.parametrize("kind", ["ordinal", "quantile"])
def test_weighted_tables_of_groups_survive_json(kind):
    p = np.sort(RNG.dirichlet(np.ones(3), size=200), axis=1)
    levels = {"classes": (0.2, 0.5, 0.8)} if kind == "quantile" else {}
    groups, w = RNG.integers(4, size=200), RNG.exponential(size=200)
    y = RNG.integers(3, size=200)
    before = cb.tabulate(y, p, kind=kind, sample_weight=w, by=groups, bins=2, **levels)
    assert cb.Tables.from_json(before.to_json()) == before


def test_equality_sees_every_sum():
    assert table() == table()
    assert table() != table(~Y)
    assert table() != 3


def damage(**changes):
    document = table().to_dict()
    for name, change in changes.items():
        document[name] = change(document[name])
    return json.dumps(document)


def first(value):
    return lambda rows: [[value, *rows[0][1:]], *rows[1:]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "valid JSON"),
        ("[]", '"format"'),
        (damage(format=lambda _: "x"), '"format"'),
        (damage(schema=lambda _: 2), "schema 1, .* the document has 2"),
        (damage(bins=lambda _: []), "needs bins for its 1 groups"),
        (damage(bins=lambda b: [b[0] | {"edges": [0, 0.5, 0.4, 0.6, 0.8, 1]}]), "Not valid bins"),
        (damage(problem=lambda _: None), "problem must be a JSON object"),
        (damage(count=lambda _: None), "each of the 1 groups"),
        (damage(count=lambda rows: [rows[0][1:]]), "shape"),
        (damage(count=lambda rows: rows * 2), "each of the 1 groups"),
        (damage(sum_p=lambda _: None), 'needs "sum_p"'),
        (damage(count=first("many")), "list of lists of numbers"),
        (damage(count=first(True)), "list of lists of numbers"),
        (damage(count=first(1.5)), "contradict"),
        (damage(sum_y=first(-1)), "contradict"),
        (damage(sum_y=first(1e9)), "contradict"),
        (damage(sum_p=first(float("nan"))), "NaN is not a number"),
        (damage(sum_p=first(float("inf"))), "Infinity is not a number"),
        (damage(sum_p=first(10**400)), "401 digits"),
        (damage(sum_pp=first(1e6)), "contradict"),
        (damage(level=first(3.0)), "contradict"),
    ],
)  # fmt: skip
def test_damaged_documents_are_refused(text, message):
    with pytest.raises(InvalidDocumentError, match=message):
        cb.BinTable.from_json(text)


def test_a_table_says_what_it_is():
    assert repr(table()) == "<BinTable: binary, n = 300, 5 equal-width bins>"
    assert (
        repr(marginal()) == "<BinTable: marginal, n = 200, 3 groups, 6 uniform-mass bins per class>"
    )


def test_sums_cannot_be_changed_afterwards():
    with pytest.raises(ValueError, match="read-only"):
        table().count[0, 0] = 5


@pytest.mark.parametrize("name", ["sum_y", "sum_p", "sum_pp", "sum_py"])
def test_sums_near_the_largest_float_are_refused_without_a_warning(name):
    document = cb.tabulate([0, 1], [0.2, 0.7], bins=cb.EqualWidth(2)).to_dict()
    with pytest.raises(InvalidDocumentError):
        cb.BinTable.from_dict(document | {name: [[1e308, 1e308]]})


def test_documents_that_call_their_schema_a_version_are_still_read():
    table = cb.tabulate([0, 1, 1], [0.2, 0.6, 0.9], bins=2)
    older = table.to_dict()
    older["version"] = older.pop("schema")
    assert cb.BinTable.from_dict(older) == table


def test_counts_of_distinct_predictions_are_the_table_of_their_rows():
    p, n, y = [0.05, 0.01, 0.2], [100, 900, 0], [6, 7, 0]
    rows = np.repeat(p, n)
    labels = np.concatenate([np.arange(k) < e for k, e in zip(n, y, strict=True)])
    counted, made = cb.tabulate(labels, rows, bins="distinct"), cb.BinTable.from_counts(p, n, y)
    assert made.n == counted.n
    assert made.count[0, :2].tolist() == counted.count[0].tolist()
    np.testing.assert_allclose(made.sum_py[0, :2], counted.sum_py[0], rtol=1e-12)
    assert cb.certify(made).upper_bound == pytest.approx(cb.certify(counted).upper_bound, rel=1e-9)
    assert cb.BinTable.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("p", "n", "y"),
    [
        ([], [], []),
        ([0.1, 0.1], [1, 1], [0, 0]),
        ([0.1], [0], [0]),
        ([0.1], [2], [3]),
        ([0.1], [2.5], [1]),
        ([1.1], [2], [1]),
        ([np.nan], [2], [1]),
        ([0.1, 0.2], [2], [1]),
        ("text", [2], [1]),
    ],
)
def test_counts_that_no_rows_have_are_refused(p, n, y):
    with pytest.raises(CalibrantError):
        cb.BinTable.from_counts(p, n, y)
