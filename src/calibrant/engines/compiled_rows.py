"""What the compiled loops are given, and what they report."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from calibrant._types import AnyArray
from calibrant.columns import Columns
from calibrant.engines.kernels import BAD_LABEL, BAD_PROBABILITY

SEGMENT_ROWS = 1 << 18


def refuse(rows: Columns, status: int) -> None:
    """Raise the exception that belongs to a loop's status, unless it is fine."""
    if status == BAD_LABEL:
        rows.explain_labels()
    if status == BAD_PROBABILITY:
        rows.explain_predictions()


def segments(n: int, size: int = SEGMENT_ROWS) -> Iterator[slice]:
    """Cut n rows into slices of this size."""
    return (slice(i, i + size) for i in range(0, n, size))


def native(values: AnyArray) -> AnyArray:
    """Return values in a type that the compiled loops read, each exactly as it was."""
    if values.dtype in (np.float32, np.float64) and values.dtype.isnative:
        return values
    return values.astype(np.float32 if values.dtype == np.float16 else np.float64)
