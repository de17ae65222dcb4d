"""SQL and expressions of data frames give the answers of predict_proba."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pytest
from shared import ON_LOGITS, SCALING, STEPS, binary_rows, class_rows, cuts_of
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from calibrant import Identity, MatrixScaling
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators import ByGroup, HistogramBinning, PlattScaling
from calibrant.recalibrators.foreign import ForeignEstimator
from conftest import optional
from lazy_frames import QUICK, SLOW, arrow_table, lazy_frame

EAGER = ["pandas", "polars eager", "pyarrow"]


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
    with pytest.raises(InvalidArgumentError, match="LogisticRegression has no form"):
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


def test_columns_that_hold_no_numbers_are_refused_before_anything_is_computed():
    pl = pytest.importorskip("polars")
    fitted = HistogramBinning(bins=3).fit(*binary_rows(60))
    text, dates = ["0.5", "0.7"], np.array(["2026-01-01", "2026-01-02"], "M8[D]")
    for column in (text, dates, [[0.1], [0.2]]):
        for frame in (pl.DataFrame({"p": column}), pl.LazyFrame({"p": column})):
            with pytest.raises(InvalidArgumentError, match="must hold numbers; 'p' is of type"):
                fitted.apply_to_frame(frame, "p")


@pytest.mark.parametrize("engine", [*EAGER, *QUICK])
def test_both_zeros_are_one_group(engine):
    p, y = binary_rows(300)
    group = np.where(np.arange(300) % 2, 0.0, 1.5)
    fitted = ByGroup(PlattScaling(), own="map", pool=0).fit(p, y, by={"g": group})
    x, zeros = np.array([0.2, 0.4, 0.6]), np.array([-0.0, 0.0, 1.5])
    frame = frame_of(engine, {"row": np.arange(3), "x": x, "g": zeros})
    found = answers(fitted.apply_to_frame(frame, "x"), ["calibrated"])["calibrated"]
    np.testing.assert_allclose(found, fitted.predict_proba(x, by=zeros), rtol=1e-12)
    pooled = fitted.pooled_.predict_proba(x)
    assert (np.abs(found - pooled) > 1e-6).all()
