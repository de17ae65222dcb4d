"""What puts rows into groups: every type of column, cuts, and what is refused."""

from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest

from calibrant import tabulate
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidGroupsError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    LengthMismatchError,
)
from conftest import optional

Y, P = [0, 1, 0, 1], [0.2, 0.7, 0.4, 0.9]


def keys(by, **options):
    """Return the keys of the groups of four rows."""
    return list(tabulate(Y, P, bins="width:2", by=by, **options))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["b", "a", "b", None], ["a", "b", None]),
        ([2, 1, 2, 1], [1, 2]),
        ([2.5, np.nan, 2.5, -1.0], [-1.0, 2.5, None]),
        ([True, False, True, True], [False, True]),
        (np.array([10**12, 0, 5, 5]), [0, 5, 10**12]),
        (np.array([3, 1, 3, 1], np.uint8), [1, 3]),
        (np.array([-100, 127, 127, 0], np.int8), [-100, 0, 127]),
        (np.array([2**64 - 1, 2**64 - 2, 2**64 - 1, 2**64 - 1], np.uint64), [2**64 - 2, 2**64 - 1]),
        (np.array([-(2**63), 2**63 - 1, 0, 0]), [-(2**63), 0, 2**63 - 1]),
        (
            np.array(["2024-01-02", "2024-01-01", "NaT", "2024-01-01"], "M8[ns]"),
            ["2024-01-01", "2024-01-02", None],
        ),
        (np.array([datetime.date(2024, 1, 1)] * 4, object), ["2024-01-01"]),
        (np.array([1, "a", None, float("nan")], object), [1, "a", None]),
        (np.array([b"x", b"y", b"x", b"x"]), ["x", "y"]),
    ],
)
def test_columns_of_every_type_tell_groups_apart(column, expected):
    assert keys(column) == expected


@pytest.mark.parametrize("span", [2**15 - 1, 2**15, 2**24 - 1, 2**24])
@pytest.mark.parametrize("low", [-(2**40), -7, 0, 2**40 + 3])
def test_integers_are_told_apart_however_wide_they_spread(span, low):
    assert keys(np.array([low, low + span, low + 1, low + span])) == [low, low + 1, low + span]


SERIES = {
    "polars": lambda pl, text: pl.Series(text),
    "polars categories": lambda pl, text: pl.Series(text, dtype=pl.Categorical),
    "polars enum": lambda pl, text: pl.Series(text, dtype=pl.Enum(["z", "b", "a"])),
    "pandas": lambda pd, text: pd.Series(text),
    "pandas categories": lambda pd, text: pd.Series(text, dtype="category"),
    "pandas ordered": lambda pd, text: pd.Series(pd.Categorical(text, ["z", "b", "a"], True)),
    "pyarrow": lambda pa, text: pa.chunked_array([text[:1], text[1:]]),
    "pyarrow dictionary": lambda pa, text: pa.chunked_array([text]).dictionary_encode(),
}


@pytest.mark.parametrize("name", SERIES)
def test_series_of_text_and_categories_tell_groups_apart(name):
    series = SERIES[name](optional(name.split()[0]), ["b", "a", None, "b"])
    table = tabulate(Y, P, bins="width:2", by={"site": series})
    assert list(table) == ["a", "b", None]
    assert [own.sum_y.sum() for own in table.values()] == [1, 1, 0]
    assert [own.sum_p.sum() for own in table.values()] == pytest.approx([0.7, 1.1, 0.4])


