"""Bytes of a file, unpacked where its name says so and cut into blocks of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._lazy import pa
from calibrant.sources.files.names import COMPRESSIONS

LARGEST_RECORD = 1 << 26
"""Bytes of one line or one quoted cell. A row of 100,000 probabilities has 2 MB; what has more
than 64 MB is a quote that never closes or a file of another format, and is not worth the memory."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""What such text begins with, as a shell of Windows writes it; no text in UTF-8 does."""

Choose = Callable[[list[str]], list[str]]
"""Takes the names of all columns and returns those to read."""

Batches = Iterator[tuple[Any, float]]
"""Record batches, and the share of the file that has been read."""


class BadContentError(Exception):
    """A file holds what its format does not allow; the message says where, not in which file."""


@contextmanager
def opened(path: str) -> Iterator[tuple[Any, Callable[[], float]]]:
    """Open a file, unpack it where its name says so, and tell the share that was read."""
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
        """Return lines of at least so many bytes, fewer at the end of the stream, then none."""
        parts, size = [self._rest], len(self._rest)
        while True:
            block = self._stream.read(self._size)
            if size == 0 and self.line == 1 and block.startswith(UTF_16):
                raise BadContentError(
                    "text must be UTF-8, and this is UTF-16, as PowerShell writes with >. Write it "
                    "again as UTF-8, such as by iconv -f UTF-16 -t UTF-8"
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
