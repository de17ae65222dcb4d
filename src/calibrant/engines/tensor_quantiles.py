"""Exact quantiles of predictions on a device, without sorting them.

A sample of the rows, sorted, cuts each group into cells: one for each value of the sample, and one
between each two. One read counts the rows of every cell. A second read lists the rows of the few
cells between values that hold a quantile, or lie beside a value that does; only these are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.engines import cuda
from calibrant.engines.search import Values
from calibrant.engines.tensors import Tensors, chunks_of, is_narrow, predictions_of
from calibrant.problem import read_problem

CELLS_OF_ONE, CELLS_OF_MANY, CELLS_OF_ALL = 1 << 13, 1 << 10, 1 << 20
"""Values of the sample, of one group, of one among many, and of all together: of 15 bins one row in
600 or in 70 is listed. Affects speed and memory only, never an edge."""
MANY_BINS = 32


def near_quantiles(tensors: Tensors, n_bins: int) -> Iterator[Values]:
    """Yield for each group the values from which `EqualMass(n_bins)` makes the edges of all.

    Those are the distinct values that hold a quantile and the next on either side, each with the
    mass of all values since the one before.
    """
    import torch

    if tensors.problem.kind == "top-label":
        tensors = _confidences(tensors)
    elif tensors.are_logits and not cuda.serves(tensors.predictions):
        # The sample must hold the very numbers that are counted: they are computed once.
        parts = [p for p, _, _ in chunks_of(tensors, check_labels=False)]
        p = torch.cat(parts, dim=1)
        p = p[0] if tensors.problem.kind == "binary" else p.T.contiguous()
        tensors = Tensors(tensors.problem, tensors.labels, p)
    cells = cuda.Cells(tensors) if cuda.serves(tensors.predictions) else _Cells(tensors)
    cuts = _distinct(cells.sample(_step(tensors, n_bins)))
    counts = cells.count(cuts)
    if len(cuts) == 1:  # few numbers, for which a GPU takes longer
        cuts, counts = cuts.cpu(), counts.cpu()
    # Rows up to a quantile, rounded up: the cell that holds it is the first with as many.
    targets = -(-len(tensors) * torch.arange(1, n_bins, device=cuts.device) // n_bins)
    above = counts.cumsum(1)
    holding = torch.searchsorted(above, targets.expand(len(cuts), -1).contiguous())
    # Between values, the neighbours of a cell are values; of a value, they are cells to be listed.
    marked = torch.zeros_like(counts, dtype=torch.bool)
    for beside in (-1, 0, 1):
        marked.scatter_(1, (holding + beside).clamp(0, counts.shape[1] - 1), True)
    marked[:, 1::2] = False
    sizes = counts * marked
    first = sizes.view(-1).cumsum(0).view_as(counts) - sizes
    group, values = cells.listed(marked, sizes, first)
    near = _neighbours(cuts, above, sizes, first, holding, targets, group, values)
    return _values(near.cpu().numpy(), len(tensors))


def _neighbours(
    cuts: Any,
    above: Any,
    sizes: Any,
    first: Any,
    holding: Any,
    targets: Any,
    group: Any,
    values: Any,
) -> Any:
    """Return five numbers for each group and quantile.

    They are the value that holds it, the next on either side, NaN where there is none, and the
    rows below and up to that value. Open cells have `sizes` rows, which begin at `first` in the
    list of groups and values; the list ends with infinity.
    """
    import torch

    def cut(place: Any) -> Any:
        value = cuts.gather(1, place.clamp(0, cuts.shape[1] - 1))
        return value.masked_fill((place < 0) | (place >= cuts.shape[1]), torch.inf)

    def listed(*places: Any) -> Any:
        at = torch.stack(places).clamp(0, len(values) - 1).to(values.device)  # one copy for all
        return values[at].double().to(cuts.device)

    def at(cell: Any, numbers: Any) -> Any:
        return numbers.gather(1, cell.clamp(0, numbers.shape[1] - 1))

    is_value, place = holding % 2 == 1, holding // 2
    before = torch.where(holding > 0, at(holding - 1, above), 0)
    start, size = at(holding, first), at(holding, sizes)
    low, high = _runs(group, values, (start + targets - before - 1).clamp(0, len(values) - 1))
    # A value lies between two cells, and a cell between two values.
    last_before, first_after = at(holding - 1, first + sizes) - 1, at(holding + 1, first)
    own, end, start_after, *beside = listed(low, last_before, first_after, low - 1, high)
    held = torch.where(is_value, cut(place), own)
    below = torch.where(is_value, before, before + low - start)
    up_to = torch.where(is_value, at(holding, above), before + high - start)
    from_cell = is_value & (holding > 0) & (at(holding - 1, sizes) > 0)
    lower = torch.where(from_cell, end, cut(place - 1))
    lower = torch.where(~is_value & (low > start), beside[0], lower)
    from_cell = is_value & (at(holding + 1, sizes) > 0)
    upper = torch.where(from_cell, start_after, cut(place + is_value))
    upper = torch.where(~is_value & (high < start + size), beside[1], upper)
    return torch.stack([lower, held, upper, below.double(), up_to.double()])


def _runs(group: Any, values: Any, place: Any) -> tuple[Any, Any]:
    """Return where the run of equal values at each place of a sorted list begins and ends."""
    import torch

    if group is None:
        value = values[place.to(values.device)]
        sides = [torch.searchsorted(values, value, right=right) for right in (False, True)]
        low, high = torch.stack(sides).to(place.device)
        return low, high
    new = torch.ones(len(values) + 1, dtype=torch.bool, device=values.device)
    new[1:-1] = (group[1:] != group[:-1]) | (values[1:] != values[:-1])
    starts, run = new.nonzero()[:, 0].to(place.device), (new.cumsum(0) - 1).to(place.device)
    return starts[run[place]], starts[run[place] + 1]


def _values(near: AnyArray, n: int) -> Iterator[Values]:
    """Yield distinct values and the mass of all values since the one before, for each group."""
    for lower, held, upper, below, up_to in near.transpose(1, 0, 2):
        values = np.concatenate([lower, held, upper, [2.0]])  # which no cut is next to
        # Where a value holds a quantile or lies below one its rows are known, else at least one.
        rows = np.concatenate([below, up_to, up_to + 1, [n]])
        used = np.isfinite(values)
        order = np.lexsort((rows[used], values[used]))
        values, rows = values[used][order], rows[used][order]
        last = np.append(values[1:] != values[:-1], True)
        values, mass = values[last], np.diff(rows[last], prepend=0)
        yield values[mass > 0], mass[mass > 0]


def _confidences(tensors: Tensors) -> Tensors:
    """Return the confidence of each row as the prediction of one event."""
    import torch

    if cuda.serves(tensors.predictions):
        p = cuda.confidences(tensors)
    else:
        p = torch.cat([p[0] for p, _, _ in chunks_of(tensors, check_labels=False)])
    return Tensors(read_problem("binary"), tensors.labels, p)


def _step(tensors: Tensors, n_bins: int) -> int:
    """Return which rows are sampled: every so many."""
    n_groups = tensors.problem.n_groups
    size = CELLS_OF_ONE if n_groups == 1 else min(CELLS_OF_MANY, max(CELLS_OF_ALL // n_groups, 8))
    if n_groups == 1 and n_bins > MANY_BINS and is_narrow(tensors.predictions):
        size *= 2  # as many of float32 as fit into the memory that a GPU shares among threads
    return -(-len(tensors) // size) | 1  # an odd one meets rows that alternate


def _distinct(rows: Any) -> Any:
    """Return distinct values of each group in rising order, (groups, cells), ended by infinity."""
    import torch

    rows = rows.sort(dim=1).values
    repeated = torch.zeros_like(rows, dtype=torch.bool)
    repeated[:, 1:] = rows[:, 1:] == rows[:, :-1]
    return rows.masked_fill(repeated, torch.inf).sort(dim=1).values


def _places(cuts: Any, p: Any) -> Any:
    """Return the cell of each prediction: 2 i + 1 for the value i, 2 i for those just before it."""
    import torch

    below = torch.searchsorted(cuts, p)
    at = cuts.gather(1, below.clamp(max=cuts.shape[1] - 1)) == p
    return 2 * below + at


class _Cells:
    """Counts and lists predictions by plain PyTorch."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors = tensors

    def sample(self, step: int) -> Any:
        """Return the predictions of every so many rows, (groups, rows)."""
        given = self.tensors
        return predictions_of(given.problem, given.predictions[::step], given.are_logits)

    def count(self, cuts: Any) -> Any:
        """Return the rows of each cell that cuts make, (groups, cells)."""
        import torch

        self.cuts = cuts
        shape = (len(self.cuts), 2 * self.cuts.shape[1] + 1)
        counts = torch.zeros(shape, dtype=torch.int64, device=self.cuts.device)
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            place = _places(self.cuts, p)
            counts.scatter_add_(1, place, torch.ones_like(place))
        return counts

    def listed(self, is_open: Any, sizes: Any, first: Any) -> tuple[Any, Any]:
        """Return group and value of predictions in open cells, and infinity, in rising order."""
        import torch

        groups, values = [], []
        is_open = is_open.to(self.cuts.device)
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            group, row = is_open.gather(1, _places(self.cuts, p)).nonzero(as_tuple=True)
            groups.append(group)
            values.append(p[group, row])
        ended = [values[0].new_full((1,), torch.inf), groups[0].new_full((1,), len(self.cuts))]
        group, value = torch.cat([*groups, ended[1]]), torch.cat([*values, ended[0]])
        order = value.argsort()
        order = order[group[order].argsort(stable=True)]
        return group[order], value[order]