def test_series_of_text_may_be_empty_of_values_cross_and_have_numbers_as_categories():
    pl, pd = optional("polars"), optional("pandas")
    assert keys(pl.Series([None] * 4, dtype=pl.String)) == [None]
    assert keys(pd.Series([5, 3, 5, None]).astype("category")) == [3.0, 5.0, None]
    frame = pl.DataFrame({"y": Y, "p": P, "site": ["b", "a", "b", "a"], "n": [1, 1, 2, 2]})
    expected = [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert keys(frame.select("site", "n")) == expected
    assert list(tabulate("y", "p", data=frame, bins=[0, 0.5, 1], by=["site", "n"])) == expected
    with pytest.raises(LengthMismatchError, match="one value per row"):
        keys(pl.Series(["a", "b"]))


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_large_integers_beside_missing_ones_stay_apart(name):
    package, keys = optional(name), [2**53, 2**53 + 1, None, 2**53]
    if name == "pandas":
        series = package.Series(keys, dtype="Int64")
    else:
        series = package.Series(keys) if name == "polars" else package.chunked_array([keys])
    frame = package.table if name == "pyarrow" else package.DataFrame
    columns = {"y": [0, 1, 0, 1], "p": [0.1, 0.2, 0.3, 0.4], "k": series}
    for tables in (
        tabulate(columns["y"], columns["p"], bins=2, by=series),
        tabulate(columns["y"], columns["p"], bins=2, by=frame({"k": series})),
        tabulate("y", "p", bins=2, by="k", data=frame(columns)),
        tabulate("y", "p", bins=2, by="k", data=columns),
    ):
        counts = dict(zip(tables.labels, tables.count.sum(axis=(1, 2)).tolist(), strict=True))
        assert counts == {(2**53,): 2, (2**53 + 1,): 1, (None,): 1}
        assert all(type(label) in (int, type(None)) for (label,) in counts)


def test_large_integers_of_a_plain_arrow_array_stay_apart_too():
    pa = optional("pyarrow")
    assert keys(pa.array([2**53, 2**53 + 1, None, 2**53])) == [2**53, 2**53 + 1, None]


@pytest.mark.parametrize("name", ["numpy", "pandas", "polars", "lazy"])
def test_times_that_differ_by_nanoseconds_stay_apart(name):
    times = np.array(
        ["2024-01-01T10:00:00.000000001", "2024-01-01T10:00:00.000000002"] * 2, "M8[ns]"
    )
    expected = ["2024-01-01 10:00:00.000000001", "2024-01-01 10:00:00.000000002"]
    if name == "numpy":
        tables = tabulate(Y, P, bins="width:2", by=times)
    else:
        package = optional("pandas" if name == "pandas" else "polars")
        frame = package.DataFrame({"y": Y, "p": P, "t": times})
        frame = frame.lazy() if name == "lazy" else frame
        tables = tabulate("y", "p", bins="width:2", data=frame, by="t")
    assert list(tables) == expected
    assert [tables[key].n for key in expected] == [2, 2]
    assert type(tables).from_json(tables.to_json()) == tables


@pytest.mark.parametrize(
    ("name", "home"),
    [
        *(("pandas", home) for home in ("series", "frame")),
        *(("polars", home) for home in ("series", "frame", "lazy")),
        *(("pyarrow", home) for home in ("series", "frame")),
    ],
)
def test_local_times_are_called_by_the_clock_of_their_zone(name, home):
    pd = optional("pandas")
    days = pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01", None]))
    frame = pd.DataFrame({"y": Y, "p": P, "day": days.dt.tz_localize("Europe/Paris")})
    if name != "pandas":
        frame = optional("polars").from_pandas(frame)
    if name == "pyarrow":
        frame = frame.to_arrow()
    expected = ["2024-01-01 00:00:00+01:00", "2024-01-02 00:00:00+01:00", None]
    if home == "series":
        assert keys(frame["day"]) == expected
    else:
        frame = frame.lazy() if home == "lazy" else frame
        assert list(tabulate("y", "p", data=frame, bins="width:2", by="day")) == expected


def test_columns_of_one_name_are_refused_by_name():
    pd = optional("pandas")
    frame = pd.DataFrame([["f", 1]] * 4, columns=["site", "site"])
    with pytest.raises(InvalidArgumentError, match=r"names of their own; got 'site' 2 times"):
        keys(frame)


def test_several_columns_cross_and_are_called_by_their_names():
    tables = tabulate(Y, P, bins="width:2", by=[["a", "a", "b", "b"], [1, 2, 1, 1]])
    assert list(tables) == [("a", 1), ("a", 2), ("b", 1)]
    assert tables.names == ("group 1", "group 2")
    assert keys({"x": ["a"] * 4, "y": [1, 1, 2, 2]}) == [("a", 1), ("a", 2)]


def test_a_data_frame_or_a_named_series_may_stand_for_its_columns():
    pd = optional("pandas")
    frame = pd.DataFrame({"sex": ["f", "m", "f", "m"], "site": [1, 1, 2, 2]})
    assert tabulate(Y, P, bins="width:2", by=frame).names == ("sex", "site")
    assert tabulate(Y, P, bins="width:2", by=frame["sex"]).names == ("sex",)
    assert keys(frame["sex"].astype("category")) == ["f", "m"]
    data = frame.assign(y=Y, p=P)
    assert list(tabulate("y", "p", data=data, by=["sex", "site"], bins=1)) == [
        ("f", 1), ("f", 2), ("m", 1), ("m", 2)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "interval"),
    [(0, "[0, 40]"), (40, "[0, 40]"), (np.nextafter(40, 50), "(40, 65]"), (65, "(40, 65]"),
     (120, "(65, 120]"), (np.nan, None)],
)  # fmt: skip
def test_cuts_follow_the_edge_rule_of_bins(value, interval):
    assert keys({"age": (np.full(4, value), [0, 40, 65, 120])}) == [interval]


