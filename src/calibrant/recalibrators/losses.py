"""Mean losses of scores, as they are or as log-odds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calibrant._threads import in_pieces
from calibrant._types import FloatArray
from calibrant.problem import sigmoid
from calibrant.recalibrators.logistic import PIECE_ROWS, Loss, dot
from calibrant.recalibrators.scores import Scores


def mean_loss(eta: FloatArray, scores: Scores, loss: Loss = "log") -> float:
    """Return the mean log loss or squared error of ``sigma(eta)``."""
    if loss == "squared":
        return identity_loss(scores.replace_values(sigmoid(eta)), "squared")
    return max(_sum_by_pieces(_log_loss, scores.replace_values(eta)) / scores.total, 0.0)


def identity_loss(scores: Scores, loss: Loss = "log") -> float:
    """Return the mean log loss or squared error of the scores themselves."""
    lost = _squared_error if loss == "squared" else _log_loss_of_probabilities
    return _sum_by_pieces(lost, scores) / scores.total


def _sum_by_pieces(lost: Callable[[Scores], float], scores: Scores) -> float:
    """Add up a loss, from all cores."""
    sums = in_pieces(scores.values.size, PIECE_ROWS, lambda part: lost(scores.rows(part)))
    return float(np.sum(sums))


def _log_loss(logits: Scores) -> float:
    """Return the summed log loss of ``sigma(values)``."""
    eta = logits.values
    softplus = np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta)))
    return float((logits.weight * softplus - logits.events * eta).sum())


def _squared_error(scores: Scores) -> float:
    p, events, w = scores.values, scores.events, scores.weights
    square = dot(p, p) if w is None else dot(p * p, w)
    return square - 2 * dot(events, p) + float(events.sum())


def _log_loss_of_probabilities(scores: Scores) -> float:
    p, events, w = scores.values, scores.events, scores.weights
    with np.errstate(divide="ignore"):
        if w is None:
            return -float(np.log(np.abs(events + p - 1)).sum())
        happened, failed = -np.log(p), -np.log1p(-p)
    rest = np.maximum(w - events, 0.0)
    happened[events == 0], failed[rest == 0] = 0.0, 0.0
    return dot(events, happened) + dot(rest, failed)
