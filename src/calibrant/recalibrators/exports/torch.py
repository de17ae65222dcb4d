"""Export to torch: the formula of a fitted recalibrator as a module."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from calibrant._types import AnyArray
from calibrant.engines.pairs import has_float64, wide, wide_array
from calibrant.exceptions import InvalidArgumentError, InvalidShapeError, MissingDependencyError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.exports.graphs import Value, formula, widths
from calibrant.recalibrators.temperature import Identity

try:
    import torch
except ImportError as error:
    raise MissingDependencyError(
        "to_torch needs PyTorch, which is not installed: pip install torch."
    ) from error


class Recalibration(torch.nn.Module):  # type: ignore[misc]
    """A fitted recalibrator that maps tensors of predictions to recalibrated ones.

    Takes the shapes that `predict_proba` takes and refuses the others. A prediction that
    `predict_proba` would refuse (NaN, infinity, a probability outside [0, 1]) becomes NaN, and so
    does its whole row of classes. Everything is computed in float64, or in pairs of float32 where
    the device has none, and rounded once, at the end, to the type of the input (float32 for
    integers) or to `dtype`. In float64, step functions answer bit for bit as `predict_proba` does,
    and smooth ones to 4.4e-16, two units in the last place of 1. Of small answers that can be many
    of their own last places, such as 28 at 3e-5: logarithms and exponentials of NumPy and torch
    differ in the last bit, which exponents multiply.

    The module can be compiled, exported (`torch.export`, ONNX), pickled and copied. What was
    learned is in its buffers, so it follows ``module.to(device)`` and is in the state. It stays
    float64 when a model that holds the module is converted to another type: edges would move.

    Parameters
    ----------
    recalibrator : fitted recalibrator
    dtype : torch.dtype, optional
        The type of the answers; that of the input unless given.

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> import torch
    >>> binned = HistogramBinning(bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> binned.to_torch()(torch.tensor([0.1, 0.9, float("nan")]))
    tensor([0.5000, 1.0000,    nan])
    """

    def __init__(self, recalibrator: Recalibrator, dtype: Any = None) -> None:
        super().__init__()
        self.dtype = dtype
        self.logits = recalibrator.input == "logits"
        self.widths = widths(recalibrator)
        self.is_identity = isinstance(recalibrator, Identity) and not self.logits
        graph = _FxGraph()
        graph.graph.output(formula(recalibrator, graph.x).result)
        self.formula = torch.fx.GraphModule(graph.root, graph.graph)

    def forward(self, y_prob: Any) -> Any:
        """Return recalibrated probabilities."""
        dtype = self.dtype or (y_prob.dtype if y_prob.is_floating_point() else torch.float32)
        if dtype == torch.float64 and not has_float64(y_prob.device):
            raise InvalidArgumentError(
                f"This module was made to answer in float64, which {y_prob.device} does not have. "
                "Make it with to_torch(), without dtype, or pass predictions on the host."
            )
        return self.wide(y_prob).to(dtype)

    def wide(self, y_prob: Any) -> Any:
        """Return recalibrated probabilities before they are rounded: in float64, or as pairs."""
        _check_shape(tuple(y_prob.shape), self.widths)
        p = wide(y_prob)
        formula = self.formula if has_float64(y_prob.device) else _OfPairs(self.formula).run
        both = self.widths == (1, 2) and p.ndim == 2 and p.shape[1] == 2
        if both and self.logits:
            p = p[:, 1:] - p[:, :1]
        valid = p.isfinite() if self.logits else (p >= 0) & (p <= 1)
        if p.ndim == 2:
            valid = valid.all(dim=1, keepdim=True)
        # Impossible rows are computed with 0, so that they leave no NaN in a gradient.
        p = torch.where(valid, p, 0.0)
        if self.is_identity:
            answers = p
        elif both:
            event = formula(p[:, -1])
            answers = torch.stack((1 - event, event), dim=1)
        elif p.ndim == 2 and p.shape[1] == 1:
            answers = formula(p[:, 0])[:, None]
        else:
            answers = formula(p)
        return torch.where(valid, answers, float("nan"))

    def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Follow a model to its device, but not to float16, nor where there is no float64."""
        if not has_float64(fn(torch.zeros(1)).device):
            return self
        exact = [
            (module, name, value)
            for module in self.modules()
            for name, value in module.named_buffers(recurse=False)
        ]
        super()._apply(fn, *args, **kwargs)
        for module, name, value in exact:
            setattr(module, name, value.to(getattr(module, name).device))
        return self


class _OfPairs(torch.fx.Interpreter):  # type: ignore[misc]
    """Evaluates a formula on pairs of float32; its constants wait on the host."""

    def run(self, x: Any) -> Any:
        """Return the answers for x."""
        self.device = x.device
        return super().run(x)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Return a constant on the device of the predictions."""
        value = super().get_attr(target, args, kwargs)
        exact = value.dtype == torch.float64
        return wide_array(value.numpy(), self.device) if exact else value.to(self.device)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Make pairs of what would be float64."""
        return wide(*args) if target == "double" else super().call_method(target, args, kwargs)


def _check_shape(shape: tuple[int, ...], widths: tuple[int, ...]) -> None:
    width = 1 if len(shape) == 1 else shape[-1]
    if len(shape) not in (1, 2) or width not in widths:
        shapes = " or ".join(f"(n, {width})" if width > 1 else "(n,)" for width in widths)
        raise InvalidShapeError(
            f"This module takes predictions of shape {shapes}, as the recalibrator it was made "
            f"from; got {shape}. Pass one row for each prediction, one column for each class."
        )


class _FxGraph:
    """A graph of torch.fx: functions of torch and buffers, and nothing of calibrant."""

    target = "torch"

    def __init__(self) -> None:
        self.root, self.graph = torch.nn.Module(), torch.fx.Graph()
        self.x = Value(self, self.graph.placeholder("x"))
        self.n_numbers = 0

    def constant(self, name: str | None, array: AnyArray) -> Any:
        if name is None:
            self.n_numbers += 1
            name = f"number_{self.n_numbers}"
        self.root.register_buffer(name, torch.tensor(array))
        return self.graph.get_attr(name)

    def node(self, op: str, *args: Any) -> Any:
        call, every = self.graph.call_function, slice(None)
        match op:
            case "table":
                return call(operator.getitem, (args[0], (every, None)))
            case "entry":
                return call(operator.getitem, (args[0], slice(args[1], args[1] + 1)))
            case "column" | "columns":
                return call(operator.getitem, (args[0], (every, args[1])))
            case "concatenate":
                return call(torch.cat, (list(args),), {"dim": 1})
            case "log of complement":
                return call(torch.log1p, (call(operator.neg, args),))
            case "softmax":
                return call(torch.softmax, args, {"dim": 1})
            case "top":
                return self.graph.call_method("double", (call(torch.argmax, args, {"dim": 1}),))
            case "sums" | "largest":
                return call(_OPERATIONS[op], args, {"dim": 1, "keepdim": True})
        return call(_OPERATIONS[op], args)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "divide": operator.truediv,
    "exp": torch.exp,
    "flat": torch.flatten,
    "equal": operator.eq,
    "greater": operator.gt,
    "largest": torch.amax,
    "log": torch.log,
    "matmul": operator.matmul,
    "multiply": operator.mul,
    "negative": operator.neg,
    "row": operator.getitem,
    "subtract": operator.sub,
    "sums": torch.sum,
    "take": operator.getitem,
    "transpose": torch.t,
    "where": torch.where,
}
