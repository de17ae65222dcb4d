"""The one reader of saved documents: strict JSON, bounded before anything is built from it.

A document may be hostile. Whatever is wrong with it is an InvalidDocumentError of one line:
nesting, size, repeated names, NaN, numbers beyond every float. What the entries mean is checked by
the caller, with the small checks below.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from calibrant.exceptions import InvalidDocumentError

MOST_BYTES = 512 << 20
"""A table of four million bins; parsed, a document takes up to 25 times its size in memory."""
MOST_DEPTH = 64
"""Tables nest 4 deep, recalibrators within recalibrators up to 40; the parser recurses."""
MOST_DIGITS = 300
"""Every whole number with at most this many digits is a finite float."""
LARGEST_COUNT = 2**53
"""Up to here floats count in steps of one."""

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def read_json(text: str | bytes, what: str, strict: bool = True) -> Any:
    """Parse a document that `what` names, such as "A table"; refuse what is not strict JSON.

    Where it is another program's, `strict` may be False: NaN and infinities are then read.

    >>> read_json('{"n": 3}', "A note")
    {'n': 3}
    """
    try:
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        if len(raw) > MOST_BYTES:
            raise InvalidDocumentError(
                f"{what} of more than {MOST_BYTES >> 20:,} MiB is not read; this has "
                f"{len(raw) >> 20:,} MiB."
            )
        _check_depth(raw, what)
        document = json.loads(
            raw.decode("utf-8-sig"),
            object_pairs_hook=_distinct_names,
            parse_constant=_refuse_constant if strict else float,
            parse_float=_finite_float if strict else float,
            parse_int=_bounded_int,
        )
        if _SURROGATE.search(raw.decode("utf-8-sig")):
            json.dumps(document, ensure_ascii=False).encode()  # refuses half of a surrogate pair
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidDocumentError):
            raise
        raise InvalidDocumentError(f"{what} must be valid JSON: {error!s:.200}.") from error
    except MemoryError as error:
        raise InvalidDocumentError(
            f"{what} is too large for the memory of this machine."
        ) from error
    return document


def _check_depth(raw: bytes, what: str) -> None:
    """Refuse deep nesting before the parser sees it."""
    brackets = np.frombuffer(_STRING.sub(b"", raw).translate(None, _BUT_BRACKETS), np.uint8)
    opening = (brackets == ord("[")) | (brackets == ord("{"))
    depth = int(np.cumsum(np.where(opening, 1, -1)).max(initial=0))
    if depth > MOST_DEPTH:
        raise InvalidDocumentError(
            f"{what} must not nest more than {MOST_DEPTH} deep; this document nests {depth:,} deep."
        )


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"{twice!r:.60} is there twice")
    return document


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON has")


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is beyond the range of numbers")
    return number


def _bounded_int(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"a whole number of {len(text):,} digits is beyond the range of numbers")
    return int(text)


def header(format_: str, schema: int) -> dict[str, Any]:
    """Return the two entries that every saved document begins with."""
    return {"format": format_, "schema": schema}


def check_header(
    document: Any, format_: str, schema: int, what: str, remedy: str
) -> dict[str, Any]:
    """Return the document; refuse another format, and another schema of this one.

    Tables and recalibrators once called their schema a version, a whole number.
    """
    if not isinstance(document, dict) or document.get("format") != format_:
        raise InvalidDocumentError(
            f'{what} must say "format": "{format_}"; this document does not.'
        )
    if "schema" not in document and type(document.get("version")) is int:
        document = {"schema" if k == "version" else k: v for k, v in document.items()}
    saved = document.get("schema")
    if type(saved) is not int or saved != schema:
        raise InvalidDocumentError(
            f"{what} must be of schema {schema}, which this calibrant reads; the document has "
            f"{shown(saved)}. {remedy}, or use the calibrant that made it."
        )
    return dict(document)


def check_names(document: Any, names: tuple[str, ...], what: str) -> dict[str, Any]:
    """Return the document if it is an object with exactly these entries."""
    if not isinstance(document, dict):
        raise InvalidDocumentError(f"{what} must be a JSON object; got {shown(document)}.")
    missing = [name for name in names if name not in document]
    if missing:
        raise InvalidDocumentError(f"{what} needs {missing[0]!r}; this document has none.")
    extra = [name for name in document if name not in names]
    if extra:
        raise InvalidDocumentError(
            f"{what} has an entry {shown(extra[0])} that is not known; remove it."
        )
    return document


def check_entries(
    document: dict[str, Any], allowed: Mapping[str, Callable[[Any], bool]], what: str
) -> None:
    """Refuse entries whose values are impossible; possible values are not verified."""
    for name, is_allowed in allowed.items():
        if not is_allowed(document[name]):
            raise InvalidDocumentError(f"{name!r} of {what} cannot be {shown(document[name])}.")


def is_whole(value: Any, low: int, high: int = LARGEST_COUNT) -> bool:
    """Return whether a value is a whole number in a range, and not a boolean."""
    return type(value) is int and low <= value <= high


def is_number(value: Any, low: float = -math.inf, high: float = math.inf) -> bool:
    """Return whether a value is a number in a range, and not a boolean."""
    return type(value) in (int, float) and low <= value <= high


def is_text(value: Any, longest: int) -> bool:
    """Return whether a value is printable text of one line and of bounded length."""
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def shown(value: Any) -> str:
    """Return a value as text of at most 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
