"""What an option is, asked before its value is compared: any object may come as one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from calibrant.exceptions import InvalidArgumentError


def is_real(value: Any) -> bool:
    """Return whether a value is a real number that a float can hold, and not a boolean."""
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_integer(value: Any) -> bool:
    """Return whether a value is a whole number that a float can hold, and not a boolean."""
    if type(value) is int and abs(value) < 1 << 53:  # nearly all values: fast
        return True
    return isinstance(value, Integral) and is_real(value)


def is_among(value: Any, choices: Iterable[str]) -> bool:
    """Return whether a value is one of these words."""
    return isinstance(value, str) and value in tuple(choices)


def check_word(name: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value that is none of these words."""
    if not is_among(value, choices):
        *first, last = (f'"{word}"' for word in choices)
        raise InvalidArgumentError(
            f"{name} must be {', '.join(first)} or {last}; got {value!r:.60}."
        )


def check_flag(name: str, value: Any) -> None:
    """Refuse a value that is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgumentError(f"{name} must be True or False; got {value!r:.60}.")


def generator(name: str, seed: Any) -> np.random.Generator:
    """Return the random generator that a seed, a generator or None stands for."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"{name} must be None, a whole number >= 0 or a numpy.random.Generator; "
            f"got {seed!r:.60}."
        ) from error
