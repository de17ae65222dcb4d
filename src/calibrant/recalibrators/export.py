"""Export: a fitted recalibrator as an SQL expression."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.binning import BinnedRecalibrator
from calibrant.recalibrators.isotonic import IsotonicCalibration
from calibrant.recalibrators.matrix import VectorScaling
from calibrant.recalibrators.scaling import (
    BetaScaling,
    LogisticScaling,
    PlattScaling,
    QuadraticScaling,
)
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.smoothing import CLIP
from calibrant.recalibrators.temperature import TemperatureScaling


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

    def clipped(self, x: str, low: str, high: str) -> str:
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

TINY_LOGIT, HUGE_LOGIT = 1e-100, 1e100
"""Logits beyond these count as 0 and as the larger, so that no product of them underflows or
overflows, which PostgreSQL answers with an error. No answer changes by more than rounding."""


def to_sql(recalibrator: BinaryRecalibrator, column: str, dialect: str = "duckdb") -> str:
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
    >>> binned = HistogramBinning(n_bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> print(to_sql(binned, "score"))
    CASE WHEN CAST("score" AS DOUBLE) >= 0 AND CAST("score" AS DOUBLE) <= 1 THEN CAST(
    CASE WHEN CAST("score" AS DOUBLE) <= 5.0000000000000000e-01 THEN 5.0000000000000000e-01
    ELSE 1.0000000000000000e+00 END
    AS DOUBLE) END
    """
    if dialect not in DIALECTS:
        raise InvalidArgumentError(
            f"dialect must be one of {', '.join(DIALECTS)}; got {dialect!r:.60}."
        )
    name, sql = quote(column, dialect), DIALECTS[dialect]
    x = f"CAST({name} AS {sql.float64})"
    steps = step_function(recalibrator)
    answer = _case(x, *steps, sql) if steps else _formula(recalibrator, x, sql)
    recalibrator._check_one_column("to_sql")
    valid = _valid(recalibrator, x, sql)
    if dialect == "sqlite":
        valid = f"TYPEOF({name}) IN ('integer', 'real') AND {valid}"
    # PostgreSQL reads 5e-01 as a decimal number, so the answer is cast too.
    return f"CASE WHEN {valid} THEN CAST(\n{answer}\nAS {sql.float64}) END"


def _valid(recalibrator: Recalibrator, x: str, sql: Dialect) -> str:
    """Return the condition under which there is an answer.

    It says what must hold, not what must not: NaN is greater than all numbers in some
    databases and comparable to none in others, and fails this condition in both.
    """
    if getattr(recalibrator, "input", "probabilities") == "logits":
        largest = sys.float_info.max
        return f"{x} >= {sql.number(-largest)} AND {x} <= {sql.number(largest)}"
    return f"{x} >= 0 AND {x} <= 1"


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


def step_function(recalibrator: Recalibrator) -> tuple[FloatArray, FloatArray] | None:
    """Return (cuts, levels) of a recalibrator with finitely many outputs, else None.

    The output is ``levels[i]`` where i counts the cuts strictly below the input.
    """
    if isinstance(recalibrator, BinnedRecalibrator) and recalibrator.keep_order:
        raise InvalidArgumentError("Only levels are exported; set keep_order=False first.")
    if isinstance(recalibrator, ScalingBinning):
        if recalibrator.cuts_ is None:
            raise InvalidArgumentError(
                "The scaler of this ScalingBinning is not increasing, so its bins are no intervals "
                "of the input and cannot be exported."
            )
        return recalibrator.cuts_, recalibrator.levels_
    if isinstance(recalibrator, BinnedRecalibrator):
        return recalibrator.bins_.edges[1:-1], recalibrator.levels_
    if isinstance(recalibrator, IsotonicCalibration) and recalibrator.interpolation == "step":
        return recalibrator.x_, recalibrator.y_
    return None


def _case(x: str, cuts: FloatArray, levels: FloatArray, sql: Dialect) -> str:
    if cuts.size == 0:
        return sql.number(levels[0])
    whens = [
        f"WHEN {x} <= {sql.number(cut)} THEN {sql.number(level)}"
        for cut, level in zip(cuts, levels[:-1], strict=True)
    ]
    return "\n".join(["CASE " + whens[0], *whens[1:], f"ELSE {sql.number(levels[-1])} END"])


def _formula(recalibrator: BinaryRecalibrator, x: str, sql: Dialect) -> str:
    if is_identity(recalibrator) and recalibrator.input == "probabilities":
        return x
    happens, fails = _both_sides(getattr(recalibrator, "smoothing_", 0.0), x, sql)
    logits = f"LN({happens} / {fails})"
    if getattr(recalibrator, "on", "log-odds") == "probabilities":
        # A product with a number as small as that would underflow, an error in PostgreSQL.
        logits = sql.clipped(x, sql.number(TINY_LOGIT), "1.0")
    if getattr(recalibrator, "input", "") == "logits":
        within = sql.clipped(x, sql.number(-HUGE_LOGIT), sql.number(HUGE_LOGIT))
        logits = f"CASE WHEN ABS({x}) < {sql.number(TINY_LOGIT)} THEN 0 ELSE {within} END"
    if isinstance(recalibrator, TemperatureScaling):
        eta = f"{logits} / {sql.number(recalibrator.temperature_)}"
    elif isinstance(recalibrator, PlattScaling):
        a, c = recalibrator.coef_
        eta = f"{logits} * {sql.number(a)} + {sql.number(c)}"
    elif isinstance(recalibrator, QuadraticScaling):
        a, q, c = recalibrator.coef_
        eta = (
            f"{logits} * {sql.number(a)} + {sql.number(q)} * {logits} * {logits} + {sql.number(c)}"
        )
    elif isinstance(recalibrator, BetaScaling):
        a, b, c = recalibrator.coef_
        eta = f"LN({happens}) * {sql.number(a)} - {sql.number(b)} * LN({fails}) + {sql.number(c)}"
    else:
        raise no_form(recalibrator, "SQL")
    return f"1 / (1 + EXP({sql.clipped(f'-({eta})', '-700', '700')}))"


def _both_sides(share: float, x: str, sql: Dialect) -> tuple[str, str]:
    """Return the probabilities of the event and of its absence, away from 0 and 1."""
    if not share:
        safe = sql.clipped(x, sql.number(CLIP), sql.number(1 - CLIP))
        return safe, f"(1 - {safe})"
    mixed = sql.number(share)
    return f"({x} + (0.5 - {x}) * {mixed})", f"((1 - {x}) + (0.5 - (1 - {x})) * {mixed})"


def is_identity(recalibrator: Recalibrator) -> bool:
    """Tell whether a scaling kept the scores as they are."""
    if isinstance(recalibrator, LogisticScaling):
        return recalibrator.is_identity_
    if isinstance(recalibrator, VectorScaling):
        return "kept identity" in recalibrator.fit_result_.flags
    return isinstance(recalibrator, TemperatureScaling) and recalibrator.is_identity_


def no_form(recalibrator: Recalibrator, target: str) -> InvalidArgumentError:
    """Return the refusal of an export that there is not."""
    return InvalidArgumentError(
        f"{type(recalibrator).__name__} has no form in {target}; binned and scaling "
        "recalibrators do."
    )
