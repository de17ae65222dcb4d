"""Arrow columns as NumPy arrays: labels as they are, predictions and weights as numbers."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calibrant._lazy import pa, pc
from calibrant._types import AnyArray
from calibrant.exceptions import (
    InvalidDocumentError,
    InvalidGroupsError,
    InvalidInputError,
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
)
from calibrant.groups import Factor, GroupColumn, factor_of, factor_of_objects, interval_text

# what spreadsheets, pandas, R and SQL write for a missing number
BLANKS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None")


def columns_of(batch: Any) -> dict[str, Any]:
    """Return the columns of a record batch by name.

    Intervals are text, also where pandas, which knows their type, was not imported.
    """
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for field in batch.schema:
        about = (field.metadata or {}).get(b"ARROW:extension:metadata", b"")
        closed = re.search(rb'"closed": *"(\w+)"', about)
        if closed and pa.types.is_struct(field.type):
            columns[field.name] = _interval_texts(columns[field.name], closed[1].decode())
    return columns


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
    column = _checked(column, name, shown, start)
    if not _is_text(column.type):
        kind = column.type
        if not (_is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise InvalidLabelsError(
                f"{shown}, column {name!r:.80} holds {kind!s:.80}; expected labels that are "
                "numbers, text, or true and false, one a row."
            )
        return _to_numpy(column)
    for kind in () if text else (pa.int64(), pa.float64(), pa.bool_()):
        numbers = _cast(column, kind)
        if numbers is not None:
            return _to_numpy(numbers)
    if text is False:
        bad = _first_bad(_trimmed(column), start)
        raise InvalidLabelsError(f"{shown}, column {name!r:.80}{bad}: expected a number.")
    return _to_numpy(_as_null(column, ("",)))


def as_numbers(column: Any, name: str, shown: str, start: int) -> AnyArray:
    """Return predictions or weights as numbers, lists of them as a table; see `as_labels`."""
    if isinstance(column, np.ndarray):
        return column
    column = _checked(column, name, shown, start)
    if pa.types.is_floating(column.type):
        return _to_numpy(column)
    if pa.types.is_nested(column.type):
        return _table_of_lists(column, name, shown, start)
    numbers = _cast(column, pa.float64())
    if numbers is None:
        bad = f" holds {column.type!s:.80}"
        if _is_text(column.type):
            bad = _first_bad(_trimmed(column), start)
        raise InvalidProbabilitiesError(f"{shown}, column {name!r:.80}{bad}: expected numbers.")
    return _to_numpy(numbers)


def named_numbers(
    column: Any, numbers: Mapping[str, float], name: str, shown: str, start: int
) -> Any:
    """Return the number of each name in a column; text that is a number stands for itself.

    Cell by cell, so that chunks agree: a name comes first, even if it consists of digits.
    """
    if isinstance(column, np.ndarray):
        is_text = column.ndim == 1 and column.dtype.kind == "U"
    else:
        column = _checked(column, name, shown, start)
        is_text = _is_text(column.type)
    if not is_text:
        return column
    cells = column.tolist()
    known = {cell: _named_number(cell, numbers) for cell in set(cells)}
    if None not in known.values():
        return np.array([known[cell] for cell in cells], np.float64)
    row = next(row for row, cell in enumerate(cells) if known[cell] is None)
    raise InvalidInputError(
        f"{shown}, column {name!r:.80}, row {start + row + 1:,} is {cells[row]!r:.60}; expected "
        f"one of {', '.join(numbers):.100}, or a number. Add it to grades=, or leave such rows out."
    )


def _named_number(cell: str | None, numbers: Mapping[str, float]) -> float | None:
    if cell is None or cell.strip() in numbers:
        return None if cell is None else numbers[cell.strip()]
    try:
        return float(cell)
    except ValueError:
        return None


def as_group(
    column: Any, group: GroupColumn, shown: str, start: int, blank_is_missing: bool = False
) -> AnyArray | Factor:
    """Return a column of groups: numbers to be cut, or codes and labels.

    Text stays text, even digits: what it reads as could change from chunk to chunk. A CSV cannot
    tell empty text from none: there, `blank_is_missing`.
    """
    if isinstance(column, np.ndarray):
        if column.ndim != 1:
            raise InvalidGroupsError(
                f"{shown}, column {group.name!r:.80} must hold one value a row to tell groups "
                f"apart; it has shape {column.shape}. Name another column."
            )
        return column
    if group.cuts is not None:
        try:
            return as_numbers(column, group.name, shown, start)
        except InvalidProbabilitiesError as error:
            raise InvalidGroupsError(f"Only numbers can be cut. {error}") from error
    column = _checked(column, group.name, shown, start, exact=True)
    if pa.types.is_nested(column.type):
        raise InvalidGroupsError(
            f"Groups by {group.name!r:.60} must be told apart by text, numbers or dates; the "
            f"column holds {column.type!s:.80}. Convert it to text, or name another column."
        )
    if blank_is_missing and _is_text(column.type):
        column = _as_null(column, ("",))
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    values = encoded.dictionary
    if pa.types.is_timestamp(values.type) and values.type.tz is None:
        codes, labels = factor_of(group, values.to_numpy(zero_copy_only=False))
    else:
        codes, labels = factor_of_objects(group, values.to_pylist())
    return codes[_to_numpy(encoded.indices)], labels


def side_by_side(parts: Sequence[AnyArray], names: Sequence[str], shown: str) -> AnyArray:
    """Return one column as it is, several as a table."""
    if len(parts) == 1:
        return parts[0]
    for name, part in zip(names, parts, strict=True):
        if part.ndim != 1:
            raise InvalidShapeError(
                f"{shown}: each of several columns of predictions must hold one number a row; "
                f"{name!r:.80} holds {math.prod(part.shape[1:]):,}. Name it alone."
            )
    return np.column_stack(list(parts))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cast(column: Any, kind: Any) -> Any:
    """Return the column as another type, None if that cannot be done."""
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
    """Trim text that may be numbers, and replace marks of missing values by null."""
    return _as_null(pc.utf8_trim_whitespace(column), BLANKS)


def _as_null(column: Any, blanks: Sequence[str]) -> Any:
    return pc.if_else(pc.is_in(column, pa.array(blanks, column.type)), None, column)


def _first_bad(column: Any, start: int) -> str:
    """Name the row and the value of the first text that is not a number."""
    for row, value in enumerate(column, start + 1):
        try:
            value.cast(pa.float64())
        except pa.ArrowException:
            return f", row {row:,} is {value.as_py()!r:.60}"
    return f" holds {column.type}"


def _checked(column: Any, name: str, shown: str, start: int, exact: bool = False) -> Any:
    """Return plain values, or say which are not text; decimals become floats unless `exact`."""
    try:
        column = plain(column)
    except pa.ArrowException as error:
        row = next((row for row, x in enumerate(column) if not _is_utf8(x.as_py())), None)
        if row is None:
            raise
        raise InvalidDocumentError(
            f"{shown}, column {name!r:.80}, row {start + row + 1:,} is "
            f"{column[row].as_py()!r:.60}, which is not text in UTF-8."
        ) from error
    return _floats(column) if pa.types.is_decimal(column.type) and not exact else column


def arrow_values(native: Any) -> Any:
    """Return the Arrow values behind a series; None if it has none."""
    if "pyarrow" not in sys.modules:
        return None
    if isinstance(native, pa.Array | pa.ChunkedArray):
        return native
    dtype = getattr(native, "dtype", None)
    if hasattr(dtype, "pyarrow_dtype"):  # of pandas
        return native.array.__arrow_array__()
    is_foreign = type(dtype).__name__ == "Extension" and hasattr(native, "to_arrow")  # of Polars
    return native.to_arrow() if is_foreign else None


def plain(column: Any) -> Any:
    """Return the values themselves: of dictionaries and extensions, and bytes as the text they are.

    Old writers of Parquet do not say which bytes are text.
    """
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(map(plain, column.chunks or [pa.array([], column.type)]))
    if getattr(column.type, "extension_name", "") == "pandas.interval":
        return _interval_texts(column.storage, column.type.closed)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):  # Arrow itself takes no values out of some
        return plain(column.dictionary).take(column.indices)
    if isinstance(column, pa.RunEndEncodedArray):
        column = pc.run_end_decode(column)
    plainly = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    is_text = plainly or pa.types.is_fixed_size_binary(column.type)
    is_text = is_text or "string_view" in str(column.type) or str(column.type) == "binary_view"
    return column.cast(pa.large_string()) if is_text else column


def _interval_texts(ends: Any, closed: str) -> Any:
    pairs = ends.to_pylist()
    texts = [own and interval_text(own["left"], own["right"], closed) for own in pairs]
    return pa.array(texts, pa.large_string())


def _floats(column: Any) -> Any:
    """Return numbers as float64; decimals by their text, of 0.7 Arrow makes 0.7000000000000001."""
    readable = column.cast(pa.string()) if pa.types.is_decimal(column.type) else column
    return readable.cast(pa.float64(), safe=False)


def _is_utf8(value: Any) -> bool:
    try:
        return not isinstance(value, bytes) or value.decode() is not None
    except UnicodeDecodeError:
        return False


def _table_of_lists(column: Any, name: str, shown: str, start: int) -> AnyArray:
    """Return a column of equally long lists as a table."""
    where = f"{shown}, column {name!r:.80}"
    is_list = str(column.type).startswith(("list", "large_list", "fixed_size_list"))  # or a view
    if not (is_list and _is_number(column.type.value_type)):
        raise InvalidShapeError(
            f"{where} holds {column.type!s:.80}; expected numbers or lists of numbers."
        )
    lengths = _to_numpy(pc.list_value_length(column).cast(pa.float64()))  # NaN for a missing one
    width = lengths[0]
    odd = np.flatnonzero(~(lengths == width) | ~(lengths > 0))
    if odd.size:
        row = odd[0]
        came = "missing" if np.isnan(lengths[row]) else f"a list of {lengths[row]:,.0f}"
        raise InvalidShapeError(
            f"{where}, row {start + row + 1:,} is {came}; expected lists of one length in all "
            f"rows, one number a class (row {start + 1:,} has "
            f"{'none' if np.isnan(width) else format(width, ',.0f')})."
        )
    flat = _floats(column.flatten())
    return _to_numpy(flat).reshape(len(column), int(width))


def _is_number(kind: Any) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _to_numpy(column: Any) -> AnyArray:
    # Arrow's own conversion first loads pandas where it is installed: 0.4 s at the first column.
    primitive = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if primitive and not column.null_count and len(column):
        return np.from_dlpack(column)
    return np.asarray(column.to_numpy(zero_copy_only=False))
