"""Files as the arguments name them; standard input is kept in a temporary file.

Bins that depend on all rows need several passes, and Parquet is read from its end: what cannot be
read twice is written down first. The temporary file is removed whatever happens.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from calibrant.files.names import STANDARD_INPUT, expand
from calibrant.files.reading import File


@contextmanager
def found(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(_kept(format_ or "csv"))
            if path == STANDARD_INPUT
            else _file(path, format_)
            for path in expand(patterns)
        ]


def _file(path: str, format_: str | None) -> File:
    return File.of(path) if format_ is None else File(path, format_, path)


@contextmanager
def _kept(format_: str) -> Iterator[File]:
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        path = os.path.join(folder, f"standard-input.{format_}")
        with open(path, "wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy, 1 << 20)
        yield File(path, format_, "standard input")
