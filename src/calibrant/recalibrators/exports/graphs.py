"""Formulas as graphs: what torch modules and ONNX models are made from.

A formula is evaluated once, on values that stand for tensors of float64; every operation adds a
node to a graph. The graph holds no Python of ours and no branch, so exporters and compilers take it
as it is. A library writes the nodes by its `Graph`.

Every number is a constant of shape (1,): `torch.onnx.export` rounds literals to float32, and its
optimizer takes scalars within 1e-5 of 1 for 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from calibrant._types import AnyArray
from calibrant.recalibrators.base import Recalibrator
from calibrant.recalibrators.reading import SEVERAL

STEEPEST = float(np.log(np.finfo(np.float64).max))
"""Log-odds below minus this have a probability of 0, to 1e-308."""


class Graph(Protocol):
    """A graph that is being written."""

    target: str

    def node(self, op: str, *args: Any) -> Any:
        """Add an operation on results of nodes and whole numbers, and return its result."""

    def constant(self, name: str | None, array: AnyArray) -> Any:
        """Add an array of float64 or int64 that the graph keeps; a learned one has a name."""


def _operator(op: str, reflected: bool = False) -> Callable[..., Value]:
    """Return a method of arithmetic that adds a node."""
    if reflected:
        return lambda value, other: node(value.graph, op, other, value)
    return lambda value, *others: node(value.graph, op, value, *others)


@dataclass(frozen=True, eq=False)
class Value:
    """The result of a node, or a constant; arithmetic with it adds nodes."""

    graph: Graph
    written: Any = None
    array: AnyArray | None = None
    """The numbers of a constant, whose size decides how a graph is written."""
    name: str | None = None
    """Of a learned constant."""
    __array_ufunc__ = None

    @cached_property
    def result(self) -> Any:
        """What the graph knows this value by; a constant is written when it is first needed."""
        if self.written is None and self.array is not None:
            return self.graph.constant(self.name, self.array)
        return self.written

    def node(self, op: str, *others: Any) -> Value:
        """Add an operation on this value and others to the graph."""
        return node(self.graph, op, self, *others)

    def __getitem__(self, key: Any) -> Value:
        """Return an entry of a constant, a column, or a column as a table; as NumPy writes them."""
        if not isinstance(key, tuple):
            if self.array is None or self.array.ndim == 1:
                return self.node("entry", key)
            return Value(self.graph, self.node("row", key).result, self.array[key])
        return self.node("column", key[1]) if key[1] is not None else self.node("table")

    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", reflected=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", reflected=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", reflected=True)
    __matmul__, __neg__ = _operator("matmul"), _operator("negative")
    __gt__, __eq__ = _operator("greater"), _operator("equal")  # type: ignore[assignment]
    T = property(_operator("transpose"))


def widths(recalibrator: Recalibrator) -> tuple[int, ...]:
    """Return how many columns a graph may be given: of one event, its own or both."""
    n_classes = int(recalibrator.classes_.size)
    return (1, 2) if recalibrator._reads not in SEVERAL and n_classes == 2 else (n_classes,)


def formula(recalibrator: Recalibrator, x: Value) -> Value:
    """Add the formula of a recalibrator to the graph of its input, and return the answers."""
    operations = _GraphOperations(x.graph, int(recalibrator.classes_.size))
    answers: Value = recalibrator._formula(operations, x, _learned(recalibrator, x.graph))
    return answers


def node(graph: Graph, op: str, *args: Any) -> Value:
    """Add an operation on values and numbers to a graph."""
    args = tuple(graph.constant(None, np.array([x])) if isinstance(x, float) else x for x in args)
    results = (arg.result if isinstance(arg, Value) else arg for arg in args)
    return Value(graph, graph.node(op, *results))


def _learned(recalibrator: Recalibrator, graph: Graph, prefix: str = "") -> SimpleNamespace:
    """Return the learned numbers of a recalibrator as constants, and those of its parts."""
    learned = SimpleNamespace(recalibrator=recalibrator, graph=graph, prefix=prefix)
    for name in recalibrator._constants:
        value, path = getattr(recalibrator, name), prefix + name.strip("_")
        if isinstance(value, Recalibrator):
            kept: Any = _learned(value, graph, f"{path}_")
        elif isinstance(value, list):
            kept = [
                None if part is None else _learned(part, graph, f"{path}_{k}_")
                for k, part in enumerate(value)
            ]
        elif value is None:
            kept = None
        else:
            kept = _constant(graph, path, np.atleast_1d(np.asarray(value, np.float64)))
        setattr(learned, name, kept)
    return learned


def _constant(graph: Graph, name: str | None, array: AnyArray) -> Value:
    return Value(graph, array=array, name=name)


def _columns(x: Value, index: Any) -> Value:
    return x.node("columns", _constant(x.graph, None, np.asarray(index)))


def _stacked(parts: Sequence[SimpleNamespace]) -> SimpleNamespace | None:
    """Return the numbers of recalibrators of one form side by side; None if they have parts.

    Each constant gets one axis more, the last, of the columns. Short ones end in infinity: above
    the last cut there is no score, so levels after it are not asked for.
    """
    first = parts[0]
    whole = SimpleNamespace(recalibrator=first.recalibrator, graph=first.graph, prefix="")
    for name in whole.recalibrator._constants:
        values = [getattr(part, name) for part in parts]
        if not all(isinstance(value, Value) for value in values):
            return None
        arrays = [value.array for value in values]
        size = max(array.shape[-1] for array in arrays)
        filled = np.full((*arrays[0].shape[:-1], size, len(arrays)), np.inf)
        for k, array in enumerate(arrays):
            filled[..., : array.shape[-1], k] = array
        path = f"{first.prefix}and_others_{name.strip('_')}"
        setattr(whole, name, _constant(whole.graph, path, filled))
    return whole


@dataclass(frozen=True)
class _GraphOperations:
    """The operations of formulas, as nodes of a graph."""

    graph: Graph
    n_classes: int
    _searches: dict[tuple[int, int], tuple[Value, Value, Value]] = field(default_factory=dict)

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
        constants: Any = cuts.array  # of formulas, cuts are never computed in the graph
        if len(constants) == 0:
            return x * 0.0 + levels[0]
        # One search serves all levels of the same cuts. What is kept alive keeps its id.
        key = (id(x), id(cuts))
        if key not in self._searches:
            self._searches[key] = x, cuts, self._count_below(x, cuts, len(constants))
        return self._take(levels, self._searches[key][2])

    def _count_below(self, x: Value, cuts: Value, size: int) -> Value:
        """Return how many cuts lie below x, by a binary search without branches.

        All rows take the same steps, so the loop is written out. The answer is `first` or at most
        `size` more.
        """
        half = -(-size // 2)
        first = (x > cuts[half - 1]).node("where", half, 0)
        while size := size - half:
            half = -(-size // 2)
            probe = self._take(cuts, first + (half - 1))
            first = first + (x > probe).node("where", half, 0)
        return first

    def _take(self, numbers: Value, index: Value) -> Value:
        """Return entries of a constant, or of the column of a table that stands at this place."""
        if numbers.array is None or numbers.array.ndim == 1:
            return numbers.node("take", index)
        n_columns = numbers.array.shape[1]
        columns = _constant(self.graph, None, np.arange(n_columns))
        return numbers.node("flat").node("take", index * n_columns + columns)

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
        own = _constant(self.graph, None, np.arange(float(self.n_classes))) == top[:, None]
        return self.where(own, value if isinstance(value, float) else value[:, None], x)

    def by_column(self, parts: Sequence[SimpleNamespace], x: Value) -> Any:
        forms: dict[Any, list[int]] = {}
        for k, part in enumerate(parts):
            own = part.recalibrator
            shape = (
                type(own),
                getattr(own, "smoothing_", None),
                getattr(own, "is_identity_", None),
            )
            forms.setdefault(shape, []).append(k)
        tables, order = [], np.concatenate([np.array(columns) for columns in forms.values()])
        for columns in forms.values():
            # Classes of one form are answered at once: a thousand classes need no thousand nodes.
            whole = _stacked([parts[k] for k in columns])
            if whole is None:
                tables += [self.answers(parts[k], x[:, k])[:, None] for k in columns]
            else:
                all_of_them = len(columns) == len(parts)
                tables.append(self.answers(whole, x if all_of_them else _columns(x, columns)))
        if len(tables) == 1:
            return tables[0]
        return _columns(tables[0].node("concatenate", *tables[1:]), np.argsort(order))

    def answers(self, part: SimpleNamespace, x: Value) -> Any:
        return part.recalibrator._formula(self, x, part)

    def answers_at(self, where: Value, part: SimpleNamespace, x: Value, otherwise: Value) -> Value:
        return self.where(where, self.answers(part, x), otherwise)
