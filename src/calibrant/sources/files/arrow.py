"""Record batches of CSV, Parquet, JSON lines and Arrow files, read and written a part at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, Any, Protocol

from calibrant._json import json_text
from calibrant._lazy import pa
from calibrant.exceptions import (
    InvalidArgumentError,
    InvalidDocumentError,
    MissingDependencyError,
)
from calibrant.sources.files.delimited import csv_batches
from calibrant.sources.files.json_lines import json_batches, json_objects
from calibrant.sources.files.streams import BadContentError, Batches, Choose, File

BLOCK_BYTES = 1 << 20
"""Of text that is parsed at a time. Affects speed and memory only: a million rows of CSV took 0.14
seconds of processor time, with a quarter of it 0.19 and with 16 times as much 0.24."""
CHUNK_VALUES, MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 17, 1 << 10
"""Of a chunk: 8 MB of float64, and a thousand classes still come by the thousand rows. Affects
speed and memory only: chunks of four times the rows read Parquet in three quarters of the time."""
ARROW_FILE = b"ARROW1\0\0"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
# what makes a spreadsheet run a cell; tab and return are skipped before it looks
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def rows_at_once(n_columns: int) -> int:
    """Return the number of rows to hold at a time, by the number of columns."""
    return min(MOST_ROWS, max(CHUNK_VALUES // max(n_columns, 1), FEWEST_ROWS))


def record_batches(
    path: str,
    format_: str,
    choose: Choose,
    shown: str,
    as_text: Collection[str] | None = None,
) -> Batches:
    """Yield the chosen columns of a file as Arrow record batches, some rows at a time.

    Columns of CSV files come as the text that stands there. Where only some are to come `as_text`,
    the first MB tells which of the others are numbers, dates and so on.
    """
    readers: dict[str, Callable[[str, Choose], Batches]] = {
        "csv": partial(csv_batches, delimiter=",", as_text=as_text, block_bytes=BLOCK_BYTES),
        "tsv": partial(csv_batches, delimiter="\t", as_text=as_text, block_bytes=BLOCK_BYTES),
        "jsonl": partial(json_batches, block_bytes=BLOCK_BYTES),
        "parquet": _parquet,
        "arrow": _arrow,
    }
    with_names = partial(_chosen_once, choose)
    with readable(shown):
        for batch, share in readers[format_](path, with_names):
            rows = rows_at_once(batch.num_columns)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows), share


def arrow_library() -> Any:
    """Return PyArrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            "Files other than .npz need PyArrow: pip install 'calibrant[cli]'."
        ) from error
    return pyarrow


@contextmanager
def readable(shown: str) -> Iterator[None]:
    """Name the file in a reader's exceptions about damaged content."""
    pa = arrow_library()
    try:
        yield
    except BadContentError as error:
        raise InvalidDocumentError(f"{shown}, {error}.") from error
    except (pa.ArrowException, UnicodeDecodeError, OverflowError, MemoryError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system; PyArrow's have no number
            raise
        reason = " ".join(str(error).split())  # some quote lines of the file
        if isinstance(error, MemoryError):  # Python's own has no message
            reason = f"it asks for more memory than there is. {reason}"
        raise InvalidDocumentError(f"{shown} cannot be read: {reason.rstrip():.300}") from error


def _chosen_once(choose: Choose, names: list[str]) -> list[str]:
    """Choose columns, each of which must be the only one of its name."""
    kept, counts = choose(names), Counter(names)
    repeated = [name for name in kept if counts[name] > 1]
    if repeated:
        raise BadContentError(
            f"where the name {repeated[0]!r:.80} stands for several columns. Give each a name of "
            "its own"
        )
    return kept


def _parquet(path: str, choose: Choose) -> Batches:
    """Read ahead one block a column: PyArrow would by default keep all that it has read."""
    import pyarrow.parquet as pa_parquet

    # as bytes: the system takes names that are not UTF-8, which PyArrow could not encode
    with (
        pa.OSFile(os.fsencode(path)) as raw,
        pa_parquet.ParquetFile(
            raw, pre_buffer=False, buffer_size=BLOCK_BYTES, page_checksum_verification=True
        ) as file,
    ):
        total, done = file.metadata.num_rows, 0
        names = choose(file.schema_arrow.names)
        for batch in file.iter_batches(rows_at_once(len(names)), columns=names):
            done += batch.num_rows
            yield _validated(batch, names), done / max(total, 1)
    if done != total:
        raise BadContentError(f"row {done:,} is the last one, but the file announces {total:,}")


def _arrow(path: str, choose: Choose) -> Batches:
    """Read the file format of Arrow, or else its stream format."""
    with pa.memory_map(os.fsencode(path)) as file:
        try:
            yield from (_arrow_file if file.read(8) == ARROW_FILE else _arrow_stream)(file, choose)
        except (
            TypeError
        ) as error:  # of a package that reads types of its own, as pandas's intervals
            raise BadContentError(f"where a type of column is not understood ({error})") from error


def _arrow_file(file: Any, choose: Choose) -> Batches:
    """Read the batches that the last bytes of the file list, all of them that there are."""
    reader = pa.ipc.open_file(file)
    names, total = choose(reader.schema.names), reader.num_record_batches
    file.seek(len(ARROW_FILE))
    messages = pa.ipc.MessageReader.open_stream(file)
    try:
        written = sum(message.type == "record batch" for message in messages)
    except (pa.ArrowException, OSError):
        written = total  # Polars 2 writes messages that are found by the list alone
    if written != total:
        raise BadContentError(f"{written:,} batches of rows are there, but {total:,} are listed")
    for i in range(total):
        yield _validated(reader.get_batch(i), names), (i + 1) / total


def _arrow_stream(file: Any, choose: Choose) -> Batches:
    file.seek(0)
    stream = pa.ipc.open_stream(file)
    names, done = choose(stream.schema.names), 0
    for batch in stream:
        done += batch.num_rows
        yield _validated(batch, names), file.tell() / max(file.size(), 1)
    end = file.tell()
    file.seek(max(end - len(END_OF_STREAM), 0))
    if file.read(len(END_OF_STREAM)) != END_OF_STREAM or end != file.size():
        raise BadContentError(
            f"row {done:,} is the last one, but the mark that ends a stream does not follow it, or "
            "more follows: the file is cut, or several were joined. Write it anew"
        )


def _validated(batch: Any, names: list[str]) -> Any:
    """Check all lengths, offsets and texts of the columns: a damaged file may point anywhere."""
    batch = batch.select(names)
    batch.validate(full=True)
    return batch


class Writer(Protocol):
    """Takes record batches of one schema."""

    def write(self, batch: Any) -> None:
        """Write some rows."""

    def close(self) -> None:
        """Write the end of the file."""


def read_tables(file: File, as_text: Collection[str] | None = None) -> Iterator[tuple[Any, float]]:
    """Yield record batches with all columns of a file, and the share that has been read.

    Columns of a CSV are text as it stands there, all or those of `as_text`; others are typed. Those
    of a two-dimensional array in a .npz are numbered: ``probs_0``, ``probs_1``, ...
    """
    if file.format == "npz":
        from calibrant.sources.files.npz import npz_chunks

        arrow_library()
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
        """Drop the writer unfinished: PyArrow would later finish it on a closed stream."""
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
        yield from json_objects(file.path, BLOCK_BYTES)