def test_both_zeros_are_one_group_and_one_cut():
    tables = tabulate(Y, P, bins="width:2", by=np.array([-0.0, 0.0, -0.0, 1.0]))
    assert [str(key) for key in tables] == ["0.0", "1.0"]
    assert keys({"p": (P, [-0.0, 0.5, 1])}) == ["[0, 0.5]", "(0.5, 1]"]


def test_infinite_cuts_hold_everything():
    assert keys({"x": ([-1e9, 0, 1, 1e9], [-np.inf, 0.5, np.inf])}) == ["[-inf, 0.5]", "(0.5, inf]"]


def test_the_predictions_themselves_may_be_cut():
    assert keys({"score": (P, [0, 0.5, 1])}) == ["[0, 0.5]", "(0.5, 1]"]


@pytest.mark.parametrize(
    ("by", "error", "message"),
    [
        (["a", "b"], LengthMismatchError, "one value per row"),
        ({"age": [0, 40, 65]}, LengthMismatchError, r"by=\{name: \(values, cuts\)\}"),
        ({"age": (P, [1, 0])}, InvalidArgumentError, "that rise"),
        ({"age": (P, [1])}, InvalidArgumentError, "two numbers or more"),
        ({"age": (P, ["a", "b"])}, InvalidArgumentError, "must be numbers"),
        ({"age": (P, [0, np.nan])}, InvalidArgumentError, "must be numbers"),
        ({"age": ([1, 2, 3, 99], [0, 50])}, InvalidGroupsError, r"first: by\[3\] = 99"),
        ({"age": (["a"] * 4, [0, 50])}, InvalidGroupsError, "Only numbers can be cut"),
        ({"day": (np.array([1, 2, 3, 4], "M8[D]"), [0, 9])}, InvalidGroupsError, "datetime64"),
        (np.array([[1], [2], [], []], object), InvalidGroupsError, "text, numbers or dates"),
        ([1.0, np.inf, 1.0, 1.0], InvalidGroupsError, "finite numbers"),
        ([1 + 2j] * 4, InvalidGroupsError, "finite numbers"),
        (np.zeros((4, 2)), LengthMismatchError, r"shape \(4, 2\)"),
        ("site", InvalidShapeError, "pass the frame as data="),
        (7, InvalidShapeError, "single value 7"),
        (np.ma.masked_array([1, 2, 3, 4], [0, 1, 0, 0]), InvalidLabelsError, "masked"),
    ],
)
def test_what_does_not_tell_groups_apart_is_refused(by, error, message):
    with pytest.raises((error, ValueError), match=message):
        keys(by)


