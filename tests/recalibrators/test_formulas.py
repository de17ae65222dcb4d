"""Every recalibrator in every export: the number of predict_proba, or none where it has none.

Inverse maps: exact to one float64 on either side, at edges and between them.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

import narwhals as nw
import numpy as np
import pytest
from shared import (
    NEWER_CLASSES,
    ON_LOGITS,
    ONE_SCORE,
    SEVERAL,
    SHIFT_OF_LOGITS,
    SHIFTS,
    SPLINE_OF_LOGITS,
    SPLINES,
    binary_rows,
    class_rows,
)
from sklearn.base import clone

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidShapeError
from calibrant.recalibrators.exports.sql import DIALECTS
from conftest import optional
from lazy_frames import spark_session

LARGEST = sys.float_info.max
IMPOSSIBLE = [np.nan, np.inf, -np.inf, -5e-324, 1 + 2**-52, -0.1, 1.7, -LARGEST, LARGEST]
NO_NUMBERS = [np.nan, np.inf, -np.inf]
"""What logits cannot be."""

PROBABILITIES = [
    clone(r).set_params(keep_order=False) if hasattr(r, "keep_order") else r
    for r in (*ONE_SCORE, *SHIFTS, *SPLINES)
]
LOGITS = [
    *ON_LOGITS,
    SHIFT_OF_LOGITS,
    SPLINE_OF_LOGITS,
    cb.ScalingBinning(7, cb.PlattScaling(input="logits")),
]


def fitted_on_probabilities(recalibrator):
    return clone(recalibrator).fit(*binary_rows(900))


def fitted_on_logits(recalibrator):
    z = np.random.default_rng(0).normal(scale=3, size=500)
    y = np.random.default_rng(1).uniform(size=500) < 1 / (1 + np.exp(-z / 2))
    return clone(recalibrator).fit(z, y)


def edges_of(fitted):
    """Return the inputs at which the output jumps, as anybody could read them off the object."""
    if getattr(fitted, "cuts_", None) is not None:
        return fitted.cuts_
    if isinstance(fitted, cb.VennAbers):
        return np.concatenate([fitted.cuts0_, fitted.cuts1_])
    if isinstance(fitted, cb.HistogramBinning):
        return fitted.bins_.edges
    return fitted.x_ if isinstance(fitted, cb.IsotonicCalibration) else np.array([0.5])


def one_score_cases():
    """Yield (fitted, possible inputs, impossible inputs)."""
    for recalibrator in (*PROBABILITIES, cb.Identity()):
        fitted = fitted_on_probabilities(recalibrator)
        yield pytest.param(fitted, probabilities_at(fitted), IMPOSSIBLE, id=str(fitted))
    p, y = binary_rows(900)
    for recalibrator in (
        cb.PlattScaling(),
        cb.BetaScaling(),
        cb.QuadraticScaling(),
        cb.TemperatureScaling(),
    ):
        fitted = clone(recalibrator).fit(np.round(p, 1), y)
        assert fitted.smoothing_ > 0
        yield pytest.param(fitted, probabilities_at(fitted), IMPOSSIBLE, id=f"{fitted} of 0 and 1")
    kept = cb.PlattScaling().fit(np.r_[0.001, 0.999], [0, 1])
    assert "kept identity" in kept.fit_result_.flags
    yield pytest.param(kept, probabilities_at(kept), IMPOSSIBLE, id="kept identity")
    for recalibrator in LOGITS:
        fitted = fitted_on_logits(recalibrator)
        yield pytest.param(fitted, logits_at(fitted), NO_NUMBERS, id=str(fitted))


def probabilities_at(fitted):
    edges = edges_of(fitted)
    near = [edges, np.nextafter(edges, 2), np.nextafter(edges, -1), np.linspace(0, 1, 101)]
    ends = [0.0, -0.0, 1.0, 5e-324, 1e-300, 1e-13, 1 - 1e-16]
    return np.clip(np.concatenate([*near, ends]), 0, 1)


def logits_at(fitted):
    edges = edges_of(fitted)
    near = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    far = [-0.0, 5e-324, 1e6, -1e6, 1e150, -1e150]
    return np.concatenate([*near, np.linspace(-40, 40, 101), far])


def assert_same(found, possible, fitted):
    """Assert that numbers equal predict_proba: to the last bit where there are finitely many."""
    rounding = {"rtol": 1e-12, "atol": 1e-15}
    exact = hasattr(fitted, "cuts_") or getattr(fitted, "interpolation", "") == "step"
    np.testing.assert_allclose(
        np.asarray(found, float),
        fitted.predict_proba(possible),
        **({"rtol": 0, "atol": 0} if exact else rounding),
    )


def in_duckdb(expression, values, number_type="DOUBLE"):
    """Evaluate an expression of the column x, where None is NULL."""
    connection = optional("duckdb").connect()
    connection.execute(f"CREATE TABLE t (i INTEGER, x {number_type})")
    connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
    rows = connection.execute(f"SELECT {expression} FROM t ORDER BY i").fetchall()
    return [row[0] for row in rows]


def in_sqlite(expression, values, number_type="REAL"):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE t (i INTEGER, x {number_type})")
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(enumerate(values)))
        return [row[0] for row in connection.execute(f"SELECT {expression} FROM t ORDER BY i")]


def in_spark(expression, values, number_type="DOUBLE"):
    session = spark_session()
    rows = [(i, x) for i, x in enumerate(values)]
    frame = session.createDataFrame(rows, f"i INT, x {number_type}")
    answers = frame.selectExpr("i", f"{expression} AS answer").orderBy("i").collect()
    return [row["answer"] for row in answers]


ONE_SCORE_CASES = list(one_score_cases())
DATABASES = {
    "duckdb": (in_duckdb, "duckdb"),
    "ansi": (in_duckdb, "ansi"),
    "postgresql": (in_duckdb, "postgresql"),
    "sqlite": (in_sqlite, "sqlite"),
}


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize(("fitted", "possible", "impossible"), ONE_SCORE_CASES)
def test_sql_is_predict_proba_or_null(fitted, possible, impossible, database):
    ask, dialect = DATABASES[database]
    found = ask(fitted.to_sql("x", dialect), [*possible.tolist(), *impossible, None])
    assert_same(found[: possible.size], possible, fitted)
    assert found[possible.size :] == [None] * (len(impossible) + 1)


@pytest.mark.parametrize("recalibrator", [cb.HistogramBinning(5), cb.PlattScaling()], ids=str)
def test_spark_sql_is_predict_proba_or_null(recalibrator):
    fitted = fitted_on_probabilities(recalibrator)
    possible = probabilities_at(fitted)
    found = in_spark(fitted.to_sql("x", "spark"), [*possible.tolist(), *IMPOSSIBLE, None])
    assert_same(found[: possible.size], possible, fitted)
    assert found[possible.size :] == [None] * (len(IMPOSSIBLE) + 1)


@pytest.mark.parametrize("recalibrator", [cb.HistogramBinning(5), cb.PlattScaling()], ids=str)
def test_sql_reads_whole_and_decimal_numbers(recalibrator):
    fitted = fitted_on_probabilities(recalibrator)
    for ask, dialect in ((in_duckdb, "duckdb"), (in_sqlite, "sqlite")):
        sql = fitted.to_sql("x", dialect)
        whole = ask(sql, [0, 1, -1, 2, None], "INTEGER")
        assert_same(whole[:2], np.array([0.0, 1.0]), fitted)
        assert whole[2:] == [None] * 3
        decimal = ask(sql, ["0.25", "0.99", "1.01"], "DECIMAL(10, 3)")
        assert_same(decimal[:2], np.array([0.25, 0.99]), fitted)
        assert decimal[2] is None


def test_text_in_a_numeric_column_of_sqlite_has_no_answer():
    fitted = cb.HistogramBinning(5).fit(*binary_rows(900))
    assert in_sqlite(fitted.to_sql("x", "sqlite"), ["", "nan", "n/a", b"0.5"]) == [None] * 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_asks_for_a_possible_number_first(dialect):
    for fitted in (
        cb.HistogramBinning(5).fit(*binary_rows(900)),
        cb.PlattScaling().fit(*binary_rows()),
    ):
        first = fitted.to_sql("x", dialect).split("THEN")[0]
        assert ">= 0 AND" in first
        assert "<= 1 " in first


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize(("fitted", "possible", "impossible"), ONE_SCORE_CASES)
def test_expressions_are_predict_proba_or_null(fitted, possible, impossible, kind):
    x = np.concatenate([possible, impossible])
    frame = optional(kind).DataFrame({"x": x})
    applied = nw.from_native(fitted.apply_to_frame(frame, "x"))["calibrated"].to_numpy()
    written = nw.from_native(frame).select(y=fitted.to_expression("x"))["y"].to_numpy()
    for found in (applied, written):
        assert_same(found[: possible.size], possible, fitted)
        assert np.isnan(found[possible.size :].astype(float)).all()


@pytest.mark.parametrize(("fitted", "possible", "impossible"), ONE_SCORE_CASES)
def test_torch_is_predict_proba_or_nan(fitted, possible, impossible):
    torch = optional("torch")
    module = fitted.to_torch()
    found = module(torch.tensor(np.concatenate([possible, impossible]))).numpy()
    assert_same(found[: possible.size], possible, fitted)
    assert np.isnan(found[possible.size :]).all()
    column = module(torch.tensor(possible[:, None])).numpy()
    np.testing.assert_array_equal(column[:, 0], found[: possible.size])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(("fitted", "possible", "impossible"), ONE_SCORE_CASES)
def test_torch_reads_short_numbers_as_predict_proba_does(fitted, possible, impossible, dtype):
    torch = optional("torch")
    short = np.clip(possible, -60_000, 60_000).astype(dtype)
    found = fitted.to_torch(dtype=torch.float64).half()(torch.tensor(short)).numpy()
    assert_same(found, short, fitted)
    # Rounding what is a rounding error away may go to either neighbour.
    same = fitted.to_torch()(torch.tensor(short)).numpy()
    assert same.dtype == dtype
    np.testing.assert_array_max_ulp(same, fitted.predict_proba(short).astype(dtype), 1)


@pytest.mark.parametrize(
    "recalibrator",
    [*PROBABILITIES, *LOGITS],
    ids=str,
)
def test_torch_takes_both_columns_of_one_event(recalibrator):
    torch = optional("torch")
    if getattr(recalibrator, "input", "") == "logits":
        fitted = fitted_on_logits(recalibrator)
        both = np.random.default_rng(2).normal(size=(50, 2))
    else:
        fitted = fitted_on_probabilities(recalibrator)
        event = np.linspace(0, 1, 50)
        both = np.column_stack((1 - event, event))
    found = fitted.to_torch()(torch.tensor(both)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(both), rtol=1e-12, atol=1e-15)
    both[0, 0] = np.nan
    assert np.isnan(fitted.to_torch()(torch.tensor(both)).numpy()[0]).all()


def kept_identity(cls, **options):
    """Return a scaling that found nothing to repair."""
    rows = np.eye(3)[np.arange(60) % 3]
    rows = 800 * rows if options else 1e-9 + (1 - 3e-9) * rows
    fitted = cls(**options).fit(rows, np.arange(60) % 3)
    assert "kept identity" in fitted.fit_result_.flags
    return fitted


def class_cases():
    """Yield fitted recalibrators of several classes, and rows of whatever sum."""
    probs, y = class_rows(600)
    odd = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0.25] * 4, [1, 1, 1, 1], [0.1, 0.3, 0.3, 0.1]])
    others = [
        cb.OneVsRest(cb.HistogramBinning(5), normalize=True),
        cb.TopLabel(cb.HistogramBinning("width:3")),
        cb.TopLabel(cb.ScalingBinning(bins=4), per_class=True, min_rows=20),
    ]
    for recalibrator in (*SEVERAL, *NEWER_CLASSES, *others):
        yield pytest.param(
            clone(recalibrator).fit(probs, y),
            np.concatenate([odd, probs[:50]]),
            id=str(recalibrator),
        )
    rounded = np.round(probs, 1)
    for cls in (cb.TemperatureScaling, cb.VectorScaling, cb.MatrixScaling):
        fitted = cls().fit(rounded, y)
        assert fitted.smoothing_ > 0
        yield pytest.param(fitted, np.concatenate([odd, rounded[:50]]), id=f"{cls.__name__} of 0")
    z = np.random.default_rng(0).normal(size=(300, 4)) * 5
    for cls in (cb.TemperatureScaling, cb.VectorScaling, cb.MatrixScaling):
        yield pytest.param(cls(input="logits").fit(z, z.argmax(1)), z, id=f"{cls.__name__} logits")
    few = np.array([[0.2, 0.3, 0.1], [0, 0, 0], [1, 0, 0], [0.5, 0.25, 0.25], [1, 1, 1]])
    for cls in (cb.VectorScaling, cb.MatrixScaling):
        yield pytest.param(kept_identity(cls), few, id=f"{cls.__name__} kept identity")
        kept = kept_identity(cls, input="logits")
        yield pytest.param(kept, few * 50, id=f"{cls.__name__} kept identity of logits")


CLASS_CASES = list(class_cases())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("fitted", "rows"), CLASS_CASES)
def test_torch_of_rows_is_predict_proba(fitted, rows, dtype):
    torch = optional("torch")
    rows = rows.astype(dtype)
    found = fitted.to_torch(dtype=torch.float64)(torch.tensor(rows)).numpy()
    np.testing.assert_allclose(found, fitted.predict_proba(rows), rtol=0, atol=1e-12)
    same = fitted.to_torch()(torch.tensor(rows)).numpy()
    assert same.dtype == dtype
    if dtype != np.float64:
        np.testing.assert_array_max_ulp(same, fitted.predict_proba(rows).astype(dtype), 1)


@pytest.mark.parametrize(("fitted", "rows"), CLASS_CASES)
def test_one_impossible_entry_makes_a_row_of_nan(fitted, rows):
    torch = optional("torch")
    logits = getattr(fitted, "input", "") == "logits"
    before = fitted.to_torch()(torch.tensor(rows)).numpy()
    for wrong in NO_NUMBERS if logits else IMPOSSIBLE:
        spoilt = rows.copy()
        spoilt[1, 2] = wrong
        found = fitted.to_torch()(torch.tensor(spoilt)).numpy()
        assert np.isnan(found[1]).all()
        np.testing.assert_array_equal(np.delete(found, 1, 0), np.delete(before, 1, 0))


@pytest.mark.parametrize(("fitted", "rows"), CLASS_CASES)
def test_torch_refuses_another_number_of_columns(fitted, rows):
    torch = optional("torch")
    module = fitted.to_torch()
    tensor = torch.tensor(rows)
    for other in (tensor[:, 0], tensor[:, :1], tensor[:, :2], tensor[None]):
        with pytest.raises(InvalidShapeError, match="takes predictions of shape"):
            module(other)


def test_a_converted_model_keeps_the_exact_numbers():
    torch = optional("torch")
    fitted = cb.TopLabel(cb.HistogramBinning(7)).fit(*class_rows(600))
    model = torch.nn.Sequential(torch.nn.Softmax(dim=1), fitted.to_torch()).half().bfloat16()
    assert all(value.dtype == torch.float64 for value in model.buffers())
    p = torch.tensor(class_rows(50, seed=3)[0])
    np.testing.assert_allclose(model[1](p).numpy(), fitted.predict_proba(p.numpy()), atol=1e-12)


P, Y = binary_rows(900)
Z = np.log(P / (1 - P))
ALL = [*ONE_SCORE, *SHIFTS, cb.Identity(), *ON_LOGITS, SHIFT_OF_LOGITS]
RISING = [r for r in ALL if not isinstance(r, cb.HistogramBinning | cb.QuadraticScaling)]


@pytest.mark.parametrize("recalibrator", RISING, ids=str)
def test_one_float_before_the_least_score_the_answer_is_below(recalibrator):
    scores = Z if recalibrator.input == "logits" else P
    fitted = clone(recalibrator).fit(scores, Y)
    answers = fitted.predict_proba(scores)
    levels = np.concatenate(
        [np.unique(answers)[::40], np.linspace(answers.min(), answers.max(), 17)]
    )
    least, greatest = fitted.inverse(levels), fitted.inverse(levels, side="greatest")
    inner = np.isfinite(least) & (least > (-1e299 if fitted.input == "logits" else 0))
    assert inner.sum() > 10
    # Answers are rounded, and may fall by the last bit where the map rises.
    slack = 4e-16 * (1 + levels)
    assert (fitted.predict_proba(least[inner]) >= (levels - slack)[inner]).all()
    before = np.nextafter(least[inner], -np.inf)
    assert (fitted.predict_proba(before) <= (levels + slack)[inner]).all()
    there = np.isfinite(greatest)
    assert (fitted.predict_proba(greatest[there]) <= (levels + slack)[there]).all()
    assert (np.diff(least[np.argsort(levels)]) >= 0).all()


def test_steps_have_the_interval_of_scores_with_one_answer():
    binned = cb.HistogramBinning(bins=[0, 0.25, 0.75, 1]).fit(
        [0.1, 0.2, 0.4, 0.6, 0.9], [0, 0, 1, 0, 1]
    )
    assert binned.levels_.tolist() == [0, 0.5, 1]
    above = np.nextafter(0.25, 1)
    assert binned.inverse([0, 0.3, 0.5, 1]).tolist() == [0, above, above, np.nextafter(0.75, 1)]
    assert binned.inverse([0, 0.3, 0.5, 1], "greatest").tolist() == [0.25, 0.25, 0.75, 1]


def test_what_no_score_reaches_is_nan():
    binned = cb.HistogramBinning(bins=[0, 0.5, 1]).fit([0.1, 0.2, 0.6, 0.9], [0, 1, 1, 1])
    least = binned.inverse([0.1, 0.5, 1.0])
    assert least.tolist() == [0, 0, np.nextafter(0.5, 1)]
    greatest = binned.inverse([0.1, 0.5, 1.0], "greatest")
    assert np.isnan(greatest[0])
    assert greatest[1:].tolist() == [0.5, 1]
    low = cb.IsotonicCalibration("step").fit([0.1, 0.2, 0.6, 0.9], [0, 0, 0, 0])
    assert np.isnan(low.inverse([0.02])).all()


def test_smooth_maps_have_the_closed_form():
    platt = cb.PlattScaling().fit(P, Y)
    p = np.array([0.9, 0.02, 0.5])
    eta = (np.log(p / (1 - p)) - platt.intercept_) / platt.slope_
    np.testing.assert_allclose(platt.inverse(p), 1 / (1 + np.exp(-eta)), rtol=1e-13)
    shift = cb.PriorShift(target_mean=0.02).fit(P)
    undone = cb.PriorShift(offset=-shift.offset_).fit(P)
    np.testing.assert_allclose(shift.inverse(p), undone.predict_proba(p), rtol=1e-13)
    assert cb.Identity().fit(P, Y).inverse(P).tolist() == P.tolist()


def test_logits_that_all_would_do_are_infinite():
    shift = cb.PriorShift(offset=1.0, input="logits").fit(Z)
    assert shift.inverse([0.0, 0.5]).tolist() == [-np.inf, pytest.approx(-1)]
    assert shift.inverse([1.0], "greatest").tolist() == [np.inf]


def test_maps_that_fall_are_refused():
    falling = cb.PlattScaling().fit(P, 1 - Y)
    uneven = cb.HistogramBinning(bins=[0, 0.3, 0.6, 1]).fit([0.1, 0.2, 0.4, 0.9], [0, 1, 0, 1])
    curved = cb.QuadraticScaling().fit(P, Y)  # rises over the rows, and falls near 0 or 1
    for fitted in (falling, uneven, curved):
        with pytest.raises(InvalidArgumentError, match="never falls"):
            fitted.inverse([0.5])
    probs, y = class_rows(200)
    for several in (cb.VectorScaling(), cb.TemperatureScaling(), cb.OneVsRest(cb.PlattScaling())):
        with pytest.raises(CalibrantError, match="columns"):
            several.fit(probs, y).inverse([0.5])
    assert cb.OneVsRest(cb.PlattScaling()).fit(probs, y).recalibrators_[0].inverse([0.5]).size == 1


@pytest.mark.parametrize("p", [0.02, [1.2], [np.nan], ["2%"], [[0.1]], None])
def test_only_lists_of_probabilities_are_inverted(p):
    with pytest.raises(CalibrantError):
        cb.PlattScaling().fit(P, Y).inverse(p)
    assert cb.PlattScaling().fit(P, Y).inverse([]).size == 0
    with pytest.raises(InvalidArgumentError, match="side must be"):
        cb.PlattScaling().fit(P, Y).inverse([0.5], side="both")


def test_a_single_number_is_told_to_be_a_list():
    shift = cb.PriorShift(offset=0.5).fit(P)
    with pytest.raises(CalibrantError, match=r"a list of probabilities.*such as \[0.02\]"):
        shift.inverse(0.02)
