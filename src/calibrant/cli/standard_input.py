"""Files as the arguments name them; standard input and pipes are kept in a temporary file.

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
from typing import IO

from calibrant.exceptions import InvalidInputError
from calibrant.files.names import STANDARD_INPUT, expand, format_of
from calibrant.files.reading import File


@contextmanager
def found(patterns: Sequence[str], format_: str | None) -> Iterator[list[File]]:
    """Return the files that names and patterns stand for."""
    with ExitStack() as stack:
        files = []
        for path in expand(patterns):
            if path == STANDARD_INPUT:
                if sys.stdin is None:
                    raise InvalidInputError(
                        "Standard input is closed. Pipe rows in, or name a file."
                    )
                kept = _kept(sys.stdin.buffer, format_ or "csv", "standard input")
                files.append(stack.enter_context(kept))
            elif not os.path.isfile(path):
                pipe = stack.enter_context(open(path, "rb"))
                files.append(stack.enter_context(_kept(pipe, format_ or _told(path), path)))
            else:
                files.append(File(path, format_ or format_of(path), path))
        yield files


def _told(path: str) -> str:
    """Return the format that a name tells; a nameless pipe such as /dev/fd/63 holds CSV."""
    return format_of(path) if os.path.splitext(path)[1] else "csv"


@contextmanager
def _kept(stream: IO[bytes], format_: str, shown: str) -> Iterator[File]:
    with tempfile.TemporaryDirectory(prefix="calibrant-") as folder:
        path = os.path.join(folder, f"kept.{format_}")
        with open(path, "wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 20)
        yield File(path, format_, shown)
