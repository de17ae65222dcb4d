"""Save and load: exact, readable, and safe."""

from __future__ import annotations

import json

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
from sklearn.exceptions import NotFittedError

from calibrant import Bins, Distinct, EqualMass, EqualWidth, Hybrid
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.recalibrators import (
    HistogramBinning,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    ScalingBinning,
    TopLabel,
    VectorScaling,
    VennAbers,
    load,
)
from calibrant.recalibrators.saving import from_json, to_json


@pytest.mark.parametrize(
    "recalibrator",
    [
        *ONE_SCORE,
        *SHIFTS,
        *SPLINES,
        *ON_LOGITS,
        SHIFT_OF_LOGITS,
        SPLINE_OF_LOGITS,
        *SEVERAL,
        *NEWER_CLASSES,
    ],
    ids=str,
)
def test_the_round_trip_is_exact(recalibrator, tmp_path):
    several = recalibrator in (*SEVERAL, *NEWER_CLASSES)
    rows = class_rows(400) if several else binary_rows(400)
    fitted = clone(recalibrator).fit(*rows)
    fitted.save(tmp_path / "saved.json")
    again = load(tmp_path / "saved.json")
    assert type(again) is type(fitted)
    assert str(again) == str(fitted)
    np.testing.assert_array_equal(again.predict_proba(rows[0]), fitted.predict_proba(rows[0]))
    np.testing.assert_array_equal(again.predict(rows[0]), fitted.predict(rows[0]))
    assert again.fingerprint_.same_rows(fitted.fingerprint_)
    assert str(again.fit_result_) == str(fitted.fit_result_)
    assert to_json(again) == to_json(fitted)
    assert [path.name for path in tmp_path.iterdir()] == ["saved.json"]


def test_names_of_classes_and_hard_numbers_survive(tmp_path):
    names = ["no", "yes"]
    fitted = PlattScaling().fit([0.0, 1e-300, 0.5, 1.0], ["yes", "no", "yes", "no"], classes=names)
    fitted.save(tmp_path / "a.json")
    again = load(tmp_path / "a.json")
    assert again.fit_result_.loss_identity == np.inf
    np.testing.assert_array_equal(again.predict([0.1, 0.9]), fitted.predict([0.1, 0.9]))


def test_a_table_fit_is_saved_without_a_fingerprint(tmp_path):
    from calibrant import EqualWidth, tabulate

    p, y = binary_rows(500)
    fitted = PlattScaling().fit_table(tabulate(y, p, bins=EqualWidth(50)))
    fitted.save(tmp_path / "a.json")
    assert load(tmp_path / "a.json").fingerprint_ is None


def test_the_file_is_readable_by_a_person(tmp_path):
    HistogramBinning(2).fit([0.1, 0.2, 0.6, 0.9], [0, 0, 1, 0]).save(tmp_path / "a.json")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["format"] == "calibrant.recalibrator"
    assert document["schema"] == 1
    assert document["recalibrator"] == "HistogramBinning"
    assert document["learned"]["levels"] == [0.0, 0.5]


def test_an_unfitted_recalibrator_is_not_saved(tmp_path):
    with pytest.raises(NotFittedError):
        PlattScaling().save(tmp_path / "a.json")


def test_only_known_classes_are_saved_and_loaded():
    class Other(PlattScaling):
        pass

    with pytest.raises(InvalidArgumentError, match="Other is not one of them"):
        to_json(Other().fit(*binary_rows(50)))
    document = json.loads(to_json(PlattScaling().fit(*binary_rows(50))))
    for name in ("Other", "LogisticScaling", "Recalibrator"):
        with pytest.raises(InvalidDocumentError, match="no recalibrator named"):
            from_json(json.dumps(document | {"recalibrator": name}))


def test_a_failed_save_leaves_the_old_file(tmp_path):
    p, y = binary_rows(100)
    good = ScalingBinning(bins=3).fit(p, y)
    good.save(tmp_path / "a.json")
    before = (tmp_path / "a.json").read_bytes()
    bad = ScalingBinning(bins=3, random_state=np.random.RandomState(0)).fit(p, y)
    with pytest.raises(InvalidArgumentError, match="cannot be saved"):
        bad.save(tmp_path / "a.json")
    assert (tmp_path / "a.json").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def damaged(recalibrator, rows, change):
    document = json.loads(to_json(recalibrator.fit(*rows)))
    change(document)
    return json.dumps(document)


