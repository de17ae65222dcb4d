"""Engines: each turns rows, wherever they live, into a `BinTable`."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Protocol, runtime_checkable

from calibrant._influences import Influence, InfluenceSums
from calibrant.bins import BinRule, Bins
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.problem import Rows
from calibrant.table import BinTable

VARIABLE = "CALIBRANT_ENGINE"
MANY_VALUES = 200_000
"""From here on, a compiled loop repays loading the compiler."""


class Engine(Protocol):
    """What every way of counting offers."""

    def tabulate(self, rows: Any, bins: tuple[Bins, ...]) -> BinTable:
        """Check the values of the rows and sum them in these bins, one `Bins` for each group."""

    def choose_bins(self, rows: Any, rule: BinRule) -> tuple[Bins, ...]:
        """Check the predictions and let the rule choose bins for each group."""

    def influence_sums(
        self, rows: Any, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums | None:
        """Read the rows of a marginal table once more; None where that would cost too much."""


@runtime_checkable
class HasEngine(Protocol):
    """Rows that are not arrays, and name their own engine."""

    def engine(self) -> Engine:
        """Return the engine for these rows."""


def engine_for(rows: Rows) -> Engine:
    """Return the engine that counts these rows.

    Lazy frames and tensors on a GPU are counted where they are. Arrays of many values are counted
    by the numba engine where numba is installed, and all others by NumPy. The environment
    variable CALIBRANT_ENGINE, "numpy" or "numba", forces one of the two.
    """
    if isinstance(rows, HasEngine):
        return rows.engine()
    if compiles(rows.probs.size):
        from calibrant.engines.numba import NumbaEngine

        return NumbaEngine()
    from calibrant.engines.numpy import NumpyEngine

    return NumpyEngine()


def compiles(n_values: int) -> bool:
    """Tell whether compiled loops read this many values; see `engine_for`."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "numpy", "numba"):
        raise InvalidArgumentError(f'{VARIABLE} must be "numpy" or "numba"; got {wanted!r}.')
    if wanted == "numpy" or (not wanted and n_values < MANY_VALUES):
        return False
    if wanted and not _has_numba():
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
