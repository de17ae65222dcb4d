"""CSV, Parquet, JSON lines and Arrow files as record batches, a bounded part at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from calibrant.exceptions import InvalidDocumentError, MissingDependencyError
from calibrant.files.names import COMPRESSIONS

BLOCK_BYTES, LARGEST_BLOCK = 1 << 20, 1 << 30
Choose = Callable[[list[str]], list[str]]
"""Takes the names of all columns and returns those to read."""

CHUNK_VALUES, MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 17, 1 << 10

Batches = Iterator[tuple[Any, float]]
"""Record batches, and the share of the file that has been read."""


def rows_at_once(n_columns: int) -> int:
    """Return how many rows of so many columns are held at a time."""
    return min(MOST_ROWS, max(CHUNK_VALUES // max(n_columns, 1), FEWEST_ROWS))


def record_batches(
    path: str, format_: str, choose: Choose, shown: str, typed: bool = False
) -> Batches:
    """Yield the chosen columns of a file as Arrow record batches, some rows at a time.

    Columns of CSV files come as the text that stands there, unless they are to be `typed`: then
    the first MB tells which are numbers, dates and so on.
    """
    readers: dict[str, Callable[[str, Choose], Batches]] = {
        "csv": partial(_csv, ",", typed),
        "tsv": partial(_csv, "\t", typed),
        "jsonl": _jsonl,
        "parquet": _parquet,
        "arrow": _arrow,
    }
    pa = arrow_library()
    try:
        for batch, share in readers[format_](path, choose):
            rows = rows_at_once(batch.num_columns)
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows), share
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidDocumentError(f"{shown} cannot be read: {error}") from error
    except BadLineError as error:
        raise InvalidDocumentError(f"{shown}, {error}.") from error


def arrow_library() -> Any:
    """Return PyArrow, or say how to get it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingDependencyError(
            "Files other than .npz need PyArrow: pip install 'calibrant[cli]'."
        ) from error
    return pyarrow


class BadLineError(Exception):
    """A line that is not what its format wants."""


@contextmanager
def _opened(path: str) -> Iterator[tuple[Any, Callable[[], float]]]:
    """Open a file, unpack it where its name says so, and tell the share that was read."""
    import pyarrow as pa

    size = max(Path(path).stat().st_size, 1)
    with open(path, "rb") as raw:
        codec = COMPRESSIONS.get(Path(path).suffix.lower())
        stream = pa.CompressedInputStream(pa.PythonFile(raw), codec) if codec else raw
        yield stream, lambda: raw.tell() / size


def _csv(delimiter: str, typed: bool, path: str, choose: Choose) -> Batches:
    """Read blocks, and larger ones where a single row is longer than a block."""
    import pyarrow as pa

    done, block = 0, BLOCK_BYTES
    while True:
        seen = 0
        try:
            for batch, share in _csv_blocks(delimiter, typed, path, choose, block):
                fresh = batch.slice(max(done - seen, 0))
                seen += batch.num_rows
                done = max(done, seen)
                yield fresh, share
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error) or block >= LARGEST_BLOCK:
                raise
            block *= 16
        else:
            return


def _csv_blocks(delimiter: str, typed: bool, path: str, choose: Choose, block: int) -> Batches:
    import pyarrow as pa
    import pyarrow.csv as pa_csv

    read = pa_csv.ReadOptions(block_size=block, use_threads=False)
    parse = pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with _opened(path) as (stream, _):
        names = pa_csv.open_csv(stream, read, parse).schema.names
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise BadLineError(f"line 1: the name {repeated[0]!r:.80} stands for several columns")
    kept = choose(names)
    types = {} if typed else {name: pa.string() for name in kept}
    convert = pa_csv.ConvertOptions(include_columns=kept, column_types=types)
    with _opened(path) as (stream, share):
        for batch in pa_csv.open_csv(stream, read, parse, convert):
            yield batch, share()


def _parquet(path: str, choose: Choose) -> Batches:
    """Read ahead one block a column: PyArrow would by default keep all that it has read."""
    import pyarrow.parquet as pa_parquet

    with pa_parquet.ParquetFile(path, pre_buffer=False, buffer_size=BLOCK_BYTES) as file:
        total, done = max(file.metadata.num_rows, 1), 0
        names = choose(file.schema_arrow.names)
        for batch in file.iter_batches(rows_at_once(len(names)), columns=names):
            done += batch.num_rows
            yield batch, done / total


def _arrow(path: str, choose: Choose) -> Batches:
    """Read the file format of Arrow, or else its stream format."""
    import pyarrow as pa

    with pa.memory_map(path) as file:
        if file.read(6) == b"ARROW1":
            reader = pa.ipc.open_file(file)
            names = choose(reader.schema.names)
            for i in range(reader.num_record_batches):
                yield reader.get_batch(i).select(names), (i + 1) / reader.num_record_batches
            return
        file.seek(0)
        stream = pa.ipc.open_stream(file)
        names = choose(stream.schema.names)
        for batch in stream:
            yield batch.select(names), file.tell() / max(file.size(), 1)


def _jsonl(path: str, choose: Choose) -> Batches:
    import pyarrow as pa
    import pyarrow.json as pa_json

    done = 0
    for block, share in line_blocks(path):
        options = pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        try:
            table = pa_json.read_json(io.BytesIO(block), options)
        except pa.ArrowException:
            check_json_lines(block, done)
            raise
        done += table.num_rows
        for batch in table.select(choose(table.schema.names)).to_batches():
            yield batch, share


def line_blocks(path: str) -> Iterator[tuple[bytes, float]]:
    """Yield the file in blocks of whole lines, and the share that has been read."""
    with _opened(path) as (stream, share):
        rest = b""
        while block := stream.read(BLOCK_BYTES):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end], share()
                rest = block[end:]
            else:
                rest += block
        if rest.strip():
            yield rest, share()


def check_json_lines(block: bytes, before: int) -> None:
    """Raise an error that names the first line that is not a JSON object."""
    row = before
    for line in block.splitlines():
        if not line.strip():
            continue
        row += 1
        try:
            whole = isinstance(json.loads(line), dict)
            reason = "it is JSON, but no object"
        except ValueError as error:
            whole, reason = False, str(error)
        if not whole:
            raise BadLineError(
                f"row {row:,} is not an object such as "
                f'{{"label": 1, "score": 0.7}}: {line[:60].decode(errors="replace")!r} ({reason})'
            )
