"""Names are shown on one line, bounded, without invisible characters."""

from __future__ import annotations

import pytest

from calibrant.reports.names import LENGTH, short, shown


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain", "plain"),
        (7, "7"),
        ("a\n\tb\u2028c", "a b c"),
        ("\u202eabc", "\ufffdabc"),
        ("\x1b[31m", "\ufffd[31m"),
        ("\ud800", "\ufffd"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("", "␣"),
        ("  ", "␣"),
    ],
)
def test_a_name_as_it_is_shown(name, expected):
    assert short(name) == expected


@pytest.mark.parametrize("name", ["x" * 10_000, " " * 10_000 + "y", "<" * 49])
def test_a_long_name_is_cut_and_says_so(name):
    assert len(short(name)) <= LENGTH
    assert short(name).endswith("…")


def test_a_name_of_the_full_length_is_not_cut():
    assert short("x" * LENGTH) == "x" * LENGTH


def test_a_name_is_set_apart_from_the_text_around_it():
    assert str(shown("<i>")) == "<bdi>&lt;i&gt;</bdi>"
