"""Columns of lazy frames: labels of every type, two columns of one event, and any name."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

import calibrant
from calibrant import EqualWidth
from calibrant.exceptions import (
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidWeightsError,
)
from calibrant.sources.arrays import read_arrays
from calibrant.sources.frames import read_frame
from counted_frames import NAMES, assert_same, example
from lazy_frames import lazy_frame, on_every_engine

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")


@on_every_engine()
def test_two_columns_are_one_event_whose_column_is_the_second(engine):
    frame = example()
    frame["q"] = 1 - frame["p"]
    lazy = lazy_frame(engine, frame)
    for given in ({}, {"classes": (1, 0)}, {"pos_label": 0}):
        rows = read_arrays(frame["won"], frame[["q", "p"]], **given)
        assert_same(read_frame(lazy, "won", ["q", "p"], **given), rows, EqualWidth(10).bins)


@on_every_engine()
@pytest.mark.parametrize("bad", [None, 1.5, -0.1])
def test_both_of_two_columns_are_checked(engine, bad):
    frame = example(50).astype({"p": object})
    frame.loc[7, "p"] = bad
    lazy = lazy_frame(engine, frame.assign(p=frame["p"].astype("Float64")))
    for names in (["p", "c0"], ["c0", "p"]):
        with pytest.raises(InvalidProbabilitiesError, match="1 rows"):
            calibrant.tabulate("won", names, data=lazy)


LABELS = {
    "text": (lambda y: np.array(["no", "yes"])[y], {"classes": ("no", "yes")}),
    "an event": (lambda y: np.array(["no", "yes"])[y], {"pos_label": "yes"}),
    "numbers": (lambda y: np.array([5, -3])[y], {"classes": (5, -3)}),
    "a number": (lambda y: y * 7.0, {"pos_label": 7}),
    "floats": (lambda y: y.astype(float), {}),
}


@on_every_engine(most=3, given=list(LABELS))
def test_labels_of_every_type_are_counted_alike(engine, given):
    make, arguments = LABELS[given]
    frame = example(300)
    frame["y"] = make(frame.won.to_numpy().astype(int))
    assert_same(
        read_frame(lazy_frame(engine, frame), "y", "p", **arguments),
        read_arrays(frame.y.to_numpy(), frame.p, **arguments),
        EqualWidth(5).bins,
    )


@on_every_engine(kind=["marginal", "top-label"])
def test_classes_have_names(engine, kind):
    frame, classes = example(300), ["cat", "dog", "eel"]
    frame["y"] = np.take(classes, frame.y)
    assert_same(
        read_frame(lazy_frame(engine, frame), "y", NAMES, kind=kind, classes=classes),
        read_arrays(frame.y.to_numpy(), frame[NAMES].to_numpy(), kind=kind, classes=classes),
        EqualWidth(5).bins,
    )


@on_every_engine()
def test_columns_of_another_type_are_refused(engine):
    frame = example(50)
    frame["text"] = "0.5"
    data = lazy_frame(engine, frame)
    with pytest.raises(InvalidLabelsError, match="column 'y'"):
        calibrant.tabulate("y", "p", data=data, pos_label="yes", bins=EqualWidth(3))
    with pytest.raises(InvalidProbabilitiesError, match="column 'text' is of type String"):
        calibrant.tabulate("won", "text", data=data, bins=EqualWidth(3))


@on_every_engine()
@pytest.mark.parametrize(
    "weight", ["1", datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1), datetime.timedelta(1)]
)
def test_weights_that_are_not_numbers_are_refused(engine, weight):
    if engine == "spark" and isinstance(weight, datetime.timedelta):
        pytest.skip("Spark reads durations as integers")
    data = lazy_frame(engine, {"y": [0, 1], "p": [0.1, 0.9], "w": [weight, weight]})
    with pytest.raises(InvalidWeightsError, match="must be numbers; column 'w' is of type"):
        calibrant.tabulate("y", "p", sample_weight="w", data=data, bins=EqualWidth(3))


@on_every_engine()
@pytest.mark.parametrize(
    "label", [b"n", datetime.date(2026, 1, 1), [1]], ids=["bytes", "date", "list"]
)
def test_labels_that_are_neither_numbers_nor_text_are_refused(engine, label):
    if engine == "dask":
        pytest.skip("Dask makes text of the objects of pandas")
    data = lazy_frame(engine, {"y": [label, label], "p": [0.1, 0.9]})
    for named in ({"classes": ("n", "é")}, {"pos_label": "é"}, {"classes": ("2026-01-01", "x")}):
        with pytest.raises(InvalidLabelsError, match="column 'y' are of type"):
            calibrant.tabulate("y", "p", data=data, bins=EqualWidth(3), **named)


@on_every_engine(named=[{"classes": (2**53, 2**53 + 1)}, {"pos_label": 2**53 + 1}])
def test_integers_that_floats_cannot_tell_apart_are_told_apart(engine, named):
    y = 2**53 + np.array([0, 1, 1, 0])
    columns = {"y": y, "p": np.array([0.1, 0.8, 0.6, 0.4])}
    table = calibrant.tabulate("y", "p", data=lazy_frame(engine, columns), bins=2, **named)
    assert table.sum_y.tolist() == [[0, 2]]


@on_every_engine(dtype=[bool, np.int8, np.float32, np.float64])
def test_classes_may_be_numbers_of_another_type_than_the_labels(engine, dtype):
    columns = {"y": np.array([0, 1, 1, 0]).astype(dtype), "p": np.array([0.1, 0.8, 0.6, 0.4])}
    data = lazy_frame(engine, columns)
    for classes in ((0, 1), (0.0, 1.0), (False, True)):
        table = calibrant.tabulate("y", "p", data=data, bins=2, classes=classes)
        assert table.sum_y.tolist() == [[0, 2]]


@on_every_engine(prefix=["_calibrant_", "_CALIBRANT_"])
def test_columns_may_have_any_name(engine, prefix):
    frame = example(200)
    names = [f"{prefix}{name}" for name in ("top", "best", "0")]
    renamed = frame.rename(columns=dict(zip(NAMES, names, strict=True)))
    renamed = renamed.assign(**{f"{prefix}1": 0.5, "p": 0.5, "key": 1.0, "group": 2.0})
    rows = read_arrays(frame.y, frame[NAMES])
    assert_same(read_frame(lazy_frame(engine, renamed), "y", names), rows, EqualWidth(10).bins)
