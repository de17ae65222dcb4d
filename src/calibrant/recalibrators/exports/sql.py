"""The formula of a fitted recalibrator as an expression of SQL.

Whatever is in no group, NULL or unknown, fails every condition and gets the pooled repair. NaN
fails them too: each bound of an interval is written such that it does, in databases where NaN is
greater than all numbers as in those where it is comparable to none (``-x < -a`` for ``x > a``).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, InvalidGroupsError
from calibrant.groups import GroupColumn, GroupLabel
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.reading import check_of_one_column

if TYPE_CHECKING:
    from calibrant.recalibrators.by_group import ByGroup

STEEPEST = 700
"""Beyond this, exp overflows or the answer is 0 or 1 to the last bit."""


def _decimal(x: float) -> str:
    """Write a float64 so that it is read back exactly; negative ones in brackets."""
    text = f"{float(x):.16e}"
    return f"({text})" if text.startswith("-") else text


def _fraction(x: float) -> str:
    """Write a float64 as a whole number times or over powers of 2, which is exact.

    SQLite reads one decimal number in a thousand as its neighbour (seen in 3.40).
    """
    mantissa, exponent = math.frexp(float(x))
    text, exponent = f"{int(mantissa * 2**53)}.0", exponent - 53
    operator, left = ("*", exponent) if exponent > 0 else ("/", -exponent)
    while left > 0:
        text += f" {operator} {2 ** min(left, 52)}.0"
        left -= 52
    return f"({text})"


Equals = Callable[[str, str], str]
"""SQL that a column (first) is a text (second), to the last letter."""


def equals_doubled(x: str, text: str) -> str:
    """Compare with a literal of standard SQL, in which a quotation mark is doubled."""
    doubled = text.replace("'", "''")
    return f"{x} = '{doubled}'"


def equals_escaped(x: str, text: str) -> str:
    """Compare with a literal in which a backslash escapes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"{x} = '{escaped}'"


def equals_binary(x: str, text: str) -> str:
    """Compare as SQLite does, whatever collation the column was declared with."""
    return f"{equals_doubled(x, text)} COLLATE BINARY"


def equals_hex(x: str, text: str) -> str:
    """Compare bytes: MySQL's texts are equal without regard to case and to blanks at the end."""
    return f"HEX(CONVERT({x} USING utf8mb4)) = '{text.encode().hex().upper()}'"


def _writable(text: str) -> str:
    if "\0" in text or any("\ud800" <= letter < "\ue000" for letter in text):
        raise InvalidGroupsError(
            f"A group must be named by text that SQL can hold; {text!r:.60} has a zero byte or "
            "half of a character. Rename the group and fit again."
        )
    return text


@dataclass(frozen=True)
class Dialect:
    """How a database writes names, float64 and numbers, the smaller of two, and equal texts.

    In a numeric column of some, `holds_text`, there can be text too.
    """

    mark: str
    float64: str
    number: Callable[[float], str] = _decimal
    least: str = "LEAST"
    greatest: str = "GREATEST"
    equals: Equals = equals_doubled
    holds_text: bool = False

    def clip(self, x: str, low: str, high: str) -> str:
        """Return a number kept within two others."""
        return f"{self.least}({self.greatest}({x}, {low}), {high})"


DIALECTS = {
    "ansi": Dialect('"', "DOUBLE PRECISION"),
    "bigquery": Dialect("`", "FLOAT64", equals=equals_escaped),
    "duckdb": Dialect('"', "DOUBLE"),
    "mysql": Dialect("`", "DOUBLE", equals=equals_hex),
    "postgresql": Dialect('"', "DOUBLE PRECISION"),
    "snowflake": Dialect('"', "DOUBLE", equals=equals_escaped),
    "spark": Dialect("`", "DOUBLE", equals=equals_escaped),
    "sqlite": Dialect('"', "REAL", _fraction, "MIN", "MAX", equals_binary, holds_text=True),
}

TINY_FACTOR, HUGE_FACTOR = 1e-100, 1e100
"""Scores beyond these count as 0 and as the larger, so that no product of them underflows or
overflows, which PostgreSQL answers with an error. No answer changes by more than rounding."""


