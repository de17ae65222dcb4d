"""Engines: how rows are counted into a `BinTable`, and how bins are searched.

Columns in memory are counted by NumPy or by compiled loops, which offer the same `Engine`. Tensors
on a device and lazy frames have engines of their own; their sources call them.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Protocol

from calibrant._influences import Influence, InfluenceSums
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.table import BinTable

VARIABLE = "CALIBRANT_ENGINE"
MANY_VALUES = 200_000
"""From here on, a compiled loop repays loading the compiler."""


class Engine(Protocol):
    """What every way of counting arrays offers."""

    def count(self, columns: Columns, bins: tuple[Bins, ...], /) -> BinTable:
        """Check the values of the rows and sum them in these bins, one `Bins` for each group."""

    def choose(self, columns: Columns, rule: BinRule, /) -> tuple[Bins, ...]:
        """Check the predictions and let the rule choose bins for each group."""

    def influence_sums(
        self, columns: Columns, bins: tuple[Bins, ...], influence: Influence, /
    ) -> InfluenceSums:
        """Read the rows of a marginal table once more; see `calibrant._influences`."""


def engine_for(n_values: int) -> Engine:
    """Return the engine that counts arrays of this many predictions.

    Those of many values are counted by the numba engine where numba is installed, and all others by
    NumPy. The environment variable CALIBRANT_ENGINE, "numpy" or "numba", forces one of the two.
    """
    if compiles(n_values):
        from calibrant.engines.numba import NumbaEngine

        return NumbaEngine()
    from calibrant.engines.numpy import NumpyEngine

    return NumpyEngine()


def compiles(n_values: int) -> bool:
    """Tell whether compiled loops read this many values; see `engine_for`."""
    forced = os.environ.get(VARIABLE, "")
    if forced not in ("", "numpy", "numba"):
        raise InvalidArgumentError(f'{VARIABLE} must be "numpy" or "numba"; got {forced!r}.')
    if forced == "numpy" or (not forced and n_values < MANY_VALUES):
        return False
    if forced and not _has_numba():
        raise MissingDependencyError(
            f"{VARIABLE}=numba needs numba, which cannot be imported. "
            "Install calibrant[fast], or unset the variable."
        )
    return _has_numba()


@cache
def _has_numba() -> bool:
    try:
        from calibrant.engines import compiled  # noqa: F401
    except ImportError:
        return False
    return True
