"""SQL gives the numbers of predict_proba, and NULL for what it would refuse."""

from __future__ import annotations

import numpy as np
import pytest
from shared import ON_LOGITS, SCALING, STEPS, binary_rows, grid_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import HistogramBinning, PlattScaling, ScalingBinning
from calibrant.recalibrators.foreign import ForeignEstimator
from conftest import optional

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
