"""What labels and predictions in tensors say of each group: predictions, events, wrong values.

Plain PyTorch, on any device, without waiting for it. Numbers are compared and multiplied in
float64, or in float32 on devices that have no other (MPS).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant.exceptions import (
    InvalidLabelsError,
    InvalidProbabilitiesError,
    InvalidShapeError,
    NotFiniteError,
)
from calibrant.problem import Label, Problem, same_number

CHUNK_VALUES = 1 << 20
"""Predictions that plain PyTorch reads at a time: its temporaries are about 300 MB."""


@dataclass(frozen=True, eq=False)
class Tensors:
    """Labels, predictions and weights on one device; the fields are those of `Columns`.

    Logits stay what they are in every kind of problem.
    """

    problem: Problem
    labels: Any
    predictions: Any
    weights: Any = None
    are_logits: bool = False

    def __len__(self) -> int:
        return len(self.labels)


def is_narrow(predictions: Any) -> bool:
    """Tell types whose every number is a float32."""
    import torch

    return predictions.dtype in (torch.float16, torch.bfloat16, torch.float32)


def widened(values: Any) -> Any:
    """Return values in the widest floats of their device."""
    import torch

    wide = torch.float32 if values.device.type == "mps" else torch.float64
    return values.to(wide).contiguous()


def predictions_of(problem: Problem, predictions: Any, are_logits: bool) -> Any:
    """Return the predictions of the event, or of each class, (groups, rows)."""
    x = widened(predictions)
    if problem.kind == "binary":
        return (1 / (1 + (-x).exp()) if are_logits else x)[None]
    return (x.softmax(1) if are_logits else x).T.contiguous()


def events_of(
    problem: Problem, labels: Any, predictions: Any, are_logits: bool
) -> tuple[Any, Any, Any, Any, Any]:
    """Return predictions and events, both (groups, rows), and three masks of rows.

    They mark a missing prediction, an impossible one (or a missing one too), an unknown label.
    Without labels, no event happens.
    """
    import torch

    x = widened(predictions)
    if problem.has_event_columns:
        missing = x.isnan().any(1)
        x = 1 / (1 + (-x).exp()) if are_logits else x
        marks = torch.zeros_like(x) if labels is None else labels
        unknown = ~((marks == 0) | (marks == 1)).all(1)
        impossible = ~((x >= 0) & (x <= 1)).all(1)
        return x.T.contiguous(), (marks == 1).T.contiguous(), missing, impossible, unknown
    codes = (
        torch.zeros_like(x[..., 0] if x.ndim > 1 else x)
        if labels is None
        else codes_of(problem, labels)
    )
    unknown = codes < 0
    if problem.kind == "binary":
        p = 1 / (1 + (-x).exp()) if are_logits else x  # as the host does
        return p[None], (codes == 1)[None], p.isnan(), ~((p >= 0) & (p <= 1)), unknown
    largest = x.amax(1, keepdim=True)  # NaN where there is one
    missing = largest[:, 0].isnan()
    shares = (x - largest).exp() if are_logits else x
    if problem.kind == "top-label":
        p = 1 / shares.sum(1) if are_logits else largest[:, 0]
        impossible = ~(((p if are_logits else x.amin(1)) >= 0) & (p <= 1))
        return p[None], (codes == _first_largest(x, largest))[None], missing, impossible, unknown
    p = shares / shares.sum(1, keepdim=True) if are_logits else x
    impossible = ~((p >= 0) & (p <= 1)).all(1)
    event = codes == torch.arange(problem.n_classes, device=codes.device)[:, None]
    return p.T.contiguous(), event, missing, impossible, unknown


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
    import torch

    rank = torch.arange(x.shape[1], 0, -1, device=x.device, dtype=x.dtype)
    return (rank * (x == largest)).argmax(1)


def codes_of(problem: Problem, labels: Any) -> Any:
    """Return class numbers, -1 where a label is not among the classes."""
    import torch

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
    """Tell which labels equal a name; PyTorch would compare integers with floats as float32."""
    import torch

    if labels.is_floating_point():
        number = same_number(name, np.dtype("f8"))
        labels = widened(labels)
    else:
        number = same_number(name, np.dtype("i8"))
    if number is None:
        return torch.zeros_like(labels, dtype=torch.bool)
    return labels == number.item()


def flat_rows(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Return labels and predictions of pixels or tokens as rows: (n,), and (n,) or (n, n_classes).

    Labels of shape (N, ...) go with predictions of the same shape, of one event, or of a shape
    with one axis more: of the classes, second as in (N, C, H, W), or last as in (N, T, V). Where
    both would do, as for (N, 5, 5), the second is meant.

    Examples
    --------
    >>> import torch  # doctest: +SKIP
    >>> labels, logits = flat_rows(torch.zeros(2, 7), torch.zeros(2, 7, 1000))  # doctest: +SKIP
    >>> labels.shape, logits.shape  # doctest: +SKIP
    (torch.Size([14]), torch.Size([14, 1000]))
    """
    of_labels, of_rows = tuple(labels.shape), tuple(predictions.shape)
    if of_labels == of_rows:
        return labels.reshape(-1), predictions.reshape(-1)
    if len(of_rows) == len(of_labels) + 1:
        if of_rows[:1] + of_rows[2:] == of_labels:
            predictions = predictions.movedim(1, -1)
        if tuple(predictions.shape[:-1]) == of_labels:
            return labels.reshape(-1), predictions.reshape(-1, predictions.shape[-1])
    raise InvalidShapeError(
        "Predictions must have the shape of the labels, or one axis more for the classes, the "
        f"second or the last; got labels of shape {of_labels} and predictions of shape {of_rows}."
    )
