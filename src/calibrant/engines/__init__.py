"""Engines: how rows are counted into a `BinTable`, and how bins are searched.

Columns in memory are counted by NumPy or by compiled loops, which offer the same `Engine`. Tensors
on a device and lazy frames have engines of their own; their sources call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from calibrant._compiled import compiles
from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray
from calibrant.bins import BinRule, Bins
from calibrant.columns import Columns
from calibrant.groups import GroupLabel, Groups
from calibrant.table import BinTable

# The allocator of Linux returns the memory of each temporary array to the system, and fetches it
# anew for the next, until a larger one was freed: these 8 MB, which nothing touches. Without them
# the NumPy engine takes twice as long, and fits of 100,000 rows up to 1.7 times. Speed only.
np.empty(1 << 20)

GroupSums: TypeAlias = tuple[Sequence[tuple[GroupLabel, ...]], dict[str, FloatArray]]
"""The labels of groups, of which some may have no rows, and their sums and levels: those of
`BinTable`, each of shape (labels, classes, bins), without those of weights where there are none."""


class Engine(Protocol):
    """What every way of counting arrays offers."""

    def count(self, columns: Columns, bins: tuple[Bins, ...], /) -> BinTable:
        """Check the values of the rows and sum them in these bins, one `Bins` for each group."""

    def count_by(self, columns: Columns, bins: tuple[Bins, ...], groups: Groups, /) -> GroupSums:
        """Check the values of the rows and sum those of each group, in one pass."""

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
