"""Export: the formula of a fitted recalibrator as an expression of SQL or of a data frame."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant._types import FloatArray
from calibrant.engines.frame import blaming_columns
from calibrant.engines.frame_plan import exact_number
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.base import Recalibrator, check_of_one_column
from calibrant.sources.frames import as_frame, known_column, refuse_pattern, takes_patterns

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


@dataclass(frozen=True)
class Dialect:
    """How a database writes names, float64 and its numbers, and the smaller of two numbers."""

    mark: str
    float64: str
    number: Callable[[float], str] = _decimal
    least: str = "LEAST"
    greatest: str = "GREATEST"

    def clip(self, x: str, low: str, high: str) -> str:
        """Return a number kept within two others."""
        return f"{self.least}({self.greatest}({x}, {low}), {high})"


DIALECTS = {
    "ansi": Dialect('"', "DOUBLE PRECISION"),
    "bigquery": Dialect("`", "FLOAT64"),
    "duckdb": Dialect('"', "DOUBLE"),
    "mysql": Dialect("`", "DOUBLE"),
    "postgresql": Dialect('"', "DOUBLE PRECISION"),
    "snowflake": Dialect('"', "DOUBLE"),
    "spark": Dialect("`", "DOUBLE"),
    "sqlite": Dialect('"', "REAL", _fraction, "MIN", "MAX"),
}

TINY_FACTOR, HUGE_FACTOR = 1e-100, 1e100
"""Scores beyond these count as 0 and as the larger, so that no product of them underflows or
overflows, which PostgreSQL answers with an error. No answer changes by more than rounding."""


def to_sql(recalibrator: Recalibrator, column: str, dialect: str = "duckdb") -> str:
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
    answer = recalibrator._formula(_SqlOperations(sql), _Sql(x, sql), recalibrator)
    # It says what must hold, not what must not: NaN is greater than all numbers in some databases
    # and comparable to none in others, and fails this condition in both.
    valid = f"{x} >= 0 AND {x} <= 1"
    if recalibrator.input == "logits":
        largest = sys.float_info.max
        valid = f"{x} >= {sql.number(-largest)} AND {x} <= {sql.number(largest)}"
    if dialect == "sqlite":
        valid = f"TYPEOF({name}) IN ('integer', 'real') AND {valid}"
    # PostgreSQL reads 5e-01 as a decimal number, so the answer is cast too.
    return f"CASE WHEN {valid} THEN CAST(\n{answer.text}\nAS {sql.float64}) END"


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


@dataclass(frozen=True)
class _Sql:
    """An SQL expression, in brackets where it needs them."""

    text: str
    dialect: Dialect

    def _combined(self, left: Any, operator: str, right: Any) -> _Sql:
        texts = [self._operand(side) for side in (left, right)]
        return _Sql(f"({texts[0]} {operator} {texts[1]})", self.dialect)

    def _operand(self, x: Any) -> str:
        if isinstance(x, _Sql):
            return x.text
        return str(x) if type(x) is int else self.dialect.number(x)

    def __add__(self, other: Any) -> _Sql:
        return self._combined(self, "+", other)

    def __sub__(self, other: Any) -> _Sql:
        return self._combined(self, "-", other)

    def __rsub__(self, other: Any) -> _Sql:
        return self._combined(other, "-", self)

    def __mul__(self, other: Any) -> _Sql:
        return self._combined(self, "*", other)

    def __truediv__(self, other: Any) -> _Sql:
        return self._combined(self, "/", other)

    def __neg__(self) -> _Sql:
        return _Sql(f"(-{self.text})", self.dialect)


@dataclass(frozen=True)
class _SqlOperations:
    """The operations of formulas, as SQL of one dialect."""

    dialect: Dialect
    target = "SQL"

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


def apply_to_frame(
    recalibrator: Recalibrator, data: Any, column: str, *, output: str = "calibrated"
) -> Any:
    """Add a column of recalibrated predictions to a data frame, on the frame's own engine.

    Nothing is collected: a lazy frame stays lazy, and a cluster does the work. Binned
    recalibrators answer with the bits of `predict_proba`, scaling to rounding (1e-12). What
    `predict_proba` would refuse (missing, NaN, outside [0, 1]) becomes null.

    Parameters
    ----------
    recalibrator : fitted recalibrator of one score
        All but those of several classes.
    data : data frame
        pandas, Polars (also lazy), PyArrow, DuckDB, Dask, Spark, Ibis, ...
    column : str
        The predictions, or the logits if that is the recalibrator's input.
    output : str
        The name of the new column; that of `column` replaces it.

    Returns
    -------
    data frame
        Of the same kind as `data`. A PyArrow dataset becomes a DuckDB relation.

    Examples
    --------
    >>> import pandas as pd
    >>> from calibrant.recalibrators import HistogramBinning
    >>> binned = HistogramBinning(bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> binned.apply_to_frame(pd.DataFrame({"score": [0.1, 0.9]}), "score")
       score  calibrated
    0    0.1         0.5
    1    0.9         1.0
    """
    check_of_one_column(recalibrator, "An expression", "an expression of one column")
    frame = as_frame(data)
    columns = frame.collect_schema().names()
    known_column(column, columns)
    if takes_patterns(frame):
        refuse_pattern(column)
    if frame.implementation.is_duckdb() and "*" in columns:
        refuse_pattern("*")  # DuckDB would put all columns in the place of this one
    if not isinstance(output, str):
        raise InvalidArgumentError(
            f"output must be the name of the new column, as text; got {output!r:.60}."
        )
    if output != column and output in columns:
        raise InvalidArgumentError(
            f"The frame already has a column {output!r}; name the new one with output=."
        )
    if frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect():
        from pyspark.sql.functions import expr

        # An expression of narwhals guards every logarithm anew; Spark plans half a megabyte of it.
        return frame.to_native().withColumn(output, expr(to_sql(recalibrator, column, "spark")))
    recalibrated = _expression(recalibrator, column, exact_number(frame))
    with blaming_columns(frame, [column]):
        return frame.with_columns(recalibrated.alias(output)).to_native()


def to_expression(recalibrator: Recalibrator, column: str) -> Any:
    """Return a narwhals expression of one column that equals `predict_proba`.

    Takes what `apply_to_frame` takes, and can be used in any plan that narwhals builds. On Ibis,
    which rounds the numbers of an expression, only `apply_to_frame` is exact to the last bit.

    Examples
    --------
    >>> import narwhals as nw
    >>> import pandas as pd
    >>> from calibrant.recalibrators import PlattScaling
    >>> platt = PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> frame = nw.from_native(pd.DataFrame({"score": [0.5]}))
    >>> float(frame.select(platt.to_expression("score")).item())
    0.5
    """
    import narwhals as nw

    refuse_pattern(column)
    check_of_one_column(recalibrator, "An expression", "an expression of one column")
    return _expression(recalibrator, column, nw.lit)


def _expression(recalibrator: Recalibrator, column: str, number: Callable[[float], Any]) -> Any:
    import narwhals as nw

    x = nw.col(column).cast(nw.Float64)
    largest = sys.float_info.max if recalibrator.input == "logits" else 1.0
    valid = x.is_between(-largest if recalibrator.input == "logits" else 0.0, largest)
    return nw.when(valid).then(recalibrator._formula(_FrameOperations(number), x, recalibrator))


@dataclass(frozen=True)
class _FrameOperations:
    """The operations of formulas, as narwhals expressions with exact numbers."""

    number: Callable[[float], Any]
    target = "an expression of one column"

    def log(self, x: Any) -> Any:
        # Frames compute impossible rows too, and would warn of their logarithms.
        return self.clip(x, sys.float_info.min, sys.float_info.max).log()

    def log_complement(self, x: Any) -> Any:
        return self.log(1.0 - x)

    def sigmoid(self, x: Any) -> Any:
        return 1.0 / ((-self.clip(x, -STEEPEST, STEEPEST)).exp() + 1.0)

    def clip(self, x: Any, low: float, high: float) -> Any:
        # Not when-then: naming x three times at each of three levels makes plans of megabytes.
        return x.clip(float(low), float(high))

    def factor(self, x: Any) -> Any:
        return x

    def steps(self, x: Any, cuts: FloatArray, levels: FloatArray) -> Any:
        """Search the level by halves: as many comparisons as the number of bins has bits."""
        import narwhals as nw

        if cuts.size == 0:
            return self.number(float(levels[0]))
        middle = cuts.size // 2
        below = self.steps(x, cuts[:middle], levels[: middle + 1])
        above = self.steps(x, cuts[middle + 1 :], levels[middle + 1 :])
        return nw.when(x <= self.number(float(cuts[middle]))).then(below).otherwise(above)
