"""The day of a document is that of SOURCE_DATE_EPOCH, or today."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from calibrant._clock import now
from calibrant.exceptions import InvalidArgumentError


@pytest.mark.parametrize(
    ("seconds", "moment"),
    [
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("1700000000", datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("253402300799", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ],
)
def test_the_moment_is_the_one_that_the_environment_names(monkeypatch, seconds, moment):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    assert now() == moment


def test_without_one_it_is_now(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    before = datetime.now(UTC)
    assert before <= now() <= datetime.now(UTC)


@pytest.mark.parametrize(
    "seconds", ["", "soon", "-1", " 5", "1.5", "²", "253402300800", "9" * 5000]
)
def test_what_names_no_moment_of_the_calendar_is_refused(monkeypatch, seconds):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", seconds)
    with pytest.raises(InvalidArgumentError, match="must be a whole number of seconds since 1970"):
        now()
