"""What labels and predictions in tensors say of each group: predictions, events, wrong values.

Plain PyTorch, on any device, without waiting for it. Numbers are compared and multiplied in
float64. Devices that have none (MPS) keep probabilities in float32, which is what came, and those
of logits as bits; see `calibrant.engines.pairs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._lazy import torch
from calibrant._types import AnyArray
from calibrant.engines.pairs import ONE, Pair, are_bits, has_float64, wide
from calibrant.exceptions import InvalidLabelsError, InvalidProbabilitiesError, NotFiniteError
from calibrant.problem import Label, Problem, same_number

CHUNK_VALUES = 1 << 20
"""Predictions that plain PyTorch reads at a time: its temporaries are about 300 MB."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """Labels, predictions and weights on one device; the fields are those of `Columns`.

    Logits stay what they are in every kind of problem. On a device without float64, predictions of
    int64 are bits of probabilities, and weights and log-odds of two columns are pairs.
    """

    problem: Problem
    labels: Any
    predictions: Any
    weights: Any = None
    are_logits: bool = False

    def __len__(self) -> int:
        return len(self.labels)


def is_narrow(predictions: Any) -> bool:
    """Return whether every number of a type is a float32."""
    return predictions.dtype in (torch.float16, torch.bfloat16, torch.float32)


def widened(values: Any) -> Any:
    """Return values in the widest floats of their device; pairs and bits as they are."""
    if isinstance(values, Pair) or are_bits(values):
        return values
    return (values.double() if has_float64(values.device) else values.float()).contiguous()


def comparable(labels: Any) -> Any:
    """Return labels in a type that compares exactly with class numbers.

    PyTorch cuts a number to fit small integers: a uint8 of 156 would equal -100.
    """
    if labels.dtype == torch.bool:
        return labels
    return widened(labels) if labels.is_floating_point() else labels.long()


def sigmoid_of(x: Any) -> Any:
    """Return the probabilities of logits as the host does; their bits without float64."""
    if has_float64(x.device):
        return 1 / (1 + (-x).exp())
    return (1 / (1 + (-wide(x)).exp())).bits()


def events_of(
    problem: Problem, labels: Any, predictions: Any, are_logits: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """Return predictions and events, both (groups, rows), and three masks of rows.

    They mark a missing prediction, an impossible one (or a missing one too), an unknown label.
    Without labels, no event happens.
    """
    x = widened(predictions)
    one = ONE if are_bits(x) else 1
    if problem.has_event_columns:
        missing = x.isnan().any(1)
        p = sigmoid_of(x) if are_logits else x
        marks = torch.zeros_like(p) if labels is None else comparable(labels)
        unknown = ~((marks == 0) | (marks == 1)).all(1)
        impossible = missing if are_logits else ~((p >= 0) & (p <= one)).all(1)
        return p.T.contiguous(), (marks == 1).T.contiguous(), missing, impossible, unknown
    codes = (
        x.new_zeros(x.shape[:1], dtype=torch.int64) if labels is None else codes_of(problem, labels)
    )
    unknown = codes < 0
    if problem.kind == "binary":
        p, missing = sigmoid_of(x) if are_logits else x, x.isnan()
        impossible = missing if are_logits else ~((p >= 0) & (p <= one))
        return p[None], (codes == 1)[None], missing, impossible, unknown
    largest = x.amax(1, keepdim=True)  # NaN where there is one
    missing = largest[:, 0].isnan()
    # Shares of infinite logits are NaN, which is in no range; bits do not tell.
    endless = missing | largest[:, 0].isinf()
    shares = (wide(x) - largest).exp() if are_logits else x
    if problem.kind == "top-label":
        p = counted(1 / shares.sum(1)) if are_logits else largest[:, 0]
        impossible = endless if are_logits else ~((x.amin(1) >= 0) & (p <= one))
        return p[None], (codes == _first_largest(x, largest))[None], missing, impossible, unknown
    p = counted(shares / shares.sum(1, keepdim=True)) if are_logits else x
    impossible = endless if are_logits else ~((p >= 0) & (p <= one)).all(1)
    event = codes == torch.arange(problem.n_classes, device=codes.device)[:, None]
    return p.T.contiguous(), event, missing, impossible, unknown


def counted(p: Any) -> Any:
    """Return probabilities in the form in which they are counted: pairs become bits."""
    return p.bits() if isinstance(p, Pair) else p


def chunks_of(tensors: Tensors, *, check_labels: bool = True) -> Iterator[tuple[Any, Any, Any]]:
    """Yield checked predictions and events, both (groups, rows), and weights, chunk by chunk."""
    problem, predictions, weights = tensors.problem, tensors.predictions, tensors.weights
    step = max(1, CHUNK_VALUES // (predictions.shape[1] if predictions.ndim > 1 else 1))
    for start in range(0, len(tensors), step):
        part = slice(start, start + step)
        labels = tensors.labels[part] if check_labels else None
        p, event, *wrong = events_of(problem, labels, predictions[part], tensors.are_logits)
        refuse_rows(*(int(rows.sum()) for rows in wrong))
        yield p, event, None if weights is None else weights[part]


def edges_on(edges: AnyArray, device: Any, dtype: Any) -> Any:
    """Return edges on a device for predictions of this type, float64, float32 or bits."""
    # A float32 is above an edge if it is above the last float32 that is not.
    if dtype == torch.int64:
        rounded: AnyArray = np.ascontiguousarray(edges + 0.0).view(np.int64)
    else:
        rounded = edges.astype(np.float64 if dtype == torch.float64 else np.float32)
        rounded = np.where(rounded > edges, np.nextafter(rounded, rounded.dtype.type(-1)), rounded)
    return torch.from_numpy(np.ascontiguousarray(rounded)).to(device)


def refuse_rows(missing: int, impossible: int, unknown: int) -> None:
    """Raise the exception for rows with these wrong values, if there are any."""
    advice = "calibrant.tabulate names the first of a batch."
    if unknown:
        raise InvalidLabelsError(f"Labels must be among the classes; {unknown:,} are not. {advice}")
    if missing:
        raise NotFiniteError(
            f"Predictions must not be missing; {missing:,} rows hold NaN. {advice}"
        )
    if impossible:
        raise InvalidProbabilitiesError(
            "Probabilities must lie in [0, 1], and logits be smaller than infinity; of "
            f"{impossible:,} rows they do not. {advice}"
        )


def _first_largest(x: Any, largest: Any) -> Any:
    """Return the lowest index of the largest value of each row; argmax alone may return any."""
    rank = torch.arange(x.shape[1], 0, -1, device=x.device, dtype=x.dtype)
    return (rank * (x == largest)).argmax(1)


def codes_of(problem: Problem, labels: Any) -> Any:
    """Return class numbers, -1 where a label is not among the classes."""
    labels = comparable(labels)
    if problem.pos_label is not None:
        return torch.where(labels != labels, -1, _equal(labels, problem.pos_label).long())
    if problem.classes is not None:
        codes = torch.full_like(labels, -1, dtype=torch.long)
        for code, name in enumerate(problem.classes):
            codes.masked_fill_(_equal(labels, name), code)
        return codes
    known = (labels >= 0) & (labels < problem.n_classes)
    codes = torch.where(known, labels, 0).long()
    return torch.where(known & (codes == labels), codes, -1)


def _equal(labels: Any, name: Label) -> Any:
    """Mark labels that equal a name; PyTorch would compare integers with floats as float32."""
    number = same_number(name, np.dtype("f8" if labels.is_floating_point() else "i8"))
    is_narrow_label = labels.dtype == torch.float32  # which would be compared with one
    if number is None or (is_narrow_label and float(np.float32(number)) != number):
        return torch.zeros_like(labels, dtype=torch.bool)
    return labels == number.item()
