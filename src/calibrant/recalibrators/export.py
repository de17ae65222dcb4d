"""Export: a fitted recalibrator as an SQL expression or as a torch module."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from calibrant._types import FloatArray
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.binary import BinaryRecalibrator
from calibrant.recalibrators.binning import BinnedRecalibrator
from calibrant.recalibrators.isotonic import IsotonicCalibration
from calibrant.recalibrators.matrix import MatrixScaling, VectorScaling
from calibrant.recalibrators.scaling import (
    CLIP,
    BetaScaling,
    Identity,
    LogisticScaling,
    PlattScaling,
    QuadraticScaling,
)
from calibrant.recalibrators.scaling_binning import ScalingBinning
from calibrant.recalibrators.temperature import TemperatureScaling

DIALECTS = {
    "ansi": ('"', "DOUBLE PRECISION"),
    "bigquery": ("`", "FLOAT64"),
    "duckdb": ('"', "DOUBLE"),
    "mysql": ("`", "DOUBLE"),
    "postgresql": ('"', "DOUBLE PRECISION"),
    "snowflake": ('"', "DOUBLE"),
    "spark": ("`", "DOUBLE"),
}


def to_sql(recalibrator: BinaryRecalibrator, column: str, dialect: str = "duckdb") -> str:
    """Return an SQL expression of one column that equals `predict_proba`.

    Binned recalibrators become comparisons with the same float64 numbers, so the answers are
    the same to the last bit; scaling becomes logarithms and exponentials, which databases
    round in their own way. NULL stays NULL. The name of the column is quoted.

    Parameters
    ----------
    recalibrator : fitted recalibrator of one score
    column : str
        The column of predictions (or of logits, if that is the recalibrator's input).
    dialect : {"ansi", "bigquery", "duckdb", "mysql", "postgresql", "snowflake", "spark"}

    Examples
    --------
    >>> from calibrant.recalibrators import HistogramBinning
    >>> binned = HistogramBinning(n_bins=2).fit([0.25, 0.25, 0.75, 0.75], [0, 1, 1, 1])
    >>> print(to_sql(binned, "score"))
    CASE WHEN CAST("score" AS DOUBLE) IS NULL THEN NULL
    WHEN CAST("score" AS DOUBLE) <= 5.0000000000000000e-01 THEN 5.0000000000000000e-01
    ELSE 1.0000000000000000e+00 END
    """
    if dialect not in DIALECTS:
        raise InvalidArgumentError(
            f"dialect must be one of {', '.join(DIALECTS)}; got {dialect!r:.60}."
        )
    x = f"CAST({quote(column, dialect)} AS {DIALECTS[dialect][1]})"
    steps = step_function(recalibrator)
    return _case(x, *steps) if steps else _formula(recalibrator, x)


def quote(name: str, dialect: str) -> str:
    """Quote an identifier, so that no name can end the quotation."""
    if not isinstance(name, str) or not name or "\0" in name:
        raise InvalidArgumentError(f"A column needs a name; got {name!r:.60}.")
    mark = DIALECTS[dialect][0]
    if dialect == "bigquery":
        escaped = name.replace("\\", "\\\\").replace("`", "\\`").replace("\n", "\\n")
    else:
        escaped = name.replace(mark, mark * 2)
    return f"{mark}{escaped}{mark}"


def step_function(recalibrator: Recalibrator) -> tuple[FloatArray, FloatArray] | None:
    """Return (cuts, levels) of a recalibrator with finitely many outputs, else None.

    The output is ``levels[i]`` where i counts the cuts strictly below the input.
    """
    if isinstance(recalibrator, BinnedRecalibrator) and recalibrator.keep_order:
        raise InvalidArgumentError("Only levels are exported; set keep_order=False first.")
    if isinstance(recalibrator, ScalingBinning):
        if recalibrator.cuts_ is None:
            raise InvalidArgumentError(
                "The scaler of this ScalingBinning is not increasing, so its bins are no intervals "
                "of the input and cannot be exported."
            )
        return recalibrator.cuts_, recalibrator.levels_
    if isinstance(recalibrator, BinnedRecalibrator):
        return recalibrator.bins_.edges[1:-1], recalibrator.levels_
    if isinstance(recalibrator, IsotonicCalibration) and recalibrator.interpolation == "step":
        return recalibrator.x_, recalibrator.y_
    return None


def _case(x: str, cuts: FloatArray, levels: FloatArray) -> str:
    whens = [
        f"WHEN {x} <= {_number(cut)} THEN {_number(level)}"
        for cut, level in zip(cuts, levels[:-1], strict=True)
    ]
    return "\n".join(
        [f"CASE WHEN {x} IS NULL THEN NULL", *whens, f"ELSE {_number(levels[-1])} END"]
    )


def _formula(recalibrator: BinaryRecalibrator, x: str) -> str:
    if is_identity(recalibrator) and recalibrator.input == "probabilities":
        return x
    safe = f"LEAST(GREATEST({x}, {_number(CLIP)}), {_number(1 - CLIP)})"
    logits = x if getattr(recalibrator, "input", "") == "logits" else f"LN({safe} / (1 - {safe}))"
    if isinstance(recalibrator, TemperatureScaling):
        eta = f"{logits} / {_number(recalibrator.temperature_)}"
    elif isinstance(recalibrator, PlattScaling):
        a, c = recalibrator.coef_
        eta = f"{logits} * {_number(a)} + {_number(c)}"
    elif isinstance(recalibrator, QuadraticScaling):
        a, q, c = recalibrator.coef_
        eta = f"{logits} * {_number(a)} + {_number(q)} * {logits} * {logits} + {_number(c)}"
    elif isinstance(recalibrator, BetaScaling):
        a, b, c = recalibrator.coef_
        eta = f"LN({safe}) * {_number(a)} - {_number(b)} * LN(1 - {safe}) + {_number(c)}"
    else:
        _refuse(recalibrator, "SQL")
    squashed = f"1 / (1 + EXP(LEAST(GREATEST(-({eta}), -700), 700)))"
    return f"CASE WHEN {x} IS NULL THEN NULL ELSE {squashed} END"


def _number(x: float) -> str:
    """Write a float64 so that it is read back exactly; negative ones in brackets."""
    text = f"{float(x):.16e}"
    return f"({text})" if text.startswith("-") else text


def is_identity(recalibrator: Recalibrator) -> bool:
    """Tell whether a scaling kept the scores as they are."""
    if isinstance(recalibrator, LogisticScaling):
        return recalibrator.is_identity_
    return isinstance(recalibrator, TemperatureScaling) and recalibrator.temperature_ == 1


def _refuse(recalibrator: Recalibrator, target: str) -> Any:
    raise InvalidArgumentError(
        f"{type(recalibrator).__name__} has no form in {target}; binned and scaling "
        "recalibrators do."
    )


def to_torch(recalibrator: Recalibrator) -> Any:
    """Return a `torch.nn.Module` that maps predictions to recalibrated ones, in float64.

    The parameters are buffers, so they follow ``module.to(device)`` and are in its state.
    Binned recalibrators answer bit for bit as `predict_proba` does, scaling to rounding.
    """
    torch = _import_torch()
    steps = step_function(recalibrator)
    if steps:
        return _module(torch, _binned, cuts=steps[0], levels=steps[1])
    if is_identity(recalibrator) or isinstance(recalibrator, Identity):
        logits = getattr(recalibrator, "input", "") == "logits"
        return _module(torch, _squash if logits else _same)
    name = type(recalibrator).__name__
    if name not in _FORWARD:
        _refuse(recalibrator, "torch")
    logits = np.array(
        float(recalibrator.input == "logits" if hasattr(recalibrator, "input") else 0)
    )
    if isinstance(recalibrator, VectorScaling):
        buffers = {
            "temperature": np.array(recalibrator.temperature_),
            "mixing": np.array(recalibrator.mixing_),
            "weight": recalibrator.weight_,
            "bias": recalibrator.bias_,
        }
    elif isinstance(recalibrator, TemperatureScaling):
        buffers = {"temperature": np.array(recalibrator.temperature_)}
    else:
        buffers = {"coef": recalibrator.coef_}
    return _module(torch, _FORWARD[name], logits=logits, **buffers)


def _import_torch() -> Any:
    try:
        return import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            "to_torch needs PyTorch, which is not installed: pip install torch."
        ) from error


def _module(torch: Any, forward: Any, **buffers: FloatArray) -> Any:
    class Recalibration(torch.nn.Module):  # type: ignore[misc]
        """A fitted recalibrator."""

        def __init__(self) -> None:
            super().__init__()
            for name, value in buffers.items():
                self.register_buffer(name, torch.tensor(np.asarray(value), dtype=torch.float64))

        def forward(self, y_prob: Any) -> Any:
            """Return recalibrated probabilities."""
            return forward(torch, self, y_prob.double())

    return Recalibration()


def _same(torch: Any, m: Any, p: Any) -> Any:
    return p


def _squash(torch: Any, m: Any, z: Any) -> Any:
    return 1 / (1 + torch.exp(-z)) if z.ndim == 1 else torch.softmax(z, dim=1)


def _binned(torch: Any, m: Any, p: Any) -> Any:
    return m.levels[torch.bucketize(p.contiguous(), m.cuts)]


def _logit(torch: Any, m: Any, p: Any) -> Any:
    if m.logits:
        return p
    p = p.clamp(CLIP, 1 - CLIP)
    return torch.log(p / (1 - p))


def _platt(torch: Any, m: Any, p: Any) -> Any:
    return _squash(torch, m, _logit(torch, m, p) * m.coef[0] + m.coef[1])


def _quadratic(torch: Any, m: Any, p: Any) -> Any:
    z = _logit(torch, m, p)
    return _squash(torch, m, z * m.coef[0] + m.coef[1] * z**2 + m.coef[2])


def _beta(torch: Any, m: Any, p: Any) -> Any:
    p = p.clamp(CLIP, 1 - CLIP)
    eta = torch.log(p) * m.coef[0] + m.coef[1] * -torch.log1p(-p) + m.coef[2]
    return _squash(torch, m, eta)


def _log_rows(torch: Any, m: Any, p: Any) -> Any:
    return p if m.logits else torch.log(p.clamp(min=CLIP))


def _temperature(torch: Any, m: Any, p: Any) -> Any:
    z = _logit(torch, m, p) if p.ndim == 1 else _log_rows(torch, m, p)
    return _squash(torch, m, z / m.temperature)


def _linear(torch: Any, m: Any, p: Any) -> Any:
    mixed = torch.softmax(_log_rows(torch, m, p) / m.temperature, dim=1) * (1 - m.mixing)
    z = torch.log(mixed + m.mixing / p.shape[1])
    scaled = z * m.weight if m.weight.ndim == 1 else z @ m.weight.T
    return torch.softmax(scaled + m.bias, dim=1)


_FORWARD = {
    PlattScaling.__name__: _platt,
    QuadraticScaling.__name__: _quadratic,
    BetaScaling.__name__: _beta,
    TemperatureScaling.__name__: _temperature,
    VectorScaling.__name__: _linear,
    MatrixScaling.__name__: _linear,
}
