"""Messages of the library in the words of the command line: file, column, row, option."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from calibrant.exceptions import CalibrantError, InvalidArgumentError

if TYPE_CHECKING:
    from calibrant.files.reading import Chunk

PLACE = re.compile(r"y_(true|prob)\[(\d+)(?:, (\d+))?\] = ")
OPTION = re.compile(r"\b(classes|pos_label|kind|bins|norm|confidence_level|max_error)=(?=(\S?))")


@contextmanager
def located(chunk: Chunk) -> Iterator[None]:
    """Raise exceptions about a chunk of rows again, saying where in which file the rows are."""
    try:
        yield
    except InvalidArgumentError:
        raise
    except CalibrantError as error:
        last = chunk.start + len(chunk)
        rows = f"rows {chunk.start + 1:,} to {last:,}"
        text = PLACE.sub(lambda found: _place(found, chunk), str(error))
        raise type(error)(f"{chunk.file.shown}, {rows}: {text}") from error


def _place(found: re.Match[str], chunk: Chunk) -> str:
    column, row, position = found.groups()
    name = chunk.label_name
    if column == "prob":
        name = chunk.names[int(position or 0)] if len(chunk.names) > 1 else chunk.names[0]
    return f"column {name!r:.80}, row {chunk.start + int(row) + 1:,} = "


def in_options(text: str) -> str:
    """Call arguments of the library by the names of the options.

    >>> in_options("Name the event with pos_label=, or both labels with classes=(no, yes).")
    'Name the event with --pos-label, or both labels with --classes no,yes.'
    >>> in_options('If these are logits, pass input="logits", or apply a sigmoid first.')
    'If these are logits, apply a sigmoid first.'
    """
    text = text.replace("classes=(no, yes)", "--classes no,yes")
    text = text.replace("a rule such as EqualMass(15), or edges", "or edges")
    text = text.replace('pass input="logits", or ', "")  # which no command offers
    return OPTION.sub(_option, text)


def _option(found: re.Match[str]) -> str:
    space = "" if found[2] in (",", ".", ";", ")", "") else " "
    return f"--{found[1].replace('_', '-')}{space}"


@contextmanager
def about(path: str) -> Iterator[None]:
    """Raise exceptions again, saying which file they are about."""
    try:
        yield
    except CalibrantError as error:
        raise type(error)(f"{path}: {error}") from error
