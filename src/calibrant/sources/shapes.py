"""Shapes that labels and predictions of the same rows can have, as arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from calibrant._types import AnyArray
from calibrant.columns import is_zero_one
from calibrant.exceptions import (
    EmptyInputError,
    InvalidLabelsError,
    InvalidShapeError,
    LengthMismatchError,
    SwappedArgumentsError,
)
from calibrant.problem import NUMERIC, Kind


def check_shapes(labels: Any, probs: Any) -> None:
    """Refuse arrays or tensors that cannot be labels and predictions of the same rows."""
    if labels.ndim == 2 and probs.ndim == 1:
        raise SwappedArgumentsError(
            f"The order is (y_true, y_prob), but y_true has shape {tuple(labels.shape)} and y_prob "
            f"{tuple(probs.shape)}. Swap the two arguments."
        )
    if labels.ndim != 1:
        raise InvalidLabelsError(
            f"y_true must be one column of labels; got shape {tuple(labels.shape)}. "
            f"{_advice(labels)}"
        )
    _check_rows(labels, probs, "n_classes")


def check_event_shapes(labels: Any, probs: Any, kind: Kind) -> None:
    """Refuse arrays or tensors that cannot be the outcomes and predictions of these events."""
    _check_rows(labels, probs, "K")
    if kind == "multi-label" and labels.shape != probs.shape:
        raise InvalidShapeError(
            'kind="multi-label" needs a column of 0 and 1 in y_true for each column of y_prob; got '
            f"shapes {tuple(labels.shape)} and {tuple(probs.shape)}. For one label a row, use "
            'kind="marginal" or "top-label".'
        )
    if kind != "multi-label" and labels.ndim != 1:
        raise InvalidLabelsError(
            f'kind="{kind}" needs y_true to be one column of '
            f"{'outcomes' if kind == 'quantile' else 'labels'}; got shape {tuple(labels.shape)}. "
            "Pick the column that the predictions are about."
        )


def _check_rows(labels: Any, probs: Any, width: str) -> None:
    if probs.ndim > 2 or (probs.ndim == 2 and probs.shape[1] == 0):
        raise InvalidShapeError(
            f"y_prob must have shape (n,) or (n, {width}); got {tuple(probs.shape)}. "
            "Flatten positions such as pixels or tokens into rows."
        )
    if labels.shape[0] != probs.shape[0]:
        raise LengthMismatchError(
            f"y_true and y_prob must have the same number of rows; got {labels.shape[0]:,} and "
            f"{probs.shape[0]:,}."
        )
    if labels.shape[0] == 0:
        raise EmptyInputError("y_true and y_prob have no rows; at least one is needed.")


def _advice(labels: AnyArray) -> str:
    """Say what to do with a table of labels: only rows with a single 1 are one-hot."""
    if labels.ndim != 2 or labels.dtype.kind not in NUMERIC or not is_zero_one(labels):
        return "Flatten positions such as pixels or tokens into rows, one label each."
    events = labels.sum(axis=1)
    several = np.flatnonzero(events != 1)
    if several.size == 0:
        return "For one-hot rows, pass y_true.argmax(axis=1)."
    first = int(several[0])
    return (
        f"Several labels of a row may be 1 here: {several.size:,} of {len(labels):,} rows have "
        f"none or several (first: row {first} has {int(events[first]):,}). Measure each label as "
        'an event of its own with kind="multi-label".'
    )
