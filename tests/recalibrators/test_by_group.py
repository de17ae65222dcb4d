"""ByGroup: repair by group, pulled towards the repair of all rows."""

from __future__ import annotations

import json
import math
import pickle
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import calibrant as cb
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidDocumentError,
    InvalidGroupsError,
    InvalidInputError,
    LengthMismatchError,
)
from lazy_frames import spark_session
from recalibrators.shared import SITES, class_rows, rows_of_sites

CUTS = [0, 40, 65, math.inf]
P, Y, SITE, AGE = rows_of_sites()


def test_unseen_and_missing_groups_are_pooled_and_counted():
    by = np.where(np.arange(P.size) % 7 == 0, None, SITE)
    fitted = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by=by)
    assert fitted.groups_ == [(site,) for site in SITES]
    assert fitted.sizes_.sum() == P.size - math.ceil(P.size / 7)
    new = np.array(["east", "south", None, "no'rth"], object)
    assert fitted.has_own_repair(new).tolist() == [True, False, False, True]
    q = fitted.predict_proba([0.4] * 4, by=new)
    assert q[1] == q[2] == fitted.pooled_.predict_proba([0.4])[0]
    assert len({*q.tolist()}) == 3


def test_columns_are_matched_by_name_and_cut_as_in_the_fit():
    fitted = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by={"site": SITE, "age": (AGE, CUTS)})
    assert len(fitted.groups_) == 9
    q = fitted.predict_proba(P, by={"age": AGE, "more": AGE, "site": SITE})
    assert np.array_equal(q, fitted.predict_proba(P, by=[SITE, AGE]))
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": AGE, "site": SITE})
    assert np.array_equal(q, fitted.predict_proba(P, by=frame))
    order = np.argsort(P)
    moved = fitted.predict_proba(P[order], by=[SITE[order], AGE[order]])
    assert np.array_equal(moved, q[order])
    with pytest.raises(InvalidGroupsError, match="must lie between its cuts"):
        fitted.predict_proba(P[:1], by=[SITE[:1], [-1.0]])
    with pytest.raises(InvalidArgumentError, match="was cut at"):
        fitted.predict_proba(P, by={"site": SITE, "age": (AGE, [0, 50, 90])})
    for by in (SITE, {"site": SITE}, [SITE, AGE, AGE]):
        with pytest.raises(InvalidArgumentError, match="site, age"):
            fitted.predict_proba(P, by=by)
    with pytest.raises(LengthMismatchError):
        fitted.predict_proba(P, by=[SITE, AGE[:3]])


@pytest.mark.parametrize(
    "recalibrator",
    [
        cb.TemperatureScaling(),
        cb.VectorScaling(),
        cb.TopLabel(cb.HistogramBinning(bins=5)),
        cb.OneVsRest(cb.PlattScaling(), normalize=True),
        cb.TemperatureScaling(input="logits"),
    ],
    ids=str,
)
def test_several_classes_have_maps_of_their_own(recalibrator):
    probs, y = class_rows(1500)
    half = np.arange(1500) < 700
    probs[half] = probs[half] ** 3 / (probs[half] ** 3).sum(axis=1, keepdims=True)
    given = np.log(probs.clip(1e-12)) if recalibrator.input == "logits" else probs
    by = np.where(half, "sharp", "plain")
    fitted = cb.ByGroup(recalibrator).fit(given, y, by=by)
    assert fitted.own_ == "map"
    assert fitted.cv_loss_ < fitted.cv_loss_pooled_
    q = fitted.predict_proba(given, by=by)
    assert q.shape == probs.shape
    pooled = fitted.predict_proba(given, by=np.full(1500, "new"))
    assert np.array_equal(pooled, fitted.pooled_.predict_proba(given))
    assert set(fitted.predict(given, by=by).tolist()) <= {0, 1, 2, 3}
    assert fitted.score(given, y, by=by) > -1


def test_two_columns_are_one_event_and_labels_have_names():
    both, names = np.column_stack((1 - P, P)), np.array(["no", "yes"])[Y]
    fitted = cb.ByGroup(cb.PlattScaling()).fit(both, names, classes=["no", "yes"], by=SITE)
    q = fitted.predict_proba(both, by=SITE)
    one = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by=SITE).predict_proba(P, by=SITE)
    assert np.array_equal(q[:, 1], one)
    assert np.array_equal(fitted.predict(both, by=SITE) == "yes", one > 0.5)


