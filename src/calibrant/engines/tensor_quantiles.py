"""Exact quantiles of predictions on a device, without sorting them.

A sample of the rows, sorted, cuts each group into cells: one for each value of the sample, and one
between each two. One read counts the rows of every cell. A second read lists the rows of the few
cells between values that hold a quantile, or lie beside a value that does. Many classes are read a
block at a time: of 50,000 rows of 1,000 classes, all this takes a twentieth of the memory of the
input, of which a tenth is what is kept of each row.
"""

from __future__ import annotations

from typing import Any

from calibrant.bins import NearQuantiles
from calibrant.engines import cuda, cuda_quantiles
from calibrant.engines.pairs import BEYOND, has_float64, on_host
from calibrant.engines.tensors import Tensors, chunks_of, is_narrow, widened
from calibrant.problem import read_problem

CELLS_OF_ONE, CELLS_OF_MANY = 1 << 13, 768
"""Values of the sample, of one group and of one among many: of 15 bins one row in 300 or in 28 is
listed. Affects speed and memory only, never an edge."""
MANY_BINS = 32
"""Of one group of float32, beyond which the sample is twice as large. Affects speed only."""


def near_quantiles(tensors: Tensors, n_bins: int) -> NearQuantiles:
    """Return the values of each group next to the quantiles of `EqualMass(n_bins)`."""
    import torch

    if tensors.problem.kind == "top-label":
        tensors = _confidences(tensors)
    elif tensors.are_logits and not cuda.serves(tensors.predictions):
        # The sample must hold the very numbers that are counted: they are computed once.
        parts = [p for p, _, _ in chunks_of(tensors, check_labels=False)]
        p = torch.cat(parts, dim=1)
        p = p[0] if tensors.problem.kind == "binary" else p.T.contiguous()
        tensors = Tensors(tensors.problem, tensors.labels, p)
    step = _step(tensors, n_bins)
    # Rows up to a quantile, rounded up: the cell that holds it is the first with as many.
    targets = -(-len(tensors) * torch.arange(1, n_bins) // n_bins)
    if not cuda.serves(tensors.predictions) or len(tensors) > cuda_quantiles.MOST_LISTED:
        near = _near(_Cells(tensors, step), targets)
    elif tensors.problem.n_groups > 1:
        targets = targets.to(tensors.predictions.device)
        blocks = cuda_quantiles.blocks_of_classes(tensors, step, n_bins)
        near = torch.cat([block.near(targets) for block in blocks], dim=1)
    else:
        near = _near(cuda_quantiles.OneColumn(tensors, step), targets)
    return NearQuantiles(*near.cpu().numpy())


def _near(cells: Any, targets: Any) -> Any:
    """Return the five arrays of `NearQuantiles`, (5, groups, quantiles)."""
    import torch

    counts = cells.count(_cuts(cells.sample()))
    small = torch.int32 if cells.n < 1 << 31 else torch.int64
    above = counts.cumsum(1, dtype=small)
    targets = targets.to(counts.device)
    holding = torch.searchsorted(above, targets.to(small).repeat(len(counts), 1))
    # Between values, the neighbours of a cell are values; of a value, they are cells to be listed.
    near = torch.cat([holding - 1, holding, holding + 1], dim=1)
    rows = above.gather(1, near)
    del above
    marked = torch.zeros_like(counts, dtype=torch.bool)
    marked.scatter_(1, near, True)[:, 1::2] = False
    counts *= marked
    begin = counts.view(-1).cumsum(0, dtype=torch.int32).view_as(counts).sub_(counts)
    return cells.neighbours(counts, begin.masked_fill_(~marked, -1), near, rows, targets)


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
    size = CELLS_OF_ONE if n_groups == 1 else CELLS_OF_MANY
    if n_groups == 1 and n_bins > MANY_BINS and is_narrow(tensors.predictions):
        size *= 2  # as many of float32 as fit into the memory that a GPU shares among threads
    return -(-len(tensors) // size) | 1  # an odd one meets rows that alternate


def _cuts(rows: Any) -> Any:
    """Return distinct values of each group in rising order, (groups, cuts), between infinities.

    These make every cell that can hold rows, and every such cut, have neighbours.
    """
    import torch

    end = _beyond(rows)
    rows = torch.nn.functional.pad(rows, (1, 1), value=end)
    rows[:, 0] = -end
    rows = rows.sort(dim=1).values
    rows[:, 1:].masked_fill_(rows[:, 1:] == rows[:, :-1], end)
    return rows.sort(dim=1).values


def _beyond(values: Any) -> Any:
    """Return a number above all predictions: infinity where there is one."""
    import torch

    return torch.inf if values.is_floating_point() else BEYOND


def _places(cuts: Any, p: Any) -> Any:
    """Return the cell of each prediction: 2 i + 1 for the value i, 2 i for those just before it."""
    import torch

    below = torch.searchsorted(cuts, p)
    at = cuts.gather(1, below.clamp(max=cuts.shape[1] - 1)) == p
    return 2 * below + at


class _Cells:
    """Counts and lists predictions by plain PyTorch."""

    def __init__(self, tensors: Tensors, step: int) -> None:
        self.tensors, self.step, self.n = tensors, step, len(tensors)

    def sample(self) -> Any:
        """Return the predictions of every so many rows, (groups, rows)."""
        p = widened(self.tensors.predictions[:: self.step])
        return p[None] if p.ndim == 1 else p.T.contiguous()

    def count(self, cuts: Any) -> Any:
        """Return the rows of each cell that cuts make, (groups, cells)."""
        import torch

        self.cuts = cuts
        shape = (len(self.cuts), 2 * self.cuts.shape[1] + 1)
        counts = torch.zeros(shape, dtype=torch.int64, device=self.cuts.device)
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            place = _places(self.cuts, p)
            place += shape[1] * torch.arange(shape[0], device=place.device)[:, None]
            counts.view(-1).index_add_(0, place.view(-1), torch.ones_like(place).view(-1))
        return counts

    def neighbours(self, sizes: Any, begin: Any, near: Any, rows: Any, targets: Any) -> Any:
        """Return the five arrays of `NearQuantiles`.

        Parameters
        ----------
        sizes, begin : tensor of shape (groups, cells)
            The rows of open cells, and where they begin in a list of the rows of all; 0 and -1
            for other cells.
        near, rows : tensor of shape (groups, 3 quantiles)
            The cells before those that hold a quantile, these, and the ones after; and the rows
            up to each.
        targets : tensor of shape (quantiles,)
            The rows up to a quantile.
        """
        import torch

        values, run = self._listed(begin >= 0)
        last = len(values) - 1
        sizes, start = sizes.gather(1, near), begin.gather(1, near)
        before, up_to, _ = rows.tensor_split(3, dim=1)
        n_before, _, n_after = sizes.tensor_split(3, dim=1)
        rank = torch.cat([n_before, targets - before, torch.ones_like(n_after)], dim=1)
        place = (start + rank - 1).clamp(0, last)
        ends = torch.nn.functional.pad(
            run.unique_consecutive(return_counts=True)[1].cumsum(0), (1, 0)
        )
        low, high = ends[run[place]], ends[run[place] + 1]

        end = _beyond(values)

        def parts(numbers: Any, used: Any = True) -> Any:
            used = (sizes > 0) & used
            return torch.where(used, numbers, end).tensor_split(3, dim=1)

        value, below = parts(values[place]), parts(values[low - 1], low > start)[1]
        above = parts(values[high.clamp(max=last)], high < start + sizes)[1]
        # Of a cut, its neighbours are in the cells beside it; of a value in a cell, in that cell;
        # where there are no such rows, they are cuts.
        holding = near.tensor_split(3, dim=1)[1]
        is_value, place = holding % 2 == 1, holding // 2
        beside = torch.cat([place - 1, place, place + is_value], dim=1)
        cuts = self.cuts.gather(1, beside).tensor_split(3, dim=1)
        lower, upper = (
            torch.where(is_value, value[0], below),
            torch.where(is_value, value[2], above),
        )
        low, high = ((each - start).tensor_split(3, dim=1)[1] for each in (low, high))
        found = [
            torch.where(lower == end, cuts[0], lower),
            torch.where(is_value, cuts[1], value[1]),
            torch.where(upper == end, cuts[2], upper),
            torch.where(is_value, before, before + low),
            torch.where(is_value, up_to, before + high),
        ]
        if not has_float64(values.device):
            found = [
                *(torch.from_numpy(on_host(x)) for x in found[:3]),
                *(x.cpu() for x in found[3:]),
            ]
        return torch.stack([x.double() for x in found])

    def _listed(self, is_open: Any) -> tuple[Any, Any]:
        """Return predictions in open cells, group by group in rising order, and runs of equal ones.

        Both end with one of a group beyond the last.
        """
        import torch

        groups, values = [], []
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            group, row = is_open.gather(1, _places(self.cuts, p)).nonzero(as_tuple=True)
            groups.append(group)
            values.append(p[group, row])
        ended = [
            values[0].new_full((1,), _beyond(self.cuts)),
            groups[0].new_full((1,), len(self.cuts)),
        ]
        group, value = torch.cat([*groups, ended[1]]), torch.cat([*values, ended[0]])
        value, order = value.sort()
        group = group[order]
        # By number of the value within the group: not every device sorts stably.
        rank = torch.nn.functional.pad((value[1:] != value[:-1]).cumsum(0), (1, 0))
        order = (group * len(value) + rank).argsort()
        group, value = group[order], value[order]
        new = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
        return value, torch.nn.functional.pad(new.cumsum(0), (1, 0))
