"""Export: a fitted recalibrator as a torch module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidShapeError, MissingDependencyError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.export import is_identity, no_form, step_function
from calibrant.recalibrators.matrix import VectorScaling
from calibrant.recalibrators.multiclass import LEAST_CONFIDENCE, MARGIN, OneVsRest, TopLabel
from calibrant.recalibrators.scaling import (
    BetaScaling,
    Identity,
    PlattScaling,
    QuadraticScaling,
)
from calibrant.recalibrators.smoothing import CLIP
from calibrant.recalibrators.temperature import TemperatureScaling

Forward: TypeAlias = Callable[..., Any]
"""(torch, module, float64 scores that are possible) to recalibrated ones."""

Recipe: TypeAlias = tuple[Forward, dict[str, FloatArray], Mapping[str, Recalibrator]]


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
    >>> binned = HistogramBinning(n_bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> to_torch(binned)(torch.tensor([0.1, 0.9, float("nan")]))  # doctest: +SKIP
    tensor([0.5000, 1.0000,    nan], dtype=torch.float64)
    """
    return _module(_import_torch(), recalibrator)


def _import_torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            "to_torch needs PyTorch, which is not installed: pip install torch."
        ) from error


def _module(torch: Any, recalibrator: Recalibrator) -> Any:
    forward, buffers, parts = _recipe(recalibrator)
    logits = getattr(recalibrator, "input", "probabilities") == "logits"
    widths = _widths(recalibrator)
    of_one_score = _is_of_one_score(recalibrator)

    class Recalibration(torch.nn.Module):  # type: ignore[misc]
        """A fitted recalibrator."""

        def __init__(self) -> None:
            super().__init__()
            for name, value in buffers.items():
                self.register_buffer(name, torch.tensor(np.asarray(value), dtype=torch.float64))
            for name, part in parts.items():
                self.add_module(name, _module(torch, part))

        def forward(self, y_prob: Any) -> Any:
            """Return recalibrated probabilities."""
            _check_shape(tuple(y_prob.shape), widths)
            p = y_prob.double()
            valid = p.isfinite() if logits else (p >= 0) & (p <= 1)
            if p.ndim == 2:
                valid = valid.all(dim=1, keepdim=True)
            # Impossible rows are computed with 0, so that they leave no NaN in a gradient.
            return self._answer(p.masked_fill(~valid, 0.0)).masked_fill(~valid, float("nan"))

        def _answer(self, p: Any) -> Any:
            if p.ndim == 2 and p.shape[1] == 1:
                return forward(torch, self, p[:, 0])[:, None]
            if p.ndim == 2 and of_one_score:
                event = forward(torch, self, p[:, 1] - p[:, 0] if logits else p[:, 1])
                return torch.stack((1 - event, event), dim=1)
            return forward(torch, self, p)

        def _apply(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
            """Follow a model to its device, but not to float16: the edges would move."""
            exact = dict(self.named_buffers(recurse=False))
            super()._apply(fn, *args, **kwargs)
            for name, value in exact.items():
                setattr(self, name, value.to(getattr(self, name).device))
            return self

    return Recalibration()


def _is_of_one_score(recalibrator: Recalibrator) -> bool:
    """Tell whether two columns are the two sides of one event."""
    return isinstance(recalibrator, BinaryRecalibrator) and recalibrator.classes_.size == 2


def _widths(recalibrator: Recalibrator) -> tuple[int, ...]:
    """Return the numbers of columns that are taken; 1 stands for (n,) too."""
    n_classes = int(recalibrator.classes_.size)
    takes_one = isinstance(recalibrator, BinaryRecalibrator | Identity) and n_classes == 2
    return (1, 2) if takes_one else (n_classes,)


def _check_shape(shape: tuple[int, ...], widths: tuple[int, ...]) -> None:
    width = 1 if len(shape) == 1 else shape[-1]
    if len(shape) not in (1, 2) or width not in widths:
        shapes = " or ".join(f"(n, {width})" if width > 1 else "(n,)" for width in widths)
        raise InvalidShapeError(
            f"This module takes predictions of shape {shapes}, as the recalibrator it was made "
            f"from; got {shape}. Pass one row for each prediction, one column for each class."
        )


def _recipe(recalibrator: Recalibrator) -> Recipe:
    """Return what a module computes, its buffers and its parts."""
    if isinstance(recalibrator, OneVsRest):
        forward = partial(_one_vs_rest, normalize=recalibrator.normalize)
        return forward, {}, {f"class_{k}": r for k, r in enumerate(recalibrator.recalibrators_)}
    if isinstance(recalibrator, TopLabel):
        own = {f"class_{k}": r for k, r in enumerate(recalibrator.by_class_) if r is not None}
        return _top_label, {}, {"pooled": recalibrator.pooled_, **own}
    if steps := step_function(recalibrator):
        return _binned, {"cuts": steps[0], "levels": steps[1]}, {}
    logits = getattr(recalibrator, "input", "probabilities") == "logits"
    if isinstance(recalibrator, Identity) or is_identity(recalibrator):
        return (_squash if logits else _same), {}, {}
    return _smooth(recalibrator, logits)


def _smooth(recalibrator: Recalibrator, logits: bool) -> Recipe:
    if isinstance(recalibrator, VectorScaling):
        buffers = {
            "temperature": np.array(recalibrator.temperature_),
            "mixing": np.array(recalibrator.mixing_),
            "weight": recalibrator.weight_,
            "bias": recalibrator.bias_,
        }
        return partial(_linear, logits=logits, share=recalibrator.smoothing_), buffers, {}
    if isinstance(recalibrator, TemperatureScaling):
        buffers = {"temperature": np.array(recalibrator.temperature_)}
        return partial(_temperature, logits=logits, share=recalibrator.smoothing_), buffers, {}
    if isinstance(recalibrator, BetaScaling):
        return partial(_beta, share=recalibrator.smoothing_), {"coef": recalibrator.coef_}, {}
    if isinstance(recalibrator, PlattScaling | QuadraticScaling):
        forward = _platt if isinstance(recalibrator, PlattScaling) else _quadratic
        as_they_are = logits or recalibrator.on == "probabilities"
        computed = partial(forward, logits=as_they_are, share=recalibrator.smoothing_)
        return computed, {"coef": recalibrator.coef_}, {}
    raise no_form(recalibrator, "torch")


def _same(torch: Any, m: Any, p: Any) -> Any:
    return p


def _squash(torch: Any, m: Any, z: Any) -> Any:
    return 1 / (1 + torch.exp(-z)) if z.ndim == 1 else torch.softmax(z, dim=1)


def _binned(torch: Any, m: Any, p: Any) -> Any:
    return m.levels[torch.bucketize(p.contiguous(), m.cuts)]


def _both_sides(p: Any, share: float) -> tuple[Any, Any]:
    """Return the probabilities of the event and of its absence, away from 0 and 1."""
    if not share:
        p = p.clamp(CLIP, 1 - CLIP)
        return p, 1 - p
    return p + (0.5 - p) * share, (1 - p) + (0.5 - (1 - p)) * share


def _log_odds(torch: Any, p: Any, logits: bool, share: float) -> Any:
    if logits:
        return p
    happens, fails = _both_sides(p, share)
    return torch.log(happens / fails)


def _platt(torch: Any, m: Any, p: Any, logits: bool, share: float) -> Any:
    return _squash(torch, m, _log_odds(torch, p, logits, share) * m.coef[0] + m.coef[1])


def _quadratic(torch: Any, m: Any, p: Any, logits: bool, share: float) -> Any:
    z = _log_odds(torch, p, logits, share)
    return _squash(torch, m, z * m.coef[0] + m.coef[1] * z**2 + m.coef[2])


def _beta(torch: Any, m: Any, p: Any, share: float) -> Any:
    happens, fails = _both_sides(p, share)
    eta = torch.log(happens) * m.coef[0] + m.coef[1] * -torch.log(fails) + m.coef[2]
    return _squash(torch, m, eta)


def _log_rows(torch: Any, p: Any, logits: bool, share: float) -> Any:
    if logits:
        return p
    return torch.log(p + (1 / p.shape[1] - p) * share if share else p.clamp(min=CLIP))


def _temperature(torch: Any, m: Any, p: Any, logits: bool, share: float) -> Any:
    of_rows = _log_odds if p.ndim == 1 else _log_rows
    return _squash(torch, m, of_rows(torch, p, logits, share) / m.temperature)


def _linear(torch: Any, m: Any, p: Any, logits: bool, share: float) -> Any:
    z = _log_rows(torch, p, logits, share)
    mixed = torch.softmax(z / m.temperature, dim=1) * (1 - m.mixing)
    z = torch.log(mixed + m.mixing / p.shape[1])
    scaled = z * m.weight if m.weight.ndim == 1 else z @ m.weight.T
    return torch.softmax(scaled + m.bias, dim=1)


def _one_vs_rest(torch: Any, m: Any, p: Any, normalize: bool) -> Any:
    columns = [part(p[:, k]) for k, part in enumerate(m.children())]
    out = torch.stack(columns, dim=1)
    if not normalize:
        return out
    total = out.sum(dim=1, keepdim=True)
    return torch.where(total > 0, out / total, 1 / p.shape[1])


def _top_label(torch: Any, m: Any, p: Any) -> Any:
    confidence, top = p.max(dim=1)
    after = m.pooled(confidence)
    for name, part in m.named_children():
        if name != "pooled":
            after = torch.where(top == int(name.removeprefix("class_")), part(confidence), after)
    return _share_out(torch, p, top[:, None], after[:, None])


def _share_out(torch: Any, p: Any, top: Any, confidence: Any) -> Any:
    """Do as `calibrant.recalibrators.multiclass.share_out` does."""
    n_others = p.shape[1] - 1
    c = confidence.clamp(min=LEAST_CONFIDENCE)
    rows = p.scatter(1, top, 0.0)
    rest = rows.sum(dim=1, keepdim=True)
    rows = torch.where(rest > 0, rows / rest, 1 / n_others) * (1 - c)
    largest = rows.scatter(1, top, 0.0).amax(dim=1, keepdim=True)
    even, cap = (1 - c) / n_others, c * (1 - MARGIN)
    mixed = ((largest - cap) / (largest - even).clamp(min=LEAST_CONFIDENCE)).clamp(0, 1 - MARGIN)
    largest = (1 - mixed) * largest + mixed * even
    rows = rows * (1 - mixed) + mixed * even
    rows = rows * (cap / largest.clamp(min=LEAST_CONFIDENCE)).clamp(max=1.0)
    return rows.scatter(1, top, c)
