"""A calibration error for training loops, where predictions are tensors.

`CalibrationError` is a `torch.nn.Module`, and a `torchmetrics.Metric` where torchmetrics is
installed. ``import calibrant`` does not load this file; ``import calibrant.torch`` does.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from calibrant import stats
from calibrant._options import is_integer
from calibrant.bins import BinsLike
from calibrant.engines.exact_sums import ExactSums
from calibrant.engines.pairs import has_float64, wide
from calibrant.exceptions import (
    EmptyInputError,
    IncompatibleTablesError,
    InvalidArgumentError,
    InvalidShapeError,
    MissingDependencyError,
)
from calibrant.metric import fixed_bins
from calibrant.problem import Input, Kind, check_input, read_problem
from calibrant.stats.estimators import ClassWeight, Norm, class_weights, is_debiased, power_of
from calibrant.table import BinTable

try:
    import torch
except ImportError as error:
    raise MissingDependencyError(
        "calibrant.torch needs PyTorch, which is not installed: pip install torch. "
        "calibrant.CalibrationMetric does the same for arrays."
    ) from error

try:
    from torchmetrics import Metric
except ImportError:

    class Metric(torch.nn.Module):  # type: ignore[misc,no-redef]
        """What this file needs of torchmetrics.Metric, for a state that is a sum."""

        sums: Any

        def __init__(self, process_group: Any = None, sync_on_compute: bool = True) -> None:
            super().__init__()
            self.process_group, self.sync_on_compute = process_group, sync_on_compute
            self._local: Any = None

        def __init_subclass__(cls) -> None:
            """Let `compute` hold the sums of all processes."""
            super().__init_subclass__()
            compute_of_class = cls.compute

            @wraps(compute_of_class)
            def compute(self: Any) -> Any:
                with self.sync_context(self.sync_on_compute):
                    return compute_of_class(self)

            cls.compute = compute

        def add_state(self, name: str, default: Any, **_: Any) -> None:
            """Keep a tensor that follows the module to its device and is in its state."""
            self.register_buffer(name, default)

        @property
        def device(self) -> Any:
            """The device of the state."""
            return self.sums.device

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Add a batch and return its own error."""
            if self._is_synced:  # `update` refuses, but `reset` would forget it
                self.update(*args, **kwargs)
            before = self.sums.clone()
            self.reset()
            try:  # a refused batch leaves what was there
                self.update(*args, **kwargs)
                return self._value()
            finally:
                self.sums = before + self.sums

        def reset(self) -> None:
            """Forget all rows."""
            self.sums, self._local = torch.zeros_like(self.sums), None

        def sync(self) -> None:
            """Add the sums of all processes; `unsync` restores those of this one."""
            if self._is_synced:
                raise InvalidArgumentError(
                    "The sums of all processes are added already; call unsync() before sync()."
                )
            self._local, total = self.sums, self.sums.clone()
            torch.distributed.all_reduce(total, group=self.process_group)
            self.sums = total

        def unsync(self) -> None:
            """Restore the sums of this process."""
            if not self._is_synced:
                raise InvalidArgumentError(
                    "The sums are those of this process; call sync() before unsync()."
                )
            self.sums, self._local = self._local, None

        @contextmanager
        def sync_context(self, should_sync: bool = True) -> Iterator[None]:
            """Hold the sums of all processes, where there are several."""
            distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
            if not (should_sync and distributed and not self._is_synced):
                yield
                return
            self.sync()
            try:
                yield
            finally:
                self.unsync()

        @property
        def _is_synced(self) -> bool:
            return self._local is not None


