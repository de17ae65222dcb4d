"""The day that a document carries; SOURCE_DATE_EPOCH, where set, makes it reproducible."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime

from calibrant.exceptions import InvalidArgumentError

MOST_DIGITS = 12
"""Of seconds since 1970, up to the year 9999."""


def now() -> datetime:
    """Return the moment in UTC, or the one that SOURCE_DATE_EPOCH names."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if seconds is None:
        return datetime.now(UTC)
    if seconds.isascii() and seconds.isdigit() and len(seconds) <= MOST_DIGITS:
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(int(seconds), UTC)
    raise InvalidArgumentError(
        "The environment variable SOURCE_DATE_EPOCH must be a whole number of seconds since 1970, "
        f"before the year 10000; got {seconds!r:.60}. Unset it, or give such a number."
    )
