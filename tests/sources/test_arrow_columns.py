"""Columns of Arrow: what text reads as, and which row does not."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.exceptions import InvalidDocumentError, InvalidInputError, InvalidLabelsError
from calibrant.sources.arrow_columns import as_labels, as_numbers, named_numbers, plain
from conftest import optional

pa = optional("pyarrow")
WHERE = {"name": "y", "shown": "preds.csv", "start": 500}


@pytest.mark.parametrize(
    ("text", "is_text", "labels"),
    [
        (["0", " 1"], None, [0, 1]),
        (["0", "1.5"], None, [0.0, 1.5]),
        (["true", "false"], None, [True, False]),
        (["0", "1"], True, ["0", "1"]),
        (["0", "one"], None, ["0", "one"]),
    ],
)
def test_text_is_numbers_where_all_of_it_reads_so_unless_it_is_known_to_be_names(
    text, is_text, labels
):
    read = as_labels(pa.array(text), is_text, **WHERE)
    assert read.tolist() == labels
    assert [type(one) for one in read.tolist()] == [type(one) for one in labels]


def test_labels_that_must_be_numbers_are_refused_with_their_row_in_the_file():
    with pytest.raises(InvalidLabelsError, match="column 'y', row 502 is 'one': expected a number"):
        as_labels(pa.array(["0", "one"]), False, **WHERE)
    with pytest.raises(InvalidLabelsError, match="holds date32.day.; expected labels"):
        as_labels(pa.array([0, 1], pa.date32()), None, **WHERE)


@pytest.mark.parametrize("blank", ["", "NA", "N/A", "NaN", "null", "None", " nan "])
def test_what_stands_for_a_missing_number_is_nan(blank):
    np.testing.assert_array_equal(
        as_numbers(pa.array(["0.25", blank]), **WHERE), np.array([0.25, np.nan])
    )


def test_numbers_that_are_text_are_refused_with_their_row_in_the_file():
    with pytest.raises(InvalidInputError, match="preds.csv, column 'y', row 502 is 'x': expected"):
        as_numbers(pa.array(["0.5", "x"]), **WHERE)


def test_a_name_comes_before_the_number_that_it_reads_as():
    grades = {"AA": 0.001, "7": 0.07}
    read = named_numbers(pa.array(["AA", " 7 ", "0.5"]), grades, **WHERE)
    assert read.tolist() == [0.001, 0.07, 0.5]
    assert named_numbers(np.array([0.1, 0.2]), grades, **WHERE).tolist() == [0.1, 0.2]
    for unknown in ("BB", None):
        with pytest.raises(InvalidInputError, match=f"row 502 is {unknown!r}; expected one of AA"):
            named_numbers(pa.array(["AA", unknown]), grades, **WHERE)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", "a"]).dictionary_encode(),
        pa.chunked_array([["a"], ["b", "a"]]),
        pa.array([b"a", b"b", b"a"]),
        pa.array([b"a", b"b", b"a"], pa.binary(1)),
        pa.array([b"a", b"b", b"a"]).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays([1, 2, 3], ["a", "b", "a"]),
    ],
    ids=lambda column: str(column.type)[:30],
)
def test_plain_values_are_text_however_they_are_encoded(column):
    assert plain(column).to_pylist() == ["a", "b", "a"]


def test_bytes_that_are_no_text_are_refused_with_their_row_in_the_file():
    with pytest.raises(InvalidDocumentError, match=r"row 502 is b'\\xff', which is not text"):
        as_labels(pa.array([b"a", b"\xff"]), None, **WHERE)
