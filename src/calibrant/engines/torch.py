"""Tensors counted on the device they are on: only sums, and the values that make edges, leave it.

Rows are summed as whole numbers (`calibrant.engines.exact_sums`), so every run gives the same bits.
With sample weights they are summed in float64, some rows at a time, and the order of additions is
the device's own: two runs can differ in the last digits. Devices without float64 add pairs.

Quantiles are exact, without sorting all rows. A sample of them, sorted, cuts each group into cells:
one for each value of the sample, and one between each two. One read counts the rows of every cell.
A second read lists the rows of the few cells between values that hold a quantile, or lie beside a
value that does. Many classes are read a block at a time: of 50,000 rows of 1,000 classes, all this
takes a twentieth of the memory of the input, of which a tenth is what is kept of each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import torch
from calibrant._types import FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, NearQuantiles
from calibrant.engines import cuda, cuda_quantiles
from calibrant.engines.cells import add_compensated, inner_edges, levels_of, named_sums
from calibrant.engines.exact_sums import ExactSums
from calibrant.engines.pairs import (
    BEYOND,
    has_float64,
    on_host,
    probabilities,
    sums_at,
    wide,
    wide_array,
)
from calibrant.engines.search import Values
from calibrant.engines.tensors import Tensors, chunks_of, edges_on, is_narrow, widened
from calibrant.problem import EVENT, Problem
from calibrant.table import BinTable

SUMMED_CELLS, FEWEST_COPIES = 1 << 18, 8
"""Cells of weighted sums are copied up to about this number: short sums lose fewer digits,
and threads that add to one address wait for each other."""


CELLS_OF_ONE, CELLS_OF_MANY = 1 << 13, 768
"""Values of the sample, of one group and of one among many: of 15 bins one row in 300 or in 28 is
listed. Affects speed and memory only, never an edge."""
MANY_BINS = 32
"""Of one group of float32, beyond which the sample is twice as large. Affects speed only."""
PARTS = (42, 21, 0)
"""Where parts of 21 bits end."""


class TorchEngine:
    """Counts tensors where they are."""

    def choose(self, tensors: Tensors, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        if type(rule) is EqualMass and tensors.weights is None:
            return rule.choose_near(near_quantiles(tensors, rule.n_bins), len(tensors))
        return tuple(rule.choose(*values) for values in _distinct(tensors))

    def count(self, tensors: Tensors, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        if tensors.weights is not None:
            sums = _summed(tensors, _Places(bins, tensors.predictions.device))
            return BinTable(tensors.problem, bins, **{name: x[0] for name, x in sums.items()})
        problem, are_logits = tensors.problem, tensors.are_logits
        if bins == bins[:1] * len(bins):
            exact = _layout(problem, bins[0], are_logits)
        else:  # they were chosen from the data, and differ from call to call
            exact = ExactSums(problem, bins, are_logits=are_logits)
        state = exact.zeros(tensors.predictions.device)
        exact.add(state, tensors.labels, tensors.predictions)
        return exact.table(state, lambda: _levels(tensors, _Places(bins, state.device))[0])

    def count_by(
        self, tensors: Tensors, bins: tuple[Bins, ...], codes: IntArray, n_codes: int
    ) -> dict[str, FloatArray]:
        """Check and sum the rows of each code; see `calibrant.engines.Engine`."""
        return _summed(tensors, _Places(bins, tensors.predictions.device, codes, n_codes))

    def influence_sums(
        self, tensors: Tensors, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows once more; see `calibrant._influences`."""
        where = tensors.predictions.device
        slope, offset = (wide_array(x.ravel(), where) for x in (influence.slope, influence.offset))
        places = _Places(bins, where)
        total = wide_array(np.zeros(6), where)
        for p, event, weights in chunks_of(tensors):
            place, p = places(p, 0), probabilities(p)
            ones = torch.ones_like(event[0])
            w = wide(ones) if weights is None else weights / influence.mean_weight
            wa = w * ((slope[place] * (wide(event) - p)).sum(0) - influence.mean_a)
            wm = w * (offset[place].sum(0) - influence.mean_m)
            terms = (w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4)
            total = total + torch.stack([term.sum() for term in terms])
        return InfluenceSums(*on_host(total).tolist())


