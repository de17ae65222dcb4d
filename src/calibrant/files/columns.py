"""Arrow columns as NumPy arrays: labels as they are, predictions and weights as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.exceptions import InvalidLabelsError, InvalidProbabilitiesError, InvalidShapeError

BLANKS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")


def as_labels(column: Any, text: bool | None, name: str, shown: str, start: int) -> AnyArray:
    """Return labels as they are; text from a CSV as numbers where all of it reads so.

    Parameters
    ----------
    text : bool, optional
        Whether labels are known to be names (True) or numbers (False).
    name, shown, start
        The column, the file and how many rows of it came before, for the message.
    """
    if isinstance(column, np.ndarray):
        return column
    if not _is_text(column.type):
        return _to_numpy(column)
    import pyarrow as pa

    for kind in () if text else (pa.int64(), pa.float64(), pa.bool_()):
        numbers = _cast(column, kind)
        if numbers is not None:
            return _to_numpy(numbers)
    if text is False:
        bad = _first_bad(_trimmed(column), start)
        raise InvalidLabelsError(f"{shown}, column {name!r:.80}{bad}: expected a number.")
    return _to_numpy(_as_null(column, ("",)))


def as_numbers(column: Any, name: str, shown: str, start: int) -> AnyArray:
    """Return predictions or weights as numbers; lists of them as a table.

    Parameters
    ----------
    name, shown, start
        The column, the file and how many rows of it came before, for the message.
    """
    if isinstance(column, np.ndarray):
        return column
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return _to_numpy(column)
    if pa.types.is_nested(column.type):
        return _table_of_lists(column, name, shown)
    numbers = _cast(column, pa.float64())
    if numbers is None:
        plain = _trimmed(column) if _is_text(column.type) else column
        raise InvalidProbabilitiesError(
            f"{shown}, column {name!r:.80}{_first_bad(plain, start)}: expected numbers."
        )
    return _to_numpy(numbers)


def side_by_side(parts: Sequence[AnyArray]) -> AnyArray:
    """Return one column as it is, several as a table."""
    return parts[0] if len(parts) == 1 else np.column_stack(list(parts))


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cast(column: Any, kind: Any) -> Any:
    """Return the column as another type, None if that cannot be done."""
    import pyarrow as pa

    try:
        return column.cast(kind)
    except pa.ArrowException:
        if not _is_text(column.type):
            return None
    try:
        return _trimmed(column).cast(kind)  # slower, so not the first thing to try
    except pa.ArrowException:
        return None


def _trimmed(column: Any) -> Any:
    """Trim text that may be numbers, and put null for what stands for a missing one."""
    import pyarrow.compute as pc

    return _as_null(pc.utf8_trim_whitespace(column), BLANKS)


def _as_null(column: Any, blanks: Sequence[str]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(column, pa.array(blanks, column.type)), None, column)


def _first_bad(column: Any, start: int) -> str:
    """Name the row and the value of the first text that is no number."""
    import pyarrow as pa

    for row, value in enumerate(column, start + 1):
        try:
            value.cast(pa.float64())
        except pa.ArrowException:
            return f", row {row:,} is {value.as_py()!r:.60}"
    return f" holds {column.type}"


def _table_of_lists(column: Any, name: str, shown: str) -> AnyArray:
    """Return a column of equally long lists as a table."""
    import pyarrow as pa

    if not (pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)):
        raise InvalidShapeError(
            f"{shown}, column {name!r:.80} holds {column.type}; expected numbers or lists of them."
        )
    flat = np.asarray(_to_numpy(column.flatten()), np.float64)
    width = flat.size // max(len(column), 1)
    lengths = column.value_lengths() if hasattr(column, "value_lengths") else None
    even = lengths is None or all(each.as_py() == width for each in lengths.unique())
    if not even or column.null_count or width == 0:
        raise InvalidShapeError(
            f"{shown}, column {name!r:.80}: the lists must be of one length, one number a class."
        )
    return flat.reshape(len(column), width)


def _to_numpy(column: Any) -> AnyArray:
    return np.asarray(column.to_numpy(zero_copy_only=False))
