"""What is printed: results on standard output, messages and progress on standard error.

Nothing printed for people can move the cursor, and nothing is endless. A result that cannot be
written is an error; a message that cannot be written is dropped, for it must not change the exit
code.
"""

from __future__ import annotations

import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Self, TextIO

from calibrant._json import json_text
from calibrant.exceptions import CalibrantError

if TYPE_CHECKING:
    from calibrant.sources.files.streams import File

LONGEST_WORD = 120
LONGEST_MESSAGE = 4_000
"""Names of columns and labels may have a megabyte; a message is read on a screen."""
REDRAW_SECONDS = 0.3
"""Between two states of a progress line: often enough to watch, too seldom to cost time."""
METER_WIDTH = 20
ERASE_LINE = "\r\033[K"
OPTION = re.compile(
    r"\b(y_true|y_prob|sample_weight|classes|pos_label|kind|bins|norm|confidence_level|max_error|grades|by"
    r"|cluster(?!=False)|draws|looks|levels|before|min_bin_mass|reference)="
    r"(?=(\S?))"
)


def say(text: str = "") -> None:
    """Print a result for people on standard output."""
    emit(printable(text))


def say_json(document: Any) -> None:
    """Print a result for machines on standard output, on one line."""
    emit(json_text(document))


def emit(text: str) -> None:
    """Print text as it is on standard output; characters that its encoding lacks are escaped."""
    with _standard_output():
        print(_encodable(text, sys.stdout))


@contextmanager
def binary_output() -> Iterator[IO[bytes]]:
    """Return standard output as a stream of bytes."""
    with _standard_output():
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


def flush() -> int:
    """Write out what is left of standard output, and return the exit code for success."""
    with _standard_output():
        sys.stdout.flush()
    return 0


@contextmanager
def _standard_output() -> Iterator[None]:
    """Name standard output in write errors, and leave nothing to a later flush."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or "standard output"
        abandon(sys.stdout)
        raise


def complain(text: str) -> None:
    """Print a message on standard error."""
    tell(f"calibrant: {message_of(text)}\n")


def tell(text: str) -> None:
    """Write to standard error, if that is possible."""
    try:
        sys.stderr.write(_encodable(text, sys.stderr))
        sys.stderr.flush()
    except (OSError, ValueError):  # full, without a reader, or closed
        abandon(sys.stderr)


def open_closed_streams() -> None:
    """Open the standard streams that the caller closed.

    Otherwise the next file to be opened would get their number, and receive what any library
    writes there. Writing to what is opened here fails: an undelivered result is an error.
    """
    while (handle := os.open(os.devnull, os.O_RDONLY)) <= 2:
        pass
    os.close(handle)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def abandon(stream: TextIO) -> None:
    """Point a stream nowhere, so that Python's last flush does not change the exit code."""
    with suppress(OSError, ValueError):  # one in memory, or closed, has no descriptor
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)


def _encodable(text: str, stream: TextIO) -> str:
    """Escape characters that a stream cannot encode, such as accents in ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def message_of(text: str) -> str:
    """Return a message of bounded length that cannot control a terminal."""
    return shortened(printable(text), LONGEST_MESSAGE)


def printable(text: str) -> str:
    r"""Escape control sequences, and shorten endless words.

    Control characters, escape sequences, surrogates and marks that turn the direction of text are
    shown as ``\x1b`` or ``\u202e``; right-to-left letters are text like any other.

    Examples
    --------
    >>> print(printable("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    """
    escaped = "".join(
        char.encode("unicode_escape", "surrogatepass").decode("ascii")
        if char != "\n" and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        else char
        for char in text
    )
    lines = (line.split(" ") for line in escaped.split("\n"))
    return "\n".join(" ".join(shortened(word, LONGEST_WORD) for word in line) for line in lines)


def name_of(thing: object, most: int = 40) -> str:
    """Return the name of a class, column or file on one short line."""
    return shortened(printable(str(thing).replace("\n", "\\n")), most)


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning and end if it is longer than `most`."""
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail - 3]}...{text[len(text) - tail :]}"


def aligned(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Lay out rows of text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        (indent + "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    )


class ProgressLine:
    """One line on standard error that is redrawn in place on a terminal; nothing in a pipe."""

    def __init__(self) -> None:
        self.is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.erase()

    def erase(self) -> None:
        """Remove the line."""
        if self.is_live:
            tell(ERASE_LINE)

    def is_due(self) -> bool:
        """Return whether it is time to draw again."""
        return self.is_live and time.monotonic() - self._drawn >= REDRAW_SECONDS

    def draw(self, before: str, share: float, after: str) -> None:
        """Show a meter between two texts."""
        self._drawn = time.monotonic()
        full = round(METER_WIDTH * min(share, 1.0))
        meter = "#" * full + "-" * (METER_WIDTH - full)
        tell(f"{ERASE_LINE}{before}[{meter}] {share:4.0%}  {after}")


class Bar(ProgressLine):
    """The share of the bytes of some files that has been read."""

    def __init__(self, what: str, files: Sequence[File]) -> None:
        super().__init__()
        self.what, self.files, self.n_rows = what, files, 0
        sizes = [os.path.getsize(file.path) if self.is_live else 1 for file in files]
        self._before = [sum(sizes[:i]) / max(sum(sizes), 1) for i in range(len(sizes) + 1)]

    def show(self, number: int, share: float, n_rows: int) -> None:
        """Say that of file `number` this share has been read, `n_rows` rows more."""
        self.n_rows += n_rows
        if not self.is_due():
            return
        low, high = self._before[number], self._before[number + 1]
        which = f" ({number + 1} of {len(self.files)})" if len(self.files) > 1 else ""
        name = name_of(os.path.basename(self.files[number].shown), 30)
        rows = f"{self.n_rows:,} rows  {name}{which}"
        self.draw(f"{self.what} ", low + share * (high - low), rows)


def in_options(text: str) -> str:
    """Call arguments of the library by the names of the options.

    >>> in_options("Name the event with pos_label=, or both labels with classes=(no, yes).")
    'Name the event with --pos-label, or both labels with --classes no,yes.'
    >>> in_options('If these are logits, pass input="logits", or apply a sigmoid first.')
    'If these are logits, pass --input logits, or apply a sigmoid first.'
    """
    text = text.replace("classes=(no, yes)", "--classes no,yes")
    text = text.replace("a rule such as EqualMass(15), or edges", "or edges")
    text = text.replace("bins=Distinct()", "bins=distinct")
    text = re.sub(r'\binput="(logits|probabilities)"', r"--input \1", text)
    text = text.replace("allow_repeat=True", "--allow-repeat")

    def option(name: re.Match[str]) -> str:
        return f"--{name[1].replace('_', '-')}{'' if name[2] in (*',.;)', '') else ' '}"

    return OPTION.sub(option, text)


@contextmanager
def about(path: str) -> Iterator[None]:
    """Name the file in exceptions about its content."""
    try:
        yield
    except CalibrantError as error:
        raise type(error)(f"{path}: {error}") from error