def test_weights_count_as_repeated_rows_and_rows_without_weight_not_at_all():
    w = (np.arange(P.size) % 3).astype(float)
    used = w > 0
    options = {"pool": 50, "own": "map"}
    one = cb.ByGroup(cb.PlattScaling(), **options).fit(P, Y, w, by=SITE)
    other = cb.ByGroup(cb.PlattScaling(), **options).fit(
        P[used], Y[used], 7 * w[used], by=SITE[used]
    )
    assert np.allclose(one.predict_proba(P, by=SITE), other.predict_proba(P, by=SITE), atol=1e-12)
    assert one.sizes_.sum() == used.sum()


@pytest.mark.parametrize("own", ["shift", "map"])
def test_groups_of_one_row_or_one_label_have_finite_repairs(own):
    by = np.where(np.arange(P.size) < 5, np.arange(P.size), 10 + Y)
    fitted = cb.ByGroup(cb.PlattScaling(), pool=0, own=own).fit(P, Y, by=by)
    q = fitted.predict_proba(P, by=by)
    assert ((q > 0) & (q < 1)).all()
    assert cb.ByGroup(cb.PlattScaling()).fit([0.3], [1], by=["a"]).predict_proba([0.3], by=["a"])[0]


@pytest.mark.parametrize("own", ["shift", "map"])
@pytest.mark.parametrize("recalibrator", [cb.PlattScaling(), cb.ScalingBinning(bins=5)], ids=str)
def test_exports_give_the_numbers_of_predict_proba(recalibrator, own):
    pytest.importorskip("pandas")
    import pandas as pd

    fitted = cb.ByGroup(recalibrator, pool=20, own=own)
    fitted.fit(P, Y, by={"site": SITE, "age": (AGE, CUTS)})
    frame = pd.DataFrame(
        {
            "p": [*P[:60], 0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5],
            "site": [*SITE[:60], "east", "east", None, "EAST", "east ", "mars", "east"],
            "age": [*AGE[:60], 0.0, 40.0, 3.0, 65.0, 3.0, 3.0, math.nan],
        }
    )
    by = {"site": frame["site"].to_numpy(object), "age": frame["age"].to_numpy()}
    expected = fitted.predict_proba(frame["p"], by=by)
    tolerance = 1e-12 if own == "shift" or isinstance(recalibrator, cb.PlattScaling) else 0.0
    out = fitted.apply_to_frame(frame, "p")["calibrated"].to_numpy()
    assert np.abs(out - expected).max() <= tolerance
    renamed = frame.rename(columns={"site": "where"})
    out = fitted.apply_to_frame(renamed, "p", by=["where", "age"])["calibrated"].to_numpy()
    assert np.abs(out - expected).max() <= tolerance
    with closing(sqlite3.connect(":memory:")) as base:
        frame.to_sql("t", base, index=False)
        answers = base.execute(f"SELECT {fitted.to_sql('p', 'sqlite')} FROM t").fetchall()
    assert np.abs(np.array(answers)[:, 0] - expected).max() <= tolerance
    duckdb = pytest.importorskip("duckdb")
    answers = duckdb.sql(f"SELECT {fitted.to_sql('p')} AS q FROM frame").fetchall()
    assert np.abs(np.array(answers)[:, 0] - expected).max() <= tolerance
    outside = pd.DataFrame({"p": [0.5, math.nan], "site": ["east"] * 2, "age": [-1.0, 3.0]})
    assert fitted.apply_to_frame(outside, "p")["calibrated"].isna().all()
    assert duckdb.sql(f"SELECT {fitted.to_sql('p')} FROM outside").fetchall() == [(None,)] * 2


@pytest.mark.parametrize("own", ["shift", "map"])
def test_spark_reads_the_columns_of_groups(own):
    """Frames and SQL of Spark give the numbers of predict_proba; unknown groups are pooled."""
    fitted = cb.ByGroup(cb.ScalingBinning(bins=6), own=own, pool=50)
    fitted.fit(P, Y, by={"site": SITE, "age": (AGE, CUTS)})
    p = [*P[:40].tolist(), 0.0, 1.0, 0.5, 0.5, 0.5]
    site = [*SITE[:40].tolist(), "east", "we\\st", None, "EAST", "mars"]
    age = [*AGE[:40].tolist(), 0.0, 40.0, 3.0, 65.0, 3.0]
    by = {"site": np.array(site, object), "age": np.array(age)}
    expected = fitted.predict_proba(np.array(p), by=by)
    rows = [*zip(range(len(p)), p, site, age, strict=True), (len(p), 0.5, "east", -1.0)]
    frame = spark_session().createDataFrame(rows, "i INT, p DOUBLE, site STRING, age DOUBLE")
    applied = fitted.apply_to_frame(frame, "p").select("i", "calibrated")
    asked = frame.selectExpr("i", f"{fitted.to_sql('p', 'spark')} AS calibrated")
    for answers in (applied, asked):
        *found, outside = [row["calibrated"] for row in answers.orderBy("i").collect()]
        assert np.abs(np.array(found) - expected).max() <= 1e-12
        assert outside is None  # of the cuts


