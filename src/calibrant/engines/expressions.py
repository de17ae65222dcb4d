"""Narwhals expressions that every lazy engine can run: arithmetic, comparisons, when-then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from calibrant._types import FloatArray

STEEPEST = 709.0
"""The exponential of a number beyond it is infinite, or an exception, depending on the engine."""


def narwhals() -> Any:
    """Import the package when a frame comes, and not before."""
    import narwhals

    return narwhals


def all_of(conditions: Iterable[Any]) -> Any:
    """Return whether all conditions hold."""
    return reduce(lambda a, b: a & b, conditions)


def balanced(terms: Sequence[Any]) -> Any:
    """Add terms in pairs, so that the expression stays shallow."""
    while len(terms) > 1:
        pairs = [a + b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = [*pairs, *terms[len(terms) - len(terms) % 2 :]]
    return terms[0]


def stepped(p: Any, edges: FloatArray, values: FloatArray, number: Callable[[float], Any]) -> Any:
    """Return values[j] where p lies in bin j, by halving: shallow, and exact to the last bit."""
    if edges.size == 0 or np.all(values[: edges.size + 1] == values[0]):
        return number(values[0])
    middle = edges.size // 2
    below = stepped(p, edges[:middle], values[: middle + 1], number)
    above = stepped(p, edges[middle + 1 :], values[middle + 1 :], number)
    return narwhals().when(p > number(edges[middle])).then(above).otherwise(below)


def equal(a: Any, b: Any) -> Any:
    """Return 1.0 where a equals b, else 0.0."""
    nw = narwhals()
    return nw.when(a == b).then(nw.lit(1.0)).otherwise(nw.lit(0.0))


def sigmoid(z: Any) -> Any:
    """Return 1 / (1 + exp(-z)), without an overflow, which not every engine takes for infinity."""
    nw = narwhals()
    p = nw.lit(1.0) / (nw.lit(1.0) + (-nw.when(z > -STEEPEST).then(z).otherwise(z * 0.0)).exp())
    return nw.when(z < -STEEPEST).then(nw.lit(0.0)).otherwise(p)


def sum_of_exps(scores: list[str], best: str) -> Any:
    """Return the sum of the exponentials of all scores, less the best of them."""
    nw = narwhals()
    return balanced([(nw.col(name) - nw.col(best)).exp() for name in scores])


def first_equal(columns: list[str], best: str) -> Any:
    """Return the number of the first column that equals the best."""
    nw = narwhals()
    last = nw.lit(float(len(columns)))
    places = (
        nw.when(nw.col(c) == nw.col(best)).then(nw.lit(float(k))).otherwise(last)
        for k, c in enumerate(columns)
    )
    return nw.min_horizontal(*places)


def exact_number(frame: Any) -> Callable[[float], Any]:
    """Return what makes an expression of a float, to the last bit, for this frame.

    Ibis writes floats as decimals, which DuckDB reads with an error; it reads text without.
    """
    nw = narwhals()
    if frame.implementation.is_ibis():
        return lambda x: nw.lit(repr(float(x))).cast(nw.Float64)
    return lambda x: nw.lit(float(x))
