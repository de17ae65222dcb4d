"""Export to torch: the formula of a fitted recalibrator as a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from calibrant.exceptions import InvalidShapeError, MissingDependencyError
from calibrant.recalibrators.base import Recalibrator


def to_torch(recalibrator: Recalibrator) -> Any:
    """Return a `torch.nn.Module` that maps predictions to recalibrated ones, in float64.

    Takes the shapes that `predict_proba` takes and refuses the others. A prediction that
    `predict_proba` would refuse (NaN, infinity, a probability outside [0, 1]) becomes NaN, and
    so does its whole row of classes. Binned recalibrators answer bit for bit as `predict_proba`
    does, scaling to rounding.

    The parameters are buffers, so they follow ``module.to(device)`` and are in its state. They
    stay float64 when a model that holds the module is converted to another type.

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> import torch  # doctest: +SKIP
    >>> binned = HistogramBinning(bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> binned.to_torch()(torch.tensor([0.1, 0.9, float("nan")]))  # doctest: +SKIP
    tensor([0.5000, 1.0000,    nan], dtype=torch.float64)
    """
    try:
        torch = import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            "to_torch needs PyTorch, which is not installed: pip install torch."
        ) from error
    module = _module(torch, recalibrator)
    # A formula that torch cannot evaluate is refused now, not in production.
    module(torch.full((1, max(module.widths)), 1 / max(module.widths), dtype=torch.float64))
    return module


def _module(torch: Any, recalibrator: Recalibrator) -> Any:
    logits, of_one_event = recalibrator.input == "logits", recalibrator._reads != "classes"
    n_classes = int(recalibrator.classes_.size)
    operations = _TorchOperations(torch)

    class Recalibration(torch.nn.Module):  # type: ignore[misc]
        """A fitted recalibrator."""

        def __init__(self) -> None:
            super().__init__()
            self.widths = (1, 2) if of_one_event and n_classes == 2 else (n_classes,)
            for name in recalibrator._constants:
                value = getattr(recalibrator, name)
                if isinstance(value, Recalibrator):
                    self.add_module(name, _module(torch, value))
                elif isinstance(value, list):
                    self.add_module(name, _modules(torch, value))
                else:
                    exact = torch.tensor(np.asarray(value), dtype=torch.float64)
                    self.register_buffer(name, exact)

        def forward(self, y_prob: Any) -> Any:
            """Return recalibrated probabilities."""
            _check_shape(tuple(y_prob.shape), self.widths)
            p = y_prob.double()
            valid = p.isfinite() if logits else (p >= 0) & (p <= 1)
            if p.ndim == 2:
                valid = valid.all(dim=1, keepdim=True)
            # Impossible rows are computed with 0, so that they leave no NaN in a gradient.
            return self._answer(p.masked_fill(~valid, 0.0)).masked_fill(~valid, float("nan"))

        def _answer(self, p: Any) -> Any:
            if p.ndim == 2 and p.shape[1] == 1:
                return self._formula(p[:, 0])[:, None]
            if p.ndim == 2 and of_one_event and n_classes == 2:
                event = self._formula(p[:, 1] - p[:, 0] if logits else p[:, 1])
                return torch.stack((1 - event, event), dim=1)
            return self._formula(p)

        def _formula(self, x: Any) -> Any:
            return recalibrator._formula(operations, x, self)

        def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
            """Follow a model to its device, but not to float16: the edges would move."""
            exact = dict(self.named_buffers(recurse=False))
            super()._apply(fn, *args, **kwargs)
            for name, value in exact.items():
                setattr(self, name, value.to(getattr(self, name).device))
            return self

    return Recalibration()


def _modules(torch: Any, recalibrators: list[Recalibrator | None]) -> Any:
    return torch.nn.ModuleList(None if r is None else _module(torch, r) for r in recalibrators)


def _check_shape(shape: tuple[int, ...], widths: tuple[int, ...]) -> None:
    width = 1 if len(shape) == 1 else shape[-1]
    if len(shape) not in (1, 2) or width not in widths:
        shapes = " or ".join(f"(n, {width})" if width > 1 else "(n,)" for width in widths)
        raise InvalidShapeError(
            f"This module takes predictions of shape {shapes}, as the recalibrator it was made "
            f"from; got {shape}. Pass one row for each prediction, one column for each class."
        )


@dataclass(frozen=True)
class _TorchOperations:
    """The operations of formulas, on tensors of float64."""

    torch: Any
    target = "torch"

    def log(self, x: Any) -> Any:
        return self.torch.log(x)

    def log_complement(self, x: Any) -> Any:
        return self.torch.log1p(-x)

    def sigmoid(self, x: Any) -> Any:
        return 1 / (1 + self.torch.exp(-x))

    def clip(self, x: Any, low: float | None, high: float | None) -> Any:
        return x.clamp(low, high)

    def factor(self, x: Any) -> Any:
        return x

    def steps(self, x: Any, cuts: Any, levels: Any) -> Any:
        return levels[self.torch.bucketize(x.contiguous(), cuts)]

    def softmax(self, x: Any) -> Any:
        return self.torch.softmax(x, dim=1)

    def where(self, condition: Any, x: Any, otherwise: Any) -> Any:
        return self.torch.where(condition, x, otherwise)

    def sums(self, x: Any) -> Any:
        return x.sum(dim=1, keepdim=True)

    def largest(self, x: Any) -> Any:
        return x.amax(dim=1, keepdim=True)

    def top(self, x: Any) -> tuple[Any, Any]:
        return tuple(x.max(dim=1))

    def put(self, x: Any, top: Any, value: Any) -> Any:
        place = top[:, None]
        return x.scatter(1, place, value if isinstance(value, float) else value[:, None])

    def side_by_side(self, columns: Sequence[Any]) -> Any:
        return self.torch.stack(tuple(columns), dim=1)

    def answers(self, part: Any, x: Any) -> Any:
        return part(x)

    def answers_at(self, where: Any, part: Any, x: Any, otherwise: Any) -> Any:
        return self.torch.where(where, part(x), otherwise)
