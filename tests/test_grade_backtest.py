"""The front door for rating grades: PDs, names, master scales and tables say the same."""

from __future__ import annotations

import json

import numpy as np
import pytest

import calibrant as cb
from calibrant.exceptions import CalibrantError, InvalidArgumentError, InvalidInputError
from conftest import optional

SCALE = {"AA": 0.001, "A": 0.01, "BB": 0.05, "C": 0.2}
RNG = np.random.default_rng(0)
GRADE = RNG.choice(list(SCALE), size=4000, p=[0.4, 0.3, 0.25, 0.05])
P = np.array([SCALE[grade] for grade in GRADE])
Y = (RNG.uniform(size=P.size) < P).astype(int)


def same(a, b):
    columns = ("count", "defaults", "pd", "low", "high", "p_binomial", "p_jeffreys", "prudent_pd")
    return all(np.allclose(getattr(a, name), getattr(b, name), rtol=1e-9) for name in columns)


def test_pds_names_and_tables_give_one_backtest():
    by_name = cb.grade_backtest(Y, GRADE, grades=SCALE)
    assert by_name.names == ("AA", "A", "BB", "C")
    counts = [(name == GRADE).sum() for name in SCALE], [Y[name == GRADE].sum() for name in SCALE]
    for other in (
        cb.grade_backtest(Y, P),
        cb.grade_backtest(Y, P, grades=SCALE),
        cb.grade_backtest(Y, GRADE.astype(object), grades=dict(reversed(SCALE.items()))),
        cb.grade_backtest(cb.BinTable.from_counts(P[:0].tolist() + list(SCALE.values()), *counts)),
        cb.grade_backtest(cb.tabulate(Y, P, bins="distinct"), grades=SCALE),
    ):
        assert same(other, by_name)


def test_known_pds_sharpen_the_certificate():
    known = cb.grade_backtest(Y, GRADE, grades=SCALE).certificate
    assert known.levels == list(SCALE.values())
    assert known.upper_bound < cb.grade_backtest(Y, P).certificate.upper_bound


def test_edges_make_a_master_scale_with_mean_or_declared_pds():
    p = RNG.beta(1, 30, size=3000)
    y, edges = RNG.uniform(size=3000) < p, [0, 0.01, 0.03, 1]
    mean = cb.grade_backtest(y, p, bins=edges, grades=["1", "2", "3"])
    assert mean.pd[0] == pytest.approx(p[p <= 0.01].mean())
    assert "grades mix different PDs" in str(mean)
    declared = cb.grade_backtest(y, p, bins=edges, grades={"1": 0.005, "2": 0.02, "3": 0.06})
    assert declared.pd.tolist() == [0.005, 0.02, 0.06]
    assert declared.certificate.upper_bound < 0.1
    assert declared.count.tolist() == mean.count.tolist()


def test_columns_of_frames_are_read():
    pl = optional("polars")
    frame = pl.DataFrame({"default": Y, "pd": P}).lazy()
    assert same(cb.grade_backtest("default", "pd", data=frame), cb.grade_backtest(Y, P))


def test_columns_of_names_are_read_from_frames_and_dicts():
    pl, pd = optional("polars"), optional("pandas")
    columns, expected = {"default": Y, "grade": GRADE}, cb.grade_backtest(Y, GRADE, grades=SCALE)
    frame = pl.DataFrame(columns)
    categories = frame.with_columns(pl.col("grade").cast(pl.Categorical))
    for data in (columns, frame, frame.lazy(), categories, pd.DataFrame(columns)):
        assert same(cb.grade_backtest("default", "grade", grades=SCALE, data=data), expected)
    by_pd = cb.grade_backtest("d", "p", grades=SCALE, data=pl.DataFrame({"d": Y, "p": P}).lazy())
    assert same(by_pd, expected)


def test_every_grade_is_an_entry_of_the_document():
    document = json.loads(json.dumps(cb.grade_backtest(Y, GRADE, grades=SCALE).to_dict()))
    assert [entry["name"] for entry in document["grades"]] == list(SCALE)
    assert {"count", "pd", "light", "p_jeffreys"} <= set(document["grades"][0])


def test_what_cannot_be_grades_is_refused():
    with pytest.raises(InvalidInputError, match="different ones. Pass bins="):
        cb.grade_backtest(Y, RNG.uniform(size=Y.size))
    with pytest.raises(InvalidInputError, match=r"1 of 4,000 have another \(first: y_prob\[7\] = "):
        cb.grade_backtest(Y, np.where(np.arange(Y.size) == 7, "D", GRADE), grades=SCALE)
    with pytest.raises(InvalidInputError, match="one of the PDs"):
        cb.grade_backtest(Y, np.round(P, 2), grades=SCALE)
    with pytest.raises(InvalidArgumentError, match="a PD for each grade; got 4 in grades= and 2"):
        cb.grade_backtest(Y, P, grades=SCALE, bins=[0, 0.5, 1])
    for grades in (
        {},
        {"A": 0.1, "B": 0.1},
        {"A": 2},
        {"A": "1%"},
        {"A": np.nan},
        {1: 0.1, "1": 0.2},
    ):
        with pytest.raises(InvalidArgumentError, match="a PD of its own"):
            cb.grade_backtest(Y, GRADE, grades=grades)
    for correlation in (-0.1, 1, np.nan, "12%", True):
        with pytest.raises(CalibrantError, match="correlation"):
            cb.grade_backtest(Y, P, correlation=correlation)


def test_few_pds_are_grades_however_few_rows_they_have():
    assert len(cb.grade_backtest([1], [0.3])) == 1
    backtest = cb.grade_backtest([0, 1, 0], [0.1, 0.2, 0.3])
    assert backtest.count.tolist() == [1, 1, 1]
    assert "1 default, 0.6 expected" in str(backtest)


def test_a_pd_in_float32_is_named_where_it_is_not_one_of_the_scale():
    with pytest.raises(InvalidInputError, match=r"4,000 rows .*first: 0\.00100000004749"):
        cb.grade_backtest(Y, P.astype(np.float32), grades=SCALE)
