"""Fits from tensors on a device, where the rows stay: only sums and parameters leave it.

Scaling of one score is fitted from a sketch: the rows are counted in a fine grid, and the rows of a
cell and outcome stand as two scores with the same sums of 1, p and p^2. What that hides is of the
third order in the width of a cell, which leaves parameters as they were to 1e-8. Several classes
are fitted from sums over all rows, read again for each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._logits import sigmoid
from calibrant._types import FloatArray
from calibrant.bins import Bins
from calibrant.engines import cuda
from calibrant.engines.exact_sums import ExactSums
from calibrant.engines.pairs import (
    Pair,
    float64_bits,
    has_float64,
    on_host,
    sums_at,
    wide,
    wide_array,
)
from calibrant.engines.tensors import Tensors, codes_of, events_of
from calibrant.exceptions import InvalidArgumentError
from calibrant.problem import Label, Problem
from calibrant.recalibrators.class_rows import ClassRows, curvature
from calibrant.recalibrators.fingerprint import (
    MIX,
    ODD,
    SKETCH_SIZE,
    Fingerprint,
    factors_of,
    fingerprint_of_hashes,
)
from calibrant.recalibrators.formulas import log_probabilities
from calibrant.recalibrators.reading import kind_of
from calibrant.recalibrators.scores import Scores

if TYPE_CHECKING:
    from calibrant.recalibrators.base import Recalibrator

SKETCH_CELLS = 1 << 12
"""Of the grid: a cell is 0.02 wide in log-odds, and its third moment below 1e-6 of anything."""
CHUNK_VALUES = 1 << 24
"""Predictions that plain PyTorch reads at a time: 128 MB for each temporary in float64."""
TWO_COLUMNS = Problem("binary")


TORCH: Any = SimpleNamespace(
    log=lambda x: x.log(),
    clip=lambda x, low, high: x.clamp(low, high),
    softmax=lambda x: x.softmax(dim=1),
)
"""The operations of formulas that fits of several classes need, on tensors and on pairs."""


def is_on_device(values: Any) -> bool:
    """Tell whether these are tensors that NumPy cannot read where they are."""
    return getattr(getattr(values, "device", None), "type", "cpu") not in ("cpu", "meta")


def read_rows(
    recalibrator: Recalibrator, y_prob: Any, y_true: Any, classes: Sequence[Label] | None
) -> Tensors | None:
    """Return checked tensors, with class numbers for labels.

    None where the host must read them: labels that are text, or a wrong value, which it names.
    """
    from calibrant.sources.tensors import TensorSource, read_tensors

    if y_true is None or y_prob.ndim not in (1, 2) or recalibrator._reads == "labels":
        return None
    kind = kind_of(recalibrator, tuple(y_prob.shape))
    source = read_tensors(y_true, y_prob, kind=kind, input=recalibrator.input, classes=classes)
    if not isinstance(source, TensorSource):
        return None
    tensors = source.tensors
    if isinstance(tensors.predictions, Pair):  # log-odds of two columns have no fingerprint there
        return None
    x, codes = tensors.predictions, codes_of(tensors.problem, tensors.labels)
    valid = x.isfinite() if tensors.are_logits else (x >= 0) & (x <= 1)
    if not bool((codes >= 0).all() & valid.all()):
        return None
    return replace(tensors, labels=codes)


def sketch(tensors: Tensors) -> Scores:
    """Return scores that stand for the rows of one event."""
    sums = _logit_sums if tensors.are_logits else _probability_sums
    count, mean, spread = sums(tensors)
    if not tensors.are_logits:
        spread = np.where((spread < mean) & (spread < 1 - mean), spread, 0.0)
    values = np.stack([mean - spread, mean + spread])
    weights = np.stack([count / 2, count / 2])
    weights = np.where(spread > 0, weights, np.stack([count, np.zeros_like(count)]))
    events = weights * np.array([0.0, 1.0])  # the outcome is the last axis
    used = weights > 0
    return Scores(values[used], events[used], weights[used], float(len(tensors)))


def _probability_sums(tensors: Tensors) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the count, mean and spread of each cell and outcome."""
    grid = sigmoid(np.linspace(-46.0, 36.5, SKETCH_CELLS))  # from 1e-20 to the float below 1
    exact = ExactSums(tensors.problem, (Bins(np.unique([0.0, 5e-324, *grid, 1.0])),))
    state = exact.zeros(tensors.predictions.device)
    exact.add(state, tensors.labels, tensors.predictions)
    return exact.moments(state)


