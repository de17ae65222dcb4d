"""Multi-label, ordinal and quantile problems: the same tables from every source, and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from homes import ALL_HOMES, QUICK_HOMES, Home

import calibrant as cb
from calibrant import Bins, Distinct, EqualWidth
from calibrant._influences import Influence
from calibrant.exceptions import (
    CalibrantError,
    InvalidArgumentError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    NotFiniteError,
)
from calibrant.sources import read

rng = np.random.default_rng(17)
N, LEVELS = 400, (0.1, 0.5, 0.9)
SCORES = np.round(rng.uniform(size=(N, 3)), 1)
MARKS = (rng.uniform(size=(N, 1)) < SCORES).astype(int)  # one draw a row: strongly dependent
PROBS = rng.multinomial(20, rng.dirichlet(np.ones(4), size=N)) / 20
GRADES = (PROBS.cumsum(axis=1) < rng.uniform(size=(N, 1))).sum(axis=1)
MIDDLE = rng.normal(size=N)
QUANTILES = MIDDLE[:, None] + np.array([-1.3, 0.0, 1.3])
OUTCOMES = MIDDLE + rng.normal(size=N)
WEIGHTS = rng.integers(0, 3, size=N).astype(float)
CASES = {
    "multi-label": (MARKS, SCORES, {"kind": "multi-label"}),
    "ordinal": (GRADES, PROBS, {"kind": "ordinal"}),
    "quantile": (OUTCOMES, QUANTILES, {"kind": "quantile", "classes": LEVELS}),
}


@pytest.fixture(params=[name for name in ALL_HOMES if name not in QUICK_HOMES])
def slow_home(request, monkeypatch, tmp_path):
    """Return the homes that take seconds."""
    return Home(request.param, monkeypatch, tmp_path)


@pytest.fixture(params=QUICK_HOMES)
def quick_home(request, monkeypatch, tmp_path):
    """Return the homes that answer in milliseconds."""
    return Home(request.param, monkeypatch, tmp_path)


def events_of(kind):
    """Return what happened and what was predicted, by the definition."""
    if kind == "multi-label":
        return MARKS, SCORES
    if kind == "ordinal":
        up_to = np.minimum(np.cumsum(PROBS, axis=1)[:, :-1], 1)
        return GRADES[:, None] <= np.arange(3), up_to
    return OUTCOMES[:, None] <= QUANTILES, np.tile(LEVELS, (N, 1))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", CASES)
def test_tables_are_those_of_each_event_alone(quick_home, kind, weighted):
    check_tables(quick_home, kind, WEIGHTS if weighted else None)


@pytest.mark.parametrize("kind", CASES)
def test_so_are_tables_of_engines_that_take_their_time(slow_home, kind):
    check_tables(slow_home, kind, None)


def check_tables(home, kind, weights):
    """Compare the table of a home with those of binary problems."""
    y, p, options = CASES[kind]
    table = home.read(y, p, sample_weight=weights, **options).tabulate(Distinct())
    happened, predicted = events_of(kind)
    assert table.problem.kind == kind
    assert table.n_groups == 3
    for k in range(3):
        alone = read(happened[:, k], predicted[:, k], sample_weight=weights).tabulate(Distinct())
        used = table.count[k] > 0
        for name in ("count", "sum_y", "sum_p", "sum_pp", "sum_py", "sum_w", "sum_wwuu", "level"):
            own = getattr(table, name)[k, used]
            np.testing.assert_allclose(own, getattr(alone, name)[0], rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("kind", ["multi-label", "ordinal"])
def test_logits_go_through_the_sigmoid_of_a_label_and_the_softmax_of_classes(quick_home, kind):
    logits = np.round(rng.normal(size=(200, 4)), 2)
    y = np.arange(200) % 4
    if kind == "multi-label":
        p, y = 1 / (1 + np.exp(-logits)), (np.arange(800).reshape(200, 4) % 3 == 0).astype(int)
    else:
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    bins = EqualWidth(5)
    given = quick_home.read(y, logits, kind=kind, input="logits").tabulate(bins)
    expected = read(y, p, kind=kind).tabulate(bins)
    np.testing.assert_array_equal(given.count, expected.count)
    np.testing.assert_allclose(given.sum_p, expected.sum_p, rtol=1e-12)


@pytest.mark.parametrize("kind", CASES)
def test_groups_of_rows_and_influences_are_counted_as_by_numpy(quick_home, kind, monkeypatch):
    y, p, options = CASES[kind]
    by = {"site": np.array(["a", "b", "c"])[np.arange(N) % 3]}
    source = quick_home.read(y, p, by=by, **options)
    tables = source.tabulate_by(EqualWidth(4))
    bins = (Bins(np.linspace(0, 1, 5)),) * 3 if kind != "quantile" else tables.bins[0]
    slope = np.arange(3 * len(bins[0]), dtype=float).reshape(3, -1)
    influence = Influence(slope, slope / 2, 0.1, 0.2)
    sums = source.influence_sums(bins, influence)
    monkeypatch.setenv("CALIBRANT_ENGINE", "numpy")
    for site in "abc":
        rows = by["site"] == site
        alone = read(np.asarray(y)[rows], p[rows], **options).tabulate(EqualWidth(4))
        np.testing.assert_array_equal(tables[site].count, alone.count)
        np.testing.assert_array_equal(tables[site].sum_y, alone.sum_y)
    again = read(y, p, **options).influence_sums(bins, influence)
    np.testing.assert_allclose(list(vars(sums).values()), list(vars(again).values()), rtol=1e-9)


def bad(kind, what):
    """Return rows of which one is wrong."""
    y, p, options = CASES[kind]
    y, p = np.array(y, float), np.array(p, float)
    at = {"label": y, "prediction": p}[what[0]]
    at[(7, 1) if at.ndim == 2 else 7] = what[1]
    return y, p, options


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        ("multi-label", ("label", 2)),
        ("multi-label", ("label", np.nan)),
        ("multi-label", ("prediction", 1.5)),
        ("multi-label", ("prediction", np.nan)),
        ("ordinal", ("label", 4)),
        ("ordinal", ("label", 0.5)),
        ("ordinal", ("prediction", 0.99)),
        ("ordinal", ("prediction", -0.2)),
        ("quantile", ("label", np.inf)),
        ("quantile", ("label", np.nan)),
        ("quantile", ("prediction", np.nan)),
        ("quantile", ("prediction", 1e9)),
    ],
)
@pytest.mark.parametrize("name", ["numpy", "compiled", "torch", "polars", "duckdb", "parquet"])
def test_one_wrong_value_is_refused_by_every_source(kind, what, name, monkeypatch, tmp_path):
    y, p, options = bad(kind, what)
    with pytest.raises(InvalidInputError):
        Home(name, monkeypatch, tmp_path).read(y, p, **options).tabulate("auto")


@pytest.mark.parametrize(
    ("y", "p", "options", "error", "message"),
    [
        (*bad("multi-label", ("label", 2)), InvalidLabelsError, r"first: y_true\[7, 1\] = 2"),
        (*bad("quantile", ("prediction", 1e9)), InvalidProbabilitiesError, "sort them"),
        (*bad("quantile", ("prediction", np.nan)), NotFiniteError, r"y_prob\[7, 1\] = nan"),
        (*bad("quantile", ("label", np.inf)), NotFiniteError, r"y_true\[7\] = inf"),
        (*bad("ordinal", ("prediction", 0.99)), InvalidProbabilitiesError, "add up to 1"),
        (MARKS, SCORES[:, :2], {"kind": "multi-label"}, InvalidShapeError, "marginal"),
        (GRADES, PROBS, {"kind": "multi-label"}, InvalidShapeError, "a column of 0 and 1"),
        (MARKS, PROBS, {"kind": "ordinal"}, InvalidLabelsError, "one column of labels"),
        (MARKS, SCORES, {}, InvalidLabelsError, "multi-label"),
        (OUTCOMES, QUANTILES, {"kind": "quantile"}, InvalidArgumentError, "0.05, 0.5, 0.95"),
        (OUTCOMES, QUANTILES, {"kind": "quantile", "classes": (10, 50, 90)}, InvalidArgumentError,
         "0.9 for 90%"),
        (OUTCOMES, QUANTILES, {"kind": "quantile", "classes": (0.5, 0.1, 0.9)},
         InvalidArgumentError, "ascending"),
        (OUTCOMES, QUANTILES, {"kind": "quantile", "classes": LEVELS, "input": "logits"},
         InvalidArgumentError, "values of the outcome"),
        (OUTCOMES.astype(str), QUANTILES, {"kind": "quantile", "classes": LEVELS},
         InvalidLabelsError, "real numbers"),
        (MARKS.astype(str), SCORES, {"kind": "multi-label"}, InvalidLabelsError, "Binarizer"),
        (OUTCOMES[:0], QUANTILES[:0], {"kind": "quantile", "classes": LEVELS}, CalibrantError,
         "no rows"),
    ],
)  # fmt: skip
def test_refusals_say_what_was_wrong_where_and_what_to_do(y, p, options, error, message):
    with pytest.raises(error, match=message):
        read(y, p, **options).tabulate("auto")


def test_one_row_one_label_and_one_level_are_read():
    assert read([[1]], [[0.5]], kind="multi-label").tabulate("auto").n_groups == 1
    assert read([1], [0.5], kind="multi-label").tabulate("auto").n == 1
    table = read([3.0], [2.0], kind="quantile", classes=[0.5]).tabulate("auto")
    assert (table.sum_y, table.level) == (0, 0.5)


def test_an_outcome_at_the_quantile_is_covered_and_quantiles_may_be_infinite():
    q = np.array([[-np.inf, 1.0, np.inf]])
    table = read([1.0], q, kind="quantile", classes=LEVELS).tabulate("auto")
    np.testing.assert_array_equal(table.sum_y.ravel(), [0, 1, 1])


def test_a_thousand_labels_in_half_precision_are_counted():
    p = np.full((50, 1000), 0.25, np.float16)
    y = np.zeros((50, 1000), bool)
    y[:13] = True
    table = read(y, p, kind="multi-label").tabulate("auto")
    assert table.count.shape == (1000, 1)
    assert (table.sum_y == 13).all()
    assert (table.level == 0.25).all()


def test_patterns_of_labels_and_predictions_are_matched_by_name_whatever_the_order():
    pd = pytest.importorskip("pandas")
    names = ["cat", "dog", "eel"]
    frame = pd.DataFrame({f"y_{name}": MARKS[:, k] for k, name in enumerate(names)})
    for k in (2, 0, 1):
        frame[f"p_{names[k]}"] = SCORES[:, k]
    by_pattern = read("y_*", "p_*", data=frame, kind="multi-label")
    expected = read(MARKS, SCORES, kind="multi-label").tabulate("auto")
    assert by_pattern.tabulate("auto") == expected
    assert by_pattern.names == ("y_cat, y_dog, y_eel", "p_cat", "p_dog", "p_eel")
    with pytest.raises(InvalidArgumentError, match="'eel'"):
        read("y_*", "p_*", data=frame.rename(columns={"p_eel": "p_cow"}), kind="multi-label")


def test_files_take_patterns_of_labels_too(tmp_path):
    pytest.importorskip("pyarrow")
    from predictions_on_disk import write

    columns = {f"p_{k}": SCORES[:, k] for k in (2, 1, 0)}
    columns |= {f"y_{k}": MARKS[:, k] for k in range(3)}
    path = write(tmp_path / "rows.csv", columns)
    source = read("y_*", "p_*", data=path, kind="multi-label")
    assert source.tabulate("auto") == read(MARKS, SCORES, kind="multi-label").tabulate("auto")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_labels_of_the_same_names_in_another_order_are_refused(library):
    frame = pytest.importorskip(library).DataFrame
    probs = frame({"a": [0.1, 0.9], "b": [0.8, 0.3]})
    labels = frame({"b": [1, 0], "a": [0, 1]})
    with pytest.raises(InvalidLabelsError, match="one order; got the same names, b, a"):
        cb.calibration_error(labels, probs, kind="multi-label")
    with pytest.raises(InvalidLabelsError, match="one order"):
        cb.MultiLabel(cb.PlattScaling()).fit(probs, labels)
    cb.calibration_error(labels[["a", "b"]], probs, kind="multi-label")
