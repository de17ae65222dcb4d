"""Tensors counted on the device they are on: only sums, and the values that make edges, leave it.

Rows are read in chunks, so that what is needed beside the tensors does not grow with them. Sums of
a chunk are added by the device in an order of its own: two runs can differ in the last digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from calibrant._influences import Influence, InfluenceSums
from calibrant._types import AnyArray, FloatArray
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.engines.numpy import levels_of, table_of
from calibrant.engines.refine import Values
from calibrant.problem import (
    LARGEST_WEIGHT,
    SMALLEST_HEAVIEST,
    Input,
    Label,
    Problem,
    Rows,
    check_input,
    off_device,
    read_meaning,
    read_rows,
    refuse_masked,
    same_number,
)
from calibrant.table import BinTable

CHUNK_VALUES = 1 << 22
SORTED_VALUES = 1 << 25
SUMMED_CELLS, FEWEST_COPIES = 1 << 18, 8
"""Cells have so many copies that they are about this many: short sums lose fewer digits."""


class TensorRows(Rows):
    """Tensors of labels, predictions and weights; whoever asks for arrays gets copies."""

    def __init__(self, problem: Problem, tensors: dict[str, Any], are_logits: bool = False) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "are_logits", are_logits)

    tensors: dict[str, Any]

    def __len__(self) -> int:
        return len(self.tensors["labels"])

    def engine(self) -> TorchEngine:
        """Return the engine for these rows."""
        return TorchEngine()

    def __getattr__(self, name: str) -> Any:
        if name not in ("labels", "probs", "weights"):
            raise AttributeError(name)
        return getattr(self.copied, name)

    @cached_property
    def copied(self) -> Rows:
        """The rows as arrays."""
        problem, tensors = self.problem, self.tensors
        return read_rows(
            tensors["labels"],
            tensors["probs"],
            kind=problem.kind,
            classes=problem.classes,
            pos_label=problem.pos_label,
            sample_weight=tensors["weights"],
            input="logits" if self.are_logits else "probabilities",
        )


def read_tensors(
    y_true: Any,
    y_prob: Any,
    *,
    sample_weight: Any = None,
    input: Input = "probabilities",  # noqa: A002
    part: bool = False,
    **meaning: Any,
) -> Rows:
    """Decide what the tensors mean as `read_rows` does; all go to the device of the predictions.

    Labels that are text have no tensor: then the predictions come to the host instead.
    """
    import torch

    check_input(input)
    given = {"sample_weight": sample_weight, "input": input, "part": part, **meaning}
    refuse_masked(y_true, "y_true")
    refuse_masked(sample_weight, "sample_weight")
    try:
        labels, probs = torch.as_tensor(y_true, device=y_prob.device), y_prob.detach()
    except (TypeError, ValueError):
        return read_rows(y_true, y_prob, **given)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or probs.ndim == 0:
        return read_rows(labels, probs, **meaning)  # raises, and says what to do
    if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):  # which few functions take
        signed = labels.long()
        if bool((signed < 0).any()):  # beyond what a signed integer holds
            return read_rows(y_true, y_prob, **given)
        labels = signed
    problem, column = read_meaning(_shape_of(labels), _shape_of(probs), **meaning)
    kept = input == "logits" and problem.kind == "top-label"
    if column is not None:
        both = probs
        probs = _event_column(both, column, input)
        if probs is None:  # reading the host's copy raises, and says why
            return read_rows(labels, both, input=input, **meaning)
    if input == "logits" and not kept:
        probs = probs.double().softmax(dim=1) if probs.ndim == 2 else probs.double().sigmoid()
    weights = None
    if sample_weight is not None:
        weights = torch.as_tensor(sample_weight, device=probs.device).detach().double()
    tensors = {"labels": labels, "probs": probs, "weights": weights}
    rows = TensorRows(problem, tensors, kept)
    if weights is not None and not _are_weights(weights, len(rows), part):
        _ = rows.copied  # raises, and says why
    return rows


def _event_column(probs: Any, column: int, input: Input) -> Any:  # noqa: A002
    """Return the column of the event, or its log-odds; None where either column is wrong."""
    if probs.shape[1] == 1:
        return probs[:, 0]
    if input == "logits":
        log_odds = probs[:, column].double() - probs[:, 1 - column].double()
        return None if bool(log_odds.isnan().any()) else log_odds
    parts = probs.split(CHUNK_VALUES)
    fine = all(bool(((part >= 0) & (part <= 1)).all()) for part in parts)
    return probs[:, column] if fine else None


def _shape_of(tensor: Any) -> AnyArray:
    """Return an array of the tensor's shape, filled with its first value, that takes no room."""
    first = np.asarray(off_device(tensor.ravel()[0])) if tensor.numel() else np.zeros(())
    return np.broadcast_to(first, tuple(tensor.shape))


def _are_weights(weights: Any, n: int, part: bool) -> bool:
    if weights.shape != (n,):
        return False
    low, high = (float(x) for x in weights.aminmax())
    least = 0.0 if part else SMALLEST_HEAVIEST
    return low >= 0 and least <= high <= LARGEST_WEIGHT


