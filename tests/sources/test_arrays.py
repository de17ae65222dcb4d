"""Arrays: what they mean, and the message when they mean nothing."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import calibrant as cb
from calibrant import exceptions as ex
from conftest import optional

Y = np.array([0, 1, 1, 0])
P = np.array([0.1, 0.8, 0.6, 0.4])
P3 = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])


LISTS = np.empty(4, object)
LISTS[:] = [[0.1, 0.9]] * 4


def counted(y, p, **kw):
    table = cb.tabulate(y, p, bins=cb.EqualWidth(4), **kw)
    return table.problem.kind, table.sum_y.sum(), table.sum_p.sum()


@pytest.mark.parametrize(
    ("p", "kind", "expected"),
    [
        (P, None, "binary"),
        (P[:, None], None, "binary"),
        (np.column_stack([1 - P, P]), "binary", "binary"),
        (np.column_stack([1 - P, P]), None, "binary"),
        (np.column_stack([1 - P, P]), "top-label", "top-label"),
        (np.column_stack([1 - P, P]), "marginal", "marginal"),
        (P3, None, "top-label"),
        (P3, "marginal", "marginal"),
    ],
)
def test_shapes_and_kind_decide_the_problem(p, kind, expected):
    assert cb.tabulate(Y, p, kind=kind, bins=2).problem.kind == expected


TWO = np.column_stack([1 - P, P])
ANY_FUNCTION = {
    "calibration_error": lambda y, p: cb.calibration_error(y, p, bins=2).value,
    "tabulate": lambda y, p: cb.tabulate(y, p, bins=2),
    "reliability_curve": lambda y, p: cb.reliability_curve(y, p, bins=2).event_rate.tolist(),
    "brier_decomposition": lambda y, p: cb.brier_decomposition(y, p, bins=2),
    "certify": lambda y, p: cb.certify(y, p, bins=2).table,
    "calibration_test": lambda y, p: cb.calibration_test(y, p, rng=0).pvalue,
    "bin_free_bounds": lambda y, p: cb.bin_free_bounds(y, p),
    "prequential_lower_bound": lambda y, p: cb.prequential_lower_bound(y, p),
    "compare": lambda y, p: str(cb.compare(y, p, 1 - p, bins=2)),
    "CalibrationMetric": lambda y, p: updated(cb.CalibrationMetric(), y, p).table,
    "report": lambda y, p: cb.report(y, p).findings.table,
    "ReliabilityDisplay": lambda y, p: (
        cb.ReliabilityDisplay.from_predictions(y, p, draw=False).curves[0].curve.event_rate.tolist()
    ),
}


def updated(metric, *rows):
    metric.update(*rows)
    return metric


@pytest.mark.parametrize("function", ANY_FUNCTION)
def test_two_columns_are_one_event_whose_column_is_the_second(function):
    rng = np.random.default_rng(0)
    p = rng.integers(1, 5, size=400) / 5
    y = rng.uniform(size=400) < p**2
    measure = ANY_FUNCTION[function]
    assert measure(y, np.column_stack([1 - p, p])) == measure(y, p)


@pytest.mark.parametrize("event", [0, 1, True, 1.0])
def test_the_event_of_two_columns_without_names_is_at_its_place(event):
    table = cb.tabulate(Y, TWO, pos_label=event, bins=2)
    alone = cb.tabulate(np.equal(Y, event), TWO[:, int(event)], bins=2)
    assert table.sum_py.tolist() == alone.sum_py.tolist()


@pytest.mark.parametrize("event", ["yes", 2, -1])
def test_an_event_by_another_name_does_not_say_which_of_two_columns_is_its(event):
    with pytest.raises(ex.InvalidArgumentError, match="classes=\\(first, second\\)"):
        cb.tabulate(np.array([event] * 4), TWO, pos_label=event)


def test_labels_1_and_2_are_not_taken_for_0_and_1():
    with pytest.raises(ex.InvalidLabelsError, match="among the 2 classes"):
        cb.tabulate(Y + 1, TWO, pos_label=1)


@pytest.mark.parametrize(("bad", "error"), [(np.nan, ex.NotFiniteError), (1.5, ex.CalibrantError)])
@pytest.mark.parametrize("column", [0, 1])
def test_both_of_two_columns_are_checked(column, bad, error):
    two = TWO.copy()
    two[2, column] = bad
    with pytest.raises(error, match=f"y_prob\\[2, {column}\\]"):
        cb.tabulate(Y, two)


@pytest.mark.parametrize("row", [(np.nan, 0.0), (np.inf, np.inf), (-np.inf, -np.inf)])
def test_two_logits_that_say_nothing_are_refused(row):
    with pytest.raises(ex.NotFiniteError, match="y_prob\\[1, 0\\]"):
        cb.tabulate([0, 1], [(0.0, 1.0), row], input="logits")


def test_the_event_of_two_named_columns_is_the_one_that_pos_label_names():
    names = np.array(["no", "yes"])
    for event, p in (("yes", P), ("no", 1 - P)):
        table = cb.tabulate(names[Y], TWO, classes=names, pos_label=event, bins=2)
        alone = cb.tabulate(names[Y] == event, p, bins=2)
        assert table.sum_py.tolist() == alone.sum_py.tolist()


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (Y.tolist(), {}),
        (Y.astype(bool), {}),
        (Y.astype(np.float32), {}),
        (Y.astype(np.uint8), {}),
        (Y[:, None], {}),
        (np.array(["no", "yes"])[Y], {"pos_label": "yes"}),
        (np.array(["no", "yes"])[Y], {"classes": ("no", "yes")}),
        (np.array(["no", "yes"], object)[Y], {"classes": ("no", "yes")}),
        (np.array(["no", "yes"])[Y], {"classes": ("yes", "no"), "pos_label": "yes"}),
        (2 * Y - 1, {"pos_label": 1}),
        (2 * Y - 1, {"classes": (-1, 1)}),
        (np.array([np.int8(y) for y in Y], object), {}),
        (np.array([np.bool_(y) for y in Y], object), {}),
        (np.array([Decimal(int(y)) for y in Y]), {}),
        (np.array([Decimal(int(y)) for y in Y]), {"pos_label": 1}),
    ],
)
def test_labels_of_every_type_mean_the_same(labels, options):
    table = cb.tabulate(labels, P, bins=cb.EqualWidth(4), **options)
    assert table.sum_py.tolist() == cb.tabulate(Y, P, bins=cb.EqualWidth(4)).sum_py.tolist()
    assert table.sum_y.tolist() == [[0, 0, 1, 1]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_types_are_compared_as_float64(dtype):
    p = P.astype(dtype)
    table = cb.tabulate(Y, p, bins=cb.EqualWidth(10))
    assert table.sum_p.sum() == p.astype(np.float64).sum()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("library", ["ml_dtypes", "torch"])
def test_narrow_floats_of_other_packages_are_read_as_float64(library, dtype):
    package = optional("torch") if library == "torch" else pytest.importorskip(library)
    if library == "torch":
        short = package.tensor(P).to(getattr(package, dtype))
        wide = short.double().numpy()
    else:
        short = P.astype(getattr(package, dtype))
        wide = short.astype(float)
    assert counted(Y, short, sample_weight=short) == counted(Y, wide, sample_weight=wide)
    labels = package.tensor(Y).to(short.dtype) if library == "torch" else Y.astype(short.dtype)
    assert counted(labels, P) == counted(Y, P)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_data_frames_are_read(library):
    module = optional(library)
    make = {
        "pandas": lambda x: module.Series(x),
        "polars": lambda x: module.Series(x),
        "pyarrow": lambda x: module.chunked_array([x[:2], x[2:]]),
    }[library]
    assert counted(make(Y.tolist()), make(P.tolist())) == counted(Y, P)
    names = make(np.array(["no", "yes"])[Y].tolist())
    assert counted(names, make(P.tolist()), pos_label="yes") == counted(Y, P)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "dict", "lazy"])
def test_column_names_with_data(library):
    columns = {"y": Y.tolist(), "p": P.tolist(), "w": [1.0, 2.0, 1.0, 1.0]}
    columns |= {f"p{k}": P3[:, k].tolist() for k in range(3)}
    data = {
        "pandas": lambda: optional("pandas").DataFrame(columns),
        "polars": lambda: optional("polars").DataFrame(columns),
        "lazy": lambda: optional("polars").LazyFrame(columns),
        "pyarrow": lambda: optional("pyarrow").table(columns),
        "dict": lambda: columns,
    }[library]()
    assert cb.tabulate("y", "p", bins=2, sample_weight="w", data=data) == cb.tabulate(
        Y, P, bins=2, sample_weight=columns["w"]
    )
    assert cb.tabulate("y", ["p0", "p1", "p2"], bins=2, data=data) == cb.tabulate(Y, P3, bins=2)
    with pytest.raises(ex.InvalidArgumentError, match=r"no column 'q' among y, p"):
        cb.tabulate("y", "q", data=data)


def test_data_of_no_known_library_is_named():
    with pytest.raises(ex.InvalidArgumentError, match="data must be a data frame.*got int"):
        cb.tabulate("y", "p", data=3)


def test_ties_of_the_argmax_go_to_the_lowest_index():
    tied = np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]])
    assert cb.tabulate([0, 1], tied, bins=1).sum_y.sum() == 2
    assert cb.tabulate([1, 2], tied, bins=1).sum_y.sum() == 0


def test_a_class_that_never_occurs_is_fine():
    result = cb.calibration_error([0, 1, 0, 1], P3, kind="marginal", bins=2, debias=False)
    assert set(result.per_class) == {0, 1, 2}
    assert result.table.sum_y[2].sum() == 0


def test_rows_need_not_add_up_to_one():
    assert cb.calibration_error(Y, np.ones((4, 3)), kind="marginal", bins=1).n == 4


def test_string_classes_name_the_columns():
    names = np.array(["cat", "dog", "eel"])
    by_name = cb.calibration_error(names[[0, 1, 2, 0]], P3, classes=names, kind="marginal", bins=2)
    by_code = cb.calibration_error([0, 1, 2, 0], P3, kind="marginal", bins=2)
    assert list(by_name.per_class.values()) == list(by_code.per_class.values())
    assert list(by_name.per_class) == ["cat", "dog", "eel"]


@pytest.mark.parametrize(
    ("y", "p", "options", "error", "message"),
    [
        (Y, [0.1, 1.7, 0.6, 0.4], {}, ex.InvalidProbabilitiesError, r"1 of 4 values do not .*y_prob\[1\] = 1.7"),
        (Y, [10, 80, 60, 40], {}, ex.InvalidProbabilitiesError, "divide by 100"),
        (Y, [-3.0, 2.0, 0.5, 1.0], {}, ex.LogitsError, r"2 of 4 values.*y_prob\[0\] = -3.*sigmoid"),
        (Y, [0.1, np.nan, 0.6, np.nan], {}, ex.NotFiniteError, r"2 of 4 values are NaN .*y_prob\[1\]"),
        (Y, [0.1, np.inf, 0.6, 0.2], {}, ex.NotFiniteError, r"1 of 4 values are infinite"),
        (Y, np.where(P3 > 0.65, np.nan, P3), {}, ex.NotFiniteError, r"first: y_prob\[0, 0\] = nan"),
        (P, ["a", "b", "c", "d"], {}, ex.SwappedArgumentsError, "y_true holds fractions and y_prob text"),
        (Y, ["90%", "b", "c", "d"], {}, ex.InvalidProbabilitiesError, r"y_prob\[0\] = '90%'.*divide by 100"),
        (Y, np.array([0.9, 1.0, 0.2, None], object), {}, ex.NotFiniteError, r"y_prob\[3\]"),
        (Y, LISTS, {}, ex.InvalidShapeError, r"4 of 4 .*y_prob\[0\] = \[0.1, 0.9\].*np.stack"),
        (Y, np.array([{}] * 4), {}, ex.InvalidShapeError, r"y_prob\[0\] = {}"),
        (Y, np.array([10**400, 0, 0, 1]), {}, ex.InvalidProbabilitiesError, r"1 of 4.*y_prob\[0\] = 1000"),
        (Y, P * 1j, {}, ex.InvalidProbabilitiesError, "must hold numbers"),
        (P, Y, {}, ex.SwappedArgumentsError, "y_true holds fractions"),
        (P3, Y, {}, ex.SwappedArgumentsError, r"y_true has shape \(4, 3\)"),
        (["a", "b"], ["c", "d"], {"pos_label": "a"}, ex.InvalidProbabilitiesError, "must hold numbers"),
        ([0, 1, 2, 0], P, {}, ex.InvalidLabelsError, r"1 of 4 are not \(first: y_true\[2\] = 2\)"),
        ([0, 1, 3, -1], P3, {}, ex.InvalidLabelsError, r"among the 3 classes \(0, 1, 2\); 2 of 4"),
        ([0, 1, np.nan, 0], P, {}, ex.InvalidLabelsError, r"y_true\[2\] = nan"),
        ([0, 1, np.nan, 0], P, {"pos_label": 1}, ex.InvalidLabelsError, r"y_true\[2\] = nan"),
        (["n", "y", None, "n"], P, {"pos_label": "y"}, ex.InvalidLabelsError, r"y_true\[2\] = None"),
        (["n", "y", "z", "n"], P, {"classes": ("n", "y")}, ex.InvalidLabelsError, r"'z'"),
        (["n", "y", "y", "n"], P, {}, ex.InvalidLabelsError, "Name the event with pos_label="),
        (Y, P, {"pos_label": "y"}, ex.InvalidLabelsError, "holds integers"),
        (Y, P3, {"classes": ["a", "b", "c"]}, ex.InvalidLabelsError, "np.take"),
        (np.eye(3)[[0, 1, 2, 0]], P3, {}, ex.InvalidLabelsError, "argmax"),
        (np.eye(4)[:, :3], P3, {}, ex.InvalidLabelsError, r"row 3 has 0\).*multi-label"),
        (np.tri(4, 3), P3, {}, ex.InvalidLabelsError, r"3 of 4 rows.*row 1 has 2\).*multi-label"),
        (np.full((4, 3), 2), P3, {}, ex.InvalidLabelsError, "one label each"),
        (Y[:3], P, {}, ex.LengthMismatchError, "got 3 and 4"),
        ([], [], {}, ex.EmptyInputError, "no rows"),
        (Y, np.ones((4, 3, 2)), {}, ex.InvalidShapeError, r"\(4, 3, 2\)"),
        (Y, 0.3, {}, ex.InvalidShapeError, "single value 0.3"),
        (Y, [[0.1], [0.2, 0.3], [0.1], [0.2]], {}, ex.InvalidShapeError, "could not be read"),
        (Y, P, {"kind": "marginal"}, ex.InvalidShapeError, "one column per class"),
        (Y, P3, {"kind": "binary"}, ex.InvalidShapeError, "Pick the column"),
        (Y, P, {"kind": "Binary"}, ex.InvalidArgumentError, 'kind must be "binary"'),
        (Y, P3, {"classes": [0, 1]}, ex.InvalidArgumentError, "got 2 names"),
        (Y, P3, {"classes": [0, 1, 1]}, ex.InvalidArgumentError, "distinct"),
        (Y, P3, {"classes": [0, "a", 1]}, ex.InvalidArgumentError, "all text or all numbers"),
        (Y, P3, {"classes": "abc"}, ex.InvalidArgumentError, "a sequence"),
        (Y, P3, {"pos_label": 1}, ex.InvalidArgumentError, "binary problem"),
        (Y, P, {"classes": (0, 1), "pos_label": 5}, ex.InvalidArgumentError, "not among"),
        (Y, P, {"sample_weight": [1, 2]}, ex.LengthMismatchError, r"shape \(4,\)"),
        (Y, P, {"sample_weight": [1, -2, 1, 1]}, ex.InvalidWeightsError, r"sample_weight\[1\] = -2"),
        (Y, P, {"sample_weight": [0, 0, 0, 0]}, ex.InvalidWeightsError, "not be zero on every"),
        (Y, P, {"sample_weight": list("abcd")}, ex.InvalidWeightsError, "must hold numbers"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bins", [cb.EqualWidth(4), cb.EqualMass(2)], ids=["fixed", "data"])
def test_bad_input_gets_its_own_clear_exception(y, p, options, error, message, bins):
    with pytest.raises(error, match=message) as caught:
        cb.calibration_error(y, p, bins=bins, **options)
    assert isinstance(caught.value, ValueError)


def test_a_bad_value_is_found_in_any_block():
    n = 50_000
    p = np.full(n, 0.5)
    p[40_001] = 2.0
    with pytest.raises(ex.InvalidProbabilitiesError, match=r"1 of 50,000 .*y_prob\[40001\] = 2"):
        cb.tabulate(np.zeros(n), p, bins=cb.EqualWidth(2))
    labels = np.zeros(n)
    labels[33_333] = 7
    with pytest.raises(ex.InvalidLabelsError, match=r"y_true\[33333\] = 7"):
        cb.tabulate(labels, np.full(n, 0.5), bins=cb.EqualWidth(2))


def test_hard_zero_one_predictions_are_not_taken_for_swapped_arguments():
    assert cb.calibration_error([0.0, 1.0, 1.0], [0, 1, 0], bins=cb.Distinct(), debias=False).n == 3


HIDDEN = np.array([False, False, True, False])
MASKED = {
    "y_true": ((np.ma.array(Y, mask=HIDDEN), P, None), ex.InvalidLabelsError),
    "y_prob": ((Y, np.ma.array(P, mask=HIDDEN), None), ex.NotFiniteError),
    "sample_weight": ((Y, P, np.ma.array(P, mask=HIDDEN)), ex.InvalidWeightsError),
}


@pytest.mark.parametrize("name", MASKED)
def test_rows_that_a_mask_hides_are_refused(name):
    (y, p, w), error = MASKED[name]
    with pytest.raises(error, match=f"1 of 4 values are .*{name}\\[2\\]"):
        cb.tabulate(y, p, sample_weight=w)
    with pytest.raises(error, match="1 of 4 values are"):
        cb.CalibrationMetric().update(y, p, w)
    with pytest.raises(ex.InvalidInputError, match="must not be masked; 1 of 4"):
        cb.tabulate(
            "y", "p", data={"y": y, "p": p, "w": w}, sample_weight=None if w is None else "w"
        )


def test_rows_of_a_masked_table_and_a_list_of_masked_rows_are_refused():
    table = np.ma.array(P3, mask=P3 == 0.8)
    for p in (table, list(table)):
        with pytest.raises(ex.NotFiniteError, match=r"1 of 12 values are .*y_prob\[1, 1\]"):
            cb.tabulate(Y, p)


def test_a_recalibrator_refuses_masked_rows():
    masked = np.ma.array(P, mask=HIDDEN)
    with pytest.raises(ex.NotFiniteError, match="must not be masked"):
        cb.PlattScaling().fit(masked, Y)
    with pytest.raises(ex.NotFiniteError, match="must not be masked"):
        cb.PlattScaling().fit(P, Y).predict_proba(masked)


def test_a_mask_that_hides_nothing_is_fine():
    masked = [np.ma.array(values, mask=False) for values in (Y, P, P)]
    assert cb.tabulate(*masked[:2], sample_weight=masked[2]) == cb.tabulate(Y, P, sample_weight=P)


MISSING = {
    "pandas Float64": lambda pandas: pandas.array([0.1, None, 0.9], dtype="Float64"),
    "pandas object": lambda pandas: pandas.Series([0.1, pandas.NA, 0.9], dtype=object),
    "pyarrow-backed": lambda pandas: pandas.array([0.1, None, 0.9], dtype="double[pyarrow]"),
    "polars": lambda _: optional("polars").Series([0.1, None, 0.9]),
    "None": lambda _: [0.1, None, 0.9],
}


@pytest.mark.parametrize("library", MISSING)
def test_missing_values_of_every_library_are_refused_as_missing(library):
    pandas = optional("pandas")
    values = MISSING[library](pandas)
    with pytest.raises(ex.NotFiniteError, match=r"missing; 1 of 3 values .*y_prob\[1\]"):
        cb.tabulate([0, 1, 1], values)
    with pytest.raises(ex.InvalidWeightsError, match=r"sample_weight\[1\]"):
        cb.tabulate([0, 1, 1], [0.1, 0.2, 0.3], sample_weight=values)
    labels = pandas.array([0, None, 1], dtype="Int64")
    with pytest.raises(ex.InvalidLabelsError, match=r"y_true\[1\]"):
        cb.tabulate(labels, [0.1, 0.2, 0.9])


@pytest.mark.parametrize("place", ["column", "table", "data"])
def test_a_null_of_a_dictionary_is_missing_and_not_its_last_value(place):
    pyarrow = optional("pyarrow")
    values = {
        "y": [0, 1, None],
        "p": [0.1, None, 0.9],
        "w": [1.0, None, 2.0],
        "k": ["n", "y", None],
    }
    whole = {"y": [0, 1, 1], "p": [0.1, 0.2, 0.9]}
    columns = {name: pyarrow.array(own).dictionary_encode() for name, own in values.items()}
    table = pyarrow.table(columns | {f"all_{name}": own for name, own in whole.items()})

    def count(y, p, w=None, **options):
        if place == "data":
            return cb.tabulate(y, p, sample_weight=w, data=table, **options)
        probs = table.select([p, "all_p"]) if place == "table" else table[p]
        weights = None if w is None else table[w]
        return cb.tabulate(table[y], probs, sample_weight=weights, **options)

    with pytest.raises(ex.InvalidLabelsError, match=r"y_true\[2\]"):
        count("y", "all_p")
    with pytest.raises(ex.InvalidLabelsError, match=r"y_true\[2\]"):
        count("k", "all_p", classes=("n", "y"))
    with pytest.raises(ex.NotFiniteError, match="1 of [36] values are NaN"):
        count("all_y", "p")
    with pytest.raises(ex.InvalidWeightsError, match=r"sample_weight\[1\]"):
        count("all_y", "all_p", "w")


def test_a_null_of_a_dictionary_is_in_no_interval_of_the_groups():
    pyarrow = optional("pyarrow")
    age = pyarrow.array([30, None, 70]).dictionary_encode()
    data = pyarrow.table({"y": [0, 1, 1], "p": [0.1, 0.2, 0.9], "age": age})
    tables = cb.tabulate("y", "p", data=data, by={"age": [0, 50, 100]}, bins=1)
    assert {key: table.n for key, table in tables.items()} == {
        "[0, 50]": 1,
        "(50, 100]": 1,
        None: 1,
    }


@pytest.mark.parametrize("library", ["numpy", "pandas", "pyarrow"])
def test_text_that_could_be_numbers_is_refused_wherever_it_comes_from(library):
    make = {
        "numpy": lambda x: np.array(x, object),
        "pandas": lambda x: optional("pandas").Series(x),
        "pyarrow": lambda x: optional("pyarrow").array(x),
    }[library]
    text = make(["0.1", "0.8", "0.6", "0.4"])
    with pytest.raises(ex.InvalidProbabilitiesError, match="must hold numbers"):
        cb.tabulate(Y, text)
    with pytest.raises(ex.InvalidWeightsError, match="must hold numbers"):
        cb.tabulate(Y, P, sample_weight=text)
    with pytest.raises(ex.InvalidLabelsError, match="must hold real numbers"):
        cb.tabulate(text, P[:, None], kind="quantile", classes=[0.5])
    with pytest.raises(ex.InvalidLabelsError, match="must hold 0 and 1"):
        cb.tabulate(make(["0", "1", "1", "0"]), P, kind="multi-label")


@pytest.mark.parametrize("dtype", ["M8[ns]", "m8[ns]", "M8[s]"])
def test_times_are_no_labels(dtype):
    times = Y.astype(dtype)
    objects = np.empty(4, object)
    objects[:] = list(times)
    for labels in (times, objects):
        with pytest.raises(ex.InvalidLabelsError, match="must be 0 and 1 or booleans; 4 of 4"):
            cb.tabulate(labels, P)


@pytest.mark.parametrize(("labels", "event"), [(["a", "b"], "c"), ([0, 1], 2), ([1.0, 2.0], 1.5)])
def test_an_event_that_never_occurs_is_refused_and_the_labels_are_shown(labels, event):
    polars = optional("polars")
    words = f"no row \\(labels: {labels[0]!r}, {labels[1]!r}\\)"
    y, p = labels[::-1] * 5, np.linspace(0, 1, 10)  # shown in order, whichever came first
    frame = polars.DataFrame({"y": y, "p": p})
    for function in (cb.calibration_error, cb.tabulate, cb.certify, cb.reliability_curve):
        with pytest.raises(ex.InvalidLabelsError, match=words):
            function(y, p, pos_label=event)
        for data in (frame, frame.lazy()):
            with pytest.raises(ex.InvalidLabelsError, match=words):
                function("y", "p", data=data, pos_label=event)


def test_an_event_that_did_not_happen_is_fine_where_nothing_can_be_mistaken():
    assert cb.tabulate(["no", "no"], [0.1, 0.2], classes=("no", "yes")).sum_y.sum() == 0
    assert cb.tabulate([0, 0], [0.1, 0.2]).sum_y.sum() == 0
    zero = cb.tabulate(["no", "yes"], [0.1, 0.2], pos_label="yes", sample_weight=[1, 0])
    assert zero.sum_y.sum() == 0


BIG = 2**53


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("shift", [0, 2**63 - 2**53])
def test_integers_that_floats_cannot_tell_apart_are_told_apart(dtype, shift):
    if dtype == np.int64 and shift:
        pytest.skip("no int64 is so large")
    no, yes = BIG + shift, BIG + shift + 1
    labels = np.array([no, yes], dtype)[Y]
    expected = cb.tabulate(Y, P, bins=2).sum_py.tolist()
    for named in ({"classes": (no, yes)}, {"pos_label": yes}):
        assert cb.tabulate(labels, P, bins=2, **named).sum_py.tolist() == expected
    with pytest.raises(ex.InvalidLabelsError, match="2 of 4"):
        cb.tabulate(labels, P, classes=(no, float(no + 2048)))


@pytest.mark.parametrize(
    "weights",
    [
        ["1", "2"],
        [np.ones(2), None],
        np.array([1, 2], "m8[s]"),
        np.array([1, 2], "M8[s]"),
        np.array([1, 2j]),
    ],
)
def test_weights_that_are_not_numbers_are_refused(weights):
    with pytest.raises(ex.InvalidWeightsError, match="must hold numbers"):
        cb.tabulate([0, 1], [0.2, 0.7], sample_weight=weights)


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_a_label_that_is_missing_among_text_of_a_list_is_refused(missing):
    """NumPy would make the text "nan" of it, which is not the event."""
    with pytest.raises(ex.InvalidLabelsError, match=r"1 of 3 are not \(first: y_true\[1\]"):
        cb.tabulate(["yes", missing, "no"], [0.1, 0.2, 0.3], pos_label="yes")
    with pytest.raises(ex.InvalidLabelsError, match=r"1 of 3 are not"):
        cb.tabulate(["yes", missing, "no"], [0.1, 0.2, 0.3], classes=("no", "yes"))
