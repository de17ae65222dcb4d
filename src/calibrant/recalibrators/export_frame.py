"""Export to data frames: the formula of a fitted recalibrator, evaluated where the data are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calibrant._types import FloatArray
from calibrant.engines.frame_plan import blaming_columns, exact_number
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.base import Recalibrator, check_of_one_column
from calibrant.recalibrators.export_sql import STEEPEST
from calibrant.sources.frames import as_frame, known_column, refuse_pattern, takes_patterns


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
        `HistogramBinning`, `ScalingBinning`, step-wise `IsotonicCalibration`, `PlattScaling`,
        `BetaScaling`, `QuadraticScaling`, `TemperatureScaling` or `Identity`.
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
        import narwhals as nw

        above = nw.when(x < low).then(nw.lit(float(low))).otherwise(x)
        return nw.when(x > high).then(nw.lit(float(high))).otherwise(above)

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