def _logit_sums(tensors: Tensors) -> tuple[FloatArray, FloatArray, FloatArray]:
    import torch

    z, (cell, start) = wide(tensors.predictions), _cells_of_logits(tensors.predictions)
    offset = z - wide_array(start, z.device)[cell]
    place = 2 * cell + tensors.labels
    terms = (wide(torch.ones_like(cell)), offset, offset * offset)
    sums = [on_host(sums_at(place, 2 * SKETCH_CELLS, term)) for term in terms]
    count, first, second = np.reshape(sums, (3, SKETCH_CELLS, 2))
    n = np.maximum(count, 1)
    mean = first / n
    with np.errstate(over="ignore", invalid="ignore"):  # squares of the largest logits
        spread = np.sqrt(np.maximum(second / n - mean * mean, 0.0))
    return count, start[:, None] + mean, np.where(np.isfinite(spread), spread, 0.0)


def _cells_of_logits(x: Any) -> tuple[Any, FloatArray]:
    """Return the cell of each logit and where cells start, which widen: a mask may be at -1e30.

    They are even in ``sign(x) log(1 + |x| / s)``, with s about the harmonic mean of 1 + abs(x),
    which the farthest logits do not move.
    """
    x = x.double() if has_float64(x.device) else x.float()
    size = x.abs()
    inverse = max(float((1 / (1 + size)).mean()), 1e-300)
    scale = 2.0 ** math.ceil(-math.log2(inverse))
    even = x.sign() * (size / scale).log1p()
    low, high = float(even.amin()), float(even.amax())
    width = max((high - low) / SKETCH_CELLS, np.finfo(np.float64).tiny)
    start = low + width * np.arange(SKETCH_CELLS)
    cell = ((even - low) / width).long().clamp(0, SKETCH_CELLS - 1)
    return cell, scale * np.sign(start) * np.expm1(np.abs(start))


