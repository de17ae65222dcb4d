"""Documents: strict JSON, refused in one line before anything is built from it."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import _documents
from calibrant._documents import (
    check_header,
    check_names,
    header,
    is_number,
    is_text,
    is_whole,
    read_json,
    shown,
)
from calibrant.exceptions import InvalidDocumentError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "valid JSON"),
        ('{"n": NaN}', "NaN is not a number that JSON has"),
        ('{"n": -Infinity}', "-Infinity is not a number"),
        ('{"n": 1e400}', "beyond the range"),
        ('{"n": ' + "9" * 400 + "}", "400 digits"),
        ('{"n": 1, "m": 2, "n": 1}', "'n' is there twice"),
        ("[" * 65 + "]" * 65, "65 deep"),
        ("[" * 100_000, "100,000 deep"),
        ('["\\ud800"]', "surrogates not allowed"),
        (b"\xff\xfe", "valid JSON"),
        ('{"n": 1} x', "valid JSON"),
        ("[1,]", "valid JSON"),
    ],
)
def test_what_is_not_strict_json_is_refused_in_one_line(text, words):
    with pytest.raises(InvalidDocumentError, match=words) as info:
        read_json(text, "A note")
    assert str(info.value).startswith("A note ")
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'\xef\xbb\xbf{"n": 1}', {"n": 1}),
        ('["[[{\\"[" , "\\\\"]', ['[[{"[', "\\"]),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ("[" * 64 + "]" * 64, None),
        ("0.1", 0.1),
    ],
)
def test_strict_json_is_read(text, value):
    found = read_json(text, "A note")
    assert value is None or found == value


def test_another_programs_infinities_are_read_where_that_is_allowed():
    assert read_json("[Infinity]", "A log", strict=False) == [np.inf]


def test_a_document_that_is_too_large_is_not_parsed(monkeypatch):
    monkeypatch.setattr(_documents, "MOST_BYTES", 4)
    with pytest.raises(InvalidDocumentError, match="is not read"):
        read_json("[1, 2]", "A note")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], '"format": "calibrant.note"'),
        ({"format": "calibrant.table", "schema": 1}, '"format": "calibrant.note"'),
        ({"format": "calibrant.note"}, "the document has None"),
        ({"format": "calibrant.note", "schema": 2}, "the document has 2. Write it again"),
        ({"format": "calibrant.note", "schema": True}, "the document has True"),
        ({"format": "calibrant.note", "schema": 1.0}, "the document has 1.0"),
    ],
)
def test_another_format_or_schema_is_refused(document, words):
    with pytest.raises(InvalidDocumentError) as info:
        check_header(document, "calibrant.note", 1, "A note", "Write it again")
    assert words in str(info.value)


def test_the_header_that_is_written_is_read():
    document = header("calibrant.note", 1) | {"n": 3}
    assert check_header(document, "calibrant.note", 1, "A note", "Write it again") == document


def test_entries_must_be_exactly_those_that_are_known():
    assert check_names({"n": 1}, ("n",), "A note") == {"n": 1}
    for document, words in (([], "JSON object"), ({}, "needs 'n'"), ({"n": 1, "m": 2}, "'m'")):
        with pytest.raises(InvalidDocumentError, match=words):
            check_names(document, ("n",), "A note")


def test_true_is_no_number_and_a_line_break_no_name():
    assert is_whole(1, 0)
    assert not any(is_whole(x, 0) for x in (True, 1.0, -1, "1", 2**53 + 1))
    assert is_number(0.5, 0, 1)
    assert not any(is_number(x, 0, 1) for x in (True, 2, np.nan, "0.5", None))
    assert is_text("a b", 3)
    assert not any(is_text(x, 3) for x in ("a\nb", "abcd", 1, None))


def test_a_value_is_shown_in_sixty_characters():
    assert shown("a") == "'a'"
    assert len(shown("x" * 1000)) == 60