@lru_cache(maxsize=8)
def _layout(problem: Problem, bins: Bins, are_logits: bool) -> ExactSums:
    """Return the layout of sums in these bins for all groups; its constants stay on the device."""
    return ExactSums(problem, (bins,) * problem.n_groups, are_logits=are_logits)


class _Places:
    """Finds the bin of each prediction, of shape (groups, rows), among those of all groups.

    Where rows have codes, those of each code have bins apart.
    """

    def __init__(
        self, bins: tuple[Bins, ...], device: Any, codes: IntArray | None = None, n_codes: int = 1
    ) -> None:
        n_bins = max(map(len, bins))
        self.inner, self.edges = inner_edges(bins), None
        self.first = n_bins * torch.arange(len(bins), device=device)[:, None]
        self.codes = None if codes is None else torch.from_numpy(codes).to(device)
        self.shape = (n_codes, len(bins), n_bins)

    def __call__(self, p: Any, start: int) -> Any:
        """Return the bins of rows from `start` on."""
        if self.edges is None:
            self.edges = edges_on(self.inner, p.device, p.dtype)
        place = torch.searchsorted(self.edges, p) + self.first
        if self.codes is None:
            return place
        codes = self.codes[start : start + p.shape[1]].long()
        return place + self.shape[1] * self.shape[2] * codes


