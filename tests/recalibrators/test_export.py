"""SQL and expressions of data frames give the answers of predict_proba."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pytest
from shared import ON_LOGITS, SCALING, STEPS, binary_rows, class_rows, cuts_of, grid_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant import Identity, MatrixScaling
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import HistogramBinning, PlattScaling, ScalingBinning
from calibrant.recalibrators.inner import ForeignEstimator
from conftest import optional
from lazy_frames import QUICK, SLOW, arrow_table, lazy_frame

EAGER = ["pandas", "polars eager", "pyarrow"]
HOSTILE = "a\" b; DROP TABLE t; --`\\'"


def run_sql(expression, column, values):
    duckdb = optional("duckdb")
    connection = duckdb.connect()
    name = '"' + column.replace('"', '""') + '"'
    connection.execute(f"CREATE TABLE t (i INTEGER, {name} DOUBLE)")
    connection.executemany(
        "INSERT INTO t VALUES (?, ?)", [(i, float(v)) for i, v in enumerate(values)]
    )
    rows = connection.execute(f"SELECT {expression} FROM t ORDER BY i").fetchall()
    return np.array([row[0] for row in rows])


@pytest.mark.parametrize("recalibrator", STEPS, ids=str)
def test_sql_of_bins_gives_the_same_answer_at_every_edge_and_beside_it(recalibrator):
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = grid_of(fitted)
    found = run_sql(fitted.to_sql("score"), "score", grid)
    np.testing.assert_array_equal(found, fitted.predict_proba(grid))


@pytest.mark.parametrize("recalibrator", SCALING, ids=str)
def test_sql_of_scaling_gives_the_same_answer_to_rounding(recalibrator):
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = np.concatenate((np.linspace(0, 1, 401), [5e-324, 1e-300, 1e-13, 1 - 1e-16]))
    found = run_sql(fitted.to_sql("score"), "score", grid)
    np.testing.assert_allclose(found, fitted.predict_proba(grid), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("recalibrator", ON_LOGITS, ids=str)
def test_sql_of_logits_does_not_overflow(recalibrator):
    rng = np.random.default_rng(0)
    z = rng.normal(size=500)
    fitted = clone(recalibrator).fit(z, rng.uniform(size=500) < 1 / (1 + np.exp(-z / 2)))
    grid = np.concatenate((np.linspace(-40, 40, 201), [-1e6, 1e6]))
    found = run_sql(fitted.to_sql("z"), "z", grid)
    np.testing.assert_allclose(found, fitted.predict_proba(grid), rtol=1e-12, atol=1e-300)


def test_sql_of_a_kept_identity_is_the_column():
    fitted = PlattScaling().fit(np.r_[0.001, 0.999], [0, 1])
    assert "kept identity" in fitted.fit_result_.flags
    grid = np.array([0.0, 1e-300, 0.3, 1.0])
    np.testing.assert_array_equal(run_sql(fitted.to_sql("score"), "score", grid), grid)


def test_a_hostile_column_name_does_no_harm():
    fitted = HistogramBinning(3).fit(*binary_rows(90))
    found = run_sql(fitted.to_sql(HOSTILE), HOSTILE, [0.1, 0.9])
    np.testing.assert_array_equal(found, fitted.predict_proba([0.1, 0.9]))
    assert '"a"" b; DROP TABLE t; --`\\\'"' in fitted.to_sql(HOSTILE)
    assert "`a\" b; DROP TABLE t; --``\\'`" in fitted.to_sql(HOSTILE, "mysql")
    assert "`a\" b; DROP TABLE t; --\\`\\\\'`" in fitted.to_sql(HOSTILE, "bigquery")


def test_null_stays_null():
    duckdb = optional("duckdb")
    for recalibrator in (HistogramBinning(3), PlattScaling()):
        sql = recalibrator.fit(*binary_rows(90)).to_sql("x")
        query = f"SELECT {sql} FROM (SELECT CAST(NULL AS DOUBLE) AS x)"
        row = duckdb.connect().execute(query).fetchone()
        assert row == (None,)


def test_what_has_no_sql_form_is_refused():
    p, y = binary_rows(300)
    with pytest.raises(InvalidArgumentError, match="no form in SQL"):
        ForeignEstimator(LogisticRegression()).fit(p, y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="keep_order"):
        HistogramBinning(3, keep_order=True).fit(p, y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="not increasing"):
        ScalingBinning(bins=3).fit(p, 1 - y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="dialect"):
        PlattScaling().fit(p, y).to_sql("x", "dbase")
    for name in ("", "a\0b", 3):
        with pytest.raises(InvalidArgumentError, match="needs a name"):
            PlattScaling().fit(p, y).to_sql(name)
    with pytest.raises(NotFittedError):
        PlattScaling().to_sql("x")


def frame_of(engine, columns):
    if engine == "pandas":
        return optional("pandas").DataFrame(columns)
    if engine == "polars eager":
        return optional("polars").DataFrame(columns)
    return arrow_table(columns) if engine == "pyarrow" else lazy_frame(engine, columns)


def answers(frame, names):
    """Collect columns in the order of the rows."""
    frame = nw.from_native(frame)
    eager = frame.collect() if isinstance(frame, nw.LazyFrame) else frame
    eager = eager.sort("row")
    return {name: eager.get_column(name).to_numpy().astype(float) for name in names}


def with_all(recalibrators, engine, x):
    """Apply every recalibrator to one frame, each to a column of its own."""
    frame = frame_of(engine, {"row": np.arange(x.size), "x": x})
    for i, each in enumerate(recalibrators):
        frame = each.apply_to_frame(frame, "x", output=f"r{i}")
    return answers(frame, [f"r{i}" for i in range(len(recalibrators))])


@pytest.mark.parametrize("engine", [*EAGER, *QUICK, *SLOW])
def test_steps_are_answered_bit_for_bit_at_every_edge_and_beside_it(engine):
    fitted = [clone(r).fit(*binary_rows(900)) for r in STEPS]
    cuts = np.concatenate([cuts_of(r) for r in fitted])
    near = [cuts, np.nextafter(cuts, 2), np.nextafter(cuts, -1), np.linspace(0, 1, 21), [5e-324]]
    x = np.unique(np.clip(np.concatenate(near), 0, 1))
    found = with_all(fitted, engine, x)
    for i, each in enumerate(fitted):
        np.testing.assert_array_equal(found[f"r{i}"], each.predict_proba(x), err_msg=str(each))


@pytest.mark.parametrize("engine", [*EAGER, *QUICK, *SLOW])
def test_scaling_is_answered_to_rounding(engine):
    fitted = [clone(r).fit(*binary_rows(900)) for r in (*SCALING, Identity())]
    x = np.concatenate((np.linspace(0, 1, 101), [5e-324, 1e-300, 1e-13, 1 - 1e-16]))
    found = with_all(fitted, engine, x)
    for i, each in enumerate(fitted):
        np.testing.assert_allclose(
            found[f"r{i}"], each.predict_proba(x), rtol=1e-12, atol=1e-15, err_msg=str(each)
        )


@pytest.mark.parametrize("engine", ["pandas", *QUICK])
def test_logits_do_not_overflow(engine):
    z = np.random.default_rng(0).normal(size=500)
    y = np.random.default_rng(1).uniform(size=500) < 1 / (1 + np.exp(-z / 2))
    fitted = [clone(r).fit(z, y) for r in ON_LOGITS]
    x = np.concatenate((np.linspace(-40, 40, 201), [-1e6, 1e6]))
    found = with_all(fitted, engine, x)
    for i, each in enumerate(fitted):
        np.testing.assert_allclose(
            found[f"r{i}"], each.predict_proba(x), rtol=1e-12, atol=1e-300, err_msg=str(each)
        )


@pytest.mark.parametrize("engine", [*EAGER, *QUICK, *SLOW])
@pytest.mark.parametrize("recalibrator", [HistogramBinning(3), PlattScaling()], ids=str)
def test_what_predict_proba_would_refuse_becomes_null(engine, recalibrator):
    fitted = clone(recalibrator).fit(*binary_rows(90))
    x = np.array([0.5, np.nan, -0.1, 1.5, np.inf])
    found = with_all([fitted], engine, x)["r0"]
    np.testing.assert_array_equal(found, [*fitted.predict_proba([0.5]), *[np.nan] * 4])


def test_float32_is_read_as_float64():
    fitted = HistogramBinning(3).fit(*binary_rows(90))
    x = np.concatenate([fitted.bins_.edges, [0.3]]).astype(np.float32)
    found = with_all([fitted], "polars", x)["r0"]
    np.testing.assert_array_equal(found, fitted.predict_proba(x))


def test_a_lazy_frame_stays_lazy_and_keeps_its_columns():
    polars = optional("polars")
    fitted = HistogramBinning(3).fit(*binary_rows(90))
    frame = fitted.apply_to_frame(polars.LazyFrame({"x": [0.2], "other": ["a"]}), "x")
    assert isinstance(frame, polars.LazyFrame)
    assert frame.collect_schema().names() == ["x", "other", "calibrated"]
    replaced = fitted.apply_to_frame(frame, "x", output="x")
    assert replaced.collect_schema().names() == ["x", "other", "calibrated"]


def test_what_cannot_be_applied_is_refused():
    p, y = binary_rows(300)
    fitted = PlattScaling().fit(p, y)
    frame = optional("pandas").DataFrame({"x": p, "calibrated": p})
    with pytest.raises(InvalidArgumentError, match="already has a column 'calibrated'"):
        fitted.apply_to_frame(frame, "x")
    with pytest.raises(InvalidArgumentError, match="no column 'q'"):
        fitted.apply_to_frame(frame, "q")
    with pytest.raises(InvalidArgumentError, match="data frame"):
        fitted.apply_to_frame([1, 2], "x")
    with pytest.raises(InvalidArgumentError, match="ForeignEstimator has no form"):
        ForeignEstimator(LogisticRegression()).fit(p, y).to_expression("x")
    with pytest.raises(InvalidArgumentError, match="MatrixScaling has no form"):
        MatrixScaling().fit(*class_rows(100)).to_expression("x")
    with pytest.raises(InvalidArgumentError, match="keep_order"):
        HistogramBinning(3, keep_order=True).fit(p, y).to_expression("x")
    with pytest.raises(NotFittedError):
        PlattScaling().to_expression("x")


@pytest.mark.parametrize("engine", ["polars eager", *QUICK])
@pytest.mark.parametrize("name", ["*", "^.*$"])
def test_a_name_that_selects_several_columns_is_refused(engine, name):
    p, y = binary_rows(300)
    fitted = HistogramBinning(4).fit(p, y)
    with pytest.raises(InvalidArgumentError, match="pattern of columns"):
        fitted.apply_to_frame(frame_of(engine, {"p": p, name: 1 - p}), name)
    with pytest.raises(InvalidArgumentError, match="pattern of columns"):
        fitted.to_expression(name)


@pytest.mark.parametrize("engine", [*EAGER, *QUICK])
def test_a_column_beside_is_kept_whatever_its_name_or_refused(engine):
    p, y = binary_rows(300)
    fitted, frame = HistogramBinning(4).fit(p, y), frame_of(engine, {"*": 1 - p, "p": p})
    if engine == "duckdb":
        with pytest.raises(InvalidArgumentError, match="pattern of columns"):
            fitted.apply_to_frame(frame, "p")
        return
    after = nw.from_native(fitted.apply_to_frame(frame, "p")).lazy().collect()
    assert after.columns == ["*", "p", "calibrated"]
    np.testing.assert_array_equal(after["calibrated"].to_numpy(), fitted.predict_proba(p))


def test_a_name_that_pandas_takes_as_it_is_is_applied():
    p, y = binary_rows(300)
    fitted, frame = HistogramBinning(4).fit(p, y), frame_of("pandas", {"p": p, "*": 1 - p})
    after = fitted.apply_to_frame(frame, "*")
    np.testing.assert_array_equal(after["calibrated"], fitted.predict_proba(1 - p))