class TorchEngine:
    """Counts tensors where they are, with PyTorch's own kernels."""

    def choose_bins(self, rows: TensorRows, rule: BinRule) -> tuple[Bins, ...]:
        """Let the rule choose bins for each group from its distinct predictions."""
        import torch

        probs, weights = rows.tensors["probs"], rows.tensors["weights"]
        if rows.problem.kind == "top-label":
            probs = torch.cat([p.amax(1, keepdim=True) for p, _ in _predictions(rows)])
        elif not bool(((probs >= 0) & (probs <= 1)).all()):
            rows.explain_probabilities()
        probs = probs if probs.is_floating_point() else probs.double()
        probs = probs[:, None] if probs.ndim == 1 else probs
        if type(rule) is EqualMass and weights is None:
            step = max(1, SORTED_VALUES // len(rows))
            parts = (probs[:, k : k + step].T for k in range(0, probs.shape[1], step))
            seen = [each for some in parts for each in _near_quantiles(some, rule.n_bins)]
        else:
            seen = [_distinct(column, weights) for column in probs.T]
        return tuple(rule.choose(*each) for each in seen)

    def tabulate(self, rows: TensorRows, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows in these bins, one `Bins` for each group."""
        tally = _Tally(rows, bins)
        for chunk in _chunks(rows):
            tally.add(*chunk)
        sums, weighted = tally.sums(), rows.tensors["weights"] is not None
        level, unclear = levels_of(sums, weighted)
        if unclear:
            level = tally.noted(level, _chunks(rows))
        shape = (len(bins), tally.n_bins)
        return table_of(
            rows.problem, bins, sums.reshape(*shape, 2, -1), level.reshape(shape), weighted
        )

    def influence_sums(
        self, rows: TensorRows, bins: tuple[Bins, ...], influence: Influence
    ) -> InfluenceSums:
        """Read the rows once more; see `calibrant._influences`."""
        import torch

        tally, where = _Tally(rows, bins), rows.tensors["probs"].device
        slope = torch.from_numpy(influence.slope.ravel().copy()).to(where)
        offset = torch.from_numpy(influence.offset.ravel().copy()).to(where)
        total = torch.zeros(6, dtype=torch.float64, device=where)
        for p, event, weights in _chunks(rows):
            place = tally.places(p)
            w = torch.ones_like(p[0]) if weights is None else weights / influence.mean_weight
            wa = w * ((slope[place] * (event - p)).sum(0) - influence.mean_a)
            wm = w * (offset[place].sum(0) - influence.mean_m)
            terms = (w, wa, wa * wa, wa * wm, wm * wm, (wa - wm) ** 4)
            total += torch.stack([term.sum() for term in terms])
        return InfluenceSums(*total.tolist())


class _Tally:
    """Sums on the device."""

    def __init__(self, rows: TensorRows, bins: tuple[Bins, ...]) -> None:
        import torch

        self.torch, self.n_bins = torch, max(map(len, bins))
        where = rows.tensors["probs"].device
        edges = np.full((len(bins), max(self.n_bins - 1, 1)), np.inf)
        for row, each in zip(edges, bins, strict=True):
            row[: len(each) - 1] = each.edges[1:-1]
        shared = bool((edges == edges[0]).all())
        self.edges = torch.from_numpy(edges[0] if shared else edges).to(where)
        self.first = self.n_bins * torch.arange(len(bins), device=where)[:, None]
        n_terms = 3 if rows.tensors["weights"] is None else 6
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


def _predictions(rows: TensorRows) -> Iterator[tuple[Any, slice]]:
    """Yield checked predictions in float64, and where they stand, some rows at a time."""
    probs = rows.tensors["probs"]
    step = max(1, CHUNK_VALUES // (1 if probs.ndim == 1 else probs.shape[1]))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        p = probs[some].double()
        p = p.softmax(dim=1) if rows.are_logits else p
        if not bool(((p >= 0) & (p <= 1)).all()):
            rows.explain_probabilities()
        yield p, some


def _chunks(rows: TensorRows) -> Iterator[tuple[Any, Any, Any]]:
    """Yield predictions and events, both (groups, rows), and weights, some rows at a time."""
    labels, weights, kind = rows.tensors["labels"], rows.tensors["weights"], rows.problem.kind
    for p, some in _predictions(rows):
        codes = _codes(rows.problem, labels[some])
        if not bool((codes >= 0).all()):
            rows.explain_labels()
        if kind == "binary":
            p, event = p[None], codes[None]
        elif kind == "top-label":
            top = _first_largest(p)
            p, event = p.gather(1, top[:, None]).T, (codes == top).long()[None]
        else:
            event = (codes == codes.new_tensor(range(p.shape[1]))[:, None]).long()
            p = p.T
        yield p, event, None if weights is None else weights[some]


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
    found, place, count = ordered.unique_consecutive(return_inverse=True, return_counts=True)
    mass = count.double()
    if weights is not None:
        mass = torch.zeros_like(mass).index_add(0, place, weights[order])
    return found.double().cpu().numpy(), mass.cpu().numpy()


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

    wanted = -(-(last + 1) * torch.arange(1, n_bins, device=ordered.device) // n_bins) - 1
    ends = torch.tensor([0, last], device=ordered.device)
    held = values_at(torch.cat([wanted, ends]).expand(len(ordered), -1).contiguous())
    below = torch.searchsorted(ordered, held)
    through = torch.searchsorted(ordered, held, right=True)
    near = torch.cat([values_at(below - 1), held, values_at(through)], dim=1)
    above = torch.searchsorted(ordered, near.contiguous(), right=True)
    for found, mass in zip(near.double().cpu().numpy(), above.cpu().numpy(), strict=True):
        values, first = np.unique(found, return_index=True)
        yield values, np.diff(mass[first], prepend=0).astype(np.float64)
