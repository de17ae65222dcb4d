"""Formulas as graphs: what torch modules and ONNX models are made from.

A formula is evaluated once, on values that stand for tensors of float64; every operation adds a
node to a graph. The graph holds no Python of ours and no branch, so exporters and compilers take it
as it is. A library writes the nodes by its `Graph`.

Every number is a constant of shape (1,): `torch.onnx.export` rounds literals to float32, and its
optimizer takes scalars within 1e-5 of 1 for 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from calibrant._types import AnyArray
from calibrant.recalibrators.base import Recalibrator

STEEPEST = float(np.log(np.finfo(np.float64).max))
"""Log-odds below minus this have a probability of 0, to 1e-308."""


class Graph(Protocol):
    """A graph that is being written."""

    target: str

    def node(self, op: str, *args: Any) -> Any:
        """Add an operation on results of nodes and whole numbers, and return its result."""

    def constant(self, name: str | None, array: AnyArray) -> Any:
        """Add an array of float64 that the graph keeps; a learned one has a name."""


@dataclass(frozen=True, eq=False)
class Value:
    """The result of a node; arithmetic with it adds nodes."""

    graph: Graph
    result: Any
    array: AnyArray | None = None
    """The numbers of a constant, whose size decides how a graph is written."""
    __array_ufunc__ = None

    def node(self, op: str, *others: Any) -> Value:
        """Add an operation on this value and others to the graph."""
        return node(self.graph, op, self, *others)

    def __getitem__(self, key: Any) -> Value:
        """Return an entry of a constant, a column, or a column as a table; as NumPy writes them."""
        if not isinstance(key, tuple):
            is_table = self.array is not None and self.array.ndim == 2
            return self.node("row" if is_table else "entry", key)
        return self.node("column", key[1]) if key[1] is not None else self.node("table")

    def __add__(self, other: Any) -> Value:
        return self.node("add", other)

    def __radd__(self, other: Any) -> Value:
        return node(self.graph, "add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.node("subtract", other)

    def __rsub__(self, other: Any) -> Value:
        return node(self.graph, "subtract", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.node("multiply", other)

    def __rmul__(self, other: Any) -> Value:
        return node(self.graph, "multiply", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.node("divide", other)

    def __rtruediv__(self, other: Any) -> Value:
        return node(self.graph, "divide", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self.node("matmul", other)

    def __neg__(self) -> Value:
        return self.node("negative")

    @property
    def T(self) -> Value:  # noqa: N802
        """The transpose of a table."""
        return self.node("transpose")

    def __gt__(self, other: Any) -> Value:
        return self.node("greater", other)

    def __eq__(self, other: Any) -> Any:
        return self.node("equal", other)


def formula(recalibrator: Recalibrator, x: Value) -> Value:
    """Add the formula of a recalibrator to the graph of its input, and return the answers."""
    operations = _GraphOperations(x.graph, int(recalibrator.classes_.size))
    answers: Value = recalibrator._formula(operations, x, _Learned(recalibrator, x.graph))
    return answers


def node(graph: Graph, op: str, *args: Any) -> Value:
    """Add an operation on values and numbers to a graph."""
    return Value(graph, graph.node(op, *(_result(graph, arg) for arg in args)))


def _result(graph: Graph, arg: Any) -> Any:
    if isinstance(arg, float):
        return graph.constant(None, np.array([arg]))
    return arg.result if isinstance(arg, Value) else arg


class _Learned:
    """The learned numbers of a recalibrator, and those of its parts, as constants of a graph."""

    def __init__(self, recalibrator: Recalibrator, graph: Graph, prefix: str = "") -> None:
        self.recalibrator = recalibrator
        for name in recalibrator._constants:
            value, path = getattr(recalibrator, name), prefix + name.strip("_")
            if isinstance(value, Recalibrator):
                kept: Any = _Learned(value, graph, f"{path}_")
            elif isinstance(value, list):
                kept = [
                    None if part is None else _Learned(part, graph, f"{path}_{k}_")
                    for k, part in enumerate(value)
                ]
            else:
                array = np.atleast_1d(np.asarray(value, np.float64))
                kept = Value(graph, graph.constant(path, array), array)
            setattr(self, name, kept)


@dataclass(frozen=True)
class _GraphOperations:
    """The operations of formulas, as nodes of a graph."""

    graph: Graph
    n_classes: int
    _searches: dict[tuple[int, int], tuple[Value, Value]] = field(default_factory=dict)

    @property
    def target(self) -> str:
        return self.graph.target

    def log(self, x: Value) -> Value:
        return x.node("log")

    def log_complement(self, x: Value) -> Value:
        return x.node("log of complement")

    def sigmoid(self, x: Value) -> Value:
        # The sigmoid of onnxruntime has no digits near 0. Beyond the limit gradients overflow.
        return 1 / (1 + self.clip(-x, None, STEEPEST).node("exp"))

    def clip(self, x: Value, low: float | None, high: float | None) -> Value:
        if high is not None:
            x = self.where(x > high, high, x)
        return x if low is None else self.where(x > low, x, low)

    def factor(self, x: Value) -> Value:
        return x

    def steps(self, x: Value, cuts: Value, levels: Value) -> Value:
        assert cuts.array is not None  # noqa: S101
        if cuts.array.size == 0:
            return x * 0.0 + levels[0]
        # One search serves all levels of the same cuts. Keeping x keeps its id from being reused.
        key = (id(x), id(cuts))
        if key not in self._searches:
            self._searches[key] = x, _count_below(x, cuts, cuts.array.size)
        return levels.node("take", self._searches[key][1])

    def softmax(self, x: Value) -> Value:
        return x.node("softmax")

    def where(self, condition: Value, x: Any, otherwise: Any) -> Value:
        return condition.node("where", x, otherwise)

    def sums(self, x: Value) -> Value:
        return x.node("sums")

    def largest(self, x: Value) -> Value:
        return x.node("largest")

    def top(self, x: Value) -> tuple[Value, Value]:
        return self.largest(x)[:, 0], x.node("top")

    def put(self, x: Value, top: Value, value: Any) -> Value:
        columns = Value(self.graph, self.graph.constant(None, np.arange(float(self.n_classes))))
        own = columns == top[:, None]
        return self.where(own, value if isinstance(value, float) else value[:, None], x)

    def side_by_side(self, columns: Sequence[Value]) -> Value:
        return columns[0].node("side by side", *columns[1:])

    def answers(self, part: _Learned, x: Value) -> Any:
        return part.recalibrator._formula(self, x, part)

    def answers_at(self, where: Value, part: _Learned, x: Value, otherwise: Value) -> Value:
        return self.where(where, self.answers(part, x), otherwise)


def _count_below(x: Value, cuts: Value, size: int) -> Value:
    """Return how many cuts lie below x, by a binary search without branches.

    All rows take the same steps, so the loop is written out. The answer is `first` or at most
    `size` more.
    """
    half = -(-size // 2)
    first = _half_or_none(x > cuts[half - 1], half)
    while size := size - half:
        half = -(-size // 2)
        probe = cuts.node("take", first + (half - 1))
        first = first + _half_or_none(x > probe, half)
    return first


def _half_or_none(condition: Value, half: int) -> Value:
    return condition.node("where", half, 0)
