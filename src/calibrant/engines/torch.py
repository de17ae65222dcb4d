"""Tensors counted on the device they are on: only sums, and the values that make edges, leave it.

Rows are summed as whole numbers (`calibrant.engines.exact_sums`), so every run gives the same bits.
With sample weights they are summed in float64, some rows at a time, and the order of additions is
the device's own: two runs can differ in the last digits. Devices without float64 add pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray, IntArray
from calibrant.bins import BinRule, Bins, EqualMass, inner_edges
from calibrant.engines.cells import levels_of, named_sums
from calibrant.engines.exact_sums import ExactSums
from calibrant.engines.pairs import has_float64, on_host, probabilities, sums_at, wide, wide_array
from calibrant.engines.search import Values
from calibrant.engines.tensor_quantiles import near_quantiles
from calibrant.engines.tensors import Tensors, chunks_of, edges_on
from calibrant.problem import Problem
from calibrant.table import BinTable

SUMMED_CELLS, FEWEST_COPIES = 1 << 18, 8
"""Cells of weighted sums are copied until there are about so many: short sums lose fewer digits,
and threads that add to one address wait for each other."""


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
        import torch

        where = tensors.predictions.device
        slope, offset = (wide_array(x.ravel(), where) for x in (influence.slope, influence.offset))
        places = _Places(bins, where)
        total = wide_array(np.zeros(6), where)
        for p, event, weights in chunks_of(tensors):
            place, p = places(p, 0), probabilities(p)
            w = (
                wide(torch.ones_like(event[0]))
                if weights is None
                else weights / influence.mean_weight
            )
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
        import torch

        n_bins = max(map(len, bins))
        self.inner, self.edges = inner_edges(bins), None
        self.first = n_bins * torch.arange(len(bins), device=device)[:, None]
        self.codes = None if codes is None else torch.from_numpy(codes).to(device)
        self.shape = (n_codes, len(bins), n_bins)

    def __call__(self, p: Any, start: int) -> Any:
        """Return the bins of rows from `start` on."""
        import torch

        if self.edges is None:
            self.edges = edges_on(self.inner, p.device, p.dtype)
        place = torch.searchsorted(self.edges, p) + self.first
        if self.codes is None:
            return place
        codes = self.codes[start : start + p.shape[1]].long()
        return place + self.shape[1] * self.shape[2] * codes


def _summed(tensors: Tensors, places: _Places) -> dict[str, FloatArray]:
    """Sum rows, weighted or not, in float64, with compensation (Kahan) from chunk to chunk."""
    import torch

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
            moved = parts.view(copies, n_cells).sum(0) - lost[i]
            new = total[i] + moved
            lost[i] = (new - total[i]) - moved
            total[i] = new
    return _named(tensors, places, (total - lost).T.cpu().numpy())


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
    return _named(tensors, places, np.stack([on_host(term) for term in total], axis=1))


def _terms(p: Any, event: Any, weights: Any) -> list[Any]:
    """Return what is summed of weighted rows; see `named_sums`."""
    import torch

    w = wide(torch.ones_like(event)) if weights is None else weights.expand(p.shape)
    square, residual = w * w, wide(event) - p
    return [wide(w > 0), w * p, w * p * p, w, square, square * residual * residual]


def _named(tensors: Tensors, places: _Places, sums: FloatArray) -> dict[str, FloatArray]:
    """Return sums of each cell as the arrays of tables, with levels."""
    level, unclear = levels_of(sums, True)
    level = level.reshape(places.shape)
    if unclear:
        level = np.where(np.isnan(level), np.nan, _levels(tensors, places))
    return named_sums(sums.reshape(*places.shape, 2, -1), level, True)


def _levels(tensors: Tensors, places: _Places) -> FloatArray:
    """Read the rows for the one prediction of each bin, NaN where there are several or none."""
    import torch

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
    import torch

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