def delete(*path):
    def change(document):
        for name in path[:-1]:
            document = document[name]
        del document[path[-1]]

    return change


def put(value, *path):
    def change(document):
        for name in path[:-1]:
            document = document[name]
        document[path[-1]] = value

    return change


COMMON = {
    "another format": put("pickle", "format"),
    "no format": delete("format"),
    "a newer schema": put(2, "schema"),
    "a schema of text": put("1", "schema"),
    "a schema of true": put(True, "schema"),
    "no schema": delete("schema"),
    "an unknown name": put("os.system", "recalibrator"),
    "a name that is no name": put(["PlattScaling"], "recalibrator"),
    "the base class's helper": put("RecalibratedClassifier", "recalibrator"),
    "no parameters": delete("parameters"),
    "an unknown parameter": put(1, "parameters", "evil"),
    "no learned state": delete("learned"),
    "unknown learned state": put(1, "learned", "predict_proba"),
    "no classes": delete("classes"),
    "one class": put([0], "classes"),
    "classes twice": put([0, 0], "classes"),
    "classes of lists": put([[0], [1]], "classes"),
    "no report": delete("fit"),
    "a report of text": put("good", "fit"),
    "no fingerprint": delete("fingerprint"),
    "a broken fingerprint": put({"n": 3}, "fingerprint"),
}


@pytest.mark.parametrize("name", COMMON)
def test_damaged_documents_are_refused(name):
    text = damaged(HistogramBinning(3), binary_rows(60), COMMON[name])
    with pytest.raises(InvalidDocumentError):
        from_json(text)