def to_sql(
    recalibrator: Recalibrator,
    column: str,
    dialect: str = "duckdb",
    by: Sequence[str] | None = None,
) -> str:
    """Return an SQL expression of one column that equals `predict_proba`.

    Binned recalibrators become comparisons with the same float64 numbers, so the answers are
    the same to the last bit; scaling becomes logarithms and exponentials, which databases
    round in their own way. What `predict_proba` would refuse (NULL, NaN, infinity, a
    probability outside [0, 1]) becomes NULL. The name of the column is quoted.

    The column must be of a numeric type: MySQL reads other text as 0. SQLite, where a numeric
    column can hold text, gives NULL for text.

    Parameters
    ----------
    recalibrator : fitted recalibrator of one score
    column : str
        The column of predictions (or of logits, if that is the recalibrator's input).
    dialect : {"ansi", "bigquery", "duckdb", "mysql", "postgresql", "snowflake", "spark", "sqlite"}
    by : sequence of str, optional
        The columns of groups of a `ByGroup`, where they are called otherwise than in its fit.

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> binned = HistogramBinning(bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> print(to_sql(binned, "score"))
    CASE WHEN CAST("score" AS DOUBLE) >= 0 AND CAST("score" AS DOUBLE) <= 1 THEN CAST(
    CASE WHEN CAST("score" AS DOUBLE) <= 5.0000000000000000e-01 THEN 5.0000000000000000e-01
    ELSE 1.0000000000000000e+00 END
    AS DOUBLE) END
    """
    check_of_one_column(recalibrator, "to_sql", "SQL")
    if dialect not in DIALECTS:
        raise InvalidArgumentError(
            f"dialect must be one of {', '.join(DIALECTS)}; got {dialect!r:.60}."
        )
    name, sql = quote(column, dialect), DIALECTS[dialect]
    x = f"CAST({name} AS {sql.float64})"
    groups = tuple(quote(group, dialect) for group in group_names(recalibrator, by))
    operations = _SqlOperations(sql, groups)
    answer = recalibrator._formula(operations, _Sql(x, sql), recalibrator)
    # It says what must hold, not what must not: NaN is greater than all numbers in some databases
    # and comparable to none in others, and fails this condition in both.
    valid = f"{x} >= 0 AND {x} <= 1"
    if recalibrator.input == "logits":
        largest = sys.float_info.max
        valid = f"{x} >= {sql.number(-largest)} AND {x} <= {sql.number(largest)}"
    if sql.holds_text:
        valid = f"TYPEOF({name}) IN ('integer', 'real') AND {valid}"
    refused = operations.outside(getattr(recalibrator, "by_", ()))
    # PostgreSQL reads 5e-01 as a decimal number, so the answer is cast too.
    return f"CASE {refused}WHEN {valid} THEN CAST(\n{answer.text}\nAS {sql.float64}) END"


