"""The formula of a fitted recalibrator as an expression of a data frame, lazy ones included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from operator import or_
from typing import TYPE_CHECKING, Any

from calibrant._types import FloatArray
from calibrant.engines.frame import blaming_columns
from calibrant.engines.frame_columns import exact_number
from calibrant.exceptions import InvalidArgumentError, InvalidGroupsError
from calibrant.groups import GroupLabel
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.exports.sql import STEEPEST, group_names, interval_of, to_sql
from calibrant.recalibrators.reading import check_of_one_column
from calibrant.sources.frames import as_frame, known_column, refuse_pattern, takes_patterns

if TYPE_CHECKING:
    from calibrant.recalibrators.by_group import ByGroup

NO_NUMBERS = ("String", "Date", "Datetime", "Duration", "Time", "Binary", "List", "Array", "Struct")
"""Types of columns that no engine should make predictions of."""


def apply_to_frame(
    recalibrator: Recalibrator,
    data: Any,
    column: str,
    *,
    output: str = "calibrated",
    by: Sequence[str] | None = None,
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
    by : sequence of str, optional
        As in `to_sql`.

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
    import narwhals as nw

    check_of_one_column(recalibrator, "An expression", "an expression of one column")
    frame = as_frame(data)
    schema, groups = frame.collect_schema(), group_names(recalibrator, by)
    columns = schema.names()
    for name in (column, *groups):
        known_column(name, columns)
        if takes_patterns(frame):
            refuse_pattern(name)
    if str(schema[column]).partition("(")[0] in NO_NUMBERS:
        raise InvalidArgumentError(
            f"The column of predictions must hold numbers; {column!r:.60} is of type "
            f"{schema[column]}. Convert it first."
        )
    if groups:
        check_types_of_groups(recalibrator, groups, schema)
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
        return frame.to_native().withColumn(output, expr(to_sql(recalibrator, column, "spark", by)))
    number = exact_number(frame)
    with blaming_columns(frame, [column, *groups]):
        if not groups:
            recalibrated = _expression(recalibrator, column, number)
            return frame.with_columns(recalibrated.alias(output)).to_native()
        # Pooled answers are the last resort of every group: a column of their own, computed once.
        spare = next(name for i in count() if (name := f"calibrant_{i}") not in columns)
        pooled = _expression(recalibrator.pooled_, column, number)
        frame = frame.with_columns(pooled.alias(spare))
        recalibrated = _expression(recalibrator, column, number, groups, nw.col(spare))
        return frame.with_columns(recalibrated.alias(output)).drop(spare).to_native()


def to_expression(recalibrator: Recalibrator, column: str, by: Sequence[str] | None = None) -> Any:
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

    check_of_one_column(recalibrator, "An expression", "an expression of one column")
    groups = group_names(recalibrator, by)
    for name in (column, *groups):
        refuse_pattern(name)
    return _expression(recalibrator, column, nw.lit, groups)


def _expression(
    recalibrator: Recalibrator,
    column: str,
    number: Callable[[float], Any],
    groups: tuple[str, ...] = (),
    pooled: Any = None,
) -> Any:
    import narwhals as nw

    x = nw.col(column).cast(nw.Float64)
    largest = sys.float_info.max if recalibrator.input == "logits" else 1.0
    valid = x.is_between(-largest if recalibrator.input == "logits" else 0.0, largest)
    if groups:
        valid = FrameGroups(recalibrator, groups).inside(valid)
    operations = _FrameOperations(number, groups, pooled)
    return nw.when(valid).then(recalibrator._formula(operations, x, recalibrator))


@dataclass(frozen=True)
class _FrameOperations:
    """The operations of formulas, as narwhals expressions with exact numbers."""

    number: Callable[[float], Any]
    groups: tuple[str, ...] = ()
    pooled: Any = None
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

    def by_group(self, fitted: ByGroup, parts: Sequence[Any], otherwise: Any) -> Any:
        """Return the part of each row's group."""
        return FrameGroups(fitted, self.groups).chosen(parts, otherwise)

    def shifted_by_group(self, fitted: ByGroup, odds: Any, pooled: Any) -> Any:
        """Return answers with the log-odds of each row's group shifted, where it is known."""
        import narwhals as nw

        groups, zero = FrameGroups(fitted, self.groups), self.number(0.0)
        shifts = [self.number(shift) for shift in fitted.shifts_.tolist()]
        known = groups.chosen([self.number(1.0)] * len(shifts), zero) > zero
        own = self.sigmoid(odds + groups.chosen(shifts, zero))
        return nw.when(known).then(own).otherwise(pooled)


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
            # PyArrow does not take -0.0 for the group 0.0.
            zeros = [-0.0] * any(isinstance(label, float) and label == 0 for label in labels)
            return x.is_in([*labels, *zeros])
        intervals = [interval_of(column, label) for label in labels]
        return reduce(
            or_,
            [(x >= low if first else x > low) & (x <= high) for low, high, first in intervals],
        )
