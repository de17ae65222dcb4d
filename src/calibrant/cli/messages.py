"""Messages of the library in the words of the command line: options, and the file concerned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from calibrant.exceptions import CalibrantError

OPTION = re.compile(
    r"\b(y_true|y_prob|sample_weight|classes|pos_label|kind|bins|norm|confidence_level|max_error|grades|by)="
    r"(?=(\S?))"
)


def in_options(text: str) -> str:
    """Call arguments of the library by the names of the options.

    >>> in_options("Name the event with pos_label=, or both labels with classes=(no, yes).")
    'Name the event with --pos-label, or both labels with --classes no,yes.'
    >>> in_options('If these are logits, pass input="logits", or apply a sigmoid first.')
    'If these are logits, pass --input logits, or apply a sigmoid first.'
    """
    text = text.replace("classes=(no, yes)", "--classes no,yes")
    text = text.replace("a rule such as EqualMass(15), or edges", "or edges")
    text = text.replace('input="logits"', "--input logits")
    text = text.replace("allow_repeat=True", "--allow-repeat")
    return OPTION.sub(_option, text)


def _option(name: re.Match[str]) -> str:
    space = "" if name[2] in (",", ".", ";", ")", "") else " "
    return f"--{name[1].replace('_', '-')}{space}"


@contextmanager
def about(path: str) -> Iterator[None]:
    """Raise exceptions again, saying which file they are about."""
    try:
        yield
    except CalibrantError as error:
        raise type(error)(f"{path}: {error}") from error