def test_a_frame_with_groups_of_another_type_is_refused():
    pandas = pytest.importorskip("pandas")
    fitted = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by={"site": SITE})
    with pytest.raises(InvalidGroupsError, match="must hold text"):
        fitted.apply_to_frame(pandas.DataFrame({"p": [0.5], "site": [3]}), "p")
    numbers = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by={"site": np.arange(P.size) % 3})
    with pytest.raises(InvalidGroupsError, match="must hold numbers"):
        numbers.apply_to_frame(pandas.DataFrame({"p": [0.5], "site": ["3"]}), "p")
    with pytest.raises(InvalidGroupsError, match="were text in the fit"):
        fitted.predict_proba([0.5], by=[3])
    with pytest.raises(InvalidGroupsError, match="were numbers in the fit"):
        numbers.predict_proba([0.5], by=["3"])


def test_groups_of_numbers_have_sql():
    number = np.array([1, 2**60, True, 0.5])[np.arange(P.size) % 4]
    fitted = cb.ByGroup(cb.PlattScaling()).fit(P, Y, by={"site": number})
    duckdb = pytest.importorskip("duckdb")
    query = f"SELECT {fitted.to_sql('p')} FROM (SELECT 0.3 AS p, 1 AS site)"
    expected = fitted.predict_proba([0.3], by=[1])[0]
    assert duckdb.sql(query).fetchall()[0][0] == pytest.approx(expected, abs=1e-15)
    for dialect in ("mysql", "bigquery", "postgresql", "spark", "snowflake", "ansi"):
        assert "CASE" in fitted.to_sql("p", dialect)


@pytest.mark.parametrize("own", ["auto", "map"])
def test_a_saved_repair_gives_the_same_bits(tmp_path, own):
    fitted = cb.ByGroup(cb.PlattScaling(), own=own, cv=3)
    fitted.fit(P, Y, by={"site": SITE, "age": (AGE, CUTS)})
    fitted.save(tmp_path / "by_group.json")
    loaded = cb.load(tmp_path / "by_group.json")
    by = [SITE, AGE]
    expected = fitted.predict_proba(P, by=by)
    assert np.array_equal(loaded.predict_proba(P, by=by), expected)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict_proba(P, by=by), expected)
    assert loaded.groups_ == fitted.groups_
    assert loaded.by_ == fitted.by_
    assert loaded.pool_ == fitted.pool_
    text = (tmp_path / "by_group.json").read_text()
    saved = json.loads(text)
    for damaged in (
        text.replace('"no\'rth"', '"east"'),
        text.replace('"(65, inf]"', '"(65, 70]"'),
        text.replace('"site"', "3"),
        json.dumps(saved | {"learned": saved["learned"] | {"recalibrators": [], "shifts": []}}),
    ):
        (tmp_path / "damaged.json").write_text(damaged)
        with pytest.raises(InvalidDocumentError):
            cb.load(tmp_path / "damaged.json")


def test_it_is_a_scikit_learn_estimator():
    made = cb.ByGroup(cb.ScalingBinning(bins=5), pool=10)
    assert made.get_params()["recalibrator__bins"] == 5
    made.set_params(recalibrator__bins=7, pool="auto")
    assert repr(clone(made)) == "ByGroup(recalibrator=ScalingBinning(bins=7))"


def test_an_estimator_of_another_library_can_be_pooled():
    fitted = cb.ByGroup(LogisticRegression(), own="map").fit(P, Y, by=SITE)
    assert fitted.own_ == "map"
    assert fitted.cv_loss_ < fitted.cv_loss_pooled_


def test_the_certificate_is_of_every_group_and_of_the_worst():
    p, y, site, _ = rows_of_sites(30_000, seed=2)
    fitted = cb.ByGroup(cb.ScalingBinning(bins=6)).fit(p[:3000], y[:3000], by=site[:3000])
    result = fitted.certify(p[3000:], y[3000:], by=site[3000:], max_error=0.1)
    assert result.verdict == "certified"
    assert len(result) == 3
    assert result["east"].upper_bound <= 0.1
    with pytest.raises(InvalidInputError, match="very rows"):
        fitted.certify(p[:3000], y[:3000], by=site[:3000])


