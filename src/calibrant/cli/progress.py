"""A progress bar on a terminal, and nothing in a pipe."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

from calibrant.cli.terminal import name_of, tell

if TYPE_CHECKING:
    from calibrant.files.reading import Chunk, File

PATIENCE = 0.3
WIDTH = 20
ERASE = "\r\033[K"


class Bar:
    """The share of the bytes that has been read, redrawn in place on standard error."""

    def __init__(self, what: str, files: Sequence[File]) -> None:
        self.what, self.files, self.rows = what, files, 0
        self.live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        sizes = [os.path.getsize(file.path) if self.live else 1 for file in files]
        self.before = [sum(sizes[:i]) / max(sum(sizes), 1) for i in range(len(sizes) + 1)]
        self.last = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            tell(ERASE)

    def show(self, number: int, share: float, rows: int) -> None:
        """Say that of file `number` this share has been read, `rows` rows more."""
        self.rows += rows
        if not self.live or time.monotonic() - self.last < PATIENCE:
            return
        self.last = time.monotonic()
        low, high = self.before[number], self.before[number + 1]
        tell(ERASE + self._line(number, low + share * (high - low)))

    def watched(self, number: int, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Pass the chunks of file `number` on, and show how far they are."""
        for chunk in chunks:
            self.show(number, chunk.share, len(chunk))
            yield chunk

    def _line(self, number: int, done: float) -> str:
        full = round(WIDTH * min(done, 1.0))
        which = f" ({number + 1} of {len(self.files)})" if len(self.files) > 1 else ""
        name = name_of(os.path.basename(self.files[number].shown), 30)
        bar = "#" * full + "-" * (WIDTH - full)
        return f"{self.what} [{bar}] {done:4.0%}  {self.rows:,} rows  {name}{which}"
