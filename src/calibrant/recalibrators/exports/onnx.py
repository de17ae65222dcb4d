"""Export to ONNX: the formula of a fitted recalibrator as a model file, without torch."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal, TypeAlias

import numpy as np

from calibrant._types import AnyArray
from calibrant._version import __version__
from calibrant._writing import replaced
from calibrant.exceptions import InvalidArgumentError, MissingDependencyError
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.exports.graphs import Value, formula, widths
from calibrant.recalibrators.reading import check_choice
from calibrant.recalibrators.temperature import Identity

try:
    import onnx
except ImportError as error:
    raise MissingDependencyError(
        "to_onnx needs the package onnx, which is not installed: pip install calibrant[onnx]. "
        "save(path) writes a fitted recalibrator without it."
    ) from error

OPSET, IR_VERSION = 17, 8
"""Old enough for every runtime since 2022, new enough for all operators in float64."""

Kind: TypeAlias = Literal["float64", "int64", "bool"]


def to_onnx(
    recalibrator: Recalibrator,
    path: str | os.PathLike[str],
    *,
    columns: int | None = None,
    dtype: Literal["float32", "float64"] = "float32",
) -> None:
    """Write a fitted recalibrator as an ONNX model; a failure changes nothing.

    The input is named "probabilities" or "logits", the output "calibrated"; both have one row for
    each prediction and are of one type. A prediction that `predict_proba` would refuse (NaN,
    infinity, a probability outside [0, 1]) becomes NaN, and so does its whole row of classes.
    Everything is computed in float64 and rounded at the end. In float64, step functions answer bit
    for bit as `predict_proba` does, and smooth ones and sums of rows to 4.4e-16, two units in the
    last place of 1. Of small answers that can be many of their own last places, such as 49 at 0.01:
    logarithms and exponentials of NumPy and ONNX Runtime differ in the last bit, which exponents
    multiply.

    Parameters
    ----------
    recalibrator : fitted recalibrator
    path : path
    columns : {1, 2}, optional
        For a recalibrator of one event: 1 reads its probability, of shape (n,); 2 reads both
        columns of a classifier, (n, 2), and answers with both. 1 unless given. A recalibrator of
        several classes reads all their columns.
    dtype : {"float32", "float64"}
        The type of input and output.

    Examples
    --------
    >>> from calibrant.recalibrators import PlattScaling
    >>> platt = PlattScaling().fit([0.1, 0.4, 0.6, 0.9], [0, 1, 0, 1])
    >>> platt.to_onnx("repair.onnx")  # doctest: +SKIP
    """
    check_choice("dtype", dtype, ("float32", "float64"))
    model = _model(recalibrator, _width(recalibrator, columns), dtype)
    onnx.checker.check_model(model, full_check=True)
    with replaced(path) as stream:
        stream.write(model.SerializeToString(deterministic=True))


def _width(recalibrator: Recalibrator, columns: int | None) -> int:
    possible = widths(recalibrator)
    width = possible[0] if columns is None else columns
    if type(width) is not int or width not in possible:
        raise InvalidArgumentError(
            f"columns must be {' or '.join(map(str, possible))} for this "
            f"{type(recalibrator).__name__}; got {columns!r:.60}. Leave it out, or fit a "
            "recalibrator on as many columns."
        )
    return width


def _model(recalibrator: Recalibrator, width: int, dtype: str) -> Any:
    graph = _OnnxGraph()
    shape = ["n"] if width == 1 else ["n", width]
    own_type = getattr(onnx.TensorProto, {"float32": "FLOAT", "float64": "DOUBLE"}[dtype])
    graph.types[recalibrator.input] = "float64"
    x = Value(graph, graph.add("Cast", recalibrator.input, to=onnx.TensorProto.DOUBLE))
    both = width == 2 and widths(recalibrator) == (1, 2)
    if both and recalibrator.input == "logits":
        x = (x[:, 1] - x[:, 0])[:, None]
    valid = _valid(graph, x, recalibrator.input, width)
    x = valid.node("where", x, 0.0)
    if isinstance(recalibrator, Identity) and recalibrator.input == "probabilities":
        answers = x
    elif both:
        event = formula(recalibrator, x[:, 0] if recalibrator.input == "logits" else x[:, 1])
        answers = (1 - event)[:, None].node("concatenate", event[:, None])
    else:
        answers = formula(recalibrator, x)
    result = valid.node("where", answers, float("nan")).result
    graph.add("Cast", result, to=own_type, output="calibrated")
    info = onnx.helper.make_tensor_value_info
    used = {name for node in graph.nodes for name in node.input}
    document = onnx.helper.make_graph(
        graph.nodes,
        type(recalibrator).__name__,
        [info(recalibrator.input, own_type, shape)],
        [info("calibrated", own_type, shape)],
        [constant for constant in graph.constants if constant.name in used],
    )
    return onnx.helper.make_model(
        document,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="calibrant",
        producer_version=__version__,
    )


def _valid(graph: _OnnxGraph, x: Value, kind: str, width: int) -> Value:
    """Tell which rows have an answer: no comparison with NaN holds."""
    if kind == "logits":
        valid = graph.add("LessOrEqual", graph.add("Abs", x.result), sys.float_info.max)
    else:
        low = graph.add("GreaterOrEqual", x.result, 0.0)
        valid = graph.add("And", low, graph.add("LessOrEqual", x.result, 1.0))
    if width > 1:
        numbers = graph.add("Cast", valid, to=onnx.TensorProto.DOUBLE)
        valid = graph.add("Greater", graph.add("ReduceMin", numbers, axes=[1]), 0.0)
    return Value(graph, valid)


class _OnnxGraph:
    """Nodes and constants of an ONNX graph; results are names."""

    target = "ONNX"

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.types: dict[str, Kind] = {}

    def constant(self, name: str | None, array: AnyArray) -> str:
        name = name or f"number_{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        self.types[name] = "int64" if array.dtype == np.int64 else "float64"
        return name

    def add(self, op: str, *args: Any, output: str | None = None, **options: Any) -> str:
        """Add a node of an ONNX operator; a number takes the type of the first named operand."""
        named = [self.types[arg] for arg in args if isinstance(arg, str)]
        number_type: Kind = next((kind for kind in named if kind != "bool"), "int64")
        names = [
            arg if isinstance(arg, str) else self.constant(None, np.array([arg], number_type))
            for arg in args
        ]
        name = output or f"{op}_{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, names, [name], **options))
        kind: Kind = number_type
        if op in ("Greater", "GreaterOrEqual", "LessOrEqual", "Equal", "And"):
            kind = "bool"
        elif op == "Cast":
            kind = "float64"
        elif op == "Where":
            kind = self.types[names[1]]
        self.types[name] = kind
        return name

    def node(self, op: str, *args: Any) -> str:
        match op:
            case "entry" | "take":
                index = args[1] if op == "take" else self._whole([args[1]])
                return self.add("Gather", args[0], index, axis=0)
            case "row" | "column":
                return self.add("Gather", args[0], self._whole(args[1]), axis=int(op == "column"))
            case "flat":
                return self.add("Reshape", args[0], self._whole([-1]))
            case "table":
                return self.add("Unsqueeze", args[0], self._whole([1]))
            case "columns":
                return self.add("Gather", *args, axis=1)
            case "concatenate":
                return self.add("Concat", *args, axis=1)
            case "sums":
                return self.add("ReduceSum", args[0], self._whole([1]), keepdims=1)
            case "largest":
                return self.add("ReduceMax", args[0], axes=[1], keepdims=1)
            case "top":
                top = self.add("ArgMax", args[0], axis=1, keepdims=0)
                return self.add("Cast", top, to=onnx.TensorProto.DOUBLE)
            case "softmax":
                # The softmax of a runtime may be coarser than its exp.
                shares = self.add("Exp", self.add("Sub", args[0], self.node("largest", *args)))
                return self.add("Div", shares, self.node("sums", shares))
            case "log of complement":
                return self.add("Log", self.add("Sub", 1.0, *args))
        return self.add(_OPERATORS[op], *args)

    def _whole(self, numbers: Any) -> str:
        return self.constant(None, np.array(numbers, np.int64))


_OPERATORS = {
    "add": "Add",
    "divide": "Div",
    "equal": "Equal",
    "exp": "Exp",
    "greater": "Greater",
    "log": "Log",
    "matmul": "MatMul",
    "multiply": "Mul",
    "negative": "Neg",
    "subtract": "Sub",
    "transpose": "Transpose",
    "where": "Where",
}
