"""What all results share: they print, travel, and those that are a number read as one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass
from numbers import Real
from textwrap import fill, wrap
from typing import Any, ClassVar, Self

from calibrant._json import json_text, plain
from calibrant._types import ReadOnlyArrays
from calibrant.exceptions import InvalidArgumentError

LINE_WIDTH = 79
"""Characters of a printed line: a terminal of 80 columns shows it whole."""


class Result(ReadOnlyArrays):
    """Base of results, for frozen dataclasses made with ``repr=False``.

    ``str`` is a few readable lines that fit into a terminal; ``repr`` is one line; a notebook
    shows a table of `_facts` and a `_picture`, if there are any; and `to_dict` holds what JSON
    can hold. A class writes `_summary`, and ``__str__`` where there is more to say.
    """

    _left_behind: ClassVar[tuple[str, ...]] = ()
    """Members that do not go into a pickle, such as the rows: None takes their place."""

    def __str__(self) -> str:
        return filled(self._summary())

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._summary()}>"

    def _summary(self) -> str:
        """Return one line that says what this is."""
        return str(self).partition("\n")[0]

    def _facts(self) -> Iterable[tuple[str, str]]:
        """Return the lines of the table that a notebook shows: what, and its value."""
        return ()

    def _picture(self) -> str:
        """Return the SVG picture that a notebook shows, if there is one."""
        return ""

    def _repr_html_(self) -> str:
        from calibrant._html import element  # needed in notebooks only

        facts = [element("tr", element("th", k), element("td", v)) for k, v in self._facts()]
        text = element("table", *facts) if facts else element("pre", str(self))
        return f"{text}{self._picture()}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; None for what is infinite or undefined."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)  # type: ignore[arg-type]
            if field.name not in self._left_behind
        }

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json_text(self.to_dict())

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), **dict.fromkeys(self._left_behind)}

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copied = object.__new__(type(self))
        copied.__setstate__(
            {
                name: value if name in self._left_behind else deepcopy(value, memo)
                for name, value in vars(self).items()
            }
        )
        return copied


def shown_chance(p: float, digits: int) -> str:
    """Return a p-value as text; one below what a float64 holds is not 0."""
    return "p < 1e-300" if p < 1e-300 else f"p = {p:.{digits}g}"


class NumberResult(Result):
    """A result that reads as its `value`, for frozen dataclasses made with ``eq=False`` as well.

    ``float(result)``, ``round(result, 3)``, ``f"{result:.3f}"`` and ``result < 0.05`` do what they
    do for the number. Two results compare by their values if they measure the same.
    """

    value: float

    def _measure(self) -> str:
        """Return what is measured: results of different measures cannot be ordered."""
        return type(self).__name__

    def __float__(self) -> float:
        return self.value

    def __round__(self, ndigits: int | None = None) -> float:
        return round(self.value, ndigits)

    def __format__(self, spec: str) -> str:
        return format(self.value, spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, NumberResult):
            return (self._measure(), self.value) == (other._measure(), other.value)
        return bool(self.value == other) if isinstance(other, Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __lt__(self, other: object) -> bool:
        return self._compare(operator.lt, other)

    def __le__(self, other: object) -> bool:
        return self._compare(operator.le, other)

    def __gt__(self, other: object) -> bool:
        return self._compare(operator.gt, other)

    def __ge__(self, other: object) -> bool:
        return self._compare(operator.ge, other)

    def _compare(self, relation: Callable[[float, Any], bool], other: object) -> bool:
        if isinstance(other, Real):
            return bool(relation(self.value, other))
        if not isinstance(other, NumberResult):
            return NotImplemented  # type: ignore[no-any-return]
        if self._measure() != other._measure():
            raise InvalidArgumentError(
                f"Only results of the same norm and kind can be ordered; these are "
                f"{self._measure()} and {other._measure()}. Measure both alike, or compare their "
                "values as floats."
            )
        return bool(relation(self.value, other.value))


def statement(summary: str, assumptions: Iterable[str], verdict: str | None = None) -> str:
    """Return what is proved and what it rests on, in lines that fit into a terminal."""
    return "\n".join([filled(summary), *rests_on(assumptions, verdict)])


def rests_on(assumptions: Iterable[str], verdict: str | None = None) -> list[str]:
    """Return the list of what must be true for a proof to hold."""
    heading = "The bounds hold if" if verdict == "undecided" else "It holds if"
    return [heading, *(filled(f"  - {assumption}", "    ") for assumption in assumptions)]


def filled(text: str, indent: str = "  ") -> str:
    """Return a sentence in lines that fit into a terminal, the later ones indented."""
    together = text.replace(" = ", "\xa0=\xa0").replace(" <= ", "\xa0<=\xa0")  # not torn
    together = re.sub(r"\[[^][ ]+, [^][ ]+\]", lambda m: m[0].replace(" ", "\xa0"), together)
    together = re.sub(r" ([-+]) (\w+) (?=\d)", " \\1\xa0\\2\xa0", together)  # nor terms
    lines = fill(
        together,
        LINE_WIDTH,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return lines.replace("\xa0", " ")


def ended(text: str) -> str:
    """Return several sentences with a period after the last; a phrase stays as it is."""
    return f"{text}." if ". " in text and not text.endswith(".") else text


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    r"""Return the lines of a table: the first column to the left, the others to the right.

    Columns for which a line has no room follow in a second table, which begins with the first
    column again; a long name in that column goes on below.

    Examples
    --------
    >>> print("\n".join(text_table(["grade", "rows"], [["A", "1,200"], ["B", "90"]])))
    grade   rows
    A      1,200
    B         90
    """
    names = [wrap(row[0], LINE_WIDTH // 2, subsequent_indent="  ") or [""] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    widths[0] = max(len(line) for name in names for line in name)
    lines: list[str] = []
    for block in _blocks(widths):
        lines += [""] if lines else []
        for (name, *rest), row in zip(names, (head, *rows), strict=True):
            cells = [name.ljust(widths[0]), *(row[i].rjust(widths[i]) for i in block)]
            lines += ["  ".join(cells).rstrip(), *rest]
    return lines


def _blocks(widths: Sequence[int]) -> list[range]:
    """Return which columns stand in which table: as few tables as there is room for, evenly."""
    n = len(widths) - 1
    for size in range(n, 0, -1):
        size = -(-n // -(-n // size))  # as many tables, the last one no shorter than need be
        blocks = [range(i, min(i + size, n + 1)) for i in range(1, n + 1, size)]
        if all(widths[0] + sum(2 + widths[i] for i in columns) <= LINE_WIDTH for columns in blocks):
            return blocks
    return [range(i, i + 1) for i in range(1, n + 1)]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(member) for member in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return plain(value)