@pytest.mark.parametrize("by", [[], {}, 3, ["sex", 3], {"sex": "abc"}])
def test_names_of_columns_are_needed_beside_data(by):
    data = {"y": Y, "p": P, "sex": ["f", "m", "f", "m"]}
    with pytest.raises(InvalidArgumentError):
        tabulate("y", "p", data=data, by=by)


def test_decimals_are_the_numbers_that_they_are():
    assert keys([Decimal("1.5"), Decimal("NaN"), Decimal(2), 2.0]) == [1.5, 2.0, None]


INTEGERS = {
    "small": [3, -1, 3, 0, 5, -1],
    "some missing": [3, None, 3, 0, None, -1],
    "wide": [2**62, -(2**62), 2**62 + 1, 2**31, -(2**31), 1 - 2**31],
    "the number of missing ones": [2**31, None, 2**31, 1, 0, 1],
}


@pytest.mark.parametrize("values", INTEGERS.values(), ids=INTEGERS)
@pytest.mark.parametrize("dtype", ["Int64", "UInt64"])
def test_integers_of_a_lazy_frame_tell_groups_apart_as_in_memory(values, dtype):
    pl = optional("polars")
    values = [None if x is None else abs(x) if dtype == "UInt64" else x for x in values]
    columns = {"y": [0, 1, 1, 0, 1, 0], "p": [0.0, 1.0, 0.3, 0.3, 0.75, 0.5]}
    frame = pl.DataFrame({**columns, "g": pl.Series(values, dtype=getattr(pl, dtype))})
    lazy = tabulate("y", "p", data=frame.lazy(), by="g", bins="width:4")
    held = tabulate("y", "p", data=frame, by="g", bins="width:4")
    assert lazy.to_dict() == held.to_dict()


@pytest.mark.parametrize("bad", [{"y": 2}, {"y": None}, {"p": 1.5}, {"p": None}, {"p": np.nan}])
def test_bad_rows_of_a_lazy_frame_are_named_beside_groups(bad):
    pl = optional("polars")
    rows = {"y": [0, 1, 1, 0], "p": [0.1, 0.2, 0.3, 0.4], "g": [1, 2, 1, 2**40]}
    for name, value in bad.items():
        rows[name][2] = value
    with pytest.raises((InvalidLabelsError, InvalidProbabilitiesError), match="1 rows"):
        tabulate("y", "p", data=pl.LazyFrame(rows), by="g", bins="width:4")


def test_an_unknown_column_is_named():
    with pytest.raises(InvalidArgumentError, match="no column 'site'"):
        tabulate("y", "p", data={"y": Y, "p": P}, by="site")


TEXTS = ["b", "a", None, "b"]
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)]
KINDS = {
    "large_string": lambda pa: pa.array(TEXTS, pa.large_string()),
    "string_view": lambda pa: pa.array(TEXTS, pa.string_view()),
    "binary_view": lambda pa: pa.array([t and t.encode() for t in TEXTS], pa.binary_view()),
    "dictionary": lambda pa: pa.array(TEXTS).dictionary_encode(),
    "dictionary of views": lambda pa: pa.DictionaryArray.from_arrays(
        pa.array([1, 0, None, 1]), pa.array(["a", "b"], pa.string_view())
    ),
    "dictionary of numbers": lambda pa: pa.array([2, 1, None, 2]).dictionary_encode(),
    "dictionary of dates": lambda pa: pa.array(
        [DAYS[1], DAYS[0], None, DAYS[1]]
    ).dictionary_encode(),
    "decimal128": lambda pa: pa.array([Decimal("2.25"), Decimal("1.5"), None, Decimal("2.25")]),
    "date32": lambda pa: pa.array([DAYS[1], DAYS[0], None, DAYS[1]], pa.date32()),
}
EXPECTED = {
    "dictionary of numbers": [1, 2, None],
    "dictionary of dates": ["2024-01-01", "2024-01-02", None],
    "decimal128": [1.5, 2.25, None],
    "date32": ["2024-01-01", "2024-01-02", None],
}
HOMES = ["array", "chunks", "frame", "table", "pandas", "pandas arrow", "polars", "lazy", "arrow"]


