"""Logits: the probabilities that they stand for."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import AnyArray, FloatArray
from calibrant.exceptions import NotFiniteError

PIECE_VALUES = 1 << 18
"""Logits that one thread turns into probabilities at a time: 2 MB, for a cache."""


def probabilities_of(logits: AnyArray) -> FloatArray:
    """Return the sigmoid of a column, or the softmax of each row of a table, in float64.

    Examples
    --------
    >>> probabilities_of(np.array([0.0, -800.0, np.inf]))
    array([0.5, 0. , 1. ])
    >>> probabilities_of(np.array([[1.0, 1.0, -np.inf]]))
    array([[0.5, 0.5, 0. ]])
    """
    out = np.empty(logits.shape)
    width = 1 if logits.ndim == 1 else logits.shape[1]

    def work(part: slice) -> None:
        piece = logits[part].astype(np.float64)
        out[part] = sigmoid(piece) if logits.ndim == 1 else softmax(piece)

    in_pieces(len(logits), max(1, PIECE_VALUES // width), work)
    if np.isnan(out.min()):
        explain_logits(logits)
    return out


def sigmoid(z: FloatArray) -> FloatArray:
    """Return ``1 / (1 + exp(-z))`` without a warning at any z."""
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / (1.0 + np.exp(-z)))


def softmax(z: FloatArray) -> FloatArray:
    """Return the softmax of each row; NaN where a row has none."""
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(z - z.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return np.asarray(shares)


def explain_logits(logits: AnyArray) -> NoReturn:
    """Raise the exception that says which logits are wrong."""
    wrong = np.isnan(logits)
    what = "not be missing"
    if not wrong.any():
        wrong = np.isposinf(logits) | np.isneginf(logits).all(axis=1, keepdims=True)
        what = "be smaller than infinity, and not all of a row minus infinity"
    place = np.argwhere(wrong)
    first = ", ".join(map(str, place[0]))
    raise NotFiniteError(
        f"Logits must {what}; {len(place):,} of {logits.size:,} values are wrong (first: "
        f"y_prob[{first}] = {logits[tuple(place[0])]:g}). Drop or mend these rows first."
    )
