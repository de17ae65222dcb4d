"""Tensors counted on the device they are on: only sums, and the values that make edges, leave it.

Rows are read in chunks, so that what is needed beside the tensors does not grow with them. Sums of
a chunk are added by the device in an order of its own: two runs can differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import FloatArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.engines.cells import levels_of, table_of
from calibrant.engines.search import Values
from calibrant.problem import Label, Problem, same_number
from calibrant.table import BinTable

CHUNK_VALUES = 1 << 22
"""Predictions that are counted at a time: about 300 MB of temporaries on the device."""
SORTED_VALUES = 1 << 25
"""Predictions of classes that are sorted at a time: 256 MB for the copy, and as much beside it."""
SUMMED_CELLS, FEWEST_COPIES = 1 << 18, 8
"""Cells are copied until there are about so many: short sums lose fewer digits, and threads that
add to one address wait for each other."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """Labels, predictions and weights on one device; the fields are those of `Columns`."""

    problem: Problem
    labels: Any
    predictions: Any
    weights: Any = None
    are_logits: bool = False

    def __len__(self) -> int:
        return len(self.labels)


class BadTensorError(Exception):
    """A value is wrong; the source copies the tensors to the host, where a message is made."""


class TorchEngine:
    """Counts tensors where they are, with PyTorch's own kernels."""

    def choose(self, tensors: Tensors, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        import torch

        probs, weights = tensors.predictions, tensors.weights
        if tensors.problem.kind == "top-label":
            probs = torch.cat([p.amax(1, keepdim=True) for p, _ in _predictions(tensors)])
        elif not bool(((probs >= 0) & (probs <= 1)).all()):
            raise BadTensorError
        probs = probs if probs.is_floating_point() else probs.double()
        probs = probs[:, None] if probs.ndim == 1 else probs
        if type(rule) is EqualMass and weights is None:
            step = max(1, SORTED_VALUES // len(tensors))
            parts = (probs[:, k : k + step].T for k in range(0, probs.shape[1], step))
            seen = [values for part in parts for values in _near_quantiles(part, rule.n_bins)]
        else:
            seen = [_distinct(column, weights) for column in probs.T]
        return tuple(rule.choose(*values) for values in seen)

    def count(self, tensors: Tensors, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        tally = _Tally(tensors, bins)
        for chunk in _chunks(tensors):
            tally.add(*chunk)
        sums, weighted = tally.sums(), tensors.weights is not None
        level, unclear = levels_of(sums, weighted)
        if unclear:
            level = tally.noted(level, _chunks(tensors))
        shape = (len(bins), tally.n_bins)
        return table_of(
            tensors.problem, bins, sums.reshape(*shape, 2, -1), level.reshape(shape), weighted
        )

    def influence_sums(
        self, tensors: Tensors, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows once more; see `calibrant._influences`."""
        import torch

        tally, where = _Tally(tensors, bins), tensors.predictions.device
        slope = torch.from_numpy(influence.slope.ravel().copy()).to(where)
        offset = torch.from_numpy(influence.offset.ravel().copy()).to(where)
        total = torch.zeros(6, dtype=torch.float64, device=where)
        for p, event, weights in _chunks(tensors):
            place = tally.places(p)
            w = torch.ones_like(p[0]) if weights is None else weights / influence.mean_weight
            wa = w * ((slope[place] * (event - p)).sum(0) - influence.mean_a)
            wm = w * (offset[place].sum(0) - influence.mean_m)
            terms = (w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4)
            total += torch.stack([term.sum() for term in terms])
        return InfluenceSums(*total.tolist())


class _Tally:
    """Sums on the device."""

    def __init__(self, tensors: Tensors, bins: tuple[Bins, ...]) -> None:
        import torch

        self.torch, self.n_bins = torch, max(map(len, bins))
        where = tensors.predictions.device
        edges = np.full((len(bins), max(self.n_bins - 1, 1)), np.inf)
        for row, own in zip(edges, bins, strict=True):
            row[: len(own) - 1] = own.edges[1:-1]
        shared = bool((edges == edges[0]).all())
        self.edges = torch.from_numpy(edges[0] if shared else edges).to(where)
        self.first = self.n_bins * torch.arange(len(bins), device=where)[:, None]
        n_terms = 3 if tensors.weights is None else 6
        n_cells = 2 * len(bins) * self.n_bins
        self.copies = max(FEWEST_COPIES, SUMMED_CELLS // n_cells)
        self.total = torch.zeros((n_terms, n_cells), dtype=torch.float64, device=where)
        self.lost = torch.zeros_like(self.total)

    def sums(self) -> FloatArray:
        """Return the sums, of shape (cells, terms)."""
        sums: FloatArray = (self.total - self.lost).T.cpu().numpy()
        return sums

    def add(self, p: Any, event: Any, weights: Any) -> None:
        """Add predictions, of shape (groups, rows), and whether they came true."""
        torch = self.torch
        if weights is None:
            terms = [torch.ones_like(p), p, p * p]
        else:
            w = weights.expand_as(p)
            square = w * w
            terms = [(w > 0).double(), w * p, w * p * p, w, square, square * (event - p) ** 2]
        n_cells = self.total.shape[1]
        turn = torch.arange(p.numel(), device=p.device) % self.copies
        place = n_cells * turn + (2 * self.places(p) + event).ravel()
        for total, lost, term in zip(self.total, self.lost, terms, strict=True):
            parts = torch.zeros(self.copies * n_cells, dtype=torch.float64, device=p.device)
            parts.scatter_add_(0, place, term.ravel())
            moved = parts.reshape(self.copies, n_cells).sum(0) - lost
            new = total + moved
            lost.copy_((new - total) - moved)
            total.copy_(new)

    def places(self, p: Any) -> Any:
        """Return how many edges lie strictly below each prediction, and the bins before them."""
        return self.torch.searchsorted(self.edges, p.contiguous()) + self.first

    def noted(self, level: FloatArray, chunks: Iterator[tuple[Any, Any, Any]]) -> FloatArray:
        """Return levels after reading all rows; NaN stays, and -1 is not yet known.

        Any row of a new bin tells its level, and rows that differ from it make it NaN.
        """
        torch, nowhere = self.torch, level.size
        known = torch.from_numpy(np.append(level, np.nan)).to(self.edges.device)
        for p, _, weights in chunks:
            place = self.places(p)
            if weights is not None:
                place = torch.where(weights > 0, place, nowhere)
            known[torch.where(known[place] == -1, place, nowhere)] = p
            known[torch.where(known[place] != p, place, nowhere)] = torch.nan
        noted: FloatArray = known[:-1].cpu().numpy()
        return noted


def _predictions(tensors: Tensors) -> Iterator[tuple[Any, slice]]:
    """Yield checked predictions in float64, and where they stand, some rows at a time."""
    probs = tensors.predictions
    step = max(1, CHUNK_VALUES // (1 if probs.ndim == 1 else probs.shape[1]))
    for start in range(0, len(tensors), step):
        part = slice(start, start + step)
        p = probs[part].double()
        p = p.softmax(dim=1) if tensors.are_logits else p
        if not bool(((p >= 0) & (p <= 1)).all()):
            raise BadTensorError
        yield p, part


def _chunks(tensors: Tensors) -> Iterator[tuple[Any, Any, Any]]:
    """Yield predictions and events, both (groups, rows), and weights, some rows at a time."""
    labels, weights, kind = tensors.labels, tensors.weights, tensors.problem.kind
    for p, part in _predictions(tensors):
        codes = _codes(tensors.problem, labels[part])
        if not bool((codes >= 0).all()):
            raise BadTensorError
        if kind == "binary":
            p, event = p[None], codes[None]
        elif kind == "top-label":
            top = _first_largest(p)
            p, event = p.gather(1, top[:, None]).T, (codes == top).long()[None]
        else:
            event = (codes == codes.new_tensor(range(p.shape[1]))[:, None]).long()
            p = p.T
        yield p, event, None if weights is None else weights[part]


def _first_largest(p: Any) -> Any:
    """Return the lowest index of the largest value of each row; argmax alone may return any."""
    rank = p.new_tensor(range(p.shape[1], 0, -1))
    return (rank * (p == p.amax(1, keepdim=True))).argmax(1)


def _codes(problem: Problem, labels: Any) -> Any:
    """Return class numbers, -1 where a label is not among the classes."""
    import torch

    if problem.pos_label is not None:
        return torch.where(labels != labels, -1, _equal(labels, problem.pos_label).long())
    if problem.classes is not None:
        codes = torch.full_like(labels, -1, dtype=torch.long)
        for code, name in enumerate(problem.classes):
            codes[_equal(labels, name)] = code
        return codes
    known = (labels >= 0) & (labels < problem.n_classes)
    codes = torch.where(known, labels, 0).long()
    return torch.where(known & (codes == labels), codes, -1)


def _equal(labels: Any, name: Label) -> Any:
    """Tell which labels equal a name; PyTorch would compare integers with floats as float32."""
    import torch

    if labels.is_floating_point():
        number = same_number(name, np.dtype("f8"))
        labels = labels.double()
    else:
        number = same_number(name, np.dtype("i8"))
    if number is None:
        return torch.zeros_like(labels, dtype=torch.bool)
    return labels == number.item()


def _distinct(values: Any, weights: Any) -> Values:
    """Return the distinct values, sorted, and the mass of each."""
    import torch

    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    ordered, order = values.sort()
    values, place, count = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    mass = count.double()
    if weights is not None:
        mass = torch.zeros_like(mass).index_add(0, place, weights[order])
    return values.double().cpu().numpy(), mass.cpu().numpy()


def _near_quantiles(columns: Any, n_bins: int) -> Iterator[Values]:
    """Yield for each column the values from which `EqualMass(n_bins)` makes the edges of all.

    Those are the distinct values that hold a quantile and the next on either side, each with the
    mass of all values since the one before.
    """
    import torch

    ordered = columns.contiguous().sort(dim=1).values
    last = ordered.shape[1] - 1

    def values_at(place: Any) -> Any:
        return ordered.gather(1, place.clamp(0, last))

    quantiles = -(-(last + 1) * torch.arange(1, n_bins, device=ordered.device) // n_bins) - 1
    ends = torch.tensor([0, last], device=ordered.device)
    held = values_at(torch.cat([quantiles, ends]).expand(len(ordered), -1).contiguous())
    below = torch.searchsorted(ordered, held)
    through = torch.searchsorted(ordered, held, right=True)
    near = torch.cat([values_at(below - 1), held, values_at(through)], dim=1)
    above = torch.searchsorted(ordered, near.contiguous(), right=True)
    for listed, mass in zip(near.double().cpu().numpy(), above.cpu().numpy(), strict=True):
        values, first = np.unique(listed, return_index=True)
        yield values, np.diff(mass[first], prepend=0).astype(np.float64)
