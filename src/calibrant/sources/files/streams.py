"""Files by name: patterns, formats, and their bytes in blocks of whole lines."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._lazy import pa
from calibrant.exceptions import InvalidInputError

STANDARD_INPUT = "-"
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
}
LARGEST_RECORD = 1 << 26
"""Bytes of one line or one quoted cell. A row of 100,000 probabilities has 2 MB; what has more
than 64 MB is a quote that never closes or a file of another format, and is not worth the memory."""

UNICODE_MARKS = {
    b"\xff\xfe\0\0": "UTF-32",
    b"\0\0\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
"""Byte order marks of text that is not UTF-8, such as Windows shells write."""

Choose = Callable[[list[str]], list[str]]
"""Takes the names of all columns and returns those to read."""

Batches = Iterator[tuple[Any, float]]
"""Record batches, and the share of the file that has been read."""


@dataclass(frozen=True)
class File:
    """A file to read: where it is, its format, and the name that messages call it."""

    path: str
    format: str
    shown: str

    @classmethod
    def of(cls, path: str) -> File:
        """Return the file of this name, its format read from the suffix."""
        return cls(path, format_of(path), path)


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and patterns such as ``part-*.parquet`` stand for, in order.

    A file that is named several times, be it in another spelling or by a link, comes once.
    """
    files: dict[Hashable, str] = {}
    for pattern in patterns:
        is_name = pattern == STANDARD_INPUT or (pattern != "" and Path(pattern).exists())
        paths = [pattern] if is_name else sorted(glob.glob(pattern, recursive=True))
        if not paths:
            raise InvalidInputError(f"There is no file {pattern!r}.")
        for file in paths:
            files.setdefault(_identity(file), file)
    for file in files.values():
        if Path(file).is_dir():
            raise InvalidInputError(
                f"{file!r} is a folder. Name its files, such as '{file.rstrip('/')}/*.parquet'."
            )
    return list(files.values())


def _identity(path: str) -> Hashable:
    """Return a key that two names of one file share."""
    try:
        facts = os.fstat(sys.stdin.fileno()) if path == STANDARD_INPUT else os.stat(path)
    except (OSError, ValueError, AttributeError):  # no such file, or no standard input
        return path
    if not facts.st_ino:  # some file systems do not number their files
        return os.path.realpath(path)
    return facts.st_dev, facts.st_ino


def format_of(path: str) -> str:
    """Return the format that a file's name ends in, compression aside."""
    name = Path(path)
    suffixes = [suffix.lower() for suffix in name.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in FORMATS:
        raise InvalidInputError(
            f"{path} ends in {name.suffix!r}; known are .csv, .tsv, .parquet, .jsonl, .arrow and "
            ".npz. Rename it or convert it."
        )
    return FORMATS[suffix]


class BadContentError(Exception):
    """A file holds what its format does not allow; the message says where, not in which file."""


@contextmanager
def opened(path: str) -> Iterator[tuple[Any, Callable[[], float]]]:
    """Open a file, unpacked by its suffix, with a function for the share that has been read."""
    size = max(Path(path).stat().st_size, 1)
    with open(path, "rb") as raw:
        stream: Any = raw
        if codec := COMPRESSIONS.get(Path(path).suffix.lower()):
            stream = pa.CompressedInputStream(pa.PythonFile(raw), codec)
        yield stream, lambda: raw.tell() / size


def arrow_stream(block: bytes) -> Any:
    """Return a stream of a copy of these bytes that Arrow owns.

    Arrow reads CSV and JSON in a thread of its own. Where that still held bytes of Python's when
    the interpreter ended, a process whose work was done was aborted: once in 500, on a busy
    machine.
    """
    owned = pa.allocate_buffer(len(block))
    memoryview(owned).cast("B")[:] = block
    return pa.BufferReader(owned)


class LineBlocks:
    """Cuts a stream into blocks that end where a line ends.

    Parameters
    ----------
    stream : file
        Anything with `read`.
    size : int
        Bytes to read at a time; a block is larger where one line is.
    """

    def __init__(self, stream: Any, size: int) -> None:
        self._stream, self._size, self._rest = stream, size, b""
        self.line = 1
        """The number of the line with which the next block begins."""

    def read(self, least: int = 1) -> bytes:
        """Return lines of at least `least` bytes, fewer at the end of the stream, then none."""
        parts, size = [self._rest], len(self._rest)
        while True:
            block = self._stream.read(self._size)
            if size == 0 and self.line == 1 and block.startswith((*UNICODE_MARKS,)):
                came = next(name for mark, name in UNICODE_MARKS.items() if block.startswith(mark))
                by = ", as PowerShell writes with >" if came == "UTF-16" else ""
                raise BadContentError(
                    f"text must be UTF-8, and this is {came}{by}. Write it again as UTF-8, such as "
                    f"by iconv -f {came} -t UTF-8"
                )
            # where the last line ends, 0 if none does; a \r at the very end does not count, for the
            # other half of a \r\n may follow
            end = block.rfind(b"\n") + 1 or block.rfind(b"\r", 0, max(len(block) - 1, 0)) + 1
            if not block or (end and size + end >= least):
                parts.append(block[:end])
                self._rest = block[end:]
                whole = b"".join(parts)
                self.line += count_lines(whole)
                return whole
            parts.append(block)  # joined once: adding to one string would take quadratic time
            size += len(block)
            if size > LARGEST_RECORD + least:
                line = self.line + sum(map(count_lines, parts))
                raise BadContentError(
                    f"line {line:,} has more than {LARGEST_RECORD:,} bytes, the most that a row "
                    "may have. Write one row a line"
                )


def count_lines(block: bytes) -> int:
    r"""Return the number of line ends: ``\n``, or ``\r`` where there is no ``\n``."""
    if not block:
        return 0
    octets = np.frombuffer(block, np.uint8)  # ten times as fast as bytes.count
    return int(np.count_nonzero(octets == ord("\n")) or np.count_nonzero(octets == ord("\r")))
