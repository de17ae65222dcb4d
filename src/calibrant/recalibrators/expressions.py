"""Recalibrate where the data are: a fitted recalibrator as an expression of a data frame."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

from sklearn.utils.validation import check_is_fitted

from calibrant._types import FloatArray
from calibrant.engines.frame_plan import blaming_columns, exact_number
from calibrant.exceptions import InvalidArgumentError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.export import is_identity, step_function
from calibrant.recalibrators.scaling import (
    BetaScaling,
    Identity,
    PlattScaling,
    QuadraticScaling,
)
from calibrant.recalibrators.smoothing import CLIP
from calibrant.recalibrators.temperature import TemperatureScaling
from calibrant.sources.frames import as_frame, known_column, refuse_pattern, takes_patterns

Number: TypeAlias = Callable[[float], Any]

STEEPEST = 700.0
"""Beyond this, exp overflows or the answer is 0 or 1 to the last bit."""


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
    >>> binned = HistogramBinning(n_bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> apply_to_frame(binned, pd.DataFrame({"score": [0.1, 0.9]}), "score")
       score  calibrated
    0    0.1         0.5
    1    0.9         1.0
    """
    _check_recalibrator(recalibrator)
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
    >>> float(frame.select(to_expression(platt, "score")).item())
    0.5
    """
    import narwhals as nw

    refuse_pattern(column)
    _check_recalibrator(recalibrator)
    return _expression(recalibrator, column, nw.lit)


def _check_recalibrator(recalibrator: Any) -> None:
    if not isinstance(recalibrator, Recalibrator):
        raise InvalidArgumentError(
            "recalibrator must be a fitted one of calibrant's, such as PlattScaling().fit(p, y); "
            f"got {recalibrator!r:.60}."
        )


def _expression(recalibrator: Recalibrator, column: str, number: Number) -> Any:
    import narwhals as nw

    check_is_fitted(recalibrator, "classes_")
    x = nw.col(column).cast(nw.Float64)
    logits = getattr(recalibrator, "input", "probabilities") == "logits"
    largest = sys.float_info.max
    valid = x.is_between(-largest, largest) if logits else x.is_between(0.0, 1.0)
    steps = step_function(recalibrator)
    answer = _step(x, *steps, number) if steps else _smooth(recalibrator, x)
    recalibrator._check_one_column("An expression")
    return nw.when(valid).then(answer)


def _step(x: Any, cuts: FloatArray, levels: FloatArray, number: Number) -> Any:
    """Search the level by halves: as many comparisons as the number of bins has bits."""
    import narwhals as nw

    if cuts.size == 0:
        return number(float(levels[0]))
    middle = cuts.size // 2
    below = _step(x, cuts[:middle], levels[: middle + 1], number)
    above = _step(x, cuts[middle + 1 :], levels[middle + 1 :], number)
    return nw.when(x <= number(float(cuts[middle]))).then(below).otherwise(above)


def _smooth(recalibrator: Recalibrator, x: Any) -> Any:
    logits = getattr(recalibrator, "input", "probabilities") == "logits"
    if isinstance(recalibrator, Identity) or (is_identity(recalibrator) and not logits):
        return x
    # Frames compute impossible rows too, and warn of their logarithms.
    p = _clipped(x, 0.0, 1.0)
    happens, fails = _both_sides(p, getattr(recalibrator, "smoothing_", 0.0))
    odds = x if logits else (happens / fails).log()
    if getattr(recalibrator, "on", "log-odds") == "probabilities":
        odds = p
    if isinstance(recalibrator, TemperatureScaling):
        eta = odds / recalibrator.temperature_
    elif isinstance(recalibrator, PlattScaling):
        slope, shift = recalibrator.coef_.tolist()
        eta = odds * slope + shift
    elif isinstance(recalibrator, QuadraticScaling):
        slope, bend, shift = recalibrator.coef_.tolist()
        eta = odds * slope + odds * odds * bend + shift
    elif isinstance(recalibrator, BetaScaling):
        a, b, shift = recalibrator.coef_.tolist()
        eta = happens.log() * a - fails.log() * b + shift
    else:
        raise InvalidArgumentError(
            f"{type(recalibrator).__name__} has no form as an expression of one column; binned "
            'and scaling recalibrators of one score and IsotonicCalibration("step") do.'
        )
    return 1.0 / ((-_clipped(eta, -STEEPEST, STEEPEST)).exp() + 1.0)


def _both_sides(p: Any, share: float) -> tuple[Any, Any]:
    """Return the probabilities of the event and of its absence, away from 0 and 1."""
    if not share:
        p = _clipped(p, CLIP, 1 - CLIP)
        return p, 1.0 - p
    return p + (0.5 - p) * share, (1.0 - p) + (0.5 - (1.0 - p)) * share


def _clipped(x: Any, low: float, high: float) -> Any:
    import narwhals as nw

    above = nw.when(x < low).then(nw.lit(low)).otherwise(x)
    return nw.when(x > high).then(nw.lit(high)).otherwise(above)
