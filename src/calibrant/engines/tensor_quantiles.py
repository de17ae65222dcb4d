"""Exact quantiles of predictions on a device, without sorting them.

A sample of the rows, sorted, cuts each group into cells: one for each value of the sample, and one
between each two. One read counts the rows of every cell. A second read lists the rows of the few
cells between values that hold a quantile, or lie beside a value that does; only these are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calibrant.engines.search import Values
from calibrant.engines.tensors import Tensors, chunks_of, predictions_of

CELLS_PER_BIN, FEWEST_CELLS, MOST_CELLS, MOST_OF_ALL = 64, 1 << 10, 1 << 16, 1 << 20
"""With 64 values of the sample for each bin about one row in 64 is listed; fewer where that would
be more than 2^16, or 2^20 in all groups together. Affects speed and memory only, never an edge."""


def near_quantiles(tensors: Tensors, n_bins: int) -> Iterator[Values]:
    """Yield for each group the values from which `EqualMass(n_bins)` makes the edges of all.

    Those are the distinct values that hold a quantile and the next on either side, each with the
    mass of all values since the one before.
    """
    import torch

    cuts = _sample(tensors, n_bins)
    counts = torch.zeros(len(cuts), 2 * cuts.shape[1] + 1, dtype=torch.int64, device=cuts.device)
    for p, _, _ in chunks_of(tensors, check_labels=False):
        place = _places(cuts, p)
        counts.scatter_add_(1, place, torch.ones_like(place))
    n = len(tensors)
    # Rows up to a quantile, rounded up: the cell that holds it is the first with as many.
    targets = -(-n * torch.arange(1, n_bins, device=cuts.device) // n_bins)
    holding = torch.searchsorted(counts.cumsum(1), targets.expand(len(cuts), -1).contiguous())
    marked = torch.zeros_like(counts)
    beside = torch.stack([holding - 1, holding, holding + 1]).clamp(0, counts.shape[1] - 1)
    for cells in beside:
        marked.scatter_(1, cells, 1)
    # Of a cell between values the neighbours are values; of a value, they are to be listed.
    is_open = marked.bool() & (torch.arange(counts.shape[1], device=cuts.device) % 2 == 0)
    return _from_parts(cuts, counts, is_open, _listed(tensors, cuts, is_open), targets)


def _sample(tensors: Tensors, n_bins: int) -> Any:
    """Return distinct values of each group in rising order, (groups, cells), ended by infinity."""
    import torch

    n_groups = tensors.problem.n_groups
    size = min(max(CELLS_PER_BIN * n_bins, FEWEST_CELLS), MOST_CELLS, MOST_OF_ALL // n_groups)
    step = max(1, len(tensors) // max(size, 4)) | 1  # an odd one meets rows that alternate
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


def _listed(tensors: Tensors, cuts: Any, is_open: Any) -> tuple[Any, Any]:
    """Return group and prediction of all rows in open cells."""
    import torch

    groups, values = [], []
    for p, _, _ in chunks_of(tensors, check_labels=False):
        group, row = is_open.gather(1, _places(cuts, p)).nonzero(as_tuple=True)
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