@pytest.mark.parametrize("own", ["shift", "map"])
def test_outputs_that_the_fit_has_fixed_sharpen_the_certificates(own):
    rng = np.random.default_rng(2)
    p, site = rng.uniform(0, 0.04, size=9_000), rng.choice(["east", "west"], size=9_000)
    y = rng.uniform(size=9_000) < p  # rare: it is there that outputs known before help
    fitted = cb.ByGroup(cb.ScalingBinning(bins=6), own=own, pool=50)
    fitted.fit(p[:3000], y[:3000], by=site[:3000])
    result = fitted.certify(p[3000:], y[3000:], by=site[3000:], max_error=0.1)
    answers = fitted.predict_proba(p[3000:], by=site[3000:])
    plain = cb.audit(y[3000:], answers, by=site[3000:], max_error=0.1)
    for key, certificate in result.items():
        assert len(certificate.levels) == 6
        assert certificate.recheck()
        alone = cb.certify(
            *(x[site[3000:] == key] for x in (y[3000:], answers)),
            levels=certificate.levels,
            confidence_level=1 - 0.05 / len(result),
        )
        assert certificate.upper_bound == pytest.approx(alone.upper_bound)
        assert certificate.upper_bound < plain[key].upper_bound
    assert any("declared for each" in said for said in result.assumptions)
    assert not any("declared" in said for said in plain.assumptions)
    fresh = np.where(site[3000:] == "east", "unseen", site[3000:])
    unseen = fitted.certify(p[3000:], y[3000:], by=fresh)["unseen"]
    assert unseen.levels == pytest.approx(fitted.pooled_.levels_)


@pytest.mark.parametrize(
    ("recalibrator", "words"),
    [
        (cb.TopLabel(cb.HistogramBinning(bins=4)), 2),
        (cb.OneVsRest(cb.HistogramBinning(bins=12)), 2),
    ],
    ids=str,
)
def test_certificates_of_several_classes_are_of_what_was_repaired(recalibrator, words):
    probs, y = class_rows(4000)
    by = np.where(np.arange(4000) % 2, "a", "b")
    fitted = cb.ByGroup(recalibrator).fit(probs[:1000], y[:1000], by=by[:1000])
    result = fitted.certify(probs[1000:], y[1000:], by=by[1000:], max_error=0.3)
    assert len(result) == words
    assert result.verdict == "certified"


@pytest.mark.parametrize(
    "refused",
    [
        lambda f: f.predict_proba(P),
        lambda f: clone(f).fit(P, Y),
        lambda f: f.to_torch(),
        lambda f: f.to_onnx("x.onnx"),
        lambda f: f.fit_table(None),
        lambda f: f.inverse(0.5),
        lambda f: f.recheck(None, P, Y),
        lambda f: f.to_sql("p", by=["a", "b"]),
        lambda f: cb.ByGroup(f).fit(P, Y, by=SITE),
        lambda f: cb.ByGroup("platt").fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.PlattScaling(), pool=-1).fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.PlattScaling(), pool=math.inf).fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.PlattScaling(), own="slope").fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.PlattScaling(), cv=1).fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.ScalingBinning(split=(1, 1, 1))).fit(P, Y, by=SITE),
        lambda f: cb.ByGroup(cb.TopLabel(cb.ScalingBinning(split=(1, 1, 1)))).fit(
            np.column_stack([1 - P, P]), Y, by=SITE
        ),
        lambda f: cb.ByGroup(cb.VectorScaling(), own="shift").fit(*class_rows(50), by=[0] * 50),
        lambda f: cb.TopLabel(f).fit(*class_rows(50)),
        lambda f: cb.RecalibratedClassifier(LogisticRegression(), f).fit(P[:, None], Y),
    ],
)
def test_what_means_nothing_is_refused(refused):
    with pytest.raises(InvalidArgumentError, match=r"\. [A-Z]|must be|needs"):
        refused(cb.ByGroup(cb.PlattScaling(), pool=10, own="shift").fit(P, Y, by=SITE))


def test_rows_without_any_group_are_refused():
    with pytest.raises(InvalidGroupsError, match="needs rows that are in one"):
        cb.ByGroup(cb.PlattScaling()).fit(P, Y, by=[None] * P.size)


def test_columns_of_groups_are_refused_where_no_groups_were_fitted():
    pandas = pytest.importorskip("pandas")
    fitted = cb.PlattScaling().fit(P, Y)
    for export in (
        lambda: fitted.to_sql("p", by=["site"]),
        lambda: fitted.to_expression("p", by=["site"]),
        lambda: fitted.apply_to_frame(pandas.DataFrame({"p": [0.5]}), "p", by=["site"]),
    ):
        with pytest.raises(InvalidArgumentError, match="this PlattScaling has none. Leave it out"):
            export()