def _summed(tensors: Tensors, places: _Places) -> dict[str, FloatArray]:
    """Sum rows, weighted or not, in float64, with compensation (Kahan) from chunk to chunk."""
    where, start = tensors.predictions.device, 0
    if not has_float64(where):
        return _summed_pairs(tensors, places)
    n_cells = 2 * math.prod(places.shape)
    copies = max(FEWEST_COPIES, SUMMED_CELLS // n_cells)
    total = torch.zeros((6, n_cells), dtype=torch.float64, device=where)
    lost = torch.zeros_like(total)
    for p, event, weights in chunks_of(tensors):
        turn = torch.arange(p.numel(), device=where) % copies
        place = n_cells * turn + (2 * places(p, start) + event).view(-1)
        start += p.shape[1]
        for i, term in enumerate(_terms(p, event, weights)):
            parts = torch.zeros(copies * n_cells, dtype=torch.float64, device=where)
            parts.scatter_add_(0, place, term.reshape(-1))
            added = parts.view(copies, n_cells).sum(0)
            total[i], lost[i] = add_compensated(total[i], lost[i], added)
    return _arrays_by_name(tensors, places, (total - lost).T.cpu().numpy())


def _summed_pairs(tensors: Tensors, places: _Places) -> dict[str, FloatArray]:
    """Sum rows as `_summed` does, in pairs; each chunk is a sum of whole numbers."""
    start, n_cells = 0, 2 * math.prod(places.shape)
    total: Any = None
    for p, event, weights in chunks_of(tensors):
        place = (2 * places(p, start) + event).view(-1)
        start += p.shape[1]
        terms = _terms(probabilities(p), event, weights)
        sums = [sums_at(place, n_cells, term.reshape(-1)) for term in terms]
        total = sums if total is None else [a + b for a, b in zip(total, sums, strict=True)]
    return _arrays_by_name(tensors, places, np.stack([on_host(term) for term in total], axis=1))


def _terms(p: Any, event: Any, weights: Any) -> list[Any]:
    """Return what is summed of weighted rows; see `named_sums`."""
    w = wide(torch.ones_like(event)) if weights is None else weights.expand(p.shape)
    square, residual = w * w, wide(event) - p
    return [wide(w > 0), w * p, w * p * p, w, square, square * residual * residual]


def _arrays_by_name(tensors: Tensors, places: _Places, sums: FloatArray) -> dict[str, FloatArray]:
    """Return sums of each cell as the arrays of tables, with levels."""
    level, unclear = levels_of(sums, True)
    level = level.reshape(places.shape)
    if unclear:
        level = np.where(np.isnan(level), np.nan, _levels(tensors, places))
    return named_sums(sums.reshape(*places.shape, 2, -1), level, True)


def _levels(tensors: Tensors, places: _Places) -> FloatArray:
    """Read the rows for the one prediction of each bin, NaN where there are several or none."""
    n_bins, start = math.prod(places.shape), 0
    least: list[Any] = []  # of each part of the predictions, and of minus it
    for p, _, weights in chunks_of(tensors):
        place = places(p, start).view(-1)
        start += p.shape[1]
        has_rows = torch.ones_like(place) if weights is None else (weights > 0).expand_as(p)
        parts = [p.reshape(-1)]
        if p.dtype == torch.int64:  # bits, in parts that are float32: not all devices compare int64
            parts = [((parts[0] >> shift) & 0x1FFFFF).float() for shift in PARTS]
        signed = [sign * part for part in parts for sign in (1, -1)]
        least = least or [part.new_full((n_bins,), torch.inf) for part in signed]
        for end, part in zip(least, signed, strict=True):
            used = torch.where(has_rows.reshape(-1) > 0, part, torch.inf)
            end.scatter_reduce_(0, place, used, "amin")
    ends = zip(least[::2], least[1::2], strict=True)
    levels = [on_host(torch.where(low == -high, low, torch.nan)) for low, high in ends]
    level = levels[0]
    if len(levels) > 1:
        bits = [np.nan_to_num(x).astype(np.int64) << s for x, s in zip(levels, PARTS, strict=True)]
        level = np.where(np.isnan(levels).any(axis=0), np.nan, np.sum(bits, 0).view(np.float64))
    return level.reshape(places.shape)


def _distinct(tensors: Tensors) -> Iterator[Values]:
    """Yield the distinct predictions of each group, sorted, and the mass of each."""
    every = torch.cat([p for p, _, _ in chunks_of(tensors)], dim=1)
    weights = tensors.weights
    used = None if weights is None else weights > 0
    for group in every:
        ordered, order = (group if used is None else group[used]).sort()
        values, place, count = ordered.unique_consecutive(return_inverse=True, return_counts=True)
        if weights is None:
            mass = count.cpu().numpy().astype(np.float64)
        else:
            mass = on_host(sums_at(place, len(values), weights[used][order]))
        yield on_host(values), mass


def near_quantiles(tensors: Tensors, n_bins: int) -> NearQuantiles:
    """Return the values of each group next to the quantiles of `EqualMass(n_bins)`."""
    is_top, serves = tensors.problem.kind == "top-label", cuda.serves(tensors.predictions)
    if is_top and serves:
        tensors = Tensors(EVENT, tensors.labels, cuda.confidences(tensors))
    elif is_top or (tensors.are_logits and not serves):
        # The sample must hold the very numbers that are counted: they are computed once.
        p = torch.cat([p for p, _, _ in chunks_of(tensors, check_labels=False)], dim=1)
        problem = EVENT if is_top else tensors.problem
        p = p[0] if problem.kind == "binary" else p.T.contiguous()
        tensors = Tensors(problem, tensors.labels, p)
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


def _step(tensors: Tensors, n_bins: int) -> int:
    """Return the step between sampled rows."""
    n_groups = tensors.problem.n_groups
    size = CELLS_OF_ONE if n_groups == 1 else CELLS_OF_MANY
    if n_groups == 1 and n_bins > MANY_BINS and is_narrow(tensors.predictions):
        size *= 2  # as many float32 as fit into the shared memory of a GPU
    return -(-len(tensors) // size) | 1  # an odd step samples data that alternate, too


def _cuts(rows: Any) -> Any:
    """Return distinct values of each group in rising order, (groups, cuts), between infinities.

    These make every cell that can hold rows, and every such cut, have neighbours.
    """
    end = _beyond(rows)
    rows = torch.nn.functional.pad(rows, (1, 1), value=end)
    rows[:, 0] = -end
    rows = rows.sort(dim=1).values
    rows[:, 1:].masked_fill_(rows[:, 1:] == rows[:, :-1], end)
    return rows.sort(dim=1).values


def _beyond(values: Any) -> Any:
    """Return a number above all predictions: infinity where there is one."""
    return torch.inf if values.is_floating_point() else BEYOND


def _cells_of(cuts: Any, p: Any) -> Any:
    """Return the cell of each prediction: 2 i + 1 for the value i, 2 i for those just before it."""
    below = torch.searchsorted(cuts, p)
    at = cuts.gather(1, below.clamp(max=cuts.shape[1] - 1)) == p
    return 2 * below + at


class _Cells:
    """Counts and lists predictions by plain PyTorch."""

    def __init__(self, tensors: Tensors, step: int) -> None:
        self.tensors, self.step, self.n = tensors, step, len(tensors)

    def sample(self) -> Any:
        """Return the predictions of every `step`-th row, (groups, rows)."""
        p = widened(self.tensors.predictions[:: self.step])
        return p[None] if p.ndim == 1 else p.T.contiguous()

    def count(self, cuts: Any) -> Any:
        """Return the rows of each cell that cuts make, (groups, cells)."""
        self.cuts = cuts
        shape = (len(self.cuts), 2 * self.cuts.shape[1] + 1)
        counts = torch.zeros(shape, dtype=torch.int64, device=self.cuts.device)
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            place = _cells_of(self.cuts, p)
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
        values, run = self._listed(begin >= 0)
        last = len(values) - 1
        sizes, start = sizes.gather(1, near), begin.gather(1, near)
        before, up_to, _ = rows.tensor_split(3, dim=1)
        n_before, _, n_after = sizes.tensor_split(3, dim=1)
        rank = torch.cat([n_before, targets - before, torch.ones_like(n_after)], dim=1)
        place = (start + rank - 1).clamp(0, last)
        lengths = run.unique_consecutive(return_counts=True)[1]
        ends = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
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
        lower = torch.where(is_value, value[0], below)
        upper = torch.where(is_value, value[2], above)
        low, high = ((cell - start).tensor_split(3, dim=1)[1] for cell in (low, high))
        neighbours = [
            torch.where(lower == end, cuts[0], lower),
            torch.where(is_value, cuts[1], value[1]),
            torch.where(upper == end, cuts[2], upper),
            torch.where(is_value, before, before + low),
            torch.where(is_value, up_to, before + high),
        ]
        if not has_float64(values.device):
            values = [torch.from_numpy(on_host(x)) for x in neighbours[:3]]
            neighbours = [*values, *(x.cpu() for x in neighbours[3:])]
        return torch.stack([x.double() for x in neighbours])

    def _listed(self, is_open: Any) -> tuple[Any, Any]:
        """Return predictions in open cells, group by group in rising order, and runs of equal ones.

        Both end with one of a group beyond the last.
        """
        groups, values = [], []
        for p, _, _ in chunks_of(self.tensors, check_labels=False):
            group, row = is_open.gather(1, _cells_of(self.cuts, p)).nonzero(as_tuple=True)
            groups.append(group)
            values.append(p[group, row])
        group = torch.cat([*groups, groups[0].new_full((1,), len(self.cuts))])
        value = torch.cat([*values, values[0].new_full((1,), _beyond(self.cuts))])
        value, order = value.sort()
        group = group[order]
        # By number of the value within the group: not every device sorts stably.
        rank = torch.nn.functional.pad((value[1:] != value[:-1]).cumsum(0), (1, 0))
        order = (group * len(value) + rank).argsort()
        group, value = group[order], value[order]
        new = (group[1:] != group[:-1]) | (value[1:] != value[:-1])
        return value, torch.nn.functional.pad(new.cumsum(0), (1, 0))
