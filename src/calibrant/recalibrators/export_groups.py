"""Conditions of groups for exports: which rows of a database or a data frame are in a group.

Whatever is in none, NULL or unknown, fails every condition and gets the pooled repair. NaN fails
them too: each bound of an interval is written such that it does, in databases where NaN is greater
than all numbers as in those where it is comparable to none (``-x < -a`` for ``x > a``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from calibrant.exceptions import InvalidArgumentError, InvalidGroupsError
from calibrant.groups import GroupColumn, GroupLabel

if TYPE_CHECKING:
    from calibrant.recalibrators.by_group import ByGroup

Equals = Callable[[str, str], str]
"""SQL that a column (first) is a text (second), to the last letter."""


def equals_doubled(x: str, text: str) -> str:
    """Compare with a literal of standard SQL, in which a quotation mark is doubled."""
    doubled = _writable(text).replace("'", "''")
    return f"{x} = '{doubled}'"


def equals_escaped(x: str, text: str) -> str:
    """Compare with a literal in which a backslash escapes."""
    escaped = _writable(text).replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"{x} = '{escaped}'"


def equals_binary(x: str, text: str) -> str:
    """Compare as SQLite does, whatever collation the column was declared with."""
    return f"{equals_doubled(x, text)} COLLATE BINARY"


def equals_hex(x: str, text: str) -> str:
    """Compare bytes: MySQL's texts are equal without regard to case and to blanks at the end."""
    return f"HEX(CONVERT({x} USING utf8mb4)) = '{_writable(text).encode().hex().upper()}'"


def _writable(text: str) -> str:
    if "\0" in text or any("\ud800" <= letter < "\ue000" for letter in text):
        raise InvalidGroupsError(
            f"A group must be named by text that SQL can hold; {text!r:.60} has a zero byte or "
            "half of a character. Rename the group and fit again."
        )
    return text


def group_names(recalibrator: Any, by: Any) -> tuple[str, ...]:
    """Return the names of the columns of groups: those of the fit, unless `by` names others."""
    own = tuple(column.name for column in getattr(recalibrator, "by_", ()))
    if by is None:
        return own
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if len(names) != len(own) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"by must name the {len(own)} columns of groups, {', '.join(own):.100}, in this order; "
            f"got {by!r:.60}. Leave it out where they are called so."
        )
    return names


def outside_in_sql(column: GroupColumn, x: str, number: Callable[[float], str]) -> str | None:
    """Return SQL that a number lies outside the cuts, which `predict_proba` would refuse."""
    low, high = (column.cuts or (-math.inf,))[0], (column.cuts or (math.inf,))[-1]
    sides = [f"{x} < {number(low)}"] if low > -math.inf else []
    sides += [f"-{x} < {number(-high)}"] if high < math.inf else []
    return " OR ".join(sides) or None


def interval_in_sql(
    column: GroupColumn, label: GroupLabel, x: str, number: Callable[[float], str]
) -> str:
    """Return SQL that a number lies in one of the intervals between the cuts."""
    low, high, first = _interval(column, label)
    sides = [f"-{x} {'<=' if first else '<'} {number(-low)}"] if low > -math.inf else []
    sides += [f"{x} <= {number(high)}"] if high < math.inf else []
    return " AND ".join(sides) or f"({x} <= 0 OR -{x} < 0)"


def _interval(column: GroupColumn, label: GroupLabel) -> tuple[float, float, bool]:
    place, cuts = column.intervals.index(str(label)), column.cuts or ()
    return cuts[place], cuts[place + 1], place == 0


def check_types_of_groups(fitted: ByGroup, names: Sequence[str], schema: Any) -> None:
    """Refuse columns of a frame that the labels of the fit would never equal."""
    for i, (column, name) in enumerate(zip(fitted.by_, names, strict=True)):
        dtype, kinds = schema[name], {isinstance(labels[i], str) for labels in fitted.groups_}
        text = {"String", "Categorical", "Enum", "Object"}
        is_text = type(dtype).__name__ in text or str(dtype) in text
        numeric = dtype.is_numeric() or str(dtype) == "Boolean"
        wants_numbers = column.cuts is not None or kinds == {False}
        if (wants_numbers and not (numeric or str(dtype) in ("Object", "Unknown"))) or (
            not wants_numbers and kinds == {True} and not is_text and str(dtype) != "Unknown"
        ):
            raise InvalidGroupsError(
                f"The column of groups {name!r:.60} must hold "
                f"{'numbers' if wants_numbers else 'text'}, as in the fit; it is of type {dtype}. "
                "Convert it first."
            )


class FrameGroups:
    """Expressions of groups: which rows of a frame are in which."""

    def __init__(self, fitted: ByGroup, names: Sequence[str]) -> None:
        import narwhals as nw

        self.by, self.groups = fitted.by_, fitted.groups_
        self.columns = [
            nw.col(name) if column.cuts is None else nw.col(name).cast(nw.Float64)
            for column, name in zip(self.by, names, strict=True)
        ]

    def inside(self, valid: Any) -> Any:
        """Return where predictions are valid and numbers lie within their cuts."""
        for column, x in zip(self.by, self.columns, strict=True):
            if column.cuts is not None:
                outside = (x < column.cuts[0]) | (-x < -column.cuts[-1])
                valid = valid & ~outside.fill_null(False)
        return valid

    def chosen(self, parts: Sequence[Any], otherwise: Any) -> Any:
        """Return the part of each row's group, found by halves of the labels of each column."""
        return self._by_column(0, list(range(len(self.groups))), parts, otherwise)

    def _by_column(self, i: int, members: list[int], parts: Sequence[Any], otherwise: Any) -> Any:
        if i == len(self.by):
            return parts[members[0]]
        by_label: dict[GroupLabel, list[int]] = {}
        for member in members:
            by_label.setdefault(self.groups[member][i], []).append(member)
        inner = {
            label: self._by_column(i + 1, own, parts, otherwise) for label, own in by_label.items()
        }
        return self._by_halves(i, list(inner), inner, otherwise)

    def _by_halves(
        self, i: int, labels: list[GroupLabel], inner: dict[GroupLabel, Any], otherwise: Any
    ) -> Any:
        import narwhals as nw

        if len(labels) == 1:
            return nw.when(self._is_in(i, labels)).then(inner[labels[0]]).otherwise(otherwise)
        half = len(labels) // 2
        first, rest = (
            self._by_halves(i, part, inner, otherwise) for part in (labels[:half], labels[half:])
        )
        return nw.when(self._is_in(i, labels[:half])).then(first).otherwise(rest)

    def _is_in(self, i: int, labels: list[GroupLabel]) -> Any:
        column, x = self.by[i], self.columns[i]
        if column.cuts is None:
            return x.is_in(labels)
        intervals = [_interval(column, label) for label in labels]
        return reduce(
            or_,
            [(x >= low if first else x > low) & (x <= high) for low, high, first in intervals],
        )
