"""Engines: how rows are counted into a `BinTable`, and how bins are searched.

Columns in memory are counted by NumPy or by compiled loops, which offer the same `Engine`. Tensors
on a device and lazy frames have engines of their own; their sources call them.
"""

from __future__ import annotations

from typing import Protocol

from calibrant._compiled import compiles
from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray, IntArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.table import BinTable


class Engine(Protocol):
    """What every way of counting arrays offers."""

    def count(self, columns: Columns, bins: tuple[Bins, ...], /) -> BinTable:
        """Check the values of the rows and sum them in these bins, one `Bins` for each group."""

    def count_by(
        self, columns: Columns, bins: tuple[Bins, ...], codes: IntArray, n_codes: int, /
    ) -> dict[str, FloatArray]:
        """Check the values of the rows and sum those of each code, in one pass.

        `codes` has a number from 0 to `n_codes` - 1 for each row, of which some may not occur. The
        sums and levels are those of `BinTable`, each of shape (n_codes, groups, bins), without
        those of weights where there are none.
        """

    def choose(self, columns: Columns, rule: BinRule, /) -> tuple[Bins, ...]:
        """Check the predictions and let the rule choose bins for each group."""

    def influence_sums(
        self, columns: Columns, bins: tuple[Bins, ...], influence: Influence, /
    ) -> InfluenceSums:
        """Read the rows of a marginal table once more; see `calibrant._influences`."""


def engine() -> Engine:
    """Return the engine that counts arrays: the compiled one where it was built, else NumPy."""
    if compiles():
        from calibrant.engines.compiled import CompiledEngine

        return CompiledEngine()
    from calibrant.engines.numpy import NumpyEngine

    return NumpyEngine()
