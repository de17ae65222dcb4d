"""Levels: all outputs that a binned model can give, declared before its rows are seen.

What is known before the rows may tune the tests behind a certificate; what the rows happened to
show may not. A recalibrator with bins knows its levels from its fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import FloatArray
from calibrant.bins import MOST_BINS
from calibrant.exceptions import InvalidArgumentError
from calibrant.table import BinTable


def checked_levels(levels: Any) -> FloatArray:
    """Return distinct levels in ascending order; refuse what are no probabilities.

    >>> checked_levels([0.8, 0.1, 0.8])
    array([0.1, 0.8])
    """
    try:
        given = np.array(levels, dtype=np.float64)
        if isinstance(levels, np.ma.MaskedArray):  # what a mask hides is not declared
            given = np.where(np.ma.getmaskarray(levels), np.nan, given)
    except (TypeError, ValueError, OverflowError):
        given = np.empty((0, 0))
    if given.ndim != 1 or given.size == 0 or not np.all((given >= 0) & (given <= 1)):
        raise InvalidArgumentError(
            "levels must be all outputs that the model can give: one or more probabilities, such "
            f"as recalibrator.levels_; got {levels!r:.80}."
        )
    found = np.unique(given)
    if found.size > MOST_BINS:
        raise InvalidArgumentError(
            f"levels must be {MOST_BINS:,} values at most; got {found.size:,}. A model with more "
            "outputs is as good as continuous: recalibrate it with ScalingBinning."
        )
    return found


def check_levels_of_table(levels: FloatArray, table: BinTable) -> None:
    """Refuse a table that has other outputs than these."""
    if table.n_groups > 1 or not table.is_binned_model:
        raise InvalidArgumentError(
            "levels are those of one class whose bins hold one output each; this table has "
            + ("several classes." if table.n_groups > 1 else "bins that mix different predictions.")
            + " Leave levels out, or count each output in its own bin, bins=Distinct()."
        )
    outputs = table.level[table.count > 0]
    outputs = np.where(
        np.isnan(outputs), table.sum_p[table.count > 0] / table.count[table.count > 0], outputs
    )
    nearest = np.abs(outputs[:, None] - levels).min(axis=1)
    # means of equal outputs may differ from them in the last digits
    strange = outputs[nearest > 1e-9]
    if strange.size:
        raise InvalidArgumentError(
            f"levels must be all outputs of the model; {strange.size:,} of the rows' "
            f"{outputs.size:,} outputs are not among them, {strange[0]:.6g} for one. Declare them "
            "too, if the model was known to give them, or leave levels out."
        )
