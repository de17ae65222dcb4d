"""Uniform-mass bins of many groups with the same few passes over a frame.

Every group has a `quantile_search` of its own; what the groups ask for next is answered for all of
them by one pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.engines.counted import Counted
from calibrant.engines.plans import Grid, Pass
from calibrant.engines.refine import Ask, Cells, Values, quantile_search

Count = Callable[[dict[int, Pass]], Counted]


class _Group:
    """The search of one group: its passes, and the answers so far."""

    def __init__(self, n_bins: int, few: float, extra_bits: int) -> None:
        self.extra_bits = extra_bits
        self.passes: list[Pass] = []
        self.answers: list[Counted] = []
        self.values: Values | None = None
        self._search = quantile_search(n_bins, few)
        self._ask: Ask = next(self._search)

    def next_pass(self) -> Pass:
        """Look only where all passes so far looked: finer cells can reach beyond coarser ones."""
        bits, within = self._ask.bits, self.passes[-1].within if self.passes else ()
        if self._ask.within is not None:
            coarse, numbers = self._ask.within
            within = (*within, (self._grid(coarse), numbers))
        self.passes.append(Pass(None if bits is None else self._grid(bits), within))
        return self.passes[-1]

    def answer(self, found: Counted) -> None:
        """Take what the pass has found, and know what to ask next."""
        self.answers.append(found)
        try:
            self._ask = self._search.send(self._reply(found))
        except StopIteration as end:
            self.values = end.value

    def _reply(self, found: Counted) -> Cells | Values:
        if self._ask.bits is not None:
            return Cells(found.number, found.mass, found.sums["count"], found.low, found.high)
        order = np.argsort(found.number)
        return found.number[order], found.mass[order]

    def _grid(self, bits: int) -> Grid:
        return Grid.of_bits(bits + self.extra_bits)

    def cells(self) -> list[Counted]:
        """Return the cells of all passes, less those that the next pass looked into."""
        pairs = zip(self.answers, self.passes[1:], strict=False)
        kept = [found.take(~np.isin(found.number, after.within[-1][1])) for found, after in pairs]
        return [*kept, self.answers[-1]]


def quantile_values(
    n_groups: int, n_bins: int, few: float, count: Count
) -> tuple[list[Values], Counted]:
    """Return the values near the quantiles of every group, and all cells that were counted."""
    extra_bits = 2 if n_groups == 1 else 0  # a larger answer, that often saves a pass
    groups = [_Group(n_bins, few, extra_bits) for _ in range(n_groups)]
    while wanted := {g: each.next_pass() for g, each in enumerate(groups) if each.values is None}:
        found = count(wanted)
        for g in wanted:
            groups[g].answer(found.take(found.group == g))
    cells = Counted.joined([part for group in groups for part in group.cells()])
    return [group.values for group in groups if group.values is not None], cells