class CalibrationError(Metric):  # type: ignore[misc]
    """A calibration error of predictions that arrive in batches, on any device.

    `update` adds a batch where it is and does not wait for the device. The state is one tensor of
    whole numbers whose size does not depend on the rows, so the order of batches and the number of
    processes do not change a bit of the answer: ``dist_reduce_fx="sum"`` adds the states of all
    ranks, and every rank gives the error of the whole. (Another kind of device may round the
    softmax of logits in its own way, to 1e-15, or 1e-13 without float64; probabilities are the
    same on all.)

    Without torchmetrics the same methods are here; `sync` adds the states of all processes by
    `torch.distributed`, and `compute` calls it where there are several.

    Wrong values (NaN, probabilities outside [0, 1], unknown labels) are left out and
    counted, and `compute` refuses the whole with their number. Without rows, as where all are
    ignored, it is NaN.

    Parameters
    ----------
    kind : {"binary", "top-label", "marginal", "multi-label"}, optional
        "top-label" where `n_classes` is above 2, else "binary", unless given. Targets of
        "multi-label" are 0 and 1, of the shape of the predictions; `n_classes` is how many.
    bins : "width:15", EqualWidth(15), Bins or an array of edges
        As for `calibrant.CalibrationMetric`: known before the rows.
    n_classes : int, optional
        Needed for all kinds but "binary".
    input : {"probabilities", "logits"}
        What the predictions are; never guessed.
    norm, debias, class_weight
        As in `calibrant.calibration_error`. ``norm="l1", debias=False`` is the ECE of torchmetrics.
    ignore_index : int, optional
        The label of rows that are left out, such as -100.
    class_dim : int
        The axis of the classes: 1 for (N, C) and (N, C, H, W), as in torchmetrics, and -1 for
        (N, T, V).
    **options
        For `torchmetrics.Metric`, such as ``sync_on_compute=False``; `process_group` and
        `sync_on_compute` without it.

    See Also
    --------
    calibrant.CalibrationMetric : the same for arrays, without torch.
    calibrant.calibration_error : takes tensors too, where all rows are there.

    Examples
    --------
    >>> import torch
    >>> from calibrant.torch import CalibrationError
    >>> metric = CalibrationError(n_classes=3, input="logits", norm="l1", debias=False)
    >>> for _ in range(2):
    ...     metric.update(torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]), torch.tensor([0, 2]))
    >>> round(metric.compute().item(), 4)
    0.3946
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    sums: Any

    def __init__(
        self,
        kind: Kind | None = None,
        bins: BinsLike = "width:15",
        n_classes: int | None = None,
        *,
        input: Input = "probabilities",
        norm: Norm = "l2",
        debias: bool | None = None,
        class_weight: ClassWeight = None,
        ignore_index: int | None = None,
        class_dim: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if kind is None:
            kind = "binary" if n_classes is None or n_classes == 2 else "top-label"
        if kind in ("ordinal", "quantile"):
            raise InvalidArgumentError(
                'kind must be "binary", "top-label", "marginal" or "multi-label" in a training '
                f'loop; got "{kind}". calibrant.CalibrationMetric takes it.'
            )
        self.problem = read_problem(kind, n_classes)
        check_input(input)
        is_debiased(power_of(norm), debias)
        class_weights(class_weight, self.problem)
        for name, value in (("class_dim", class_dim), ("ignore_index", ignore_index)):
            if not (is_integer(value) or (value is None and name == "ignore_index")):
                raise InvalidArgumentError(f"{name} must be a whole number; got {value!r:.60}.")
        self.norm, self.debias, self.class_weight = norm, debias, class_weight
        self.ignore_index, self.class_dim = ignore_index, class_dim
        self.layout = ExactSums(
            self.problem,
            (fixed_bins(bins),) * self.problem.n_groups,
            are_logits=input == "logits",
            ignore_index=ignore_index,
        )
        self.add_state("sums", self.layout.zeros("cpu"), dist_reduce_fx="sum", persistent=True)
        # A collection of torchmetrics takes metrics whose states are equal after one batch for one.
        self.add_state("meaning", self._digest(), dist_reduce_fx="max", persistent=True)
        self._lock = threading.Lock()

    def update(self, preds: Any, target: Any) -> None:
        """Add a batch of predictions and their labels; torchmetrics has this order too.

        Parameters
        ----------
        preds : tensor
            Of the shape of `target`, or with one axis more, `class_dim`, of the classes. Two
            classes of a binary problem are one event, the second.
        target : tensor
            Class numbers, of any shape.
        """
        if self._is_synced:
            raise InvalidArgumentError(
                "Rows are added to the sums of this process; these are the sums of all, and what "
                "is added to them is lost. Call unsync() before update()."
            )
        labels, predictions = self._rows(preds, target)
        with self._lock:
            if self.sums.is_inference() and not torch.is_inference_mode_enabled():
                self.sums = self.sums.clone()
            self.layout.add(self.sums, labels, predictions)

    def result(self) -> stats.CalibrationErrorResult:
        """Return the error of all rows with its interval, noise floor and table."""
        with self.sync_context(should_sync=self.sync_on_compute and not self._is_synced):
            return self._result(self.layout.table(self.sums))

    def compute(self) -> Any:
        """Return the error of all rows, of all processes where there are several."""
        return self._value()

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw a reliability diagram of all rows, or values of several steps as torchmetrics does.

        Returns
        -------
        (figure, axes)
        """
        if val is not None:
            return self._plot(val, ax)
        from calibrant.display import ReliabilityDisplay

        drawn = ReliabilityDisplay.from_table(self.result().table, ax=ax)
        return drawn.figure_, drawn.ax_

    def _value(self) -> Any:
        table = self.layout.table(self.sums)
        value = float(self._result(table)) if table.n else float("nan")
        dtype = torch.float64 if has_float64(self.device) else torch.float32
        return torch.tensor(value, dtype=dtype, device=self.device)

    def _result(self, table: BinTable) -> stats.CalibrationErrorResult:
        if not table.n:
            raise EmptyInputError("No rows yet: call update(preds, target) before result().")
        return stats.calibration_error(
            table, norm=self.norm, debias=self.debias, class_weight=self.class_weight
        )

    def _rows(self, preds: Any, target: Any) -> tuple[Any, Any]:
        """Return labels and predictions as rows: (n,), and (n,) or (n, n_classes)."""
        for name, value in (("preds", preds), ("target", target)):
            if not isinstance(value, torch.Tensor):
                raise InvalidArgumentError(
                    f"update takes tensors, (preds, target); {name} is {type(value).__name__}. "
                    "calibrant.CalibrationMetric takes arrays."
                )
            if value.is_complex():
                raise InvalidArgumentError(
                    f"update takes real numbers; {name} is of {value.dtype}. Pass "
                    "probabilities or logits, and numbers of classes."
                )
        if preds.device != self.sums.device:
            raise InvalidArgumentError(
                f"The metric must be where the predictions are; it is on {self.sums.device}, they "
                f"are on {preds.device}. Move it once: metric.to(preds.device)."
            )
        target = target.to(preds.device, non_blocking=True)
        if not (has_float64(preds.device) or preds.is_floating_point()):
            preds = preds.float()  # there, int64 are bits
        binary, k = self.problem.kind == "binary", self.problem.n_classes
        if self.problem.has_event_columns:
            return self._label_rows(preds, target)
        if binary and preds.shape == target.shape:
            return target.reshape(-1), preds.reshape(-1)
        has_axis = preds.ndim == target.ndim + 1 and -preds.ndim <= self.class_dim < preds.ndim
        rows = preds
        if has_axis and self.class_dim not in (-1, preds.ndim - 1):
            rows = preds.movedim(self.class_dim, -1)
        widths = (1, 2) if binary else (k,)
        if not has_axis or rows.shape[:-1] != target.shape or rows.shape[-1] not in widths:
            raise InvalidShapeError(
                f"preds must have the shape of target{' or' if binary else ' and'} one axis more, "
                f"class_dim={self.class_dim}, of {k:,} classes; got preds of shape "
                f"{tuple(preds.shape)} and target of shape {tuple(target.shape)}. For (N, T, V) "
                "pass class_dim=-1."
            )
        if target.ndim != 1:
            target, rows = target.reshape(-1), rows.reshape(-1, rows.shape[-1])
        return target, self._event(rows) if binary else rows

    def _label_rows(self, preds: Any, target: Any) -> tuple[Any, Any]:
        """Return marks and predictions of several labels as rows of n_classes each."""
        axis, k = self.class_dim, self.problem.n_classes
        has_axis = -preds.ndim <= axis < preds.ndim and preds.shape[axis] == k
        if preds.shape != target.shape or not has_axis:
            raise InvalidShapeError(
                f"preds and target of several labels must have one shape, with an axis, "
                f"class_dim={axis}, of {k:,} labels; got preds of shape {tuple(preds.shape)} and "
                f"target of shape {tuple(target.shape)}. Pass 0 and 1 for each label."
            )
        marks, rows = (x.movedim(axis, -1).reshape(-1, k) for x in (target, preds))
        return marks, rows

    def _event(self, rows: Any) -> Any:
        """Return the second of two columns, or the log-odds; the first too must be possible."""
        if rows.shape[1] == 1:
            return rows[:, 0]
        first, second = rows[:, 0], rows[:, 1]
        if self.layout.are_logits:
            return wide(second) - wide(first)
        return torch.where((first >= 0) & (first <= 1), second, first)

    def _digest(self) -> Any:
        """Return a number for what the state means: which predictions were counted, and how."""
        layout = self.layout
        read = (layout.are_logits, self.ignore_index, self.class_dim)
        meaning = (layout.problem, *read, layout.bins[0].edges.tolist())
        digest = hashlib.sha256(repr(meaning).encode()).digest()
        return torch.tensor(int.from_bytes(digest[:7], "big"))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        if f"{prefix}sums" in state_dict:
            meaning = state_dict.get(f"{prefix}meaning")
            if meaning is None or int(meaning) != int(self._digest()):
                raise IncompatibleTablesError(
                    "The state of a metric belongs to its kind, bins, n_classes, input, "
                    "ignore_index and class_dim; this one was saved by another metric. Construct "
                    "it as it was when it was saved."
                )
            state_dict[f"{prefix}sums"] = state_dict[f"{prefix}sums"].to(
                self.sums.device, copy=True
            )
            super()._load_from_state_dict(state_dict, prefix, *args)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._lock = threading.Lock()
