"""Exact quantiles of predictions on a device, without sorting them.

A sample of the rows, sorted, cuts each group into cells: one for each value of the sample, and one
between each two. One read counts the rows of every cell. A second read lists the rows of the few
cells between values that hold a quantile, or lie beside a value that does; only these are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant.engines import cuda
from calibrant.engines.search import Values
from calibrant.engines.tensors import Tensors, chunks_of, predictions_of
from calibrant.problem import read_problem

CELLS_OF_ONE, CELLS_OF_MANY, CELLS_OF_ALL = 1 << 13, 1 << 10, 1 << 20
"""Values of the sample, of one group, of one among many, and of all together: of 15 bins one row in
600 or in 70 is listed. Affects speed and memory only, never an edge."""


def near_quantiles(tensors: Tensors, n_bins: int) -> Iterator[Values]:
    """Yield for each group the values from which `EqualMass(n_bins)` makes the edges of all.

    Those are the distinct values that hold a quantile and the next on either side, each with the
    mass of all values since the one before.
    """
    import torch

    if tensors.problem.kind == "top-label":
        tensors = _confidences(tensors)
    cuts = _sample(tensors)
    on_cuda = cuda.serves(tensors.predictions)
    cells = cuda.Cells(tensors, cuts) if on_cuda else _Cells(tensors, cuts)
    counts = cells.count()
    # Rows up to a quantile, rounded up: the cell that holds it is the first with as many.
    targets = -(-len(tensors) * torch.arange(1, n_bins, device=cuts.device) // n_bins)
    holding = torch.searchsorted(counts.cumsum(1), targets.expand(len(cuts), -1).contiguous())
    # Between values, the neighbours of a cell are values; of a value, they are cells to be listed.
    marked = torch.zeros_like(counts, dtype=torch.bool)
    for beside in (-1, 0, 1):
        marked.scatter_(1, (holding + beside).clamp(0, counts.shape[1] - 1), True)
    marked[:, 1::2] = False
    listed = cells.listed(marked, int((counts * marked).sum()))
    return _from_parts(cuts, counts, marked, listed, targets)


def _confidences(tensors: Tensors) -> Tensors:
    """Return the confidence of each row as the prediction of one event."""
    import torch

    if cuda.serves(tensors.predictions):
        p = cuda.confidences(tensors)
    else:
        p = torch.cat([p[0] for p, _, _ in chunks_of(tensors, check_labels=False)])
    return Tensors(read_problem("binary"), tensors.labels, p)


def _sample(tensors: Tensors) -> Any:
    """Return distinct values of each group in rising order, (groups, cells), ended by infinity."""
    import torch

    n_groups = tensors.problem.n_groups
    size = CELLS_OF_ONE if n_groups == 1 else min(CELLS_OF_MANY, max(CELLS_OF_ALL // n_groups, 8))
    step = -(-len(tensors) // size) | 1  # an odd one meets rows that alternate
    rows = predictions_of(tensors.problem, tensors.predictions[::step], tensors.are_logits)
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

    def __init__(self, tensors: Tensors, cuts: Any) -> None:
        self.tensors, self.cuts = tensors, cuts

    def count(self) -> Any:
        """Return the rows of each cell, (groups, cells)."""
        import torch

        shape = (len(self.cuts), 2 * self.cuts.shape[1] + 1)
        counts = torch.zeros(shape, dtype=torch.int64, device=self.cuts.device)
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            place = _places(self.cuts, p)
            counts.scatter_add_(1, place, torch.ones_like(place))
        return counts

    def listed(self, is_open: Any, n: int) -> tuple[Any, Any]:
        """Return group and value of the n predictions in open cells, in any order."""
        import torch

        groups, values = [], []
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            group, row = is_open.gather(1, _places(self.cuts, p)).nonzero(as_tuple=True)
            groups.append(group)
            values.append(p[group, row])
        return torch.cat(groups), torch.cat(values)


def _from_parts(
    cuts: Any, counts: Any, is_open: Any, listed: tuple[Any, Any], targets: Any
) -> Iterator[Values]:
    """Yield values and masses of each group, from the cells and the rows that were listed."""
    import torch

    # Rows between two values that are not listed count with the value after them.
    mass = counts.masked_fill(is_open, 0)
    mass = mass[:, ::2] + torch.nn.functional.pad(mass[:, 1::2], (0, 1))
    values = torch.nn.functional.pad(cuts, (0, 1), value=torch.inf)
    group, place = mass.nonzero(as_tuple=True)
    value = torch.cat([values[group, place], listed[1]])
    mass = torch.cat([mass[group, place], torch.ones_like(listed[0])])
    group = torch.cat([group, listed[0]])
    order = value.argsort()
    order = order[group[order].argsort(stable=True)]
    group, value, mass = group[order], value[order], mass[order]
    new = torch.ones_like(group, dtype=torch.bool)
    new[1:] = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
    above = torch.zeros(int(new.sum()), dtype=torch.int64, device=mass.device)
    above = above.index_add_(0, new.cumsum(0) - 1, mass).cumsum(0)
    group, value = group[new], value[new]
    n_groups, n = len(cuts), above[-1] // len(cuts)
    ends = n * torch.arange(1, n_groups + 1, device=above.device)[:, None]
    last = torch.searchsorted(above, ends)
    first = torch.nn.functional.pad(last[:-1] + 1, (0, 0, 1, 0))
    holding = torch.searchsorted(above, ends - n + targets)
    near = torch.cat([holding - 1, holding, holding + 1, last], dim=1)
    near = near.clamp(first, last)
    listed_values = zip(
        value[near].cpu().numpy(), (above[near] - ends + n).cpu().numpy(), strict=True
    )
    for few, masses in listed_values:
        distinct, first_place = np.unique(few, return_index=True)
        yield distinct, np.diff(masses[first_place], prepend=0).astype(np.float64)