@dataclass(frozen=True, eq=False)
class TensorRows(ClassRows):
    """Rows of several classes on a device, without weights."""

    rows: Any
    codes: Any

    @classmethod
    def of_tensors(cls, tensors: Tensors) -> TensorRows:
        """Read checked tensors."""
        kind = "logits" if tensors.are_logits else "probabilities"
        return cls(tensors.predictions, tensors.labels, np.ones(1), kind)  # type: ignore[arg-type]

    @property
    def size(self) -> float:
        """The number of rows."""
        return float(len(self.codes))

    @property
    def n_values(self) -> int:
        """The number of predictions."""
        return int(self.rows.numel())

    def every(self, step: int) -> TensorRows:
        """Return one row in `step`."""
        return replace(self, rows=self.rows[::step], codes=self.codes[::step])

    def extremes(self) -> FloatArray:
        """Return the least prediction, and the least above 0."""
        least = self.rows.amin()
        if float(least) != 0:
            return np.array([[float(least)]])
        above = self.rows.masked_fill(self.rows <= 0, 1.0).amin()
        return np.array([[float(least), float(above)]])

    def scores(self, values: Any) -> Any:
        """Return smoothed log-probabilities, or the logits themselves."""
        values = wide(values)
        if self.kind == "logits":
            return values
        return log_probabilities(TORCH, values, self.smoothing, self.rows.shape[1])

    def own(self) -> Any:
        """Return how far the log-score of the label is below the largest of its row."""
        of_label = self.rows.gather(1, self.codes[:, None])[:, 0]
        return self.scores(of_label) - self.scores(self.rows.amax(1))

    def loss(self) -> float:
        """Return the mean log loss of the rows as they came; infinite where a label had 0."""
        if self.kind == "logits":
            return self.softmax_sums(1.0, self.own())[0]
        return -on_host(wide(self.rows.gather(1, self.codes[:, None])).log().mean()).item()

    def mean_scores(self) -> Any:
        """Return the mean log-score of each row, less the largest."""
        import torch

        return torch.cat([z.mean(1) for z in self._centred()])

    def softmax_sums(self, beta: float, own: Any) -> tuple[float, float, float]:
        """Return the mean log loss of ``softmax(beta z)`` and its derivatives in beta."""
        import torch

        if cuda.serves(self.rows):
            share = self.smoothing if self.kind == "probabilities" else 0.0
            log_total, mean, spread = cuda.row_moments(
                self.rows, self.kind == "logits", float(beta), share
            )
        else:
            parts = [_moments(z, beta) for z in self._centred()]
            log_total, mean, spread = (torch.cat(part) for part in zip(*parts, strict=True))
        terms = (log_total - beta * own, mean - own, spread)
        lost, first, second = on_host(torch.stack([term.mean() for term in terms])).tolist()
        return max(lost, 0.0), first, second

    def _centred(self) -> Iterator[Any]:
        """Yield log-scores of some rows, with the largest of each moved to 0."""
        for rows in self.rows.split(max(1, CHUNK_VALUES // self.rows.shape[1])):
            z = self.scores(rows)
            yield z - z.amax(1, keepdim=True)


def _moments(z: Any, beta: float) -> tuple[Any, Any, Any]:
    """Return the log of the total of ``exp(beta z)``, and mean and variance of z under it."""
    share = (beta * z).exp()
    total = share.sum(1)
    mean = (share * z).sum(1) / total
    return total.log(), mean, (share * z * z).sum(1) / total - mean**2


def _residuals(p: Any, codes: Any) -> Any:
    """Take 1 from the probability of each row's label, in place but for pairs."""
    import torch

    if isinstance(p, Pair):
        return p - (codes[:, None] == torch.arange(p.shape[1], device=p.device))
    return p.scatter_add_(1, codes[:, None], p.new_full((len(codes), 1), -1.0))


class DeviceLoss:
    """Sums of the penalised loss of `VectorScaling`, from rows that stay on the device."""

    def __init__(self, rows: TensorRows, mixed: Any) -> None:
        self.rows, self.mixed = rows, mixed

    def moments(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return means of the curvature q, q z and q z^2 for each class, before any scaling."""

        def terms(z: Any, codes: Any) -> tuple[Any, Any, Any]:
            p = z.exp()
            q = curvature(p, _residuals(p.clone(), codes))
            return q.sum(0), (q * z).sum(0), (q * z * z).sum(0)

        total, first, second = self._means(terms)
        return total, first[:, None], second[:, None]

    def slopes(self, weight: FloatArray, bias: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return the mean loss and its derivatives in the biases and in the weights."""
        device = self.rows.rows.device
        w, b = (wide_array(x, device) for x in (weight, bias))

        def terms(z: Any, codes: Any) -> tuple[Any, Any, Any]:
            log_p = (z * w + b).log_softmax(1)
            value = -log_p.gather(1, codes[:, None]).sum()
            residual = _residuals(log_p.exp_(), codes)
            return value, residual.sum(0), (residual * z).sum(0)

        value, of_bias, of_weights = self._means(terms)
        return float(value), of_bias, of_weights

    def _means(self, terms: Any) -> list[Any]:
        step = max(1, CHUNK_VALUES // self.rows.rows.shape[1])
        total: list[Any] = [0.0, 0.0, 0.0]
        for rows, codes in zip(
            self.rows.rows.split(step), self.rows.codes.split(step), strict=True
        ):
            parts = terms(self.mixed(wide(rows)), codes)
            total = [a + b for a, b in zip(total, parts, strict=True)]
        return [on_host(term / self.rows.size) for term in total]


def top_labels(tensors: Tensors) -> Tensors:
    """Return the confidence of each row as the prediction of an event: that the class is right."""
    x, codes = tensors.predictions, tensors.labels
    top = replace(tensors.problem, kind="top-label", classes=None, pos_label=None)
    p, event, *_ = events_of(top, codes, x, tensors.are_logits)
    return Tensors(TWO_COLUMNS, event[0].long(), p[0])


def column(tensors: Tensors, k: int) -> Tensors:
    """Return the predictions of one class, and whether they came true."""
    return Tensors(TWO_COLUMNS, (tensors.labels == k).long(), tensors.predictions[:, k])


def answers(recalibrator: Recalibrator, x: Any) -> Any:
    """Return recalibrated predictions in float64, or as pairs, on the device of x.

    Where the answers have no formula, they are computed on the host and moved.
    """
    try:
        return recalibrator.to_torch().to(x.device).wide(x)
    except InvalidArgumentError:
        return wide_array(recalibrator.predict_proba(on_host(x)), x.device)


def fingerprint(x: Any, codes: Any) -> Fingerprint:
    """Return the fingerprint of rows, that of the same rows on the host."""
    import torch

    rows = x.reshape(len(x), -1)

    def signed(numbers: Any) -> Any:
        return torch.from_numpy(np.atleast_1d(numbers).view(np.int64).copy()).to(x.device)

    factors = signed(factors_of(rows.shape[1] + 1))
    mix, odd, sign_bit = signed(MIX), signed(ODD), -(1 << 63)
    step = max(1, CHUNK_VALUES // rows.shape[1])
    sketches = []
    for part, of_part in zip(rows.split(step), codes.split(step), strict=True):
        keys = float64_bits(part)
        keys = keys ^ _shifted(keys, 32)
        mixed = (keys * factors[:-1]).sum(1) + (of_part + 1) * factors[-1]
        mixed = (mixed ^ _shifted(mixed, 29)) * mix
        mixed = (mixed ^ _shifted(mixed, 32)) * odd
        # Hashes are ordered as if they had no sign.
        ordered, counts = (mixed ^ sign_bit).unique(return_counts=True)
        hashes = (ordered[:SKETCH_SIZE] ^ sign_bit).cpu().numpy().view(np.uint64)
        sketches.append((int(mixed.sum()) % 2**64, hashes, counts[:SKETCH_SIZE].cpu().numpy()))
    return fingerprint_of_hashes(len(rows), sketches)


def _shifted(x: Any, bits: int) -> Any:
    """Shift integers to the right as if they had no sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