SPECIAL = {
    "NaN levels": (HistogramBinning(3), put(float("nan"), "learned", "levels", 0)),
    "infinite levels": (HistogramBinning(3), put(float("inf"), "learned", "levels", 0)),
    "levels above 1": (HistogramBinning(3), put(1.5, "learned", "levels", 0)),
    "levels of text": (HistogramBinning(3), put("0.5", "learned", "levels", 0)),
    "levels of truth values": (HistogramBinning(3), put(True, "learned", "levels", 0)),
    "a missing level": (HistogramBinning(3), delete("learned", "levels", 0)),
    "missing levels": (HistogramBinning(3), delete("learned", "levels")),
    "unsorted edges": (HistogramBinning(3), put([0, 0.7, 0.3, 1], "learned", "bins", "edges")),
    "NaN edges": (HistogramBinning(3), put(float("nan"), "learned", "bins", "edges", 1)),
    "an unknown rule": (HistogramBinning(3), put("magic", "parameters", "bins")),
    "too few coefficients": (PlattScaling(), put([1.0], "learned", "coef")),
    "nested coefficients": (PlattScaling(), put([[1.0, 0.0]], "learned", "coef")),
    "a huge integer": (PlattScaling(), put([10**400, 0], "learned", "coef")),
    "an unknown loss": (PlattScaling(), put("evil", "parameters", "loss")),
    "a scaler that is a number": (ScalingBinning(bins=3), put(3, "learned", "scaler")),
    "a scaler of no score": (
        ScalingBinning(bins=3),
        put("TopLabel", "learned", "scaler", "recalibrator"),
    ),
    "cuts that fall": (ScalingBinning(bins=3), put([0.7, 0.3], "learned", "cuts")),
    "too many cuts": (ScalingBinning(bins=3), put([0.3, 0.4, 0.7], "learned", "cuts")),
    "knots that fall": (IsotonicCalibration(), put([0.5, 0.4], "learned", "x")),
    "knots without values": (IsotonicCalibration(), put([0.5], "learned", "x")),
    "steps without values": (VennAbers(), put([0.5], "learned", "p0")),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_states_that_contradict_themselves_are_refused(name):
    recalibrator, change = SPECIAL[name]
    with pytest.raises(InvalidDocumentError):
        from_json(damaged(clone(recalibrator), binary_rows(60), change))


@pytest.mark.parametrize(
    ("recalibrator", "change"),
    [
        (OneVsRest(PlattScaling()), delete("learned", "recalibrators", 0)),
        (OneVsRest(PlattScaling()), put(None, "learned", "recalibrators", 0)),
        (OneVsRest(PlattScaling()), put({}, "learned", "recalibrators")),
        (VectorScaling(), put([1.0], "learned", "weight")),
        (VectorScaling(), put([[1.0] * 4] * 4, "learned", "weight")),
        (VectorScaling(), put(-1.0, "learned", "temperature")),
        (VectorScaling(), put(2.0, "learned", "mixing")),
    ],
)
def test_sizes_of_several_classes_must_agree(recalibrator, change):
    with pytest.raises(InvalidDocumentError):
        from_json(damaged(recalibrator, class_rows(200), change))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "[]",
        "null",
        "3",
        '{"format": NaN}',
        '{"format": 1e999}',
        '{"format": ' + "9" * 5000 + "}",
        '{"format": "calibrant.recalibrator", "format": "calibrant.recalibrator"}',
        '{"format": "\\ud83d"}',
        b"\xff\xfe",
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_document_is_refused(text):
    with pytest.raises(InvalidDocumentError):
        from_json(text)


def test_deep_nesting_is_refused():
    text = to_json(ScalingBinning(bins=2).fit(*binary_rows(50)))
    document = json.loads(text)
    for _ in range(20):
        outer = json.loads(text)
        outer["learned"]["scaler"] = document
        document = outer
    with pytest.raises(InvalidDocumentError):
        from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("bins", "saved"),
    [
        (EqualMass(4), "mass:4"),
        (EqualWidth(4), "width:4"),
        (Hybrid(4), "hybrid:4"),
        (Distinct(), "distinct"),
        (np.array([0, 0.5, 1]), [0.0, 0.5, 1.0]),
        (Bins([0, 0.5, 1]), [0.0, 0.5, 1.0]),
        (np.int64(4), 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning])
def test_bins_of_any_kind_are_saved_as_what_means_the_same(cls, bins, saved):
    p, y = binary_rows(200)
    fitted = cls(bins=bins).fit(np.round(p, 2), y)
    text = to_json(fitted)
    assert json.loads(text)["parameters"]["bins"] == saved
    again = clone(from_json(text)).fit(np.round(p, 2), y)
    np.testing.assert_array_equal(again.levels_, fitted.levels_)


def test_a_rule_that_no_text_names_is_not_saved():
    fitted = HistogramBinning(bins=Hybrid(4, balance=9)).fit(*binary_rows(200))
    with pytest.raises(InvalidArgumentError, match="cannot be saved"):
        to_json(fitted)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"n_bins": "auto", "bins": "auto"}, "auto"),
        ({"n_bins": 4, "bins": "auto"}, 4),
        ({"n_bins": 4, "bins": "hybrid"}, "hybrid:4"),
        ({"n_bins": "auto", "bins": "hybrid"}, "auto"),
    ],
    ids=str,
)
@pytest.mark.parametrize("wrapped", [False, True])
def test_documents_with_the_number_of_bins_apart_are_still_read(before, now, wrapped):
    p, y = binary_rows(200)
    inner = ScalingBinning(bins=4)
    fitted = TopLabel(inner).fit(*class_rows(200)) if wrapped else inner.fit(p, y)
    document = json.loads(to_json(fitted))
    parts = [document]
    if wrapped:
        parts = [document["learned"]["pooled"], document["parameters"]["recalibrator"]]
    for part in parts:
        part["parameters"] = {**part["parameters"], **before}
    again = from_json(json.dumps(document))
    probs = class_rows(50)[0] if wrapped else p
    np.testing.assert_array_equal(again.predict_proba(probs), fitted.predict_proba(probs))
    assert (again.recalibrator if wrapped else again).bins == now


@pytest.mark.parametrize("n_bins", [0, -1, 1.5, None, [4], {"a": 1}], ids=str)
def test_a_forged_number_of_bins_is_refused(n_bins):
    document = json.loads(to_json(HistogramBinning(bins=3).fit(*binary_rows(50))))
    document["parameters"] |= {"n_bins": n_bins, "bins": "mass"}
    with pytest.raises(InvalidDocumentError):
        from_json(json.dumps(document))


def test_numbers_that_overflow_in_a_product_are_refused():
    probs = np.random.default_rng(3).dirichlet(np.ones(3), 60)
    fitted = MatrixScaling().fit(probs, np.arange(60) % 3)
    document = json.loads(to_json(fitted))
    document["learned"]["weight"][2][0] = -1e308
    with pytest.raises(InvalidDocumentError, match="at most 1e\\+150 in size"):
        from_json(json.dumps(document))