def quote(name: str, dialect: str) -> str:
    """Quote an identifier, so that no name can end the quotation."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"A column needs a name; got {name!r:.60}.")
    mark = DIALECTS[dialect].mark
    if dialect == "bigquery":
        escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n")
    else:
        escaped = name.replace(mark, mark * 2)
    return f"{mark}{escaped}{mark}"


def _operator(symbol: str, reflected: bool = False) -> Callable[[_Sql, Any], _Sql]:
    """Return a method of arithmetic that writes it."""

    def method(own: _Sql, other: Any) -> _Sql:
        left, right = (other, own) if reflected else (own, other)
        return _Sql(f"({own._operand(left)} {symbol} {own._operand(right)})", own.dialect)

    return method


@dataclass(frozen=True)
class _Sql:
    """An SQL expression, in brackets where it needs them."""

    text: str
    dialect: Dialect

    def _operand(self, x: Any) -> str:
        if isinstance(x, _Sql):
            return x.text
        return str(x) if type(x) is int else self.dialect.number(x)

    __add__, __mul__, __truediv__ = _operator("+"), _operator("*"), _operator("/")
    __sub__, __rsub__ = _operator("-"), _operator("-", reflected=True)

    def __neg__(self) -> _Sql:
        return _Sql(f"(-{self.text})", self.dialect)


@dataclass(frozen=True)
class _SqlOperations:
    """The operations of formulas, as SQL of one dialect, with the quoted columns of groups."""

    dialect: Dialect
    groups: tuple[str, ...] = ()
    target = "SQL"
    pooled = None

    def log(self, x: _Sql) -> _Sql:
        return _Sql(f"LN({x.text})", self.dialect)

    def log_complement(self, x: _Sql) -> _Sql:
        return self.log(1 - x)

    def sigmoid(self, x: _Sql) -> _Sql:
        steep = self.dialect.clip((-x).text, f"-{STEEPEST}", f"{STEEPEST}")
        return _Sql(f"(1 / (1 + EXP({steep})))", self.dialect)

    def clip(self, x: _Sql, low: float, high: float) -> _Sql:
        number = self.dialect.number
        return _Sql(self.dialect.clip(x.text, number(low), number(high)), self.dialect)

    def factor(self, x: _Sql) -> _Sql:
        tiny, within = self.dialect.number(TINY_FACTOR), self.clip(x, -HUGE_FACTOR, HUGE_FACTOR)
        text = f"CASE WHEN ABS({x.text}) < {tiny} THEN 0 ELSE {within.text} END"
        return _Sql(f"({text})", self.dialect)

    def steps(self, x: _Sql, cuts: FloatArray, levels: FloatArray) -> _Sql:
        number = self.dialect.number
        if cuts.size == 0:
            return _Sql(number(levels[0]), self.dialect)
        whens = [
            f"WHEN {x.text} <= {number(cut)} THEN {number(level)}"
            for cut, level in zip(cuts, levels[:-1], strict=True)
        ]
        lines = ["CASE " + whens[0], *whens[1:], f"ELSE {number(levels[-1])} END"]
        return _Sql("\n".join(lines), self.dialect)

    def by_group(self, fitted: ByGroup, parts: Sequence[_Sql], otherwise: _Sql) -> _Sql:
        """Return the part of each row's group."""
        return _Sql(f"{self._cases(fitted, parts)} ELSE\n{otherwise.text}\nEND", self.dialect)

    def shifted_by_group(self, fitted: ByGroup, odds: _Sql, pooled: _Sql) -> _Sql:
        """Return answers with the log-odds of each row's group shifted, where it is known."""
        number = self.dialect.number
        shifts = [_Sql(number(shift), self.dialect) for shift in fitted.shifts_.tolist()]
        shift = _Sql(f"({self._cases(fitted, shifts)} END)", self.dialect)
        own = self.sigmoid(odds + shift)
        text = f"WHEN {shift.text} IS NOT NULL THEN\n{own.text}\nELSE {pooled.text} END"
        return _Sql(f"CASE {text}", self.dialect)

    def _cases(self, fitted: ByGroup, parts: Sequence[_Sql]) -> str:
        whens = [
            f"WHEN {self._condition(fitted, labels)} THEN {part.text}"
            for labels, part in zip(fitted.groups_, parts, strict=True)
        ]
        return "CASE " + "\n".join(whens)

    def _condition(self, fitted: ByGroup, labels: tuple[GroupLabel, ...]) -> str:
        sides, number = [], self.dialect.number
        for column, name, label in zip(fitted.by_, self.groups, labels, strict=True):
            if column.cuts is not None:
                x, (low, high, first) = self._as_number(name), interval_of(column, label)
                above = [f"-{x} {'<=' if first else '<'} {number(-low)}"] if low > -math.inf else []
                below = [f"{x} <= {number(high)}"] if high < math.inf else []
                sides += above + below or [f"({x} <= 0 OR -{x} < 0)"]
            elif isinstance(label, str):
                sides.append(self.dialect.equals(name, _writable(label)))
            elif isinstance(label, float):
                sides.append(f"{name} = {number(label)}")
            else:
                sides.append(f"{name} = {str(label).upper()}")
        return " AND ".join(sides)

    def _as_number(self, name: str) -> str:
        return f"CAST({name} AS {self.dialect.float64})"

    def outside(self, by: tuple[GroupColumn, ...]) -> str:
        """Return the case of numbers outside their cuts, which `predict_proba` would refuse."""
        sides, number = [], self.dialect.number
        for column, name in zip(by, self.groups, strict=True):
            if column.cuts is not None:
                x, low, high = self._as_number(name), column.cuts[0], column.cuts[-1]
                sides += [f"{x} < {number(low)}"] if low > -math.inf else []
                sides += [f"-{x} < {number(-high)}"] if high < math.inf else []
                sides += [f"TYPEOF({name}) = 'text'"] if self.dialect.holds_text else []
        return f"WHEN {' OR '.join(sides)} THEN NULL\n" if sides else ""


def group_names(recalibrator: Any, by: Any) -> tuple[str, ...]:
    """Return the names of the columns of groups: those of the fit, unless `by` names others."""
    own = tuple(column.name for column in getattr(recalibrator, "by_", ()))
    if by is None:
        return own
    if not own:
        raise InvalidArgumentError(
            "by names the columns of groups of a ByGroup; this "
            f"{type(recalibrator).__name__} has none. Leave it out."
        )
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if len(names) != len(own) or not all(isinstance(name, str) for name in names):
        raise InvalidArgumentError(
            f"by must name the {len(own)} columns of groups, {', '.join(own):.100}, in this order; "
            f"got {by!r:.60}. Leave it out where they are called so."
        )
    return names


def interval_of(column: GroupColumn, label: GroupLabel) -> tuple[float, float, bool]:
    """Return the ends of the interval that a label names, and whether it is the first."""
    place, cuts = column.intervals.index(str(label)), column.cuts or ()
    return cuts[place], cuts[place + 1], place == 0
