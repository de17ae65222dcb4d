"""PyTorch tensors on a GPU: counted where they are, copied only for messages and for `columns`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, Unpack

import numpy as np

from calibrant._bins_argument import auto_n_bins
from calibrant._influences import Influence, InfluenceSums
from calibrant._lazy import torch
from calibrant._logits import probabilities_of
from calibrant.bins import BinRule, Bins, EqualMass
from calibrant.columns import LARGEST_WEIGHT, Columns, check_heaviest
from calibrant.engines.pairs import Pair, are_bits, has_float64, on_host, wide, wide_array
from calibrant.engines.tensors import CHUNK_VALUES, Tensors, codes_of, counted, edges_on, widened
from calibrant.engines.torch import TorchEngine
from calibrant.exceptions import InvalidInputError
from calibrant.groups import Groups, required
from calibrant.problem import EVENT_KINDS, SUM_TOLERANCE, Input, Kind, Problem, check_input
from calibrant.sources import Meaning, Source
from calibrant.sources.arrays import (
    ArraySource,
    check_label_type,
    for_numpy,
    read_arrays,
    refuse_masked,
)
from calibrant.sources.events import (
    check_event_shapes,
    check_quantile_input,
    check_shapes,
    of_each_label,
)
from calibrant.sources.groups import read_groups
from calibrant.table import BinTable
from calibrant.tables import Tables

PAIR_WEIGHT = 1e9
"""The largest weight of pairs, and the inverse of the smallest: float32 has room for the squares.
Others are read on the host."""


class TensorSource(Source):
    """Tensors on a device, counted by PyTorch's own kernels."""

    def __init__(self, tensors: Tensors, groups: Groups | None = None) -> None:
        self.problem = tensors.problem
        self.tensors, self._groups = tensors, groups
        self.by = () if groups is None else groups.by

    def choose(self, rule: BinRule | Literal["auto"]) -> tuple[Bins, ...]:
        """Choose bins from the distinct predictions of each group."""
        if isinstance(rule, str):
            rule = EqualMass(auto_n_bins(len(self.tensors)))
        with self._explaining():
            return TorchEngine().choose(self.tensors, rule)

    def count(self, bins: tuple[Bins, ...]) -> BinTable:
        """Check and sum the rows; all weights may be 0, as of a part of the rows."""
        with self._explaining():
            return TorchEngine().count(self.tensors, bins)

    def count_by(self, bins: tuple[Bins, ...]) -> Tables:
        """Check and sum the rows of each group."""
        groups = required(self._groups)
        with self._explaining():
            sums = TorchEngine().count_by(self.tensors, bins, groups.codes, len(groups.labels))
        return Tables.of(self.problem, groups.by, groups.labels, (bins,), sums)

    def check_weights(self) -> None:
        """Refuse weights that are all 0, or too large."""
        if self.tensors.weights is not None:
            check_heaviest(on_host(self.tensors.weights.amax(0)).item())

    def in_memory(self) -> ArraySource:
        """Copy the tensors to the host, with their groups."""
        return self._copied

    @cached_property
    def _copied(self) -> ArraySource:
        tensors = self.tensors
        labels, predictions = np.asarray(for_numpy(tensors.labels)), tensors.predictions
        is_wide = isinstance(predictions, Pair) or are_bits(predictions)
        predictions = on_host(predictions) if is_wide else np.asarray(for_numpy(predictions))
        weights = None if tensors.weights is None else on_host(tensors.weights)
        are_logits = tensors.are_logits and self.problem.kind == "top-label"
        if tensors.are_logits and not are_logits:
            of_events = self.problem.has_event_columns
            predictions = (
                of_each_label(predictions, "logits") if of_events else probabilities_of(predictions)
            )
        columns = Columns(self.problem, labels, predictions, weights, are_logits)
        return ArraySource(columns, self._groups)

    def influence_sums(self, bins: tuple[Bins, ...], influence: Influence) -> InfluenceSums:
        """Read the rows of a marginal table once more."""
        with self._explaining():
            return TorchEngine().influence_sums(self.tensors, bins, influence)

    def check_event(self) -> None:
        """Refuse a pos_label that no row has."""
        self._copied.check_event()

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Let the arrays on the host say which value the device found to be wrong."""
        try:
            yield
        except InvalidInputError:
            self.columns()
            raise


def read_tensors(
    y_true: Any,
    y_prob: Any,
    sample_weight: Any = None,
    by: Any = None,
    **meaning: Unpack[Meaning],
) -> Source:
    """Decide what the tensors mean as `read_arrays` does; all go to the device of the predictions.

    Labels that are text have no tensor: then the predictions come to the host instead.
    """
    check_input(meaning.get("input", "probabilities"))
    refuse_masked(y_true, "y_true")
    refuse_masked(sample_weight, "sample_weight")
    source = _on_device(y_true, y_prob.detach(), sample_weight, by, meaning)
    if source is not None:
        return source
    columns = read_arrays(y_true, y_prob, sample_weight=sample_weight, **meaning)
    return ArraySource(columns, None if by is None else read_groups(by, len(columns)))


def _on_device(
    y_true: Any, probs: Any, sample_weight: Any, by: Any, meaning: Meaning
) -> TensorSource | None:
    """Return the source of tensors; None where the host must read, or refuse, them.

    The host reads text, wrong values (for their messages), and weights that pairs cannot hold.
    """
    kind, input = meaning.get("kind"), meaning.get("input", "probabilities")
    if any(torch.is_tensor(x) and x.is_complex() for x in (y_true, probs, sample_weight)):
        return None  # PyTorch would drop the imaginary part
    try:
        labels = _labels_on(y_true, probs.device)
    except (TypeError, ValueError):
        return None
    if not (has_float64(probs.device) or probs.is_floating_point()):
        probs = probs.float()  # there, int64 are bits
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if kind in EVENT_KINDS:
        read = _as_events(labels, probs, kind, input, meaning)
        if kind != "multi-label":  # whose logits stay logits
            input = "probabilities"
    else:
        read = _as_columns(labels, probs, kind, input, meaning)
    if read is None:
        return None
    problem, labels, probs = read
    weights = None
    if sample_weight is not None:
        weights = _weights_on(sample_weight, probs.device)
        if not _are_weights(weights, len(labels)):
            return None
    groups = None if by is None else read_groups(by, len(labels))
    return TensorSource(Tensors(problem, labels, probs, weights, input == "logits"), groups)


def _as_columns(
    labels: Any, probs: Any, kind: Kind | None, input: Input, meaning: Meaning
) -> tuple[Problem, Any, Any] | None:
    """Do as `read_arrays`; None where the host must read them."""
    if labels.ndim != 1 or probs.ndim == 0:
        return None
    if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):  # which few functions support
        signed = labels.long()
        if bool((signed < 0).any()):  # beyond what a signed integer holds
            return None
        labels = signed
    check_shapes(labels, probs)
    shape, names = tuple(probs.shape), (meaning.get("classes"), meaning.get("pos_label"))
    problem, column = Problem.of(shape, kind, *names)
    if problem.classes is not None or problem.pos_label is not None:
        check_label_type(np.asarray(for_numpy(labels[:1])), problem)
    if column is not None:
        probs = _event_column(probs, column, input)
    return None if probs is None else (problem, labels, probs)


def _as_events(
    labels: Any, probs: Any, kind: Kind, input: Input, meaning: Meaning
) -> tuple[Problem, Any, Any] | None:
    """Do as `calibrant.sources.events.as_events`; None where values are wrong."""
    probs = probs[:, 0] if probs.ndim == 2 and probs.shape[1] == 1 else probs
    if labels.ndim == 0 or probs.ndim == 0:
        return None
    check_event_shapes(labels, probs, kind)
    names = (meaning.get("classes"), meaning.get("pos_label"))
    problem, _ = Problem.of(tuple(probs.shape), kind, *names)
    table = probs.reshape(len(probs), -1)
    if kind == "multi-label":
        return problem, labels.reshape(table.shape), table
    if kind == "quantile":
        check_quantile_input(input)
        x, y = widened(table), widened(labels)
        fine = y.isfinite().all() & ~x.isnan().any() & ~(x[:, 1:] < x[:, :-1]).any()
        dtype = torch.float64 if has_float64(x.device) else torch.int64
        levels = edges_on(np.array(problem.class_names, np.float64), x.device, dtype)
        return (problem, y[:, None] <= x, levels.expand(x.shape)) if bool(fine) else None
    if problem.classes is not None:
        check_label_type(np.asarray(for_numpy(labels[:1])), problem)
    codes = codes_of(replace(problem, kind="marginal"), labels)
    x = wide(table).softmax(1) if input == "logits" else wide(table)
    # In the order of the host: the same bits.
    *up_to, total = accumulate(x[:, k] for k in range(x.shape[1]))
    fine = (codes >= 0).all() & ((x >= 0) & (x <= 1)).all()
    if not bool(fine & ((total - 1) ** 2 <= SUM_TOLERANCE**2).all()):
        return None
    thresholds = torch.arange(problem.n_groups, device=codes.device)
    return problem, codes[:, None] <= thresholds, counted(torch.stack(up_to, 1).clamp(max=1.0))


def _event_column(probs: Any, column: int, input: Input) -> Any:
    """Return the column of the event, or its log-odds; None where either column is wrong."""
    if probs.shape[1] == 1:
        return probs[:, 0]
    if input == "logits":
        log_odds = wide(probs[:, column]) - wide(probs[:, 1 - column])
        return None if bool(log_odds.isnan().any()) else log_odds
    parts = probs.split(CHUNK_VALUES)
    fine = all(bool(((part >= 0) & (part <= 1)).all()) for part in parts)
    return probs[:, column] if fine else None


def _labels_on(y_true: Any, device: Any) -> Any:
    """Move labels to a device; ValueError where it cannot hold them."""
    if has_float64(device):
        return torch.as_tensor(y_true, device=device)
    exact = labels = torch.as_tensor(y_true)
    if labels.dtype == torch.float64:
        labels = exact.float()
        if not bool((labels == exact).all()):
            raise ValueError("labels are not float32")
    return labels.to(device)


def _weights_on(sample_weight: Any, device: Any) -> Any:
    """Move weights to a device, in float64 or as pairs."""
    if has_float64(device):
        return torch.as_tensor(sample_weight, device=device).detach().double()
    if getattr(sample_weight, "device", None) == device:
        return wide(sample_weight.detach())
    return wide_array(np.asarray(for_numpy(sample_weight), np.float64), device)


def _are_weights(weights: Any, n: int) -> bool:
    if weights.shape != (n,):
        return False
    if isinstance(weights, Pair):
        w = weights.high
        return bool((((w >= 1 / PAIR_WEIGHT) & (w <= PAIR_WEIGHT)) | (w == 0)).all())
    low, high = (float(x) for x in weights.aminmax())
    return low >= 0 and high <= LARGEST_WEIGHT