@pytest.mark.parametrize("home", [*HOMES, "parquet", "duckdb"])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_arrow_tell_groups_apart_in_every_home(kind, home, tmp_path):
    pa, pd, pl = optional("pyarrow"), optional("pandas"), optional("polars")
    column = KINDS[kind](pa)
    table = pa.table({"y": Y, "p": P, "g": column})
    if home in ("array", "chunks", "frame"):
        alone = {"array": column, "chunks": table["g"], "frame": table.select(["g"])}[home]
        tables = tabulate(Y, P, bins="width:2", by=alone)
    else:
        if kind == "dictionary of views" and home == "parquet":
            pytest.skip("PyArrow does not write it")
        paths = {name: tmp_path / f"f.{name}" for name in ("parquet", "arrow")}
        if home == "parquet":
            optional("pyarrow.parquet").write_table(table, paths[home])
        if home == "arrow":
            with pa.ipc.new_file(paths[home], table.schema) as file:
                file.write_table(table)
        data = {
            "table": lambda: table,
            "pandas": table.to_pandas,
            "pandas arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
            "polars": lambda: pl.from_arrow(table),
            "lazy": lambda: pl.from_arrow(table).lazy(),
            "duckdb": lambda: optional("duckdb").connect().from_arrow(table),
        }.get(home, lambda: paths[home])()
        tables = tabulate("y", "p", data=data, bins="width:2", by="g")
    assert list(tables) == EXPECTED.get(kind, ["a", "b", None])
    assert [own.n for own in tables.values()] == [1, 2, 1]
    assert [own.sum_y.sum() for own in tables.values()] == [1, 1, 0]


AGES, CUTS = [10, 70, None, 50], [0, 40, 65, 120]


@pytest.mark.parametrize("home", [*HOMES[2:], "series", "list", "parquet"])
@pytest.mark.parametrize("form", ["categories", "intervals"])
def test_intervals_of_pandas_are_groups_named_by_their_text(form, home, tmp_path):
    """They have the rows that cutting by the same numbers gives."""
    pa, pd, pl = optional("pyarrow"), optional("pandas"), optional("polars")
    column = pd.cut(pd.Series(AGES, dtype=float), CUTS)
    column = column if form == "categories" else pd.Series(pd.arrays.IntervalArray(column))
    frame = pd.DataFrame({"y": Y, "p": P, "g": column})
    expected = tabulate(Y, P, bins="width:2", by={"age": (AGES, CUTS)})
    if home in ("frame", "series", "list"):
        alone = {"frame": frame[["g"]], "series": column, "list": list(column)}[home]
        tables = tabulate(Y, P, bins="width:2", by=alone)
    else:
        if home == "lazy" or (form == "categories" and home in ("parquet", "arrow")):
            pytest.skip("neither Parquet nor Arrow files nor lazy Polars hold them")
        path = tmp_path / f"f.{home}"
        if home == "parquet":
            frame.to_parquet(path)
        if home == "arrow":
            optional("pyarrow.feather").write_feather(frame, path)
        data = {
            "table": lambda: pa.Table.from_pandas(frame),
            "pandas": lambda: frame,
            "pandas arrow": lambda: frame.convert_dtypes(dtype_backend="pyarrow"),
            "polars": lambda: pl.from_pandas(frame),
        }.get(home, lambda: path)()
        tables = tabulate("y", "p", data=data, bins="width:2", by="g")
    assert set(tables) == {"(0, 40]", "(40, 65]", "(65, 120]", None}
    for key, own in expected.items():
        assert tables["(0, 40]" if key == "[0, 40]" else key].has_sums_of(own)


