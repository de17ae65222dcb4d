"""CSV, Parquet, JSON lines and Arrow files as record batches, a bounded part at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from calibrant._lazy import pa
from calibrant.exceptions import InvalidDocumentError, MissingDependencyError
from calibrant.sources.files.delimited import csv_batches
from calibrant.sources.files.json_lines import json_batches
from calibrant.sources.files.streams import BadContentError, Batches, Choose

BLOCK_BYTES = 1 << 20
"""Of text that is parsed at a time. Affects speed and memory only: a million rows of CSV took 0.14
seconds of processor time, with a quarter of it 0.19 and with 16 times as much 0.24."""
CHUNK_VALUES, MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 17, 1 << 10
"""Of a chunk: 8 MB of float64, and a thousand classes still come by the thousand rows. Affects
speed and memory only: chunks of four times the rows read Parquet in three quarters of the time."""
ARROW_FILE = b"ARROW1\0\0"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def rows_at_once(n_columns: int) -> int:
    """Return how many rows of so many columns are held at a time."""
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
    """Raise what a reader says of a damaged file again, with the name of the file."""
    pa = arrow_library()
    try:
        yield
    except BadContentError as error:
        raise InvalidDocumentError(f"{shown}, {error}.") from error
    except (pa.ArrowException, UnicodeDecodeError, OverflowError, MemoryError, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the system; PyArrow's have no number
            raise
        reason = " ".join(str(error).split())  # some quote lines of the file
        if isinstance(error, MemoryError):  # Python's own says nothing
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
        yield from (_arrow_file if file.read(8) == ARROW_FILE else _arrow_stream)(file, choose)


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
