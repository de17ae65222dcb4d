"""What is printed for people: nothing in it can move the cursor, and nothing is endless."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

LONGEST_WORD = 120
LONGEST_MESSAGE = 4_000


def say(text: str = "") -> None:
    """Print a result on standard output."""
    print(printable(text))


def complain(text: str) -> None:
    """Print a message on standard error."""
    print(f"calibrant: {message_of(text)}", file=sys.stderr, flush=True)


def message_of(text: str) -> str:
    """Return a message that a terminal only shows, of bounded length."""
    return shortened(printable(text), LONGEST_MESSAGE)


def printable(text: str) -> str:
    r"""Escape what a terminal would obey, and shorten endless words.

    Control characters, escape sequences, surrogates and marks that turn the direction of text are
    shown as ``\x1b`` or ``\u202e``; right-to-left letters are text like any other.

    Examples
    --------
    >>> print(printable("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    """
    escaped = "".join(_escaped(char) for char in text)
    return "\n".join(
        " ".join(shortened(word, LONGEST_WORD) for word in line.split(" "))
        for line in escaped.split("\n")
    )


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


def _escaped(char: str) -> str:
    if char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
