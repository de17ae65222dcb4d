"""Files copied with all their columns, some rows at a time, from any format to any other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Protocol

from calibrant._json import json_text
from calibrant._lazy import pa
from calibrant.exceptions import InvalidArgumentError, InvalidDocumentError
from calibrant.sources.files import arrow
from calibrant.sources.files.arrow import arrow_library, readable, record_batches
from calibrant.sources.files.json_lines import json_objects
from calibrant.sources.files.npz import npz_chunks
from calibrant.sources.files.reading import File

# what makes a spreadsheet run a cell; tab and return are skipped before it looks
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Writer(Protocol):
    """Takes record batches of one schema."""

    def write(self, batch: Any) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Write what comes last."""


def read_tables(file: File, as_text: Collection[str] | None = None) -> Iterator[tuple[Any, float]]:
    """Yield record batches with all columns of a file, and the share that has been read.

    Columns of a CSV are text as it stands there, all or those of `as_text`; others are typed. Those
    of a two-dimensional array in a .npz are numbered: ``probs_0``, ``probs_1``, ...
    """
    if file.format == "npz":
        pa = arrow_library()
        for arrays, share in npz_chunks(file.path, list, file.shown):
            yield pa.RecordBatch.from_pydict(_flat(arrays, file.shown)), share
    else:
        yield from record_batches(file.path, file.format, list, file.shown, as_text)


def _flat(arrays: dict[str, Any], shown: str) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim > 2:
            raise InvalidDocumentError(
                f"{shown}: {name!r:.80} has {array.ndim} dimensions; a table has one or two."
            )
        parts = {name: array}
        if array.ndim == 2:
            parts = {f"{name}_{k}": array[:, k].copy() for k in range(array.shape[1])}
        for column in parts:
            if column in columns:
                raise InvalidDocumentError(
                    f"{shown}: two columns would be called {column!r:.80}, one of them a part of "
                    "an array with several. Rename one of the arrays."
                )
        columns |= parts
    return columns


def as_formula_safe(text: str) -> str:
    """Put an apostrophe before text that a spreadsheet would run as a formula.

    >>> as_formula_safe("=cmd()"), as_formula_safe("score")
    ("'=cmd()", 'score')
    """
    return f"'{text}" if text.startswith(FORMULA) else text


@contextmanager
def table_writer(
    stream: IO[bytes], format_: str, schema: Any, escape_formulas: bool = False
) -> Iterator[Writer]:
    """Write record batches of a schema to a stream, and finish it unless something fails."""
    pa = arrow_library()
    writers = {"csv": _Csv, "tsv": _Csv, "jsonl": _JsonLines, "parquet": _Parquet, "arrow": _Arrow}
    if format_ not in writers:
        raise InvalidArgumentError(
            f"Tables are written as .csv, .tsv, .parquet, .jsonl or .arrow, not as .{format_}."
        )
    try:
        if writers[format_] is _Csv:
            writer: Writer = _Csv(
                stream, schema, "\t" if format_ == "tsv" else ",", escape_formulas
            )
        else:
            writer = writers[format_](stream, schema)
        try:
            yield writer
        except BaseException:
            if isinstance(writer, _Parquet):
                writer.abandon()
            raise
        writer.close()
    except pa.ArrowException as error:
        raise InvalidDocumentError(f"The table cannot be written as {format_}: {error}") from error


class _Csv:
    """Text as it is, numbers so that they are read back exactly, missing values as nothing."""

    def __init__(self, stream: IO[bytes], schema: Any, delimiter: str, escape: bool) -> None:
        self._stream, self._delimiter, self._escape = stream, delimiter, escape
        self._special = {delimiter, '"', "\n", "\r"}
        self._write_rows([schema.names])

    def write(self, batch: Any) -> None:
        columns = [_values(column) for column in batch.columns]
        self._write_rows(zip(*columns, strict=True))

    def close(self) -> None:
        pass

    def _write_rows(self, rows: Iterable[Iterable[Any]]) -> None:
        lines = (self._delimiter.join(map(self._cell, row)) or '""' for row in rows)
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def _cell(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return str(value).lower()
        text = as_formula_safe(value) if self._escape and isinstance(value, str) else str(value)
        if self._special.isdisjoint(text):
            return text
        return '"' + text.replace('"', '""') + '"'


def _values(column: Any) -> list[Any]:
    """Return Python's values; times that Python does not have as text."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(column.cast(pa.string()).to_pylist())


class _JsonLines:
    """One object a line; numbers that JSON does not have are null."""

    def __init__(self, stream: IO[bytes], schema: Any) -> None:
        self._stream = stream

    def write(self, batch: Any) -> None:
        columns = [_values(column) for column in batch.columns]
        rows = (
            dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)
        )
        lines = (json_text(row, default=str) for row in rows)
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def close(self) -> None:
        pass


class _Parquet:
    def __init__(self, stream: IO[bytes], schema: Any) -> None:
        import pyarrow.parquet as pa_parquet

        self._file = pa_parquet.ParquetWriter(stream, schema)

    def write(self, batch: Any) -> None:
        self._file.write_batch(batch)

    def close(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        """Let it go unfinished: PyArrow would finish it later, on a stream that is closed."""
        self._file.is_open = False


class _Arrow:
    def __init__(self, stream: IO[bytes], schema: Any) -> None:
        self._file = pa.ipc.new_file(stream, schema)

    def write(self, batch: Any) -> None:
        self._file.write_batch(batch)

    def close(self) -> None:
        self._file.close()


def json_rows(file: File) -> Iterator[tuple[list[dict[str, Any]], float]]:
    """Yield the objects of a JSON lines file as they are, some at a time."""
    with readable(file.shown):
        yield from json_objects(file.path, arrow.BLOCK_BYTES)
