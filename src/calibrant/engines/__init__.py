"""Engines: who counts. Each turns rows, wherever they live, into a `BinTable`."""

from __future__ import annotations

from typing import Protocol

from calibrant.bins import BinRule, Bins
from calibrant.problem import Rows
from calibrant.table import BinTable


class Engine(Protocol):
    """What every way of counting offers."""

    def tabulate(self, rows: Rows, bins: tuple[Bins, ...]) -> BinTable:
        """Check the values of the rows and sum them in these bins, one `Bins` for each group."""

    def choose_bins(self, rows: Rows, rule: BinRule) -> tuple[Bins, ...]:
        """Check the predictions and let the rule choose bins for each group."""


def engine_for(rows: Rows) -> Engine:
    """Return the engine that counts these rows."""
    from calibrant.engines.numpy import NumpyEngine

    return NumpyEngine()
