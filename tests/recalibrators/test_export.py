"""Export: SQL that DuckDB runs, and torch modules, with the same answers."""

from __future__ import annotations

import numpy as np
import pytest
from shared import BINNED, ON_LOGITS, SCALING, binary_rows, class_rows
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators import (
    HistogramBinning,
    Identity,
    IsotonicCalibration,
    MatrixScaling,
    PlattScaling,
    QuadraticScaling,
    ScalingBinning,
    TemperatureScaling,
    VectorScaling,
    VennAbers,
)
from calibrant.recalibrators.export import step_function
from conftest import optional

STEPS = [clone(r).set_params(keep_order=False) for r in BINNED] + [IsotonicCalibration("step")]
HOSTILE = "a\" b; DROP TABLE t; --`\\'"


def grid_of(fitted):
    """Return a grid with every cut and the floats next to it."""
    cuts, _ = step_function(fitted)
    near = [cuts, np.nextafter(cuts, 2), np.nextafter(cuts, -1)]
    return np.clip(np.concatenate([*near, np.linspace(0, 1, 201), [5e-324, 1 - 1e-16]]), 0, 1)


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
        VennAbers().fit(p, y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="keep_order"):
        HistogramBinning(3, keep_order=True).fit(p, y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="not increasing"):
        ScalingBinning(n_bins=3).fit(p, 1 - y).to_sql("x")
    with pytest.raises(InvalidArgumentError, match="dialect"):
        PlattScaling().fit(p, y).to_sql("x", "dbase")
    for name in ("", "a\0b", 3):
        with pytest.raises(InvalidArgumentError, match="needs a name"):
            PlattScaling().fit(p, y).to_sql(name)
    with pytest.raises(NotFittedError):
        PlattScaling().to_sql("x")


@pytest.mark.parametrize("recalibrator", STEPS, ids=str)
def test_torch_modules_of_bins_answer_bit_for_bit(recalibrator):
    torch = optional("torch")
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = grid_of(fitted)
    found = fitted.to_torch()(torch.tensor(grid)).numpy()
    np.testing.assert_array_equal(found, fitted.predict_proba(grid))


@pytest.mark.parametrize("recalibrator", [*SCALING, Identity()], ids=str)
def test_torch_modules_of_scaling_answer_to_one_ulp_of_one(recalibrator):
    torch = optional("torch")
    fitted = clone(recalibrator).fit(*binary_rows(900))
    grid = np.concatenate((np.linspace(0, 1, 401), [5e-324, 1e-300, 1e-13, 1 - 1e-16]))
    found = fitted.to_torch()(torch.tensor(grid)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(grid), rtol=0, atol=np.finfo(float).eps)


@pytest.mark.parametrize("recalibrator", ON_LOGITS, ids=str)
def test_torch_modules_take_logits(recalibrator):
    torch = optional("torch")
    z, y = np.linspace(-5, 5, 200), np.arange(200) % 3 == 0
    fitted = clone(recalibrator).fit(z, y)
    found = fitted.to_torch()(torch.tensor(z)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(z), rtol=0, atol=np.finfo(float).eps)


@pytest.mark.parametrize("cls", [TemperatureScaling, VectorScaling, MatrixScaling])
def test_torch_modules_take_rows(cls):
    torch = optional("torch")
    probs, y = class_rows(300)
    fitted = cls().fit(probs, y)
    found = fitted.to_torch()(torch.tensor(probs)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(probs), rtol=0, atol=1e-15)


def test_the_state_of_a_torch_module_is_its_buffers():
    torch = optional("torch")
    p, y = binary_rows(200)
    a = QuadraticScaling().fit(p, y).to_torch()
    b = QuadraticScaling().fit(p, p < 0.3).to_torch()
    b.load_state_dict(a.state_dict())
    x = torch.linspace(0, 1, 50)
    assert torch.equal(a(x), b(x))


def test_what_has_no_torch_form_is_refused():
    optional("torch")
    with pytest.raises(InvalidArgumentError, match="no form in torch"):
        VennAbers().fit(*binary_rows(50)).to_torch()


def test_without_torch_the_message_says_so(monkeypatch):
    import calibrant.recalibrators.torch_export as export

    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(export, "import_module", missing)
    with pytest.raises(MissingDependencyError, match="pip install torch"):
        PlattScaling().fit(*binary_rows(50)).to_torch()
