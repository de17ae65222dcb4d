"""What options may say. Values are checked here without loading NumPy."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrant.bins import BinsLike

RULES = {"mass": "EqualMass", "width": "EqualWidth", "hybrid": "Hybrid"}
NORMS = ("l1", "l2", "max")
KINDS = ("binary", "top-label", "marginal")
MOST_DIGITS = 15
"""Of a whole number: what a float holds exactly, and more than any machine counts."""


def bins_text(text: str) -> str:
    """Check what stands after --bins."""
    name, _, number = text.rpartition(":")
    if text in ("auto", "distinct") or (_is_whole(number) and name in ("", *RULES)):
        if _is_whole(number) and int(number) < 1:
            raise argparse.ArgumentTypeError(f"expected at least 1 bin; got {text!r}")
        return text
    raise argparse.ArgumentTypeError(
        f"expected auto, a number, mass:15, width:15, hybrid:15 or distinct; got {text!r}"
    )


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS


def read_bins(text: str) -> BinsLike:
    """Return the rule that stands after --bins."""
    from calibrant import bins

    if text == "auto":
        return "auto"
    if text == "distinct":
        return bins.Distinct()
    name, _, number = text.rpartition(":")
    rule: BinsLike = getattr(bins, RULES[name or "mass"])(int(number))
    return rule


def norm_value(text: str) -> str | float:
    """Read what stands after --norm: l1, l2, max or a number of at least 1."""
    try:
        return text if text in NORMS else _at_least_one(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected l1, l2, max or a number of at least 1; got {text!r}"
        ) from None


def _at_least_one(text: str) -> float:
    if not float(text) >= 1:
        raise ValueError
    return float(text)


def fraction(text: str) -> float:
    """Read a number strictly between 0 and 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if 0 < value < 1:
        return value
    raise argparse.ArgumentTypeError(f"expected a number between 0 and 1; got {text!r}")


def whole_number(text: str, least: int = 1) -> int:
    """Read a whole number of at least 1."""
    if _is_whole(text) and int(text) >= least:
        return int(text)
    raise argparse.ArgumentTypeError(
        f"expected a whole number of at least {least}, at most {MOST_DIGITS} digits; got {text!r}"
    )


def unicode_text(text: str) -> str:
    """Check that files can hold what was typed; bytes that are not UTF-8 arrive as surrogates."""
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        raise argparse.ArgumentTypeError(f"expected text of Unicode characters; got {text!r}")
    return text


def label(text: str) -> str | int | float:
    """Return a label as a number where it is one."""
    for read in (int, float):
        try:
            return read(text)
        except ValueError:  # not a number, or one of more digits than Python reads
            continue
    return text


def labels(text: str) -> list[str | int | float]:
    """Read comma-separated labels: numbers if all of them are, else text."""
    texts = text.split(",")
    values = [label(each) for each in texts]
    return [*texts] if any(isinstance(value, str) for value in values) else values
