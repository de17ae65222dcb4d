"""Uniform-mass bins of many groups with the same few passes over a frame.

`values_near_quantiles` asks for one pass after the other. Here every group runs it on the answers
it has so far; what the groups ask for next is answered for all of them by one pass.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant.engines.counted import Counted
from calibrant.engines.plans import Grid, Pass
from calibrant.engines.refine import Cells, Values, Within, values_near_quantiles

Count = Callable[[dict[int, Pass]], Counted]


class _Asks(Exception):  # noqa: N818
    """Stops a group at a question that has no answer yet."""

    def __init__(self, grid: Grid | None, within: Within | None) -> None:
        super().__init__()
        self.grid = grid
        self.within = within


class _Group:
    """The questions of one group, and the answers so far."""

    def __init__(self, n_bins: int, few: float, extra_bits: int) -> None:
        self.n_bins = n_bins
        self.few = few
        self.extra_bits = extra_bits
        self.passes: list[Pass] = []
        self.answers: list[Counted] = []

    def proceed(self) -> Values | Pass:
        """Return the values near the quantiles, or the pass that is needed to find them."""
        waiting = iter(self.answers)

        def answer(grid: Grid | None, within: Within | None) -> Counted:
            found = next(waiting, None)
            if found is None:
                raise _Asks(grid, within)
            return found

        def count(bits: int, within: Within | None) -> Cells:
            found = answer(self._grid(bits), within)
            return Cells(found.number, found.mass, found.sums["count"], found.low, found.high)

        def listed(within: Within) -> Values:
            found = answer(None, within)
            order = np.argsort(found.number)
            return found.number[order], found.mass[order]

        try:
            return values_near_quantiles(self.n_bins, count, listed, self.few)
        except _Asks as asks:
            return self._next_pass(asks)

    def _next_pass(self, asks: _Asks) -> Pass:
        """Look only where all passes so far looked: finer cells can reach beyond coarser ones."""
        within = self.passes[-1].within if self.passes else ()
        if asks.within is not None:
            bits, numbers = asks.within
            within = (*within, (self._grid(bits), numbers))
        self.passes.append(Pass(asks.grid, within))
        return self.passes[-1]

    def _grid(self, bits: int) -> Grid:
        return Grid.of_bits(bits + self.extra_bits)

    def add(self, found: Counted) -> None:
        self.answers.append(found)

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
    while True:
        steps = [group.proceed() for group in groups]
        wanted = {g: step for g, step in enumerate(steps) if isinstance(step, Pass)}
        if not wanted:
            break
        found = count(wanted)
        for g in wanted:
            groups[g].add(found.take(found.group == g))
    cells = Counted.joined([part for group in groups for part in group.cells()])
    return [step for step in steps if not isinstance(step, Pass)], cells
