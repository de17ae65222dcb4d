"""The measures of a table: calibration error, reliability curve, Brier decomposition."""

from __future__ import annotations

import numpy as np

from calibrant._options import check_flag
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Label
from calibrant.stats.estimators import (
    ClassWeight,
    Norm,
    cells_of,
    class_weights,
    error_of,
    is_debiased,
    noise_floor,
    power_of,
    raw_error,
)
from calibrant.stats.intervals import Resampler, check_level, clopper_pearson
from calibrant.stats.results import (
    BrierDecomposition,
    CalibrationErrorResult,
    ReadAgain,
    ReliabilityCurve,
)
from calibrant.table import BinTable


def calibration_error(
    table: BinTable,
    *,
    norm: Norm = "l2",
    debias: bool | None = None,
    class_weight: ClassWeight = None,
    resample: Resampler | None = None,
    read_again: ReadAgain | None = None,
) -> CalibrationErrorResult:
    """Measure the calibration error of a table.

    The parameters are those of `calibrant.calibration_error`; `resample` draws another table
    of resampled rows, for bootstrap intervals that the table alone cannot give, and `read_again`
    sums row influences, for intervals of several classes.
    """
    power = power_of(norm)
    debiased = is_debiased(power, debias)
    weights = class_weights(class_weight, table.problem)
    cells = cells_of(table)
    unresolved = float(cells.unresolved_mass @ weights)
    per_class: dict[Label, float] | None = None
    if table.problem.kind == "marginal":
        values = error_of(cells.one_class_each, np.ones(1), power, debiased).tolist()
        per_class = dict(zip(table.problem.class_names, values, strict=True))
    return CalibrationErrorResult(
        value=float(error_of(cells, weights, power, debiased)),
        squared=float(raw_error(cells, weights, power, debiased)) if power == 2 else None,
        power=power,
        is_debiased=debiased,
        is_lower_bound=not table.is_binned_model or (debiased and power == 2 and unresolved > 0),
        noise_floor=noise_floor(cells, weights, power, debiased),
        unresolved_mass=unresolved,
        table=table,
        class_weights=weights,
        per_class=per_class,
        resample=resample,
        read_again=read_again if int((weights > 0).sum()) > 1 and power in (1.0, 2.0) else None,
    )


def reliability_curve(
    table: BinTable,
    *,
    confidence_level: float = 0.95,
    simultaneous: bool = False,
    class_label: Label | None = None,
) -> ReliabilityCurve:
    """Return event rates beside predictions for each bin of a table.

    Parameters
    ----------
    table : BinTable
    confidence_level : float
        Of the Clopper-Pearson limits of each event rate.
    simultaneous : bool
        Whether the limits must hold in all bins at once.
    class_label : label, optional
        Which class of a marginal problem.
    """
    check_level(confidence_level)
    check_flag("simultaneous", simultaneous)
    group = group_of(table, class_label)
    cells = cells_of(table)
    used = np.flatnonzero(table.count[group])
    alpha = 1 - confidence_level
    alpha = -np.expm1(np.log1p(-alpha) / used.size) if simultaneous else alpha
    rate, size = cells.rate[group, used], cells.size[group, used]
    low, high = clopper_pearson(rate * size, size, alpha)
    edges = table.bins[group].edges
    return ReliabilityCurve(
        count=table.count[group, used],
        mean_prediction=cells.mean[group, used],
        event_rate=rate,
        low=low,
        high=high,
        left=edges[used],
        right=edges[used + 1],
        confidence_level=confidence_level,
        is_simultaneous=simultaneous,
    )


def brier_decomposition(
    table: BinTable, *, debias: bool = False, class_weight: ClassWeight = None
) -> BrierDecomposition:
    """Decompose the Brier score of a table: miscalibration - discrimination + uncertainty.

    With ``debias=True`` the terms are corrected for bias: miscalibration becomes the debiased
    square (bins of one row count as 0 there), uncertainty is multiplied by n / (n - 1), and
    discrimination keeps the sum.
    """
    weights = class_weights(class_weight, table.problem)
    cells = cells_of(table)
    check_flag("debias", debias)
    total = table.sum_w.sum(axis=-1)
    brier = float((table.sum_y - 2 * table.sum_py + table.sum_pp).sum(axis=-1) / total @ weights)
    base = table.sum_y.sum(axis=-1) / total
    n = total**2 / table.sum_ww.sum(axis=-1)
    correction = n / np.maximum(n - 1, 1) if debias else 1.0
    uncertainty = float(base * (1 - base) * correction @ weights)
    miscalibration = float(raw_error(cells, weights, 2.0, debias))
    discrimination = miscalibration + uncertainty - brier
    return BrierDecomposition(brier, miscalibration, discrimination, uncertainty, debias)


def group_of(table: BinTable, class_label: Label | None) -> int:
    """Return the row of the table that holds a class; 0 where there is one group only."""
    if table.problem.kind != "marginal":
        if class_label is not None:
            raise InvalidArgumentError(
                f'class_label applies to kind="marginal"; this problem is "{table.problem.kind}".'
            )
        return 0
    names = table.problem.class_names
    if not isinstance(class_label, str | int | float) or class_label not in names:
        raise InvalidArgumentError(
            f"class_label must be one of the classes {names!r:.80}; got {class_label!r}."
        )
    return names.index(class_label)