def test_intervals_in_a_file_are_read_where_pandas_is_not_loaded(tmp_path):
    pd = optional("pandas")
    path = tmp_path / "f.parquet"
    column = pd.arrays.IntervalArray.from_tuples([(0, 1.5), None, (0, 1.5), (2, 3)], "left")
    pd.DataFrame({"y": Y, "p": P, "g": column}).to_parquet(path)
    code = (
        "import calibrant\n"
        f"tables = calibrant.tabulate('y', 'p', data={str(path)!r}, bins='width:2', by='g')\n"
        "print(list(tables))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['[0, 1.5)', '[2, 3)', None]"


@pytest.mark.parametrize("home", ["array", "table", "polars", "lazy", "duckdb", "parquet", "arrow"])
@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_lists_and_structs_are_no_groups(value, home, tmp_path):
    pa, pl = optional("pyarrow"), optional("polars")
    table = pa.table({"y": Y, "p": P, "g": pa.array([value] * 4)})
    optional("pyarrow.parquet").write_table(table, tmp_path / "f.parquet")
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as file:
        file.write_table(table)
    data = {
        "table": lambda: table,
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
        "duckdb": lambda: optional("duckdb").connect().from_arrow(table),
    }.get(home, lambda: tmp_path / f"f.{home}")()
    rows = (Y, P) if home == "array" else ("y", "p")
    by, data = (table["g"], None) if home == "array" else ("g", data)
    with pytest.raises(InvalidGroupsError, match="told apart by text"):
        tabulate(*rows, data=data, bins="width:2", by=by)


@pytest.mark.parametrize("home", ["objects", "table", "polars", "lazy", "parquet"])
def test_decimals_that_are_one_float_stay_apart(home, tmp_path):
    pa, pl = optional("pyarrow"), optional("polars")
    values = [Decimal(text) for text in ("12345678901234567.25", "12345678901234567.50", "2", "2")]
    table = pa.table({"y": Y, "p": P, "g": pa.array(values, pa.decimal128(20, 2))})
    expected = [2.0, "12345678901234567.25", "12345678901234567.50"]
    if home == "objects":
        assert (
            keys(np.array([Decimal(text) for text in ("2", *expected[1:], "2")], object))
            == expected
        )
        return
    optional("pyarrow.parquet").write_table(table, tmp_path / "f.parquet")
    data = {
        "table": lambda: table,
        "polars": lambda: pl.from_arrow(table),
        "lazy": lambda: pl.from_arrow(table).lazy(),
    }.get(home, lambda: tmp_path / f"f.{home}")()
    assert list(tabulate("y", "p", data=data, bins="width:2", by="g")) == expected


def test_a_list_of_text_keeps_what_is_missing():
    assert keys(["b", float("nan"), "b", None]) == ["b", None]
    assert keys(["1", 1, "1", 1]) == [1, "1"]


@pytest.mark.parametrize("home", ["array", "table", "lazy", "parquet"])
def test_dates_cannot_be_cut(home, tmp_path):
    pa, pl = optional("pyarrow"), optional("polars")
    table = pa.table({"y": Y, "p": P, "g": pa.array(DAYS * 2)})
    optional("pyarrow.parquet").write_table(table, tmp_path / "f.parquet")
    data = {"table": lambda: table, "lazy": lambda: pl.from_arrow(table).lazy()}
    rows = (Y, P) if home == "array" else ("y", "p")
    data = None if home == "array" else data.get(home, lambda: tmp_path / "f.parquet")()
    by = {"g": (table["g"], [0, 1])} if home == "array" else {"g": [0, 1]}
    with pytest.raises(InvalidGroupsError, match="Only numbers can be cut"):
        tabulate(*rows, data=data, bins="width:2", by=by)
